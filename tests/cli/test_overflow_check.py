"""`probe-flow overflow_check`: what is planted in real dumps of one and two ranks is named, healthy ones are silent."""

from __future__ import annotations

import errno
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).parents[1] / "data" / "dump_json"
SILENT = ("healthy", "masks", "memory")
DEVIATIONS = {
    "healthy": "msprobe accuses masked_fill, which writes -inf on purpose",
    "masks": "the same",
    "all_masked": "the same; NaN begins in the softmax behind it",
    "between_communications": "msprobe accuses the receiver: a layer is compared by its last call alone",
    "sent": "the same",
}
"""Cases in which msprobe's answer is another one, and why."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all cases."""
    folder = tmp_path_factory.mktemp("overflow")
    with tarfile.open(DATA / "overflow.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def cases() -> list[str]:
    with tarfile.open(DATA / "overflow.tar.xz") as archive:
        return sorted({name.partition("/")[0] for name in archive.getnames()})


def truth_of(dumps: Path, case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((dumps / case / "truth.json").read_text())
    return found


def written(folder: Path) -> dict[str, Any]:
    """Return the content of the file, empty where there is none."""
    files = [*folder.glob("anomaly_analyze_*.json")]
    assert len(files) <= 1
    return json.loads(files[0].read_text()) if files else {}


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "probe_flow" / "run.json").read_text())
    return found


