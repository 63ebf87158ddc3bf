"""What the cache holds, for people: by the run that measured it, its workflow, the dump that it is of, or by file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePath

from msgspec import Struct

from probe_flow.files.shards import ShardState, inspect
from probe_flow.record.places import printable

UNKNOWN = "by a run of an earlier version"


class Holding(Struct, frozen=True):
    """Some files of the cache.

    Args:
        text: what they are of, and how many results they hold.
        size_bytes: of all together.
        newest_s: when the newest was written, in seconds since 1970.
    """

    text: str
    size_bytes: int
    newest_s: float


def holdings(paths: Iterable[Path], by: str) -> list[Holding]:
    """Return what shards hold, the newest first; each that cannot be read stands for itself.

    Args:
        paths: the shards, the newest first.
        by: ``run``, ``workflow``, ``dump``, or ``file`` for each shard by itself.
    """
    groups: dict[str, list[tuple[ShardState, int, float]]] = {}
    for path in paths:
        try:
            facts = path.stat()
        except FileNotFoundError:  # removed by another run meanwhile
            continue
        state = inspect(path)
        if state.problem is not None:
            name = f"{path.name}  {state.problem.message}"
        else:
            name = path.name if by == "file" else _named(state, by)
        groups.setdefault(name, []).append((state, facts.st_size, facts.st_mtime))
    return [_holding(name, files) for name, files in groups.items()]


def _holding(name: str, files: list[tuple[ShardState, int, float]]) -> Holding:
    results = sum(state.entries for state, _, _ in files)
    is_damaged = files[0][0].problem is not None
    text = printable(name) if is_damaged else f"{results} result{'' if results == 1 else 's'}  {printable(name)}"
    return Holding(text, sum(size for _, size, _ in files), max(time for _, _, time in files))


def _named(state: ShardState, by: str) -> str:
    if by == "dump":
        folder = _dump_of(state.label)
        return f"of {folder}" if folder else "of files known by their content"
    made_by = _as_mapping(state.made_by)
    workflow, run = made_by.get("workflow"), made_by.get("run")
    if not isinstance(workflow, str) or not isinstance(run, str):
        return UNKNOWN
    return f"of {workflow}" if by == "workflow" else f"of {workflow}, run {run}"


def _dump_of(label: str) -> str | None:
    """Return the folder of the target's file that a result was measured of; None where files are known by content."""
    fields = _as_mapping(label).get("fields")
    source = fields.get("target.source") if isinstance(fields, dict) else None
    first = source[0][0] if isinstance(source, list) and source and isinstance(source[0], list) and source[0] else None
    path = first[0] if isinstance(first, list) and first else first
    return str(PurePath(path).parent) if isinstance(path, str) and "/" in path else None


def _as_mapping(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
