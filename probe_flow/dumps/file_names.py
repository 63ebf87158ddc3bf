"""Parse the file names of TorchAir dumps: device files, FX arrays and the ``mapping.csv`` of hashed names.

Device file: ``{op_type}.{op_name}.{task_id}[.{stream_id}].{timestamp}``, for sliced operators followed by
``.{task_type}.{context_id}.{thread_id}.{device_id}``. The timestamp is in microseconds (16 digits); ``/`` and ``.`` of
the operator name are written as ``_``.
FX array: ``{node}-{target}.{INPUT|OUTPUT}.{i}[.{j}].{timestamp}.npy`` (20 digits). A name of digits only stands for
the name that ``mapping.csv`` of the same folder gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from sys import intern

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import lines_of, open_text
from probe_flow.records import Problem, Slot, SlotRole

TIMESTAMP_DIGITS = 16
MAX_MAPPING_BYTES = 64 << 20

_USUAL_GE_NAME = re.compile(r"([^.]+)\.(.+)\.([0-9]{1,32})\.([0-9]{1,32})\.([0-9]{16})")
_FX_NAME = re.compile(r"([^-]+-.+)\.(INPUT|OUTPUT)\.(\d{1,6})(?:\.(\d{1,6}))?\.(\d{12,32})([^\d.][^.]*)?\.npy")
_SLICE_MARK = "_lxslice"
_SLICE = re.compile(rf"{_SLICE_MARK}(\d{{1,9}})$")
_SUBGRAPH = re.compile(r".*sgt_graph_\d+[_/]")
_REDUCED = re.compile(r"(?P<stem>\d+|.+\.\d+)(?:[^\d.][^.]*)\.(?:npy|npz)")
_HASHED = re.compile(r"(\d+)(\.npy)?")
_OUTPUT_NAME = re.compile(r"(.+)\.OUTPUT\.(\d{1,6})")

FxOutput = tuple[str, int]
"""An FX tensor: (key ``{node}-{target}``, output number)."""


class GeFileName(Struct, frozen=True, gc=False):
    """The fields of a device file name; numbers that the name lacks are None."""

    op_type: str
    op_name: str
    task_id: int | None
    stream_id: int | None
    timestamp: int
    task_type: int | None = None
    context_id: int | None = None
    thread_id: int | None = None
    device_id: int | None = None

    @property
    def manual_slice(self) -> int | None:
        """Slice number of an operator that was cut by hand."""
        found = _SLICE.search(self.op_name) if _SLICE_MARK in self.op_name else None
        return int(found.group(1)) if found else None

    @property
    def base_name(self) -> str:
        """Name of the operator without the number of its slice."""
        return without_slice(self.op_name)


class FxFileName(Struct, frozen=True, gc=False):
    """The fields of an FX array's name; ``key`` is ``{node}-{target}``."""

    key: str
    slot: Slot
    timestamp: int
    is_reduced: bool = False

    @property
    def node(self) -> str:
        return node_of(self.key)

    @property
    def target(self) -> str:
        return intern(self.key.partition("-")[2])


def node_of(key: str) -> str:
    """Return the fx node of an operator key ``{node}-{target}``."""
    return key.partition("-")[0]


def parse_output_name(name: str) -> FxOutput | None:
    """Return key and output number of a ``_fx_tensor_name``.

    >>> parse_output_name("add_1-aten.add.Tensor.OUTPUT.0")
    ('add_1-aten.add.Tensor', 0)
    """
    found = _OUTPUT_NAME.fullmatch(name)
    return (found.group(1), int(found.group(2))) if found else None


def safe_name(name: str) -> str:
    """Return an operator name as file names write it.

    >>> safe_name("layer.0/attn")
    'layer_0_attn'
    """
    return name.replace("/", "_").replace(".", "_")


def without_slice(name: str) -> str:
    """Return an operator name without the mark of a slice that was cut by hand.

    >>> without_slice("conv_lxslice12")
    'conv'
    """
    return _SLICE.sub("", name) if _SLICE_MARK in name else name


def without_subgraph(name: str) -> str:
    """Return an operator name without the subgraph that the device put it into.

    >>> without_subgraph("scope/sgt_graph_0/conv")
    'conv'
    """
    return _SUBGRAPH.sub("", name, count=1)


def parse_ge_name(name: str) -> GeFileName | None:
    """Return the fields of a device file name, None when it is not one.

    >>> parse_ge_name("Add.Add_2.44.6.1706596912161941").task_id
    44
    """
    usual = _USUAL_GE_NAME.fullmatch(name)
    if usual is not None:
        op_type, op_name, task_id, stream_id, timestamp = usual.groups()
        return GeFileName(intern(op_type), op_name, int(task_id), int(stream_id), int(timestamp))
    fields = name.split(".")
    at = _timestamp_index(fields)
    if at is None or not fields[0]:
        return None
    first = at - 2 if at >= 4 and all(map(_is_number, fields[at - 2 : at])) else at - 1
    if not _is_number(fields[first]):
        return None
    op_name = ".".join(fields[1:first])
    if not op_name:
        return None
    stream_id = int(fields[first + 1]) if at - first == 2 else None
    tail = map(int, fields[at + 1 :])
    return GeFileName(fields[0], op_name, int(fields[first]), stream_id, int(fields[at]), *tail)


