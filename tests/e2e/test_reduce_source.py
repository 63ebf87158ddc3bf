"""Dump, reduce, match and compare in one workflow: `reduce` takes the dump of another stage."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case
from om_writer import tensor
from rule_builders import desc, op
from torchair_builders import GeDump, fx_token, mul_add_relu, write_mul_add_relu

from e2e.projects import Command, Done

DATA = Path(__file__).parents[1] / "data"
WORKFLOW = """\
version: 1
name: reduced
stages:
  a: {{uses: {0}, path: {1}{6}}}
  b: {{uses: {2}, path: {3}{6}}}
  target: {{uses: reduce.statistics, source: a, statistics: [min, max, mean, l2norm]}}
  golden: {{uses: reduce.statistics, source: b, statistics: [min, max, mean, l2norm]}}
  pairs: {{uses: {4}, target: target, golden: golden{5}}}
  result: {{uses: compare, pairs: pairs}}
"""


def files_of(*folders: Path) -> dict[str, tuple[int, int]]:
    """Return what tells whether anything below some folders was written, added or removed."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture
def compared(tmp_path: Path, probe_flow: Command) -> Callable[..., Done]:
    """Return a function that runs dump, reduce, match and compare; the dumps must stay as they are."""

    def run(uses: tuple[str, str], paths: tuple[Path, Path], match: str, *, rules: str = "", select: str = "") -> Done:
        text = WORKFLOW.format(uses[0], paths[0], uses[1], paths[1], match, rules, select)
        (tmp_path / "w.yaml").write_text(text)
        before = files_of(*paths)
        done = probe_flow("run", "w.yaml")
        assert files_of(*paths) == before
        return done

    return run


def extremes(done: Done, side: str) -> dict[str, tuple[float, float]]:
    """Return minimum and maximum that a run states of the tensors of one side, by the name of the reduced file."""
    assert done.record["inputs"][-1]["task"] == "statistics"
    found = [row[side] for row in done.rows if row["target"] and row["golden"]]
    return {each["name"]: (each["min"], each["max"]) for each in found}


def paired(done: Done) -> list[tuple[str, str]]:
    """Return the names of both tensors of every pair."""
    return [(row["target"]["name"], row["golden"]["name"]) for row in done.rows if row["target"] and row["golden"]]


