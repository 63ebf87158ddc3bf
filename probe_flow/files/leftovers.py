"""Temporary files and folders: named after the process that writes them, and removed when it was killed.

A name tells process and machine. On its own machine the process table says whether the writer lives; of other
machines only age tells.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

LEFT_BEHIND_S = 86_400.0
"""Age from which a temporary file of another machine counts as left behind; a writer touches its file all the time."""

MAX_LOOKED_AT = 200_000
"""Entries below a folder that are looked at; more only leave files behind."""

_NAME_ROOM = 200
"""Bytes of the final name kept in the temporary one, so that it stays below the usual limit of 255."""

_NAME = re.compile(r"\..*\.(\d{1,10})-([0-9a-f]{8})-[0-9a-f]{8}\.tmp", re.DOTALL)


def temporary_path(path: Path) -> Path:
    """Return a fresh hidden path beside `path` under which its content can be written."""
    stem = os.fsencode(path.name)[:_NAME_ROOM].decode("utf-8", "ignore")
    return path.with_name(f".{stem}.{os.getpid()}-{_machine()}-{secrets.token_hex(4)}.tmp")


def is_temporary(name: str) -> bool:
    """Tell whether a name is of the form that `temporary_path` gives."""
    return _NAME.fullmatch(name) is not None


def remove_leftovers(folder: Path, *, is_ours: bool = False, goes_below: bool = True) -> None:
    """Remove temporary files and folders of writers that were killed; what cannot be removed stays.

    Links are not followed, and names of another form are left alone.

    Args:
        folder: where to look.
        is_ours: nobody else writes there, so that every writer but this process is gone.
        goes_below: whether to look in the folders below it too.
    """
    for entry in islice(_entries(folder, goes_below=goes_below), MAX_LOOKED_AT):
        found = _NAME.fullmatch(entry.name)
        if found is None or not (is_ours or _is_dead(int(found[1]), found[2], entry)):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with suppress(OSError):
                Path(entry.path).unlink()


def remove_scratch() -> None:
    """Remove what killed processes of this user left in the system's folder for temporary files."""
    with suppress(FileNotFoundError):  # there is no such folder that can be written
        remove_leftovers(Path(tempfile.gettempdir()), goes_below=False)


def _entries(folder: Path, *, goes_below: bool) -> Iterator[os.DirEntry[str]]:
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                found = list(islice(entries, MAX_LOOKED_AT))
        except OSError:  # it cannot be listed, or is gone
            continue
        yield from found
        if goes_below:
            pending += [each.path for each in found if each.is_dir(follow_symlinks=False)]


def _is_dead(pid: int, machine: str, entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    if status.st_uid != os.geteuid():
        return False  # whoever it belongs to removes it
    if machine == _machine():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            pass
    return time.time() - status.st_mtime > LEFT_BEHIND_S


def _machine() -> str:
    """Return what tells machines, and containers with process tables of their own, apart."""
    try:
        table = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        table = 0
    return f"{zlib.crc32(f'{os.uname().nodename}:{table}'.encode()):08x}"
