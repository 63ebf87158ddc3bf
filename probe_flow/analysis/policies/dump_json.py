"""The policy of dynamic-graph dumps (dump.json): rules that relate the outputs of an API to its inputs.

Rules and thresholds follow the published result rules of dump.json comparison (26.x) where these are right.
Tensors are judged by the share of elements within one thousandth and by the cosine, statistics by the norm.
Differences on purpose: relative rules ignore differences below a floor per dtype, so that rounding noise of 1e-5
against 1e-7 raises no warning; NaN of the golden alone fails too; another kind of dtype (an integer for a float) or
another requires_grad is a warning, since the values may be right; another width of the same kind is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from probe_flow.analysis.plain_values import gap
from probe_flow.dumps.unjudged_apis import UNDEFINED, WITH_BUFFERS
from probe_flow.records import Mode, Status, TensorKind, Verdict
from probe_flow.records.row import Row

JUMP_INPUT_LIMIT = 0.1
JUMP_OUTPUT_LIMIT = 0.5
GROWTH_FACTOR = 10.0
GROWTH_WITHOUT_INPUT = 0.1
FLOOR_16_BIT = 1e-2
FLOOR_32_BIT = 1e-3
SHARE_INPUT_LIMIT = 0.9
SHARE_OUTPUT_LIMIT = 0.1
COSINE_INPUT_LIMIT = 0.9
COSINE_DROP = 0.1

_LEAST_FLOOR = min(FLOOR_16_BIT, FLOOR_32_BIT)
"""Where the norms differ by no more, only measured elements can tell of a change."""

_NUMERIC = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS})

NORM = "l2norm_diff_rel"
SHARE = "err_ratio_1e3"
COSINE = "cosine"


class DumpJsonPolicy:
    """Rules of one API: non-finite values, scalars, shapes, and a jump of the error from inputs to outputs."""

    name = "dump_json"
    needs = (COSINE, SHARE)

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row of one API call."""
        parts = rows[0].node.name.split(".", 2) if rows else []
        api = parts[1] if len(parts) > 1 else ""
        if api in UNDEFINED:
            return [Verdict(Status.SKIPPED, ("unjudged_api",), ("contents of this API are undefined",)) for _ in rows]
        if api in WITH_BUFFERS:
            return [
                _judge_row(row, _norm_error(row), _NO_CHANGE) if row.is_produced else _UNJUDGED_INPUT for row in rows
            ]
        errors = [_norm_error(row) for row in rows]
        changes = _changes(rows, errors)
        return [_judge_row(row, error, changes) for row, error in zip(rows, errors, strict=True)]


_UNJUDGED_INPUT = Verdict(Status.SKIPPED, ("unjudged_input",), ("the inputs of this collective are not compared",))


