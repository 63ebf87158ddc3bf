"""Match the executions of a TorchAir comparison one by one, and collect pairs, groups and problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from probe_flow.dumps.graph.links import GraphLinks, Source, graph_of
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.matching.torchair.arguments import is_parameter_list
from probe_flow.matching.torchair.fx_golden import GoldenIndex
from probe_flow.matching.torchair.fx_leftovers import Leftovers
from probe_flow.matching.torchair.fx_pairs import FxMatch
from probe_flow.matching.torchair.graph import FxGraph, same_values
from probe_flow.matching.torchair.graph_texts import GraphTexts
from probe_flow.matching.torchair.nodes import DumpedNode, is_repeat
from probe_flow.matching.torchair.reasons import MAX_HINTS, NearestNames, TorchairReason, unusable
from probe_flow.records import (
    Catalog,
    Execution,
    Graph,
    Group,
    Pair,
    Reason,
    Relation,
    SlotRole,
    TensorKind,
    TensorRef,
)
from probe_flow.records.frameworks import TORCHAIR_GE

if TYPE_CHECKING:
    from probe_flow.matching.torchair.ge_pairs import GeMatch


class GeLeftovers(Struct):
    """Explains golden tensors of one execution.

    Args:
        match: the finished match of the execution.
        is_graph_incomplete: a graph text was cut off, so absence from it proves nothing.
        target_selects_nodes: the target was read with a node selection.
        hints: nearest names among the dumped target operators.
    """

    match: GeMatch
    is_graph_incomplete: bool
    target_selects_nodes: bool
    hints: NearestNames
    _compared: dict[Source, TensorRef] | None = None

    def pairs(self, group_prefix: str) -> list[Pair]:
        """Return one one-sided pair per golden tensor that was not used, in catalog order.

        Those of a part of a fused target operator are in the group of that operator.
        """
        groups: dict[int, str] = {}
        found: list[Pair] = []
        for ref in self.match.golden.tensors:
            if id(ref) in self.match.used:
                continue
            node = self.match.golden.node_of[ref.node]
            owner = next((owner for part in node.parts if (owner := self.match.by_op.get(part)) is not None), None)
            if owner is not None and len(owner.parts) > 1:
                group = owner.group
            else:
                group = groups.setdefault(id(node), f"{group_prefix}{len(groups)}")
            why = self.reason(ref, node)
            found.append(Pair.on_terms(None, ref, group, CommonRule.NONE, why, confidence=0.0))
        return found

    def reason(self, ref: TensorRef, node: DumpedNode) -> Reason:
        """Return why a golden tensor has no partner."""
        if (why := unusable(ref)) is not None:
            return why
        if not node.parts:
            return self._unknown(node)
        is_input = ref.slot.role is SlotRole.INPUT
        source = self.match.golden.values.get(id(ref))
        if source is None:
            return self._beside_graph(ref, node, is_input=is_input)
        covered = self._covered(source)
        if covered is not None:
            return covered
        return self._input_reason(ref, source) if is_input else self._output_reason(source)

    def _unknown(self, node: DumpedNode) -> Reason:
        if self.match.links is None:
            return TorchairReason.NO_GRAPH.missing(
                "no side has a graph text, and the target has no operator of this name"
            )
        if node.is_private:
            return CommonReason.INTERNAL.expected(f"inserted by the golden device: the graph has no `{node.name}`")
        if self.is_graph_incomplete:
            return TorchairReason.NO_GRAPH_OP.missing(
                "the graph text is cut off; the operator of this name may lie behind the cut"
            )
        hint = self.hints.hint(node.name)
        return TorchairReason.NO_TARGET_OP.missing(
            f"only the golden side ran `{node.name}`, which the graph does not have{hint}"
        )

    def _beside_graph(self, ref: TensorRef, node: DumpedNode, *, is_input: bool) -> Reason:
        if is_repeat(node, self.match.golden.by_op):
            return TorchairReason.NO_TARGET_OP.missing(
                f"the golden side ran `{node.name}` more than once; the first is compared"
            )
        if self.match.may_be_input(ref):
            return TorchairReason.COUNT_MISMATCH.missing(
                "a target input in another place has its type and element count"
            )
        if is_input and is_parameter_list(ref):
            return TorchairReason.CONSTANT.expected(
                "a parameter (axes, shape, permutation) that the graph does not show"
            )
        return TorchairReason.CONSTANT.expected("a tensor of the golden device that the graph does not show")

    def _covered(self, source: Source) -> Reason | None:
        """Return where the value is compared, if it is."""
        links = self.match.links
        assert links is not None, "only nodes of a graph have parts"
        if self._compared is None:
            self._compared = self._used_by_value()
        for value, through in same_values(links, source):
            if (used := self._compared.get(value)) is not None:
                is_read = used.slot.role is SlotRole.INPUT
                place = f"what `{used.node.name}` reads" if is_read else f"output {value[1]} of `{value[0]}`"
                tail = f", on the other side of {through}" if through else ""
                return CommonReason.COVERED_BY_PRODUCER.expected(f"its value is compared as {place}{tail}")
        return None

    def _used_by_value(self) -> dict[Source, TensorRef]:
        """Return a compared golden tensor of each value: an output where there is one, else the first that is read."""
        values = self.match.golden.values
        found: dict[Source, TensorRef] = {}
        for pair in self.match.used.values():
            if pair.golden is None or (value := values.get(id(pair.golden))) is None:
                continue
            if pair.golden.slot.role is not SlotRole.INPUT:
                found[value] = pair.golden
            else:
                found.setdefault(value, pair.golden)
        return found

    def _output_reason(self, source: Source) -> Reason:
        owner = self.match.by_op.get(source[0])
        if owner is None:
            return self._undumped(source[0])
        if len(owner.parts) > 1 and source not in owner.exits[: len(owner.outputs)]:
            parts = " + ".join(owner.parts)
            return CommonReason.INTERNAL.expected(f"computed inside the fused operator `{owner.name}` ({parts})")
        if any(item.kind is TensorKind.UNREADABLE for item in owner.outputs):
            return CommonReason.UNREADABLE.missing(f"the target's file of `{owner.name}` is unreadable")
        if not self.match.has_outputs:
            return CommonReason.NOT_DUMPED.expected("the target dump holds no outputs at all")
        shown = next((item for item in owner.outputs if item.slot.path == (source[1],)), None)
        if shown is not None and unusable(shown) is not None:
            return CommonReason.DTYPE_UNSUPPORTED.missing(
                f"output {source[1]} of `{owner.name}` cannot be read as numbers"
            )
        return TorchairReason.NO_TARGET_OP.missing(f"the target's dump of `{owner.name}` has no output {source[1]}")

    def _input_reason(self, ref: TensorRef, source: Source) -> Reason:
        reader = self.match.golden.readers.get(id(ref))
        owner = self.match.by_op.get(reader) if reader is not None else None
        if owner is None:
            return (
                self._undumped(reader)
                if reader is not None
                else TorchairReason.NO_TARGET_OP.missing("nothing reads it")
            )
        if len(owner.parts) > 1 and source[0] in owner.parts:
            return CommonReason.INTERNAL.expected(f"made and read inside the fused operator `{owner.name}`")
        if any(item.kind is TensorKind.UNREADABLE for item in owner.outputs):
            return CommonReason.UNREADABLE.missing(f"the target's file of `{owner.name}` is unreadable")
        if not owner.inputs:
            return CommonReason.NOT_DUMPED.expected(f"the target's dump of `{owner.name}` holds no inputs")
        if self._is_flag(source[0]):
            return self._undumped(source[0])
        if is_parameter_list(ref):
            return TorchairReason.CONSTANT.expected(
                "a parameter (axes, shape, permutation) that the target does not have"
            )
        return TorchairReason.COUNT_MISMATCH.missing(f"no input of `{owner.name}` is `{source[0]}`")

    def _is_flag(self, name: str) -> bool:
        """Whether an operator that the target has no file of may be a flag of what reads it."""
        links = self.match.links
        op = links.ops.get(name) if links is not None and name not in self.match.by_op else None
        return op is not None and links is not None and links.is_folded(op)

    def _undumped(self, name: str) -> Reason:
        links = self.match.links
        assert links is not None, "only nodes of a graph have parts"
        op = links.ops[name]
        if self._is_flag(name):
            return TorchairReason.DEVICE_NO_DUMP.expected(f"`{name}` is a flag of the target's product behind it")
        if links.moves_no_data(op):
            return TorchairReason.DEVICE_NO_DUMP.expected(
                f"`{name}` ({op.op_type}) moves no data; the target did not run it"
            )
        if (reason := self.match.merged(name)) is not None:
            return reason
        if self.target_selects_nodes:
            return CommonReason.FILTERED.outside(f"`{name}` is not among the selected target nodes")
        if links.is_relay(op):
            tail = "; the device may have dropped it or merged it into a neighbour"
        else:
            tail = self.match.renames.of_golden(name) + self.hints.hint(name)
        return TorchairReason.NO_TARGET_OP.missing(f"the target dump has no file of `{name}` ({op.op_type}){tail}")


class TorchairRun(Struct):
    """Collects pairs, groups and problems over all executions."""

    target: Catalog
    golden: Catalog
    pairs: list[Pair] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    _budget: list[int] = field(default_factory=lambda: [MAX_HINTS])
    _fx_graphs: dict[str, FxGraph] = field(default_factory=dict)
    _texts: GraphTexts = field(default_factory=GraphTexts)
    _target_tensors: Mapping[Execution, Sequence[TensorRef]] = field(default_factory=dict)
    _golden_tensors: Mapping[Execution, Sequence[TensorRef]] = field(default_factory=dict)
    _indices: dict[Execution, GoldenIndex] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._target_tensors = self.target.tensors_by_execution()
        self._golden_tensors = self.golden.tensors_by_execution()

    def match(self, execution: Execution, partner: Execution) -> None:
        """Match two executions, and report what neither side explains."""
        matched: FxMatch | GeMatch
        leftovers: Leftovers | GeLeftovers
        if self.golden.framework == TORCHAIR_GE:
            matched, leftovers = self._match_device(execution, partner)
        else:
            matched, leftovers = self._match_fx(execution, partner)
        pairs, groups = matched.run()
        self.pairs.extend(pairs)
        self.groups.extend(groups)
        prefix = f"{len(self.groups)}."
        self._add_one_sided(leftovers.pairs(prefix), prefix)
        if matched.links is None:
            self.problems.append(_no_graph(execution))
        elif matched.is_graph_foreign and not leftovers.is_graph_incomplete:
            self.problems.append(_foreign_graph(execution, len(matched.nodes)))

    def _match_fx(self, execution: Execution, partner: Execution) -> tuple[FxMatch, Leftovers]:
        text = graph_of(self.target.graphs, execution)
        graph = None
        if text is not None:
            graph = self._fx_graphs.get(text.file) or self._fx_graphs.setdefault(text.file, FxGraph(text))
        golden = self._indices.get(partner)
        if golden is None:
            golden = self._indices[partner] = GoldenIndex(self._golden_tensors[partner], self.golden)
        matched = FxMatch(
            self.target,
            self._target_tensors[execution],
            graph,
            golden,
            golden_selects_nodes=_selects(self.golden, "nodes"),
            hints=self._hints(graph.links if graph is not None else None, lambda: list(golden)),
            group_prefix=f"{len(self.groups)}.",
        )
        leftovers = Leftovers(
            matched,
            golden,
            matched.graph,
            is_graph_incomplete=_is_incomplete(self.target, text),
            target_selects_nodes=_selects(self.target, "nodes"),
            hints=NearestNames(lambda: [node.name for node in matched.nodes], self._budget),
        )
        return matched, leftovers

    def _match_device(self, execution: Execution, partner: Execution) -> tuple[GeMatch, GeLeftovers]:
        from probe_flow.matching.torchair.ge_golden import GeGolden
        from probe_flow.matching.torchair.ge_pairs import GeMatch

        texts = graph_of(self.target.graphs, execution), graph_of(self.golden.graphs, partner)
        self.problems.extend(self._texts.check(execution, *texts))
        mine, theirs = texts[0] or texts[1], texts[1] or texts[0]
        links = self._texts.links(mine)
        golden = GeGolden(self.golden, self._golden_tensors[partner], self._texts.links(theirs))
        matched = GeMatch(
            self.target,
            self._target_tensors[execution],
            links,
            golden,
            golden_selects_nodes=_selects(self.golden, "nodes"),
            hints=self._hints(links, golden.names),
            group_prefix=f"{len(self.groups)}.",
        )
        leftovers = GeLeftovers(
            matched,
            is_graph_incomplete=_is_incomplete(self.target, texts[0]) or _is_incomplete(self.golden, texts[1]),
            target_selects_nodes=_selects(self.target, "nodes"),
            hints=NearestNames(lambda: [node.name for node in matched.nodes], self._budget),
        )
        return matched, leftovers

    def _hints(
        self, links: GraphLinks | None, golden: Callable[[], Sequence[str]]
    ) -> tuple[NearestNames, NearestNames]:
        spellings: Callable[[], Sequence[str]] = links.spellings if links is not None else list
        return NearestNames(spellings, self._budget), NearestNames(golden, self._budget)

    def one_sided(self, execution: Execution, *, is_target: bool) -> None:
        """Report an execution that the other side lacks, tensor by tensor and as a problem."""
        mine, other = (self.target, self.golden) if is_target else (self.golden, self.target)
        tensors = (self._target_tensors if is_target else self._golden_tensors)[execution]
        word = "golden" if is_target else "target"
        from probe_flow.matching.shared.executions import leaves_out

        if leaves_out(other, execution):
            reason = CommonReason.FILTERED.outside(f"{execution} is not selected on the {word} side")
            severity, code = Severity.NOTE, "PF4011"
        else:
            wanted = execution if _is_known(execution) else "execution for it"
            reason = CommonReason.NO_EXECUTION[word].missing(f"the {word} dump has no {wanted}")
            severity, code = Severity.WARNING, "PF4001" if is_target else "PF4002"
        found = ", ".join(str(known) for known in other.executions[:_MAX_LISTED]) or "none"
        self.problems.append(
            Diagnostic(
                code,
                f"{execution} of `{mine.side}` is not compared ({len(tensors)} tensors): {reason.text}",
                severity=severity,
                help=f"executions of the {word} dump: {found}{_how_to_pair(mine, other)}",
            )
        )
        prefix = f"{len(self.groups)}."
        self._add_one_sided(_one_sided(tensors, reason, prefix, is_target=is_target), prefix)

    def _add_one_sided(self, pairs: Sequence[Pair], prefix: str) -> None:
        """Add pairs, and their groups as far as they are new: those of this prefix."""
        groups: dict[str, Group] = {}
        for pair in pairs:
            if pair.group not in groups and pair.group.startswith(prefix):
                target, golden = (each.node if each is not None else () for each in (pair.target, pair.golden))
                groups[pair.group] = Group(pair.group, Relation.ONE_TO_ONE, target, golden)
        self.pairs.extend(pairs)
        self.groups.extend(groups.values())


_MAX_LISTED = 8


def _is_known(execution: Execution) -> bool:
    return (execution.rank, execution.step, execution.graph) != (None, None, None)


def _how_to_pair(mine: Catalog, other: Catalog) -> str:
    """Return what helps two sides whose executions have other numbers, or none."""
    nameless = next((side for side in (mine, other) if any(each.step is None for each in side.executions)), None)
    if nameless is not None:
        return f"; `{nameless.side}` names no step: give the folder above, or `select` one step of the other side"
    return "; `step_offset` and `pair_ranks` of the match pair steps and ranks that are numbered otherwise"


def _one_sided(tensors: Sequence[TensorRef], reason: Reason, prefix: str, *, is_target: bool) -> list[Pair]:
    pairs: list[Pair] = []
    node, count = None, -1
    for ref in tensors:
        if ref.node is not node and ref.node != node:
            node, count = ref.node, count + 1
        mine, other = (ref, None) if is_target else (None, ref)
        pairs.append(Pair.on_terms(mine, other, f"{prefix}{count}", CommonRule.NONE, reason, confidence=0.0))
    return pairs


def _selects(catalog: Catalog, key: str) -> bool:
    select = catalog.attrs.get("select")
    return isinstance(select, Mapping) and key in select


def _is_incomplete(catalog: Catalog, graph: Graph | None) -> bool:
    incomplete = catalog.attrs.get("incomplete_graphs", ())
    return graph is not None and isinstance(incomplete, tuple) and graph.file in incomplete


def _no_graph(execution: Execution) -> Diagnostic:
    return Diagnostic(
        "PF4005",
        f"nothing of {execution} can be matched: it has no graph text",
        severity=Severity.WARNING,
        help="copy `dynamo_original_graph_*.txt` from the folder of the device dump",
    )


def _foreign_graph(execution: Execution, operators: int) -> Diagnostic:
    return Diagnostic(
        "PF4005",
        f"the graph text of {execution} has none of the {operators} dumped operators: it belongs to another graph",
        severity=Severity.WARNING,
        help="copy `dynamo_original_graph_*.txt` of this very run from the folder of the device dump",
    )
