"""Index one execution of a device dump as the golden side: by the graph tensors that its tensors are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.graph.links import GraphLinks, InputSources, Source
from probe_flow.matching.torchair.nodes import (
    DumpedNode,
    FoldedTransposes,
    attach_parts,
    dumped_nodes,
    is_repeat,
)
from probe_flow.matching.torchair.reasons import unusable
from probe_flow.records import Catalog, NodeKey, TensorKind, TensorRef


class GeGolden:
    """The tensors of one golden execution.

    Attributes:
        nodes: in order of time.
        by_op: graph operator -> the node that ran it.
        again: (graph operators, type) -> a further node of operators that another node ran before.
        unknown: file-safe name -> node that the graph does not have.
        outputs: graph tensor -> the dumped output that is it.
        readings: graph tensor -> dumped inputs that read it.
        inputs: graph operator -> its dumped inputs with the graph tensor that each is (None: not in the graph).
        further: graph operator -> dumped inputs that the graph does not show. Those of a fused operator are in the list
            of each part where it is not known which of them reads them.
        values: ``id`` of a dumped tensor -> the graph tensor that it is.
        readers: ``id`` of a dumped input -> the graph operator that reads it.
    """

    def __init__(self, catalog: Catalog, tensors: Sequence[TensorRef], links: GraphLinks | None) -> None:
        self.tensors = tensors
        self.nodes = dumped_nodes(catalog, tensors, "")
        self.by_op = attach_parts(self.nodes, links) if links is not None else {}
        self.node_of: dict[NodeKey, DumpedNode] = {node.node.key: node for node in self.nodes}
        self.again: dict[tuple[tuple[str, ...], str], DumpedNode] = {}
        self.unknown: dict[str, DumpedNode] = {}
        self.outputs: dict[Source, TensorRef] = {}
        self.readings: dict[Source, list[TensorRef]] = defaultdict(list)
        self.inputs: dict[str, list[tuple[Source | None, TensorRef]]] = defaultdict(list)
        self.further: dict[str, list[TensorRef]] = defaultdict(list)
        self.values: dict[int, Source] = {}
        self.readers: dict[int, str] = {}
        reading = FoldedTransposes(self.nodes, links, self.by_op) if links is not None else None
        for node in self.nodes:
            if not node.parts or reading is None:
                self.unknown.setdefault(safe_name(node.name), node)
            elif is_repeat(node, self.by_op):
                self.again.setdefault((node.parts, node.node.op_type), node)
            else:
                self._add(node, reading.sources(node))
        self.has_inputs = any(node.inputs for node in self.nodes)
        self.has_outputs = any(ref.kind is not TensorKind.UNREADABLE for node in self.nodes for ref in node.outputs)

    def _add(self, node: DumpedNode, found: InputSources) -> None:
        for index, ref in enumerate(node.outputs):
            source = node.exit_of(index)
            if source is not None:
                self.values[id(ref)] = source
                self.outputs.setdefault(source, ref)
        for ref, source, reader in zip(node.inputs, found.sources, found.readers, strict=True):
            if reader is not None:
                self.readers[id(ref)] = reader
                self.inputs[reader].append((source, ref))
            if source is not None:
                self.values[id(ref)] = source
                if unusable(ref) is None:
                    self.readings[source].append(ref)
            elif unusable(ref) is None:
                for part in node.parts if reader is None else (reader,):
                    self.further[part].append(ref)

    def names(self) -> list[str]:
        """Return the names of all dumped operators and of the parts of fused ones, for hints."""
        return list(dict.fromkeys([node.name for node in self.nodes] + list(self.by_op)))
