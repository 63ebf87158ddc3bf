"""The paths that a plan touches, and how much lies below them. Reads no file's content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from probe_flow.stages.base import IsPath, StageOptions
from probe_flow.workflow.loading.fields import marked
from probe_flow.workflow.model.resolved import RUN_OUTPUT

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
            if not isinstance(value, str) or RUN_OUTPUT in value:
                continue
            if (path := option.marker.in_value(value)) is not None:
                yield option.name, Path(path)


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
