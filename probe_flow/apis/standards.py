"""Precision standards for single APIs: which of them judges an API, its limits, and its judgement of one run.

All tables are those of msprobe 26.2.0 (pre-check of PyTorch APIs); where its documents have other numbers, its code
counts. Element types go by their canonical names.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

from probe_flow.apis.figures import (
    FORMATS,
    THOUSANDTH,
    Rmse,
    Spacing,
    StandardFigures,
    benchmark_figures,
    corrected_rmse,
    error_balance,
    error_rate,
    errors_of,
    shares_within,
    spacing,
    threshold_figures,
    ulp_figures,
)
from probe_flow.apis.side import Held
from probe_flow.apis.values import Values


class Standard(enum.Enum):
    """What an output is judged by."""

    ABSOLUTE = "absolute threshold"
    BENCHMARK = "benchmark"
    BINARY = "binary"
    ULP = "ulp"
    THOUSANDTH = "thousandth"
    ACCUMULATIVE = "accumulative"


class Profile(enum.Enum):
    """How an API gets its standard."""

    PER_API = "per_api"
    """By the lists of APIs, as msprobe did up to its generation 1.2 (mstt)."""
    BENCHMARK_ONLY = "benchmark_only"
    """Every float by the benchmark standard, as msprobe 26.2.0 does."""


# -- limits


@dataclass(frozen=True)
class Limits:
    """Limits of one element type.

    Args:
        small: benchmarks up to this size are small values.
        absolute_atol, benchmark_atol: absolute error of a small value, in these two standards.
        rtol: relative error of the other values, absolute threshold standard.
        accumulative: both errors, accumulative standard.
        accumulative_balance: error balance, accumulative standard.
        least_error: what a figure of the golden device counts as at least, when it divides that of the target.
        ulps: units that an element may be off by.
        mean_ulp: mean error in units below which a run passes whatever its other figures; None where there is none.
        ulp_ratio: share of elements off by more than `ulps` below which a run passes.
    """

    small: float
    absolute_atol: float
    benchmark_atol: float
    rtol: float
    accumulative: float
    accumulative_balance: float
    least_error: float
    ulps: float = 1.0
    mean_ulp: float | None = None
    ulp_ratio: float = 1e-3


LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "float16": Limits(2**-10, 2**-16, 1e-16, 2**-10, 2**-8, 2**-20, 2**-11),
        "bfloat16": Limits(2**-10, 1e-16, 1e-16, 2**-8, 2**-7, 2**-7, 2**-8),
        "float32": Limits(
            2**-20, 2**-30, 2**-30, 2**-20, 2**-11, 2**-14, 2**-14, ulps=32.0, mean_ulp=64.0, ulp_ratio=0.05
        ),
    }
)
"""Source: `StandardConfig` of msprobe. Its documents have 2**-11, 2**-8 and 2**-14 for small values."""


@dataclass(frozen=True)
class Constants:
    """A table of constants, with the formulas that go with it.

    Args:
        name: of the table.
        limits: by element type; those of float32 are for any other.
        spacing: what is added to a benchmark before it divides.
        rmse: how the root mean square error is made.
        rounding: how a benchmark is brought into a tested type, of its name, the tested and the benchmark's elements;
            None = into the one that holds the tested elements, which has bfloat16 as float32.
    """

    name: str
    limits: Mapping[str, Limits]
    spacing: Spacing = spacing
    rmse: Rmse = corrected_rmse
    rounding: Callable[[str, Values, Values], Values] | None = None

    def of(self, dtype: str) -> Limits:
        """Return the limits of an element type."""
        if is_eight_bits(dtype):
            return replace(self.limits["float32"], ulps=1.0, mean_ulp=None, ulp_ratio=1e-3)
        return self.limits.get(dtype) or self.limits["float32"]


ACC_CHECK = Constants("acc_check", LIMITS)

ACCUMULATIVE_SMALL = 1.0
"""Benchmarks up to this size are small values of the accumulative standard."""

THOUSANDTH_SHARE = 0.999
"""Share of elements that have to be within a thousandth; msprobe's documents ask for more, its code takes just that."""


_LEVELS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        level: frozenset(names.split())
        for level, names in (
            ("L1", "embedding npu_fusion_attention npu_fusion_attention_grad scatter_ scatter_add_"),
            (
                "L2",
                "addmm npu_cross_entropy_loss npu_cross_entropy_loss_backward GELU layer_norm matmul mm index one_hot"
                " sum npu_rms_norm npu_rms_norm_backward nonzero",
            ),
        )
    }
)

