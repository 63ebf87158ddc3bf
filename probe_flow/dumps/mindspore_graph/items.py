"""The tensors of one iteration of a MindSpore kernel dump: from file names, from `statistic.csv`, or from both."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.mindspore_graph.names import PARAMETER, OpName, TensorFileName
from probe_flow.errors import FormatError
from probe_flow.files.arrays.npy import npy_tensor_ref, read_npy_header
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.walk import DumpFile
from probe_flow.records import NodeKey, Problem, Slot, SlotRole, Statistics, TensorKind, TensorRef
from probe_flow.tensors.dtypes import DTYPES

UNKNOWN = "unknown"
"""Type of what stands for tensors that cannot be told apart."""

LAST = 10**19
"""A time behind every timestamp."""


class Item(Struct, frozen=True):
    """One tensor as the dump names it.

    Args:
        op_type, op, slot, timestamp: from the file name or the row.
        source: file, for people.
        layout, dtype: the format's own words.
        file: the tensor file; None when only statistics were kept.
        shape, recorded, checksum: what `statistic.csv` says.
        digits: significant digits of its numbers, where that is less than their dtype holds.
        reason: why the row cannot be used.
    """

    op_type: str
    op: OpName
    slot: Slot
    timestamp: int
    source: str
    layout: str = ""
    dtype: str = ""
    file: DumpFile | None = None
    shape: tuple[int, ...] | None = None
    recorded: Statistics | None = None
    checksum: str | None = None
    digits: int | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """Name of the node: without the operator's number, parameters told from operators."""
        return f"{PARAMETER}.{self.op.base}" if self.op_type == PARAMETER else self.op.base

    @property
    def place(self) -> tuple[int, bool, int]:
        """Order in time; within one moment inputs before outputs."""
        return self.timestamp, self.slot.role is SlotRole.OUTPUT, int(self.slot.path[0])


def item_of_file(file: DumpFile, name: TensorFileName) -> Item:
    """Return the item behind a tensor file; `name` is its true name."""
    return Item(
        name.op_type, name.op, name.slot, name.timestamp, file.path, layout=name.layout, dtype=name.dtype, file=file
    )


def unnamed_item(file: DumpFile, reason: str) -> Item:
    """Return an item for a file whose tensors cannot be told, so that it ends in the result."""
    stem = file.name.removesuffix(".npy")
    return Item(UNKNOWN, OpName(stem, stem), Slot(SlotRole.OUTPUT), LAST, file.path, reason=reason)


def empty_item(reason: str) -> Item:
    """Return what stands for the lost tensors of an iteration without any."""
    return Item(UNKNOWN, OpName("all", "all"), Slot(SlotRole.OUTPUT), LAST, "", reason=reason)


HALVED = "it is called Float16 and holds the first half of its elements in float32"
"""What MindSpore 2.10 writes on a CPU for operators that it computes in float32."""

_LOOKED_AT = 512
"""Pairs of 16 bits of a file that are looked at."""

_LEAST = 16
"""Pairs that tell; of fewer nothing is known."""

_SIZES = 87, 167
"""Exponents of float32 of what networks compute: from 2 ** -40 to 2 ** 40."""


