"""Two graphs compared: partners, scores, micro steps; in our layout from what the comparison of the dumps concluded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.graphs.layers import layer_mapping
from probe_flow.graphs.micro_steps import with_steps_of
from probe_flow.graphs.pairing import exact, fuzzy, mapped
from probe_flow.graphs.scores import score_collections, scores
from probe_flow.mappings.mapping_file import ClassEntries
from probe_flow.records import (
    Comparison,
    Execution,
    Measurement,
    NodeKey,
    Pair,
    Role,
    Row,
    Rule,
    SlotRole,
    TensorKind,
    TensorRef,
)
from probe_flow.records.model_graph import (
    GRAPH_ROOT,
    NO_PARTNER,
    GraphKind,
    GraphLayout,
    GraphMode,
    GraphPair,
    ModelGraph,
)
from probe_flow.records.pairs import grouped

NO_COUNTERPART = "the golden has no such node"
_BY_POSITION = Rule("position")


def compare_graphs(
    rows: ComparedRows,
    target: ModelGraph,
    golden: ModelGraph,
    *,
    is_fuzzy: bool = False,
    mapping: Sequence[ClassEntries] | None = None,
) -> GraphPair:
    """Compare the graphs of one execution.

    Args:
        rows: those of the target's execution. In our layout its pairs are the partners; in those of msprobe it has
            what was measured of tensors.
        target, golden: the graphs, built by the rules of one layout, which are those of the comparison too.
        is_fuzzy: in a layout of msprobe, match by names without call numbers.
        mapping: in a layout of msprobe, entries of a layer mapping, which an empty one has none of; None = no mapping.

    Raises:
        UsageError: PF7152 where the dumps hold different things, PF7153 where msprobe would need a mapping.
    """
    mode = graph_mode(target, golden)
    if target.layout is GraphLayout.OWN:
        partners, reasons = _partners(rows, target, golden)
        of_node = partial(rows.of_tensors, target)
        found, why = scores(target, of_node, mode)
        reasons |= why
        if mode is not GraphMode.STRUCTURE:
            score_collections(target, found, reasons, partial(rows.has_origin, target))
        pair = GraphPair(target, golden, partners, found, mode=mode, reasons=reasons, rows=of_node)
    else:
        partners = _msprobe_partners(target, golden, is_fuzzy=is_fuzzy, mapping=mapping)
        by_position = _PositionRows(rows, target, golden, partners, mode)
        pair = GraphPair(target, golden, partners, mode=mode, rows=by_position.of)
    problems = *_shared(target, golden, partners), *_not_measured(pair)
    return replace(pair, golden=with_steps_of(golden, target, partners, target.layout), problems=problems)


def _shared(target: ModelGraph, golden: ModelGraph, partners: Sequence[int]) -> Iterator[Diagnostic]:
    """Yield a warning for each golden node that is the partner of several, where msprobe's rules made it that.

    Our pairs compare several together on purpose, and their mappings are checked when they are read.
    """
    if target.layout is GraphLayout.OWN:
        return
    of_golden: dict[int, list[str]] = defaultdict(list)
    for number, partner in enumerate(partners):
        if partner != NO_PARTNER:
            of_golden[partner].append(target.nodes[number].name)
    for partner, names in of_golden.items():
        if len(names) > 1:
            shown = ", ".join(f"`{name}`" for name in names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
            message = f"`{golden.nodes[partner].name}` of the golden is the partner of {shown}"
            cure = "give each of them a name of its own in the mapping"
            yield Diagnostic("PF7154", message, severity=Severity.WARNING, tensor=names[0], help=cure)


def _not_measured(pair: GraphPair) -> Iterator[Diagnostic]:
    """Yield a warning if msprobe pairs tensors by position that the comparison pairs in another way."""
    if pair.mode is not GraphMode.TENSOR or pair.layout is GraphLayout.OWN:
        return
    rows = (row for number in range(len(pair.target.nodes)) for row in pair.rows(number) if row is not None)
    names = [row.pair.shown.item or row.pair.shown.id for row in rows if _is_unmeasured(row)]
    if names:
        message = f"msprobe compares {len(names)} tensors with others than the comparison does, `{names[0]}` first"
        cure = "their metrics and what follows from them are left out; compare the dumps with the same matching"
        yield Diagnostic("PF7155", message, severity=Severity.WARNING, tensor=names[0], help=cure)


def _is_unmeasured(row: Row) -> bool:
    both = row.pair.target, row.pair.golden
    return row.measurement is None and all(each is not None and each.kind is TensorKind.TENSOR for each in both)


def graph_mode(target: ModelGraph, golden: ModelGraph) -> GraphMode:
    """Return what two graphs can be compared by.

    Raises:
        UsageError: PF7152 where the dumps hold different things.
    """
    tasks = target.catalog.task, golden.catalog.task
    if tasks[0] == tasks[1] and tasks[0] in {mode.value for mode in GraphMode}:
        return GraphMode(tasks[0])
    message = f"the target holds {_what(tasks[0])} and the golden {_what(tasks[1])}, so their graphs cannot be compared"
    cure = "dump both sides with the same `task` and `summary_mode`, or draw the graph of one side alone"
    raise UsageError(Diagnostic("PF7152", message, path=golden.catalog.root, help=cure))


def _what(task: str) -> str:
    return {"md5": "checksums", "structure": "calls without values", "tensor": "tensors"}.get(task, task)


class ComparedRows:
    """Rows of one execution of the target by its nodes, in the order of the comparison."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._places: dict[NodeKey, tuple[int, int]] = {}
        last, begin = None, 0
        for number, row in enumerate(self._rows):
            node = row.pair.target.node if row.pair.target is not None else None
            if node is not last and node != last:
                if last is not None:
                    self._places[last] = begin, number
                last, begin = node, number
        if last is not None:
            self._places[last] = begin, len(self._rows)

    def of_node(self, node: NodeKey) -> Sequence[Row]:
        """Return the rows of a node of the target, those without a golden among them."""
        begin, end = self._places.get(node, (0, 0))
        return self._rows[begin:end]

    def has_origin(self, graph: ModelGraph, number: int) -> bool:
        """Return True if the comparison says that an error begins in a node."""
        call = graph.nodes[number].call
        return call is not None and any(row.verdict.role is Role.ORIGIN for row in self.of_node(call.key))

    def of_tensors(self, graph: ModelGraph, number: int) -> Sequence[Row | None]:
        """Return for each tensor of a node the first row that has both sides."""
        call = graph.nodes[number].call
        tensors = graph.tensors_of(number)
        if call is None or not tensors:
            return ()
        rows = self.of_node(call.key)
        if [row.pair.target for row in rows] == list(tensors):  # as nearly always
            return [None if row.pair.golden is None else row for row in rows]
        found = {row.pair.shown.slot: row for row in reversed(rows) if row.pair.golden is not None}
        return [found.get(tensor.slot) for tensor in tensors]


