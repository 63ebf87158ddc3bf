"""Folders of arrays of any name: what is a node, what is left out, what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from probe_flow.dumps.arrays import read_arrays
from probe_flow.dumps.selection import Selection
from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.errors import IncompleteError, UsageError
from probe_flow.records import Flow, TensorKind


def store(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.arange(6, dtype=np.float32).reshape(2, 3))
    return root


def test_every_array_is_a_node_called_as_its_file_and_none_depends_on_another(tmp_path: Path) -> None:
    catalog = read_arrays(store(tmp_path, "b.npy", "layer/a.weight.npy", "10.npy"), side="golden")

    assert [key.name for key in catalog.nodes] == ["10", "b", "layer/a.weight"]
    assert [(each.node.name, each.shape, each.dtype) for each in catalog.tensors] == [
        (name, (2, 3), "float32") for name in ("10", "b", "layer/a.weight")
    ]
    assert (catalog.flow, catalog.framework.name, catalog.side, catalog.problems) == (Flow.NONE, "arrays", "golden", ())


def test_folders_may_be_the_scopes_of_a_network(tmp_path: Path) -> None:
    name = "model/vision/tower/encoder/layers/0/self_attn/q_proj/lora_A/default/weight"
    catalog = read_arrays(store(tmp_path, f"{name}.npy"), side="golden")

    assert [key.name for key in catalog.nodes] == [name]
    assert not catalog.problems
    assert kind_of_dump(str(tmp_path)) == "arrays"


def test_one_array_is_a_dump_of_its_own(tmp_path: Path) -> None:
    catalog = read_arrays(store(tmp_path, "x.npy", "y.npy") / "y.npy", side="target")
    assert [key.name for key in catalog.nodes] == ["y"]


def test_a_damaged_array_stays_in_the_catalog_with_a_problem(tmp_path: Path) -> None:
    store(tmp_path, "x.npy", "y.npy")
    (tmp_path / "x.npy").write_bytes((tmp_path / "y.npy").read_bytes()[:-4])

    catalog = read_arrays(tmp_path, side="target")

    assert [each.kind for each in catalog.tensors] == [TensorKind.UNREADABLE, TensorKind.TENSOR]
    assert [(each.code, each.path) for each in catalog.problems] == [("PF3022", "x.npy")]


def test_files_of_other_kinds_are_counted_in_one_note(tmp_path: Path) -> None:
    store(tmp_path, "x.npy", ".hidden.npy")
    for name in ("a.pt", "b.pt", "README"):
        (tmp_path / name).write_bytes(b"")

    (problem,) = read_arrays(tmp_path, side="target").problems

    assert (problem.code, problem.severity.value) == ("PF3235", "note")
    assert "4 files" in problem.message
    assert "2 x `.pt`" in problem.message


def test_names_select_arrays_and_ranks_cannot(tmp_path: Path) -> None:
    store(tmp_path, "a/x.npy", "b/x.npy")

    catalog = read_arrays(tmp_path, side="target", select=Selection(nodes=["a/*"], ranks=[0]))

    assert [key.name for key in catalog.nodes] == ["a/x"]
    assert [each.code for each in catalog.problems] == ["PF3217"]
    with pytest.raises(UsageError) as caught:
        read_arrays(tmp_path, side="target", select=Selection(nodes=["c/*"]))
    assert caught.value.diagnostic.code == "PF3304"


def test_a_folder_without_arrays_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"")
    with pytest.raises(IncompleteError) as caught:
        read_arrays(tmp_path, side="target")
    assert caught.value.diagnostic.code == "PF3202"
    assert "1 x `.pt`" in caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("x.npy", "layer/y.npy"), "arrays"),
        (("conv1.0.1700000000001000.npy", "x.npy"), "npy"),
        (("add-aten.add.Tensor.OUTPUT.0.20260101000000000000.npy", "x.npy"), "torchair_fx"),
    ],
)
def test_arrays_of_any_name_show_only_what_nothing_else_shows(
    tmp_path: Path, names: tuple[str, ...], kind: str
) -> None:
    assert kind_of_dump(str(store(tmp_path, *names))) == kind
