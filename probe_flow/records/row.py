"""Rows of the result, from what is measured to what is judged, and the order in which they come."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic
from probe_flow.records.catalog import Catalog
from probe_flow.records.figures import AT_ONCE, Integers
from probe_flow.records.measurement import Measurement, Mode
from probe_flow.records.node import Execution, NodeKey
from probe_flow.records.pairs import Many, Pair, Pairs, numbers_for, some_of
from probe_flow.records.tensor import places_in
from probe_flow.records.tensor_traits import Slot, SlotRole
from probe_flow.records.verdict import Status, Verdict

_ROLE_ORDER = {
    SlotRole.INPUT: 0,
    SlotRole.PARAMETER: 1,
    SlotRole.BUFFER: 2,
    SlotRole.OUTPUT: 3,
    SlotRole.PARAMETER_GRAD: 4,
    SlotRole.DEBUG: 5,
    SlotRole.CALL: 6,
}

PRODUCED = frozenset({SlotRole.OUTPUT, SlotRole.PARAMETER_GRAD, SlotRole.DEBUG})
"""Slots that a node writes; the others it reads."""

_STATISTICS = Mode.STATISTICS


class ThirdSide(Struct, frozen=True, gc=False):
    """What was measured of a row's two sides against its reference (which is the ``golden`` of both measurements)."""

    target: Measurement
    golden: Measurement


class Pick(Struct, frozen=True, gc=False):
    """What the target's own input says of indices that differ from the golden's.

    Args:
        gap: largest distance of a picked value from the one that was due, in units of the input; inf where an index is
            out of range.
        slot: of the input.
    """

    gap: float
    slot: Slot


CHANNEL = "channel"


class Recomputed(Struct, frozen=True, gc=False):
    """How far a result is from what the inputs of its own side make, computed again in float64.

    Args:
        figure: the worst one: ``rms``, ``gain`` or ``slice`` (of the worst channel or row), which are relative, or
            ``peak``, in units of the tensor; `CHANNEL`: nothing computed it, and its worst channel is further from the
            golden than all others (`comparing.channels`).
            `BEGAN`: of a state of an optimizer, before its step and against the golden's.
        found: its size.
        explained: what rounding explains of it, and of a channel what the inputs do.
        score: its size over what no right result reaches; 0 where nothing was computed.
        nonfinite: elements that are NaN or infinite on one side only.
        golden: ``score`` of the golden's result, from the golden's inputs; None where that was not computed.
        reason: why nothing was computed; empty where it was.
        by: the framework that computed it, and its precision; `HF32`: of inputs rounded so; empty for numpy's float64.
    """

    BEGAN: ClassVar[str] = "began"
    HF32: ClassVar[str] = "HF32"

    figure: str = ""
    found: float = 0.0
    explained: float = 0.0
    score: float = 0.0
    nonfinite: int = 0
    golden: float | None = None
    reason: str = ""
    by: str = ""

    @property
    def is_in_hf32(self) -> bool:
        """Whether it is right for a device that rounds what it multiplies to HF32."""
        return self.by == self.HF32

    @property
    def is_of_beginning(self) -> bool:
        """Whether it says how far a state was from the golden's before its step."""
        return self.figure == self.BEGAN


class Quantised(Struct, frozen=True, gc=False):
    """What rounding and clipping its input to whole numbers of few bits made of a product's result.

    Args:
        rms, peak, offset: root mean square, largest and mean error, in units of the tensor.
        gain: common factor of the error and the result.
        channels: root mean square error of each channel.
        told: in words, that the scale is a bad one, so that this is no excuse; empty of a good one.
    """

    rms: float
    peak: float
    gain: float
    offset: float
    channels: tuple[float, ...]
    told: str = ""


class Aside(Struct, frozen=True, gc=False):
    """What few rows have before they are judged.

    Args:
        failure: why a two-sided pair has no measurement.
        third: both sides against the reference.
        noise: each side against its repeated runs.
        pick: of indices that differ (argmax, top k), where the input that they were picked from is at hand.
        alone: what was measured of a tensor that only the target has, where NaN or infinity is on one side only.
        recomputed: how far it is from what its own inputs make.
        quantised: what it is off by because its input was quantised, where that was computed.
    """

    failure: Diagnostic | None = None
    third: ThirdSide | None = None
    noise: tuple[Row, ...] = ()
    pick: Pick | None = None
    alone: Measurement | None = None
    recomputed: Recomputed | None = None
    quantised: Quantised | None = None


_NOTHING = Aside()
"""The same object for nearly all rows."""

_UNMATCHED = frozenset({Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN})

UNJUDGED = Verdict(Status.SKIPPED)
"""The verdict of rows until they have one."""


