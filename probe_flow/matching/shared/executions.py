"""Which executions of two dumps correspond: by rank and step, where these are known and vary."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.selection import Selection, selected_nodes
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Catalog, Execution, Node, NodeKey, Pair, Pairs
from probe_flow.records.figures import MANY
from probe_flow.records.pairs import Many

if TYPE_CHECKING:
    from probe_flow.records.tables.blocks import Column, Packing

_WAYS_OF_RUNNING = {"graph", "pynative"}


class ExecutionPairs(Struct, frozen=True):
    """Target execution -> golden execution, what is worth saying about it, and options that paired nothing."""

    golden_of: Mapping[Execution, Execution]
    problems: tuple[Diagnostic, ...] = ()
    unused: tuple[Diagnostic, ...] = ()

    @staticmethod
    def gathered(target: Catalog, golden: Catalog, pairs: Iterable[Iterable[Pair]]) -> Sequence[Pair]:
        """Return the pairs of all executions, given one after the other: few as a tuple, many of several as a table."""
        rest: list[Pair] = []
        blocks: list[Sequence[Column]] = []
        packing: Packing | None = None
        count = 0
        for number, found in enumerate(pairs):
            before = len(rest)
            rest += found
            count += len(rest) - before
            if number and count >= MANY:
                from probe_flow.records.tables.blocks import BLOCK, Packing

                packing = packing or Packing(target.tensors, golden.tensors)
                whole = len(rest) // BLOCK * BLOCK
                blocks += packing.packed(rest[:whole])
                del rest[:whole]
        if packing is None:
            return tuple(rest)
        from probe_flow.records.tables.blocks import PairTable

        return PairTable([*blocks, *packing.packed(rest)], count)

    def sides(
        self, target: Iterable[Execution], golden: Iterable[Execution]
    ) -> Iterator[tuple[Execution | None, Execution | None]]:
        """Yield each target execution with its golden one, None where it has none, then the golden ones left over."""
        for run in target:
            yield run, self.golden_of.get(run)
        partners = set(self.golden_of.values())
        yield from ((None, run) for run in golden if run not in partners)


LeavesOut: TypeAlias = Callable[[str, Execution], bool]
"""``target`` or ``golden``, and an execution of that side -> whether the selection of the other side leaves it out."""


def leaves_out(catalog: Catalog, run: Execution) -> bool:
    """Return whether a dump was read with a selection that leaves an execution out."""
    select = catalog.attrs.get("select")
    if not isinstance(select, Mapping):
        return False
    wanted = (("ranks", run.rank), ("steps", run.step), ("graphs", run.graph))
    return any(key in select and value is not None and value not in select[key] for key, value in wanted)


def other_leaves_out(target: Catalog, golden: Catalog) -> LeavesOut:
    """Return what tells whether the other side's selection leaves an execution out."""
    others = {"target": golden, "golden": target}
    return lambda side, run: leaves_out(others[side], run)


def with_selections(pairs: Pairs) -> Pairs:
    """Return the pairs with what the other side's selection leaves out outside the comparison, not missing.

    That are executions, and nodes whose own name the selected names of the other side do not take.
    """
    if not any(catalog.attrs.get("select") for catalog in (pairs.target, pairs.golden)):
        return pairs
    leaves = _LeftOut(pairs.target, "target"), _LeftOut(pairs.golden, "golden")
    catalogs = pairs.target, pairs.golden
    found = (_outside(pair, *leaves, catalogs) for pair in pairs.pairs)
    if not isinstance(pairs.pairs, Many):
        return replace(pairs, pairs=tuple(found))
    from probe_flow.records.tables.blocks import Packing, PairTable

    packing = Packing(pairs.target.tensors, pairs.golden.tensors)
    return replace(pairs, pairs=PairTable([*packing.packed(found)], len(pairs.pairs)))


class _LeftOut:
    """What the selection of a side says of tensors of the other side that have no partner."""

    def __init__(self, catalog: Catalog, side: str) -> None:
        self._catalog, self._side = catalog, side
        self._nodes = selected_nodes(catalog)
        self._takes = Selection(nodes=self._nodes).node_filter()

    def of_execution(self, key: NodeKey) -> str | None:
        """Return why a tensor is outside of the comparison by where it was made; None where it is not."""
        is_left = leaves_out(self._catalog, key.execution)
        return f"{key.execution} is not selected on the {self._side} side" if is_left else None

    def of_name(self, key: NodeKey, node: Node | None) -> str | None:
        """Return why it is by the name of its node; None where it is not."""
        names = (key.name, node.clean_name if node is not None else None)
        if self._nodes is None or any(name is not None and self._takes(name) for name in names):
            return None
        return f"`{key.name}` is not among the selected {self._side} nodes"


