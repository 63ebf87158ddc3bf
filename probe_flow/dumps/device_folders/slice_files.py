"""Find, choose and read the files of operators that the device cut into slices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.device_folders.layout import GeFile
from probe_flow.dumps.selection import Duplicates, choose, left_out_duplicate
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.records import NodeKey, Problem, Slot, SlotRole, TensorKind, TensorRef

if TYPE_CHECKING:
    from probe_flow.dumps.device.joined_slices import Slice
    from probe_flow.dumps.device.slices import SliceTable

_MAX_LISTED = 20


def is_slice(file: GeFile) -> bool:
    """Say whether a file may be one slice of an operator: its name has the number of a slice, or of a thread.

    The header knows: names of operators that were not cut can have a thread, too.
    """
    return file.name.manual_slice is not None or file.name.thread_id is not None


def numbered_slices(files: Sequence[GeFile], duplicates: Duplicates, problems: list[Problem]) -> list[GeFile]:
    """Return the slices among the files of one operator in order, one file each; none when it was not cut."""
    by_number: dict[int, list[GeFile]] = defaultdict(list)
    for file in files if any(map(is_slice, files)) else ():
        by_number[slice_number(file)].append(file)
    chosen: list[GeFile] = []
    for _, group in sorted(by_number.items()):
        kept = choose(group, duplicates, timestamp=lambda file: file.name.timestamp, size=lambda file: file.file.size)
        problems += [left_out_duplicate(file.file, kept.file, duplicates) for file in group if file is not kept]
        chosen.append(kept)
    return chosen


def slice_number(file: GeFile) -> int:
    """Return the number of a slice: that of its name, else that of its thread."""
    number = file.name.manual_slice
    return (file.name.thread_id or 0) if number is None else number


class SlicedOperator(Struct):
    """An operator whose slices were read; ``trouble`` says why they cannot be put together."""

    files: Sequence[GeFile]
    slices: list[Slice] = field(default_factory=list)
    table: SliceTable | None = None
    trouble: str | None = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def op_name(self) -> str:
        """Name that the header gives, empty when none could be read."""
        return self.slices[0].dump.op_name if self.slices else ""

    def add(self, file: GeFile) -> None:
        """Read one slice; the first description that is found counts for all."""
        from probe_flow.dumps.device.joined_slices import Slice
        from probe_flow.dumps.device.slices import slice_table

        try:
            dump = read_ge_header(file.file.path)
            self.slices.append(Slice(slice_number(file), dump, file.file.path, file.file.size))
            if self.table is None:
                self.table = slice_table(dump, file.file.path)
        except FormatError as error:
            self.problems.append(replace(error.diagnostic, path=file.file.relative))
            self.trouble = self.trouble or error.diagnostic.message

    def refs(self, key: NodeKey) -> list[TensorRef]:
        """Return the tensors of the operator; everything that is wrong with them goes to ``problems``."""
        if not self.slices:
            return []
        if self.trouble is not None:
            return self._with_reason(tensor_refs(self.slices[0].dump, self.slices[0].path, key))
        if self.table is None or not any(self.table.cuts):
            return self._newest(key)
        from probe_flow.dumps.device.joined_slices import join_slices, with_slice_shapes

        slices = [with_slice_shapes(part, self.table) for part in self.slices]
        for file, part in zip(self.files, slices, strict=True):
            self.problems += [replace(problem, path=file.file.relative) for problem in part.dump.problems]
        refs = join_slices(slices, self.table, key)
        lost = [ref for ref in refs if ref.reason and ref.reason.startswith("its slices")]
        if lost:
            self.problems.append(self._not_joined([f"`{ref.slot}`: {ref.reason}" for ref in lost]))
        return refs

    def own_refs(self, file: GeFile, key: NodeKey) -> list[TensorRef]:
        """Return the tensors of one slice by itself; one that is unreadable where its file is damaged."""
        part = next((part for part in self.slices if part.path == file.file.path), None)
        if part is None:
            slot = Slot(SlotRole.OUTPUT, (0,))
            return [TensorRef.of(key, slot, TensorKind.UNREADABLE, reason=self.trouble, source=file.file.path)]
        from probe_flow.dumps.device.joined_slices import with_slice_shapes

        shaped = part if self.table is None else with_slice_shapes(part, self.table)
        self.problems += [replace(problem, path=file.file.relative) for problem in shaped.dump.problems]
        return tensor_refs(shaped.dump, part.path, key)

    def _newest(self, key: NodeKey) -> list[TensorRef]:
        newest = max(range(len(self.slices)), key=lambda at: self.files[at].name.timestamp)
        file, part = self.files[newest], self.slices[newest]
        self.problems += [replace(problem, path=file.file.relative) for problem in part.dump.problems]
        if len(self.slices) > 1:
            self.problems.append(_stands_alone(file, self.files))
        return tensor_refs(part.dump, part.path, key)

    def _with_reason(self, refs: list[TensorRef]) -> list[TensorRef]:
        reason = f"its slices cannot be joined: {self.trouble}"
        self.problems.append(self._not_joined([str(self.trouble)]))
        return [
            ref.changed(kind=TensorKind.UNREADABLE, shape=None, logical_shape=None, extents=(), reason=reason)
            if ref.slot.role is SlotRole.OUTPUT
            else ref
            for ref in refs
        ]

    def _not_joined(self, notes: Sequence[str]) -> Problem:
        first = self.files[0]
        return Diagnostic(
            "PF3024",
            f"{len(self.files)} slices of `{first.name.base_name}` do not make up its tensors",
            severity=Severity.WARNING,
            help="dump this operator again, with all of its slices, or exclude it with `select.nodes`",
            notes=tuple(notes),
            path=first.file.relative,
        )


def read_slices(files: Sequence[GeFile]) -> SlicedOperator:
    """Read the headers of the slices of one operator, and their description."""
    found = SlicedOperator(files)
    for file in files:
        found.add(file)
    return found


def recorded_slices(files: Sequence[GeFile]) -> Problem:
    """Report an operator of which only statistics of its slices are there: they do not say what belongs together."""
    first = files[0]
    return Diagnostic(
        "PF3024",
        f"{len(files)} files hold statistics of slices of `{first.name.base_name}`, which do not make up its tensors",
        severity=Severity.WARNING,
        help="dump the tensors of this operator, or exclude it with `select.nodes`",
        notes=tuple(f"not read: `{file.file.relative}`" for file in files[:_MAX_LISTED]),
        path=first.file.relative,
    )


def _stands_alone(file: GeFile, files: Sequence[GeFile]) -> Problem:
    return Diagnostic(
        "PF3025",
        f"nothing says how the {len(files)} slices of `{file.name.base_name}` were cut; `{file.file.name}`, the "
        "newest, stands for all",
        severity=Severity.WARNING,
        help="exclude the operator with `select.nodes` if its tensors differ in shape",
        notes=tuple(f"not read: `{other.file.relative}`" for other in files if other is not file)[:_MAX_LISTED],
        path=file.file.relative,
    )
