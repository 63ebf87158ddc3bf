"""Word the reasons of one-sided pairs of the TorchAir matcher, with nearest names where something is missing."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from probe_flow.records import ReasonKind, Rule

MAX_HINTS = 50
"""Nearest names are searched for this many missing names of a run; more would only repeat the story."""
_MAX_CANDIDATES = 64
_NUMBER = re.compile(r"[_\d]+$")


class TorchairRule:
    FUSED = Rule("fused")
    EDGE = Rule("edge")


class TorchairReason:
    ALIGNED = ReasonKind("aligned")
    ARGUMENT = ReasonKind("argument")
    BROADCAST = ReasonKind("broadcast")
    CONSTANT = ReasonKind("constant")
    COUNT_MISMATCH = ReasonKind("count_mismatch")
    DEVICE_NO_DUMP = ReasonKind("device_no_dump")
    NO_FX_NAME = ReasonKind("no_fx_name")
    NO_GOLDEN_OP = ReasonKind("no_golden_op")
    NO_GRAPH = ReasonKind("no_graph")
    NO_GRAPH_OP = ReasonKind("no_graph_op")
    NO_TARGET_OP = ReasonKind("no_target_op")
    SELF = ReasonKind("self")
    THROUGH = ReasonKind("through")


class NearestNames:
    """Finds the names most like a missing one, among those that differ in their number or share their beginning.

    Args:
        names: gives the known names, called at most once.
        budget: hints left, shared by all searches of one run as a single-item list.
    """

    def __init__(self, names: Callable[[], Iterable[str]], budget: list[int]) -> None:
        self._names = names
        self._budget = budget
        self._buckets: dict[str, list[str]] | None = None

    def hint(self, name: str) -> str:
        """Return ``; nearest: `x`, `y``` or nothing."""
        if self._budget[0] <= 0:
            return ""
        self._budget[0] -= 1
        if self._buckets is None:
            self._buckets = defaultdict(list)
            for known in self._names():
                for bucket in {_NUMBER.sub("", known), known[:3]}:
                    self._buckets[bucket].append(known)
        base = self._buckets.get(_NUMBER.sub("", name)) or self._buckets.get(name[:3]) or []
        near = difflib.get_close_matches(name, base[:_MAX_CANDIDATES], n=3, cutoff=0.6)
        return "; nearest: " + ", ".join(f"`{known}`" for known in near) if near else ""