def without_halved(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Return the items, those whose files hold half of their elements as unreadable ones, and these.

    Where there are such, results of the same types of operators are such too, and so counts what is too small to tell.
    """
    told = {id(item): _is_halved(item.file) for item in items if item.dtype == "Float16" and item.file is not None}
    if True not in told.values():
        return items, []
    types = {_result_of(item) for item in items if told.get(id(item))} - {None}
    left = [each for each in items if id(each) in told and (told[id(each)] is not False or _result_of(each) in types)]
    names = set(map(id, left))
    return [replace(item, file=None, reason=HALVED) if id(item) in names else item for item in items], left


def _result_of(item: Item) -> str | None:
    return item.op_type if item.slot.role is SlotRole.OUTPUT else None


def _is_halved(file: DumpFile) -> bool | None:
    """Whether an array of float16 holds float32; None where there is too little to tell.

    Of a float32 the upper 16 bits hold sign and exponent, and read as float16 they are all of one size; the lower ones
    are random, and of any size, or three bits and zeros where it was made of a float16. Real numbers in 16 bits are
    alike in both places.
    """
    try:
        header = read_npy_header(file.path)
        with BinaryFile(file.path) as opened:
            words = array("H", opened.read_at(header.offset, min(header.nbytes // 4, _LOOKED_AT) * 4))
    except FormatError:  # told when the tensor is read
        return False
    if sys.byteorder != "little":
        words.byteswap()
    pairs = [(low, high) for low, high in zip(words[::2], words[1::2], strict=True) if low or high & 0x7FFF]
    if len(pairs) < _LEAST:
        return None
    sizes = [high >> 7 & 0xFF for _, high in pairs]
    if min(sizes) < _SIZES[0] or max(sizes) > _SIZES[1]:
        return False
    lower = {low for low, _ in pairs}
    if not any(low & 0x1FFF for low in lower):
        return len(lower) > 2
    exponents = {low >> 10 & 0x1F for low in lower}
    negative = sum(low >> 15 for low, _ in pairs) / len(pairs)
    return len(exponents) >= 5 and max(exponents) >= 24 and 0.2 <= negative <= 0.8


def join(files: Iterable[Item], rows: Iterable[Item]) -> list[Item]:
    """Return all items in order of time; a row joins the file of the same tensor, the n-th with the n-th."""
    sides: list[dict[object, list[Item]]] = [defaultdict(list), defaultdict(list)]
    for side, items in zip(sides, (files, rows), strict=True):
        for item in sorted(items, key=lambda item: item.place):
            side[item.op_type, item.op.full, item.slot].append(item)
    joined: list[Item] = []
    for key in {**sides[0], **sides[1]}:
        for file, row in zip_longest(sides[0].get(key, ()), sides[1].get(key, ())):
            if file is None or row is None:
                joined.append(file or row)
            else:
                joined.append(replace(file, recorded=row.recorded, checksum=row.checksum))
    return sorted(joined, key=lambda item: item.place)


def calls_of(items: Sequence[Item]) -> list[list[Item]]:
    """Split the items of an iteration into calls of operators, in order of time.

    Operators in loops dump every time under the same name: a slot that occurs again begins another call.
    """
    calls: list[list[Item]] = []
    open_calls: dict[object, tuple[list[Item], set[Slot]]] = {}
    for item in items:
        operator = item.op_type, item.op.full
        current = open_calls.get(operator)
        if current is None or item.slot in current[1]:
            current = [], set()
            open_calls[operator] = current
            calls.append(current[0])
        current[0].append(item)
        current[1].add(item.slot)
    return calls


def tensor_ref(item: Item, key: NodeKey, problems: list[Problem]) -> TensorRef:
    """Describe one item as a tensor of the catalog; a file that cannot be read is unreadable, with its reason."""
    name = f"{item.op.full}.{item.slot}"
    if item.file is None:
        return _statistics(item, key, name)
    try:
        ref = npy_tensor_ref(item.file.path, key, item.slot, item=name)
    except FormatError as error:
        problems.append(replace(error.diagnostic, path=item.file.relative))
        reason = error.diagnostic.message
        return TensorRef.of(key, item.slot, TensorKind.UNREADABLE, source=item.source, item=name, reason=reason)
    return ref.changed(stored_dtype=item.dtype or ref.stored_dtype, recorded=item.recorded, checksum=item.checksum)


def _statistics(item: Item, key: NodeKey, name: str) -> TensorRef:
    if item.reason is not None:
        return TensorRef.of(key, item.slot, TensorKind.UNREADABLE, source=item.source, item=name, reason=item.reason)
    word = item.dtype.lower()
    return TensorRef.of(
        key,
        item.slot,
        TensorKind.STATISTICS,
        dtype=word if word in DTYPES else item.dtype,
        stored_dtype=item.dtype,
        shape=item.shape,
        logical_shape=item.shape,
        recorded=item.recorded,
        checksum=item.checksum,
        source=item.source,
        item=name,
        digits=item.digits,
    )
