"""Pairs that bring their measurements: a stage measures in its worker, and no tensor is written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import context as in_order
from raw_pairs import raw

from probe_flow.comparing.asked import Asked
from probe_flow.comparing.steps import compare_pairs
from probe_flow.errors import Diagnostic
from probe_flow.metrics.brought import kept_part, kept_text, measured_text
from probe_flow.records import Comparison, FindingKind, Flow, Pairs, Status
from probe_flow.testing import measured_pairs
from probe_flow.testing.builders import ArrayBlocks, catalog
from probe_flow.testing.measured_pairs import Options, lost_batch, run
from probe_flow.testing.run_records import run_record
from probe_flow.testing.stages import StageTests, context

SEED = 7


def values(count: int = 1000, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return (scale * np.random.default_rng(SEED).normal(size=count)).astype(np.float32)


def dump(folder: Path, **arrays: np.ndarray[Any, Any]) -> Any:
    return catalog([raw(folder, "dump", name, each, node=name) for name, each in arrays.items()], op_type="Relu")


def rounded(folder: Path, dtype: str = "float16", **arrays: np.ndarray[Any, Any]) -> Pairs:
    options = Options(uses="testing.rounded", catalog="dump", dtype=dtype)
    found = run(options, {"catalog": [dump(folder, **arrays)]}, context(folder))
    assert isinstance(found, Pairs)
    return found


def compared(pairs: Pairs, folder: Path, **asked: Any) -> Comparison:
    return compare_pairs(pairs, Asked(**asked), replace(in_order(), facts=run_record()), None)


class TestRounded(StageTests):
    stage = measured_pairs.STAGE

    def options(self, folder: Path) -> dict[str, Any]:
        return {"catalog": "dump"}

    def inputs(self, folder: Path) -> dict[str, Any]:
        return {"catalog": [dump(folder, a=values())]}


@pytest.mark.parametrize(("dtype", "narrow"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_what_is_brought_is_what_rounding_costs(dtype: str, narrow: Any, tmp_path: Path) -> None:
    found = compared(rounded(tmp_path, dtype, a=values()), tmp_path)

    (row,) = found.rows
    exact = values().astype(np.float64)
    error = exact.astype(narrow).astype(np.float64) - exact
    assert row.measurement is not None
    metrics = row.measurement.metrics
    assert metrics["max_abs_err"] == np.abs(error).max()
    assert metrics["relative_euclidean_distance"] == pytest.approx(np.linalg.norm(error) / np.linalg.norm(exact), 1e-12)
    assert (row.measurement.count, row.measurement.backend.split()[0]) == (1000, "numpy")
    assert row.pair.target is not None
    assert row.pair.target.extents == ()
    assert found.pairs.measured == {}, "the rows have it"


def test_measured_there_or_here_is_the_same(tmp_path: Path) -> None:
    narrow = values().astype(np.float16)
    brought = compared(rounded(tmp_path, a=values()), tmp_path)
    pairs = rounded(tmp_path, a=values())
    target = raw(tmp_path, "target", "a", narrow, node="a")
    pair = replace(pairs.pairs[0], target=target)
    written = replace(pairs, target=catalog([target], flow=Flow.NONE), pairs=(pair,), measured={})
    here = compared(written, tmp_path)
    assert brought.rows[0].measurement == here.rows[0].measurement
    assert brought.rows[0].verdict == here.rows[0].verdict


def test_what_fails_is_a_finding_and_nothing_is_read_for_it_again(tmp_path: Path) -> None:
    found = compared(rounded(tmp_path, small=values(), large=values(scale=1e6)), tmp_path)
    assert [each.verdict.status for each in found.rows] == [Status.PASS, Status.FAIL]
    assert [(each.kind, each.node.name) for each in found.findings if each.node] == [(FindingKind.FAILURE, "large")]
    assert found.details == {}
    assert not found.gate_passed


def test_rows_that_bring_a_measurement_stand_beside_rows_that_do_not(tmp_path: Path) -> None:
    pairs = rounded(tmp_path, a=values(), b=values(10))
    kept = {number: text for number, text in pairs.measured.items() if number == 1}
    found = compared(replace(pairs, measured=kept), tmp_path)
    assert [each.verdict.status for each in found.rows] == [Status.NOT_COMPARABLE, Status.PASS]


def test_a_tensor_that_cannot_be_read_where_it_is_rounded_is_an_error_and_the_others_are_not(tmp_path: Path) -> None:
    whole = dump(tmp_path, a=values(), b=values(10))
    Path(whole.tensors[0].source).write_bytes(b"cut")
    options = Options(uses="testing.rounded", catalog="dump")
    pairs = run(options, {"catalog": [whole]}, context(tmp_path))
    assert isinstance(pairs, Pairs)
    found = compared(pairs, tmp_path)
    assert [each.verdict.status for each in found.rows] == [Status.ERROR, Status.PASS]
    assert found.incomplete


@pytest.mark.parametrize("text", ["", "numpy", "numpy\n{}", 'numpy\n["pair", []]', 'numpy\n["span", 1]'])
def test_a_text_that_is_no_measurement_costs_its_row(text: str, tmp_path: Path) -> None:
    pairs = rounded(tmp_path, a=values(), b=values(10))
    found = compared(replace(pairs, measured={**pairs.measured, 0: text}), tmp_path)
    assert [each.verdict.status for each in found.rows] == [Status.ERROR, Status.PASS]
    assert found.rows[0].verdict.rule_ids == ("PF9002",)


def test_a_worker_that_dies_costs_its_batch() -> None:
    reason = Diagnostic("PF6106", "the worker died")
    batch = measured_pairs.Batch((raw_tensor := object(),) * 2, "float16", None, "read")  # type: ignore[arg-type]
    assert raw_tensor is not None
    assert lost_batch(batch, reason) == [reason, reason]


def test_the_text_is_read_as_it_was_written() -> None:
    text = measured_text(ArrayBlocks([1.0, math.nan], "float32"), ArrayBlocks([1.5, 2.0], "float32"))
    backend, part = kept_part(text)
    assert kept_text(backend, part) == text
