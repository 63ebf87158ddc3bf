"""Names of converted files, as the tools around device dumps know them, and the `mapping.csv` of those too long.

``{dump file}.{input|output}.{i}.npy`` and ``.pt``; for plain bytes ``{dump file}.{input|output}.{i}.{shape}.{type}.
{layout}.bin``; with the layout in MindSpore's way ``{dump file}.{input|output}.{i}.{layout}.npy``; in another layout
``{dump file}.{input|output}.{i}.{shape}.npy``. A name of 255 characters or more becomes 32 hexadecimal digits. Arrays
of TensorFlow's debugger have the names that `array_names` gives.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.elements.converted.files import FileKind
from probe_flow.files.opening import open_text
from probe_flow.files.whole_files import write_whole
from probe_flow.records import Catalog, Slot

_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]")
_TIME = re.compile(r"_(\d{1,20})(?:-\d{1,9})?$")
MAPPING_FILE = "mapping.csv"
MAX_NAME = 254
"""Longer names are replaced; file systems stop at 255 bytes."""

_MSNPY_FIELDS = 5
_MAX_MAPPING_BYTES = 64 << 20


def converted_name(
    source: str,
    slot: Slot,
    kind: FileKind,
    *,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    is_relaid: bool = False,
    op_name: str = "",
) -> str:
    """Return the name of a converted file, however long.

    Args:
        source: name of the dumped file.
        slot: which of its tensors.
        kind: what is written.
        shape, dtype, layout: of what is written; a scalar's shape is written as 1.
        is_relaid: whether the layout is another than that of the dump.
        op_name: the operator's name in the graph, where known.

    >>> from probe_flow.records import SlotRole
    >>> slot = Slot(SlotRole.OUTPUT, (0,))
    >>> facts = {"shape": (2, 3), "dtype": "float16", "layout": "ND"}
    >>> converted_name("Add.Add_1.2.3.4", slot, FileKind.BIN, **facts)
    'Add.Add_1.2.3.4.output.0.2_3.float16.ND.bin'
    >>> converted_name("Add.Add_1.2.3.4", slot, FileKind.NPY, **facts, is_relaid=True)
    'Add.Add_1.2.3.4.output.0.2x3.npy'
    >>> converted_name("Add.Add_1.2.3.4", slot, FileKind.MSNPY, **facts, op_name="net/Add_1")
    'Add.Add_1.2.3.4.output.0.ND.npy'
    """
    dims = [str(dim) for dim in shape] or ["1"]
    if kind is FileKind.BIN:
        return f"{source}.{slot}.{'_'.join(dims)}.{dtype}.{layout}.bin"
    if kind is FileKind.MSNPY:
        fields = source.split(".")
        if len(fields) == _MSNPY_FIELDS and op_name:
            fields[1] = op_name.rpartition("/")[2].replace("\0", "_")
        return f"{'.'.join(fields)}.{slot}.{layout}.npy"
    if is_relaid:
        return f"{source}.{slot}.{'x'.join(dims)}.{kind.extension}"
    return f"{source}.{slot}.{kind.extension}"


def short_name(name: str) -> str:
    """Return a name that file systems take: the name itself, or a digest of one that is too long.

    >>> short_name("a.npy"), short_name("a" * 300 + ".npy")
    ('a.npy', '053dd3e4f53c347db0848dea5c3c4e1d.npy')
    """
    if len(name) <= MAX_NAME and len(os.fsencode(name)) <= MAX_NAME:
        return name
    import uuid  # 5 ms, for names that are seldom too long

    return uuid.uuid3(uuid.NAMESPACE_DNS, name).hex + Path(name).suffix


class ArrayName(Struct, frozen=True):
    """Name of an array of TensorFlow's debugger, and its true one where the name does not give that of its operator."""

    name: str
    true_name: str | None = None


def array_names(catalog: Catalog) -> dict[int, ArrayName]:
    """Return ``{operator}.{output}.{microseconds}.npy`` for each tensor of TensorFlow's debugger, by its place.

    Whatever is no letter, digit, ``-`` or ``_`` of an operator's name becomes ``_``. Of operators that then share a
    name the second gets ``__2`` behind it, and so on; `mapping.csv` has the true name of each of them, and of all
    others that ``/`` and ``.`` do not give.
    """
    owners: dict[str, list[str]] = {}
    for key in catalog.nodes:
        known = owners.setdefault(_UNUSUAL.sub("_", key.name), [])
        if key.name not in known:
            known.append(key.name)
    found: dict[int, ArrayName] = {}
    taken: set[str] = set(owners)
    stems: dict[str, tuple[str, bool]] = {}
    for cleaned, names in owners.items():
        for number, name in enumerate(names, start=1):
            stem = cleaned
            while number > 1 and stem in taken:
                stem, number = f"{cleaned}__{number}", number + 1
            taken.add(stem)
            stems[name] = (stem, len(names) > 1 or cleaned != name.replace("/", "_").replace(".", "_"))
    used: set[str] = set()
    for index, ref in enumerate(catalog.tensors):
        stem, is_mapped = stems[ref.node.name]
        written = _TIME.search(ref.extents[0].file if ref.extents else ref.source or "")
        time = int(written[1]) if written is not None else catalog.nodes[ref.node].order
        while f"{stem}.{ref.slot.index}.{time}" in used:  # turns of a loop within one microsecond
            time += 1
        used.add(f"{stem}.{ref.slot.index}.{time}")
        tail = f".{ref.slot.index}.{time}.npy"
        found[index] = ArrayName(stem + tail, ref.node.name + tail if is_mapped else None)
    return found


def add_to_mapping(folder: Path, names: Mapping[str, str]) -> None:
    """Note the true names (values) of files (keys) in the `mapping.csv` of a folder, beside what it says already.

    Raises:
        OSError: it cannot be read or written.
    """
    path = folder / MAPPING_FILE
    known = _rows(path)
    added = [(name, true_name) for name, true_name in sorted(names.items()) if (name, true_name) not in known]
    if not added:
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([*known, *added])
    write_whole(path, text.getvalue().encode("utf-8", "surrogateescape"))


def _rows(path: Path) -> Iterable[tuple[str, ...]]:
    if not path.exists():
        return ()
    if path.stat().st_size > _MAX_MAPPING_BYTES:
        raise OSError(f"`{path.name}` has more than {_MAX_MAPPING_BYTES} bytes")
    with open_text(path, newline="", errors="surrogateescape") as stream:
        try:
            return tuple(tuple(row) for row in csv.reader(stream))
        except csv.Error as error:
            raise OSError(f"`{path.name}` is no table: {error}") from error
