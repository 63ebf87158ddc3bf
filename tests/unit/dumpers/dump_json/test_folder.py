"""The folder of a dump: whole or said to be not, never mixed with anything else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from probe_flow.dumpers.dump_json.encoding import UNKNOWN, array_statistics, encoded
from probe_flow.dumpers.dump_json.folder import StepFolders
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.step_files import StepFiles
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import IncompleteError, UsageError

FACTS = {"dtype": "float32", "shape": [3]}


def folder(root: Path, rank: int | None = None, *, overwrite: bool = False) -> StepFolders:
    return StepFolders(root, "pytorch", lambda: rank, ("numpy",), overwrite=overwrite)


def refusal(root: Path, rank: int | None = None, *, overwrite: bool = False) -> str:
    with pytest.raises(UsageError) as raised:
        folder(root, rank, overwrite=overwrite)
    assert raised.value.diagnostic.code == "PF6321"
    return raised.value.diagnostic.message


def manifest(step: StepFiles) -> dict[str, Any]:
    return json.loads((step.folder / "dump_manifest.json").read_text())


def test_a_step_is_incomplete_until_it_ends(tmp_path: Path) -> None:
    step = folder(tmp_path / "dump", 3).step(2, DumpOptions(data="both"))

    assert step.folder == tmp_path / "dump/step2/rank3"
    assert manifest(step)["is_complete"] is False
    name = step.write("Torch.a.0.forward.input.0", ".pt", lambda: (b"ab", b"c"), {"dtype": "float32", "shape": [3]})
    assert name == "Torch.a.0.forward.input.0.pt"
    assert step.link("Torch.a.0.forward.output.0", ".pt", name, FACTS) == "Torch.a.0.forward.output.0.pt"
    step.skip("x", "it is too large")
    step.finish({"a": {}}, {("f", "g"): ["a"]}, {"a": None}, is_complete=True, facts={})

    found = manifest(step)
    assert found["is_complete"] is True
    assert (found["expected"], found["written"]) == (3, 2)
    assert found["skipped"] == [{"name": "x", "reason": "it is too large"}]
    assert found["rank"] == 3
    assert [(each["file"], each["node"], each["slot"], each["index"]) for each in found["tensors"]] == [
        ("dump_tensor_data/Torch.a.0.forward.input.0.pt", "Torch.a.0.forward", "input", 0),
        ("dump_tensor_data/Torch.a.0.forward.output.0.pt", "Torch.a.0.forward", "output", 0),
    ]
    assert {"probe_flow", "python", "numpy"} <= set(found["versions"])
    dump = json.loads((step.folder / "dump.json").read_text())
    assert dump == {
        "task": "tensor",
        "level": "mix",
        "framework": "pytorch",
        "dump_data_dir": str(step.folder / "dump_tensor_data"),
        "data": {"a": {}},
    }
    assert json.loads((step.folder / "stack.json").read_text()) == {"0": [["a"], ["f", "g"]]}


def test_statistics_have_no_folder_of_tensors(tmp_path: Path) -> None:
    step = folder(tmp_path / "dump").step(0, DumpOptions(data="statistics"))
    step.finish({}, {}, {}, is_complete=True, facts={})
    assert json.loads((step.folder / "dump.json").read_text())["dump_data_dir"] is None
    assert not (step.folder / "dump_tensor_data").exists()


def test_names_cannot_lead_out_of_the_folder_nor_be_too_long(tmp_path: Path) -> None:
    step = folder(tmp_path / "dump").step(0, DumpOptions())
    assert step.write("a.input.../../x", ".pt", lambda: (b"",), FACTS) == "a.input..._.._x.pt"
    assert step.write("n" * 300, ".pt", lambda: (b"",), FACTS) is None
    assert step.write("a.input.../../x", ".pt", lambda: (b"",), FACTS) is None
    step.finish({}, {}, {}, is_complete=True, facts={})
    assert [each["reason"] for each in manifest(step)["skipped"]] == [
        "the name of its file would have more than 255 bytes",
        "a tensor of this name was written before",
    ]


def test_nothing_else_is_mixed_with_a_dump(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(tmp_path / "file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("")
    assert "holds `notes.txt`" in refusal(tmp_path / "other")
    assert "holds `notes.txt`" in refusal(tmp_path / "other", overwrite=True)
    (tmp_path / "third/step0/pictures").mkdir(parents=True)
    assert "holds `step0/pictures`" in refusal(tmp_path / "third", overwrite=True)


def test_only_dumps_of_ours_are_replaced_and_only_when_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "dump"
    for step in (0, 1):
        folder(tmp_path / f"d{step}").step(step, DumpOptions())
    first = folder(root)
    first.step(0, DumpOptions())
    first.step(7, DumpOptions())
    assert "holds an earlier dump" in refusal(root)
    folder(root, overwrite=True).step(0, DumpOptions())
    assert [path.name for path in root.iterdir()] == ["step0"]
    (root / "step0/proc0/dump_manifest.json").write_text("{}")
    assert "holds no dump of probe_flow" in refusal(root, overwrite=True)


def test_ranks_share_a_root(tmp_path: Path) -> None:
    root = tmp_path / "dump"
    folder(root, 0).step(0, DumpOptions())
    folder(root, 1).step(0, DumpOptions())
    assert sorted(path.name for path in (root / "step0").iterdir()) == ["rank0", "rank1"]
    assert "holds an earlier dump" in refusal(root, 1)
    assert "holds an earlier dump" in refusal(root)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump/step0").write_text("in the way")
    with pytest.raises(UsageError):
        folder(tmp_path / "dump")
    (tmp_path / "dump/step0").unlink()
    made = folder(tmp_path / "dump")
    (tmp_path / "dump/step0").write_text("in the way")
    with pytest.raises(IncompleteError) as raised:
        made.step(0, DumpOptions())
    assert raised.value.diagnostic.code == "PF6326"


class Leaves:
    """Knows complex numbers as its only leaves."""

    def leaf(self, value: Any, item: str, key: object) -> object:
        return {"type": "complex", "at": item, "key": key} if isinstance(value, complex) else UNKNOWN

    def array(self, array: Any, item: str) -> dict[str, Any]:
        return {"type": "numpy.ndarray", **array_statistics(array)}


class Pair(NamedTuple):
    p: int
    q: float


@dataclass
class Point:
    x: int


def test_values_of_python() -> None:
    value = [
        1,
        True,
        "t",
        None,
        slice(1, None, 2),
        ...,
        Pair(1, 2.5),
        Point(3),
        {"k": (1j,)},
        np.float32(2.5),
        object(),
    ]
    assert encoded(value, "n", Leaves()) == [
        {"type": "int", "value": 1},
        {"type": "bool", "value": True},
        {"type": "str", "value": "t"},
        None,
        {"type": "slice", "value": [1, None, 2]},
        {"type": "ellipsis", "value": "..."},
        {"p": {"type": "int", "value": 1}, "q": {"type": "float", "value": 2.5}},
        {"x": {"type": "int", "value": 3}},
        {"k": [{"type": "complex", "at": "n.8.k.0", "key": 0}]},
        {"type": "float32", "value": 2.5},
        None,
    ]


def test_values_within_values_without_end() -> None:
    value: list[Any] = []
    value.append(value)
    found, depth = encoded(value, "n", Leaves()), 0
    while found:
        found, depth = found[0], depth + 1
    assert found is None
    assert depth == 401


def test_statistics_of_arrays() -> None:
    assert array_statistics(np.array([3, 4])) == {"Max": 4, "Min": 3, "Mean": 3.5, "Norm": 5.0}
    assert array_statistics(np.array([])) == dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    assert array_statistics(np.array(["a"])) == dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    assert array_statistics(np.array([3j, 4])) == {"Max": 4, "Min": 3, "Mean": 3.5, "Norm": 5.0}


@pytest.mark.parametrize(
    ("item", "node", "slot", "index"),
    [
        ("Module.a.forward.b.C.forward.0.input.x.1", "Module.a.forward.b.C.forward.0", "input", "x.1"),
        ("Module.a.A.forward.0.parameters.weight", "Module.a.A.forward.0", "parameters", "weight"),
        ("Module.a.A.parameters_grad.2.weight", "Module.a.A.parameters_grad.2", "parameter_grad", "weight"),
        ("Torch.add.1.backward.output.1", "Torch.add.1.backward", "output", 1),
    ],
)
def test_the_manifest_names_the_tensor_of_a_file(
    item: str, node: str, slot: str, index: object, tmp_path: Path
) -> None:
    step = folder(tmp_path / "dump").step(0, DumpOptions())
    step.write(item, ".pt", lambda: (b"",), FACTS)
    step.finish({}, {}, {}, is_complete=True, facts={})
    (found,) = manifest(step)["tensors"]
    assert (found["node"], found["slot"], found["index"]) == (node, slot, index)


def read_problems(step: StepFiles) -> list[tuple[str, str]]:
    catalog = read_dump_json(str(step.folder.parent.parent), side="golden")
    return [(each.code, each.message) for each in catalog.problems if each.code.startswith("PF63")]


def test_readers_say_what_a_dump_lacks(tmp_path: Path) -> None:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": 1, "Min": 1, "Mean": 1, "Norm": 1}
    name = "Torch.exp.0.forward"
    data = {name: {"input_args": [], "input_kwargs": {}, "output": [leaf | {"data_name": f"{name}.output.0.pt"}]}}
    step = folder(tmp_path / "dump").step(0, DumpOptions())
    step.write(f"{name}.output.0", ".pt", lambda: (b"",), FACTS)
    step.finish(data, {}, {name: None}, is_complete=True, facts={})
    assert read_problems(step) == []
    step.skip("Torch.sin.0.forward.input.0", "it is too large")
    step.finish(data, {}, {name: None}, is_complete=True, facts={})
    assert [code for code, _ in read_problems(step)] == ["PF6341"]
    (step.folder / f"dump_tensor_data/{name}.output.0.pt").unlink()
    assert ("PF6340", "the dump `proc0` lacks 1 of the 1 files that it had") in [
        (code, text.split(", such")[0]) for code, text in read_problems(step)
    ]
    step.finish(data, {}, {name: None}, is_complete=False, facts={})
    assert ("PF6340", "the dump `proc0` did not end: its manifest says so") in read_problems(step)
