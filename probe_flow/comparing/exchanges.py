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

from probe_flow.analysis.communication import PREFIXES, Network, exchanges_of
from probe_flow.analysis.limits import ASKED
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.calls import Path as Place
from probe_flow.comparing.recompute_worker import Job, SideCall
from probe_flow.records import NodeKey, SlotRole, TensorKind, TensorRef
from probe_flow.records.row import Row

LIMIT_BYTES = 2**30
"""Memory that computing one result may take."""

ROUNDED = 8.0
"""Roundings from which a result that differs is asked about; what stands out of its allowance is in any case."""

KIND, ADDED, JOINED = "Distributed", "added", "joined"
"""How the numpy core knows what it has to do with the ranges."""


class Form(Struct, frozen=True):
    """Where a communication has its tensors.

    Args:
        into: position of what it receives, which the dump shows among its results.
        source: position of what it gives.
        way: ``all``: of all ranks; ``mine``: of each rank the part for this one; ``root``: of the root or sender alone,
            ``root_mine``: the part for this rank of what the root gives.
        root: position of the root; -1 where there is none.
        operation: position of the operation that combines; -1 where nothing is combined.
        is_listed: whether what it receives is a list, with a tensor of each rank.
    """

    into: int
    source: int
    way: str
    root: int = -1
    operation: int = -1
    is_listed: bool = False


FORMS: Mapping[str, Form] = {
    "all_reduce": Form(0, 0, "all", operation=1),
    "reduce": Form(0, 0, "all", root=1, operation=2),
    "reduce_scatter": Form(0, 1, "mine", operation=2),
    "reduce_scatter_tensor": Form(0, 1, "mine", operation=2),
    "_reduce_scatter_base": Form(0, 1, "mine", operation=2),
    "broadcast": Form(0, 0, "root", root=1),
    "scatter": Form(0, 1, "root_mine", root=2),
    "all_gather": Form(0, 1, "all", is_listed=True),
    "gather": Form(1, 0, "all", root=2, is_listed=True),
    "all_gather_into_tensor": Form(0, 1, "all"),
    "_all_gather_base": Form(0, 1, "all"),
    "all_to_all": Form(0, 1, "mine", is_listed=True),
    "all_to_all_single": Form(0, 1, "mine"),
    "recv": Form(0, 0, "root"),
    "irecv": Form(0, 0, "root"),
}
"""Collectives and receivers of ``torch.distributed``, whose results are shown at the places of their arguments."""


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
        root: which of the members the root is; -1 where there is none.
        numel: elements of the result.
    """
    form = FORMS.get(api)
    if form is None or place[0] != form.into or len(place) != 1 + form.is_listed or not _is_plain(form, members[me]):
        return None
    if root < 0 and (form.way.startswith("root") or form.root >= 0):
        return None
    if form.root >= 0 and form.way == "all" and root != me:
        return None  # the result is the root's alone
    givers = [root] if form.way.startswith("root") else [int(place[1])] if form.is_listed else range(len(members))
    parts = [
        _part_of(members[giver], form.source, me, len(members), is_part=form.way.endswith("mine"))
        for giver in givers
        if giver < len(members)
    ]
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


def _part_of(member: Member, source: int, me: int, count: int, *, is_part: bool) -> tuple[Part, int] | None:
    """Return the part of what a rank gives that is meant, and its length."""
    listed = member.tensors.get((source, me)) if is_part else None
    if listed is not None:
        return Part(listed[0]), listed[1]
    whole = member.tensors.get((source,))
    if whole is None or (is_part and whole[1] % count):
        return None
    if not is_part:
        return Part(whole[0]), whole[1]
    length = whole[1] // count
    return Part(whole[0], (me * length, (me + 1) * length)), length


def exchanged_jobs(rows: Sequence[Row], diagnosis: Diagnosis) -> Iterator[tuple[int, Job]]:
    """Yield the jobs of results of communications that differ, with their rows, those that stand out most first."""
    suspects = {suspect.row for suspect in diagnosis.suspects}
    wanted = [
        number
        for number, row in enumerate(rows)
        if row.is_produced
        and row.node.name.startswith(PREFIXES)
        and (found := diagnosis.deviations[number]) is not None
        and (
            number in suspects
            or diagnosis.scores.get(number, 0.0) >= ASKED
            or found.relative > ROUNDED * found.unit
            or found.crest >= 1.0
        )
    ]
    if not wanted:
        return
    meetings = _Meetings(rows, diagnosis.order)
    for number in sorted(wanted, key=lambda number: (-diagnosis.scores.get(number, 0.0), number)):
        made = meetings.made(number)
        if made is not None and (job := _job(rows, number, made)) is not None:
            yield number, job


class _Meetings:
    """Which entries of the ranks meet, and what each was given."""

    def __init__(self, rows: Sequence[Row], order: Sequence[int]) -> None:
        self._rows = rows
        self._inputs: defaultdict[NodeKey, list[int]] = defaultdict(list)
        runs: defaultdict[object, dict[int, dict[NodeKey, None]]] = defaultdict(dict)
        for number in order:
            row = rows[number]
            if row.pair.target is None or not row.node.name.startswith(PREFIXES):
                continue
            run = row.node.execution
            runs[run.graph, run.step, run.micro_step].setdefault(run.rank or 0, {})[row.node] = None
            if not row.is_produced:
                self._inputs[row.node].append(number)
        self._met: dict[NodeKey, dict[int, NodeKey]] = {}
        self._group: dict[NodeKey, tuple[int, ...] | None] = {}
        self._peer: dict[NodeKey, int | None] = {}
        for ranks in runs.values():
            self._connect(ranks)

    def _connect(self, ranks: Mapping[int, Mapping[NodeKey, None]]) -> None:
        lines: dict[int, list[NodeKey]] = {}
        exchanges = {}
        for rank, keys in ranks.items():
            lines[rank] = []
            for key in keys:
                found = exchanges_of(key.name, [self._rows[n].pair.shown for n in self._inputs[key]])
                if found:
                    exchanges[key] = found
                    lines[rank].append(key)
        network = Network({rank: [exchanges[key] for key in line] for rank, line in lines.items()})
        for rank, line in lines.items():
            for number, key in enumerate(line):
                if len(exchanges[key]) == 1:
                    met = {other: lines[other][place] for other, place in network.partners((rank, number))}
                    self._met[key] = met | {rank: key}
                    self._group[key] = exchanges[key][0].group
                    self._peer[key] = exchanges[key][0].peer

    def made(self, number: int) -> Made | None:
        """Return what a row of a result has to be."""
        row = self._rows[number]
        met = self._met.get(row.node)
        if met is None or len(met) < 2:
            return None
        rank, api = row.node.execution.rank or 0, row.node.name.rpartition(".")[2]
        ranks = sorted(met)
        group = self._group[row.node]
        if group is not None and set(group) != set(ranks):
            return None  # a rank of the group was not dumped
        members = [self._member(met[each]) for each in ranks]
        form, numel = FORMS.get(api), row.pair.shown.numel or 0
        if form is None:
            return None
        own = members[ranks.index(rank)]
        root = self._peer[row.node] if api in ("recv", "irecv") else own.root(form)
        at = ranks.index(root) if isinstance(root, int) and root in ranks else -1
        return made_of(api, row.pair.shown.slot.path, ranks.index(rank), members, at, numel)

    def _member(self, key: NodeKey) -> Member:
        tensors: dict[Place, tuple[int, int]] = {}
        values: dict[Place, object] = {}
        for number in self._inputs[key]:
            tensor = self._rows[number].pair.shown
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
