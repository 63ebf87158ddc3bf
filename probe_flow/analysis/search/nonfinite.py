"""Where NaN and infinity begin in one dump, told from what inherits them: no golden, only the dump's own values.

Each tensor that is not finite points to the one that its values come from: what its node read, else what the calls
inside it wrote, the forward pass of a gradient, other ranks of a collective; an input to what wrote it, by the graph
where there is one, else to the last thing before it that was not finite either. What points nowhere is where it begins:
an output whose inputs are finite, or an input that nothing in the dump wrote.

Infinity is often meant: masks are filled with it, and limits are given as arguments. It counts as asked for where it
comes from an argument, from an input with negative infinities alone that nothing in the dump wrote, or out of an
operator that fills (`FILLS`) or does not initialise what it returns. What was asked for fails nothing and is named
once. NaN is never asked for; where it arises from infinities that were, it begins there. Nor is a gradient: what a mask
hides has none, so infinity in one is not the mask's. And negative infinities explain no positive one by guess.

Over ranks a communication inherits what others gave, and what lay in the memory that it received into says nothing.
What begins on several ranks is told in the order of the layers of communication; what a collective itself makes begins
once, on the first rank that shows it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from probe_flow.analysis.flow.across_ranks import AcrossRanks
from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.flow.links import Links, calls_of, link
from probe_flow.analysis.flow.ordering import in_time, side_by_side
from probe_flow.analysis.model.families import is_move
from probe_flow.analysis.model.memory import is_memory
from probe_flow.analysis.search.states import EMPTY, FILLS, State, StateOf, described, is_fill, state_of
from probe_flow.records import (
    Execution,
    Finding,
    FindingKind,
    Flow,
    NodeKey,
    Pairs,
    Phase,
    Role,
    SlotRole,
    Status,
    TensorKind,
    Verdict,
)
from probe_flow.records.row import Row


def conclude_nonfinite(
    rows: Sequence[Row], pairs: Pairs, unmeasured: Callable[[Row], Verdict]
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Return where NaN and infinities begin, what happened first first, and the verdicts of all rows.

    Args:
        rows: of an examination, in execution order.
        pairs: the examined dump.
        unmeasured: gives the verdict of a row without a measurement.
    """
    search = Origins(rows, pairs, state_of)
    verdicts = [
        unmeasured(row) if row.measurement is None else search.verdict(number) for number, row in enumerate(rows)
    ]
    return tuple(search.findings()), verdicts


_FINITE = Verdict(Status.PASS, role=Role.CLEAN)