# -- which standard judges an API

_LISTS: Mapping[Standard, frozenset[str]] = MappingProxyType(
    {
        standard: frozenset(names.split())
        for standard, names in (
            (
                Standard.ABSOLUTE,
                "mul mul_ __mul__ __imul__ __rmul__ add add_ __add__ __iadd__ __radd__ div div_ __div__ __idiv__"
                " divide divide_ leaky_relu leaky_relu_ prelu reciprocal reciprocal_ rsqrt rsqrt_ square square_"
                " sub sub_ rsub __isub__ __sub__",
            ),
            (
                Standard.BINARY,
                "abs abs_ absolute absolute_ argmin bitwise_and bitwise_and_ broadcast_to ceil ceil_ equal fill_"
                " flatten floor floor_ gather greater greater_ greater_equal greater_equal_ histc isfinite isnan"
                " less less_ less_equal less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or"
                " logical_or_ masked_fill masked_fill_ max_pool3d maximum minimum neg neg_ nonzero not_equal"
                " not_equal_ one_hot pad relu reshape round round_ select sign sign_ sort tile topk transpose"
                " transpose_ tril tril_ triu triu_ type_as",
            ),
            (
                Standard.ULP,
                "__matmul__ addbmm addbmm_ addmm addmm_ baddbmm baddbmm_ bilinear bmm chain_matmul hspmm linear matmul"
                " mm mv smm sspaddmm",
            ),
            (Standard.THOUSANDTH, "conv1d conv2d"),
            # msprobe has a placeholder there, `test_api`, which no library has.
            (Standard.ACCUMULATIVE, ""),
        )
    }
)
"""Source: `api_precision_standard.yaml` of msprobe. The lists have no API in common."""

_BY_API: Mapping[str, Standard] = MappingProxyType({api: each for each, apis in _LISTS.items() for api in apis})

_UNJUDGED = frozenset({"float64", "complex32", "complex64", "complex128"})
"""Element types that no standard judges: the benchmark is no more precise than they are."""


def standard_of(
    api: str, dtype: str, input_dtype: str = "float32", *, profile: Profile = Profile.PER_API
) -> Standard | None:
    """Return the standard that judges an output; None where none does.

    Args:
        api: without the kind of API and without number: ``matmul``, ``linalg.inv``.
        dtype: canonical element type of the tested output.
        input_dtype: canonical element type of the inputs, where one of them has eight bits.
        profile: how standards go by APIs.
    """
    if is_eight_bits(dtype):
        return Standard.ULP
    if is_eight_bits(input_dtype):
        return Standard.ABSOLUTE
    if dtype in _UNJUDGED:
        return None
    if dtype not in FORMATS:
        return Standard.BINARY
    return Standard.BENCHMARK if profile is Profile.BENCHMARK_ONLY else _BY_API.get(api, Standard.BENCHMARK)


def is_eight_bits(dtype: str) -> bool:
    """Return True for floats of eight bits."""
    return dtype.startswith(("float8", "hifloat8"))


def is_judged(dtype: str) -> bool:
    """Return True for element types that some standard judges."""
    return dtype not in _UNJUDGED


def limits_of(dtype: str) -> Limits:
    """Return the limits of an element type in msprobe's pre-check."""
    return ACC_CHECK.of(dtype)


def level_of(api: str) -> str:
    """Return the level of an API, by which the benchmark standard is more or less strict."""
    return next((level for level, apis in _LEVELS.items() if api in apis), "L0")


# -- figures and judgement


