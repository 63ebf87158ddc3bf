"""Which dump.json files a path means: the file, its folder, a step folder, or the root with step*/rank*|proc*.

A program that MindSpore runs partly as a graph has two roots, ``graph`` and ``pynative``, in one folder. Values that a
program saved one by one stand in a debug.json in place of the dump.json, or beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.files.existing import files_below, first_names, is_there, real_path, why_missing
from probe_flow.records import Execution

DUMP_FILE, DEBUG_FILE = DESCRIPTIONS = "dump.json", "debug.json"
"""Files that describe a dump: of whole calls, and of single values that the program saved."""
TREES = ("graph", "pynative")
_STEP = re.compile(r"step(0|[1-9][0-9]{0,17})")
_RANK = re.compile(r"rank(0|[1-9][0-9]{0,17})?")
_PROC = re.compile(r"proc[0-9]{1,18}")
_MAX_SHOWN = 4
"""Dumps, or names in a folder, that a message shows."""


class DumpFile(Struct, frozen=True):
    """One dump.json with the execution that its folders name; ``shown`` is its path below the dump's root."""

    execution: Execution
    file: Path
    shown: str


class Found(Struct, frozen=True):
    """The files of a dump in order of step and rank, its root folder, what was left out, and whether by a selection."""

    root: Path
    files: tuple[DumpFile, ...]
    problems: tuple[Diagnostic, ...]
    is_part: bool


def find_dump_files(
    path: Path,
    *,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    graphs: Sequence[int | str] | None = None,
) -> Found:
    """Find the dump.json files of a dump.

    A single-process run lies in a folder named after its process, so its rank is unknown (None); a ``proc*`` folder
    beside ``rank*`` folders holds a helper process and is left out with a note.

    Args:
        path: a dump.json or debug.json, its folder, a step folder, a folder of step folders, or one of ``graph`` and
            ``pynative``.
        ranks, steps, graphs: keep only these; None keeps all.

    Raises:
        UsageError: PF3401 no such path, PF3403 no dump.json there, PF3404 nothing selected, PF3405 several processes
            without a rank.
    """
    if not is_there(path):
        what, cure = why_missing(path)
        raise UsageError(Diagnostic("PF3401", f"`{path}` {what}", path=str(path), help=cure))
    root = path if path.is_dir() else path.parent
    problems: list[Diagnostic] = []
    files = [_named_by_parents(path)] if path.is_file() else _below(path, problems)
    if not files:
        raise _no_dump(path, problems)
    kept = [item for item in files if _is_selected(item.execution, ranks, steps, graphs)]
    if not kept:
        raise UsageError(
            Diagnostic(
                "PF3404",
                f"`select` keeps nothing of `{path}`",
                path=str(path),
                help="the dump holds " + ", ".join(str(item.execution) for item in files[:8]),
            )
        )
    kept.sort(key=lambda item: (str(item.execution.graph), _number(item.execution.step), _number(item.execution.rank)))
    return Found(root, tuple(kept), tuple(problems), len(kept) < len(files))


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _is_selected(
    execution: Execution,
    ranks: Collection[int] | None,
    steps: Collection[int] | None,
    graphs: Collection[int | str] | None,
) -> bool:
    wanted = (ranks, execution.rank), (steps, execution.step), (graphs, execution.graph)
    return all(values is None or value in values for values, value in wanted)


def _named_by_parents(file: Path) -> DumpFile:
    return DumpFile(_execution_of(file.parent), file, file.name)


def _execution_of(folder: Path) -> Execution:
    """Read rank and step from the names of a folder that holds a dump.json and of the folder above it."""
    folder = real_path(folder)
    step = _STEP.fullmatch(folder.parent.name)
    return Execution(rank=_rank_of(folder.name), step=int(step.group(1)) if step else None)


def _rank_of(name: str) -> int | None:
    match = _RANK.fullmatch(name)
    return int(match.group(1)) if match and match.group(1) else None


def _below(path: Path, problems: list[Diagnostic]) -> list[DumpFile]:
    files = [DumpFile(_execution_of(path), file, file.name) for file in _dumps_in(path)]
    if files:
        return files
    files = _steps(path, None, path, problems)
    for tree in TREES:
        folder = path / tree
        if not folder.is_dir():
            continue
        if leads_out(folder, path):
            problems.append(_link(folder, path))
        else:
            files += _steps(folder, tree, path, problems)
    return files


