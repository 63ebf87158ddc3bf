"""The calls of many ranks: how those of one execution are connected is held once for all that run the same.

A call is made when it is asked for. Of an execution there is no more than where its rows begin.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from probe_flow.analysis.flow.calls import GRADIENTS, Call, Calls
from probe_flow.records import Catalog, Execution, NodeKey, Pairs, Phase
from probe_flow.records.figures import Integers
from probe_flow.records.row import ManyRows, Row
from probe_flow.records.tables.blocks import Blocks
from probe_flow.records.tensor import ManyTensors
from probe_flow.relations.call_tree import call_trees

HELD = 1 << 13
"""Calls that are held: those of a rank of ordinary size."""

_NO_CALL = -1

_Name = tuple[int, str, int, Phase]
"""Which of the executions of its line a call is of, and the rest of its key."""


class _Lists(Struct, gc=False):
    """A list of integers for each call.

    Args:
        ends: of each call, where its integers end in the others.
        values: of all calls.
    """

    ends: Integers
    values: Integers

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> _Lists:
        return cls(array("I", accumulate(map(len, lists))), array("i", [each for some in lists for each in some]))

    def __getitem__(self, number: int) -> Integers:
        return self.values[self.ends[number - 1] if number else 0 : self.ends[number]]


class _Line(Struct, gc=False):
    """How the calls of an execution are connected; rows and calls are counted from its first ones.

    Executions that differ in their device alone are one line, since their rows may take turns.

    Args:
        names: of the calls.
        owners: of each row the call, or `_NO_CALL`.
        containers: of each call the one around it, or `_NO_CALL`.
        reads, writes, forward, incoming: rows, as `Call` has them.
        inside: calls.
    """

    names: tuple[_Name, ...]
    owners: Integers
    containers: Integers
    reads: _Lists
    writes: _Lists
    forward: _Lists
    incoming: _Lists
    inside: _Lists

    @classmethod
    def of(cls, calls: Calls, runs: Sequence[Execution], first: int) -> _Line:
        """Return that of calls, whose first row has a number."""
        places = {id(call): place for place, call in enumerate(calls)}
        places[id(None)] = _NO_CALL
        known = {run: place for place, run in enumerate(runs)}

        def rows(lists: Iterable[Sequence[int]]) -> _Lists:
            return _Lists.of([[number - first for number in some] for some in lists])

        keys = [call.key for call in calls]
        return cls(
            tuple([(known[key.execution], key.name, key.call, key.phase) for key in keys]),
            array("i", [places[id(call)] for call in calls.of]),
            array("i", [places[id(call.container)] for call in calls]),
            rows(call.read for call in calls),
            rows(call.written for call in calls),
            rows(call.forward for call in calls),
            rows(call.incoming for call in calls),
            _Lists.of([[places[id(each)] for each in calls.inside(call)] for call in calls]),
        )


class _Known(Struct, dict=True, eq=False):
    """A line that executions share, and which of its calls communicate or compute gradients."""

    line: _Line
    communicating: tuple[int, ...]
    derivatives: tuple[int, ...]

    @cached_property
    def numbers(self) -> Mapping[_Name, int]:
        """Number of each call by its name."""
        return {name: number for number, name in enumerate(self.line.names)}

    @cached_property
    def gradients(self) -> Mapping[tuple[int, str], int]:
        """Number of each call that has the gradients of parameters, by execution and name."""
        names = enumerate(self.line.names)
        return {(run, name): number for number, (run, name, _, _) in names if name.endswith(GRADIENTS)}


class _Placed(Struct, gc=False, eq=False):
    """Where the calls of some executions begin.

    Args:
        runs: the executions.
        known: how they are connected.
        row, call: numbers of the first ones.
    """

    runs: tuple[Execution, ...]
    known: _Known
    row: int
    call: int


class ManyCalls(Calls):
    """Calls of the target that are made when they are asked for: nothing may tell them apart by identity.

    Args:
        rows: in execution order.
        pairs: of the comparison.
    """

    def __init__(self, rows: ManyRows, pairs: Pairs) -> None:
        self._node_like = pairs.target.node_like
        self._placed: list[_Placed] = []
        self._by_run: dict[Execution, tuple[_Placed, int]] = {}
        self._made: dict[int, Call] = {}
        self._count = 0
        alike, seen = _Alike(pairs.target), _Seen(pairs)
        for begin, end in _lines(rows):
            some = rows[begin:end]
            key = alike.key(some)
            runs, known = seen.known(some, begin) if key is None else seen.like(key, some, begin)
            placed = _Placed(runs, known, begin, self._count)
            self._placed.append(placed)
            self._by_run.update({run: (placed, number) for number, run in enumerate(runs)})
            self._count += len(known.line.names)
        self._row_begins = [each.row for each in self._placed]
        self._call_begins = [each.call for each in self._placed]
        self.of = _OfRows(self, len(rows))
        self.by_key = _ByKey(self)
        self.communicating = [self.made(each.call + n) for each in self._placed for n in each.known.communicating]
        gradients = (self.made(each.call + n) for each in self._placed for n in each.known.derivatives)
        self._derivatives = {call.key for call in gradients}

    def __iter__(self) -> Iterator[Call]:
        return map(self.made, range(self._count))

    def __len__(self) -> int:
        return self._count

    @property
    def derivatives(self) -> AbstractSet[NodeKey]:
        """The operators of graphs that compute gradients."""
        return self._derivatives

    @property
    def executions(self) -> Sequence[Execution]:
        """Those that have calls, in order of first appearance."""
        return [*self._by_run]

    def place(self, call: Call) -> int:
        """Return the number of a call."""
        found = self.numbered(call.key)
        assert found is not None
        return found[0].call + found[1]

    def inside(self, module: Call) -> Sequence[Call]:
        """Return the calls that a call contains."""
        found = self.numbered(module.key)
        if found is None:
            return ()
        placed, number = found
        return [self.made(placed.call + each) for each in placed.known.line.inside[number]]

    def gradients_of(self, module: Call) -> Call | None:
        """Return the call that holds the gradients of a module's parameters."""
        placed, run = self._by_run.get(module.key.execution, (None, 0))
        number = None if placed is None else placed.known.gradients.get((run, module.key.name + GRADIENTS))
        return None if placed is None or number is None else self.made(placed.call + number)

    def numbered(self, key: NodeKey) -> tuple[_Placed, int] | None:
        """Return where a call is, and its number there; None where there is no such call."""
        placed, run = self._by_run.get(key.execution, (None, 0))
        if placed is None:
            return None
        number = placed.known.numbers.get((run, key.name, key.call, key.phase))
        return None if number is None else (placed, number)

    def made(self, number: int) -> Call:
        """Return a call by its number."""
        found = self._made.get(number)
        if found is not None:
            return found
        placed = self._placed[bisect_right(self._call_begins, number) - 1]
        line, own, begin = placed.known.line, number - placed.call, placed.row
        run, name, call, phase = line.names[own]
        key = NodeKey(placed.runs[run], name, call, phase)
        if len(self._made) >= HELD:
            self._made.clear()
        found = self._made[number] = Call(
            key, self._node_like(key), _bare(line.reads[own], begin), _bare(line.writes[own], begin), None,
            _rows(line.forward[own], begin), _rows(line.incoming[own], begin),
        )  # fmt: skip
        container = line.containers[own]
        if container != _NO_CALL:
            found.container = self.made(placed.call + container)
        return found

    def of_rows(self, begin: int, end: int) -> Iterator[Call | None]:
        """Yield the calls of neighbouring rows."""
        number = bisect_right(self._row_begins, begin) - 1
        while begin < end:
            placed = self._placed[number]
            owners = placed.known.line.owners
            until = min(end, placed.row + len(owners))
            for owner in owners[begin - placed.row : until - placed.row]:
                yield None if owner == _NO_CALL else self.made(placed.call + owner)
            begin, number = until, number + 1


