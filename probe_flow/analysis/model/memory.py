"""Memory: rows that show what lay there before a call wrote it, or what nobody ever wrote.

What a call computed with is not in them: they explain nothing, and nobody is accused for them. So it is with gradients
of a cast to the type that a tensor has: it returns that tensor, and some collectors record what the call before gave.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Call, Calls
from probe_flow.analysis.flow.links import Links, Sources
from probe_flow.analysis.limits import BEYOND
from probe_flow.analysis.model.arithmetic import COPY, Families
from probe_flow.analysis.model.deviations import Deviations
from probe_flow.analysis.model.families import words_of
from probe_flow.dumps.graph.op_types import may_write_in_place
from probe_flow.records import NodeKey, Pairs, Phase, TensorKind
from probe_flow.records.row import Row

if TYPE_CHECKING:
    from probe_flow.analysis.flow.across_ranks import AcrossRanks

OVERWRITES = re.compile(r"(?i)(^|\.)(copy_?|fill_?|zero_?|normal_|uniform_|__setitem__)(_?\d+)?(\.|$)")
"""Names of calls whose first input is the memory that they write: what lay in it before is read by nobody. Of what
`__setitem__` leaves as it was, too, those that read it or made it show whether it is right; mostly it is memory as
`empty_like` hands it out, which collectors do not record."""

_FIRST = frozenset(((0,), ("self",), ("input",)))

UPDATES = "apply"
"""Word of the types of operators that update a variable and keep states beside it (``ApplyAdamD``)."""

_RULES = frozenset(("momentum", "adam", "descent", "prop", "adagrad", "max", "adadelta", "ftrl"))
"""Words of their types that say how; ``ApplyRotaryPosEmb`` has none of them."""

_CASTS = frozenset(("float", "double", "half", "bfloat16", "to", "type", "type_as"))
"""Calls that return what they got where it has the wanted type already."""

HANDS_OUT = "empty"
"""Word of the types of operators that hand out memory as it is (``Empty``, ``aten.new_empty``)."""


STATE_AGREED = (
    "a state of an optimizer, shown as the step left it; before the step it was the golden's, as computing again shows"
)
STATE_UNKNOWN = (
    "a state of an optimizer: a device may show what the step left of it, and the golden what it was before; "
    "not judged, so that another state before the step shows in the variable alone"
)


def is_as_it_began(row: Row) -> bool | None:
    """Return whether a state of an optimizer was the golden's before its step; None where that is not known."""
    own = row.recomputed
    if own is None or not own.is_of_beginning or 1.0 < own.score <= BEYOND:
        return None
    return own.score <= 1.0


def is_optimizer(op_type: str) -> bool:
    """Whether a type of operator updates a variable by its gradient.

    >>> is_optimizer("ApplyMomentumD"), is_optimizer("SparseApplyAdagrad"), is_optimizer("ApplyRotaryPosEmb")
    (True, True, False)
    """
    words = words_of(op_type)
    return UPDATES in words and not words.isdisjoint(_RULES)


def is_first_input(row: Row) -> bool:
    """Whether a row is the first input of its call, which is what a call in place overwrites."""
    return not row.is_produced and row.pair.shown.slot.path[:1] in _FIRST


def is_memory(row: Row) -> bool:
    """Whether a row is memory that its call only writes (`OVERWRITES`)."""
    return is_first_input(row) and OVERWRITES.search(row.node.name) is not None


def _shown(row: Row) -> tuple[object, object]:
    """Return type, size and statistics of target and golden; None for both where not all of it is known."""
    pair, found = row.pair, row.measurement
    if pair.target is None or found is None or found.target is None or found.golden is None:
        return None, None
    target, golden = found.target.statistics, found.golden.statistics
    if target.max is None or golden.max is None:
        return None, None
    return (pair.target.dtype, pair.target.numel, target), (pair.target.dtype, pair.target.numel, golden)


