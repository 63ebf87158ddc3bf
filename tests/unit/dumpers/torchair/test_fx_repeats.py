"""What differs between dumps of repeated runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from probe_flow.dumpers.arrays.repeats import not_deterministic
from probe_flow.dumpers.torchair.fx_folder import unequal_arrays

STEP = "worldsize1_global_rank0/graph_1/0"


def dump(root: Path, start: int, arrays: Mapping[str, Any]) -> Path:
    folder = root / STEP
    folder.mkdir(parents=True)
    for number, (stem, array) in enumerate(arrays.items(), start):
        np.save(folder / f"{stem}.{20260101000000000000 + number}.npy", array)
    return root


def test_same_values_at_other_times_are_equal(tmp_path: Path) -> None:
    arrays = {"mm-aten.mm.default.OUTPUT.0": np.ones(3), "add-aten.add.Tensor.INPUT.1": np.zeros((2, 0))}

    assert list(unequal_arrays(dump(tmp_path / "a", 0, arrays), dump(tmp_path / "b", 7, arrays))) == []


def test_operator_that_differs_first_is_named_with_its_largest_difference(tmp_path: Path) -> None:
    first = {
        "rand-aten.rand.default.OUTPUT.0": np.array([1.0, np.nan, np.inf]),
        "add-aten.add.Tensor.INPUT.0": np.array([1.0]),
        "add-aten.add.Tensor.OUTPUT.0": np.array([2.0]),
    }
    second = {
        "rand-aten.rand.default.OUTPUT.0": np.array([1.5, np.nan, np.inf]),
        "add-aten.add.Tensor.INPUT.0": np.array([1.5]),
        "add-aten.add.Tensor.OUTPUT.0": np.array([2.5]),
    }

    found = list(unequal_arrays(dump(tmp_path / "a", 0, first), dump(tmp_path / "b", 9, second)))
    problem = not_deterministic(found)

    assert [(each.node, each.slot, each.max_abs) for each in found] == [
        ("rand", "OUTPUT.0", 0.5),
        ("add", "INPUT.0", 0.5),
        ("add", "OUTPUT.0", 0.5),
    ]
    assert problem.code == "PF6330"
    assert problem.notes == (f"`{STEP}/rand` (aten.rand.default) OUTPUT.0: largest difference 0.5",)


def test_missing_file_other_shape_and_new_nan_differ(tmp_path: Path) -> None:
    first = {
        "a-aten.a.OUTPUT.0": np.ones(2),
        "b-aten.b.OUTPUT.0": np.ones(2),
        "c-aten.c.OUTPUT.0": np.array([1.0]),
        "d-aten.d.OUTPUT.0": np.array("text"),
    }
    second = {
        "b-aten.b.OUTPUT.0": np.ones(3),
        "c-aten.c.OUTPUT.0": np.array([np.nan]),
        "d-aten.d.OUTPUT.0": np.array("text"),
    }

    found = unequal_arrays(dump(tmp_path / "a", 0, first), dump(tmp_path / "b", 0, second))

    assert [(each.node, each.max_abs) for each in found] == [("a", None), ("b", None), ("c", float("inf"))]


def test_statistics_are_compared_where_the_elements_were_not_dumped(tmp_path: Path) -> None:
    kinds = [("min", "<f8"), ("max", "<f8"), ("dtype", "<U7"), ("shape", "<U1")]

    def run(name: str, largest: float) -> Path:
        root = dump(tmp_path / name, 0, {"b-aten.b.OUTPUT.0": np.ones(2)})
        statistics = np.array((-1.0, largest, "float32", "3"), dtype=kinds)
        np.save(root / STEP / f"a-aten.a.OUTPUT.0.{20260101000000000009}_min_max.npy", statistics)
        np.save(root / STEP / f"b-aten.b.OUTPUT.0.{20260101000000000000}_min_max.npy", statistics)
        return root

    found = list(unequal_arrays(run("a", 2.0), run("b", 2.25)))

    assert [(each.node, each.max_abs) for each in found] == [("a", 0.25)]


def test_large_arrays_are_compared_block_by_block(tmp_path: Path) -> None:
    array = np.zeros(3 << 20, np.int8)
    other = array.copy()
    other[-1] = 4

    found = unequal_arrays(
        dump(tmp_path / "a", 0, {"a-aten.a.OUTPUT.0": array}), dump(tmp_path / "b", 0, {"a-aten.a.OUTPUT.0": other})
    )

    assert [each.max_abs for each in found] == [4.0]
