"""Pair the executions of two TorchAir dumps: by identity, by shared names only where ids lack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from probe_flow.dumps.graph.links import graph_of
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.torchair.fx_golden import output_keys
from probe_flow.records import Catalog, Execution

GraphId = int | str | None
RankedGraph = tuple[int | None, GraphId]


class ExecutionPairs(Struct):
    """Which golden execution each target execution is compared with; None where there is none."""

    partners: dict[Execution, Execution | None] = field(default_factory=dict)
    golden_only: list[Execution] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    unused: list[Diagnostic] = field(default_factory=list)


def pair_executions(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None, step_offset: int
) -> ExecutionPairs:
    """Pair executions by rank, graph id and step.

    An unknown rank, graph id or step pairs with the only one of the other side; unknown graph ids of several graphs
    are assigned by the share of names that they have in common (the graph text's FX names and those of the FX dump;
    operators of two device dumps), and the score is reported (PF4006). A golden step is a target step plus
    `step_offset`.
    """
    pairs = ExecutionPairs()
    ranks = _pair_ranks(target, golden, pair_ranks or {}, pairs)
    graphs = _pair_graphs(target, golden, ranks, pairs.problems)
    by_place: dict[RankedGraph, dict[int | None, Execution]] = defaultdict(dict)
    for execution in golden.executions:
        by_place[(execution.rank, execution.graph)].setdefault(execution.step, execution)
    steps: dict[RankedGraph, set[int | None]] = defaultdict(set)
    for execution in target.executions:
        steps[(execution.rank, execution.graph)].add(execution.step)
    taken: set[Execution] = set()
    for execution in target.executions:
        place = (execution.rank, execution.graph)
        found = by_place.get(graphs[place], {}) if place in graphs else {}
        partner = _pair_step(execution.step, steps[place], found, step_offset)
        pairs.partners[execution] = partner
        if partner is not None:
            if partner in taken:
                pairs.problems.append(_shared_partner(execution, partner))
            taken.add(partner)
    pairs.golden_only = [execution for execution in golden.executions if execution not in taken]
    return pairs


def _pair_step(
    step: int | None, steps: set[int | None], found: Mapping[int | None, Execution], offset: int
) -> Execution | None:
    if step is not None and step + offset in found:
        return found[step + offset]
    # An unknown step can only mean the single one of the other side.
    if len(found) == 1 and len(steps) == 1 and (step is None or None in found):
        return next(iter(found.values()))
    return None


def _pair_ranks(
    target: Catalog, golden: Catalog, pair_ranks: Mapping[int, int], pairs: ExecutionPairs
) -> dict[int | None, int | None]:
    target_ranks = list(dict.fromkeys(execution.rank for execution in target.executions))
    golden_ranks = list(dict.fromkeys(execution.rank for execution in golden.executions))
    pairs.unused.extend(
        _unused_rank_pair(mine, other, target_ranks, golden_ranks)
        for mine, other in pair_ranks.items()
        if mine not in target_ranks or other not in golden_ranks
    )
    ranks: dict[int | None, int | None] = {}
    for rank in target_ranks:
        wanted = pair_ranks.get(rank, rank) if rank is not None else None
        if wanted in golden_ranks:
            ranks[rank] = wanted
        elif len(target_ranks) == 1 and len(golden_ranks) == 1 and (rank is None or golden_ranks[0] is None):
            ranks[rank] = golden_ranks[0]
        elif golden_ranks == [None]:
            ranks[rank] = None
    if None in golden_ranks and len(ranks) > 1 and set(ranks.values()) == {None}:
        pairs.problems.append(
            Diagnostic(
                "PF4007",
                f"the golden dump names no ranks; its graphs are shared out among {len(ranks)} target ranks",
                severity=Severity.WARNING,
                help="select one rank on the target side, or dump each golden rank into a folder of its own",
            )
        )
    return ranks


def _pair_graphs(
    target: Catalog, golden: Catalog, ranks: Mapping[int | None, int | None], problems: list[Diagnostic]
) -> dict[RankedGraph, RankedGraph]:
    pairs: dict[RankedGraph, RankedGraph] = {}
    free_target: dict[int | None, list[RankedGraph]] = defaultdict(list)
    golden_places = dict.fromkeys((execution.rank, execution.graph) for execution in golden.executions)
    for place in dict.fromkeys((execution.rank, execution.graph) for execution in target.executions):
        if place[0] not in ranks:
            continue
        wanted = (ranks[place[0]], place[1])
        # A string is the name of a folder or file, not an id that both sides could share.
        if isinstance(place[1], int) and wanted in golden_places and wanted not in pairs.values():
            pairs[place] = wanted
        else:
            free_target[ranks[place[0]]].append(place)
    for rank, places in free_target.items():
        free_golden = [place for place in golden_places if place[0] == rank and place not in pairs.values()]
        unknown = [place for place in free_golden if not isinstance(place[1], int)]
        # Two known but different ids are two graphs; only an unknown id on one side leaves room for guessing.
        candidates = [
            (mine, other)
            for mine in places
            for other in free_golden
            if other in unknown or not isinstance(mine[1], int)
        ]
        _assign(target, golden, candidates, pairs, problems)
    return pairs


def _assign(
    target: Catalog,
    golden: Catalog,
    candidates: Sequence[tuple[RankedGraph, RankedGraph]],
    pairs: dict[RankedGraph, RankedGraph],
    problems: list[Diagnostic],
) -> None:
    """Choose the best assignment greedily: most shared names, then most shared steps, then equal order."""
    mine = list(dict.fromkeys(pair[0] for pair in candidates))
    others = list(dict.fromkeys(pair[1] for pair in candidates))
    are_devices = golden.framework == target.framework
    my_names = {place: (_op_names if are_devices else _graph_keys)(target, place) for place in mine}
    other_names = {place: (_op_names if are_devices else _dumped_keys)(golden, place) for place in others}
    my_steps = {place: _steps(target, place) for place in mine}
    other_steps = {place: _steps(golden, place) for place in others}

    def rank_pair(pair: tuple[RankedGraph, RankedGraph]) -> tuple[float, int, int]:
        one, other = pair
        shared = len(my_steps[one] & other_steps[other])
        return -_overlap(my_names[one], other_names[other]), -shared, abs(mine.index(one) - others.index(other))

    single = len(mine) == len(others) == 1
    used: set[RankedGraph] = set()
    for one, other in sorted(candidates, key=rank_pair):
        score = _overlap(my_names[one], other_names[other])
        if one in pairs or other in used or (score == 0 and my_names[one] and other_names[other]):
            continue
        pairs[one] = other
        used.add(other)
        problems.append(_assigned(one, other, score, is_single=single))


def _graph_keys(catalog: Catalog, place: RankedGraph) -> set[str]:
    graph = graph_of(catalog.graphs, Execution(rank=place[0], graph=place[1]))
    if graph is None:
        return set()
    return output_keys(output.fx_name for op in graph.ops for output in op.outputs)


def _dumped_keys(catalog: Catalog, place: RankedGraph) -> set[str]:
    return {
        f"{key.name}-{node.op_type}"
        for key, node in catalog.nodes.items()
        if (key.execution.rank, key.execution.graph) == place
    }


def _op_names(catalog: Catalog, place: RankedGraph) -> set[str]:
    """Return the operators of a device graph: those of its text, else those that were dumped."""
    graph = graph_of(catalog.graphs, Execution(rank=place[0], graph=place[1]))
    if graph is not None:
        return {op.name for op in graph.ops}
    return {key.name for key in catalog.nodes if (key.execution.rank, key.execution.graph) == place}


def _steps(catalog: Catalog, place: RankedGraph) -> set[int | None]:
    return {execution.step for execution in catalog.executions if (execution.rank, execution.graph) == place}


def _overlap(first: set[str], second: set[str]) -> float:
    """Return the shared share of the smaller set, in [0, 1]; 0 when one is empty."""
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0


def _assigned(one: RankedGraph, other: RankedGraph, score: float, *, is_single: bool) -> Diagnostic:
    golden = f"golden graph `{other[1]}`" if other[1] is not None else "the golden dump, which names no graph,"
    why = "both sides have one graph" if is_single else "the dumps give no common graph id"
    return Diagnostic(
        "PF4006",
        f"target graph {one[1]} is compared with {golden}: {why}, {score:.0%} of the names agree",
        severity=Severity.WARNING if score < _LOW_OVERLAP else Severity.NOTE,
        help="select one graph on each side if this is wrong" if score < _LOW_OVERLAP else None,
    )


_LOW_OVERLAP = 0.5
"""Share of common FX names below which an inferred pair of graphs deserves a warning."""


def _shared_partner(execution: Execution, partner: Execution) -> Diagnostic:
    return Diagnostic(
        "PF4008",
        f"{execution} (model `{execution.model}`) is compared with golden {partner}, like another target execution",
        severity=Severity.WARNING,
        help="several models of one graph ran in one step; select one of them by its folder if this is wrong",
    )


def _unused_rank_pair(
    rank: int, other: int, target_ranks: Sequence[int | None], golden_ranks: Sequence[int | None]
) -> Diagnostic:
    def shown(ranks: Sequence[int | None]) -> str:
        return ", ".join("unknown" if known is None else str(known) for known in ranks) or "none"

    return Diagnostic(
        "PF4009",
        f"`pair_ranks` names target rank {rank} and golden rank {other}, which are not both there",
        severity=Severity.WARNING,
        help=f"target ranks: {shown(target_ranks)}; golden ranks: {shown(golden_ranks)}",
    )
