"""Turn the dump files of one execution into nodes and tensors, one node per device operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs
from msgspec.structs import replace

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.file_records import GeDump
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.dumps.device_folders.layout import GeFile, is_unsized, numel_of
from probe_flow.dumps.device_folders.slice_files import (
    SlicedOperator,
    is_slice,
    numbered_slices,
    read_slices,
    recorded_slices,
    slice_number,
)
from probe_flow.dumps.file_names import safe_name, without_slice, without_subgraph
from probe_flow.dumps.graph.links import GraphLinks
from probe_flow.dumps.graph.op_types import is_private
from probe_flow.dumps.selection import Duplicates, choose, left_out_duplicate
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import (
    DeviceFacts,
    Execution,
    Node,
    NodeKey,
    Problem,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
    TensorTables,
)

if TYPE_CHECKING:
    from probe_flow.dumps.reduced.reduced_files import ReducedDevice


_ENDS = (SlotRole.INPUT, SlotRole.OUTPUT)


class GeNodes(Struct):
    """The nodes of one execution.

    With ``keeps_slices`` every slice of an operator is a node of its own, whose call is the number of the slice.

    After `read`: ``parts`` has the graph operators behind every node that the graph knows, ``tensors`` its tensors,
    ``beside`` the reduced files that are passed over because of the full ones.
    """

    execution: Execution
    links: GraphLinks | None
    takes: Callable[[str], bool]
    duplicates: Duplicates
    keeps_slices: bool = False
    problems: list[Problem] = field(default_factory=list)
    parts: dict[NodeKey, tuple[str, ...]] = field(default_factory=dict)
    tensors: dict[NodeKey, list[TensorRef]] = field(default_factory=dict)
    tables: TensorTables = field(default_factory=TensorTables)
    written: set[str] = field(default_factory=set)
    beside: list[str] = field(default_factory=list)

    def read(self, files: Sequence[GeFile]) -> Iterator[tuple[Node, Sequence[TensorRef]]]:
        """Yield nodes in order of their time stamps, each with its tensors."""
        groups: dict[tuple[str, str, bool], list[GeFile]] = defaultdict(list)
        for file in sorted(files, key=lambda file: file.file.relative):
            name = file.name
            groups[(name.op_type, name.base_name, name.manual_slice is not None)].append(file)
        chosen = [self._choose(group) for (_, name, _), group in groups.items() if self._selected(name)]
        self.written = self._written(name for _, name, _ in groups)
        names: dict[str, int] = defaultdict(int)
        for group in sorted(chosen, key=lambda group: (group[0].name.timestamp, group[0].file.name)):
            if self.keeps_slices and group[0].form == "raw" and is_slice(group[0]):
                yield from self._slices(group, names)
            else:
                yield self._node(group, names)

    def _written(self, names: Iterable[str]) -> set[str]:
        """Return the operators that have a file: those of its name, and the parts that a fused name is made of."""
        found: set[str] = set()
        for name in names:
            split = self.links.split(name) if self.links is not None else None
            found.update((safe_name(name), *(map(safe_name, split.parts) if split is not None else ())))
        return found

    def _selected(self, name: str) -> bool:
        split = self.links.split(name) if self.links is not None else None
        return self.takes(name) or (split is not None and len(split.parts) == 1 and self.takes(split.parts[0]))

    def _choose(self, group: list[GeFile]) -> list[GeFile]:
        """Return the file that counts, or those of all slices; every other one is reported."""
        raw = [file for file in group if file.form == "raw"]
        slices = numbered_slices(raw or group, self.duplicates, self.problems)
        if slices:
            self.beside += [file.file.relative for file in group if raw and file.form != "raw"]
            return slices
        kept = choose(
            raw or group,
            self.duplicates,
            timestamp=lambda file: file.name.timestamp,
            size=lambda file: file.file.size,
        )
        for file in group:
            if file is kept:
                continue
            if file.form == kept.form:
                self.problems.append(left_out_duplicate(file.file, kept.file, self.duplicates))
            else:
                self.beside.append(file.file.relative)
        return [kept]

    def _node(self, files: Sequence[GeFile], names: dict[str, int]) -> tuple[Node, Sequence[TensorRef]]:
        file = files[0]
        form = file.form
        content: GeDump | SlicedOperator | None = None
        reduced: ReducedDevice | None = None
        reason: str | None = None
        if form == "raw" and is_slice(file):
            content = read_slices(files)
            reason = None if content.slices else content.trouble
        elif len(files) > 1 or file.name.manual_slice is not None:
            self.problems.append(recorded_slices(files))
            reason = self.problems[-1].message
        elif form in ("raw", "reduced"):
            try:
                if form == "raw":
                    content = read_ge_header(file.file.path)
                else:
                    from probe_flow.dumps.reduced.reduced_files import ReducedDevice

                    reduced = ReducedDevice.read(file.file.path)
            except FormatError as error:
                reason = self._malformed(file, error)
        header_name = next((each.op_name for each in (content, reduced) if each is not None), "")
        name = self._true_name(file, header_name)
        key = NodeKey(self.execution, name, call=names[name])
        names[name] += 1
        refs: list[TensorRef] = []
        if reduced is not None:
            from probe_flow.dumps.reduced.reduced_tensors import device_refs

            refs = self._with_facts(file, device_refs(reduced, file.file.path, key))
        elif isinstance(content, SlicedOperator):
            refs = content.refs(key)
            self.problems.extend(content.problems)
        elif content is not None:
            refs = tensor_refs(content, file.file.path, key)
            self.problems.extend(replace(problem, path=file.file.relative) for problem in content.problems)
        elif reason is None:
            try:
                refs = self._without_header(file, key)
            except FormatError as error:
                reason = self._malformed(file, error)
        if reason is not None:
            slot = Slot(SlotRole.OUTPUT, (0,))
            refs = [TensorRef.of(key, slot, TensorKind.UNREADABLE, reason=reason, source=file.file.path)]
        results = [each.original_op or "" for each in content.outputs] if isinstance(content, GeDump) else []
        parts = self._absorbed(file, key, results, refs) if reason is None else ()
        refs = self._sized(file, key, refs, parts) if content is not None else refs
        self.tensors[key] = [ref.stored_in(self.tables) for ref in refs]
        return self._describe(key, files, header_name, parts), self.tensors[key]

    def _sized(self, file: GeFile, key: NodeKey, refs: list[TensorRef], parts: tuple[str, ...]) -> list[TensorRef]:
        """Give tensors in blocks, whose header says no shape, that of the graph."""
        if self.links is None or not any(map(is_unsized, refs)):
            return refs
        from probe_flow.dumps.device_folders.graph_facts import sized_alike, with_graph_facts

        split = None if parts else self.links.split(key.name)
        parts = split.parts if split is not None else parts
        if parts:
            return with_graph_facts(refs, self.links, parts)
        return sized_alike(refs) if is_private(file.name.op_type) else refs

    def _absorbed(self, file: GeFile, key: NodeKey, told: Sequence[str], refs: Sequence[TensorRef]) -> tuple[str, ...]:
        """Return the graph operators behind one whose name does not tell all of them; usually none.

        Args:
            told: names of the operators that the header says its outputs are of.
        """
        if self.links is None or is_private(file.name.op_type):
            return ()
        links, split = self.links, self.links.split(key.name)
        named = split.parts if split is not None else ()
        known = (links.operator(name) for name in told if name)
        results = [op.name for op in known if op is not None and not links.is_view(op)]
        if set(results) <= set(named):
            results = []
        inputs, outputs = ([numel_of(ref) for ref in refs if ref.slot.role is role] for role in _ENDS)
        if not results and not (len(named) == 1 and self._is_unlike(links, named, inputs)):
            return ()
        from probe_flow.dumps.graph.absorbed import absorbed_parts

        found = absorbed_parts(links, named, results, inputs, outputs, lambda name: safe_name(name) not in self.written)
        self.written.update(map(safe_name, found))
        return found

    @staticmethod
    def _is_unlike(links: GraphLinks, named: Sequence[str], inputs: Sequence[int | None]) -> bool:
        """Whether an operator read more than its graph operator does, or other sizes."""
        known = len(links.ops[named[0]].inputs)
        return known > 0 and len(inputs) > 0 and (known < len(inputs) or links.input_sources(named, inputs).is_aligned)

    def _without_header(self, file: GeFile, key: NodeKey) -> list[TensorRef]:
        if file.form == "array":
            return [npy_tensor_ref(file.file.path, key, Slot(SlotRole.OUTPUT, (0,)))]
        from probe_flow.dumps.device.statistics_csv import read_device_statistics

        return self._with_facts(file, read_device_statistics(file.file.path, key))

    def _slices(self, files: Sequence[GeFile], names: dict[str, int]) -> Iterator[tuple[Node, Sequence[TensorRef]]]:
        content = read_slices(files)
        name = self._true_name(files[0], content.op_name)
        first = names[name]
        for file in files:
            key = NodeKey(self.execution, name, call=first + slice_number(file))
            names[name] = key.call + 1
            self.tensors[key] = [ref.stored_in(self.tables) for ref in content.own_refs(file, key)]
            yield self._describe(key, [file], content.op_name), self.tensors[key]
        self.problems.extend(content.problems)

    def _malformed(self, file: GeFile, error: FormatError) -> str:
        self.problems.append(replace(error.diagnostic, path=file.file.relative))
        return error.diagnostic.message

    def _with_facts(self, file: GeFile, refs: list[TensorRef]) -> list[TensorRef]:
        if self.links is None or not refs:
            return refs
        from probe_flow.dumps.device_folders.graph_facts import sized_alike, with_graph_facts

        split = self.links.split(refs[0].node.name)
        if split is not None:
            return with_graph_facts(refs, self.links, split.parts)
        return sized_alike(refs) if is_private(file.name.op_type) else refs

    def _describe(
        self, key: NodeKey, files: Sequence[GeFile], header_name: str, absorbed: tuple[str, ...] = ()
    ) -> Node:
        file = files[0]
        is_renamed = header_name and safe_name(without_slice(header_name)) != safe_name(file.name.base_name)
        originals: tuple[str, ...] = ()
        types: tuple[str, ...] = ()
        golden: tuple[str, ...] = ()
        split = self.links.split(key.name) if self.links is not None else None
        parts = absorbed or (split.parts if split is not None else ())
        if parts and self.links is not None:
            self.parts[key] = parts
            types = _shared(*(self.links.ops[part].op_type for part in parts))
            if len(parts) > 1 or absorbed:
                originals = parts
                found = (self.links.fx_name((part, 0)) for part in parts)
                golden = tuple(name for name in found if name is not None)
            if split is not None and split.alternative is not None and not absorbed:
                self.problems.append(_ambiguous(key, split.parts, split.alternative))
        facts = DeviceFacts(
            file.file.folder.relative,
            file.name.task_id,
            file.name.stream_id,
            tuple(part.file.relative for part in files) if len(files) > 1 else (),
            header_name if is_renamed else None,
            types,
            golden,
        )
        node = Node(key, file.name.op_type, originals=originals, order=file.name.timestamp, facts=facts)
        name = file.file.relative
        return node if node.file == name else structs.replace(node, facts=structs.replace(facts, file=name))

    def _true_name(self, file: GeFile, header_name: str) -> str:
        """Return the operator's name with its ``/`` and ``.``: from the header, else from the graph."""
        written, header_name = file.name.base_name, without_slice(header_name)
        if header_name and safe_name(header_name) == safe_name(written):
            written = header_name
        # The device puts sliced operators into subgraphs, whose names the graph text does not have.
        inner = without_subgraph(written)
        if self.links is None:
            return written
        if written == header_name == inner:
            op = self.links.ops.get(written)
            return op.name if op is not None else written  # one text for both
        split = self.links.split(written) or (self.links.split(inner) if inner != written else None)
        return split.parts[0] if split is not None and len(split.parts) == 1 else written


@lru_cache(maxsize=1 << 12)
def _shared(*types: str) -> tuple[str, ...]:
    """Return the same tuple for all operators of equal types."""
    return types


def _ambiguous(key: NodeKey, parts: Sequence[str], other: Sequence[str]) -> Problem:
    return Diagnostic(
        "PF3224",
        f"`{key.name}` can be {' + '.join(parts)} or {' + '.join(other)}; the first is taken",
        severity=Severity.WARNING,
        help="compare the operators around it to see which is right",
        tensor=key.name,
    )
