"""The paths that a plan touches, how much lies below them, and in what state. Reads no file's content."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, ProbeFlowError
from probe_flow.files.existing import exists
from probe_flow.files.small_files import SETTLE_NS
from probe_flow.stages.base import IsPath, StageOptions
from probe_flow.workflow.loading.fields import marked
from probe_flow.workflow.model import RUN_OUTPUT

MAX_ENTRIES = 200_000
"""Directory entries looked at per path; more only make the plan slower, not better."""


class PathSize(Struct, frozen=True):
    """What lies below one path option of a stage.

    Args:
        option: name of the option.
        path: as resolved.
        files: regular files.
        size_bytes: their sizes together.
        is_complete: False when counting stopped early, or a folder below could not be listed.
        state: of a folder, a digest of names, sizes, times and inodes of all that lies below it, which changes with any
            of the files; empty where it might not: there are links or files that are too young to be known by their
            times, or not all was looked at.
    """

    option: str
    path: str
    files: int
    size_bytes: int
    is_complete: bool = True
    state: str = ""


def input_paths(options: StageOptions, *, data_only: bool = False) -> Iterator[tuple[str, Path]]:
    """Yield name and value of every option that names something that must exist before the run.

    Args:
        options: of a stage.
        data_only: leave out what is used but not compared.
    """
    values = options.model_dump(by_alias=True)
    for option in marked(type(options), IsPath):
        if not option.marker.must_exist or (data_only and not option.marker.is_data):
            continue
        for _, value in option.find(values):
            if not isinstance(value, str) or RUN_OUTPUT in value:
                continue
            if (path := option.marker.in_value(value)) is not None:
                yield option.name, Path(path)


def measure_path(option: str, path: Path, *, max_entries: int = MAX_ENTRIES) -> PathSize:
    """Count the files at or below `path` and their bytes; folders behind symbolic links are not entered."""
    if not path.is_dir():
        return PathSize(option, str(path), 1, path.stat().st_size)
    files = size_bytes = seen = 0
    is_complete, state = True, _State()
    pending = [str(path)]
    while pending:
        try:
            entries = os.scandir(pending.pop())
        except OSError:
            is_complete = False
            continue
        with entries:
            for entry in entries:
                seen += 1
                if seen > max_entries:
                    return PathSize(option, str(path), files, size_bytes, is_complete=False)
                state.add(entry)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                size = _file_size(entry)
                files += size is not None
                size_bytes += size or 0
    return PathSize(option, str(path), files, size_bytes, is_complete, state.digest() if is_complete else "")


class _State:
    """Collects what the file system says of all that lies below a folder."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._oldest_young = time.time_ns() - SETTLE_NS
        self._is_sure = True

    def add(self, entry: os.DirEntry[str]) -> None:
        """Take what was found in the order of the listing, which is the same for an unchanged folder."""
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            self._is_sure = False
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.is_symlink() or (not is_folder and found.st_mtime_ns > self._oldest_young):
            self._is_sure = False
        said = f"{entry.path}\0{found.st_mode} {found.st_ino}"
        if not is_folder:  # its size and times change with the names in it, which are here
            said += f" {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        self._digest.update(f"{said}\0".encode("utf-8", "surrogateescape"))

    def digest(self) -> str:
        """Return the digest, empty where it is not sure to tell of a change."""
        return self._digest.hexdigest() if self._is_sure else ""


def _file_size(entry: os.DirEntry[str]) -> int | None:
    """Return the bytes of a regular file; None for other things, and for files that vanish meanwhile."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError:
        return None


def located(problems: Sequence[Diagnostic], options: StageOptions) -> tuple[Diagnostic, ...]:
    """Return problems whose files are named from where the command was given, not from inside of the dump.

    A reader names a file by its path in the dump, which both sides may have.

    Args:
        problems: that a stage found.
        options: of the stage; its option ``path`` names the dump.
    """
    root = next((path for name, path in input_paths(options, data_only=True) if name == "path"), None)
    if not problems or root is None:
        return tuple(problems)
    folder = root if root.is_dir() else root.parent

    @cache
    def whole(name: str) -> str:
        return str(folder / name) if name and exists(folder / name) else name

    return tuple(
        replace(
            each,
            path=each.path and whole(each.path),
            span=each.span and replace(each.span, file=whole(each.span.file)),
        )
        for each in problems
    )


@contextmanager
def locating(options: StageOptions) -> Iterator[None]:
    """Name files as `located` does in the problems of an error of ours that leaves the block."""
    try:
        yield
    except ProbeFlowError as error:
        error.diagnostics = located(error.diagnostics, options)
        raise
