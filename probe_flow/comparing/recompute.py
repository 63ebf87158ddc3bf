"""Compute suspects again from the target's own inputs: what remains is their own error, whatever came in.

Asked are, in this order: suspects, what they were computed from, what comes near to being one, and what was judged
widely or not at all because something before it is off. A call whose shapes bound what it takes is computed where the
run measures, any other in a worker process with bounded memory and time (`recompute_worker`). One that cannot be
computed keeps its judgement.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from msgspec import Struct, structs

from probe_flow.analysis.communication import PREFIXES
from probe_flow.analysis.flow.links import Given
from probe_flow.analysis.model.families import is_product
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.apis.calls import Call, Plain, TensorSpec, Tree, UnusableError, argument_leaves
from probe_flow.apis.calls import Path as Place
from probe_flow.apis.numpy_core.names import DEVICE, ONNX
from probe_flow.comparing.asked import Recompute
from probe_flow.comparing.expansions import chained, given_unseen
from probe_flow.comparing.recompute_calls import Side, with_partners
from probe_flow.comparing.recompute_worker import (
    Job,
    Outcome,
    SideCall,
    can_be_computed,
    function_of,
    is_of_framework,
    lost,
    recompute_call,
    recompute_here,
)
from probe_flow.errors import Diagnostic
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import NodeKey, Pair, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.frameworks import TORCHAIR_GE
from probe_flow.records.row import Row, Rows
from probe_flow.work import Context

LIMIT = 256
"""Calls that are computed again at most, unless all are asked for."""

LIMIT_BYTES = 2**30
"""Memory that computing one call may take."""

SMALL_BYTES = 2**27
"""Memory up to which a call is computed where the run measures: a process of its own takes 0.3 s of CPU to start."""

SECONDS = 120
"""Time that one call may take before its process is ended."""

SURE = 2
"""Suspects that are computed again whatever they cost, so long as they fit into memory."""

SHARE = 0.012
"""Elements that are computed again, as a share of those that were compared: computing costs 20 to 60 ns an element,
comparing 5 to 10. With the start of the process (0.3 s of CPU) that is a tenth of a comparison of 600 M elements."""

LEAST = 1 << 20
"""Elements that may always be computed again."""


SUM, GATE, SLOPED, CUT = "AddN", "ReluGrad", "LeakyReluGrad", "SliceD"
"""Operators of devices for what no call of a program does: autograd adds up what calls give for a result that several
read, passes a gradient through a gate in place, and cuts that of what was put together (`cat`) into its parts."""


def with_recomputed(
    rows: Rows, pairs: Pairs, diagnosis: Diagnosis, numbers: Sequence[int], wanted: Recompute, context: Context
) -> bool:
    """Give rows of results `Row.recomputed`; return whether any has it now.

    Args:
        rows: measured; changed in place.
        pairs: of the comparison.
        diagnosis: what the search found without.
        numbers: the rows that are asked about.
        wanted: how much.
        context: worker processes, events.
    """
    calls = _Calls(rows, pairs, numbers, suspects=[suspect.row for suspect in diagnosis.suspects])
    limit = wanted.limit if wanted.limit is not None else None if wanted.mode == "all" else LIMIT
    budget = _budget(rows, wanted.mode)
    jobs = dict(islice(calls.jobs(budget=budget, sure=SURE), limit))
    others = chain(_handed_jobs(rows, diagnosis.handed), _exchanged_jobs(rows, pairs, diagnosis))
    sums = dict(islice(_within(budget, others), limit))
    found = list(_computed([*jobs.values(), *sums.values()], context))
    outcomes = dict(zip(jobs, found, strict=False))
    done = 0
    for key, result in {**{key: Outcome(reason=why) for key, why in calls.refused.items()}, **outcomes}.items():
        done += _put(rows, calls.results[key], result)
        for place, fields in result.states.items():
            number = calls.inputs[key][place]
            rows[number] = rows[number].with_recomputed(**fields)
    # Last, for the arguments of a collective are refused: a group of processes is no value.
    for number, result in zip(sums, found[len(jobs) :], strict=True):
        done += _put(rows, {(0,): number}, result)
    context.emit(
        "compare.recomputed",
        calls=sum(1 for each in found if each.results),
        elements=sum(job.target.elements for job in (*jobs.values(), *sums.values())),
        cpu_s=round(sum(each.cpu_s for each in found), 6),
        import_s=round(sum(each.import_s for each in found), 6),
        left=[[key.name, each.reason] for key, each in outcomes.items() if each.reason][:LIMIT],
    )
    return done > 0


def _budget(rows: Sequence[Row], mode: str) -> float:
    if mode == "all":
        return float("inf")
    compared = sum(row.measurement.count for row in rows if row.measurement is not None)
    return max(LEAST, SHARE * compared)


def _within(budget: float, jobs: Iterable[tuple[int, Job]]) -> Iterator[tuple[int, Job]]:
    """Yield jobs until so many elements are read, but for the first few."""
    spent = 0
    for count, (number, job) in enumerate(jobs):
        spent += job.target.elements
        if count < SURE or spent <= budget:
            yield number, job


class Work(Struct, frozen=True):
    """How jobs are done.

    Args:
        needed: memory that one surely takes at most; infinity where its shapes do not bound that.
        nbytes: what one reads.
        here: does it where the run measures.
        apart: does it in a process of its own, with bounded memory.
        lost: what became of one that hangs, or ends its worker each time.
    """

    needed: Callable[[Any], float]
    nbytes: Callable[[Any], int]
    here: Callable[[Any], Any]
    apart: Callable[[Any], Any]
    lost: Callable[[Any, Diagnostic], Any]


def each_done(jobs: Sequence[Any], work: Work, context: Context) -> Iterator[Any]:
    """Yield what came of jobs, in their order: of those that surely take little, by the workers that measure."""
    small = [number for number, job in enumerate(jobs) if work.needed(job) <= SMALL_BYTES]
    large = sorted(set(range(len(jobs))) - set(small))
    found: dict[int, Any] = {}
    here, apart = work.here, work.apart
    if small:
        given, sizes = [jobs[number] for number in small], [work.nbytes(jobs[number]) for number in small]
        found |= {small[at]: each for at, each in context.map(here, given, sizes=sizes, lost=work.lost)}
    if large:
        tasks, given = context.isolate(1, SECONDS, "calls"), [jobs[number] for number in large]
        found |= {large[at]: each for at, each in tasks(apart, given, sizes=[1] * len(large), lost=work.lost)}
    yield from (found[number] for number in range(len(jobs)))


def _computed(jobs: Sequence[Job], context: Context) -> Iterator[Outcome]:
    yield from each_done(jobs, Work(_job_needs, _bytes, recompute_here, recompute_call, lost), context)


def _bytes(job: Job) -> int:
    refs = (*job.target.inputs.values(), *job.target.results.values())
    return sum(ref.nbytes or 0 for ref in refs)


def _job_needs(job: Job) -> float:
    return max(_needed(side) for side in (job.target, job.golden) if side is not None)


def _needed(side: SideCall) -> float:
    from probe_flow.apis.numpy_core.bounded import surely_bytes

    try:
        found = surely_bytes(function_of(side), side.call)
    except UnusableError:
        return math.inf if is_of_framework(side) else 0.0
    return math.inf if found is None else found


def _is_in_core(side: SideCall) -> bool:
    """Whether the core of numpy computes a call."""
    try:
        function_of(side)
    except UnusableError:
        return False
    return True


def _is_partnered(pair: Pair) -> bool:
    return pair.target is not None and pair.golden is not None and not pair.rule.is_self and not pair.is_guess


def _put(rows: Rows, results: Mapping[Place, int], outcome: Outcome) -> int:
    """Give rows what was computed of them, or why it was not; return how many were computed."""
    for place, number in results.items():
        found = outcome.results.get(place) or {"reason": outcome.reason or "its result was not computed"}
        rows[number] = rows[number].with_recomputed(**found)
    return len(outcome.results)


def _handed_jobs(rows: Sequence[Row], handed: Mapping[int, Given]) -> Iterator[tuple[int, Job]]:
    """Yield the jobs of what others gave for something that a call read, with its row.

    Those of which the elements of a tensor are not there are left out.
    """
    for number, given in handed.items():
        parts = given.rows if given.gate is None else (*given.rows, given.gate)
        pairs = [rows[n].pair for n in (number, *parts)]
        if any(pair.target is None or pair.golden is None for pair in pairs):
            continue
        targets, goldens = zip(*map(aligned_sides, pairs), strict=True)
        if all(each.kind is TensorKind.TENSOR for each in (*targets, *goldens)):
            target, golden = _given_by(given, targets), _given_by(given, goldens)
            units = {dtype: max(unit, given.cast) for dtype, unit in UNIT.items()} if given.cast else UNIT
            yield number, Job(target, golden, is_suspect=True, units=units, limit_bytes=LIMIT_BYTES)


def _exchanged_jobs(rows: Sequence[Row], pairs: Pairs, diagnosis: Diagnosis) -> Iterable[tuple[int, Job]]:
    """Return the jobs of what communications gave, which few dumps hold."""
    if not any(row.node.name.startswith(PREFIXES) for row in rows):
        return ()
    from probe_flow.comparing.exchanges import exchanged_jobs

    return exchanged_jobs(rows, pairs, diagnosis)


def _given_by(given: Given, tensors: Sequence[TensorRef]) -> SideCall:
    """Return the call that makes the first of some tensors of the others."""
    specs = [TensorSpec(each.dtype, tuple(each.logical_shape or each.shape or ())) for each in tensors]
    name = SUM if given.gate is None else SLOPED if given.slope else GATE
    kwargs: dict[str, Tree] = {"negative_slope": Plain(given.slope)} if given.slope else {}
    if given.cut is not None:
        axis, first, length = given.cut
        shape = specs[1].shape
        begin, size = ((*(0 for _ in shape[:axis]), first, *(0 for _ in shape[axis + 1 :])), [*shape])
        size[axis] = length
        name, kwargs = CUT, {"offsets": tuple(map(Plain, begin)), "size": tuple(map(Plain, size))}
    inputs: dict[Place, TensorRef] = {(place,): tensor for place, tensor in enumerate(tensors[1:])}
    call = Call(DEVICE, name, tuple(specs[1:]), kwargs, (specs[0],))
    return SideCall(call, is_mindspore=False, inputs=inputs, results={(0,): tensors[0]})


class _Calls:
    """The calls that own some rows, as they are computed again.

    Args:
        rows: all rows.
        pairs: of the comparison.
        numbers: rows of results, the most important first.
        suspects: those of them by which a search without proof would accuse a call.
    """

    def __init__(self, rows: Sequence[Row], pairs: Pairs, numbers: Sequence[int], suspects: Sequence[int] = ()) -> None:
        self._suspects = {
            row.pair.target.node for row in map(rows.__getitem__, suspects) if row.pair.target is not None
        }
        self.refused: dict[NodeKey, str] = {}  # why, of calls that are known and were dumped
        self.results: dict[NodeKey, dict[Place, int]] = {}
        self._pairs = pairs
        self._golden: dict[NodeKey, NodeKey] = {}
        for number in numbers:
            pair = rows[number].pair
            if pair.target is None or not rows[number].is_produced or pair.target.slot.role is not SlotRole.OUTPUT:
                continue
            self.results.setdefault(pair.target.node, {})[pair.target.slot.path] = number
            if pair.golden is not None and not pair.rule.is_self:
                self._golden.setdefault(pair.target.node, pair.golden.node)
        unseen = given_unseen(rows, pairs, self.results) if pairs.target.framework == TORCHAIR_GE else {}
        self._unseen = unseen
        asked = {*self.results, *(producer for _, producer, _ in unseen.values())}
        self._target = Side(pairs.target, asked)
        self._other = Side(pairs.golden, set(self._golden.values()))
        self.inputs: dict[NodeKey, dict[Place, int]] = defaultdict(dict)
        self._pairs_of: dict[NodeKey, list[Pair]] = defaultdict(list)
        for number, row in enumerate(rows):
            tensor = row.pair.target
            if tensor is None or tensor.node not in asked:
                continue
            self._pairs_of[tensor.node].append(row.pair)
            if tensor.slot.role is SlotRole.OUTPUT and tensor.node in self.results:
                self.results[tensor.node].setdefault(tensor.slot.path, number)
            elif tensor.slot.role is SlotRole.INPUT:
                self.inputs[tensor.node][tensor.slot.path] = number

    def jobs(self, *, budget: float, sure: int) -> Iterator[tuple[NodeKey, Job]]:
        """Yield the calls that are known, until so many elements are read, but for the first few."""
        spent = 0
        for count, key in enumerate(self.results):
            try:
                own = self._known(key)
            except UnusableError as error:
                if not error.is_expected:
                    self.refused[key] = error.reason
                continue
            target = self._with_unseen(key, own)
            if count >= sure and spent + target.elements > budget:
                continue
            spent += target.elements
            whole, golden = self._both(key, target)
            yield key, Job(whole, golden, key in self._suspects, UNIT, LIMIT_BYTES, is_product(own.call.api))

    def _known(self, key: NodeKey) -> SideCall:
        """Return a call that can be computed: by its own name, else by that of the call that a mapping joined it with.

        Raises:
            UnusableError: nothing computes it.
        """
        target = self._target.call(key)
        golden = None if _is_in_core(target) else self._golden_call(key)
        if golden is not None and _is_in_core(golden) and self._has_arguments_of(key, target, golden):
            named = dataclasses.replace(target.call, kind=golden.call.kind, api=golden.call.api)
            return structs.replace(target, call=named, is_mindspore=golden.is_mindspore)
        can_be_computed(target)
        return target

    def _with_unseen(self, key: NodeKey, target: SideCall) -> SideCall:
        """Return a call together with the one that gave what it read and the golden does not show, where that is known.

        What both make is what the golden shows, so that the two are understood together.
        """
        if key not in self._unseen:
            return target
        place, producer, result = self._unseen[key]
        try:
            given = self._target.call(producer)
            can_be_computed(given)
        except UnusableError:
            return target
        return chained(producer.name, given, result, target, place)

    def _has_arguments_of(self, key: NodeKey, target: SideCall, golden: SideCall) -> bool:
        """Whether both calls were recorded with the same arguments in the same places."""
        mine, other = (
            {place: leaf.shape if isinstance(leaf, TensorSpec) else leaf for place, leaf in argument_leaves(side.call)}
            for side in (target, golden)
        )
        sides = ((pair.target, pair.golden) for pair in self._pairs_of[key] if not pair.rule.is_self)
        return mine == other and all(a is None or b is None or a.slot == b.slot for a, b in sides)

    def _both(self, key: NodeKey, target: SideCall) -> tuple[SideCall, SideCall | None]:
        """Return a call, with what is known of its inputs, and the same call of the golden.

        What an operator of a graph computes is told by its type and its graph, which may say less than what it does: it
        is fused, or was given another meaning. So it is understood where it makes the golden's result of the golden's
        tensors, and of weights that the golden does not show, which are right then too.
        """
        if target.call.kind == ONNX:
            return self._of_models(key, target)
        if target.call.kind not in ("", DEVICE):
            return target, self._golden_call(key)
        nodes = (key, self._unseen[key][1]) if key in self._unseen else (key,)
        pairs = [pair for node in nodes for pair in self._pairs_of[node]]
        sides = {id(pair.target): aligned_sides(pair)[1] for pair in pairs if _is_partnered(pair)}
        inputs, results = (
            {place: sides[id(ref)] for place, ref in part.items() if id(ref) in sides}
            for part in (target.inputs, target.results)
        )
        fed = {each for node in nodes for each in self._target.fed(node)}
        hides = any(
            place not in inputs and id(ref) not in fed and "float" in ref.dtype for place, ref in target.inputs.items()
        )
        golden = with_partners(target, inputs, results)
        if golden is not None and target.before and (other := self._golden_call(key)) is not None:
            golden = structs.replace(golden, before=other.before)
        return structs.replace(target, has_hidden=hides), golden

    def _of_models(self, key: NodeKey, target: SideCall) -> tuple[SideCall, SideCall | None]:
        """Return the same for ONNX: where the golden's operator is of the same type, what others give it."""
        weights = self._target.weights(target)
        hides = any("float" in target.inputs[place].dtype for place in weights)
        whole = structs.replace(target, has_hidden=hides)
        golden = self._golden_call(key)
        if golden is None or (golden.call.kind, golden.call.api) != (ONNX, target.call.api):
            return whole, None
        given = {place: ref for place, ref in golden.inputs.items() if place in target.inputs.keys() - weights}
        return whole, with_partners(target, given, golden.results)

    def _golden_call(self, key: NodeKey) -> SideCall | None:
        try:
            return self._other.call(self._golden[key]) if key in self._golden else None
        except UnusableError:
            return None
