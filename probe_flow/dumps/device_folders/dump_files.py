"""The dump files in folders of a device, whichever form they have and whatever their names are hashed to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.file_names import GeFileName, read_name_mapping
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile
from probe_flow.records import Problem

MAPPING_FILE = "mapping.csv"


class GeFile(Struct, frozen=True, gc=False):
    """A dump file with its parsed (real) name.

    ``form`` is ``raw``, ``reduced``, ``statistics`` (of the device) or ``array`` (a `.npy` in place of a raw file).
    """

    file: DumpFile
    name: GeFileName
    form: str = "raw"


def name_mappings(files: Sequence[DumpFile], problems: list[Problem]) -> dict[tuple[str, ...], Mapping[str, str]]:
    """Return what the `mapping.csv` of each folder says; rows that say nothing become problems."""
    found: dict[tuple[str, ...], Mapping[str, str]] = {}
    for file in files:
        if file.name == MAPPING_FILE:
            found[file.folders], bad = read_name_mapping(Path(file.path), file.relative)
            problems.extend(bad)
    return found


def not_a_dump_file(file: DumpFile, what: str) -> Problem:
    """Report a file that is passed over because its name is not that of a dumped tensor."""
    return Diagnostic("PF3205", f"`{file.relative}` is passed over: {what}", severity=Severity.NOTE, path=file.relative)


def hashed_without_mapping(file: DumpFile, why: str) -> Problem:
    """Report a file whose true name is unknown."""
    return Diagnostic(
        "PF3208",
        f"`{file.relative}` is skipped: its name is a hash and {why}",
        severity=Severity.WARNING,
        help=f"copy the dump together with its `{MAPPING_FILE}`",
        path=file.relative,
    )