def rows_by_execution(comparison: Comparison) -> dict[Execution, Sequence[Row]]:
    """Return the rows of each execution of the target."""
    targets = (row.pair.target for row in comparison.rows)
    found = grouped(comparison.rows, (None if target is None else target.node.execution for target in targets))
    return {run: rows for run, rows in found.items() if run is not None}


def _partners(rows: ComparedRows, target: ModelGraph, golden: ModelGraph) -> tuple[list[int], dict[int, str]]:
    """Return the golden node of each node by the pairs of the comparison, and why some have none.

    Of what has no tensors, a node's partner is what lies around the partners of its children, else what has its name.
    So a collection of calls is never what decides.
    """
    numbers = {node.call.key: number for number, node in enumerate(golden.nodes) if node.call is not None}
    found = [NO_PARTNER] * len(target.nodes)
    reasons: dict[int, str] = {}
    found[GRAPH_ROOT] = GRAPH_ROOT
    for number, node in enumerate(target.nodes):
        if node.call is None:
            continue
        of_node = rows.of_node(node.call.key)
        goldens = Counter(row.pair.golden.node for row in of_node if row.pair.golden is not None)
        if goldens:
            found[number] = numbers.get(goldens.most_common(1)[0][0], NO_PARTNER)
        if found[number] == NO_PARTNER and of_node:
            reasons[number] = next(
                (row.pair.reason.text for row in of_node if row.pair.reason is not None), NO_COUNTERPART
            )
    taken = {*found}
    for number in target.ended():
        node = target.nodes[number]
        if found[number] != NO_PARTNER or number in reasons:
            continue
        partners = (found[child] for child in target.children[number] if found[child] != NO_PARTNER)
        around = Counter(golden.nodes[partner].parent for partner in partners)
        likely = [each for each, _ in around.most_common()]
        if node.kind is not GraphKind.COLLECTION:
            likely.append(golden.numbers.get(node.name, NO_PARTNER))
        for each in likely:
            if each not in taken and golden.nodes[each].kind is node.kind:
                found[number] = each
                taken.add(each)
                break
        else:
            reasons[number] = NO_COUNTERPART
    return found, reasons