class _Changes(Struct, frozen=True):
    """What the rules that relate outputs to inputs say: on the first output row, and on any that jumps."""

    first_output: Row | None = None
    failures: tuple[tuple[str, str], ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    worst_input: float = math.inf


_NO_CHANGE = _Changes()


def _changes(rows: Sequence[Row], errors: Sequence[float]) -> _Changes:
    """Return what the rules say of a call; ``errors`` are those of the norms of its rows."""
    if max(errors, default=0.0) <= _LEAST_FLOOR and not any(_has_elements(row) for row in rows):
        return _NO_CHANGE
    inputs: list[Row] = []
    outputs: list[Row] = []
    worst_input, error, worst = 0.0, -math.inf, None
    for row, found in zip(rows, errors, strict=True):
        if not row.is_produced:
            inputs.append(row)
            worst_input = max(worst_input, found)
        else:
            outputs.append(row)
            if found > error:
                error, worst = found, row
    if worst is None:
        return _NO_CHANGE
    failures, warnings = [], []
    share, cosine = _least(outputs, SHARE), _least(outputs, COSINE)
    if share < SHARE_OUTPUT_LIMIT and (before := _least(inputs, SHARE)) > SHARE_INPUT_LIMIT:
        compared = f", of the inputs {before:.3g}" if inputs else ""
        failures.append(("thousandth", f"{share:.3g} of the output is within one thousandth{compared}"))
    if error and error > _floor(worst) and _grew(worst_input, error):
        text = f"norm of the output is off by {error:.3g}, over 10 times the inputs' {worst_input:.3g}"
        warnings.append(("norm_growth", text))
    if cosine < 1.0 and (before := _least(inputs, COSINE)) > COSINE_INPUT_LIMIT and before - cosine > COSINE_DROP:
        warnings.append(("cosine_drop", f"cosine falls from {before:.3g} of the inputs to {cosine:.3g}"))
    if not failures and not warnings and error <= JUMP_OUTPUT_LIMIT:
        return _NO_CHANGE
    return _Changes(outputs[0], tuple(failures), tuple(warnings), worst_input)


_PASS = Verdict(Status.PASS)


def _judge_row(row: Row, error: float, changes: _Changes) -> Verdict:
    measurement = row.measurement
    assert measurement is not None
    is_first = row is changes.first_output
    if not (is_first and (changes.failures or changes.warnings)) and _is_clean(row, error, changes):
        return _PASS
    failures = [*_nonfinite(row), *(changes.failures if is_first else ()), *_scalar(row), *_shape(row)]
    if measurement.mode is Mode.CHECKSUM and not measurement.metrics.get("checksum_equal"):
        failures.append(("checksum", "checksums differ"))
    if row.is_produced and changes.worst_input < JUMP_INPUT_LIMIT and error > JUMP_OUTPUT_LIMIT:
        text = f"norm of the output is off by {error:.3g}, of the inputs by {changes.worst_input:.3g}"
        failures.append(("norm_jump", text))
    warnings = [*(changes.warnings if is_first else ()), *_requires_grad(row), *_dtype(row)]
    if not failures and not warnings:
        return _PASS
    status = Status.FAIL if failures else Status.WARNING if warnings else Status.PASS
    found = failures or warnings
    return Verdict(status, tuple(rule for rule, _ in found), tuple(text for _, text in found))


def _is_clean(row: Row, error: float, changes: _Changes) -> bool:
    """Whether no rule of `_judge_row` can have anything to say of a row, as of nearly all."""
    measurement, target, golden = row.measurement, row.pair.target, row.pair.golden
    assert measurement is not None
    assert target is not None
    assert golden is not None
    return (
        not measurement.nonfinite_mismatch
        and measurement.mode is not Mode.CHECKSUM
        and target.kind is not TensorKind.SCALAR
        and golden.kind is not TensorKind.SCALAR
        and target.dtype == golden.dtype
        and target.logical_shape == golden.logical_shape
        and target.requires_grad == golden.requires_grad
        and not (error > JUMP_OUTPUT_LIMIT and changes.worst_input < JUMP_INPUT_LIMIT)
    )


def _has_elements(row: Row) -> bool:
    return row.measurement is not None and row.measurement.mode is Mode.TENSOR


def _grew(worst_input: float, error: float) -> bool:
    return error > GROWTH_WITHOUT_INPUT if worst_input == 0 else error / worst_input > GROWTH_FACTOR


def _norm_error(row: Row) -> float:
    """Relative difference of the L2 norms; 0 where there is none to speak of."""
    assert row.measurement is not None
    value = row.measurement.metric(NORM)
    return 0.0 if value is None or math.isnan(value) else float(value)


def _least(rows: Sequence[Row], metric: str) -> float:
    """Return the least value of a metric over the rows that have it; 1 when none has."""
    least = math.inf
    for row in rows:
        value = row.measurement.metrics.get(metric) if row.measurement is not None else None
        if value is not None and value < least:
            least = float(value)
    return 1.0 if least == math.inf else least


def _floor(row: Row) -> float:
    tensors = (row.pair.target, row.pair.golden)
    return FLOOR_16_BIT if any(tensor and "float16" in tensor.dtype for tensor in tensors) else FLOOR_32_BIT


def _nonfinite(row: Row) -> list[tuple[str, str]]:
    if row.measurement is None or not row.measurement.nonfinite_mismatch:
        return []
    if row.measurement.mode is Mode.STATISTICS:
        return [("nonfinite", "nan or inf in the statistics of one side only")]
    return [("nonfinite", f"nan or inf at {row.measurement.nonfinite_mismatch} positions of one side only")]


def _scalar(row: Row) -> list[tuple[str, str]]:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if (target.kind is not TensorKind.SCALAR and golden.kind is not TensorKind.SCALAR) or row.is_produced:
        return []
    if gap(target.value, golden.value) == 0.0:
        return []
    return [("scalar", f"scalar argument is {target.value!r}, golden {golden.value!r}")]


def _requires_grad(row: Row) -> list[tuple[str, str]]:
    """Say so where both sides recorded whether they need a gradient, and differ; MindSpore records it never."""
    assert row.pair.target is not None
    assert row.pair.golden is not None
    target, golden = row.pair.target.requires_grad, row.pair.golden.requires_grad
    if target is None or golden is None or target == golden:
        return []
    return [("requires_grad", f"requires_grad is {target}, golden {golden}")]


def _dtype(row: Row) -> list[tuple[str, str]]:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if target.dtype == golden.dtype or not _NUMERIC.issuperset((target.kind, golden.kind)):
        return []
    if _dtype_class(target.dtype) == _dtype_class(golden.dtype):
        return []
    return [("dtype", f"dtype is {target.dtype}, golden {golden.dtype}")]


@lru_cache(maxsize=256)
def _dtype_class(dtype: str) -> str:
    return next((name for name in ("float", "complex", "bool", "int") if name in dtype), dtype)


def _shape(row: Row) -> list[tuple[str, str]]:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if target.logical_shape == golden.logical_shape or None in (target.logical_shape, golden.logical_shape):
        return []
    if row.pair.reason is not None and row.pair.reason.kind.is_reshaped:
        return []
    return [("shape", f"shape is {target.logical_shape}, golden {golden.logical_shape}")]
