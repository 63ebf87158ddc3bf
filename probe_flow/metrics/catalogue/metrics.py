"""Our metrics and metric sets, as data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.metrics.catalogue import formulas
from probe_flow.metrics.catalogue.metric import Better, Metric
from probe_flow.records import Mode

_COMMON = "common definition"
_DUMP_COMPARE = "dump comparison of the vendor's tools"
_LEGACY = "TorchAir report of the vendor's tools"
_OFFLINE = "comparison of offline models by the vendor's tools"
_STATISTICS = "statistics comparison of the vendor's tools, as plain ratios"

_TENSOR_METRICS = (
    Metric(
        "cosine",
        "Σtg / (‖t‖·‖g‖). Both tensors zero: 1; one of them zero: NaN. Not given for a single element.",
        "[-1, 1]",
        "1",
        _COMMON,
        Better.HIGHER,
        compute=formulas.cosine,
        takes_scalars=False,
    ),
    Metric(
        "euclidean_distance",
        "√Σ(t - g)². Not given for 0-d tensors.",
        "[0, inf]",
        "value",
        _COMMON,
        compute=formulas.euclidean_distance,
        takes_scalars=False,
    ),
    Metric(
        "relative_euclidean_distance",
        "√Σ(t - g)² / √Σg². Both zero: 0; only the golden tensor zero: inf.",
        "[0, inf]",
        "1",
        _COMMON,
        compute=formulas.relative_euclidean_distance,
    ),
    Metric(
        "max_abs_err",
        "max |t - g|. Exact between integers.",
        "[0, inf]",
        "value",
        _COMMON,
        compute=formulas.max_abs_err,
    ),
    Metric("mean_abs_err", "Σ|t - g| / n.", "[0, inf]", "value", _COMMON, compute=formulas.mean_abs_err),
    Metric("rmse", "√(Σ(t - g)² / n).", "[0, inf]", "value", _COMMON, compute=formulas.rmse),
    Metric(
        "max_rel_err",
        "max |t - g| / |g|. A zero golden value gives inf, or 0 when the target is zero too.",
        "[0, inf]",
        "1",
        _COMMON,
        compute=formulas.max_rel_err,
    ),
    Metric(
        "mean_rel_err",
        "Σ(|t - g| / |g|) / n; zero golden values as in `max_rel_err`.",
        "[0, inf]",
        "1",
        _COMMON,
        compute=formulas.mean_rel_err,
    ),
    Metric(
        "err_ratio_1e3",
        "Share of elements with |t - g| / |g| < 0.001; a missed golden zero never counts. Not given for 0-d tensors.",
        "[0, 1]",
        "1",
        _COMMON,
        Better.HIGHER,
        compute=formulas.err_ratio_1e3,
        takes_scalars=False,
    ),
    Metric(
        "err_ratio_5e3",
        "Share of elements with |t - g| / |g| < 0.005; a missed golden zero never counts. Not given for 0-d tensors.",
        "[0, 1]",
        "1",
        _COMMON,
        Better.HIGHER,
        compute=formulas.err_ratio_5e3,
        takes_scalars=False,
    ),
    Metric(
        "max_rel_err_eps",
        "As `max_rel_err`, but a zero golden value counts as |t| / eps; eps = 2⁻²³ when both dtypes are floats of at "
        "most 32 bits, else 2⁻⁵².",
        "[0, inf]",
        "1",
        _DUMP_COMPARE,
        compute=formulas.max_rel_err_eps,
    ),
    Metric(
        "mean_rel_err_eps",
        "As `mean_rel_err`, with zero golden values as in `max_rel_err_eps`.",
        "[0, inf]",
        "1",
        _DUMP_COMPARE,
        compute=formulas.mean_rel_err_eps,
    ),
    Metric(
        "err_ratio_1e3_eps",
        "As `err_ratio_1e3`, but a missed golden zero counts when |t| / eps < 0.001 (|t| below 1.2e-10 for float32).",
        "[0, 1]",
        "1",
        _DUMP_COMPARE,
        Better.HIGHER,
        compute=formulas.err_ratio_1e3_eps,
        takes_scalars=False,
    ),
    Metric(
        "err_ratio_5e3_eps",
        "As `err_ratio_5e3`, but a missed golden zero counts when |t| / eps < 0.005 (|t| below 6e-10 for float32).",
        "[0, 1]",
        "1",
        _DUMP_COMPARE,
        Better.HIGHER,
        compute=formulas.err_ratio_5e3_eps,
        takes_scalars=False,
    ),
    Metric(
        "unequal_count",
        "Positions with different values. Agreeing NaN and infinities are equal, disagreeing ones are not.",
        "0, 1, 2 ...",
        "elements",
        _COMMON,
        compute=formulas.unequal_count,
    ),
    Metric(
        "mean_target", "Mean of the target.", "real", "value", _COMMON, Better.NEITHER, compute=formulas.mean_target
    ),
    Metric(
        "mean_golden",
        "Mean of the golden tensor.",
        "real",
        "value",
        _COMMON,
        Better.NEITHER,
        compute=formulas.mean_golden,
    ),
    Metric(
        "std_target",
        "Population standard deviation of the target.",
        "[0, inf]",
        "value",
        _COMMON,
        Better.NEITHER,
        accumulator="moments",
    ),
    Metric(
        "std_golden",
        "Population standard deviation of the golden tensor.",
        "[0, inf]",
        "value",
        _COMMON,
        Better.NEITHER,
        accumulator="moments",
    ),
    Metric(
        "mean_err",
        "Σ(t - g) / n, with its sign. Not given for complex tensors.",
        "real",
        "value",
        _COMMON,
        Better.NEITHER,
        accumulator="signed",
    ),
    Metric(
        "bias_ratio",
        "|Σ(t - g)| / Σ|t - g|: 1 if all errors point one way, near 0 if they cancel. No errors: 0. Not given for "
        "complex tensors.",
        "[0, 1]",
        "1",
        _COMMON,
        Better.NEITHER,
        accumulator="signed",
    ),
)

_OFFLINE_METRICS = (
    Metric(
        "unequal_ratio",
        "`unequal_count` / n: the share of positions with different values.",
        "[0, 1]",
        "1",
        _COMMON,
        compute=formulas.unequal_ratio,
    ),
    Metric(
        "acc_rel_err",
        "Σ|t - g| / |g| over the elements with |g| > 2⁻⁵². NaN where there are none but errors; 0 without errors.",
        "[0, inf]",
        "1",
        _OFFLINE,
        accumulator="significant",
    ),
    Metric(
        "max_rel_err_masked",
        "max |t - g| / |g| over the elements with |g| > 2⁻⁵²; without any as in `acc_rel_err`.",
        "[0, inf]",
        "1",
        _OFFLINE,
        accumulator="significant",
    ),
    Metric(
        "mean_rel_err_masked",
        "`acc_rel_err` / n, n being all elements.",
        "[0, inf]",
        "1",
        _OFFLINE,
        accumulator="significant",
    ),
    Metric(
        "kl_minmax",
        "max(0, Σ p·ln(p / q)) with p = f(t) / Σf(t), q = f(g) / Σf(g), f(v) = max((v - min) / (max - min), 2⁻²³), and "
        "f = 1 for a constant. Blind to scale and shift: a small value proves nothing. Not given for complex tensors.",
        "[0, inf]",
        "nat",
        _OFFLINE,
        accumulator="minmax",
    ),
)

_LEGACY_METRICS = (
    Metric(
        "cosine_or_zero",
        "As `cosine`, but one zero tensor gives 0 and single elements are included.",
        "[-1, 1]",
        "1",
        _LEGACY,
        Better.HIGHER,
        compute=formulas.cosine_or_zero,
    ),
    Metric(
        "relative_euclidean_distance_or_zero",
        "As `relative_euclidean_distance`, but 0 when ‖g‖ <= 2⁻²³.",
        "[0, inf]",
        "1",
        _LEGACY,
        compute=formulas.relative_euclidean_distance_or_zero,
    ),
    Metric(
        "max_rel_err_masked_eps32",
        "max |t - g| / |g| over the elements with |g| > 2⁻²³; 0 when there are none.",
        "[0, inf]",
        "1",
        _LEGACY,
        accumulator="masked",
    ),
    Metric(
        "mean_rel_err_masked_eps32",
        "Σ(|t - g| / |g|) over the elements with |g| > 2⁻²³, divided by n.",
        "[0, inf]",
        "1",
        _LEGACY,
        accumulator="masked",
    ),
    Metric(
        "max_abs_err_masked_eps32",
        "max |t - g| over the elements with |g| > 2⁻²³; 0 when there are none.",
        "[0, inf]",
        "value",
        _LEGACY,
        accumulator="masked",
    ),
    Metric(
        "mean_abs_err_masked_eps32",
        "Σ|t - g| over the elements with |g| > 2⁻²³, divided by n.",
        "[0, inf]",
        "value",
        _LEGACY,
        accumulator="masked",
    ),
    Metric(
        "kl_softmax",
        "max(0, Σ p·(ln p - ln q)) with p = softmax(g), q = softmax(t) over the flattened tensors. Not given for "
        "complex tensors, nor when either side holds NaN or infinities.",
        "[0, inf]",
        "nat",
        _LEGACY,
        accumulator="softmax",
    ),
)


def _statistics_metrics() -> tuple[Metric, ...]:
    rows = []
    for name, text in (("max", "maxima"), ("min", "minima"), ("mean", "means"), ("l2norm", "L2 norms")):
        difference = f"Target's {name} - golden's {name}. Equal infinities: 0; a NaN on either side: NaN."
        ratio = (
            f"|difference / golden's {name}| of the {text}. 0/0: 0; x/0: inf; an infinite difference: inf; NaN on "
            "either side: NaN."
        )
        rows.append(Metric(f"{name}_diff", difference, "real", "value", _STATISTICS, mode=Mode.STATISTICS))
        rows.append(Metric(f"{name}_diff_rel", ratio, "[0, inf]", "1", _STATISTICS, mode=Mode.STATISTICS))
    return tuple(rows)


_CHECKSUM_METRICS = (
    Metric(
        "checksum_equal",
        "Whether the checksums of both sides are the same text, upper and lower case alike.",
        "true, false",
        "-",
        _COMMON,
        Better.HIGHER,
        mode=Mode.CHECKSUM,
    ),
)

BUILT_IN: tuple[Metric, ...] = (
    _TENSOR_METRICS + _OFFLINE_METRICS + _LEGACY_METRICS + _statistics_metrics() + _CHECKSUM_METRICS
)
"""Our metrics, in the order in which people want to see them."""

_DEFAULT = (
    "cosine",
    "euclidean_distance",
    "relative_euclidean_distance",
    "max_abs_err",
    "mean_abs_err",
    "rmse",
    "max_rel_err",
    "mean_rel_err",
    "err_ratio_1e3",
    "err_ratio_5e3",
)

_OFFLINE_SET = (
    "cosine",
    "max_abs_err",
    "acc_rel_err",
    "relative_euclidean_distance",
    "kl_minmax",
    "mean_target",
    "std_target",
    "mean_golden",
    "std_golden",
    "mean_abs_err",
    "rmse",
    "max_rel_err_masked",
    "mean_rel_err_masked",
    "unequal_count",
)

METRIC_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": _DEFAULT,
        "torchair": (*_DEFAULT, "max_rel_err_eps", "err_ratio_1e3_eps", "err_ratio_5e3_eps"),
        "dump_json": (*_DEFAULT, "max_rel_err_eps", "err_ratio_1e3_eps", "err_ratio_5e3_eps"),
        "offline": _OFFLINE_SET,
        "torchair_legacy": tuple(metric.id for metric in _LEGACY_METRICS),
        "statistics": tuple(metric.id for metric in _statistics_metrics()),
        "checksum": ("checksum_equal",),
    }
)
"""Named sets of metric ids for `metrics:` in a workflow."""
