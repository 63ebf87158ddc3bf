"""Ways to be green for a wrong reason, as a table: what is done to a healthy pair, and what a user must see.

``python -m e2e.wrong_greens`` (from ``tests``) runs them all and prints the table.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"
TORCHAIR, DUMPS, OFFLINE = EXAMPLES / "torchair", EXAMPLES / "dump_json", EXAMPLES / "offline"

Change = Callable[[Path], None]
"""Changes the copies ``target``, ``golden`` and the files beside them in a folder."""


@dataclass(frozen=True)
class Scenario:
    """A healthy pair, copied for each variant.

    Args:
        workflow: packaged workflow.
        target, golden: the dumps.
        files: parameter -> further files.
    """

    workflow: str
    target: Path
    golden: Path
    files: dict[str, Path] = field(default_factory=dict)


SCENARIOS = {
    "torchair": Scenario(
        "torchair_ge_vs_fx", TORCHAIR / "healthy" / "msprobe_ge_dump", TORCHAIR / "healthy" / "msprobe_fx_dump"
    ),
    "faulty torchair": Scenario(
        "torchair_ge_vs_fx", TORCHAIR / "faulty" / "msprobe_ge_dump", TORCHAIR / "faulty" / "msprobe_fx_dump"
    ),
    "two device dumps": Scenario(
        "torchair_fusion_on_vs_off", TORCHAIR / "healthy" / "msprobe_ge_dump", TORCHAIR / "healthy" / "msprobe_ge_dump"
    ),
    "reduced": Scenario(
        "torchair_minmax", TORCHAIR / "healthy" / "msprobe_ge_dump", TORCHAIR / "healthy" / "msprobe_fx_dump"
    ),
    "pytorch": Scenario("pytorch_compare", DUMPS / "golden", DUMPS / "golden"),
    "faulty pytorch": Scenario("pytorch_compare", DUMPS / "target", DUMPS / "golden"),
    "mindspore": Scenario("mindspore_compare", DUMPS / "mindspore_golden", DUMPS / "mindspore_golden"),
    "ranks": Scenario(
        "multi_rank_merge", DUMPS / "ranks_golden", DUMPS / "ranks_golden", {"merge": DUMPS / "merge_config.yaml"}
    ),
    "layers": Scenario(
        "mindspore_vs_pytorch_layer_mapping",
        DUMPS / "mindspore_twin",
        DUMPS / "pytorch_twin",
        {"mapping": DUMPS / "layer_mapping.yaml"},
    ),
    "apis": Scenario(
        "mindspore_vs_pytorch_api_mapping",
        DUMPS / "mindspore_twin",
        DUMPS / "pytorch_twin",
        {"mapping": DUMPS / "api_mapping.yaml"},
    ),
    "offline": Scenario(
        "offline_om_vs_caffe",
        OFFLINE / "caffe" / "healthy",
        OFFLINE / "caffe" / "golden",
        {"fusion_rule": OFFLINE / "caffe" / "fusion_rule.json"},
    ),
    "faulty offline": Scenario(
        "offline_om_vs_caffe",
        OFFLINE / "caffe" / "target",
        OFFLINE / "caffe" / "golden",
        {"fusion_rule": OFFLINE / "caffe" / "fusion_rule.json"},
    ),
    "quantised": Scenario(
        "offline_quantized",
        OFFLINE / "quantised" / "target",
        OFFLINE / "onnx" / "golden",
        {
            "fusion_rule": OFFLINE / "quantised" / "fusion_rule.json",
            "quant_fusion_rule": OFFLINE / "quantised" / "quant_fusion_rule.json",
        },
    ),
}


@dataclass(frozen=True)
class Variant:
    """One way to be wrongly green.

    Args:
        scenario: key of `SCENARIOS`.
        name: what is done.
        code: the exit code that is right.
        words: parts of the last line; of the error messages where nothing runs.
        change: what is done to the dumps.
        stages: options laid over the stages of the workflow, in flow style, e.g. ``result: {gate: all_pass}``.
        options: of ``probe-flow run``.
        sets: parameters in place of the copies; None leaves one unset.
    """

    scenario: str
    name: str
    code: int
    words: tuple[str, ...]
    change: Change | None = None
    stages: str = ""
    options: tuple[str, ...] = ()
    sets: dict[str, str | None] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.scenario}: {self.name}"


def prepare(variant: Variant, folder: Path) -> list[str]:
    """Copy the pair into a folder, change it, write the workflow, and return the arguments of ``probe-flow``."""
    scenario = SCENARIOS[variant.scenario]
    paths = {"target": folder / "target", "golden": folder / "golden"}
    shutil.copytree(scenario.target, paths["target"])
    shutil.copytree(scenario.golden, paths["golden"])
    for name, file in scenario.files.items():
        paths[name] = folder / file.name
        shutil.copyfile(file, paths[name])
    params: dict[str, str | None] = {**{name: str(path) for name, path in paths.items()}, **variant.sets}
    given = "".join(f"  {name}: {{default: {value}}}\n" for name, value in params.items() if value is not None)
    workflow = folder / "w.yaml"
    stages = f"stages:\n{variant.stages}\n" if variant.stages else ""
    params_text = f"params:\n{given}" if given else ""
    workflow.write_text(f"version: 1\nname: w\nextends: template:{scenario.workflow}\n{params_text}{stages}")
    if variant.change is not None:
        variant.change(folder)
    return ["run", str(workflow), "--output", str(folder / "out"), *variant.options]


# What is done to dumps. Places of tensors are taken from file names and formats, never from a reader of ours.


def files_of(folder: Path) -> list[Path]:
    """The tensor files of a dump, in the order of their names; what describes it (JSON, text, CSV) is none."""
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".json", ".txt", ".csv", ".py"}
    )


def without_files(side: str, *, last: float | None = None, every: int = 2) -> Change:
    """Remove every second operator, or the last part of them."""

    def change(folder: Path) -> None:
        by_operator: dict[str, list[Path]] = {}
        for path in files_of(folder / side):
            by_operator.setdefault(operator_of(path), []).append(path)
        names = list(by_operator)
        gone = names[int(len(names) * (1 - last)) :] if last is not None else names[::every]
        for name in gone:
            for path in by_operator[name]:
                path.unlink()

    return change


def without_named(side: str, *parts: str) -> Change:
    """Remove the files with one of these parts in their names."""

    def change(folder: Path) -> None:
        for path in files_of(folder / side):
            if any(part in path.name for part in parts):
                path.unlink()

    return change


def operator_of(path: Path) -> str:
    """``gelu_1-aten.gelu.default.OUTPUT.0.TIME.npy`` -> ``gelu_1``; ``Gelu.Gelu_1.2.3.TIME`` -> ``Gelu_1``."""
    name = path.name
    return (
        name.split("-")[0] if "-aten" in name else name.split(".")[1] if path.suffix != ".npy" else name.split(".")[0]
    )


def both(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def entries(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.rglob("dump.json")):
        yield path, json.loads(path.read_text(encoding="utf-8"))


def with_broken_json(name: str) -> Change:
    """Add a dump whose file ends in the middle."""

    def change(folder: Path) -> None:
        (folder / name).mkdir()
        (folder / name / "dump.json").write_text('{"task": "statistics", "level": "L1", "data": {', encoding="utf-8")

    return change


def without_entries(side: str, *, last: float | None = None) -> Change:
    """Remove every second call of a dump.json with its backward, or the last part of the entries."""

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            names = list(document["data"])
            if last is not None:
                gone = set(names[int(len(names) * (1 - last)) :])
            else:
                calls = list(dict.fromkeys(call_of(name) for name in names))
                gone = {name for name in names if call_of(name) in calls[::2]}
            document["data"] = {name: entry for name, entry in document["data"].items() if name not in gone}
            path.write_text(json.dumps(document), encoding="utf-8")

    return change


def call_of(name: str) -> str:
    return re.sub(r"\.(forward|backward)", "", name)


def one_statistic(side: str, entry: str, key: str, value: float | None) -> Change:
    """Let one recorded statistic of the first output of an entry be another."""

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            document["data"][entry]["output"][0][key] = value
            path.write_text(json.dumps(document), encoding="utf-8")

    return change


def statistics(side: str, value: float | None) -> Change:
    """Let every recorded statistic be one value."""

    def set_all(node: Any) -> None:
        if isinstance(node, dict):
            for key in ("Max", "Min", "Mean", "Norm"):
                if key in node:
                    node[key] = value
            for child in node.values():
                set_all(child)
        elif isinstance(node, list):
            for child in node:
                set_all(child)

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            set_all(document["data"])
            path.write_text(json.dumps(document), encoding="utf-8")

    return change


def other_values(side: str) -> Change:
    """Let recorded statistics be those of another model: same names and shapes, other numbers."""

    def scale(node: Any, factor: float) -> Any:
        if isinstance(node, dict):
            is_float = "float" in str(node.get("dtype"))
            return {
                key: value * factor
                if is_float and key in ("Max", "Min", "Mean", "Norm") and isinstance(value, float)
                else scale(value, factor)
                for key, value in node.items()
            }
        return [scale(child, factor) for child in node] if isinstance(node, list) else node

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            names = document["data"]
            document["data"] = {
                name: scale(entry, 1.5 + place % 3) for place, (name, entry) in enumerate(names.items())
            }
            path.write_text(json.dumps(document), encoding="utf-8")

    return change


def arrays(side: str, make: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], *, only: str = "*.npy") -> Change:
    """Rewrite the floating point arrays of a folder of `.npy` files."""

    def change(folder: Path) -> None:
        for path in sorted((folder / side).rglob(only)):
            values = np.load(path)
            if values.dtype.kind == "f":
                np.save(path, make(values))

    return change


def opaque(side: str) -> Change:
    """Replace arrays of outputs by arrays of objects, as a collector writes that does not know what it saves."""

    def change(folder: Path) -> None:
        for path in sorted((folder / side).rglob("*.npy")):
            if "INPUT" not in path.name:
                np.save(path, np.array([None, None], dtype=object), allow_pickle=True)

    return change


def device_files(side: str, pattern: bytes) -> Change:
    """Overwrite the tensor bytes of device files: a file is a length, a header of that length, then the tensors."""

    def change(folder: Path) -> None:
        for path in files_of(folder / side):
            data = path.read_bytes()
            start = 8 + int.from_bytes(data[:8], "little")
            rest = len(data) - start
            path.write_bytes(data[:start] + (pattern * (rest // len(pattern) + 1))[:rest])

    return change


def measured_before(change: Change) -> Change:
    """Run the workflow on the pair as it is, then change files in place without that their times tell."""

    def run_and_change(folder: Path) -> None:
        paths = [path for side in ("target", "golden") for path in (folder / side).rglob("*")]
        for path in paths:
            os.utime(path, (1_700_000_000, 1_700_000_000))
        command = [
            sys.executable,
            "-m",
            "probe_flow",
            "run",
            str(folder / "w.yaml"),
            "--output",
            str(folder / "before"),
        ]
        subprocess.run(command, capture_output=True, check=True, timeout=300, cwd=folder)
        sizes = [path.stat().st_size for path in paths]
        change(folder)
        assert [path.stat().st_size for path in paths] == sizes
        for path in paths:
            os.utime(path, (1_700_000_000, 1_700_000_000))

    return run_and_change


def truncated(side: str, name: str, share: float = 0.6) -> Change:
    def change(folder: Path) -> None:
        for path in (folder / side).rglob(name):
            data = path.read_bytes()
            path.write_bytes(data[: int(len(data) * share)])

    return change


def emptied(side: str) -> Change:
    def change(folder: Path) -> None:
        shutil.rmtree(folder / side)
        (folder / side).mkdir()

    return change


def removed(*names: str) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            for path in folder.glob(name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def linked(how: Callable[[str, str], object]) -> Change:
    """Make the golden side a second name of the target's files."""

    def change(folder: Path) -> None:
        shutil.rmtree(folder / "golden")
        shutil.copytree(folder / "target", folder / "golden", copy_function=how)

    return change


