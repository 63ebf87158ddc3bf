"""Sort the files of an offline device dump: device files by folder, overflow records, and what is neither."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device_folders.layout import (
    MAPPING_FILE,
    GeFile,
    hashed_without_mapping,
    name_mappings,
    not_a_dump_file,
)
from probe_flow.dumps.file_names import GeFileName, is_hashed, real_name, safe_name, stem_of, without_slice
from probe_flow.dumps.manifest import DUMP_MANIFEST
from probe_flow.dumps.offline.names import FFTS_TASK_TYPES, parse_array_name, parse_om_array_name, parse_om_name
from probe_flow.errors import Diagnostic, FormatError, Severity, UsageError
from probe_flow.files.walk import DumpFile, DumpListing
from probe_flow.records import Problem

OP_DEBUG = "Opdebug"
"""Operator type of overflow records."""

_NEVER_DATA = (MAPPING_FILE, DUMP_MANIFEST, "convert_failed_file_list.txt")


class OmFiles(Struct):
    """The files of one device dump, by folder.

    ``op_debug`` names overflow records, ``arrays`` framework arrays by folder, ``odd`` counts what is neither.
    """

    folders: dict[tuple[str, ...], list[GeFile]] = field(default_factory=lambda: defaultdict(list))
    op_debug: list[str] = field(default_factory=list)
    arrays: dict[tuple[str, ...], list[str]] = field(default_factory=lambda: defaultdict(list))
    problems: list[Problem] = field(default_factory=list)
    odd: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def sort_om_files(listing: DumpListing) -> OmFiles:
    """Return the files of a listing by their role; everything that is no device file becomes a problem.

    Raises:
        UsageError: PF3300 when one folder holds framework arrays among device files.
    """
    files = OmFiles(problems=list(listing.problems))
    mappings = name_mappings(listing.files, files.problems)
    for file in listing.files:
        if file.name not in _NEVER_DATA:
            _take(file, mappings.get(file.folders, {}), files)
    for folders, names in files.arrays.items():
        if folders in files.folders:
            raise UsageError(_mixed_kinds(listing.root.joinpath(*folders), files.folders[folders][0], names))
    return files


def _mixed_kinds(folder: Path, device: GeFile, arrays: Sequence[str]) -> Diagnostic:
    """Report a folder that holds files of both sides."""
    return Diagnostic(
        "PF3300",
        f"`{folder.name}` holds files of two kinds: device files such as `{device.file.relative}` and {len(arrays)} "
        f"arrays such as `{arrays[0]}`",
        help="put the files of each side into a folder of their own",
        path=str(folder),
    )


def _take(file: DumpFile, mapping: Mapping[str, str], files: OmFiles) -> None:
    name, form = _stands_for(file.name)
    if is_hashed(name):
        found = real_name(name, mapping)
        if found is None:
            files.odd["hashed name"] += 1
            why = f"`{MAPPING_FILE}` beside it does not name it"
            files.problems.append(hashed_without_mapping(file, why))
            return
        name = found
    array = parse_om_array_name(name) if form == "raw" else None
    parsed, form = (parse_om_name(name), form) if array is None else (array, "array")
    if parsed is not None and parsed.op_type == OP_DEBUG:
        files.op_debug.append(file.relative)
    elif parsed is not None and parsed.device_id is not None and parsed.task_type not in FFTS_TASK_TYPES:
        files.odd["file of an unknown task type"] += 1
        files.problems.append(_unknown_task_type(file, parsed))
    elif parsed is not None:
        files.folders[file.folders].append(GeFile(file, parsed, form))
    else:
        _pass_over(file, name, files)


def _stands_for(name: str) -> tuple[str, str]:
    """Return the name of the device file that a file stands for, and the form in which it does, as of `GeFile`."""
    if name.endswith(".npz"):
        return stem_of(name) or name, "reduced"
    if name.endswith(".csv"):
        return name.removesuffix(".csv"), "statistics"
    return name, "raw"


def _pass_over(file: DumpFile, name: str, files: OmFiles) -> None:
    what = "file of another kind"
    if parse_array_name(name) is not None:
        what = "framework array"
        files.arrays[file.folders].append(file.relative)
    elif file.name.startswith("."):
        what = "hidden file"
    files.odd[what] += 1
    files.problems.append(not_a_dump_file(file, what))


def _unknown_task_type(file: DumpFile, parsed: GeFileName) -> Problem:
    known = f"{FFTS_TASK_TYPES.start} to {FFTS_TASK_TYPES.stop - 1}"
    return Diagnostic(
        "PF3301",
        f"`{file.relative}` is skipped: its name gives the task type {parsed.task_type}, known are {known}",
        severity=Severity.WARNING,
        help="rename the file if its name was changed; else report it to the maker of the device software",
        path=file.relative,
    )


def with_true_names(files: Sequence[GeFile]) -> list[GeFile]:
    """Tell operators apart whose cleaned names are the same (`a/b`, `a_b`), by the names in their headers.

    Only files that would otherwise count as duplicates of each other are opened.
    """
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, file in enumerate(files):
        if file.form == "raw":
            groups[(file.name.op_type, file.name.op_name, file.name.thread_id)].append(number)
    named = list(files)
    for numbers in groups.values():
        names = {number: _true_name(files[number]) for number in numbers} if len(numbers) > 1 else {}
        if len(set(names.values()) - {None}) < 2:
            continue
        for number, name in names.items():
            if name is not None:
                file = files[number]
                named[number] = replace(file, name=replace(file.name, op_name=name))
    return named


def _true_name(file: GeFile) -> str | None:
    """Return the name in the header when it is that of the file before cleaning."""
    try:
        name = read_ge_header(file.file.path).op_name
    except FormatError:
        return None
    return name if without_slice(safe_name(name)) == without_slice(safe_name(file.name.op_name)) else None