def _is_number(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= 32


def _timestamp_index(fields: list[str]) -> int | None:
    """Find the timestamp: the last field of 16 digits that only numbers follow; else by the number of fields."""
    tail = len(fields)
    while tail > 1 and _is_number(fields[tail - 1]):
        tail -= 1
    for at in range(len(fields) - 1, max(tail, 3) - 1, -1):
        if len(fields[at]) == TIMESTAMP_DIGITS and len(fields) - 1 - at <= 4:
            return at
    numbers = len(fields) - tail
    if tail >= 2 and numbers in (2, 3, 6, 7):
        return len(fields) - 1 if numbers <= 3 else len(fields) - 5
    return None


def parse_fx_name(name: str) -> FxFileName | None:
    """Return the fields of an FX array's file name, None when it is not one.

    >>> str(parse_fx_name("cat-aten.cat.default.INPUT.0.10.20251017071211190258.npy").slot)
    'input.0.10'
    """
    found = _FX_NAME.fullmatch(name)
    if found is None:
        return None
    key, role, first, second, timestamp, reduced = found.groups()
    return FxFileName(key, _fx_slot(role, first, second), int(timestamp), reduced is not None)


@lru_cache(maxsize=4096)
def _fx_slot(role: str, first: str, second: str | None) -> Slot:
    """Return a slot; the few that there are have one object for all files."""
    path = (int(first),) if second is None else (int(first), int(second))
    return Slot(SlotRole.INPUT if role == "INPUT" else SlotRole.OUTPUT, path)


def stem_of(name: str) -> str | None:
    """Return the name of the dumped file that a reduced one stands for, whatever its suffix; None for other names.

    >>> stem_of("Add.Add_2.44.6.1706596912161941_min_max.npz")
    'Add.Add_2.44.6.1706596912161941'
    """
    found = _REDUCED.fullmatch(name)
    if found is None:
        return None
    return found["stem"] + (".npy" if name.endswith(".npy") else "")


def is_hashed(name: str) -> bool:
    """Tell whether a file name is a hash that `mapping.csv` resolves (digits, or digits and ``.npy``)."""
    return _HASHED.fullmatch(name) is not None


def real_name(name: str, mapping: Mapping[str, str]) -> str | None:
    """Return the name behind a hashed one; the mapping may or may not repeat the ``.npy``."""
    stem = name.removesuffix(".npy")
    found = mapping.get(name) or mapping.get(stem) or mapping.get(f"{stem}.npy")
    if found is not None and name.endswith(".npy") and not found.endswith(".npy"):
        found += ".npy"
    return found


def _file_name(text: str) -> str:
    """Return the name of a file: a mapping must not point to another folder."""
    return text.rpartition("/")[2]


def read_name_mapping(
    path: Path, label: str, *, taken: Callable[[str], str] = _file_name
) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """Read a ``mapping.csv``: rows ``hash,real name`` without header; other rows are problems (PF3216).

    Of several rows with one hash the last counts, which is said when they differ (PF3026).

    Args:
        path: the file.
        label: its name in messages.
        taken: what counts of a real name; default: what follows the last ``/``.
    """
    import csv  # few dumps have such a file

    mapping: dict[str, str] = {}
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    try:
        if path.stat().st_size > MAX_MAPPING_BYTES:
            return {}, (_bad_mapping(label, f"is larger than {MAX_MAPPING_BYTES} bytes"),)
        with open_text(path, newline="", encoding="utf-8-sig", errors="replace") as stream:
            for number, row in enumerate(csv.reader(lines_of(stream)), start=1):
                cells = [cell.strip() for cell in row]
                if len(cells) == 2 and all(cells):
                    real = taken(cells[1])
                    if mapping.get(cells[0], real) != real:
                        problems.append(_two_names(label, cells[0], number, lines[cells[0]]))
                    mapping[cells[0]], lines[cells[0]] = real, number
                elif row:
                    problems.append(_bad_mapping(label, f"line {number} is not `hash,real name`"))
    except (OSError, csv.Error) as error:
        problems.append(_bad_mapping(label, f"cannot be read: {error}"))
    return mapping, tuple(problems)


def _two_names(label: str, hashed: str, line: int, earlier: int) -> Problem:
    return Diagnostic(
        "PF3026",
        f"`{label}` line {line} gives `{hashed}` another name than line {earlier}",
        severity=Severity.WARNING,
        help="the last name counts; dump into an empty folder to be sure",
        path=label,
    )


def _bad_mapping(label: str, what: str) -> Problem:
    return Diagnostic(
        "PF3216",
        f"`{label}` {what}",
        severity=Severity.WARNING,
        help="files whose hashed names it should resolve are skipped",
        path=label,
    )