def _outside(pair: Pair, target: _LeftOut, golden: _LeftOut, catalogs: tuple[Catalog, Catalog]) -> Pair:
    if pair.target is not None and pair.golden is not None:
        return pair
    side, other = (catalogs[1], target) if pair.target is None else (catalogs[0], golden)
    key = pair.shown.node
    why = other.of_execution(key)
    if why is None and pair.reason is not None and pair.reason.is_gap:
        why = other.of_name(key, side.nodes.get(key))
    return pair if why is None else replace(pair, reason=CommonReason.FILTERED.outside(why))


def pair_executions(
    target: Sequence[Execution],
    golden: Sequence[Execution],
    *,
    pair_ranks: Mapping[int, int] | None,
    step_offset: int,
    is_left: LeavesOut = lambda _side, _run: False,
) -> ExecutionPairs:
    """Pair executions of equal rank, graph, step and micro step.

    A part that has one value only on each side (a single process on one side, rank 0 on the other) pairs whatever the
    values are, unless an option states the relation. What MindSpore ran as a graph is never compared with what it ran
    step by step.

    Args:
        target, golden: the executions of both sides.
        pair_ranks: target rank -> golden rank; ranks not named keep their number.
        step_offset: golden step minus target step.
        is_left: tells which executions need no counterpart.
    """
    problems: list[Diagnostic] = []
    ignored: set[str] = set()
    for part, is_stated in (("rank", bool(pair_ranks)), ("step", step_offset != 0), ("graph", False)):
        values = [{getattr(run, part) for run in side} for side in (target, golden)]
        is_single = len(values[0]) == len(values[1]) == 1
        if not is_stated and is_single and values[0] | values[1] != _WAYS_OF_RUNNING:
            ignored.add(part)
            problems += _differing(part, next(iter(values[0])), next(iter(values[1])))
    by_identity = {_identity(run, ignored): run for run in golden}
    found: dict[Execution, Execution] = {}
    for run in target:
        rank = run.rank if run.rank is None else (pair_ranks or {}).get(run.rank, run.rank)
        step = run.step if run.step is None else run.step + step_offset
        partner = by_identity.get(_identity(run, ignored, rank=rank, step=step))
        if partner is not None:
            found[run] = partner
    partners = set(found.values())
    problems += [_alone(run, "target", "golden") for run in target if run not in found and not is_left("target", run)]
    problems += [
        _alone(run, "golden", "target") for run in golden if run not in partners and not is_left("golden", run)
    ]
    unused = [*_unused_ranks(pair_ranks or {}, target, golden), *_unused_offset(step_offset, target, golden)]
    return ExecutionPairs(found, tuple(problems), tuple(unused))


def _identity(run: Execution, ignored: Collection[str], **changed: int | None) -> tuple[object, ...]:
    parts = {"rank": run.rank, "graph": run.graph, "step": run.step, **changed}
    return (*(None if part in ignored else value for part, value in parts.items()), run.micro_step)


def _differing(part: str, target: object, golden: object) -> list[Diagnostic]:
    if None in (target, golden) or target == golden:
        return []
    message = f"target {part} {target} is compared with golden {part} {golden}: neither side has another"
    return [Diagnostic("PF4202", message, severity=Severity.WARNING)]


def _unused_ranks(
    pair_ranks: Mapping[int, int], target: Sequence[Execution], golden: Sequence[Execution]
) -> list[Diagnostic]:
    ours, theirs = {run.rank for run in target}, {run.rank for run in golden}
    problems = []
    for one, other in pair_ranks.items():
        missing = [f"target rank {one}"] * (one not in ours) + [f"golden rank {other}"] * (other not in theirs)
        if missing:
            message = f"`pair_ranks` entry {one}: {other} matches nothing: there is no {' and no '.join(missing)}"
            problems.append(Diagnostic("PF4204", message, severity=Severity.WARNING))
    return problems


def _unused_offset(offset: int, target: Sequence[Execution], golden: Sequence[Execution]) -> list[Diagnostic]:
    if not offset or any(run.step is not None for run in (*target, *golden)):
        return []
    message = f"`step_offset` {offset} matches nothing: neither dump tells the steps of its executions"
    return [Diagnostic("PF4204", message, severity=Severity.WARNING, help="leave it out, or give folders of steps")]


def _alone(run: Execution, side: str, other: str) -> Diagnostic:
    return Diagnostic(
        "PF4203",
        f"{run} of the {side} has no counterpart in the {other}",
        severity=Severity.WARNING,
        help="state `pair_ranks` or `step_offset`, or narrow the dump with `select`",
    )
