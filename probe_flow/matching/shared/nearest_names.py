"""The nearest names of the other side, for a node that found no partner: bounded work on dumps of any size."""

from __future__ import annotations

import difflib
from collections.abc import Hashable, Iterable

MAX_CANDIDATES = 12
"""Names that one name is compared with; those that share a segment come first."""

MAX_SEARCHES = 100
"""Distinct names of one dump that are searched for; behind them candidates are taken as they come."""

MAX_SHOWN = 3
_CUTOFF = 0.5


class NearestNames:
    """Distinct names of one side, by the segments that tell most about them.

    Args:
        names: pairs of kind and name; a name is only compared with those of its kind.
    """

    def __init__(self, names: Iterable[tuple[Hashable, str]]) -> None:
        self._buckets: dict[tuple[Hashable, str], list[str]] = {}
        self._known: dict[tuple[Hashable, str], tuple[str, ...]] = {}
        for kind, name in dict.fromkeys(names):
            for hint in _hints(name):
                bucket = self._buckets.setdefault((kind, hint), [])
                if len(bucket) < MAX_CANDIDATES:
                    bucket.append(name)

    def of(self, kind: Hashable, name: str) -> tuple[str, ...]:
        """Return up to three names, nearest first."""
        found = self._known.get((kind, name))
        if found is None:
            candidates = self._candidates(kind, name)
            if len(self._known) < MAX_SEARCHES:
                near = difflib.get_close_matches(name, candidates, n=MAX_SHOWN, cutoff=_CUTOFF)
            else:
                near = candidates[:MAX_SHOWN]
            found = self._known[(kind, name)] = tuple(near)
        return found

    def clause(self, kind: Hashable, name: str) -> str:
        """Return ``; nearest: `a`, `b` ``, or nothing."""
        near = self.of(kind, name)
        return "; nearest: " + ", ".join(f"`{each}`" for each in near) if near else ""

    def _candidates(self, kind: Hashable, name: str) -> list[str]:
        found: dict[str, None] = {}
        for hint in _hints(name):
            found.update(dict.fromkeys(self._buckets.get((kind, hint), ())))
            if len(found) >= MAX_CANDIDATES:
                break
        found.pop(name, None)
        return list(found)[:MAX_CANDIDATES]


def _hints(name: str) -> tuple[str, ...]:
    """Return what near names share, most telling first: the path around, the last two segments, the last one."""
    parts = name.split(".")
    path = ".".join(parts[1:-2])
    near = [f"in {path}"] if path else []
    return (*near, f"own {parts[-2] if len(parts) > 1 else name}", f"last {parts[-1].lower()}", "any")
