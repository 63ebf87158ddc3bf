"""The files of a MindSpore kernel dump by role: tensors and statistics of each iteration, and what lies beside."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.file_names import is_hashed, read_name_mapping, real_name
from probe_flow.dumps.mindspore_graph.layout import RunFolder, rank_of, run_folder
from probe_flow.dumps.mindspore_graph.names import TensorFileName, parse_tensor_file_name
from probe_flow.dumps.mindspore_graph.statistic_csv import STATISTICS_FILE
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile, DumpListing
from probe_flow.records import Problem

MAPPING_FILE = "mapping.csv"
_TEXT = re.compile(r"ms_output_trace_code_graph_(\d{1,9})\.ir")
_ORDER = re.compile(r"ms_execution_order_graph_\d{1,9}\.csv")
_ABOVE = 4


class RunFiles(Struct):
    """The files of one iteration of one graph; ``unnamed``: what holds tensors that cannot be told, with the reason."""

    tensors: list[tuple[DumpFile, TensorFileName]] = field(default_factory=list)
    statistics: list[DumpFile] = field(default_factory=list)
    unnamed: list[tuple[DumpFile, str]] = field(default_factory=list)


class GraphFiles(Struct):
    """The files of a dump: by iteration, and by rank what lies beside.

    ``empty``: iterations without a file, with the reason; ``odd`` counts other files for messages.
    """

    runs: dict[RunFolder, RunFiles] = field(default_factory=lambda: defaultdict(RunFiles))
    texts: dict[int | None, dict[int, DumpFile]] = field(default_factory=lambda: defaultdict(dict))
    orders: dict[int | None, list[DumpFile]] = field(default_factory=lambda: defaultdict(list))
    problems: list[Problem] = field(default_factory=list)
    empty: dict[RunFolder, str] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def sort_graph_files(listing: DumpListing) -> GraphFiles:
    """Return the files of a listing by their role.

    Problems: PF3208 a hashed name without its real one, PF3453 a file among the tensors whose name tells nothing,
    PF3216 a malformed row of `mapping.csv`, PF3456 a folder without files.
    """
    files = GraphFiles(problems=list(listing.problems))
    above = listing.root.parts[-_ABOVE:]
    mappings: dict[tuple[str, ...], Mapping[str, str]] = {}
    for file in listing.files:
        if file.name == MAPPING_FILE:
            mappings[file.folders], bad = read_name_mapping(Path(file.path), file.relative)
            files.problems.extend(bad)
    for file in listing.files:
        run = run_folder(file.folders, above=above)
        if run is None:
            _take_beside(file, above, files)
        elif file.name == STATISTICS_FILE:
            files.runs[run].statistics.append(file)
        elif file.name != MAPPING_FILE:
            _take_tensor(file, run, mappings.get(file.folders, {}), files)
    _take_empty_folders(listing, above, files)
    return files


def _take_empty_folders(listing: DumpListing, above: tuple[str, ...], files: GraphFiles) -> None:
    """Report the iterations and ranks without any file: a dump that was killed, or a disk that was full."""
    filled = {file.folders[:depth] for file in listing.files for depth in range(len(file.folders) + 1)}
    pending: list[tuple[str, ...]] = [()]
    while pending:
        folders = pending.pop()
        run = run_folder(folders, above=above) if folders else None
        if folders and folders not in filled and (run is not None or rank_of(folders[-1]) is not None):
            problem = no_tensors(f"`{'/'.join(folders)}`", path="/".join(folders))
            files.problems.append(problem)
            if run is not None:
                files.empty[run] = problem.message
        elif len(folders) <= _ABOVE:
            below = _folders_in(listing.root.joinpath(*folders))
            pending.extend((*folders, name) for name in reversed(below))


def _folders_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # the listing of files has reported it
        return []


def _take_beside(file: DumpFile, above: tuple[str, ...], files: GraphFiles) -> None:
    rank = next((r for name in reversed((*above, *file.folders)) if (r := rank_of(name)) is not None), None)
    if (text := _TEXT.fullmatch(file.name)) is not None:
        files.texts[rank][int(text.group(1))] = file
    elif _ORDER.fullmatch(file.name):
        files.orders[rank].append(file)
    else:
        files.odd[file.name.rpartition(".")[2] if "." in file.name else "file"] += 1


def _take_tensor(file: DumpFile, run: RunFolder, mapping: Mapping[str, str], files: GraphFiles) -> None:
    name: str | None = file.name
    if is_hashed(file.name):
        name = real_name(file.name, mapping)
    parsed = parse_tensor_file_name(name) if name is not None else None
    if parsed is not None:
        files.runs[run].tensors.append((file, parsed))
        return
    problem = _unresolved(file) if name is None else _no_tensor(file)
    files.problems.append(problem)
    if file.name.endswith(".npy"):
        files.runs[run].unnamed.append((file, problem.message))
    else:
        files.odd["other file"] += 1


def no_tensors(where: str, *, path: str | None = None) -> Problem:
    """Report an iteration without a tensor."""
    return Diagnostic(
        "PF3456",
        f"{where} holds no tensor",
        severity=Severity.WARNING,
        help="wait until the dump is written; if it is, free some disk and dump again",
        path=path,
    )


def _unresolved(file: DumpFile) -> Problem:
    return Diagnostic(
        "PF3208",
        f"`{file.relative}` is skipped: its name is a hash and `{MAPPING_FILE}` beside it does not name it",
        severity=Severity.ERROR,
        help=f"copy the dump together with its `{MAPPING_FILE}`",
        path=file.relative,
    )


def _no_tensor(file: DumpFile) -> Problem:
    # An array under a name that tells nothing is a lost tensor; a log or a lock beside the tensors is not.
    is_array = file.name.endswith(".npy")
    return Diagnostic(
        "PF3453",
        f"`{file.relative}` cannot be taken: its name is not that of a dumped tensor",
        severity=Severity.ERROR if is_array else Severity.NOTE,
        help="give the file the name that MindSpore wrote, or remove it" if is_array else None,
        notes=("expected `{type}.{name}.{task}.{stream}.{time}.{input|output}.{slot}.{format}.{dtype}.npy`",),
        path=file.relative,
    )
