"""What a communication has to give, computed of what the ranks gave to it on the same side.

An error of what was sent reaches the receivers through a sum or a copy, whatever its size: only this tells a transfer
that went wrong from one that carries on. Known are the collectives and receivers of torch (`FORMS`), their tensors
given by position. The result is a sum, or one behind the other, of flat ranges of the tensors that ranks gave.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from probe_flow.analysis.communication import FORMS, PREFIXES, Form
from probe_flow.analysis.flow.across_ranks import AcrossRanks
from probe_flow.analysis.flow.links import calls_of
from probe_flow.analysis.limits import ASKED
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.calls import Path as Place
from probe_flow.comparing.recompute_worker import Job, SideCall
from probe_flow.records import NodeKey, Pairs, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Row

LIMIT_BYTES = 2**30
"""Memory that computing one result may take."""

ROUNDED = 8.0
"""Roundings from which a result that differs is asked about; what stands out of its allowance is in any case."""

KIND, ADDED, JOINED = "Distributed", "added", "joined"
"""How the numpy core knows what it has to do with the ranges."""


class Part(Struct, frozen=True):
    """A flat range of what a row holds; all of it where there is no range."""

    row: int
    range: tuple[int, int] | None = None


class Made(Struct, frozen=True):
    """What a result has to be: the sum of some parts, or these one behind the other."""

    parts: tuple[Part, ...]
    is_sum: bool


class Member(Struct, frozen=True):
    """A rank's entry of one communication: its measured inputs by their places, and the plain ones."""

    tensors: Mapping[Place, tuple[int, int]]
    values: Mapping[Place, object]

    def root(self, form: Form) -> object:
        """Return the rank of the root, by its position or its name; None where there is none."""
        places: tuple[Place, ...] = ((form.root,), ("src",), ("dst",))
        return next((value for place in places if (value := self.values.get(place)) is not None), None)


def made_of(api: str, place: Place, me: int, members: Sequence[Member], root: int, numel: int) -> Made | None:
    """Return what a result of a communication has to be; None where its form does not tell.

    Args:
        api: its name, without that of its module.
        place: of the result.
        me: which of the members this rank is.
        members: what each rank that took part gave, in their order.
        root: which of the members the root, or the sender, is; -1 where there is none.
        numel: elements of the result.
    """
    form = FORMS.get(api)
    if form is None or place[0] != form.into or len(place) != 1 + form.is_listed or not _is_plain(form, members[me]):
        return None
    if root < 0 and (form.is_of_root or form.root >= 0):
        return None
    if form.root >= 0 and not form.is_of_root and root != me:
        return None  # the result is the root's alone
    givers = [root] if form.is_of_root else [int(place[1])] if form.is_listed else range(len(members))
    parts = [_part_of(members[giver], form, me, len(members)) for giver in givers if giver < len(members)]
    known = [part for part in parts if part is not None]
    lengths = [length for _, length in known]
    is_sum = form.operation >= 0
    if len(known) < max(1, len(givers)) or (set(lengths) != {numel} if is_sum else sum(lengths) != numel):
        return None
    return Made(tuple(part for part, _ in known), is_sum)


def _is_plain(form: Form, member: Member) -> bool:
    """Whether a call adds up, where it combines, and all parts have one length: other sums and sizes are arguments."""
    for place, value in member.values.items():
        if value is None:
            continue
        is_operation = place[0] == "op" or (form.operation >= 0 and place[0] == form.operation)
        if is_operation and not str(value).endswith("SUM"):
            return False
        if place[0] in ("input_split_sizes", "output_split_sizes") or (len(place) > 1 and place[0] in (2, 3)):
            return False
    return True


def _part_of(member: Member, form: Form, me: int, count: int) -> tuple[Part, int] | None:
    """Return the part of what a rank gives that is meant, and its length."""
    listed = member.tensors.get((form.source, me)) if form.is_of_parts else None
    row, length = listed or member.tensors.get((form.source,)) or (-1, 0)
    if row < 0:
        return None
    if listed is not None or not form.is_of_parts:
        return Part(row), length
    each, rest = divmod(length, count)
    return None if rest else (Part(row, (me * each, (me + 1) * each)), each)