@dataclass(slots=True)
class Origins:
    """Where each row's values that are not finite come from.

    Args:
        rows, pairs: what is searched; rows in execution order.
        state: what a row holds that is not finite.
    """

    rows: Sequence[Row]
    pairs: Pairs
    state: StateOf
    states: Mapping[int, State] = field(init=False)
    """The rows that are not finite, by number."""
    unread: Mapping[int, State] = field(init=False)
    """The same of memory that a call only writes: what lay there comes from nowhere and goes nowhere."""
    calls: Calls = field(init=False)
    links: Links = field(init=False)
    across: AcrossRanks = field(init=False)
    order: Sequence[int] = field(init=False)
    feeding: set[NodeKey] = field(init=False)
    fed: set[NodeKey] = field(init=False)
    causes: dict[int, int] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)
    moved: frozenset[int] = field(init=False)
    """Rows of memory that no call computes with."""
    meant: set[int] = field(default_factory=set)
    """Rows of infinity that was asked for, and of what carries it on."""

    def __post_init__(self) -> None:
        self.calls = calls_of(self.rows, self.pairs)
        self.links = link(self.rows, self.pairs, self.calls)
        self.across = AcrossRanks(self.calls, self.rows)
        states = ((number, self.state(row)) for number, row in enumerate(self.rows))
        found = {number: state for number, state in states if state is not None}
        self.unread = {number: state for number, state in found.items() if self._is_buffer(number)}
        self.states = {number: state for number, state in found.items() if number not in self.unread}
        self.order = in_time(self.calls)
        edges = self.pairs.target.edges
        self.feeding, self.fed = {edge.producer for edge in edges}, {edge.consumer for edge in edges}
        {Flow.NONE: lambda: None, Flow.TIME: self._follow_names}.get(self.pairs.target.flow, self._follow_values)()
        for number in self.states:
            self._find_root(number)
        is_program = not edges and self.pairs.target.flow not in (Flow.NONE, Flow.TIME)
        self.moved = self._only_moved() if is_program else frozenset()

    def _only_moved(self) -> frozenset[int]:
        """Return inputs where NaN begins that no call computes with: memory as it was handed out, and views of it."""
        computed = {self.roots[number] for number in self.states if not self._is_moved(number)}
        begins = {*self.roots.values()} - computed
        return frozenset(root for root in begins if self.states[root].nan and not self.rows[root].is_produced)

    def _is_moved(self, number: int) -> bool:
        call = self.calls.of[number]
        kind = call.node.op_type if call is not None and call.node is not None else ""
        return is_move(kind) and not _is_gradient(self.rows[number])

    def verdict(self, number: int) -> Verdict:
        """Return the verdict of a measured row."""
        unread = self.unread.get(number)
        if unread is not None:
            reasons = (f"{described(self.rows[number], unread)}, in memory that the call only writes",)
            return Verdict(Status.WARNING, ("unread",), reasons, Role.CLEAN)
        root = self.roots.get(number)
        if root is None:
            return _FINITE
        reasons = (described(self.rows[number], self.states[number]),)
        if root in self.moved:
            return Verdict(Status.WARNING, ("unread",), (f"{reasons[0]}, which no call computes with",), Role.CLEAN)
        if self.is_asked(root):
            return Verdict(Status.WARNING, ("infinite",), reasons, Role.CLEAN)
        return Verdict(Status.FAIL, ("nonfinite",), reasons, Role.ORIGIN if root == number else Role.INHERITED)

    def is_asked(self, root: int) -> bool:
        """Whether what begins at a row is infinity that somebody asked for, or memory that nobody wrote."""
        row, state = self.rows[root], self.states[root]
        if row.is_produced:
            return is_fill(row, self.pairs, EMPTY if state.nan else FILLS) and not _is_gradient(row)
        if state.nan or _is_gradient(row):
            return False
        if row.pair.shown.slot.role is SlotRole.PARAMETER:
            return False
        return row.pair.shown.kind is TensorKind.SCALAR or not state.positive

    def _follow_names(self) -> None:
        """Point from each row to the first one before it of the same name that is not finite."""
        first: dict[tuple[object, ...], int] = {}
        for number in self.order:
            if number in self.states:
                run = self.rows[number].node.execution
                known = first.setdefault((run.rank, run.graph, self.rows[number].node.name), number)
                if known != number:
                    self.causes[number] = known

    def _follow_values(self) -> None:
        """Point from each row to the one that its values come from, in order of time."""
        written: defaultdict[Execution, list[int]] = defaultdict(list)
        before: defaultdict[tuple[object, ...], dict[Execution, list[int]]] = defaultdict(dict)
        read: dict[tuple[object, ...], int] = {}
        for number in self.order:
            if number not in self.states:
                continue
            row, call = self.rows[number], self.calls.of[number]
            assert call is not None
            run = row.node.execution
            if row.is_produced:
                cause = self._cause_of_output(number, call, written[run])
                written[run].append(number)
                before[run.rank, run.graph][run] = written[run]
            else:
                cause = self._cause_of_input(number, written[run])
                if cause is None:
                    cause = self._cause_in_steps(number, before[run.rank, run.graph])
                if cause is None:  # nothing wrote it: the first that read it stands for the others
                    cause = read.setdefault((run, *self._tensor_key(number)), number)
            if cause is not None and cause != number:
                self.causes[number] = cause
            begins = self.causes.get(number) is None
            if not self.states[number].nan and (self.is_asked(number) if begins else cause in self.meant):
                self.meant.add(number)

    def _cause_of_input(self, number: int, written: Sequence[int]) -> int | None:
        row = self.rows[number]
        tensor = row.pair.shown
        if tensor.kind is TensorKind.SCALAR:
            return None
        known = self.links.producers.get(number) if self.pairs.target.edges else None
        if known:
            return self._worst(number, known)
        given = self._given_to_module(number)
        if given is not None:
            return given
        is_made_outside = tensor.slot.role is SlotRole.PARAMETER or known is not None
        return None if is_made_outside else self._last_like(number, written)

    def _cause_in_steps(self, number: int, before: Mapping[Execution, Sequence[int]]) -> int | None:
        """Return what explains an input in the steps before: an optimizer makes weights of gradients that are NaN."""
        row, step = self.rows[number], self.rows[number].node.execution.step
        if row.pair.shown.kind is TensorKind.SCALAR or step is None or not self.states[number].nan:
            return None
        earlier = [rows for run, rows in before.items() if run.step is not None and run.step < step]
        found = (self._last_like(number, rows) for rows in reversed(earlier))
        return next((cause for cause in found if cause is not None and cause not in self.meant), None)

    def _given_to_module(self, number: int) -> int | None:
        """Return the parameter of a module around a call that its input is, by its shape and what it holds."""
        call, tensor = self.calls.of[number], self.rows[number].pair.shown
        for module in call.around() if call is not None and tensor.slot.role is SlotRole.INPUT else ():
            for n in module.read:
                other = self.rows[n].pair.shown
                is_parameter = other.slot.role is SlotRole.PARAMETER
                if is_parameter and other.shape == tensor.shape and self.states.get(n) == self.states[number]:
                    return n
        return None

    def _tensor_key(self, number: int) -> tuple[object, ...]:
        """Return what inputs that nothing wrote have in common if they may be one tensor, such as a network's input."""
        row = self.rows[number]
        tensor = row.pair.shown
        if tensor.slot.role is SlotRole.PARAMETER:
            return row.node.name, tensor.slot
        if tensor.kind is TensorKind.SCALAR:
            return (number,)
        assert row.measurement is not None
        return self.states[number], row.measurement.count, _is_gradient(row)

    def _cause_of_output(self, number: int, call: Call, written: Sequence[int]) -> int | None:
        """Return the row that an output comes from: of NaN one with NaN, wherever it is, before one with infinities."""
        infinite: int | None = None
        for group in self._sources(number, call):
            cause = self._worst(number, group)
            if cause is not None and (self.states[cause].nan or not self.states[number].nan):
                return cause
            infinite = cause if infinite is None else infinite
        if infinite is not None:
            return infinite
        is_known = bool(call.read) or call.key in self.links.reaching or self._is_source(call)
        return None if is_known else self._last_like(number, written)

    def _sources(self, number: int, call: Call) -> Iterator[Iterable[int]]:
        yield self.read(call)
        yield (n for n in self.links.reaching.get(call.key, ()) if not self._is_buffer(n))
        yield (n for each in self.calls.inside(call) for n in each.written)
        yield call.incoming
        yield call.forward
        yield self._received(number, call)

    def read(self, call: Call) -> list[int]:
        """Return the measured rows of what a call reads, without memory that it only writes."""
        return [n for n in call.read if not self._is_buffer(n)]

    def _received(self, number: int, call: Call) -> Iterator[int]:
        """Yield rows of other ranks that an output may come from: what they gave, then what they got out before it."""
        yield from self.across.given(call)
        partners = self.across.partners(call)
        if partners is not None and partners.is_collective:
            yield from (n for each in partners.calls for n in each.written if n < number)

    def _is_source(self, call: Call) -> bool:
        """Whether the graph says that nothing feeds a node."""
        return call.key in self.feeding and call.key not in self.fed

    def _is_buffer(self, number: int) -> bool:
        row = self.rows[number]
        return is_memory(row) or self.across.is_buffer(row)

    def _worst(self, number: int, candidates: Iterable[int]) -> int | None:
        """Return a row that explains another: one with NaN if there is one."""
        found = [n for n in candidates if n in self.states and n != number and self._may_explain(number, n)]
        return next((n for n in found if self.states[n].nan), found[0] if found else None)

    def _last_like(self, number: int, written: Sequence[int]) -> int | None:
        """Return the last row that another node wrote before and that explains a row.

        NaN is explained by NaN, that of an input also by infinity that was not asked for, of which a sum may be NaN;
        infinity by any, but negative infinity that was asked for explains no positive one.
        """
        state, node = self.states[number], self.rows[number].node

        def last(explains: Callable[[int], bool]) -> int | None:
            return next((n for n in reversed(written) if self.rows[n].node != node and explains(n)), None)

        if state.nan:
            found = last(lambda n: self.states[n].nan)
            is_done = found is not None or self.rows[number].is_produced
            return found if is_done else last(lambda n: n not in self.meant)
        return last(
            lambda n: (
                self._may_explain(number, n) and (n not in self.meant or self.states[n].positive or not state.positive)
            )
        )

    def _may_explain(self, number: int, cause: int) -> bool:
        """Whether a row may come from another by what they are: infinity of a gradient comes from no mask."""
        return cause not in self.meant or self.states[number].nan or not _is_gradient(self.rows[number])

    def _find_root(self, number: int) -> None:
        """Follow the causes of a row to where its values begin; NaN out of infinity that was meant begins with it."""
        path: dict[int, None] = {}
        at = number
        while at not in self.roots and at not in path and at in self.causes:
            path[at] = None
            at = self.causes[at]
        root = self.roots.get(at, at)
        self.roots.setdefault(at, root)
        for each in reversed(path):
            if self.states[each].nan and not self.states[root].nan and self.is_asked(root):
                root = each
            self.roots[each] = root

    def findings(self) -> Iterator[Finding]:
        """Yield what begins somewhere, each node once; what was asked for last, in one."""
        heirs = Counter(self.roots.values())
        begins = self.in_layers({root for root in heirs if root not in self.moved and not self.is_asked(root)})
        asked = self.in_layers({root for root in heirs if self.is_asked(root)})
        of_node: dict[NodeKey, list[int]] = {}
        for root in begins:
            of_node.setdefault(self.rows[root].node, []).append(root)
        for roots in of_node.values():
            yield self._finding(roots, sum(heirs[root] for root in roots) - len(roots))
        if asked:
            yield self._asked_finding(asked)

    def in_layers(self, numbers: Iterable[int]) -> list[int]:
        """Return rows in order of time: of ranks that run side by side, by the layers of their communications."""
        return side_by_side(numbers, self.order, self.rows, self.across.moment)

    def _finding(self, roots: Sequence[int], heirs: int) -> Finding:
        number, row = roots[0], self.rows[roots[0]]
        found = described(row, self.states[number])
        more = f"; {_count(len(roots) - 1, 'more tensor')} of it alike" if len(roots) > 1 else ""
        tail = f"; {_count(heirs, 'later tensor')} inherit{'s' if heirs == 1 else ''} it" if heirs else ""
        evidence = f"{found}; {self._why(number)}{more}{tail}"
        kind = FindingKind.NONFINITE_ORIGIN
        return Finding.at(number, row, kind, evidence, severity=float(heirs), size=found)

    def _why(self, number: int) -> str:
        row, call = self.rows[number], self.calls.of[number]
        assert call is not None
        if self.pairs.target.flow is Flow.NONE:
            return "nothing else in the dump bears on it"
        if not row.is_produced:
            return (
                "nothing in the dump wrote it" if row.pair.shown.kind is not TensorKind.SCALAR else "its own argument"
            )
        cause = self.causes.get(number)
        if cause is not None:
            source = self.rows[cause]
            return f"out of infinity in `{source.pair.shown.id}`, which was asked for"
        partners = self.across.partners(call)
        if partners is not None and partners.absent:
            return f"what {partners.absent} gave is not in the dump, and nothing that it read itself explains it"
        read = [n for n in self.read(call) if n not in self.states] or [
            n for n in self.links.reaching.get(call.key, ()) if n not in self.states and not self._is_buffer(n)
        ]
        given = self.across.given(call)
        if not read and not given:
            return "nothing before it in the dump is NaN or infinite"
        if given:
            ranks = sorted({str(self.rows[n].node.execution.rank) for n in given})
            return f"what it was given, and what rank {', '.join(ranks)} gave, is finite"
        sizes = [measured.metrics.get("max_abs") for n in read if (measured := self.rows[n].measurement) is not None]
        largest = max((size for size in sizes if size is not None), default=None)
        size = "" if largest is None else f", up to {largest:.3g} in size"
        return f"{'its input is' if len(read) == 1 else f'its {len(read)} inputs are'} finite{size}"

    def _asked_finding(self, asked: Sequence[int]) -> Finding:
        number, row = asked[0], self.rows[asked[0]]
        others = len(asked) - 1
        more = f"; {_count(others, 'more tensor')} alike" if others else ""
        found = described(row, self.states[number])
        evidence = f"{found}, as asked for by an argument, a mask or the operator itself{more}"
        return Finding.at(number, row, FindingKind.SUSPECT, evidence, severity=0.0, fails=False, size=found)


def _is_gradient(row: Row) -> bool:
    return row.node.phase is Phase.BACKWARD or row.pair.shown.slot.role is SlotRole.PARAMETER_GRAD


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
