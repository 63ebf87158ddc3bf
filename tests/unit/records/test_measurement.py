"""A measurement gives back what was measured, wherever its figures are stored."""

from __future__ import annotations

import math

from msgspec.structs import replace

from probe_flow.records import (
    Figures,
    Measurement,
    Mode,
    NodeKey,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records.node import Execution

LEFT = SideSummary(Statistics(min=-1, max=2**60, mean=0.5, l2norm=math.inf, nan=3, inf=0))
RIGHT = SideSummary(Statistics(min=False, max=True, mean=None, l2norm=1.0))


def test_figures_and_sides_come_back():
    found = Measurement.of(
        Mode.TENSOR, {"cosine": 0.5, "max_abs_err": math.nan, "equal": None}, LEFT, RIGHT,
        nonfinite_mismatch=2, worst_index=7, count=2**40, backend="numpy", notes=("shape differs",),
    )  # fmt: skip

    assert (found.mode, found.backend, found.notes) == (Mode.TENSOR, "numpy", ("shape differs",))
    assert (found.count, found.nonfinite_mismatch, found.worst_index) == (2**40, 2, 7)
    assert list(found.metrics) == ["cosine", "max_abs_err", "equal"]
    assert found.metrics["cosine"] == 0.5
    assert math.isnan(found.metrics["max_abs_err"])
    assert found.metrics["equal"] is None
    assert (found.metric("cosine"), found.metric("equal"), found.metric("target.max")) == (0.5, None, None)
    assert (found.target, found.golden, found.reference) == (LEFT, RIGHT, None)
    assert found.golden.statistics.max is True


def test_measurements_of_one_kind_share_a_table():
    figures = Figures()
    first = Measurement.of(Mode.TENSOR, {"cosine": 1.0}, LEFT, RIGHT, count=1, figures=figures)
    second = Measurement.of(Mode.TENSOR, {"cosine": 0.25}, RIGHT, None, count=2, figures=figures)
    third = Measurement.of(Mode.TENSOR, {"cosine": 0.75}, RIGHT, LEFT, count=3, figures=figures)

    assert first.table is third.table
    assert first.table is not second.table
    assert [each.metrics["cosine"] for each in (first, second, third)] == [1.0, 0.25, 0.75]
    assert [each.count for each in (first, second, third)] == [1, 2, 3]
    assert [each.worst_index for each in (first, second, third)] == [None, None, None]
    assert (second.target, second.golden) == (RIGHT, None)
    assert (third.target, third.golden) == (RIGHT, LEFT)


def test_a_tensor_stands_for_what_its_dump_recorded():
    key = NodeKey(Execution(), "conv")
    tensor = TensorRef.of(
        key, Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, recorded=LEFT.statistics, checksum="0a1b2c3d"
    )
    nothing = TensorRef.of(key, Slot(SlotRole.OUTPUT), TensorKind.STATISTICS)
    found = Measurement.of(Mode.STATISTICS, {}, tensor, nothing)

    assert found.target == SideSummary(LEFT.statistics, "0a1b2c3d")
    assert found.golden == SideSummary(Statistics())


def test_further_metrics_keep_everything_else():
    found = Measurement.of(
        Mode.TENSOR, {"cosine": 0.5}, LEFT, RIGHT, count=4, worst_index=0, nonfinite_mismatch=1, notes=("a",)
    )
    more = found.with_metrics({"noise_error": 0.125}, reference=LEFT)

    assert dict(more.metrics) == {"cosine": 0.5, "noise_error": 0.125}
    assert (more.target, more.golden, more.reference) == (LEFT, RIGHT, LEFT)
    assert (more.count, more.worst_index, more.nonfinite_mismatch, more.notes) == (4, 0, 1, ("a",))
    assert dict(found.metrics) == {"cosine": 0.5}
    assert found.reference is None


def test_measurements_are_equal_by_what_they_say():
    given = {"cosine": 0.5}, LEFT, RIGHT
    one, other = Measurement.of(Mode.TENSOR, *given, count=4), Measurement.of(Mode.TENSOR, *given, count=4)

    assert one == other
    assert hash(one) == hash(other)
    assert one != Measurement.of(Mode.TENSOR, *given, count=5)
    assert one != replace(other, notes=("shape differs",))


def test_counts_of_any_size_come_back_beside_others_and_from_a_file():
    figures = Figures()
    counts = [5, 2**31, 10**24, 7, 2**40]
    found = [
        Measurement.of(Mode.STATISTICS, {"x": 1.0}, count=count, worst_index=count - 1, figures=figures)
        for count in counts
    ]
    assert [each.count for each in found] == counts
    assert [each.worst_index for each in found] == [count - 1 for count in counts]
    assert [each.nonfinite_mismatch for each in found] == [0, 0, 0, 0, 0]
    assert [found[0].table.stored().restored().counted(number, 0) for number in range(5)] == counts
