"""Where the files of a MindSpore kernel dump lie: ``rank_{r}/{net}/{graph}/{iteration}`` and what is beside it.

Any folder from the root down to one iteration may be given as the dump, so the names above it count too.
"""

from __future__ import annotations

import re

from msgspec import Struct

CONSTANTS = "constants"
"""Folder beside the iterations: values that never change."""

_RANK = re.compile(r"rank_(\d{1,9})")
_NUMBER = re.compile(r"0|[1-9]\d{0,8}")
_DEPTH = 4
"""Folders from ``rank_{r}`` down to the iteration."""


class RunFolder(Struct, frozen=True):
    """One iteration of one graph; ``step`` is None for constants."""

    rank: int | None
    net: str | None
    graph: int
    step: int | None


def run_folder(folders: tuple[str, ...], *, above: tuple[str, ...]) -> RunFolder | None:
    """Return what the folders below the root (and the names above it) say, None where no dump files belong.

    >>> run_folder(("rank_0", "Net", "1", "20"), above=())
    RunFolder(rank=0, net='Net', graph=1, step=20)
    """
    parts = (*above, *folders)[-_DEPTH:]
    if len(parts) < 2 or not _NUMBER.fullmatch(parts[-2]):
        return None
    if parts[-1] != CONSTANTS and not _NUMBER.fullmatch(parts[-1]):
        return None
    step = None if parts[-1] == CONSTANTS else int(parts[-1])
    net = parts[-3] if len(parts) > 2 else None
    return RunFolder(rank_of(parts[-4]) if len(parts) > 3 else None, net, int(parts[-2]), step)


def rank_of(name: str) -> int | None:
    """Return the rank of a folder ``rank_{r}``, None for other names."""
    found = _RANK.fullmatch(name)
    return int(found.group(1)) if found else None
