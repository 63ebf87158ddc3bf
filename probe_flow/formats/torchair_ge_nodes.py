"""Turn the dump files of one execution into nodes and tensors, one node per device operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.formats.device_statistics import read_device_statistics
from probe_flow.formats.dump_select import Duplicates, choose, skipped_duplicate
from probe_flow.formats.ge_dump import GeDump, read_ge_header
from probe_flow.formats.ge_facts import with_graph_facts
from probe_flow.formats.ge_refs import tensor_refs
from probe_flow.formats.graph_links import GraphLinks
from probe_flow.formats.reduced_files import ReducedDevice, read_reduced_device
from probe_flow.formats.torchair_ge_files import GeFile
from probe_flow.formats.torchair_names import safe_name
from probe_flow.formats.torchair_reduced import device_refs
from probe_flow.records import (
    Execution,
    Node,
    NodeKey,
    OrderSource,
    Problem,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
)

_FFTS_TASK = 4
_MAX_LISTED = 20
_LATER = {
    "slices": ("PF3211", "slices of operators that ran in parts", "exclude the operators with `select.nodes`"),
}
"""Forms of operators that are recognised but not read yet: code, what they are, what to do."""


@dataclass(slots=True)
class GeNodes:
    """The nodes of one execution.

    After `read`: ``parts`` has the graph operators behind every node that the graph knows, ``tensors`` its tensors,
    ``beside`` the reduced files that are passed over because of the full ones.
    """

    execution: Execution
    links: GraphLinks | None
    takes: Callable[[str], bool]
    duplicates: Duplicates
    problems: list[Problem] = field(default_factory=list)
    parts: dict[NodeKey, tuple[str, ...]] = field(default_factory=dict)
    tensors: dict[NodeKey, list[TensorRef]] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)
    _later: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def read(self, files: Sequence[GeFile]) -> Iterator[tuple[Node, Sequence[TensorRef]]]:
        """Yield nodes in order of their time stamps, each with its tensors."""
        groups: dict[tuple[str, str], list[GeFile]] = defaultdict(list)
        for file in sorted(files, key=lambda file: file.file.relative):
            groups[(file.name.op_type, file.name.op_name.partition("_lxslice")[0])].append(file)
        chosen = [self._choose(group) for (_, name), group in groups.items() if self._selected(name)]
        names: dict[str, int] = defaultdict(int)
        for file, form in sorted(chosen, key=lambda item: (item[0].name.timestamp, item[0].file.name)):
            yield self._node(file, form, names)
        for form, listed in self._later.items():
            self._report_later(form, listed)

    def _selected(self, name: str) -> bool:
        split = self.links.split(name) if self.links is not None else None
        return self.takes(name) or (split is not None and len(split.parts) == 1 and self.takes(split.parts[0]))

    def _choose(self, group: list[GeFile]) -> tuple[GeFile, str]:
        """Return the file that counts and its form; every other one is reported."""
        raw = [file for file in group if file.form == "raw"]
        threads = {file.name.thread_id for file in raw if file.name.task_type == _FFTS_TASK}
        if len(threads) > 1 or any(file.name.manual_slice is not None for file in raw):
            self._later["slices"].extend(file.file.relative for file in raw)
            return raw[0], "slices"
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
                self.problems.append(skipped_duplicate(file.file, kept.file, self.duplicates))
            else:
                self.beside.append(file.file.relative)
        return kept, kept.form

    def _node(self, file: GeFile, form: str, names: dict[str, int]) -> tuple[Node, Sequence[TensorRef]]:
        content: GeDump | ReducedDevice | None = None
        reason = f"{_LATER[form][1]}, not read yet" if form in _LATER else None
        if form not in _LATER and form != "statistics":
            try:
                content = (read_ge_header if form == "raw" else read_reduced_device)(file.file.path)
            except FormatError as error:
                reason = self._malformed(file, error)
        name = self._true_name(file, content.op_name if content is not None else "")
        key = NodeKey(self.execution, name, call=names[name])
        names[name] += 1
        refs: list[TensorRef] = []
        if isinstance(content, ReducedDevice):
            refs = self._with_facts(device_refs(content, file.file.path, key))
        elif content is not None:
            refs = tensor_refs(content, file.file.path, key)
            self.problems.extend(replace(problem, path=file.file.relative) for problem in content.problems)
        elif form == "statistics":
            try:
                refs = self._with_facts(read_device_statistics(file.file.path, key))
            except FormatError as error:
                reason = self._malformed(file, error)
        if reason is not None:
            slot = Slot(SlotRole.OUTPUT, (0,))
            refs = [TensorRef(key, slot, TensorKind.UNREADABLE, reason=reason, source=file.file.path)]
        self.tensors[key] = refs
        return self._describe(key, file), refs

    def _malformed(self, file: GeFile, error: FormatError) -> str:
        self.problems.append(replace(error.diagnostic, path=file.file.relative))
        return error.diagnostic.message

    def _with_facts(self, refs: list[TensorRef]) -> list[TensorRef]:
        split = self.links.split(refs[0].node.name) if self.links is not None and refs else None
        return refs if split is None or self.links is None else with_graph_facts(refs, self.links, split.parts)

    def _describe(self, key: NodeKey, file: GeFile) -> Node:
        attrs: dict[str, object] = {"task_id": file.name.task_id, "file": file.file.relative}
        if file.name.stream_id is not None:
            attrs["stream_id"] = file.name.stream_id
        originals: tuple[str, ...] = ()
        split = self.links.split(key.name) if self.links is not None else None
        if split is not None and self.links is not None:
            self.parts[key] = split.parts
            types = [self.links.ops[part].op_type for part in split.parts]
            attrs["graph_type"] = types[0] if len(types) == 1 else types
            if len(split.parts) > 1:
                originals = split.parts
                # The golden values of the parts: where to look when only the fused result can be compared.
                found = (self.links.fx_name((part, 0)) for part in split.parts)
                attrs["fx_tensors"] = [name for name in found if name is not None]
            if split.alternative is not None:
                self.problems.append(_ambiguous(key, split.parts, split.alternative))
        return Node(
            key,
            file.name.op_type,
            originals=originals,
            order=file.name.timestamp,
            order_source=OrderSource.TIMESTAMP,
            attrs=attrs,
        )

    def _true_name(self, file: GeFile, header_name: str) -> str:
        """Return the operator's name with its ``/`` and ``.``: from the header, else from the graph."""
        written = file.name.op_name.partition("_lxslice")[0]
        if header_name and safe_name(header_name) == safe_name(written):
            return header_name
        split = self.links.split(written) if self.links is not None else None
        return split.parts[0] if split is not None and len(split.parts) == 1 else written

    def _report_later(self, form: str, listed: Sequence[str]) -> None:
        code, what, cure = _LATER[form]
        more = (f"... and {len(listed) - _MAX_LISTED} more",) if len(listed) > _MAX_LISTED else ()
        self.problems.append(
            Diagnostic(
                code,
                f"{len(listed)} files of {self.execution} are {what} and are not read yet",
                severity=Severity.WARNING,
                help=cure,
                notes=(*(f"`{name}`" for name in listed[:_MAX_LISTED]), *more),
                path=listed[0],
            )
        )


def _ambiguous(key: NodeKey, parts: Sequence[str], other: Sequence[str]) -> Problem:
    return Diagnostic(
        "PF3224",
        f"`{key.name}` can be {' + '.join(parts)} or {' + '.join(other)}; the first is taken",
        severity=Severity.WARNING,
        help="compare the operators around it to see which is right",
        tensor=key.name,
    )
