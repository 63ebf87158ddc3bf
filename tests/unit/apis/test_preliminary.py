"""Preliminary statuses: those that msprobe gave, and by hand where it is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.apis.preliminary import PreliminaryStatus, preliminary
from probe_flow.apis.side import Held

DATA = Path(__file__).parents[2] / "data" / "precheck"
RECORDED: dict[str, dict[str, Any]] = json.loads((DATA / "standards.json").read_text(encoding="utf-8"))
FINITE = [name for name, found in RECORDED.items() if "preliminary" in found and not name.endswith(("finite", "range"))]


def float32(*values: float) -> Held:
    return Held(np.array(values, np.float32), "float32")


@pytest.mark.parametrize("name", FINITE)
def test_status_and_figures_are_those_that_msprobe_gave(name: str) -> None:
    found, wanted = RECORDED[name], dict(RECORDED[name]["preliminary"])
    with np.load(DATA / "standards.npz") as arrays:
        tested = Held(arrays[f"{name}.tested"], found["dtype"])
        ours = preliminary("api", tested, Held(arrays[f"{name}.benchmark"], found["benchmark_dtype"]))
    assert ours.status.value == wanted.pop("status")
    for figure, value in wanted.items():
        expected = None if value is None else pytest.approx(float(value), rel=1e-6)
        assert getattr(ours, figure) == expected, figure
    assert bool(ours.message) is (ours.status is not PreliminaryStatus.PASS)


def test_recorded_cases_have_all_statuses() -> None:
    assert {RECORDED[name]["preliminary"]["status"] for name in FINITE} == {"pass", "warning", "error"}


def test_nan_on_one_side_is_an_error_however_few_there_are() -> None:
    benchmark = np.linspace(1, 2, 10_000)
    tested = benchmark.astype(np.float32)
    tested[17] = math.nan
    found = preliminary("api", Held(tested, "float32"), Held(benchmark, "float64"))
    assert found.status is PreliminaryStatus.ERROR
    assert found.message == "1 of its 10000 elements are NaN or infinite on one side only"


def test_nan_and_infinities_of_both_sides_agree() -> None:
    values = float32(math.nan, math.inf, -math.inf, 1.0, 2.0)
    assert preliminary("api", values, values).status is PreliminaryStatus.PASS
    nothing = float32(math.nan, math.nan)
    assert preliminary("api", nothing, nothing).status is PreliminaryStatus.PASS


@pytest.mark.parametrize(
    ("tested", "status"),
    [
        (1e-9, PreliminaryStatus.PASS),
        (1e-3, PreliminaryStatus.ERROR),
    ],
)
def test_a_benchmark_of_zeros_is_met_by_what_rounding_leaves(tested: float, status: PreliminaryStatus) -> None:
    """The gradient of a softmax with constant incoming gradients is zero, and 1e-9 in float32."""
    assert preliminary("softmax", float32(tested, -tested, tested), float32(0, 0, 0)).status is status


def test_nothing_to_compare_is_skipped() -> None:
    empty = Held(np.zeros((2, 0), np.float32), "float32")
    assert preliminary("api", empty, empty).status is PreliminaryStatus.SKIP
    assert preliminary("api", None, None).status is PreliminaryStatus.SKIP


def test_what_only_one_side_has_is_an_error() -> None:
    assert preliminary("api", float32(1), None).status is PreliminaryStatus.ERROR
    assert preliminary("api", None, float32(1)).status is PreliminaryStatus.ERROR


@pytest.mark.parametrize(
    ("tested", "benchmark"),
    [
        (float32(1, 2), float32(1)),
        (float32(1), Held(np.array([1]), "int64")),
        (Held(np.array([True]), "bool"), Held(np.array([1]), "int64")),
        (float32(1), 1.0),
        (1, True),
        (3, 4),
        ("a", "b"),
    ],
)
def test_another_shape_kind_or_plain_value_is_an_error(tested: object, benchmark: object) -> None:
    assert preliminary("api", tested, benchmark).status is PreliminaryStatus.ERROR


@pytest.mark.parametrize("value", [3, 1.5, math.nan, True, "torch.float32", (2, 3)])
def test_equal_plain_values_pass(value: object) -> None:
    assert preliminary("api", value, value).status is PreliminaryStatus.PASS


def test_integers_of_quantising_apis_may_be_off_by_one() -> None:
    benchmark, near, far = (Held(np.array(values, np.int8), "int8") for values in ([127, -3], [126, -3], [127, -5]))
    assert preliminary("npu_dynamic_quant", near, benchmark).status is PreliminaryStatus.PASS
    assert preliminary("npu_dynamic_quant", far, benchmark).max_abs == 2.0
    assert preliminary("npu_dynamic_quant", far, benchmark).status is PreliminaryStatus.ERROR
    assert preliminary("add", near, benchmark).status is PreliminaryStatus.ERROR


@pytest.mark.parametrize(("zeros", "status"), [((60, 50), PreliminaryStatus.PASS), ((60, 40), PreliminaryStatus.ERROR)])
def test_dropout_is_judged_by_its_number_of_zeros(zeros: tuple[int, int], status: PreliminaryStatus) -> None:
    sides = [float32(*([0.0] * count + [2.0] * (120 - count))) for count in zeros]
    assert preliminary("dropout", *sides).status is status
    assert preliminary("dropout", float32(0, 0, 0), float32(1, 1, 1)).status is PreliminaryStatus.PASS


def test_eight_bits_are_left_to_the_standard_in_units() -> None:
    tested = Held(np.array([1.0, 2.25, 4.0], np.float32), "float8_e4m3fn")
    found = preliminary("matmul", tested, float32(1.05, 2.1, 4.1))
    assert (found.status, found.within_thousandth) == (PreliminaryStatus.PASS, 0.0)


@pytest.mark.parametrize("name", FINITE)
def test_chunks_give_the_status_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(DATA / "standards.npz") as arrays:
        tested = Held(arrays[f"{name}.tested"], RECORDED[name]["dtype"])
        benchmark = Held(arrays[f"{name}.benchmark"], RECORDED[name]["benchmark_dtype"])
    whole = preliminary("api", tested, benchmark)
    monkeypatch.setattr("probe_flow.apis.figures.CHUNK", 7)
    chunked = preliminary("api", tested, benchmark)
    assert (chunked.status, chunked.message, chunked.max_abs) == (whole.status, whole.message, whole.max_abs)
    assert chunked.cosine == (None if whole.cosine is None else pytest.approx(whole.cosine, rel=1e-12))
