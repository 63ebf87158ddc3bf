"""Read the name of a fused operator as the names of what it was made of, written one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

NAME_PARTS = 0.8
"""Confidence of a pair that rests on the parts of a name."""

MAX_LENGTH = 4096
"""Longer names are not taken apart."""


class NameParts:
    """Takes names apart into known ones.

    Args:
        names: known names, as they stand in file names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_start: dict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            if name:
                self._by_start[name[0]].append(name)
        for found in self._by_start.values():
            found.sort(key=len, reverse=True)

    def of(self, name: str) -> Sequence[str]:
        """Return the two or more known names that make up a name, the longest first ones; nothing if none do.

        >>> NameParts(["conv1", "bn1", "relu1"]).of("conv1relu1")
        ['conv1', 'relu1']
        """
        if len(name) > MAX_LENGTH:
            return ()
        # The part that ends at each place of the name, found from the left; a place is reached once.
        ends: dict[int, str] = {0: ""}
        pending = [0]
        while pending and len(name) not in ends:
            start = pending.pop()
            for part in reversed(self._by_start.get(name[start : start + 1], ())):
                end = start + len(part)
                if end not in ends and name.startswith(part, start):
                    ends[end] = part
                    pending.append(end)
        parts: list[str] = []
        place = len(name)
        while place and place in ends:
            parts.append(ends[place])
            place -= len(ends[place])
        return parts[::-1] if len(parts) > 1 else ()
