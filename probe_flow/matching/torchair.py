"""Pair a TorchAir device dump (GE) with an FX dump through the graph text that lies beside the device dump.

Rules, in the order in which they are tried for a target tensor:

=========  ==================================================================================================
``exact``  an output whose graph tensor carries an FX name is that FX output; an input is the FX argument of the
           same place when all arguments agree one by one
``fused``  an output of a fused operator: the FX name is that of the graph tensor that leaves the fused parts
``edge``   an input is the FX output of its producer in the graph; views and casts in between are passed over
``aligned``  an input without such a producer (weights, graph inputs) is joined with an argument of its own FX node
           by class of dtype and element count
``self``   a cast or layout change that the device inserted: its output against its own input
=========  ==================================================================================================

Tensors without partner. Expected is what the evidence explains; everything else is missing, a gap.

=======================  ========  ==========================================================================
code                     gap       evidence
=======================  ========  ==========================================================================
``internal``             expected  inside a converter's expansion or a fused operator: no FX (or device) tensor
``constant``             expected  a parameter or constant of the device graph without FX tensor of its meaning
``argument``             expected  an FX number or short list of integers that the device has as a parameter
``not_tensor``           expected  an object, text or empty slot
``covered_by_producer``  expected  an FX input whose value is compared where it is made
``device_no_dump``       expected  the graph shows that no device operator of its own computes the value
``not_dumped``           expected  the other dump holds no inputs (or outputs) at all
``filtered``             expected  left out by a selection
``no_golden_op``         missing   the graph names an FX tensor that the golden dump lacks
``no_target_op``         missing   an operator of the graph should have run on the device but has no file
``no_graph_op``          missing   the device operator is not in the graph text (or the text is cut off)
``no_graph``             missing   the execution has no graph text
``no_fx_name``           missing   the graph text carries no FX names
``count_mismatch``       missing   an input fits no argument by type and element count
``unreadable``           missing   the file of either side cannot be read
``dtype_unsupported``    missing   the device's element type cannot be decoded
``no_golden_execution``  missing   the golden side has no such rank, graph or step
``no_target_execution``  missing   the target side has none
=======================  ========  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.matching.torchair_executions import pair_executions
from probe_flow.matching.torchair_fx_match import FxMatch
from probe_flow.matching.torchair_golden import GoldenIndex, tensors_by_execution
from probe_flow.matching.torchair_graph import FxGraph
from probe_flow.matching.torchair_leftovers import Leftovers
from probe_flow.matching.torchair_reasons import MAX_HINTS, NearestNames, expected, missing
from probe_flow.records import Catalog, Execution, Graph, Group, Pair, Pairs, Reason, Relation, TensorRef

_TARGET_FRAMEWORK = "torchair_ge"
_GOLDEN_FRAMEWORK = "torchair_fx"


def match_torchair(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None = None, step_offset: int = 0
) -> Pairs:
    """Pair every tensor of a device dump with the FX tensor of the same value, or say why there is none.

    Args:
        target: catalog of the device dump, with its graphs.
        golden: catalog of the FX dump.
        pair_ranks: target rank -> golden rank where they differ.
        step_offset: golden step = target step + this.

    Returns:
        Pairs in the order of the target's tensors, per execution followed by the golden tensors without partner.
        Executions that only one side has are one-sided pairs and a problem each.

    Raises:
        UsageError: PF4004 if a side is not of the kind that this matcher pairs.
    """
    _check_sides(target, golden)
    run = _Run(target, golden)
    executions = pair_executions(target, golden, pair_ranks=pair_ranks, step_offset=step_offset)
    run.problems.extend(executions.problems)
    if target.root == golden.root:
        run.problems.append(_same_folder(target))
    for execution, partner in executions.partners.items():
        if partner is None:
            run.one_sided(execution, is_target=True)
        else:
            run.match(execution, partner)
    for execution in executions.golden_only:
        run.one_sided(execution, is_target=False)
    return Pairs(target, golden, tuple(run.pairs), groups=tuple(run.groups), problems=tuple(run.problems))


@dataclass(slots=True)
class _Run:
    """Collects pairs, groups and problems over all executions."""

    target: Catalog
    golden: Catalog
    pairs: list[Pair] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    _budget: list[int] = field(default_factory=lambda: [MAX_HINTS])
    _graphs: dict[str, FxGraph] = field(default_factory=dict)
    _target_tensors: Mapping[Execution, Sequence[TensorRef]] = field(default_factory=dict)
    _golden_tensors: Mapping[Execution, Sequence[TensorRef]] = field(default_factory=dict)
    _indices: dict[Execution, GoldenIndex] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._target_tensors = tensors_by_execution(self.target)
        self._golden_tensors = tensors_by_execution(self.golden)

    def match(self, execution: Execution, partner: Execution) -> None:
        graph, is_incomplete = self._graph(execution)
        golden = self._indices.setdefault(partner, GoldenIndex(self._golden_tensors[partner], self.golden))
        spellings: Callable[[], Sequence[str]] = graph.links.spellings if graph is not None else list
        tensors = self._target_tensors[execution]
        matched = FxMatch(
            self.target,
            tensors,
            graph,
            golden,
            golden_selects_nodes=_selects(self.golden, "nodes"),
            hints=(NearestNames(spellings, self._budget), NearestNames(lambda: list(golden.nodes), self._budget)),
            group_prefix=f"{len(self.groups)}.",
        )
        pairs, groups = matched.run()
        leftovers = Leftovers(
            matched,
            golden,
            graph,
            is_graph_incomplete=is_incomplete,
            target_selects_nodes=_selects(self.target, "nodes"),
            hints=NearestNames(lambda: [node.name for node in matched.nodes], self._budget),
        )
        self.pairs.extend(pairs)
        self.groups.extend(groups)
        self._add_one_sided(leftovers.pairs(f"{len(self.groups)}."))
        if graph is None:
            self.problems.append(_no_graph(execution))

    def one_sided(self, execution: Execution, *, is_target: bool) -> None:
        """Report an execution that the other side lacks, tensor by tensor and as a problem."""
        mine, other = (self.target, self.golden) if is_target else (self.golden, self.target)
        tensors = (self._target_tensors if is_target else self._golden_tensors)[execution]
        word = "golden" if is_target else "target"
        if _is_filtered(other, execution):
            reason = expected("filtered", f"{execution} is not selected on the {word} side")
            severity, code = Severity.NOTE, "PF4011"
        else:
            reason = missing(f"no_{word}_execution", f"the {word} dump has no {execution}")
            severity, code = Severity.WARNING, "PF4001" if is_target else "PF4002"
        found = ", ".join(str(known) for known in other.executions[:_MAX_LISTED]) or "none"
        self.problems.append(
            Diagnostic(
                code,
                f"{execution} of `{mine.side}` is not compared ({len(tensors)} tensors): {reason.text}",
                severity=severity,
                help=f"executions of the {word} dump: {found}",
            )
        )
        self._add_one_sided(_one_sided(tensors, reason, f"{len(self.groups)}.", is_target=is_target))

    def _add_one_sided(self, pairs: Sequence[Pair]) -> None:
        groups: dict[str, Group] = {}
        for pair in pairs:
            if pair.group not in groups:
                key = (pair.shown.node,)
                mine, other = (key, ()) if pair.target is not None else ((), key)
                groups[pair.group] = Group(pair.group, Relation.ONE_TO_ONE, mine, other)
        self.pairs.extend(pairs)
        self.groups.extend(groups.values())

    def _graph(self, execution: Execution) -> tuple[FxGraph | None, bool]:
        graph = _graph_of(self.target.graphs, execution)
        if graph is None:
            return None, False
        incomplete = self.target.attrs.get("incomplete_graphs", ())
        is_incomplete = isinstance(incomplete, tuple) and graph.file in incomplete
        if graph.file not in self._graphs:
            self._graphs[graph.file] = FxGraph(graph)
        return self._graphs[graph.file], is_incomplete


_MAX_LISTED = 8


def _one_sided(tensors: Sequence[TensorRef], reason: Reason, prefix: str, *, is_target: bool) -> list[Pair]:
    pairs: list[Pair] = []
    node, count = None, -1
    for ref in tensors:
        if ref.node is not node and ref.node != node:
            node, count = ref.node, count + 1
        mine, other = (ref, None) if is_target else (None, ref)
        pairs.append(Pair(mine, other, f"{prefix}{count}", "none", confidence=0.0, reason=reason))
    return pairs


def _graph_of(graphs: Sequence[Graph], execution: Execution) -> Graph | None:
    for graph in graphs:
        if graph.id == execution.graph and (None in (graph.rank, execution.rank) or graph.rank == execution.rank):
            return graph
    return None


def _selects(catalog: Catalog, key: str) -> bool:
    select = catalog.attrs.get("select")
    return isinstance(select, Mapping) and key in select


def _is_filtered(other: Catalog, execution: Execution) -> bool:
    """Tell whether the other side was read with a selection that leaves this execution out."""
    select = other.attrs.get("select")
    if not isinstance(select, Mapping):
        return False
    wanted = (("ranks", execution.rank), ("steps", execution.step), ("graphs", execution.graph))
    return any(key in select and value is not None and value not in select[key] for key, value in wanted)


def _check_sides(target: Catalog, golden: Catalog) -> None:
    wanted = (
        (target, _TARGET_FRAMEWORK, "device dump (`dump.torchair_ge`)"),
        (golden, _GOLDEN_FRAMEWORK, "FX dump (`dump.torchair_fx`)"),
    )
    for catalog, framework, words in wanted:
        if catalog.framework != framework:
            both = golden.framework == target.framework == _TARGET_FRAMEWORK
            raise UsageError(
                Diagnostic(
                    "PF4004",
                    f"`match.torchair` needs a {words}, but `{catalog.side}` is a `{catalog.framework}` dump",
                    help="comparing two device dumps (fusion on against off) is not possible yet: give an FX dump"
                    if both
                    else "swap `target` and `golden`, or read the dump with the stage that fits it",
                )
            )


def _same_folder(target: Catalog) -> Diagnostic:
    return Diagnostic(
        "PF4003",
        f"target and golden are the same folder, `{target.root}`",
        severity=Severity.WARNING,
        help="dump each side into a folder of its own",
        path=target.root,
    )


def _no_graph(execution: Execution) -> Diagnostic:
    return Diagnostic(
        "PF4005",
        f"nothing of {execution} can be matched: it has no graph text",
        severity=Severity.WARNING,
        help="copy `dynamo_original_graph_*.txt` from the folder of the device dump",
    )
