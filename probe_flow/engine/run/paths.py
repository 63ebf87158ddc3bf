"""The paths that a plan touches: whether they can be read, and how much lies below them. Reads no file's content."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from pathlib import Path

from probe_flow.files.existing import is_file
from probe_flow.stages.base import IsPath, StageOptions
from probe_flow.workflow.loading.fields import marked
from probe_flow.workflow.model.resolved import RUN_OUTPUT

MAX_ENTRIES = 200_000
"""Directory entries looked at per path; more only make the plan slower, not better."""


@dataclass(frozen=True, slots=True)
class PathSize:
    """What lies below one path option of a stage.

    Args:
        option: name of the option.
        path: as resolved.
        files: regular files.
        size_bytes: their sizes together.
        is_complete: False when counting stopped early, or a folder below could not be listed.
    """

    option: str
    path: str
    files: int
    size_bytes: int
    is_complete: bool = True


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
            if isinstance(value, str) and RUN_OUTPUT not in value:
                yield option.name, Path(value)


def exists(path: Path) -> bool:
    """Say whether something is there, as far as one may look."""
    try:
        path.stat()
    except PermissionError:
        return True  # what stops the look is there
    except (OSError, ValueError):
        return False
    return True


def is_readable(path: Path) -> bool:
    """Say whether a file is there and can be read, or a folder listed."""
    try:
        mode = os.R_OK | (os.X_OK if path.is_dir() else 0)
        return os.access(path, mode)
    except (OSError, ValueError):
        return False


def first_names(folder: Path, *, limit: int = 1000) -> list[str]:
    """Return the names in a folder, for suggestions: none when it cannot be listed, `limit` at most."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in itertools.islice(entries, limit)]
    except OSError:
        return []


def holds(path: Path, pattern: str, *, max_entries: int = MAX_ENTRIES) -> bool:
    """Say whether a file of that name pattern is `path` itself or lies below it; looks at `max_entries` names."""
    if is_file(path):
        return fnmatch(path.name, pattern)
    names = (name for _, _, files in os.walk(path) for name in files)
    return any(fnmatch(name, pattern) for name in itertools.islice(names, max_entries))


def measure_path(option: str, path: Path, *, max_entries: int = MAX_ENTRIES) -> PathSize:
    """Count the files at or below `path` and their bytes; folders behind symbolic links are not entered."""
    if not path.is_dir():
        return PathSize(option, str(path), 1, path.stat().st_size)
    files = size_bytes = seen = 0
    is_complete = True
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
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                    continue
                size = _file_size(entry)
                files += size is not None
                size_bytes += size or 0
    return PathSize(option, str(path), files, size_bytes, is_complete)


def _file_size(entry: os.DirEntry[str]) -> int | None:
    """Return the bytes of a regular file; None for other things, and for files that vanish meanwhile."""
    try:
        return entry.stat().st_size if entry.is_file() else None
    except OSError:
        return None
