"""A closer look at rows: window, histogram and choice, against hand-made tensors."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from probe_flow.comparing.closer_looks import CLASSES, Look, LookBatch, _classes, _detail_of, _text, chosen, look_at
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import (
    Execution,
    Extent,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Role,
    Row,
    Rule,
    Slot,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)

KEY = NodeKey(Execution(), "op")


def ref(path: Path, data: np.ndarray):
    np.save(path, data)
    return npy_tensor_ref(path, NodeKey(Execution(), path.stem), Slot(SlotRole.OUTPUT))


def look(tmp_path, target, golden, *, worst: int, top: float, io: str = "auto"):
    sides = ref(tmp_path / "target.npy", target), ref(tmp_path / "golden.npy", golden)
    return look_at(LookBatch((Look(7, *sides, worst, top),), io))


def test_the_window_holds_the_values_around_the_largest_error(tmp_path):
    golden = np.arange(100, dtype=np.float32)
    target = golden.copy()
    target[50] += 8
    detail = look(tmp_path, target, golden, worst=50, top=99.0)[7]
    assert detail.start == 34
    assert detail.golden == tuple(float(number) for number in range(34, 67))
    assert detail.target[16] == 58.0
    assert [a - b for a, b in zip(detail.target, detail.golden, strict=True)].count(0.0) == 32


def test_the_window_ends_where_the_tensor_ends(tmp_path):
    golden = np.arange(5, dtype=np.float16)
    detail = look(tmp_path, golden + np.float16(1), golden, worst=4, top=4.0)[7]
    assert detail.start == 0
    assert detail.target == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_errors_are_counted_by_their_power_of_two_below_the_top(tmp_path):
    errors = np.array([8.0, 5.0, 4.0, 4.1, 1.0, 0.0, 0.0, 2.0**-40], dtype=np.float64)
    detail = look(tmp_path, errors, np.zeros(8), worst=0, top=8.0)[7]
    assert detail.equal == 2
    assert len(detail.counts) == CLASSES
    assert len(detail.edges) == CLASSES + 1
    by_upper_edge = {edge: count for edge, count in zip(detail.edges[1:], detail.counts, strict=True) if count}
    assert by_upper_edge == {8.0: 3, 4.0: 1, 1.0: 1, 8.0 * 2.0 ** -(CLASSES - 1): 1}
    assert sum(detail.counts) + detail.equal == 8


def test_every_finite_element_is_counted_over_several_blocks(tmp_path):
    rng = np.random.default_rng(5)
    golden = rng.standard_normal(200_001).astype(np.float32)
    target = golden + (rng.standard_normal(200_001) * 1e-3).astype(np.float32)
    target[3], golden[7] = np.nan, np.inf
    error = np.abs(target.astype(np.float64) - golden.astype(np.float64))
    worst, top = (
        int(np.nanargmax(np.where(np.isfinite(error), error, -1))),
        float(np.abs(golden[np.isfinite(golden)]).max()),
    )
    detail = look(tmp_path, target, golden, worst=worst, top=top)[7]
    finite = error[np.isfinite(error)]
    assert detail.equal == int((finite == 0).sum())
    for low, high, count in zip(detail.edges[:-1], detail.edges[1:], detail.counts, strict=True):
        assert count == int(((finite > low) & (finite <= high)).sum())


@pytest.mark.parametrize("io", ["auto", "read", "mmap"])
def test_what_cannot_be_read_any_more_is_left_out(tmp_path, io):
    data = np.ones(10, np.float32)
    sides = ref(tmp_path / "target.npy", data), ref(tmp_path / "golden.npy", data)
    (tmp_path / "golden.npy").unlink()
    assert look_at(LookBatch((Look(1, *sides, 0, 1.0),), io)) == {}


def failing_row(order: int, distance: float, nbytes: int, *, role: Role = Role.CLEAN) -> Row:
    extent = Extent("file", 0, nbytes)
    tensor = TensorRef.of(KEY, Slot(SlotRole.OUTPUT), TensorKind.TENSOR, "float32", extents=(extent,))
    measured = Measurement.of(Mode.TENSOR, {"relative_euclidean_distance": distance}, count=1, worst_index=0)
    return Row(Pair(tensor, tensor, "g", Rule("exact")), measured, Verdict(Status.FAIL, role=role), order)


def test_origins_come_first_then_the_worst():
    rows = [failing_row(0, 0.1, 4), failing_row(1, 0.5, 4), failing_row(2, 0.01, 4, role=Role.ORIGIN)]
    assert [look.order for look in chosen(rows)] == [2, 1, 0]


def test_large_rows_are_few_and_small_rows_many():
    assert len(list(chosen([failing_row(number, 0.1, 2**30) for number in range(100)]))) == 24
    assert len(list(chosen([failing_row(number, 0.1, 4) for number in range(1000)]))) == 500


def test_rows_that_pass_need_no_closer_look():
    passing = failing_row(0, 0.1, 4)
    passing = replace(passing, verdict=Verdict(Status.PASS))
    assert list(chosen([passing])) == []


def test_maps_are_the_same_for_a_tensor_of_several_blocks(tmp_path):
    golden = np.zeros((3, 4, 50, 401), np.float32)  # 240,600 elements: four blocks
    target = golden.copy()
    target[:, 2, 49] = 0.5
    sides = ref(tmp_path / "target.npy", target), ref(tmp_path / "golden.npy", golden)
    detail = look_at(LookBatch((Look(7, *sides, 0, 0.5, has_maps=True),), "auto"))[7]
    channels, picture = detail.maps
    assert channels.cells == (12, 50)
    assert {place for place, error in enumerate(channels.errors) if error} == {row * 50 + 49 for row in (2, 6, 10)}
    assert picture.cells == (50, 58)
    assert {place for place, error in enumerate(picture.errors) if error} == {49 * 58 + column for column in range(58)}


def test_maps_stop_where_the_comparison_did(tmp_path):
    golden = np.zeros((4, 5), np.float32)
    sides = ref(tmp_path / "target.npy", golden + 1), ref(tmp_path / "golden.npy", golden)
    (found,) = look_at(LookBatch((Look(7, *sides, 0, 1.0, 7, has_maps=True),), "auto"))[7].maps
    assert found.errors == (1.0,) * 7 + (None,) * 13


def test_a_closer_look_survives_the_cache(tmp_path):
    golden = np.zeros((4, 5), np.float32)
    target = golden.copy()
    target[1, 1], target[2, 2], golden[2, 3] = np.nan, 3.0, np.inf
    target[2, 3] = np.inf
    sides = ref(tmp_path / "target.npy", target), ref(tmp_path / "golden.npy", golden)
    detail = look_at(LookBatch((Look(7, *sides, 12, 3.0, has_maps=True),), "auto"))[7]
    again = _detail_of(_text(detail))
    assert repr(again) == repr(detail), "NaN is no equal of itself"
    assert not all(map(math.isfinite, again.target + again.golden))
    assert (again.maps[0].alike, again.maps[0].mismatch) == ((13,), (6,))


def test_few_rows_have_maps():
    looks = list(chosen([failing_row(number, 0.1, 4) for number in range(100)]))
    assert sum(each.has_maps for each in looks) == 24
    assert all(each.has_maps for each in looks[:24])


@pytest.mark.parametrize(
    ("relative", "number"),
    [
        (1.0, 0), (0.75, 0), (math.nextafter(0.5, 1), 0), (0.5, 1), (0.3, 1), (0.25, 2), (2.0**-30, 30),
        (math.nextafter(2.0**-31, 1), 30), (2.0**-31, 31), (2.0**-40, 31), (1e-320, 31), (5e-324, 31),
        (math.nextafter(1.0, 2), 0), (3e7, 0), (math.inf, 0),
    ],
)  # fmt: skip
def test_a_class_ends_with_its_power_of_two_and_the_outer_ones_take_the_rest(relative: float, number: int) -> None:
    expected = np.zeros(CLASSES, int)
    expected[number] = 2
    assert _classes(np.array([relative, relative])).tolist() == expected.tolist()
