"""Explain the FX tensors of one execution that no device tensor was compared with.

The evidence is the graph text and what the device dumped; see `matching.torchair.match_torchair` for the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.matching.torchair.arguments import align_arguments, is_parameter, is_parameter_list, places_of
from probe_flow.matching.torchair.fx_golden import GoldenIndex, dtype_class
from probe_flow.matching.torchair.fx_pairs import FxMatch
from probe_flow.matching.torchair.graph import FxGraph
from probe_flow.matching.torchair.nodes import DumpedNode
from probe_flow.matching.torchair.reasons import NearestNames, TorchairReason
from probe_flow.records import GraphOp, Pair, Reason, SlotRole, TensorKind, TensorRef


class Leftovers(Struct):
    """Explains golden tensors of one execution.

    Args:
        match: the finished match of the execution.
        golden: its golden side.
        graph: its graph; None when there is none.
        is_graph_incomplete: the graph text was cut off, so absence from it proves nothing.
        target_selects_nodes: the target was read with a node selection.
        hints: nearest names among the dumped device operators.
    """

    match: FxMatch
    golden: GoldenIndex
    graph: FxGraph | None
    is_graph_incomplete: bool
    target_selects_nodes: bool
    hints: NearestNames
    _dumped_types: set[str] | None = None
    _sources: tuple[str, dict[int, Source]] = ("", {})

    def pairs(self, group_prefix: str) -> list[Pair]:
        """Return one one-sided pair per golden tensor that was not used, in catalog order."""
        groups: dict[int, str] = {}
        found: list[Pair] = []
        for ref in self.golden.tensors:
            if id(ref) not in self.match.used:
                key = self.golden.key(ref.node)
                group = groups.setdefault(self.golden.place(key), f"{group_prefix}{len(groups)}")
                why = self.reason(ref, key)
                found.append(Pair.on_terms(None, ref, group, CommonRule.NONE, why, confidence=0.0))
        return found

    def reason(self, ref: TensorRef, key: str) -> Reason:
        """Return why a golden tensor has no partner."""
        if ref.kind is TensorKind.UNREADABLE:
            return CommonReason.UNREADABLE.missing(ref.reason or "the tensor cannot be read")
        is_input = ref.slot.role is SlotRole.INPUT
        if not ref.has_numbers:
            is_gap = not is_input and self._has_device_output(ref, key)
            return CommonReason.NOT_TENSOR.of(ref.reason or "the argument is no tensor", is_gap=is_gap)
        if is_input and is_parameter(ref) and self.match.may_be_input(ref, key):
            return TorchairReason.COUNT_MISMATCH.missing(
                "a device input in another place has its type and element count"
            )
        if is_input and ref.shape == ():
            return TorchairReason.ARGUMENT.expected(
                "a number among the arguments; the device has it as an attribute or constant"
            )
        if self.graph is None:
            return TorchairReason.NO_GRAPH.missing(
                "no graph text belongs to this execution, so no device operator carries its name"
            )
        return self._input_reason(ref, key, self.graph) if is_input else self._output_reason(ref, key, self.graph)

    def _has_device_output(self, ref: TensorRef, key: str) -> bool:
        """Return whether the device dumped numbers for an output that is no tensor here."""
        index = ref.slot.path[0]
        source = self.graph.carriers.get((key, index)) if self.graph is not None and isinstance(index, int) else None
        if source is None or self.graph is None:
            return False
        node = self.match.by_op.get(self.graph.links.ops[source[0]].name)
        return node is not None and any(item.slot.path == (source[1],) and item.has_numbers for item in node.outputs)

    def _output_reason(self, ref: TensorRef, key: str, graph: FxGraph) -> Reason:
        index = ref.slot.path[0]
        source = graph.carriers.get((key, index)) if isinstance(index, int) else None
        if source is None:
            return self._no_carrier(key, graph)
        op = graph.links.ops[source[0]]
        node = self.match.by_op.get(op.name)
        if node is None:
            return self._undumped(op, graph.links)
        if len(node.parts) > 1 and source not in node.exits[: len(node.outputs)]:
            return CommonReason.INTERNAL.expected(
                f"computed inside the fused operator `{node.name}`, which gives only its result"
            )
        if any(item.kind is TensorKind.UNREADABLE for item in node.outputs):
            return CommonReason.UNREADABLE.missing(f"the device file of `{node.name}` is unreadable")
        if not self.match.has_outputs:
            return CommonReason.NOT_DUMPED.expected("the target dump holds no outputs at all")
        shown = next((item for item in node.outputs if item.slot.path == (source[1],)), None)
        if shown is not None and (reason := self.match.unmade(shown, source)) is not None:
            return reason
        if shown is not None and not shown.has_numbers:
            return CommonReason.DTYPE_UNSUPPORTED.missing(
                f"output {source[1]} of `{node.name}` cannot be read as numbers"
            )
        return TorchairReason.NO_TARGET_OP.missing(f"the device dump of `{node.name}` has no output {source[1]}")

    def _no_carrier(self, key: str, graph: FxGraph) -> Reason:
        if self.is_graph_incomplete:
            return TorchairReason.NO_GRAPH_OP.missing(
                "the graph text is cut off; the operator of this name may lie behind the cut"
            )
        if self.match.is_graph_foreign:
            return TorchairReason.NO_GRAPH_OP.missing(
                "the graph text has none of the dumped operators: it belongs to another graph"
            )
        if not graph.carriers:
            return TorchairReason.NO_FX_NAME.missing("the graph text names no FX tensors; dump with a newer TorchAir")
        if graph.carrying_ops.get(key):
            return TorchairReason.DEVICE_NO_DUMP.expected(
                "the device operator of this FX node does not compute this output"
            )
        return TorchairReason.DEVICE_NO_DUMP.expected(
            "no device operator carries this name: renamed by a later view, or folded"
        )

    def _undumped(self, op: GraphOp, links: GraphLinks) -> Reason:
        if links.moves_no_data(op):
            return TorchairReason.DEVICE_NO_DUMP.expected(
                f"`{op.name}` ({op.op_type}) moves no data and does not run on the device"
            )
        if links.may_be_view(op) and op.op_type not in self._types(links):
            return TorchairReason.DEVICE_NO_DUMP.expected(
                f"the device ran no {op.op_type} of its own; `{op.name}` is addressing"
            )
        if links.is_folded(op):
            return TorchairReason.DEVICE_NO_DUMP.expected(
                f"`{op.name}` ({op.op_type}) is a flag of the product behind it"
            )
        if (reason := self.match.merged(op.name)) is not None:
            return reason
        if self.target_selects_nodes:
            return CommonReason.FILTERED.outside(f"`{op.name}` is not among the selected target nodes")
        return TorchairReason.NO_TARGET_OP.missing(
            f"the device dump has no file of `{op.name}` ({op.op_type}){self.hints.hint(op.name)}"
        )

    def _types(self, links: GraphLinks) -> set[str]:
        """Return the graph types of all dumped operators."""
        if self._dumped_types is None:
            self._dumped_types = {links.ops[part].op_type for part in self.match.by_op}
        return self._dumped_types

    def _input_reason(self, ref: TensorRef, key: str, graph: FxGraph) -> Reason:
        source = self._argument_sources(key, graph).get(id(ref))
        if source is not None and (reason := self._covered(source, graph)) is not None:
            return reason
        if ref.numel is None and self._is_plain(ref):
            return TorchairReason.ARGUMENT.expected(
                "numbers among the arguments; the device has them as attributes or constants"
            )
        if is_parameter_list(ref):
            return TorchairReason.ARGUMENT.expected(
                "a list of integers among the arguments, a parameter of the device operator"
            )
        ops = graph.carrying_ops.get(key)
        if not ops:
            return self._no_carrier(key, graph)
        node = self._node_of(ops)
        if node is None:
            return self._undumped(ops[0], graph.links)
        if source is not None and graph.is_internal(source):
            return CommonReason.INTERNAL.expected(f"enters the expansion inside `{node.name}`")
        if any(item.kind is TensorKind.UNREADABLE for item in node.outputs):
            return CommonReason.UNREADABLE.missing(f"the device file of `{node.name}` is unreadable")
        if not node.inputs:
            return CommonReason.NOT_DUMPED.expected(f"the device dump of `{node.name}` holds no inputs")
        if source is not None and graph.values(source):
            return self._uncompared_producer(graph.values(source)[0][0], graph)
        if len(node.parts) > 1:
            return CommonReason.INTERNAL.expected(f"enters the fused operator `{node.name}` or is made inside it")
        like = "statistics like its own" if ref.numel is None else f"its type and {ref.numel} elements"
        return TorchairReason.COUNT_MISMATCH.missing(f"no input of `{node.name}` has {like}")

    def _covered(self, source: Source, graph: FxGraph) -> Reason | None:
        for name, _ in graph.values(source):
            value = self.golden.output(name)
            if value is not None and id(value) in self.match.used:
                return CommonReason.COVERED_BY_PRODUCER.expected(
                    f"its value is compared as output {name[1]} of `{name[0]}`"
                )
        return None

    def _uncompared_producer(self, name: tuple[str, int], graph: FxGraph) -> Reason:
        """Explain an input whose producer was not compared either: with the producer's reason."""
        value = self.golden.output(name)
        if value is None:
            return TorchairReason.NO_GOLDEN_OP.missing(
                f"its producer `{name[0]}` is not in the golden dump and no input fits it"
            )
        reason = self._output_reason(value, name[0], graph)
        return replace(reason, text=f"its producer `{name[0]}`: {reason.text}")

    def _is_plain(self, ref: TensorRef) -> bool:
        """Return whether an argument of which only statistics are known is a number, or a tensor of integers."""
        from probe_flow.matching.torchair.recorded_arguments import is_number

        return is_number(ref) or dtype_class(ref.dtype) == "int"

    def _node_of(self, ops: Sequence[GraphOp]) -> DumpedNode | None:
        return next((node for op in ops if (node := self.match.by_op.get(op.name)) is not None), None)

    def _argument_sources(self, key: str, graph: FxGraph) -> dict[int, Source]:
        """Return which graph tensor each tensor argument of a node is, by the shapes of the graph."""
        if key != self._sources[0]:  # the arguments of a node are asked for one after the other
            places = places_of(graph, key, ())
            arguments = self.golden.arguments(key)
            pairs: Sequence[tuple[int, int]]
            if any(argument.numel is None for argument in arguments):
                from probe_flow.matching.torchair.recorded_arguments import align_recorded

                pairs = align_recorded(graph, self.golden, places, (), arguments)
            else:
                pairs = align_arguments(places, arguments).pairs
            found = {id(arguments[j]): source for i, j in pairs if (source := places[i].source) is not None}
            self._sources = key, found
        return self._sources[1]