class Memory:
    """The rows of a run that show memory.

    Args:
        rows: all rows.
        pairs: what was compared.
        calls: of the rows.
        deviations: of the rows.
        families: what calls compute.
        links: gives where rows came from, when it is asked for.
        sources: gives the rows that a row came from, None = unknown.
    """

    def __init__(
        self, rows: Sequence[Row], pairs: Pairs, calls: Calls, deviations: Deviations, families: Families,
        links: Callable[[], Links], sources: Sources,
    ) -> None:  # fmt: skip
        self._rows = rows
        self._has_edges = bool(pairs.target.edges)
        self._calls = calls
        self._deviations = deviations
        self._families = families
        self._links = links
        self._sources = sources
        self._handed_out: dict[int, tuple[int, ...]] = {}
        """Rows that show memory that was handed out -> rows of what was written into it since."""
        self.states: dict[int, str] = {}
        """What is said of rows that show a state of an optimizer and are judged by nothing else."""

    def shows(self, number: int, call: Call, across: AcrossRanks | None) -> bool:
        """Whether a row shows what its call wrote over, or what nobody wrote, and not what that computed with.

        Where no edges tell who wrote it, memory that was handed out as it was is known by a call in place whose results
        agree all the same, or by views of it that nothing reads.

        Args:
            number: the row.
            call: that owns it.
            across: what calls of several ranks exchange; None where nothing communicates.
        """
        row = self._rows[number]
        if (across is not None and across.is_buffer(row)) or (row.is_produced and self._is_of_idle_cast(row, call)):
            return True
        if self._has_edges:
            if self._is_unwritten(number, call):
                return True
            return self._is_overwritten(number, call) or self._is_kept_state(number, call)
        if not (call.is_in_place and is_first_input(row)):
            is_view = self._is_unread_view(call)
            if is_view:
                self._handed_out.update(dict.fromkeys((*call.read, *call.written), ()))
            return is_view
        results = [] if self._sources(number) else [self._deviations[n] for n in call.written]
        is_agreed = bool(results) and all(each is not None and each.is_of_storage for each in results)
        return is_memory(row) or is_agreed

    def _is_overwritten(self, number: int, call: Call) -> bool:
        """Whether a device shows what an operator read as it left it: a cache, a variable that it writes in place.

        Devices write a dump when the operator is over, of both ends. The target then has one tensor on both, and the
        golden two. Where inputs alone were dumped, it is what no operator of its step gave.
        """
        row = self._rows[number]
        if row.is_produced or call.node is None or not may_write_in_place(call.node.op_type):
            return False
        if not call.written:
            given = (self._rows[n].node.execution for n in self._sources(number) or ())
            return is_first_input(row) and row.node.execution not in given
        target, golden = _shown(row)
        results = (_shown(self._rows[n]) for n in call.written) if target is not None else ()
        return any(after == target and other not in (None, golden) for after, other in results)

    def _is_of_idle_cast(self, row: Row, call: Call) -> bool:
        """Whether a gradient of a cast that had nothing to do on one side is that of the call before it there."""
        if not call.is_gradient or call.node is None or call.node.op_type.strip("_").lower() not in _CASTS:
            return False
        forward = self._calls.by_key.get(replace(call.key, phase=Phase.FORWARD))
        if forward is None or not (forward.read and forward.written and call.read):
            return False
        from probe_flow.analysis.statistics.moments import apart, moments_of  # few runs need it

        read, written = (self._rows[each[0]].pair for each in (forward.read, forward.written))
        for side in ("target", "golden"):
            one, other = getattr(read, side), getattr(written, side)
            own, reached = moments_of(row, side), moments_of(self._rows[call.read[0]], side)
            is_idle = one is not None and other is not None and one.dtype == other.dtype
            if is_idle and own is not None and reached is not None and apart(own, reached) > 1.0:
                return True
        return False

    def _is_unwritten(self, number: int, call: Call) -> bool:
        """Whether a graph shows memory as it was handed out, or what was moved out of that.

        What computes with it reads what nobody wrote, or what was written wrongly: that is no excuse.
        """
        if self._rows[number].is_produced and call.node is not None and HANDS_OUT in words_of(call.node.op_type):
            self._handed_out[number] = ()
            return True
        given = self._moved(number, call)
        if not given or not all(n in self._handed_out for n in given):
            return False
        self._handed_out[number] = self.written_into(given)
        return True

    def is_written_in_part(self, number: int, call: Call) -> bool:
        """Whether a row shows memory that was handed out and a part of which was written.

        It is asked for where what was written does not explain the row; where it does, nothing of the memory is left.
        """
        given = self._moved(number, call) if self._has_edges else ()
        if not any(n in self._handed_out for n in given):
            return False
        self._handed_out[number] = tuple(n for n in self.through(given) if n not in self._handed_out)
        return True

    def _moved(self, number: int, call: Call) -> Sequence[int]:
        """Return the rows that a row is made of, where nothing is computed; ``()`` where it is, or they are unknown."""
        if not self._handed_out or self._families.of(call) != COPY:
            return ()
        return call.read if self._rows[number].is_produced else self._sources(number) or ()

    def through(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return rows, and of those that show memory what was written into it before."""
        return (*numbers, *self.written_into(numbers)) if self._handed_out else numbers

    def written_into(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """Return the rows of what was written into memory that some rows show, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(self._handed_out.get(n, ()) for n in numbers)))

    def _is_kept_state(self, number: int, call: Call) -> bool:
        """Whether an optimizer of a device reads what it also gives, and the golden's does not.

        TensorFlow's operators give the variable alone. So what the device left of momentum has no partner, and nothing
        tells it from what it read but that it differs; what the optimizer makes of it is judged. Where computing the
        step again tells what the state was before it, that is judged.
        """
        row, deviation = self._rows[number], self._deviations[number]
        if row.is_produced or call.node is None or UPDATES not in words_of(call.node.op_type):
            return False
        target = row.pair.target
        is_given = target is not None and (target.node, target.slot.path) in self._unpaired
        if not is_given or deviation is None or deviation.nonfinite or is_as_it_began(row) is False:
            return False
        self.states[number] = STATE_AGREED if is_as_it_began(row) else STATE_UNKNOWN
        return True

    @cached_property
    def _unpaired(self) -> frozenset[tuple[NodeKey, tuple[int | str, ...]]]:
        """Results that the golden has nothing for, by call and place."""
        results = (row.pair for row in self._rows if row.is_produced and row.pair.golden is None)
        return frozenset((each.target.node, each.target.slot.path) for each in results if each.target is not None)

    def _is_unread_view(self, call: Call) -> bool:
        """Whether a call moves what nothing in the dump wrote, and nothing reads the result.

        So memory shows that is handed out as it was, to be written by calls that no collector records: the buffers
        that FSDP gathers the shards of weights in.
        """
        if self._families.of(call) != COPY or call.is_gradient or not call.written:
            return False
        tensors = [n for n in call.read if self._rows[n].pair.shown.kind is not TensorKind.SCALAR]
        if len(tensors) != 1:
            return False
        own = self._deviations[tensors[0]]
        if own is not None and own.is_of_storage and math.isfinite(own.top):
            return False  # what was read agrees, so a result that does not was moved wrongly
        given = self._sources(tensors[0])
        if given is not None and not (given and all(n in self._handed_out for n in given)):
            return False
        return not self._is_read(call.written)

    def _is_read(self, numbers: Sequence[int]) -> bool:
        """Whether a call computes with what some rows hold, or with what was moved out of them."""
        pending, seen = [*numbers], set(numbers)
        while pending:
            number = pending.pop()
            if self._constant(number) in self._read_constants:
                return True
            for reader in self._readers.get(number, ()):
                call = self._calls.of[reader]
                if call is None or self._families.of(call) != COPY:
                    return True
                pending += (n for n in call.written if n not in seen)
                seen.update(call.written)
        return False

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """The rows of other calls that read each row."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for reader, given in self._links().producers.items():
            for number in given:
                if self._rows[number].node != self._rows[reader].node:
                    found[number].append(reader)
        return found

    @cached_property
    def _read_constants(self) -> frozenset[object]:
        """Tensors of one value that calls compute with: values do not tell which of them is which."""
        reading = (call for call in self._calls if self._families.of(call) != COPY)
        return frozenset(self._constant(n) for call in reading for n in call.read) - {None}

    def _constant(self, number: int) -> object:
        row = self._rows[number]
        known = row.measurement.golden_statistics if row.measurement is not None else None
        if row.measurement is None or known is None or known.min != known.max:
            return None
        return row.node.execution.identity, row.measurement.count, known.min