def arrays_below(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for path in folder.rglob("*.npy"):
        yield path.name, np.load(path)


@pytest.fixture
def torchair(tmp_path: Path) -> tuple[Path, Path]:
    dump = GeDump(tmp_path / "ge" / "msprobe_ge_dump")
    dump.graph(mul_add_relu())
    for step in (0, 1):
        write_mul_add_relu(dump.token(step), fx_token(tmp_path / "fx", step), fused=True)
    return dump.root, tmp_path / "fx" / "msprobe_fx_dump"


class TestTorchair:
    KINDS = ("dump.torchair_ge", "dump.torchair_fx")

    def test_the_figures_are_those_of_the_elements(self, compared, torchair):
        done = compared(self.KINDS, torchair, "match.torchair")
        assert done.code == 0
        found = extremes(done, "golden")
        arrays = dict(arrays_below(torchair[1] / "worldsize1_global_rank0" / "graph_1" / "0"))
        for name, (low, high) in found.items():
            node, _, slot = name.partition(".")
            (values,) = [each for file, each in arrays.items() if file.startswith(f"{node}-") and slot.upper() in file]
            assert (low, high) == (float(values.min()), float(values.max())), name
        assert set(found) >= {"add.output.0", "relu.output.0", "mul.input.0"}

    def test_pairs_are_those_of_the_dump_itself(self, compared, torchair, tmp_path, probe_flow):
        reduced = compared(self.KINDS, torchair, "match.torchair")
        (tmp_path / "direct.yaml").write_text(
            f"version: 1\nname: direct\nstages:\n  target: {{uses: dump.torchair_ge, path: {torchair[0]}}}\n"
            f"  golden: {{uses: dump.torchair_fx, path: {torchair[1]}}}\n"
            "  pairs: {uses: match.torchair, target: target, golden: golden}\n  result: {uses: compare, pairs: pairs}\n"
        )
        direct = probe_flow("run", "direct.yaml", output="direct")
        assert paired(reduced) == paired(direct)

    def test_only_what_the_dump_stage_selects_is_reduced(self, compared, torchair):
        done = compared(self.KINDS, torchair, "match.torchair", select=", select: {steps: [1]}")
        assert {row["step"] for row in done.rows} == {1}
        written = {path.parent.name for path in (done.folder / "reduced").rglob("*_min_max.np?")}
        assert written == {"1"}

    def test_the_folder_is_a_reduced_dump_of_its_own(self, compared, torchair, tmp_path, probe_flow):
        done = compared(self.KINDS, torchair, "match.torchair")
        sides = [done.folder / "reduced" / side for side in ("target", "golden")]
        again = probe_flow("compare", "-m", "torchair", "-tp", sides[0], "-gp", sides[1], "-o", "again", output=None)
        assert again.code == 0
        rows = [json.loads(line) for line in (tmp_path / "again/probe_flow/comparison.jsonl").read_text().splitlines()]
        assert len(rows) == len(done.rows)


def test_a_dump_of_eager_mindspore_is_reduced_too(compared, tmp_path):
    source = DATA / "dump_json"
    folders = []
    for name in ("ms_tensor_base", "ms_copy"):
        folder = tmp_path / name
        with tarfile.open(source / "ms_tensor_pair.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        folders.append(folder)
    steps = [next(folder.rglob("dump.json")).parent for folder in folders]
    done = compared(("dump.mindspore", "dump.mindspore"), (steps[0], steps[1]), "match.name")
    assert done.code == 0
    arrays = dict(arrays_below(steps[0] / "dump_tensor_data"))
    checked = 0
    for row in done.rows:
        file = str((row["target"] or {}).get("file"))
        if row["golden"] and file.endswith("_min_max.npy"):  # numbers among the arguments stand in dump.json
            name = Path(file).name.replace("_min_max.npy", ".npy")
            values = arrays[name].astype(np.float64)
            assert (row["target"]["min"], row["target"]["max"]) == (values.min(), values.max()), name
            checked += 1
    assert checked > 50


def test_an_offline_model_and_its_arrays(compared, tmp_path):
    case = Case(tmp_path / "case")
    ops = []
    values = np.linspace(-2.0, 3.0, 24, dtype=np.float32).reshape(1, 3, 2, 4)
    for number, name in enumerate(("a", "b")):
        stored = tensor(values * (number + 1), "float32", "NC1HWC0")
        case.device("Relu", name, outputs=[stored])
        case.golden.output(name, 0, values * (number + 1))
        output = desc(name, 0, shape=values.shape, origin_shape=values.shape)
        ops.append(op(name, "Relu", number=number + 1, originals=[name], outputs=[output]))
    rule = case.rule(*ops)
    kinds, sides = ("dump.om", "dump.npy"), (case.target.path, case.golden.path)
    done = compared(kinds, sides, "match.fusion_rule", rules=f", fusion_rule: {rule}")
    assert done.code == 0
    # Padding of the blocks is zero: it must not be the minimum of anything, nor lower a mean.
    assert extremes(done, "target") == {"a.output.0": (-2.0, 3.0), "b.output.0": (-4.0, 6.0)}
    assert {row["target"]["layout"] for row in done.rows} == {"ND"}


class TestMistakes:
    @pytest.mark.parametrize(
        ("stage", "code", "words"),
        [
            ("{uses: reduce.minmax, source: a, path: x}", "PF1205", "give either `path`"),
            ("{uses: reduce.minmax}", "PF1201", "`path`"),
            ("{uses: reduce.minmax, source: a, delete_source: true}", "PF1205", "`delete_source` goes with `path`"),
            ("{uses: reduce.minmax, source: a, watch: {}}", "PF1205", "`watch` goes with `path`"),
            ("{uses: reduce.minmax, source: a, select: {steps: [0]}}", "PF1205", "`select` goes with `path`"),
            ("{uses: reduce.minmax, source: other}", "PF2003", "`other`"),
            ("{uses: reduce.minmax, source: pairs}", "PF2004", "needs a catalog of a `dump.*` stage"),
            ("{uses: reduce.minmax, source: arrays}", "PF2004", "gives that of `convert.npy`"),
            ("{uses: reduce.minmax, source: small}", "PF2005", "consumes its own result"),
        ],
    )
    def test_wrong_wires_and_options_are_found_with_their_place(self, probe_flow, tmp_path, stage, code, words):
        lines = ["version: 1", "name: w", "stages:", "  a: {uses: dump.torchair_ge, path: x}"]
        lines += ["  b: {uses: dump.torchair_fx, path: y}", "  arrays: {uses: convert.npy, dump: a}"]
        lines += [f"  small: {stage}", "  pairs: {uses: match.torchair, target: a, golden: b}"]
        (tmp_path / "w.yaml").write_text("\n".join(lines) + "\n")
        done = probe_flow("validate", "w.yaml", output=None)
        assert done.code == 2
        shown = done.out + done.err
        assert f"error[{code}]" in shown
        assert words in shown
        assert "w.yaml:7:" in shown

    def test_a_dump_without_files_that_can_be_reduced_is_refused_by_name(self, compared, tmp_path):
        done = compared(
            ("dump.om", "dump.npy"), (self._sliced(tmp_path), DATA.parent.parent / "examples/offline/onnx/golden"),
            "match.fusion_rule",
        )  # fmt: skip
        assert done.code == 3
        assert "PF6334" in done.codes

    def _sliced(self, tmp_path: Path) -> Path:
        with tarfile.open(DATA / "offline" / "cases.tar.xz") as archive:
            archive.extractall(tmp_path / "cases", filter="data")
        return tmp_path / "cases" / "sliced" / "target"

    def test_reduced_files_never_lie_in_the_dump(self, probe_flow, torchair, tmp_path):
        (tmp_path / "w.yaml").write_text(
            f"version: 1\nname: w\nstages:\n  a: {{uses: dump.torchair_ge, path: {torchair[0]}}}\n"
            f"  small: {{uses: reduce.minmax, source: a, output: {torchair[0] / 'small'}}}\n"
        )
        done = probe_flow("run", "w.yaml")
        assert (done.code, "PF6335" in done.codes) == (2, True)
        assert not (torchair[0] / "small").exists()


def test_one_side_alone_may_be_reduced(tmp_path: Path, probe_flow: Command) -> None:
    """What the device computed is computed again; what the golden did cannot be."""
    case, random = Case(tmp_path), np.random.default_rng(3)
    left, right = (np.abs(random.standard_normal((4, 32))).astype(np.float16) for _ in "ab")
    wrong = (left.astype(np.float32) + right + 0.5).astype(np.float16)
    golden = {"left": left, "right": right, "sum": left.astype(np.float32) + right}
    for name in ("left", "right"):
        case.device("Relu", name, outputs=[tensor(golden[name], "float16")])
    case.device("Add", "sum", inputs=[tensor(each, "float16") for each in (left, right)],
                outputs=[tensor(wrong, "float16")])  # fmt: skip
    for name, values in golden.items():
        case.golden.output(name, 0, values.astype(np.float32))
    shape = {"shape": (4, 32), "origin_shape": (4, 32), "layout": "ND", "origin_layout": "ND"}
    rule = case.rule(
        *(op(name, "Relu", number=1, originals=[name], outputs=[desc(name, 0, **shape)]) for name in ("left", "right")),
        op("sum", "Add", number=3, inputs=["left:0", "right:0"], originals=["sum"], outputs=[desc("sum", 0, **shape)]),
    )
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: half\nstages:\n"
        f"  target: {{uses: dump.om, path: {tmp_path / 'target'}}}\n"
        f"  arrays: {{uses: dump.npy, path: {tmp_path / 'golden'}}}\n"
        "  golden: {uses: reduce.statistics, source: arrays, statistics: [min, max, mean, l2norm]}\n"
        f"  pairs: {{uses: match.fusion_rule, target: target, golden: golden, fusion_rule: {rule}}}\n"
        "  result: {uses: compare, pairs: pairs, policy: offline}\n"
    )
    done = probe_flow("run", "w.yaml")
    assert done.code == 1
    assert [each["node"] for each in done.record["findings"] if each["fails"]] == ["sum"]