class Row(Struct, frozen=True, gc=False):
    """One row of the result: a pair with what was measured of it and, once it is judged, the verdict.

    Args:
        pair: what was compared.
        measurement: what was measured of it.
        verdict: what the policy and the analysis say of it.
        order: its number in execution order.
        aside: what few rows have.
    """

    pair: Pair
    measurement: Measurement | None = None
    verdict: Verdict = UNJUDGED
    order: int = 0
    aside: Aside = _NOTHING

    def with_aside(self, **changes: Any) -> Row:
        """Return the row with other values of some fields of `aside`."""
        return replace(self, aside=replace(self.aside, **changes))

    def with_recomputed(self, **found: Any) -> Row:
        """Return the row with what computing it again gave: the fields of `Recomputed`."""
        return self.with_aside(recomputed=Recomputed(**found))

    @property
    def failure(self) -> Diagnostic | None:
        """Why a two-sided pair has no measurement."""
        return self.aside.failure

    @property
    def third(self) -> ThirdSide | None:
        """Both sides against the reference."""
        return self.aside.third

    @property
    def noise(self) -> tuple[Row, ...]:
        """Each side against its repeated runs."""
        return self.aside.noise

    @property
    def pick(self) -> Pick | None:
        """Of indices that differ, where the input that they were picked from is at hand."""
        return self.aside.pick

    @property
    def recomputed(self) -> Recomputed | None:
        """How far it is from what its own inputs make, where that was computed."""
        return self.aside.recomputed

    @property
    def quantised(self) -> Quantised | None:
        """What quantising the input of a product made of it, where that was computed and the scale is a good one."""
        found = self.aside.quantised
        return None if self.bad_scale else found

    @property
    def bad_scale(self) -> str:
        """What is wrong with the scale that the input of a product was quantised with, in words; empty: nothing."""
        return self.aside.quantised.told if self.aside.quantised is not None else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is said of the verdict, a sentence each; of one-sided rows first why they are alone."""
        reasons, why = self.verdict.reasons, self.pair.reason
        return (why.text, *reasons) if why is not None and self.verdict.status in _UNMATCHED else reasons

    @property
    def node(self) -> NodeKey:
        """The node that owns the row (the target's, if there is one)."""
        tensor = self.pair.target or self.pair.golden  # `Pair.shown`, asked for ten times a row
        assert tensor is not None
        return tensor.node

    @property
    def slot_role(self) -> SlotRole:
        """What its tensor is to its node."""
        tensor = self.pair.target or self.pair.golden
        assert tensor is not None
        return tensor.traits.slot.role

    @property
    def is_by_statistics(self) -> bool:
        """Whether statistics are all that is known of the tensors."""
        return self.measurement is not None and self.measurement.table.mode is _STATISTICS

    @property
    def is_produced(self) -> bool:
        """Whether the row's tensor was written by its node."""
        tensor = self.pair.target or self.pair.golden
        assert tensor is not None
        return tensor.traits.slot.role in PRODUCED  # `TensorRef.slot`, asked for ten times a row


class ManyRows(Many[Row]):
    """Rows of which any may be replaced as long as they have no verdicts."""

    @property
    @abstractmethod
    def verdicts(self) -> Sequence[Verdict]:
        """The verdict of each row."""

    @abstractmethod
    def __setitem__(self, number: int, row: Row) -> None:
        """Have another row of the same pair."""

    @abstractmethod
    def judged(self, verdicts: Sequence[Verdict]) -> ManyRows:
        """Return the rows with their verdicts and numbers, and without what only judging needs."""

    @abstractmethod
    def numbers_of_pairs(self, begin: int, end: int) -> Sequence[int]:
        """Return which pairs those of neighbours are, in the order in which the pairs were made."""


Rows: TypeAlias = list[Row] | ManyRows
"""Rows of which some may be replaced."""


def verdicts_of(rows: Sequence[Row]) -> Sequence[Verdict]:
    """Return the verdict of each row."""
    return rows.verdicts if isinstance(rows, ManyRows) else [row.verdict for row in rows]


def in_execution_order(pairs: Pairs) -> Sequence[Pair]:
    """Return the pairs by rank, graph, step, node order, inputs before outputs, then as their dump lists them.

    Golden-only rows follow the target's rows of the same execution, since the two sides' clocks cannot be compared.
    """
    places, runs = _places(pairs), _by_run(pairs.pairs)
    numbers = numbers_for(pairs.pairs, len(pairs.pairs))
    nodes = (
        owned[key]
        for run in sorted(runs)  # of one at a time it is known whose pairs are whose, which takes 200 bytes a node
        for some, catalog in zip(runs[run], (pairs.target, pairs.golden), strict=True)
        if (owned := _by_owner(map(numbers.__getitem__, some), pairs.pairs))
        for key in _nodes_in_order([*owned], catalog)
    )
    return some_of(pairs.pairs, (number for found in nodes for number in _in_order(found, pairs.pairs, places)))


def _places(pairs: Pairs) -> Integers:
    """Return where the tensor that names its row stands in its dump, of each pair; 0 of tensors that no dump has."""
    alone = {id(pair.golden) for pair in pairs.pairs if pair.target is None}
    of_target = places_in(pairs.target.tensors)
    of_golden = places_in(pairs.golden.tensors, among=alone) if alone else of_target
    found = array("I")
    for begin in range(0, len(pairs.pairs), AT_ONCE):
        part = pairs.pairs[begin : begin + AT_ONCE]
        targets = of_target([pair.target for pair in part if pair.target is not None])
        goldens = of_golden([pair.shown for pair in part if pair.target is None])
        found.extend(next(goldens if pair.target is None else targets) or 0 for pair in part)
    return found


def _by_owner(numbers: Iterable[int], pairs: Sequence[Pair]) -> dict[NodeKey, list[int]]:
    """Return the numbers of the pairs of each node of the target, of others of the golden."""
    owned: dict[NodeKey, list[int]] = {}
    for number in numbers:
        pair = pairs[number]
        tensor = pair.target or pair.golden
        assert tensor is not None
        found = owned.get(tensor.node)
        if found is None:
            found = owned[tensor.node] = []
        found.append(number)
    return owned


def _in_order(found: list[int], pairs: Sequence[Pair], places: Integers) -> list[int]:
    """Sort the pairs of one node, which mostly are in order."""
    last = -1, -1
    for number in found:
        pair = pairs[number]
        tensor = pair.target or pair.golden
        assert tensor is not None
        begins = _ROLE_ORDER[tensor.slot.role], places[number]
        if begins <= last:
            return sorted(found, key=lambda number: _pair_key(pairs[number], places[number]))
        last = begins
    return found


_RunKey: TypeAlias = tuple[int, tuple[int, int, str], int, int]


def _by_run(pairs: Sequence[Pair]) -> dict[_RunKey, tuple[Integers, Integers]]:
    """Return the numbers of the pairs of each execution, by what these are sorted by: the target's, the golden's."""
    found: dict[_RunKey, tuple[Integers, Integers]] = {}
    run: Execution | None = None
    members = array("I"), array("I")
    for number, pair in enumerate(pairs):
        tensor = pair.target or pair.golden
        assert tensor is not None
        if tensor.node.execution is not run:  # neighbours mostly share the object; hashing one for each would take long
            run = tensor.node.execution
            members = found.setdefault(_run_key(run), (array("I"), array("I")))
        members[pair.target is None].append(number)
    return found


def _nodes_in_order(keys: Sequence[NodeKey], catalog: Catalog) -> Sequence[NodeKey]:
    """Sort the nodes of one execution, which mostly are in order: then no key is held, which takes 200 bytes a node."""

    def place(key: NodeKey) -> tuple[int, str, int, str]:
        node = catalog.nodes.get(key)
        return node.order if node else 0, key.name, key.call, key.phase._value_

    if all(one <= other for one, other in pairwise(map(place, keys))):
        return keys
    return sorted(keys, key=place)


def _run_key(run: Execution) -> _RunKey:
    return number_or_first(run.rank), mixed(run.graph), number_or_first(run.step), number_or_first(run.micro_step)


def _pair_key(pair: Pair, place: int) -> tuple[object, ...]:
    tensor = pair.shown
    return (
        _ROLE_ORDER[tensor.slot.role],
        place,
        tuple(map(mixed, tensor.slot.path)),
        pair.golden.id if pair.golden else "",
        pair.rule.name,
    )


def number_or_first(value: int | None) -> int:
    """Return what a part of an execution is sorted by: unknown ones come first."""
    return -1 if value is None else value


def mixed(value: int | str | None) -> tuple[int, int, str]:
    """Order None, then numbers by value, then text."""
    if value is None:
        return 0, 0, ""
    if isinstance(value, int):
        return 1, value, ""
    return 2, 0, value


def by_node(rows: Sequence[Row]) -> Iterator[list[int]]:
    """Yield the numbers of the rows of each node, which follow each other; golden-only rows form nodes of their own."""
    numbers = numbers_for(rows, len(rows))
    for _, owned in groupby(
        islice(numbers, len(rows)), key=lambda number: (rows[number].pair.target is None, rows[number].node)
    ):
        yield list(owned)
