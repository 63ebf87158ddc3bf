"""Which files of a dump folder can be reduced, told by their names, and whether one is written to its end."""

from __future__ import annotations

import enum
import re

from msgspec import Struct

from probe_flow.dumps.device.device_file import ge_header
from probe_flow.dumps.device.file_records import GeDump
from probe_flow.dumps.file_names import is_hashed, parse_ge_name
from probe_flow.dumps.reduced.reduced_names import source_name
from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.arrays.npy import MAGIC, NpyHeader, npy_header
from probe_flow.files.binary_file import BinaryFile

REDUCED = "reduced file"
"""Why a file is no source that holds what another was reduced to."""

_SKIPPED = {
    ".txt": "text", ".swp": "file of an editor", ".csv": "table", ".json": "file of another kind",
    ".npz": "archive of arrays", ".py": "file of another kind", ".pt": "file of another kind",
    ".log": "file of another kind", ".tmp": "file of another kind",
}  # fmt: skip
_REDUCED_OTHERWISE = re.compile(r".+\.\d{12,32}_\w+\.npy")
_UNFINISHED = frozenset({"PF3010", "PF3011", "PF3015", "PF3020", "PF3022", "PF3027"})
_OPDEBUG = "Opdebug"
_NPY_PREFIX = 12


class SourceKind(enum.Enum):
    """What a file that can be reduced is: an FX array or a device file."""

    ARRAY = "array"
    DEVICE = "device"


class Unfinished(Struct, frozen=True):
    """Why a file does not look written to its end."""

    diagnostic: Diagnostic


def source_kind(name: str, suffix: str) -> SourceKind | str:
    """Return what a file is by its name, or why it is no source: it is hidden, reduced already, of another kind ...

    Arrays of any name are sources. Other files must have the name of a device file, or a hash for one.
    """
    if name.startswith("."):
        return "hidden file"
    if source_name(name, suffix) is not None or _REDUCED_OTHERWISE.fullmatch(name):
        return REDUCED
    if kind_of(name) is SourceKind.ARRAY:
        return SourceKind.ARRAY
    for ending, what in _SKIPPED.items():
        if name.endswith(ending):
            return what
    parsed = parse_ge_name(name)
    if parsed is not None and parsed.op_type == _OPDEBUG:
        return "overflow record"
    return SourceKind.DEVICE if parsed is not None or is_hashed(name) else "file of another kind"


def kind_of(name: str) -> SourceKind:
    """Return what a file that is a source is."""
    return SourceKind.ARRAY if name.endswith(".npy") else SourceKind.DEVICE


def array_source(file: BinaryFile) -> NpyHeader | Unfinished:
    """Return the header of an array; its shape must account for every byte of the file.

    Raises:
        FormatError: PF3001 unreadable, PF3021 bad header.
    """
    try:
        header = npy_header(file)
    except FormatError as exc:
        return Unfinished(exc.diagnostic) if _ends_in_header(file) else _unfinished(exc)
    return header


def device_source(file: BinaryFile) -> GeDump | Unfinished:
    """Return the header of a device file; all that it announces must be there.

    Raises:
        FormatError: as `read_ge_header`.
    """
    try:
        dump = ge_header(file)
    except FormatError as exc:
        return _unfinished(exc)
    cut = next((problem for problem in dump.problems if problem.code in _UNFINISHED), None)
    return dump if cut is None else Unfinished(cut)


def _unfinished(error: FormatError) -> Unfinished:
    if error.diagnostic.code in _UNFINISHED:
        return Unfinished(error.diagnostic)
    raise error


def _ends_in_header(file: BinaryFile) -> bool:
    """Tell whether an array ends before the header that its first bytes announce."""
    head = file.read_at(0, _NPY_PREFIX)
    width = 2 if head[6:7] == b"\x01" else 4
    return head[:6] == MAGIC and file.size < 8 + width + int.from_bytes(head[8 : 8 + width], "little")
