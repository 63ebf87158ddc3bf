"""The ten metric columns with the special cases of msprobe 26.2: zeros, truth values, NaN and infinities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.records import Measurement, Row
from probe_flow.reports.tables.offline.groups import NOT_COMPUTED
from probe_flow.reports.tables.offline.metrics import (
    COSINE,
    DEVIATION,
    METRIC_COLUMNS,
    SIDES,
    is_all_zero,
    is_scalar,
    metric_texts,
    nonfinite_count,
    number_text,
    side_deviation,
)

_MASKED: Mapping[str, str] = MappingProxyType(
    {column: METRIC_COLUMNS[column] for column in ("AccumulatedRelativeError", "MaxRelativeError", "MeanRelativeError")}
)
_ABSOLUTE = ("MaxAbsoluteError", "MeanAbsoluteError", "RootMeanSquareError")
DIVERGENCE, DISTANCE = "KullbackLeiblerDivergence", "RelativeEuclideanDistance"
_UNSUPPORTED_BOOL = "Algorithm {name} does not support Boolean types."


def published_metrics(row: Row) -> tuple[Mapping[str, str], str]:
    """Return the ten columns with the published special cases, and what is said beside them."""
    texts = metric_texts(row)
    measured, target, golden = row.measurement, row.pair.target, row.pair.golden
    if measured is None or target is None or golden is None or not measured.count:
        return texts, ""
    if target.dtype == "bool" and golden.dtype == "bool":
        unsupported = [column for column in texts if column != COSINE]
        texts.update(dict.fromkeys(unsupported, NOT_COMPUTED))
        return texts, ",".join(_UNSUPPORTED_BOOL.format(name=name) for name in unsupported)
    _zeros(texts, measured, is_one=is_scalar(row))
    _nonfinite(texts, measured)
    return texts, ""


def _zeros(texts: dict[str, str], measured: Measurement, *, is_one: bool) -> None:
    """Put in what the published formulas give for zeros, where ours say that nothing follows."""
    zero = is_all_zero(measured.target), is_all_zero(measured.golden)
    if any(zero) and not is_one:
        texts[COSINE] = "1.0" if all(zero) else NOT_COMPUTED
    if zero[1]:
        texts[DISTANCE] = number_text(0.0)
    if measured.metrics.get("kl_minmax") == math.inf:
        texts[DIVERGENCE] = NOT_COMPUTED
    for column, name in _MASKED.items():
        value = measured.metrics.get(name, 0.0)
        if value is None or math.isnan(value):
            texts[column] = number_text(0.0)


def _nonfinite(texts: dict[str, str], measured: Measurement) -> None:
    """Put in what plain arithmetic makes of NaN and infinities, which we leave out and count."""
    counts = {side: nonfinite_count(getattr(measured, side)) for side in SIDES}
    (target_nan, target_inf), (golden_nan, golden_inf) = counts.values()
    if not any(map(any, counts.values())):
        return
    texts[COSINE] = texts[DIVERGENCE] = "nan"
    texts[DEVIATION] = ",".join(_plain_deviation(counts[side]) or side_deviation(measured, side) for side in SIDES)
    has_nan = bool(target_nan or golden_nan or (target_inf and golden_inf))
    texts.update(dict.fromkeys(_ABSOLUTE, "nan" if has_nan else "inf"))
    texts[DISTANCE] = "nan" if has_nan or golden_inf else "inf"
    if (target_nan and (measured.nonfinite_mismatch or not golden_nan)) or (target_inf and golden_inf):
        texts.update(dict.fromkeys(_MASKED, "nan"))
    elif target_inf:
        texts.update(dict.fromkeys(_MASKED, "inf"))
    elif golden_inf:  # |x / inf - 1| = 1
        shares = {"AccumulatedRelativeError": golden_inf, "MeanRelativeError": golden_inf / measured.count}
        for column, share in shares.items():
            texts[column] = number_text((measured.metrics.get(_MASKED[column]) or 0.0) + share)
        texts["MaxRelativeError"] = number_text(max(1.0, measured.metrics.get(_MASKED["MaxRelativeError"]) or 0.0))


def _plain_deviation(counts: tuple[int, int]) -> str:
    nan, inf = counts
    return "(nan;nan)" if nan else "(inf;nan)" if inf else ""