def standard_figures(
    standard: Standard, tested: Held, benchmark: Held, constants: Constants = ACC_CHECK
) -> StandardFigures:
    """Return the figures that a standard asks for; none of an empty tensor.

    Args:
        standard: that judges the output.
        tested, benchmark: the output on both sides, of one shape.
        constants: limits and formulas.
    """
    if tested.values.size == 0:
        return StandardFigures()
    if standard is Standard.BINARY:
        return StandardFigures(error_rate=error_rate(tested, benchmark))
    limits, errors = constants.of(tested.dtype), errors_of(tested, benchmark, constants.spacing, constants.rounding)
    if standard is Standard.ABSOLUTE:
        return threshold_figures(errors, small=limits.small, atol=limits.absolute_atol, rtol=limits.rtol)
    if standard is Standard.ACCUMULATIVE:
        bound = limits.accumulative
        found = threshold_figures(errors, small=ACCUMULATIVE_SMALL, atol=bound, rtol=bound)
        return replace(found, error_balance=error_balance(errors))
    if standard is Standard.BENCHMARK:
        return benchmark_figures(errors, small=limits.small, atol=limits.benchmark_atol, rmse=constants.rmse)
    if standard is Standard.ULP:
        return ulp_figures(errors, allowed=limits.ulps)
    return StandardFigures(within_thousandth=shares_within(errors, THOUSANDTH)[0])


@dataclass(frozen=True)
class Check:
    """A figure held against its limit.

    Args:
        figure: its name, a field of `StandardFigures`.
        value: of the figure, or of its ratio to that of another run.
        holds: whether it is as it has to be.
        message: why it is not, or what is odd about it.
        decides: whether the output fails with it.
    """

    figure: str
    value: float
    holds: bool
    message: str = ""
    decides: bool = True


_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "inf_nan_ratio": "share of wrong NaN and infinities",
        "rel_ratio": "share of relative errors beyond the limit",
        "abs_ratio": "share of absolute errors beyond the limit",
        "small_ratio": "share of wrong small values",
        "max_rel": "largest relative error",
        "mean_rel": "mean relative error",
        "rmse": "root mean square error",
        "error_balance": "error balance",
        "error_rate": "share of unequal elements",
        "mean_ulp": "mean error in ulps",
        "ulp_ratio": "share of elements off by too many ulps",
        "within_thousandth": "share of elements within a thousandth",
    }
)


def words_of(figure: str) -> str:
    """Return the name of a figure for people."""
    return _WORDS[figure]


_ALONE: Mapping[Standard, Sequence[str]] = MappingProxyType(
    {
        Standard.ABSOLUTE: ("inf_nan_ratio", "rel_ratio", "abs_ratio"),
        Standard.ACCUMULATIVE: ("inf_nan_ratio", "rel_ratio", "abs_ratio", "error_balance"),
        Standard.BINARY: ("error_rate",),
        Standard.THOUSANDTH: ("within_thousandth",),
    }
)
"""Figures of the standards that judge one run by itself. Benchmark and ulp compare two devices."""


def checks_alone(standard: Standard, figures: StandardFigures, dtype: str) -> tuple[Check, ...] | None:
    """Hold the figures of one run against the limits of its standard.

    Args:
        standard: that the figures are of.
        figures: of the output.
        dtype: canonical element type of the tested output.

    Returns:
        What holds and what not; None where the standard needs a second run, on another device, to judge.
    """
    if standard is Standard.ULP and is_eight_bits(dtype):
        return (_below("ulp_ratio", figures.ulp_ratio, limits_of(dtype).ulp_ratio),)
    if standard not in _ALONE:
        return None
    return tuple(_check_alone(name, getattr(figures, name), dtype) for name in _ALONE[standard])


def figure_names(standard: Standard) -> Sequence[str]:
    """Return the figures that a standard is judged by, in the order of `StandardFigures`."""
    if standard in _ALONE:
        return _ALONE[standard]
    asked = (
        {"mean_ulp", "ulp_ratio"}
        if standard is Standard.ULP
        else {"small_ratio", "max_rel", "mean_rel", "rmse", "error_balance"}
    )
    return [field.name for field in fields(StandardFigures) if field.name in asked]


def _check_alone(name: str, value: float | None, dtype: str) -> Check:
    found = float("nan") if value is None else value
    if name == "within_thousandth":
        holds = found >= THOUSANDTH_SHARE
        return Check(name, found, holds, "" if holds else f"{_WORDS[name]} {found:.6g} is below {THOUSANDTH_SHARE}")
    limit = limits_of(dtype).accumulative_balance if name == "error_balance" else 0.0
    holds = found <= limit
    return Check(name, found, holds, "" if holds else f"{_WORDS[name]} {found:.6g} is above {limit:.6g}")


def _below(name: str, value: float | None, limit: float) -> Check:
    found = float("nan") if value is None else value
    holds = found < limit
    return Check(name, found, holds, "" if holds else f"{_WORDS[name]} {found:.6g} is not below {limit:g}")