class _Seen:
    """Lines that were met.

    Args:
        pairs: of the comparison.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs, self._trees = pairs, call_trees(pairs.target)
        self._known: list[_Known] = []
        self._by_key: dict[Hashable, _Known] = {}

    def known(self, rows: Sequence[Row], begin: int) -> tuple[tuple[Execution, ...], _Known]:
        """Return the executions of rows, and how their calls are connected."""
        calls = Calls(rows, self._pairs, begin, self._trees)
        runs = tuple(calls.executions)
        line = _Line.of(calls, runs, begin)
        found = next((each for each in self._known if each.line == line), None)
        if found is None:
            talk, gradients = {*calls.communicating}, calls.derivatives
            found = _Known(
                line,
                tuple([number for number, call in enumerate(calls) if call in talk]),
                tuple([number for number, call in enumerate(calls) if call.key in gradients]),
            )
            self._known.append(found)
        return runs, found

    def like(self, key: Hashable, rows: Sequence[Row], begin: int) -> tuple[tuple[Execution, ...], _Known]:
        """Return the same of rows that are like all others of a key."""
        found = self._by_key.get(key)
        if found is None:
            runs, self._by_key[key] = self.known(rows, begin)
            return runs, self._by_key[key]
        return (next(row.pair.target.node.execution for row in rows if row.pair.target is not None),), found


class _Alike:
    """Tells of the rows of an execution what their calls follow from, where that is little.

    Args:
        catalog: the target.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._tensors = catalog.tensors
        self._ran = {each.execution: each for each in catalog.ran}
        self._others = {node.key.execution for node in catalog.undumped}

    def key(self, rows: Sequence[Row]) -> Hashable:
        """Return what rows have in common with others whose calls are connected alike; None where that is not known.

        Those are rows of one execution: of the same tensors of its program, and the same of them measured.
        """
        targets = [row.pair.target for row in rows]
        known = [target for target in targets if target is not None]
        runs = {id(target.node.execution): target.node.execution for target in known}
        ran = self._ran.get(next(iter(runs.values()))) if len(runs) == 1 else None
        if ran is None or ran.execution in self._others or not isinstance(self._tensors, ManyTensors):
            return None
        places = [*self._tensors.places(known)]
        first = places[0]
        if first is None or None in places:
            return None
        which = array("q", [place - first for place in places if place is not None])
        begins = known[0].node.name, known[0].node.call, known[0].node.phase, known[0].slot
        are_measured = bytes([row.measurement is not None for row in rows])
        are_known = bytes([target is not None for target in targets])
        return id(ran.program), id(ran.held), begins, which.tobytes(), are_measured, are_known


