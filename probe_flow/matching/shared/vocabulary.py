"""The rules of pairs, and the kinds of reasons, that several matcher families have."""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.records import ReasonKind, Rule


class CommonRule:
    EXACT = Rule("exact")
    ALIGNED = Rule("aligned")
    NONE = Rule("none")


def _of_sides(what: str) -> Mapping[str, ReasonKind]:
    """Return ``golden`` and ``target`` -> the kind that says that this side lacks something."""
    return {side: ReasonKind(f"no_{side}_{what}") for side in ("golden", "target")}


class CommonReason:
    COVERED_BY_PRODUCER = ReasonKind("covered_by_producer")
    DTYPE_UNSUPPORTED = ReasonKind("dtype_unsupported")
    FILTERED = ReasonKind("filtered", narrows=True)
    FRAMEWORK_INTERNAL = ReasonKind("framework_internal")
    GUESSED = ReasonKind("guessed", is_guess=True)
    INTERNAL = ReasonKind("internal")
    NO_CALL = _of_sides("call")
    NO_EXECUTION = _of_sides("execution")
    NO_FORWARD = _of_sides("forward")
    NO_NODE = _of_sides("node")
    NO_SLOT = _of_sides("slot")
    NOT_DUMPED = ReasonKind("not_dumped")
    NOT_MAPPED = ReasonKind("not_mapped")
    NOT_TENSOR = ReasonKind("not_tensor")
    NO_VALUES = ReasonKind("no_values")
    OUTSIDE_MAPPING = ReasonKind("outside_mapping", narrows=True)
    RECOMPUTED = ReasonKind("recomputed")
    SELF = ReasonKind("self")
    TRANSPOSED = ReasonKind("transposed")
    UNREADABLE = ReasonKind("unreadable")
    WRAPPER = ReasonKind("wrapper")