def _msprobe_partners(
    target: ModelGraph, golden: ModelGraph, *, is_fuzzy: bool, mapping: Sequence[ClassEntries] | None
) -> list[int]:
    """Return the golden node of each node by the rules of msprobe, in which fuzzy matching wins over a mapping."""
    frameworks = target.catalog.framework, golden.catalog.framework
    if target.layout is GraphLayout.MSPROBE_VIS_DB and mapping is None and frameworks[0] != frameworks[1]:
        names = " and ".join(framework.name for framework in frameworks)
        message = f"in layout `msprobe`, graphs of {names} are compared under a layer mapping only"
        cure = "write `match: layer_mapping`, with a `mapping` where layers have other names, or leave the layout out"
        raise UsageError(Diagnostic("PF7153", message, help=cure))
    if is_fuzzy:
        return fuzzy(target, golden)
    if mapping is not None:
        return mapped(target, golden, layer_mapping(target, golden, mapping))
    return exact(target, golden)


class _PositionRows:
    """Rows of partners as msprobe pairs their items: by position among the inputs, parameters, outputs, gradients."""

    def __init__(
        self, rows: ComparedRows, target: ModelGraph, golden: ModelGraph, partners: Sequence[int], mode: GraphMode
    ) -> None:
        self._rows, self._target, self._golden, self._partners = rows, target, golden, partners
        self._is_measured = mode is GraphMode.TENSOR

    def of(self, number: int) -> Sequence[Row | None]:
        """Return the row of each tensor of a node of the target; the golden is missing where it has fewer."""
        tensors = self._target.tensors_of(number)
        if self._partners[number] == NO_PARTNER or not tensors or not tensors[0].slot.path:
            return [None] * len(tensors)
        theirs = _by_role(self._golden.tensors_of(self._partners[number]))
        counts: dict[SlotRole, int] = defaultdict(int)
        found: list[Row | None] = []
        for tensor in tensors:
            role, others = tensor.slot.role, theirs.get(tensor.slot.role, ())
            other = others[counts[role]] if counts[role] < len(others) else None
            counts[role] += 1
            found.append(Row(Pair(tensor, other, "", _BY_POSITION), self._measurement(tensor, other)))
        return found

    def _measurement(self, tensor: TensorRef, other: TensorRef | None) -> Measurement | None:
        if not self._is_measured or other is None:
            return None
        rows = self._rows.of_node(tensor.node)
        return next((row.measurement for row in rows if row.pair.target == tensor and row.pair.golden == other), None)


def _by_role(tensors: Sequence[TensorRef]) -> dict[SlotRole, list[TensorRef]]:
    found: dict[SlotRole, list[TensorRef]] = {}
    for tensor in tensors:
        found.setdefault(tensor.slot.role, []).append(tensor)
    return found
