"""Compute suspects again from the target's own inputs: what remains is their own error, whatever came in.

Asked are, in this order: suspects, what they were computed from, what comes near to being one, and what was judged
widely or not at all because something before it is off. Each call is computed in a worker process
(`recompute_worker`), with bounded memory and time; one that cannot be computed keeps its judgement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import structs

from probe_flow.analysis.model.deviation import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.analysis.search.near_misses import ALONE
from probe_flow.apis.calls import Call, TensorSpec, UnusableError, argument_leaves, leaves, read_call, read_gradients
from probe_flow.apis.calls import Path as Place
from probe_flow.comparing.asked import Recompute
from probe_flow.comparing.recompute_worker import Job, Outcome, SideCall, function_of, lost, recompute_call
from probe_flow.errors import ProbeFlowError
from probe_flow.records import Catalog, Execution, NodeKey, NodeKind, Pairs, Phase, SlotRole, TensorKind, TensorRef
from probe_flow.records.frameworks import MINDSPORE
from probe_flow.records.row import Row
from probe_flow.work import Context, no_processes

LIMIT = 256
"""Calls that are computed again at most, unless all are asked for."""

LIMIT_BYTES = 2**30
"""Memory that computing one call may take."""

SECONDS = 120
"""Time that one call may take before its process is ended."""

SURE = 2
"""Suspects that are computed again whatever they cost, so long as they fit into memory."""

SHARE = 0.012
"""Elements that are computed again, as a share of those that were compared: computing costs 20 to 60 ns an element,
comparing 5 to 10. With the start of the process (0.3 s of CPU) that is a tenth of a comparison of 600 M elements."""

LEAST = 1 << 20
"""Elements that may always be computed again."""

DUMP_JSON = "dump_json"


def with_recomputed(rows: list[Row], pairs: Pairs, diagnosis: Diagnosis, wanted: Recompute, context: Context) -> bool:
    """Give rows of results `Row.recomputed`; return whether any has it now.

    Args:
        rows: measured; changed in place.
        pairs: of the comparison.
        diagnosis: what the search found without.
        wanted: how much.
        context: worker processes, events.
    """
    if wanted.mode == "never" or context.isolate is no_processes:
        return False
    numbers = list(_candidates(rows, diagnosis, wanted.mode))
    if not numbers:
        return False
    calls = _Calls(rows, pairs, numbers, suspects=[suspect.row for suspect in diagnosis.suspects])
    limit = wanted.limit if wanted.limit is not None else None if wanted.mode == "all" else LIMIT
    jobs = dict(islice(calls.jobs(budget=_budget(rows, wanted.mode), sure=SURE), limit))
    found = _computed(list(jobs.values()), context) if jobs else []
    outcomes = dict(zip(jobs, found, strict=True))
    done = 0
    for key, result in {**{key: Outcome(reason=why) for key, why in calls.refused.items()}, **outcomes}.items():
        done += _put(rows, calls.results[key], result)
    context.emit(
        "compare.recomputed",
        calls=sum(1 for each in found if each.results),
        elements=sum(job.target.elements for job in jobs.values()),
        cpu_s=round(sum(each.cpu_s for each in found), 6),
        left=[[key.name, each.reason] for key, each in outcomes.items() if each.reason][:LIMIT],
    )
    return done > 0


def _candidates(rows: Sequence[Row], diagnosis: Diagnosis, mode: str) -> Iterator[int]:
    """Yield rows of results that are asked about, the most important first, some of them twice."""
    if mode == "all":
        yield from (number for number in diagnosis.order if rows[number].is_produced)
        return
    is_open = bool(diagnosis.suspects or diagnosis.random or diagnosis.decided)
    if not is_open and not any(diagnosis.scores.get(number, 0.0) >= ALONE for number in diagnosis.near):
        return
    suspects = [suspect.row for suspect in diagnosis.suspects]
    yield from suspects
    yield from diagnosis.random
    yield from diagnosis.decided
    for number in suspects:
        yield from diagnosis.fed_by.get(number, ())
    for number in diagnosis.near:
        yield number
        yield from diagnosis.fed_by.get(number, ())
    yield from diagnosis.unjudged
    yield from (number for number in diagnosis.order if number in diagnosis.tainted)


def _budget(rows: Sequence[Row], mode: str) -> float:
    if mode == "all":
        return float("inf")
    compared = sum(row.measurement.count for row in rows if row.measurement is not None)
    return max(LEAST, SHARE * compared)


def _computed(jobs: Sequence[Job], context: Context) -> list[Outcome]:
    """Return what came of jobs, in their order."""
    tasks = context.isolate(1, SECONDS, "calls")
    found = dict(tasks(recompute_call, jobs, sizes=[1] * len(jobs), lost=lost))
    return [found[number] for number in range(len(jobs))]


def _put(rows: list[Row], results: Mapping[Place, int], outcome: Outcome) -> int:
    """Give rows what was computed of them, or why it was not; return how many were computed."""
    for place, number in results.items():
        found = outcome.results.get(place) or {"reason": outcome.reason or "its result was not computed"}
        rows[number] = rows[number].with_recomputed(**found)
    return len(outcome.results)


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
        self._target = _Side(pairs.target, self.results)
        self._other = _Side(pairs.golden, set(self._golden.values()))
        for number, row in enumerate(rows):
            tensor = row.pair.target
            if tensor is not None and tensor.node in self.results and tensor.slot.role is SlotRole.OUTPUT:
                self.results[tensor.node].setdefault(tensor.slot.path, number)

    def jobs(self, *, budget: float, sure: int) -> Iterator[tuple[NodeKey, Job]]:
        """Yield the calls that are known, until so many elements are read, but for the first few."""
        spent = 0
        for count, key in enumerate(self.results):
            try:
                target = self._target.call(key)
                function_of(target)
            except UnusableError as error:
                if not error.is_expected:
                    self.refused[key] = error.reason
                continue
            if count >= sure and spent + target.elements > budget:
                continue
            spent += target.elements
            yield key, Job(target, self._golden_call(key), key in self._suspects, UNIT, LIMIT_BYTES)

    def _golden_call(self, key: NodeKey) -> SideCall | None:
        try:
            return self._other.call(self._golden[key]) if key in self._golden else None
        except UnusableError:
            return None


class _Side:
    """The calls of one catalog: their entries, and their tensors by place.

    Args:
        catalog: of the side.
        nodes: those that are asked about.
    """

    def __init__(self, catalog: Catalog, nodes: Any) -> None:
        self._catalog = catalog
        self._is_mindspore = catalog.framework == MINDSPORE
        nodes = {*nodes, *(_forward(key) for key in nodes if key.phase is Phase.BACKWARD)}
        self._tensors: dict[NodeKey, list[TensorRef]] = defaultdict(list)
        for tensor in catalog.tensors:
            if tensor.node in nodes:
                self._tensors[tensor.node].append(tensor)
        self._has_entries = catalog.attrs.get("format") == DUMP_JSON
        self._entries = self._read(nodes) if self._has_entries else {}

    def _read(self, nodes: Any) -> dict[tuple[Execution, str], object]:
        """Return the entries of the calls whose tensors have elements."""
        wanted: dict[Execution, set[str]] = defaultdict(set)
        for key in nodes:
            node = self._catalog.nodes.get(key)
            has_elements = any(tensor.kind is TensorKind.TENSOR for tensor in self._tensors[key])
            if node is not None and node.kind is NodeKind.API and node.entry and has_elements:
                wanted[key.execution].add(node.entry)
        from probe_flow.dumps.dump_json.raw_entries import raw_entries

        found: dict[tuple[Execution, str], object] = {}
        for execution, names in wanted.items():
            left = set(names)
            try:
                for entry, value in raw_entries(self._catalog, execution):
                    if entry in left:
                        found[execution, entry] = value
                        left.remove(entry)
                        if not left:
                            break
            except ProbeFlowError:  # it was readable a moment ago: the dump is changing
                continue
        return found

    def call(self, key: NodeKey) -> SideCall:
        """Return a call with its tensors.

        Raises:
            UnusableError: it cannot be computed again, and why.
        """
        node = self._catalog.nodes.get(key)
        if node is None:
            raise UnusableError("it is no node of the dump", is_expected=True)
        if key.phase is Phase.BACKWARD:
            return self._backward(key)
        tensors = {tensor.slot: tensor for tensor in self._tensors[key]}
        if not any(each.kind is TensorKind.TENSOR for each in tensors.values()):
            raise UnusableError("the dump has no elements of its tensors", is_expected=True)
        call = self._of_entry(key, node.entry or "") if self._has_entries else _of_type(node.op_type, tensors)
        if call.is_in_place:
            raise UnusableError("it changes its inputs in place, and what they were before is not known")
        by_place = {(slot.role, slot.path): tensor for slot, tensor in tensors.items()}
        inputs = _tensors_of(argument_leaves(call), SlotRole.INPUT, by_place)
        if not inputs:
            raise UnusableError("it has no tensor among its arguments", is_expected=True)
        return SideCall(call, self._is_mindspore, inputs, _tensors_of(leaves(call.results), SlotRole.OUTPUT, by_place))

    def _backward(self, key: NodeKey) -> SideCall:
        """Return a call with its gradients in place of its results."""
        forward = self.call(_forward(key))
        value = self._entries.get((key.execution, self._catalog.nodes[key].entry or ""))
        if value is None:
            raise UnusableError("it is no call of an API", is_expected=True)
        gradients = read_gradients(value)
        tensors = {(tensor.slot.role, tensor.slot.path): tensor for tensor in self._tensors[key]}
        incoming = _tensors_of(leaves(gradients.incoming), SlotRole.INPUT, tensors)
        results = _tensors_of(leaves(gradients.results), SlotRole.OUTPUT, tensors)
        return structs.replace(forward, results=results, gradients=gradients, incoming=incoming)

    def _of_entry(self, key: NodeKey, entry: str) -> Call:
        from probe_flow.dumps.dump_json.names import parse_entry_name

        value = self._entries.get((key.execution, entry))
        if value is None:
            raise UnusableError("it is no call of an API", is_expected=True)
        parts = parse_entry_name(entry)
        assert parts is not None, "the catalog's own names"
        kind, _, api = parts.name.partition(".")
        return read_call(kind, api, value)


def _forward(key: NodeKey) -> NodeKey:
    return structs.replace(key, phase=Phase.FORWARD)


def _tensors_of(
    found: Any, role: SlotRole, tensors: Mapping[tuple[SlotRole, Place], TensorRef]
) -> dict[Place, TensorRef]:
    """Return the tensors at the leaves of a call, by place.

    Raises:
        UnusableError: the dump lacks the elements of one.
    """
    refs = {}
    for place, leaf in found:
        if isinstance(leaf, TensorSpec):
            ref = tensors.get((role, place))
            if ref is None or ref.kind is not TensorKind.TENSOR:
                raise UnusableError("the dump has not the elements of all its tensors", is_expected=True)
            refs[place] = ref
    return refs


def _of_type(op_type: str, tensors: Mapping[Any, TensorRef]) -> Call:
    """Return a call of an operator that is known by its type: its inputs one behind the other.

    Raises:
        UnusableError: the dump lacks one of them, or its results have another order of axes.
    """
    inputs: dict[int, TensorSpec] = {}
    results: dict[int, TensorSpec] = {}
    for slot, tensor in tensors.items():
        parts = inputs if slot.role is SlotRole.INPUT else results if slot.role is SlotRole.OUTPUT else None
        place = slot.path[0] if len(slot.path) == 1 else None
        if parts is None:
            continue
        shape = tensor.shape if tensor.logical_shape is None else tensor.logical_shape
        if tensor.kind is not TensorKind.TENSOR or not isinstance(place, int) or shape is None:
            raise UnusableError("the dump has not the elements of all its tensors", is_expected=True)
        parts[place] = TensorSpec(tensor.dtype, tuple(shape))
    if sorted(inputs) != list(range(len(inputs))) or sorted(results) != list(range(len(results))):
        raise UnusableError("the dump lacks some of its tensors", is_expected=True)
    args = tuple(inputs[place] for place in range(len(inputs)))
    return Call("", op_type, args, {}, tuple(results[place] for place in range(len(results))))