def exchanged_jobs(rows: Sequence[Row], pairs: Pairs, diagnosis: Diagnosis) -> Iterator[tuple[int, Job]]:
    """Yield the jobs of results of communications that differ, with their rows, those that stand out most first."""
    suspects = {suspect.row for suspect in diagnosis.suspects}
    inputs: defaultdict[NodeKey, list[int]] = defaultdict(list)
    wanted: list[int] = []
    for number, row in enumerate(rows):
        if not row.node.name.startswith(PREFIXES):
            continue
        if not row.is_produced:
            inputs[row.node].append(number)
        elif (found := diagnosis.deviations[number]) is not None and (
            number in suspects
            or diagnosis.scores.get(number, 0.0) >= ASKED
            or found.relative > ROUNDED * found.unit
            or found.crest >= 1.0
        ):
            wanted.append(number)
    if not wanted:
        return
    calls = calls_of(rows, pairs)
    across = AcrossRanks(calls, rows)
    for number in sorted(wanted, key=lambda number: (-diagnosis.scores.get(number, 0.0), number)):
        call = calls.of[number]
        partners = across.partners(call) if call is not None else None
        if partners is None or not partners.calls or partners.absent:
            continue
        given = {each.key.execution.rank or 0: inputs[each.key] for each in partners.calls}
        made = _made(rows, number, {**given, rows[number].node.execution.rank or 0: inputs[rows[number].node]})
        if made is not None and (job := _job(rows, number, made)) is not None:
            yield number, job


def _made(rows: Sequence[Row], number: int, given: Mapping[int, Sequence[int]]) -> Made | None:
    """Return what a row that a communication gave has to be.

    Args:
        rows: all rows.
        number: the row.
        given: by each rank that took part, the inputs of its entry.
    """
    row = rows[number]
    rank, api = row.node.execution.rank or 0, row.node.name.rpartition(".")[2]
    form, ranks = FORMS.get(api), sorted(given)
    if form is None:
        return None
    members = [_member(rows, given[each]) for each in ranks]
    me = ranks.index(rank)
    # A receiver meets its sender alone.
    root = next(each for each in ranks if each != rank) if form.is_receiver else members[me].root(form)
    at = ranks.index(root) if isinstance(root, int) and root in ranks else -1
    return made_of(api, row.pair.shown.slot.path, me, members, at, row.pair.shown.numel or 0)


def _member(rows: Sequence[Row], inputs: Sequence[int]) -> Member:
    tensors: dict[Place, tuple[int, int]] = {}
    values: dict[Place, object] = {}
    for number in inputs:
        tensor = rows[number].pair.shown
        if tensor.kind is TensorKind.TENSOR:
            tensors[tensor.slot.path] = number, tensor.numel or 0
        elif tensor.slot.role is SlotRole.INPUT:
            values[tensor.slot.path] = _plain(tensor.value)
    return Member(tensors, values)


def _plain(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _job(rows: Sequence[Row], number: int, made: Made) -> Job | None:
    """Return what computes a row and its golden; None where one side lacks a tensor."""
    pairs = [rows[n].pair for n in (number, *(part.row for part in made.parts))]
    targets = [pair.target for pair in pairs if pair.target is not None and pair.target.kind is TensorKind.TENSOR]
    goldens = [pair.golden for pair in pairs if pair.golden is not None and pair.golden.kind is TensorKind.TENSOR]
    if not len(targets) == len(goldens) == len(pairs):
        return None
    sides = _side(made, targets), _side(made, goldens)
    return Job(*sides, is_suspect=True, units=UNIT, limit_bytes=LIMIT_BYTES)


def _side(made: Made, tensors: Sequence[TensorRef]) -> SideCall:
    result, *given = tensors
    specs = [TensorSpec(each.dtype, tuple(each.shape or ())) for each in given]
    ranges = tuple(
        tuple(map(Plain, part.range or (0, math.prod(spec.shape))))
        for part, spec in zip(made.parts, specs, strict=True)
    )
    kwargs = {"ranges": ranges, "shape": tuple(map(Plain, result.shape or ()))}
    out = TensorSpec(result.dtype, tuple(result.shape or ()))
    call = Call(KIND, ADDED if made.is_sum else JOINED, tuple(specs), kwargs, (out,))
    inputs: dict[Place, TensorRef] = {(place,): tensor for place, tensor in enumerate(given)}
    return SideCall(call, is_mindspore=False, inputs=inputs, results={(0,): result})