def _bare(rows: Integers, begin: int) -> int | tuple[int, ...]:
    return begin + rows[0] if len(rows) == 1 else _rows(rows, begin)


def _rows(rows: Integers, begin: int) -> tuple[int, ...]:
    return tuple([begin + row for row in rows])


def _lines(rows: ManyRows) -> Iterator[tuple[int, int]]:
    """Yield where rows of executions begin and end that are the same but for their device."""
    begin, run, identity = 0, None, None
    for number, row in enumerate(rows):
        target = row.pair.target
        if target is None or target.node.execution is run:  # what the golden alone has comes behind
            continue
        run = target.node.execution
        if identity is not None and run.identity != identity:
            yield begin, number
            begin = number
        identity = run.identity
    yield begin, len(rows)


class _OfRows(Blocks[Call | None]):
    def __init__(self, calls: ManyCalls, count: int) -> None:
        super().__init__(count)
        self._calls = calls

    def _made(self, begin: int, end: int) -> Sequence[Call | None]:
        return [*self._calls.of_rows(begin, end)]


class _ByKey(Mapping[NodeKey, Call]):
    def __init__(self, calls: ManyCalls) -> None:
        self._calls = calls

    def __getitem__(self, key: NodeKey) -> Call:
        found = self._calls.numbered(key)
        if found is None:
            raise KeyError(key)
        placed, number = found
        return self._calls.made(placed.call + number)

    def get(self, key: NodeKey, default: Call | None = None, /) -> Call | None:  # type: ignore[override]
        """Return the call of a node, the default where there is none."""
        found = self._calls.numbered(key)
        return default if found is None else self._calls.made(found[0].call + found[1])

    def __iter__(self) -> Iterator[NodeKey]:
        return (call.key for call in self._calls)

    def __len__(self) -> int:
        return len(self._calls)
