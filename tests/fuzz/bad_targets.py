"""Readers that fail at every damaged input, to see what the command does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from fuzz.target import Target
from fuzz.tree import Tree

_HEALTHY = b"healthy\n"


def _is_damaged(folder: Path) -> bool:
    return any(path.is_file() and path.read_bytes() != _HEALTHY for path in folder.iterdir())


def _crash(folder: Path) -> None:
    if _is_damaged(folder):
        raise KeyError(folder.name)


def _end(folder: Path) -> None:
    if _is_damaged(folder):
        os.kill(os.getpid(), signal.SIGKILL)


def _seeds() -> list[Tree]:
    return [{"a.txt": _HEALTHY}]


TARGETS = {name: Target(name, _seeds, read, renames=False) for name, read in (("crashes", _crash), ("ends", _end))}
