"""The policy of dynamic-graph dumps (dump.json): rules that relate the outputs of an API to its inputs.

Rules and thresholds follow the published result rules of dump.json comparison (26.x) where these are right.
Differences on purpose: relative rules ignore differences below a floor per dtype, so that rounding noise of 1e-5
against 1e-7 raises no warning; dtype and requires_grad differences are facts of the row, not failures of its values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.measured import MeasuredPair
from probe_flow.records import Measurement, Mode, SideSummary, Status, TensorKind, Verdict

JUMP_INPUT_LIMIT = 0.1
JUMP_OUTPUT_LIMIT = 0.5
GROWTH_FACTOR = 10.0
GROWTH_WITHOUT_INPUT = 0.1
FLOOR_16_BIT = 1e-2
FLOOR_32_BIT = 1e-3
NORM = "l2norm_diff_rel"

UNJUDGED = frozenset(
    (
        "empty",
        "empty_like",
        "numpy",
        "to",
        "__setitem__",
        "empty_with_format",
        "new_empty_strided",
        "new_empty",
        "empty_strided",
    )
)
"""APIs whose results are undefined memory or mere copies; the reference tool leaves them out too."""


class DumpJsonPolicy:
    """Rules of one API: non-finite values, scalars, shapes, and a jump of the norm from inputs to outputs."""

    name = "dump_json"

    def judge(self, rows: Sequence[MeasuredPair]) -> Sequence[Verdict]:
        """Return one verdict per row of one API call."""
        if rows and rows[0].node.name.split(".")[1:2] and rows[0].node.name.split(".")[1] in UNJUDGED:
            return [Verdict(Status.SKIPPED, ("unjudged_api",), ("contents of this API are undefined",)) for _ in rows]
        worst_input = max((_norm_error(row) for row in rows if not row.is_produced), default=0.0)
        first_output = next((row for row in rows if row.is_produced), None)
        return [_judge_row(row, worst_input, is_first_output=row is first_output) for row in rows]


def _judge_row(row: MeasuredPair, worst_input: float, *, is_first_output: bool) -> Verdict:
    measurement = row.measurement
    assert measurement is not None
    failures = [*_nonfinite(measurement), *_scalar(row), *_shape(row)]
    warnings: list[tuple[str, str]] = []
    if measurement.mode is Mode.CHECKSUM and not measurement.metrics.get("checksum_equal"):
        failures.append(("checksum", "checksums differ"))
    if row.is_produced:
        error = _norm_error(row)
        if worst_input < JUMP_INPUT_LIMIT and error > JUMP_OUTPUT_LIMIT:
            failures.append(
                ("norm_jump", f"norm of the output is off by {error:.3g}, of the inputs by {worst_input:.3g}")
            )
        elif is_first_output and error > _floor(row) and _grew(worst_input, error):
            warnings.append(
                (
                    "norm_growth",
                    f"norm of the output is off by {error:.3g}, over 10 times the inputs' {worst_input:.3g}",
                )
            )
    found = failures or warnings
    status = Status.FAIL if failures else Status.WARNING if warnings else Status.PASS
    return Verdict(status, tuple(rule for rule, _ in found), tuple(text for _, text in found))


def _grew(worst_input: float, error: float) -> bool:
    return error > GROWTH_WITHOUT_INPUT if worst_input == 0 else error / worst_input > GROWTH_FACTOR


def _norm_error(row: MeasuredPair) -> float:
    """Relative difference of the L2 norms; 0 where there is none to speak of."""
    assert row.measurement is not None
    value = row.measurement.metrics.get(NORM)
    return 0.0 if value is None or math.isnan(value) else float(value)


def _floor(row: MeasuredPair) -> float:
    tensors = (row.pair.target, row.pair.golden)
    return FLOOR_16_BIT if any(tensor and "16" in tensor.dtype for tensor in tensors) else FLOOR_32_BIT


def _nonfinite(measurement: Measurement) -> list[tuple[str, str]]:
    if _is_finite(measurement.golden) and not _is_finite(measurement.target):
        return [("nonfinite", "nan or inf in the maximum or minimum of the target only")]
    return []


def _is_finite(side: SideSummary | None) -> bool:
    if side is None:
        return True
    values = (side.statistics.max, side.statistics.min)
    return all(value is None or math.isfinite(float(value)) for value in values)


def _scalar(row: MeasuredPair) -> list[tuple[str, str]]:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if row.is_produced or TensorKind.SCALAR not in (target.kind, golden.kind) or target.value == golden.value:
        return []
    return [("scalar", f"scalar argument is {target.value!r}, golden {golden.value!r}")]


def _shape(row: MeasuredPair) -> list[tuple[str, str]]:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if target.logical_shape == golden.logical_shape or None in (target.logical_shape, golden.logical_shape):
        return []
    return [("shape", f"shape is {target.logical_shape}, golden {golden.logical_shape}")]
