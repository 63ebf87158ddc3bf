"""The TorchAir table of reduced dumps: missing statistics, per cent as text, checksums that cannot be compared."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import comparison, good_row, measurement, row, tensor

from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Measurement, Mode, Row, SideSummary, SlotRole, Statistics, Status, TensorKind
from probe_flow.reports.layout import LAYOUTS

RELATIVE = ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr")
DIFFERENCES = ("Max diff", "Min diff", "Mean diff", "L2norm diff")


def table(
    path: Path, *rows: Row, write: Any = LAYOUTS["torchair"].write_csv, task: str = "tensor"
) -> list[dict[str, str]]:
    found = comparison(*rows)
    pairs = replace(found.pairs, target=replace(found.pairs.target, task=task))
    write(replace(found, pairs=pairs), path / "table.csv")
    with (path / "table.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def recorded(target: dict[str, Any], golden: dict[str, Any]) -> Measurement:
    sides = Statistics(**target), Statistics(**golden)
    figures = compare_statistics(*sides)
    return measurement(figures, mode=Mode.STATISTICS, target=SideSummary(sides[0]), golden=SideSummary(sides[1]))


def test_statistics_that_are_not_there_are_not_available(tmp_path: Path) -> None:
    (found,) = table(tmp_path, good_row(measured=recorded({"min": -1.0, "max": 2.5}, {"min": -1.0, "max": 2.0})))
    assert [found[name] for name in DIFFERENCES] == ["0.5", "0.0", "N/A", "N/A"]
    assert [found[name] for name in RELATIVE] == ["0.25", "0.0", "N/A", "N/A"]
    assert [found[f"NPU {name}"] for name in ("max", "min", "mean", "l2norm")] == ["2.5", "-1.0", "N/A", "N/A"]
    assert "Cosine" not in found


@pytest.mark.parametrize(
    ("target", "golden", "difference", "relative"),
    [
        (1.0, 1.0, "0.0", "0.0"), (1.05, 1.0, "0.050000000000000044", "0.050000000000000044"), (1.0, 0.0, "1.0", "inf"),
        (0.0, 0.0, "0.0", "0.0"), (math.nan, 1.0, "NaN", "NaN"), (math.nan, math.nan, "NaN", "NaN"),
        (1.0, math.nan, "NaN", "NaN"), (math.inf, 1.0, "inf", "inf"), (math.inf, -math.inf, "inf", "inf"),
        (-math.inf, 1.0, "-inf", "inf"), (-math.inf, math.inf, "-inf", "inf"), (1.0, math.inf, "-inf", "inf"),
        (1.0, -math.inf, "inf", "inf"), (math.inf, math.inf, "0.0", "0.0"), (None, 1.0, "N/A", "N/A"),
    ],
)  # fmt: skip
def test_special_statistics_have_the_published_words(
    tmp_path: Path, target: float | None, golden: float, difference: str, relative: str
) -> None:
    (found,) = table(tmp_path, good_row(measured=recorded({"max": target, "min": 0.0}, {"max": golden, "min": 0.0})))
    assert (found["Max diff"], found["MaxRelativeErr"]) == (difference, relative)


def test_relative_errors_can_be_text_in_per_cent(tmp_path: Path) -> None:
    measured = recorded({"max": 1.25, "min": 1.0, "mean": math.nan}, {"max": 1.0, "min": 0.0, "mean": 1.0})
    (found,) = table(tmp_path, good_row(measured=measured), write=LAYOUTS["torchair_percent"].write_csv)
    assert [found[name] for name in RELATIVE] == ["25.0%", "inf", "NaN", "N/A"]
    assert [found[name] for name in DIFFERENCES] == ["0.25", "1.0", "NaN", "N/A"]


def test_per_cent_is_for_statistics_only(tmp_path: Path) -> None:
    rows = [good_row(0), good_row(1, "Mul_2", measured=recorded({"max": 1.25}, {"max": 1.0}))]
    tensors, statistics = table(tmp_path, *rows, write=LAYOUTS["torchair_percent"].write_csv)
    assert (tensors["MaxRelativeErr"], statistics["MaxRelativeErr"]) == ("0.003333330154", "25.0%")


@pytest.mark.parametrize(("task", "columns"), [("md5", ["NPU MD5", "BENCH MD5"]), ("statistics", list(RELATIVE))])
def test_where_nothing_could_be_compared_the_columns_are_those_of_the_dump(
    tmp_path: Path, task: str, columns: list[str]
) -> None:
    sides = [tensor(kind=TensorKind.STATISTICS), tensor("add_1", side="golden", kind=TensorKind.STATISTICS)]
    why = "checksums of float16 and float32 values cannot be compared"
    one = row(target=sides[0], golden=sides[1], status=Status.NOT_COMPARABLE, reasons=(why,))
    (found,) = table(tmp_path, one, task=task)
    assert [found[name] for name in columns] == ["N/A"] * len(columns)
    assert (found["Result"], found["Err_message"]) == ("FAIL", why)


def colors(tmp_path: Path, *values: tuple[SlotRole, float]) -> list[str]:
    rows = [
        row(
            order,
            target=tensor(role=role),
            golden=tensor("add_1", side="golden", role=role),
            measured=measurement({"max_diff_rel": value}, mode=Mode.STATISTICS),
        )
        for order, (role, value) in enumerate(values)
    ]
    return [found["Color"] for found in table(tmp_path, *rows)]


@pytest.mark.parametrize(
    ("before", "after", "color"),
    [
        (0.005, 0.05, "green"), (0.005, 0.11, "yellow"), (0.02, 0.11, "green"), (0.005, 0.51, "red"),
        (0.02, 0.51, "red"),
    ],
)  # fmt: skip
def test_the_largest_value_decides_the_colour_where_no_norm_is_known(
    tmp_path: Path, before: float, after: float, color: str
) -> None:
    assert colors(tmp_path, (SlotRole.INPUT, before), (SlotRole.OUTPUT, after))[1] == color


def test_checksums_that_differ_are_red(tmp_path: Path) -> None:
    measured = measurement({"checksum_equal": False}, mode=Mode.CHECKSUM, target=None, golden=None)
    (found,) = table(tmp_path, good_row(measured=measured, status=Status.FAIL))
    assert (found["Color"], found["Accuracy Reached or Not"]) == ("red", "No")