def _steps(path: Path, tree: str | None, root: Path, problems: list[Diagnostic]) -> list[DumpFile]:
    """Return the files below a folder of step folders, or below a step folder itself."""
    steps = _children(path, _STEP, root, problems)
    if not steps:
        step = _STEP.fullmatch(real_path(path).name)
        return _processes(path, Execution(step=int(step.group(1)) if step else None, graph=tree), root, problems)
    files: list[DumpFile] = []
    for folder in steps:
        match = _STEP.fullmatch(folder.name)
        assert match is not None
        found = _processes(folder, Execution(step=int(match.group(1)), graph=tree), root, problems)
        if not found:
            problems.append(_empty_folder(folder, root))
        files += found
    return files


def _dumps_in(folder: Path) -> list[Path]:
    return [folder / name for name in DESCRIPTIONS if (folder / name).is_file()]


def _processes(folder: Path, step: Execution, root: Path, problems: list[Diagnostic]) -> list[DumpFile]:
    """Return the dump.json files of one step: its rank folders, else its only process folder."""
    ranks = _children(folder, _RANK, root, problems)
    processes = _children(folder, _PROC, root, problems)
    if ranks and processes:
        message = f"{len(processes)} `proc*` folder(s) beside the `rank*` folders of `{folder.name}` are left out"
        problems.append(Diagnostic("PF3415", message, severity=Severity.NOTE, path=str(folder)))
    elif len(processes) > 1:
        raise UsageError(
            Diagnostic(
                "PF3405",
                f"`{folder}` holds {len(processes)} process folders and no `rank*` folder",
                path=str(folder),
                help=f"give one of them as the path, e.g. `{folder.name}/{processes[0].name}`",
            )
        )
    files: list[DumpFile] = []
    for child in ranks or processes:
        found = _dumps_in(child)
        for file in found:
            if leads_out(file, root):
                problems.append(_link(file, root))
            else:
                execution = replace(step, rank=_rank_of(child.name))
                files.append(DumpFile(execution, file, file.relative_to(root).as_posix()))
        if not found:
            problems.append(_empty_folder(child, root))
    return files


def _children(folder: Path, pattern: re.Pattern[str], root: Path, problems: list[Diagnostic]) -> list[Path]:
    """Return the sub-folders with such names, by number; links that lead out of the dump are left out."""
    kept: list[Path] = []
    for child in sorted(folder.iterdir(), key=lambda child: (len(child.name), child.name)):
        if not pattern.fullmatch(child.name) or not child.is_dir():
            continue
        if leads_out(child, root):
            problems.append(_link(child, root))
        else:
            kept.append(child)
    return kept


def leads_out(path: Path, root: Path) -> bool:
    """Say whether a path below `root` is a link to somewhere else."""
    return not real_path(path).is_relative_to(real_path(root))


def _link(path: Path, root: Path) -> Diagnostic:
    message = f"`{path.relative_to(root).as_posix()}` is a link that leads out of the dump and is not followed"
    return Diagnostic("PF3417", message, path=str(path), help="give what it leads to as a dump of its own")


def _empty_folder(folder: Path, root: Path) -> Diagnostic:
    shown = folder.relative_to(root).as_posix()
    return Diagnostic(
        "PF3406",
        f"`{shown}` holds no `{DUMP_FILE}` and no `{DEBUG_FILE}`",
        path=str(folder),
        help="dump again, or leave it out with `select`",
    )


def _no_dump(path: Path, problems: Sequence[Diagnostic]) -> UsageError:
    below = _dumps_below(path)
    names = first_names(path)
    shown = [f"`{name}`" for name in sorted(names)[: 2 * _MAX_SHOWN]]
    cure = "give a dump.json, the folder that holds it, a step folder, or the folder of the step folders"
    if below:
        cure = "give one dump: " + " or ".join(f"`{dump}`" for dump in below[:_MAX_SHOWN])
        cure += f", or one of {len(below) - _MAX_SHOWN} more" if len(below) > _MAX_SHOWN else ""
    return UsageError(
        Diagnostic(
            "PF3403",
            f"`{path}` holds no `{DUMP_FILE}`",
            path=str(path),
            help=cure,
            notes=(
                ("it holds " + ", ".join(shown)) if names else "it is empty",
                *(problem.message for problem in problems[:3]),
            ),
        )
    )


def _dumps_below(path: Path) -> list[Path]:
    """Return the dumps deeper in a folder than those of one lie: without its folders of steps, ranks and processes."""
    found: dict[Path, None] = {}
    for file in files_below(path, DESCRIPTIONS):
        folder = file.parent
        while folder != path and _is_part(folder.name):
            folder = folder.parent
        found[folder] = None
    return list(found)


def _is_part(name: str) -> bool:
    return name in TREES or any(pattern.fullmatch(name) for pattern in (_STEP, _RANK, _PROC))
