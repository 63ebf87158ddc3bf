"""How results of PyTorch are judged: a preliminary status, and the figures of the standard that their API has.

The preliminary status is right, suspicious or wrong before any standard is asked. The order of its tests and their
limits are those of msprobe 26.2.0: what decides first ends it, and later figures stay empty. Where it differs from
msprobe: NaN and infinities that only one side has are an error, not a pass; and a benchmark of nothing but zeros is met
by errors that its type cannot tell from zero.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np

from probe_flow.apis.acc_check import Figures, Judgement
from probe_flow.apis.figures import THOUSANDTH, Errors, error_rate, errors_of, shares_within, spacing
from probe_flow.apis.side import Held, Result
from probe_flow.apis.standards import Profile, is_eight_bits, standard_figures, standard_of

COSINE_LIMIT = 0.99
MAX_ABS_LIMIT = 1e-3
HUNDREDTH = 1e-2
TEN_THOUSANDTH = 1e-4

QUANTIZED_LIMIT = 1.0
"""Largest absolute error of the integers that a quantising API gives."""

QUANTIZING_APIS = frozenset({"npu_rms_norm_dynamic_quant", "npu_dynamic_quant", "npu_quant_lightning_indexer"})
"""Source: `config.yaml` of msprobe's pre-check."""

DROPOUT_ELEMENTS = 100
"""Outputs of dropout with fewer elements pass: their number of zeros says nothing."""

DROPOUT_SHARE = 0.1
"""By how many zeros, as a share of the elements, two outputs of dropout may differ."""

_ZERO = float(np.finfo(np.float64).eps)
"""Up to this size msprobe counts an element as zero."""