@pytest.mark.parametrize("case", cases())
def test_what_is_planted_is_named(case: str, dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    truth = truth_of(dumps, case)
    done = probe_flow("overflow_check", "-i", dumps / case / "step0", "-o", "out")
    found = written(tmp_path / "out")
    assert {rank: [each["op_name"] for each in entries] for rank, entries in found.items()} == truth["truth"]
    assert done.code == (1 if truth["truth"] else 0), done.err
    run = record(tmp_path / "out")
    assert (run["nonfinite_origin"] is None) == (case in SILENT) == (done.code == 0)
    assert (tmp_path / "out" / "probe_flow" / "report.html").exists()
    assert run["incomplete"] == []


@pytest.mark.parametrize("case", cases())
def test_the_answer_is_that_of_msprobe_where_it_is_right(
    case: str, dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    said = truth_of(dumps, case)["msprobe"]
    probe_flow("overflow_check", "-i", dumps / case / "step0", "-o", "out")
    found = written(tmp_path / "out")
    if case == "weight":  # ours shows the weight as well
        assert "NaN" in json.dumps(found["rank_0"][0]["data_info"].pop("parameters"))
    is_same = json.dumps(found, sort_keys=True) == json.dumps(said, sort_keys=True)
    assert is_same == (case not in DEVIATIONS)


@pytest.mark.parametrize(
    "case",
    ["before_communication", "between_communications", "sent", "after_communication", "both_before_communication"],
)
def test_in_a_comparison_the_call_that_the_golden_lacks_is_named(
    case: str, dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    """The golden of each is the same program without the planted calls, and without NaN in its buffers."""
    shutil.copytree(dumps / "memory" / "step0", tmp_path / "golden")
    for file in (tmp_path / "golden").glob("rank*/dump.json"):
        file.write_text(file.read_text().replace("NaN", "0.0"))
    done = probe_flow("compare", "-tp", dumps / case / "step0", "-gp", "golden", "-o", "out")
    run = record(tmp_path / "out")
    found = run["findings"][run["nonfinite_origin"]]
    assert done.code in (1, 3)
    assert f"rank_{found['rank']}" in truth_of(dumps, case)["truth"]
    assert (found["name"], found["golden_node"]) == ("Torch.log.0.forward", None)
    assert found["evidence"].startswith("has no counterpart in the golden, and `")


def test_masks_are_named_as_what_they_are(dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    probe_flow("overflow_check", "-i", dumps / "masks" / "step0", "-o", "out")
    (found,) = record(tmp_path / "out")["findings"]
    assert (found["kind"], found["fails"], found["name"]) == ("suspect", False, "Tensor.masked_fill.0.forward")
    assert "as asked for by an argument, a mask or the operator itself" in found["evidence"]


def test_long_options_and_a_single_rank(dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    rank = dumps / "before_communication" / "step0" / "rank1"
    done = probe_flow("-f", "pytorch", "overflow_check", "--input-path", rank, "--output_path", "out")
    assert done.code == 1
    assert [*written(tmp_path / "out")] == ["rank_1"]
    (tmp_path / "again").mkdir()
    assert probe_flow("overflow_check", "--input_path", rank / "dump.json", "-o", "again").code == 1
    assert written(tmp_path / "again") == written(tmp_path / "out")


@pytest.mark.parametrize("name", ["construct.json", "stack.json"])
@pytest.mark.parametrize("content", [None, "", "{}", "["], ids=["missing", "empty", "of level L1", "cut"])
def test_callers_and_stacks_of_a_rank_may_be_missing(
    name: str, content: str | None, dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    shutil.copytree(dumps / "before_communication" / "step0", tmp_path / "dump")
    path = tmp_path / "dump" / "rank1" / name
    path.unlink() if content is None else path.write_text(content)
    done = probe_flow("overflow_check", "-i", "dump", "-o", "out")
    assert done.code == 1, done.err
    (found,) = written(tmp_path / "out")["rank_1"]
    assert found["op_name"] == "Torch.log.0.forward"
    assert found["construct_info"] == ["Torch.log.0.forward"]
    assert (found["stack_info"] == {}) == (name == "stack.json")


def test_the_modules_around_a_call_are_named(dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    probe_flow("overflow_check", "-i", dumps / "all_masked" / "step0", "-o", "out")
    (found,) = written(tmp_path / "out")["rank_0"]
    assert found["construct_info"] == ["Module.block.Block.forward.0", "Torch.softmax.0.forward"]
    assert any("overflow.py" in frame for frame in found["stack_info"])


def test_a_dump_that_is_cut_ends_incomplete_and_the_other_rank_is_examined(
    dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    shutil.copytree(dumps / "before_communication" / "step0", tmp_path / "dump")
    path = tmp_path / "dump" / "rank0" / "dump.json"
    path.write_text(path.read_text()[:2000])
    done = probe_flow("overflow_check", "-i", "dump", "-o", "out")
    assert done.code == 3
    assert "rank0/dump.json" in done.err
    assert [*written(tmp_path / "out")] == ["rank_1"]


@pytest.mark.parametrize("given", ["nowhere", "empty"])
def test_a_path_without_a_dump_is_a_mistake(given: str, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = probe_flow("overflow_check", "-i", given, "-o", "out")
    assert done.code == 2
    assert given in done.err
    assert not [*tmp_path.glob("out/anomaly*")]


def dump(folder: Path, data: dict[str, Any], task: str = "statistics") -> Path:
    folder.mkdir()
    whole = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(whole))
    return folder


def leaf(**figures: Any) -> dict[str, Any]:
    known = {"Max": 1.0, "Min": -1.0, "Mean": 0.0, "Norm": 2.0, **figures}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], **known}


@pytest.mark.parametrize(("task", "more"), [("statistics", {}), ("md5", {"md5": "0123abcd"})])
def test_a_dump_without_values_is_not_green(
    task: str, more: dict[str, str], probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    null = leaf(Max=None, Min=None, Mean=None, Norm=None, **more)
    entry = {"input_args": [null], "input_kwargs": {}, "output": [null]}
    done = probe_flow("overflow_check", "-i", dump(tmp_path / "dump", {"Torch.exp.0.forward": entry}, task), "-o", "o")
    assert done.code == 3
    assert "nothing was examined" in done.out + done.err
    assert not [*tmp_path.glob("o/anomaly*")]


def test_a_dump_of_calls_alone_is_not_green(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    folder = dump(tmp_path / "dump", {}, "structure")
    (folder / "construct.json").write_text(json.dumps({"Torch.exp.0.forward": None}))
    done = probe_flow("overflow_check", "-i", folder, "-o", "out")
    assert done.code == 3, done.err


def test_names_of_any_kind_and_names_that_stand_twice(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    entry = {"input_args": [leaf()], "input_kwargs": {}, "output": [leaf(Max=float("nan"), Min=float("nan"))]}
    name = 'Torch.</script>"\u00e9.0.forward'
    folder = dump(tmp_path / "dump", {name: entry, "Torch.exp.0.forward": entry})
    text = (folder / "dump.json").read_text()
    twice = json.dumps({"Torch.exp.0.forward": entry})[1:-1]
    (folder / "dump.json").write_text(text.replace('"data": {', f'"data": {{{twice}, '))
    done = probe_flow("overflow_check", "-i", folder, "-o", "out")
    assert done.code in (1, 3)
    assert {each["op_name"] for each in written(tmp_path / "out")["rank_0"]} == {name, "Torch.exp.0.forward"}
    assert "Torch.exp.0.forward" in done.err, "the name that stands twice is told"


@pytest.mark.parametrize(
    "name", ["pt_stat_base", "pt_stat_bug", "pt_tensorL0_base", "ms_tensor_base", "twin_tensor", "pt_debug"]
)
def test_healthy_dumps_are_silent(name: str, probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    done = probe_flow("overflow_check", "-i", DATA / name, "-o", "out")
    assert done.code == 0, done.err
    assert record(tmp_path / "out")["findings"] == []
    assert not [*tmp_path.glob("out/anomaly*")]


def test_elements_of_mindspore_are_read(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    """An output is spoilt, and what is made of it: the tensors of the next call, and the cell around both."""
    shutil.copytree(DATA / "ms_tensor_base", tmp_path / "dump")
    adds = "Primitive.bias_add.BiasAdd.1.forward"
    for name in (
        "Primitive.matmul.MatMul.1.forward.output.0", f"{adds}.input.0", f"{adds}.output.0",
        "Cell.mlp.dense1.Dense.forward.0.output.0",
    ):  # fmt: skip
        (path,) = (tmp_path / "dump").rglob(f"{name}.npy")
        values = np.load(path)
        values.reshape(-1)[1] = np.nan
        np.save(path, values)
    done = probe_flow("overflow_check", "-i", "dump", "-o", "out")
    assert done.code == 1
    (entries,) = written(tmp_path / "out").values()
    assert [each["op_name"] for each in entries] == ["Primitive.matmul.MatMul.1.forward"]
    assert entries[0]["construct_info"][-2:] == ["Cell.mlp.dense1.Dense.forward.0", "Primitive.matmul.MatMul.1.forward"]


def test_mindspore_is_examined_too(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    wrong = {**leaf(Max=float("inf")), "type": "mindspore.Tensor", "dtype": "Float32"}
    sound = {**leaf(), "type": "mindspore.Tensor", "dtype": "Float32"}
    data = {"Mint.exp.0.forward": {"input_args": [sound], "input_kwargs": {}, "output": [wrong]}}
    folder = dump(tmp_path / "dump", data)
    done = probe_flow("overflow_check", "-i", folder, "-o", "out")
    assert done.code == 1
    assert [each["op_name"] for each in written(tmp_path / "out")["rank_0"]] == ["Mint.exp.0.forward"]


def test_a_full_disk_leaves_no_half_file(
    dumps: Path, probe_flow: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("probe_flow.reports.anomalies.json.dump", full)
    done = probe_flow("overflow_check", "-i", dumps / "fp16" / "step0", "-o", "out")
    assert done.code == 3
    assert "No space left on device" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["probe_flow"]