def symlinked(folder: Path) -> None:
    shutil.rmtree(folder / "golden")
    (folder / "golden").symlink_to(folder / "target")


def added(name: str, text: str) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")

    return change


def written(name: str, text: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return change


def appended(pattern: str, data: bytes) -> Change:
    """Write something behind the end of the middle one of some files."""

    def change(folder: Path) -> None:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        with found[len(found) // 2].open("ab") as file:
            file.write(data)

    return change


def folder_in_place(pattern: str) -> Change:
    """Put an empty folder where the middle one of some files is."""

    def change(folder: Path) -> None:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        found[len(found) // 2].unlink()
        found[len(found) // 2].mkdir()

    return change


def replaced_text(pattern: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        found = list(folder.glob(pattern))
        assert found, pattern
        for path in found:
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    return change


def renamed_layers(folder: Path) -> None:
    """Let two layers of the golden have names that neither the target nor the mapping knows."""

    def renamed(text: str) -> str:
        return text.replace("Module.head.", "Module.classifier.").replace("Module.norm.", "Module.last_norm.")

    for path in sorted((folder / "golden").rglob("*")):
        if path.suffix == ".json":
            path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
        elif path.is_file():
            path.rename(path.with_name(renamed(path.name)))


def without_calls(side: str, *names: str) -> Change:
    """Remove the entries of a dump.json that begin with these names."""

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            document["data"] = {name: entry for name, entry in document["data"].items() if not name.startswith(names)}
            path.write_text(json.dumps(document), encoding="utf-8")

    return change


def integers_only(side: str) -> Change:
    """Leave the entries of a dump.json none of whose tensors has a fraction, and the `.npy` files of integers."""

    def change(folder: Path) -> None:
        for path, document in entries(folder / side):
            document["data"] = {
                name: entry for name, entry in document["data"].items() if "float" not in json.dumps(entry)
            }
            path.write_text(json.dumps(document), encoding="utf-8")
        for path in sorted((folder / side).rglob("*.npy")):
            if np.load(path).dtype.kind not in "iub":
                path.unlink()

    return change


TWO_ITEMS = """\
Cell.mlp.dense1.Dense.forward.0.output.0: Module.mlp.fc1.Linear.forward.0.output.0
Cell.mlp.dense2.Dense.forward.0.output.0: Module.mlp.fc2.Linear.forward.0.output.0
"""


def nan(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.full_like(values, np.nan)


def zero(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.zeros_like(values)


def other(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(values.size).standard_normal(values.shape).astype(values.dtype)


NAN16, ZERO = b"\xff\x7f", b"\0"
NAN = float("nan")
ADDED = "Tensor.__add__.0.forward"
HALF = ("outputs were compared",)
RAN = "of operators that ran are not in the dump"
SAME = "same dump on both sides"
PARTLY = "partly: "

VARIANTS = [
    # The pairs as they are, so that what follows is about the change.
    Variant("torchair", "untouched", 0, ("PASS no operator of the target goes wrong", "143 of 143 compared")),
    Variant("pytorch", "untouched", 0, ("PASS no operator of the target goes wrong", "187 of 187 compared")),
    Variant("mindspore", "untouched", 0, ("PASS no operator of the target goes wrong",)),
    Variant("ranks", "untouched", 0, ("PASS no operator of the target goes wrong",)),
    Variant("layers", "untouched", 0, ("PASS no operator of the target goes wrong", "96 of 96 compared")),
    Variant("apis", "untouched", 0, ("PASS no operator that was compared", PARTLY)),
    Variant("offline", "untouched", 0, ("PASS no operator of the target goes wrong", "21 of 21 compared")),
    Variant("quantised", "untouched", 0, ("PASS no operator that was compared goes wrong", PARTLY)),
    Variant("reduced", "untouched", 0, ("PASS no operator of the target goes wrong",)),
    Variant("two device dumps", "untouched", 0, ("PASS no operator of the target goes wrong",)),
    # Half of it gone.
    Variant("torchair", "every second target operator gone", 3, HALF, without_files("target")),
    Variant("torchair", "every second golden node gone", 3, HALF, without_files("golden")),
    Variant("torchair", "last 40 % of the target gone", 3, HALF, without_files("target", last=0.4)),
    Variant("two device dumps", "every second golden operator gone", 3, HALF, without_files("golden")),
    Variant("reduced", "every second target operator gone", 3, HALF, without_files("target")),
    Variant("pytorch", "every second target call gone", 3, HALF, without_entries("target")),
    Variant("pytorch", "every second golden call gone", 3, HALF, without_entries("golden")),
    Variant("pytorch", "last 40 % of the target gone", 3, HALF, without_entries("target", last=0.4)),
    Variant("mindspore", "last 40 % of the target gone", 3, HALF, without_entries("target", last=0.4)),
    Variant("ranks", "last 40 % of the golden gone", 3, HALF, without_entries("golden", last=0.4)),
    Variant("layers", "every second golden call gone", 3, HALF, without_entries("golden")),
    Variant("layers", "last 40 % of the target gone", 3, HALF, without_entries("target", last=0.4)),
    Variant("offline", "every second target operator gone", 3, HALF, without_files("target")),
    Variant("offline", "every second golden array gone", 3, HALF, without_files("golden")),
    Variant("quantised", "last 40 % of the target gone", 3, HALF, without_files("target", last=0.4)),
    # Half of it gone on both sides, so that what is left agrees.
    Variant(
        "torchair",
        "most operators gone on both sides",
        3,
        (*HALF, RAN),
        both(
            without_named("target", "MatMulV2.", "BatchMatMul.", "SoftmaxV2.", "Gelu.", "Transpose."),
            without_named("golden", "aten.addmm", "aten.bmm", "aten._softmax", "aten.gelu", "aten.t.", "aten.transp"),
        ),
    ),
    Variant(
        "reduced",
        "most operators gone on both sides",
        3,
        (*HALF, RAN),
        both(
            without_named("target", "MatMulV2.", "BatchMatMul.", "SoftmaxV2.", "Gelu.", "Transpose."),
            without_named("golden", "aten.addmm", "aten.bmm", "aten._softmax", "aten.gelu", "aten.t.", "aten.transp"),
        ),
    ),
    Variant(
        "two device dumps",
        "every second operator gone on both sides",
        3,
        (*HALF, RAN),
        both(without_files("target"), without_files("golden")),
    ),
    Variant(
        "pytorch",
        "every second call gone on both sides",
        3,
        (*HALF, RAN),
        both(without_entries("target"), without_entries("golden")),
    ),
    Variant(
        "pytorch",
        "last 40 % gone on both sides",
        3,
        (*HALF, RAN),
        both(without_entries("target", last=0.4), without_entries("golden", last=0.4)),
    ),
    Variant(
        "mindspore",
        "every second call gone on both sides",
        3,
        (*HALF, RAN),
        both(without_entries("target"), without_entries("golden")),
    ),
    Variant(
        "ranks",
        "every second call gone on both sides",
        3,
        (*HALF, RAN),
        both(without_entries("target"), without_entries("golden")),
    ),
    Variant(
        "offline",
        "half of the network gone on both sides",
        3,
        (*HALF, RAN),
        both(
            without_named("target", "conv1", "pool1", "block_conv2"),
            without_named("golden", "conv1", "bn1", "relu1", "pool1", "block_conv2", "block_bn2", "block_add"),
        ),
    ),
    # Another model, or nothing that says anything.
    Variant("torchair", "golden of another model with these names", 1, ("FAIL ",), arrays("golden", other)),
    Variant("pytorch", "golden of another model with these names", 1, ("FAIL ",), other_values("golden")),
    Variant("offline", "golden of another model with these names", 1, ("FAIL ",), arrays("golden", other)),
    Variant(
        "torchair",
        "everything is NaN on both sides",
        3,
        ("NaN or infinite everywhere on both sides",),
        both(device_files("target", NAN16), arrays("golden", nan)),
    ),
    Variant(
        "pytorch",
        "everything is NaN on both sides",
        3,
        ("NaN or infinite everywhere on both sides",),
        both(statistics("target", NAN), statistics("golden", NAN)),
    ),
    Variant(
        "offline",
        "everything is NaN on both sides",
        3,
        ("NaN or infinite everywhere on both sides",),
        both(device_files("target", NAN16), arrays("golden", nan)),
    ),
    Variant(
        "torchair",
        "everything is zero on both sides",
        3,
        ("zero everywhere on both sides",),
        both(device_files("target", ZERO), arrays("golden", zero)),
    ),
    Variant(
        "pytorch",
        "everything is zero on both sides",
        3,
        ("zero everywhere on both sides",),
        both(statistics("target", 0.0), statistics("golden", 0.0)),
    ),
    Variant(
        "offline",
        "everything is zero on both sides",
        3,
        ("zero everywhere on both sides",),
        both(device_files("target", ZERO), arrays("golden", zero)),
    ),
    Variant(
        "pytorch",
        "no statistic is recorded",
        3,
        HALF,
        both(statistics("target", None), statistics("golden", None)),
    ),
    Variant("torchair", "only integers in the golden", 3, HALF, integers_only("golden")),
    Variant("layers", "only integers in the golden", 3, ("INCOMPLETE ",), integers_only("golden")),
    Variant("torchair", "golden outputs are objects", 3, ("outputs were compared",), opaque("golden")),
    Variant("offline", "golden outputs are objects", 3, ("nothing was compared",), opaque("golden")),
    # What was measured before.
    Variant(
        "torchair",
        "a measured file is written anew with its old size and time",
        1,
        ("FAIL ",),
        measured_before(arrays("golden", other, only="gelu_1-*.OUTPUT.0.*.npy")),
    ),
    # The same dump.
    Variant("pytorch", "same folder", 3, (SAME,), sets={"golden": "target"}),
    Variant("pytorch", "same folder in another spelling", 3, (SAME,), sets={"golden": "golden/../target"}),
    Variant("pytorch", "same folder by symbolic link", 3, (SAME,), symlinked),
    Variant("pytorch", "same files by hard link", 3, (SAME,), linked(os.link)),
    Variant("two device dumps", "same files by hard link", 3, (SAME,), linked(os.link)),
    Variant("ranks", "same folder by symbolic link", 3, (SAME,), symlinked),
    Variant("mindspore", "same files by symbolic link", 3, (SAME,), linked(os.symlink)),
    Variant(
        "pytorch",
        "same folder, warning as error",
        2,
        ("PF2110",),
        sets={"golden": "target"},
        options=("--warn-as-error", "PF2110"),
    ),
    Variant(
        "pytorch",
        "same folder, as the workflow says",
        0,
        ("PASS ", SAME),
        sets={"golden": "target"},
        stages="  result: {require: {two_dumps: false}}",
    ),
    Variant(
        "pytorch",
        "a stage that fails and that no report needs",
        3,
        ("INCOMPLETE stage `spare` failed: [PF3407]",),
        with_broken_json("spare"),
        stages="  spare: {uses: dump.torch, path: spare}",
    ),
    # Asking for less.
    Variant("torchair", "selection of nothing", 3, ("INCOMPLETE ",), stages="  target: {select: {nodes: [nothing]}}"),
    Variant("pytorch", "selection of nothing", 2, ("PF3404",), stages="  target: {select: {steps: [7]}}"),
    Variant(
        "torchair",
        "selection of one operator",
        0,
        (PARTLY, "selected part"),
        stages="  target: {select: {nodes: [Gelu_1]}}",
    ),
    Variant(
        "pytorch",
        "selection of a few calls",
        0,
        (PARTLY, "selected part"),
        stages=(
            "  target: {select: {nodes: ['Functional.linear']}}\n  golden: {select: {nodes: ['Functional.linear']}}"
        ),
    ),
    Variant(
        "faulty torchair",
        "loosened policy",
        1,
        ("FAIL Gelu_1",),
        stages="  result: {policy: [{pass: {max_abs_err: '>= 0'}}]}",
    ),
    Variant(
        "faulty torchair",
        "loosened policy under all_pass",
        0,
        ("although the target first goes wrong at Gelu_1",),
        stages="  result: {gate: all_pass, policy: [{pass: {max_abs_err: '>= 0'}}]}",
    ),
    Variant("torchair", "policy without rules", 2, ("it has no rules",), stages="  result: {policy: []}"),
    Variant(
        "torchair",
        "policy without bounds under all_pass",
        2,
        ("pass",),
        stages="  result: {gate: all_pass, policy: [{pass: {}}]}",
    ),
    Variant("torchair", "empty gate", 2, ("gate",), stages="  result: {gate: ''}"),
    Variant(
        "faulty torchair",
        "waiver of everything",
        2,
        ("waives every row",),
        stages="  result: {waivers: [{where: {}, reason: r, owner: o, expires: 9999-12-31}]}",
    ),
    Variant(
        "faulty torchair",
        "waiver of every name",
        0,
        ("beyond what is waived or accepted",),
        stages="  result: {waivers: [{where: {node: '*'}, reason: r, owner: o, expires: 9999-12-31}]}",
    ),
    Variant(
        "torchair", "the first element only", 0, (PARTLY, "first 1 elements"), stages="  result: {max_elements: 1}"
    ),
    Variant(
        "torchair",
        "half of it gone and accepted",
        0,
        (PARTLY, "coverage of 10% accepted", "missing"),
        without_files("target"),
        options=("--min-coverage", "0.1"),
    ),
    Variant(
        "pytorch",
        "half of it gone and accepted in the workflow",
        0,
        (PARTLY, "coverage of 10% accepted", "missing"),
        without_entries("target"),
        stages="  result: {require: {coverage: 0.1}}",
    ),
    Variant(
        "torchair",
        "no comparison asked for",
        0,
        ("DONE the workflow ended; it compares nothing",),
        options=("--only", "pairs"),
    ),
    # Executions.
    Variant(
        "ranks",
        "a rank is missing in the target",
        3,
        ("rank 1 step 0 of the golden", "no such execution"),
        removed("target/step0/rank1"),
    ),
    Variant(
        "ranks",
        "a rank is missing in the golden",
        3,
        ("rank 1 step 0 of the target", "no such execution"),
        removed("golden/step0/rank1"),
    ),
    Variant(
        "ranks",
        "a rank is missing and left out",
        0,
        (PARTLY, "selected part"),
        removed("target/step0/rank1"),
        stages="  target: {select: {ranks: [0]}}\n  golden: {select: {ranks: [0]}}\n"
        "  report: {formats: [jsonl, html, junit]}",
    ),
    Variant(
        "ranks",
        "a rank is missing and accepted",
        0,
        (PARTLY, "missing"),
        removed("target/step0/rank1"),
        options=("--min-coverage", "0.4"),
    ),
    Variant(
        "ranks",
        "ranks paired that are not there",
        3,
        ("matches nothing",),
        stages="  pairs: {pair_ranks: {0: 0, 7: 7}}",
    ),
    Variant("torchair", "steps shifted", 3, ("nothing was compared",), stages="  pairs: {step_offset: 5}"),
    Variant("pytorch", "steps shifted", 3, ("`step_offset` 5 matches nothing",), stages="  pairs: {step_offset: 5}"),
    # Mappings and rules.
    Variant(
        "layers",
        "an entry matches nothing",
        3,
        ("matches nothing", "ghost"),
        added("layer_mapping.yaml", "  ghost: fc9\n"),
    ),
    Variant(
        "layers",
        "an entry leads nowhere",
        3,
        ("matches nothing", "fc9"),
        replaced_text("layer_mapping.yaml", "dense1: fc1", "dense1: fc9"),
    ),
    Variant(
        "layers",
        "an entry matches nothing, and that is meant",
        0,
        ("PASS ",),
        added("layer_mapping.yaml", "  ghost: fc9\n"),
        stages="  result: {require: {entries: false}}",
    ),
    Variant(
        "apis",
        "an entry matches nothing",
        3,
        ("matches nothing",),
        added("api_mapping.yaml", "- {ms_api: mint.nothing, pt_api: Functional.linear}\n"),
    ),
    Variant(
        "layers",
        "the mapping names a part, the rest has other names",
        0,
        ("PASS no operator that was compared", PARTLY, "outside the question"),
        renamed_layers,
    ),
    Variant(
        "layers",
        "the mapping names a part, and a layer that it names is gone",
        3,
        ("matches nothing", "fc1"),
        both(renamed_layers, without_calls("golden", "Module.mlp.fc1", "Functional.linear.1")),
    ),
    Variant(
        "layers",
        "a data mapping of two tensors",
        0,
        ("PASS no operator that was compared", PARTLY, "outside the question"),
        written("layer_mapping.yaml", TWO_ITEMS),
        stages="  pairs: {uses: match.data_mapping}",
    ),
    Variant(
        "layers",
        "a data mapping of two tensors, one of them gone",
        3,
        ("matches nothing", "fc1"),
        both(written("layer_mapping.yaml", TWO_ITEMS), without_calls("golden", "Module.mlp.fc1")),
        stages="  pairs: {uses: match.data_mapping}",
    ),
    Variant("layers", "a corrupt call tree", 3, ("INCOMPLETE ",), written("target/construct.json", "{}")),
    Variant(
        "offline",
        "rules of another model",
        3,
        ("INCOMPLETE ",),
        replaced_text("fusion_rule.json", '"name": "', '"name": "other_'),
    ),
    Variant(
        "torchair",
        "no graph text",
        3,
        ("INCOMPLETE ",),
        removed("target/dynamo_original_graph*.txt", "target/**/dynamo_original_graph*.txt"),
    ),
    Variant(
        "torchair", "half a graph text", 3, ("INCOMPLETE ",), truncated("target", "dynamo_original_graph*.txt", 0.5)
    ),
    # Damage.
    Variant("pytorch", "a dump.json that was cut off", 3, ("INCOMPLETE ",), truncated("target", "dump.json")),
    Variant("pytorch", "an empty dump.json", 3, ("INCOMPLETE ",), written("golden/dump.json", "")),
    *(
        Variant(
            "pytorch",
            f"{key} of one {side} output is null",
            3,
            (f"the {side} recorded no {word} of ",),
            one_statistic(side, ADDED, key, None),
        )
        for key, word in (("Max", "maximum"), ("Min", "minimum"), ("Mean", "mean"), ("Norm", "norm"))
        for side in ("target", "golden")
    ),
    *(
        Variant(
            "pytorch",
            f"{key} of one {side} output is {value}",
            1,
            ("FAIL Tensor.__add__", "in its statistics"),
            one_statistic(side, ADDED, key, value),
        )
        for key in ("Mean", "Norm")
        for value in (NAN, math.inf)
        for side in ("target", "golden")
    ),
    *(
        Variant(
            scenario,
            f"an array of the {side} with another one behind it",
            3,
            ("INCOMPLETE 1 selected tensor could not be read",),
            appended(f"{side}/**/*.npy", b"\x93NUMPY and more"),
        )
        for scenario, side in (("torchair", "golden"), ("offline", "golden"), ("layers", "target"))
    ),
    *(
        Variant(
            scenario, f"a folder in place of {pattern}", 3, ("INCOMPLETE ", " is a folder "), folder_in_place(pattern)
        )
        for scenario, pattern in (
            ("torchair", "target/**/*.*.*.*.*"),
            ("torchair", "golden/**/*.npy"),
            ("offline", "target/*.*.*.*.*"),
            ("offline", "golden/*.npy"),
        )
    ),
    Variant("pytorch", "a dump without entries", 3, ("INCOMPLETE ",), without_entries("golden", last=1.0)),
    Variant("torchair", "an empty target", 3, ("INCOMPLETE ",), emptied("target")),
    Variant("torchair", "an empty golden", 3, ("INCOMPLETE ",), emptied("golden")),
    Variant("offline", "an empty golden", 3, ("INCOMPLETE ",), emptied("golden")),
    Variant("torchair", "every device file cut off", 3, ("INCOMPLETE ",), truncated("target", "Gelu.Gelu_1.*", 0.5)),
    Variant("torchair", "swapped sides", 3, ("INCOMPLETE ",), sets={"target": "golden", "golden": "target"}),
    # Sample data.
    Variant("torchair", "no dump is named", 2, ("PF1302",), sets={"target": None, "golden": None}),
    Variant("layers", "only the target is named", 2, ("PF1302",), sets={"golden": None, "mapping": None}),
    Variant("offline", "no rules are named", 2, ("PF1302",), sets={"fusion_rule": None}),
]


def main() -> None:
    """Run every variant with the probe_flow that is imported, and print what came of it."""
    import tempfile

    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "probe_flow", *prepare(variant, Path(folder))]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
        lines = (done.stdout or done.stderr).strip().splitlines()
        last = lines[-1].replace(str(folder), "") if lines else ""
        mark = "ok" if done.returncode == variant.code else "WRONG"
        print(f"{mark:5} | {variant.id} | wanted {variant.code} | {done.returncode} | {last}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
