"""Where the bytes of tensors lie and what their dump recorded of them: of one tensor, or of many in a table."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from probe_flow.records.figures import FigureTable, Integers, shared_numbers


class Extent(Struct, frozen=True, gc=False):
    """Bytes of a tensor in a file.

    Args:
        file: absolute path as text.
        offset: first byte.
        nbytes: bytes that the tensor itself needs (surplus of the slot is not counted).
        encoding: ``raw`` (little endian, C order), ``raw-fortran`` (little endian, Fortran order), ``raw-big``
            (big endian, C order), ``raw-big-fortran``; ``-strided:3,1`` in place of ``-fortran`` for other distances
            between elements; ``@float32`` behind it when the file holds another dtype than the tensor has; ``torch``
            when torch has to load the file.
        part: (axis, index) when the tensor is the concatenation of several extents along ``axis``.
    """

    file: str
    offset: int
    nbytes: int
    encoding: str = "raw"
    part: tuple[int, int] | None = None


class Statistics(Struct, frozen=True, gc=False):
    """Statistics of one tensor. None = not recorded or not computable; NaN and infinities are values.

    ``l2norm`` is the Euclidean norm; ``nan`` and ``inf`` count elements.
    """

    min: float | int | bool | None = None
    max: float | int | bool | None = None
    mean: float | None = None
    l2norm: float | None = None
    nan: int | None = None
    inf: int | None = None

    def without_padding(self, stored: int, logical: int) -> Statistics:
        """Return the statistics of the logical elements of a tensor that is stored with zeros beside them.

        Zeros lower the mean, and may be the extreme: whether they are is not known then.
        """
        mean = self.mean
        if mean is not None and logical:
            mean = mean * stored / logical
        return replace(
            self, mean=mean, min=None if self.min == 0 else self.min, max=None if self.max == 0 else self.max
        )


class TensorData(Struct, frozen=True, gc=False):
    """Data of one tensor.

    Args:
        file: absolute path of its file as text.
        recorded: statistics found in the dump.
        checksum: checksum found in the dump, as text.
        extents: where its bytes lie, if in several places; in one place `TensorTraits` says where in the file.
    """

    file: str | None = None
    recorded: Statistics | None = None
    checksum: str | None = None
    extents: tuple[Extent, ...] = ()


def _numbers(typecode: str) -> Any:
    return field(default_factory=lambda: array(typecode))


class TensorTable(Struct, frozen=True, gc=False, eq=False):
    """Data of many tensors, row by row: some 70 bytes for a path of 100 characters, in place of 240.

    Args:
        place: folder of the files with a ``/`` at the end, or the only file.
        figures: statistics found in the dump; its columns are the first fields of `Statistics`.
        checksums: checksums found in the dump; of no row if there are none.
        names: names of the files as UTF-8, one after the other.
        begins, lengths: where in ``names`` that of each row is; nothing if there is only one file.
    """

    place: str
    figures: FigureTable | None = None
    checksums: list[str | None] = field(default_factory=list)
    names: Integers = _numbers("B")
    begins: Integers = _numbers("I")
    lengths: Integers = _numbers("H")

    def __len__(self) -> int:
        return len(self.begins) if self.begins or self.figures is None else len(self.figures)

    @property
    def is_sound(self) -> bool:
        """Whether its columns fit together; of tables that were read."""
        end = len(self.names)
        return (
            self.names.typecode + self.begins.typecode + self.lengths.typecode == "BIH"
            and len(self.begins) == len(self.lengths)
            and all(len(column) == len(self) for column in (self.figures, self.checksums) if column)
            and all(begin + length <= end for begin, length in zip(self.begins, self.lengths, strict=True))
            and (self.figures is None or self.figures.width <= len(Statistics.__struct_fields__))
        )

    def file(self, number: int) -> str:
        """Return the path of a row's file."""
        if not self.begins:
            return self.place
        begin = self.begins[number]
        name = self.names[begin : begin + self.lengths[number]]
        return self.place + name.tobytes().decode("utf-8", "surrogateescape")

    def recorded(self, number: int) -> Statistics | None:
        """Return the statistics of a row."""
        if self.figures is None:
            return None
        values: Sequence[Any] = self.figures.row(number)
        return Statistics(*values)

    def checksum(self, number: int) -> str | None:
        """Return the checksum of a row."""
        return self.checksums[number] if self.checksums else None

    def add(self, name: str, statistics: Sequence[Any], checksum: str | None) -> int:
        """Add a row and return its number."""
        number = len(self.begins)
        written = array("B", name.encode("utf-8", "surrogateescape"))
        begin = self.begins[-1] if number else 0
        if not number or self.names[begin:] != written:
            begin = len(self.names)
            self.names.extend(written)
        self.begins.append(begin)
        self.lengths.append(len(written))
        if self.figures is not None:
            self.figures.add(statistics)
        if checksum is not None or self.checksums:
            self.checksums.extend([None] * (number - len(self.checksums)))
            self.checksums.append(checksum)
        return shared_numbers(number + 1)[number]


LONGEST_NAME = 2**12
"""Characters of a file's name in a table. No file system has longer ones; what a text names may be as long as it is."""


class TensorTables:
    """Tables of one dump: one a folder, and apart for tensors with and without statistics."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, int], TensorTable] = {}

    def add(self, data: TensorData) -> tuple[TensorTable, int] | None:
        """Add a row and return where it is; None where a table cannot hold it: no file, several, a long name."""
        folder, slash, name = (data.file or "").rpartition("/")
        if data.file is None or data.extents or len(name) > LONGEST_NAME:
            return None
        statistics: tuple[Any, ...] = () if data.recorded is None else astuple(data.recorded)
        while statistics and statistics[-1] is None and len(statistics) in (5, 6):  # counts that no tensor has
            statistics = statistics[:-1]
        place, width = folder + slash, len(statistics)
        table = self._tables.get((place, width))
        if table is None:
            figures = FigureTable(Statistics.__struct_fields__[:width]) if width else None
            table = self._tables[place, width] = TensorTable(place, figures)
        return table, table.add(name, statistics, data.checksum)