class PreliminaryStatus(enum.Enum):
    """What is known of an output before a standard judges it. ``SKIP``: there is nothing to compare."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


@dataclass(frozen=True)
class Preliminary:
    """A preliminary status, with the figures that led to it.

    Args:
        status: of the output.
        message: why, unless it passes.
        cosine: of the two, each scaled by its largest element; None where it says nothing.
        max_abs: largest absolute error of what is finite.
        within_hundredth, within_thousandth, within_ten_thousandth: share of elements whose relative error is below.
        error_rate: share of elements that are not equal, of what is no float.
    """

    status: PreliminaryStatus
    message: str = ""
    cosine: float | None = None
    max_abs: float | None = None
    within_hundredth: float | None = None
    within_thousandth: float | None = None
    within_ten_thousandth: float | None = None
    error_rate: float | None = None


def preliminary(
    api: str, tested: object, benchmark: object, *, quantizing: Collection[str] = QUANTIZING_APIS
) -> Preliminary:
    """Return the preliminary status of one output.

    Args:
        api: name without kind and number; any that has ``dropout`` in it is random.
        tested, benchmark: `Held`, plain values, or None.
        quantizing: APIs whose integer outputs may be off by one.
    """
    if tested is None and benchmark is None:
        return Preliminary(PreliminaryStatus.SKIP, "there is no such output")
    if not (isinstance(tested, Held) and isinstance(benchmark, Held)):
        return _plain(tested, benchmark)
    if tested.values.shape != benchmark.values.shape:
        shapes = f"{tested.values.shape}, the benchmark's {benchmark.values.shape}"
        return Preliminary(PreliminaryStatus.ERROR, f"its shape is {shapes}")
    if _family(tested) != _family(benchmark):
        return Preliminary(
            PreliminaryStatus.ERROR, f"its elements are {tested.dtype}, the benchmark's {benchmark.dtype}"
        )
    if tested.values.size == 0:
        return Preliminary(PreliminaryStatus.SKIP, "it has no elements")
    if "dropout" in api:
        return _dropout(tested, benchmark)
    if _family(tested) == "float":
        return _floats(tested, benchmark)
    if api in quantizing:
        return _quantized(tested, benchmark)
    rate = error_rate(tested, benchmark)
    message = f"{rate:.6g} of its elements are not equal" if rate else ""
    return Preliminary(_status(is_right=not rate), message, error_rate=rate)


def _family(held: Held) -> str:
    kind = held.values.dtype.kind
    return "float" if kind in "fc" else "bool" if kind == "b" else "integer"


def _status(*, is_right: bool) -> PreliminaryStatus:
    return PreliminaryStatus.PASS if is_right else PreliminaryStatus.ERROR


def _plain(tested: object, benchmark: object) -> Preliminary:
    if type(tested) is not type(benchmark):
        kinds = [each.dtype if isinstance(each, Held) else type(each).__name__ for each in (tested, benchmark)]
        return Preliminary(PreliminaryStatus.ERROR, f"it is a `{kinds[0]}`, the benchmark's a `{kinds[1]}`")
    if tested == benchmark or (tested != tested and benchmark != benchmark):  # so is NaN
        return Preliminary(PreliminaryStatus.PASS, error_rate=0.0)
    return Preliminary(PreliminaryStatus.ERROR, f"it is {tested!r}, the benchmark's is {benchmark!r}", error_rate=1.0)


def _quantized(tested: Held, benchmark: Held) -> Preliminary:
    errors = [abs(int(a) - int(b)) for a, b in zip(tested.values.flat, benchmark.values.flat, strict=True) if a != b]
    largest = float(max(errors, default=0))
    is_right = largest <= QUANTIZED_LIMIT
    message = "" if is_right else f"the largest error of its integers, {largest:g}, is above {QUANTIZED_LIMIT:g}"
    return Preliminary(_status(is_right=is_right), message, max_abs=largest)


def _dropout(tested: Held, benchmark: Held) -> Preliminary:
    size = tested.values.size
    zeros = [int(np.count_nonzero(each.values == 0)) for each in (tested, benchmark)]
    if size < DROPOUT_ELEMENTS or abs(zeros[0] - zeros[1]) / size < DROPOUT_SHARE:
        return Preliminary(PreliminaryStatus.PASS)
    return Preliminary(
        PreliminaryStatus.ERROR, f"{zeros[0]} of its {size} elements are zero, {zeros[1]} of the benchmark's"
    )


class _Extremes(NamedTuple):
    """What one pass over the errors finds.

    Args:
        disagreeing: number of elements that are NaN or infinite on one side only.
        finite: number of those that are finite on both sides.
        max_abs: largest absolute error.
        tested, benchmark: size of the largest element of either side, of those that are finite on both.
    """

    disagreeing: int
    finite: int
    max_abs: float
    tested: float
    benchmark: float


def _extremes(errors: Errors) -> _Extremes:
    disagreeing, finite = 0, 0
    largest = np.zeros(3)
    for chunk in errors:
        disagreeing += int(np.count_nonzero(chunk.disagree))
        finite += int(np.count_nonzero(chunk.finite))
        sides = [np.abs(side[chunk.finite]).max(initial=0.0) for side in (chunk.tested, chunk.benchmark)]
        largest = np.maximum(largest, [chunk.absolute.max(), *sides])
    return _Extremes(disagreeing, finite, *largest.tolist())


def _floats(tested: Held, benchmark: Held) -> Preliminary:
    errors = errors_of(tested, benchmark)
    extremes = _extremes(errors)
    found = Preliminary(PreliminaryStatus.ERROR)
    if extremes.disagreeing:
        words = f"{extremes.disagreeing} of its {errors.size} elements are NaN or infinite on one side only"
        return replace(found, message=words)
    if errors.size > 1 and extremes.finite:
        # Rounding leaves a trace where the exact result is zero: the gradient of a softmax is one.
        is_zero = extremes.benchmark <= _ZERO
        if is_zero and extremes.tested > max(_ZERO, _spacing_of(errors, benchmark)):
            return replace(found, message=f"the benchmark is zero everywhere, and it is not: {extremes.tested:.6g}")
        if not is_zero and extremes.tested <= _ZERO:
            return replace(found, message=f"it is zero everywhere, and the benchmark is not: {extremes.benchmark:.6g}")
        if not is_zero:
            found = replace(found, cosine=_cosine(errors, extremes))
    if found.cosine is not None and not found.cosine > COSINE_LIMIT:
        return replace(found, message=f"the cosine {found.cosine:.6g} is not above {COSINE_LIMIT}")
    found = replace(found, max_abs=extremes.max_abs)
    if extremes.max_abs < MAX_ABS_LIMIT:
        return replace(found, status=PreliminaryStatus.PASS)
    return _by_share(found, errors)


def _cosine(errors: Errors, extremes: _Extremes) -> float:
    """Return the cosine of what is finite, each side scaled by its largest element."""
    product, tested, benchmark = 0.0, 0.0, 0.0
    for chunk in errors:
        one = chunk.tested[chunk.finite] / extremes.tested
        other = chunk.benchmark[chunk.finite] / extremes.benchmark
        # Not by `dot`, whose threads take more time than they save and whose sums go by their number.
        product += float((one * other).sum())
        tested += float((one * one).sum())
        benchmark += float((other * other).sum())
    return min(max(product / (math.sqrt(tested) * math.sqrt(benchmark)), -1.0), 1.0)


def _spacing_of(errors: Errors, benchmark: Held) -> float:
    own = {"float16": np.float16, "float32": np.float32}.get(errors.dtype)
    return float(np.finfo(own).eps) if own is not None else spacing(errors.dtype, benchmark.values)


def _by_share(found: Preliminary, errors: Errors) -> Preliminary:
    """Decide by how many elements have a small relative error."""
    if errors.dtype in ("float16", "bfloat16"):
        hundredth, thousandth = shares_within(errors, HUNDREDTH, THOUSANDTH)
        found = replace(found, within_hundredth=hundredth)
        if not hundredth > 1 - HUNDREDTH:
            return replace(found, message=_too_few(hundredth, HUNDREDTH))
        return _pass_or_warn(replace(found, within_thousandth=thousandth), thousandth, THOUSANDTH)
    thousandth, ten_thousandth = shares_within(errors, THOUSANDTH, TEN_THOUSANDTH)
    found = replace(found, within_thousandth=thousandth, within_ten_thousandth=ten_thousandth)
    if is_eight_bits(errors.dtype):  # their own rounding is larger than both; the standard in units judges them
        return replace(found, status=PreliminaryStatus.PASS)
    if not thousandth > 1 - THOUSANDTH:
        return replace(found, message=_too_few(thousandth, THOUSANDTH))
    return _pass_or_warn(found, ten_thousandth, TEN_THOUSANDTH)


def _pass_or_warn(found: Preliminary, share: float, limit: float) -> Preliminary:
    if share > 1 - limit:
        return replace(found, status=PreliminaryStatus.PASS)
    return replace(found, status=PreliminaryStatus.WARNING, message=_too_few(share, limit))


def _too_few(share: float, limit: float) -> str:
    return f"{share:.6g} of its elements have a relative error below {limit:g}, and more than {1 - limit:g} should"


FIGURES = (
    "cosine",
    "max_abs",
    "within_hundredth",
    "within_thousandth",
    "within_ten_thousandth",
    "error_rate",
    "error_balance",
    "rmse",
    "small_ratio",
    "max_rel",
    "mean_rel",
    "inf_nan_ratio",
    "rel_ratio",
    "abs_ratio",
    "max_ulp",
    "mean_ulp",
    "ulp_ratio",
)
"""Names of the figures, in the order of their columns."""


def judge_torch(api: str, input_dtype: str, profile: Profile, tested: Result, benchmark: Result) -> Judgement:
    """Judge one result of an API of PyTorch by its benchmark.

    Args:
        api: name without kind and number.
        input_dtype: element type of the inputs, where one of them has eight bits.
        profile: how standards go by APIs.
        tested, benchmark: the results of both sides.
    """
    found = preliminary(api, tested.value, benchmark.value)
    named = {name: value for name, value in asdict(found).items() if name in FIGURES and value is not None}
    one, other = tested.value, benchmark.value
    if isinstance(one, Held) and isinstance(other, Held) and one.values.shape == other.values.shape:
        standard = standard_of(api, one.dtype, input_dtype, profile=profile)
        if standard is not None and "dropout" not in api:
            figures = asdict(standard_figures(standard, one, other))
            # What a preliminary test measured too is the same figure; the standard's stands where it asked for it.
            named |= {name: value for name, value in figures.items() if value is not None}
    return Judgement(
        is_right=found.status in (PreliminaryStatus.PASS, PreliminaryStatus.SKIP),
        figures=Figures(named.get("cosine"), named.get("max_abs"), named.get("max_rel")),
        message=found.message,
        is_doubtful=found.status is PreliminaryStatus.WARNING,
        named=named,
        is_empty=found.status is PreliminaryStatus.SKIP,
    )
