"""Decide which runs of a device dump count: each wrote below a folder named by its time, in 14 digits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import GeFolder, dump_of
from probe_flow.dumps.selection import one_execution
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.records import Execution, Problem


class RunPart(Protocol):
    """One folder of dump files, with what its path says and the rank that it belongs to."""

    @property
    def folder(self) -> GeFolder: ...

    @property
    def folders(self) -> tuple[str, ...]: ...

    @property
    def rank(self) -> int | None: ...

    @property
    def execution(self) -> Execution: ...


Part = TypeVar("Part", bound=RunPart)


def choose_runs(parts: Sequence[Part], time: str | None, problems: list[Problem]) -> list[Part]:
    """Keep one run per rank where runs overlap; a run that crossed a time boundary has disjoint folders and is kept.

    Args:
        parts: the folders of dump files.
        time: the run to keep; None = the newest where runs overlap.
        problems: gets what was decided (PF3207).

    Raises:
        UsageError: PF3201 when `time` names a run that is not there, PF3303 when two dumps lie below the path.
    """
    times = sorted({part.folder.time for part in parts if part.folder.time is not None})
    if time is not None:
        if time not in times:
            found = ", ".join(f"`{name}`" for name in times) or "none"
            raise UsageError(Diagnostic("PF3201", f"the dump holds no run `{time}`", help=f"runs found: {found}"))
        parts = [part for part in parts if part.folder.time in (time, None)]
    _check_one_dump(parts)
    if time is not None:
        return list(parts)
    kept: list[Part] = []
    for rank in dict.fromkeys(part.rank for part in parts):
        kept.extend(_choose_run([part for part in parts if part.rank == rank], rank, problems))
    return kept


def _check_one_dump(parts: Sequence[RunPart]) -> None:
    """Refuse folders of two dumps; several runs of one dump have folders named by their times side by side."""
    seen: dict[GeFolder, RunPart] = {}
    for part in parts:
        other = seen.setdefault(replace(part.folder, time=None), part)
        if other is part:
            continue
        dumps = dump_of(other.folders), dump_of(part.folders)
        if part.folder.time == other.folder.time or dumps[0] != dumps[1]:
            between = dumps if dumps[0] != dumps[1] else (other.folders, part.folders)
            raise UsageError(one_execution(*between, "device files", part.execution))


def _choose_run(parts: list[Part], rank: int | None, problems: list[Problem]) -> list[Part]:
    seen: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for part in parts:
        folder = part.folder
        seen[(folder.device, folder.model_name, folder.model_id, folder.step)].add(folder.time or "")
    clashing = sorted(set().union(*(names for names in seen.values() if len(names) > 1)))
    times = sorted({part.folder.time or "" for part in parts})
    where = "" if rank is None else f" of rank {rank}"
    shown = ", ".join(f"`{name}`" for name in times)
    if not clashing:
        if len(times) > 1:
            text = f"the folders {shown}{where} hold different executions and are read as one run"
            problems.append(Diagnostic("PF3207", text, severity=Severity.NOTE))
        return parts
    problems.append(
        Diagnostic(
            "PF3207",
            f"the dump{where} holds several runs, {shown}; the newest, `{times[-1]}`, is read",
            severity=Severity.WARNING,
            help="choose another with `time:`, or dump every run into a folder of its own",
        )
    )
    return [part for part in parts if (part.folder.time or "") == times[-1]]
