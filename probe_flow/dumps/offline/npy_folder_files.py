"""Find the arrays of a folder: those of its own level that are named so, all of one suffix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.device_folders.layout import (
    MAPPING_FILE,
    hashed_without_mapping,
    not_a_dump_file,
)
from probe_flow.dumps.file_names import is_hashed, parse_fx_name, read_name_mapping, real_name, stem_of
from probe_flow.dumps.manifest import DUMP_MANIFEST
from probe_flow.dumps.offline.names import ArrayName, parse_array_name, parse_om_name
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.walk import DumpFile, DumpListing, no_dump_file
from probe_flow.records import Problem

_MAX_LISTED = 3


class ArrayFile(Struct, frozen=True):
    """An array file with its parsed (real) name, and whether `mapping.csv` gives that."""

    file: DumpFile
    name: ArrayName
    is_told: bool = False


class ArrayFiles(Struct, frozen=True):
    """The array files of a folder in name order, never none, and what is wrong with the others."""

    files: Sequence[ArrayFile]
    problems: list[Problem]


def one_array(file: DumpFile) -> ArrayFiles:
    """Return one array file; a ``.npy`` of any other name holds output 0 of an operator named as the file is.

    Raises:
        UsageError: PF3201 when the file is no array.
    """
    parsed = parse_array_name(file.name)
    if parsed is None and file.name.endswith(".npy"):
        parsed = ArrayName(file.name.removesuffix(".npy"), 0, 0, "npy")
    if parsed is None:
        raise UsageError(no_dump_file(file, "a `.npy`"))
    return ArrayFiles([ArrayFile(file, parsed)], [])


def array_files(listing: DumpListing) -> ArrayFiles:
    """Return the array files of the top level of a listing.

    Raises:
        UsageError: PF3300 when files of several kinds lie there.
        IncompleteError: PF3202 when no array lies there.
    """
    problems = list(listing.problems)
    own = [file for file in listing.files if not file.folders]
    mapping = _true_names(own, problems)
    found: list[ArrayFile] = []
    odd: Counter[str] = Counter()
    device: list[str] = []
    for file in own:
        name, is_told, is_reduced = _true_name(file, mapping)
        parsed = parse_array_name(name) if name is not None else None
        if parsed is not None:
            parsed = replace(parsed, is_reduced=parsed.is_reduced or is_reduced)
            found.append(ArrayFile(file, parsed, is_told))
            continue
        what = _what(file, name)
        odd[what] += 1
        if what == "device file":
            device.append(file.relative)
        if name is None:
            problems.append(hashed_without_mapping(file, f"`{MAPPING_FILE}` beside it does not name it"))
        elif file.name not in (MAPPING_FILE, DUMP_MANIFEST):
            problems.append(not_a_dump_file(file, what))
    below = _below(listing)
    if not found:
        raise IncompleteError(_nothing_to_read(listing, odd, below))
    _check_one_kind(listing, found, device)
    problems.extend(_not_read(folder, count) for folder, count in below.items())
    return ArrayFiles(found, problems)


def _true_names(files: Sequence[DumpFile], problems: list[Problem]) -> Mapping[str, str]:
    """Return what `mapping.csv` says of names; those of operators keep their scopes."""
    for file in files:
        if file.name == MAPPING_FILE:
            names, bad = read_name_mapping(Path(file.path), file.relative, taken=str)
            problems.extend(bad)
            return names
    return {}


def _true_name(file: DumpFile, mapping: Mapping[str, str]) -> tuple[str | None, bool, bool]:
    """Return the name that a file has or stands for, whether `mapping.csv` told it, and whether the file is reduced."""
    dumped = stem_of(file.name) if file.name.endswith(".npy") else None
    is_reduced = dumped is not None and is_hashed(dumped)
    name = dumped if dumped is not None and is_reduced else file.name
    found = real_name(name, mapping)
    return (None if found is None and is_hashed(name) else found or name), found is not None, is_reduced


def _what(file: DumpFile, name: str | None) -> str:
    if name is None:
        return "hashed name"
    if file.name.startswith("."):
        return "hidden file"
    if parse_fx_name(name) is not None:
        return "FX array"
    if parse_om_name(name) is not None:
        return "device file"
    return "array of another program" if name.endswith(".npy") else "file of another kind"


def _below(listing: DumpListing) -> Mapping[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for file in listing.files:
        if file.folders and parse_array_name(file.name) is not None:
            counts["/".join(file.folders)] += 1
    return counts


def _check_one_kind(listing: DumpListing, found: Sequence[ArrayFile], device: Sequence[str]) -> None:
    kinds: dict[str, list[str]] = {"device files": list(device)} if device else {}
    for file in found:
        kinds.setdefault(f"`.{file.name.suffix}`", []).append(file.file.relative)
    if len(kinds) > 1:
        shown = ", ".join(f"{len(names)} x {kind} such as `{names[0]}`" for kind, names in kinds.items())
        raise UsageError(
            Diagnostic(
                "PF3300",
                f"`{listing.root.name}` holds files of {len(kinds)} kinds: {shown}",
                help="put the files of each kind into a folder of their own",
                path=str(listing.root),
            )
        )


def _not_read(folder: str, count: int) -> Problem:
    return Diagnostic(
        "PF3305",
        f"{count} arrays in `{folder}` are not read: only the folder itself is",
        severity=Severity.WARNING,
        help=f"give `{folder}` as `path` of a stage of its own if it is a dump too",
        path=folder,
    )


def _nothing_to_read(listing: DumpListing, odd: Mapping[str, int], below: Mapping[str, int]) -> Diagnostic:
    found = ", ".join(f"{count} x {what}" for what, count in odd.items()) or "nothing"
    help_text = "give the folder that holds the arrays of a finished run"
    if below:
        folders = ", ".join(f"`{folder}`" for folder in list(below)[:_MAX_LISTED])
        help_text = f"arrays lie below it, in {folders}: give that folder"
    elif "device file" in odd:
        help_text = "these look like device files: read them with `dump.om`"
    elif "FX array" in odd:
        help_text = "this looks like an FX dump: read it with `dump.torchair_fx`"
    return Diagnostic(
        "PF3202",
        f"`{listing.root.name}` holds no array of a framework; found {found}",
        help=help_text,
        notes=("looked for `{op}.{output index}.{timestamp}.npy` (or `.pb`, `.quant`) in the folder itself",),
        path=str(listing.root),
    )
