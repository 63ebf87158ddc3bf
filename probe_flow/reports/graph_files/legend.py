"""What a graph file says about itself: colours of scores, names of tasks, explanations of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probe_flow.records.model_graph import GraphLayout, GraphMode, GraphPair

TASKS: Mapping[GraphMode, str] = {
    GraphMode.STATISTICS: "summary",
    GraphMode.TENSOR: "all",
    GraphMode.MD5: "md5",
    GraphMode.STRUCTURE: "structure",
}

LARGEST = 0.999999
"""Score that is written for 1: the viewer's list of a band that ends at 1 leaves 1 out."""

_PALE, _LIGHT, _YELLOW, _ORANGE, _RED, _GREY = "#FFFCF3", "#FFEDBE", "#FFDC7F", "#FFC62E", "#FF704D", "#C7C7C7"
_BANDS: Mapping[GraphMode, tuple[float, ...]] = {
    GraphMode.STATISTICS: (0, 0.2, 0.4, 0.6, 0.8, 1),
    GraphMode.TENSOR: (0, 0.05, 0.1, 0.15, 0.2, 1),
}
_VERDICTS = ((_PALE, 0, 0.3, "pass"), (_YELLOW, 0.3, 0.6, "warning"), (_RED, 0.6, 1, "error"))
_WHAT: Mapping[GraphMode, str] = {
    GraphMode.STATISTICS: "largest relative error of the statistics of the outputs",
    GraphMode.TENSOR: "how much smaller the share of elements within 0.1 % is in the outputs than in the inputs",
    GraphMode.MD5: "whether the checksums of all inputs and outputs are those of the golden",
    GraphMode.STRUCTURE: "the dumps hold no values",
}
_UNMATCHED = "no counterpart in the golden"
_EXPLAINED: Mapping[GraphMode, Mapping[str, str]] = {
    GraphMode.STATISTICS: {
        "Max diff": "maximum of the target minus that of the golden",
        "Min diff": "minimum of the target minus that of the golden",
        "Mean diff": "mean of the target minus that of the golden",
        "L2norm diff": "L2 norm of the target minus that of the golden",
    },
    GraphMode.TENSOR: {
        "One Thousandth Err Ratio": "share of elements whose relative error is below 0.1 %; 1 is best",
        "Five Thousandths Err Ratio": "share of elements whose relative error is below 0.5 %; 1 is best",
        "Cosine": "cosine of the angle between the two tensors; 1 is best",
        "MaxAbsErr": "largest absolute error; 0 is best",
        "MaxRelativeErr": "largest relative error; 0 is best",
    },
    GraphMode.MD5: {"md5": "checksum of the data; equal where all of it is"},
    GraphMode.STRUCTURE: {},
}


def colours(pair: GraphPair) -> dict[str, dict[str, Any]]:
    """Return the colour of each band of scores, as the viewer reads it; unmatched nodes have an empty band."""
    mode, layout = pair.mode, pair.layout
    assert mode is not None, "only compared graphs have scores"
    what = _WHAT[mode]
    found: dict[str, dict[str, Any]] = {}
    if layout is GraphLayout.MSPROBE_VIS_DB:
        for colour, low, high, word in _VERDICTS:
            found[colour] = {"value": [low, high], "description": what, "accuracy_level": word}
        return found | {_GREY: {"value": [], "description": _UNMATCHED, "accuracy_level": "unmatched node"}}
    if mode is GraphMode.MD5:
        is_own = layout is GraphLayout.OWN
        same, other = ([0, 0.5], [0.5, 1]) if is_own else ([1, 1], [0, 0])
        found[_PALE] = {"value": same, "description": "all checksums are those of the golden"}
        found[_RED] = {"value": other, "description": "a checksum differs from that of the golden"}
    else:
        limits = _BANDS.get(mode, _BANDS[GraphMode.STATISTICS])
        for colour, low, high in zip((_PALE, _LIGHT, _YELLOW, _ORANGE, _RED), limits, limits[1:], strict=False):
            found[colour] = {"value": [low, high], "description": what}
    return found | {_GREY: {"value": [], "description": _UNMATCHED}}


def explained(pair: GraphPair) -> Mapping[str, str]:
    """Return what the metrics mean, by name."""
    assert pair.mode is not None, "only compared graphs have metrics"
    return _EXPLAINED[pair.mode]


def written_score(score: float, pair: GraphPair) -> float:
    """Return a score as it stands in a file. Version 1.2.1 of msprobe calls equal checksums 1, we call them 0."""
    if pair.layout is GraphLayout.OWN:
        return min(score, LARGEST)
    if pair.layout is GraphLayout.MSPROBE_VIS and pair.mode is GraphMode.MD5:
        return 1 - score
    return score
