"""Align device inputs with the arguments of an FX node where no graph edge names the golden tensor.

Numbers and things that are no tensors are left out first. What remains is aligned in order by class of dtype and
element count, equal shapes preferred; then what is unique on both sides is joined whatever its place. Floating-point
numbers and 0-d tensors join the constants and graph inputs of one element when there are equally many. Parameters (the
other numbers, short lists of integers) that the graph text does not feed join the argument in their place if type and
count agree: what stands in another place may mean something else.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

from probe_flow.dumps.graph.alignment import align
from probe_flow.dumps.graph.links import Source
from probe_flow.matching.torchair.fx_golden import dtype_class
from probe_flow.matching.torchair.graph import FxGraph
from probe_flow.records import TensorRef

MAX_PARAMETER = 16
"""Integer lists up to this length may be parameters (axes, shapes, permutations), which compare by meaning only."""


class Origin(enum.Enum):
    """Where a device input comes from, as far as aligning it matters."""

    FX_TENSOR = "fx tensor"
    GRAPH_INPUT = "graph input"
    CONSTANT = "constant"


class Place(Struct, frozen=True):
    """One input of the device operators behind an FX node, dumped or known from the graph only.

    Args:
        fact: class of dtype and element count; None when unknown, or when it must not be joined by them.
        shape: logical shape, None when unknown.
        source: the graph tensor, None when the graph does not show it.
        waiting: number of the dumped input that stands here, None when none does.
    """

    fact: tuple[str, int] | None
    shape: tuple[int, ...] | None
    source: Source | None = None
    waiting: int | None = None


class DeviceInput(Struct, frozen=True, gc=False):
    """A dumped device input, who reads it and what it is in the graph (None: unknown)."""

    ref: TensorRef
    origin: Origin
    reader: str | None = None
    source: Source | None = None

    def place(self, number: int) -> Place:
        """Return its place. Short integer lists that the device graph itself holds (axes, shapes) join nothing."""
        is_parameter = self.origin is Origin.CONSTANT and is_parameter_list(self.ref)
        return Place(None if is_parameter else fact(self.ref), self.ref.logical_shape, self.source, number)


def is_parameter_list(ref: TensorRef) -> bool:
    """Tell whether a tensor can be a list of axes, sizes or strides."""
    shape = ref.logical_shape if ref.logical_shape is not None else ref.shape
    count = ref.numel
    return dtype_class(ref.dtype) == "int" and shape is not None and len(shape) <= 1 and (count or 0) <= MAX_PARAMETER


def places_of(graph: FxGraph, key: str, inputs: Sequence[DeviceInput]) -> list[Place]:
    """Return the inputs of the expansion of an FX node in order, the dumped ones at their places.

    Inputs that were not dumped (inside a fused operator, of an operator without file) keep their places: otherwise
    the others would be joined with the wrong arguments of the same size.
    """
    by_reader: dict[str | None, list[int]] = defaultdict(list)
    for number, item in enumerate(inputs):
        by_reader[item.reader].append(number)
    ops = graph.expansion(key)
    inside = {op.name for op in ops}
    places: list[Place] = []
    for op in ops:
        waiting = by_reader.pop(op.name, [])
        for source in op.inputs:
            if source is None or source[0] in inside:
                continue
            found = next((number for number in waiting if inputs[number].source == source), None)
            if found is None:
                places.append(_graph_place(graph, source))
            else:
                waiting.remove(found)
                places.append(inputs[found].place(found))
        places.extend(inputs[number].place(number) for number in waiting)
    places.extend(inputs[number].place(number) for numbers in by_reader.values() for number in numbers)
    return places


def _graph_place(graph: FxGraph, source: Source) -> Place:
    output = graph.links.output(source)
    numel = graph.links.numel(source)
    known = (dtype_class(output.dtype or ""), numel) if output is not None and numel is not None else None
    return Place(known, graph.links.shape(source), source)


class Alignment(Struct, frozen=True):
    """Which argument stands at which place, as (place, argument). `is_exact`: all of them, one by one."""

    pairs: tuple[tuple[int, int], ...]
    is_exact: bool = False


def align_arguments(places: Sequence[Place], arguments: Sequence[TensorRef]) -> Alignment:
    """Align the places of one FX node with its tensor arguments."""
    mine = [place.fact for place in places]
    theirs = [fact(ref) for ref in arguments]
    if None not in mine and mine == theirs and [place.shape for place in places] == [ref.shape for ref in arguments]:
        return Alignment(tuple((at, at) for at in range(len(places))), is_exact=True)
    bonus = [
        (i, j)
        for i, place in enumerate(places)
        for j, ref in enumerate(arguments)
        if place.shape is not None and place.shape == ref.shape
    ]
    pairs = align(mine, theirs, bonus=bonus)
    used_mine, used_theirs = {i for i, _ in pairs}, {j for _, j in pairs}
    rest = [i for i in range(len(mine)) if i not in used_mine and mine[i] is not None]
    free = [j for j in range(len(theirs)) if j not in used_theirs]
    counts = Counter(mine[i] for i in rest), Counter(theirs[j] for j in free)
    for i in rest:
        if counts[0][mine[i]] == counts[1][mine[i]] == 1:
            pairs.append((i, next(j for j in free if theirs[j] == mine[i])))
    is_exact = len(pairs) == len(places) == len(arguments)
    is_exact = is_exact and all(i == j and places[i].shape == arguments[j].shape for i, j in pairs)
    return Alignment(tuple(sorted(pairs)), is_exact)


def align_numbers(inputs: Sequence[DeviceInput], numbers: Sequence[TensorRef]) -> list[tuple[int, int]]:
    """Join floating-point constants and graph inputs of one element with the numbers among the arguments, in order.

    Dumps do not tell a number from a 0-d tensor. Only equally many on both sides are joined: anything else would pair
    values of different meaning.
    """
    single = [
        index
        for index, item in enumerate(inputs)
        if item.origin is not Origin.FX_TENSOR and item.ref.numel == 1 and dtype_class(item.ref.dtype) == "float"
    ]
    return list(zip(single, range(len(numbers)), strict=True)) if len(single) == len(numbers) else []


class Parameter(Struct, frozen=True):
    """A number or short list of integers: its place among inputs or arguments (None: unknown), and the tensor."""

    place: int | None
    ref: TensorRef


def are_places_alike(graph: FxGraph, key: str) -> bool:
    """Tell whether inputs of the operator of an FX node are counted like its arguments: no other one serves it."""
    return sum(not graph.links.is_relay(op) for op in graph.expansion(key)) == 1


def align_parameters(
    mine: Mapping[int, Parameter], theirs: Mapping[int, Parameter]
) -> tuple[dict[int, int], dict[int, int]]:
    """Join parameters that the graph text does not feed with the arguments that are parameters.

    Args:
        mine: of the device operators of one FX node, by any number.
        theirs: arguments of the node without partner, by any number.

    Returns:
        The joined numbers (mine to theirs): first those of equal place, type, element count and rank, then guesses,
        which need equally many on both sides. In an equal place a list of one element may be a number. Where the place
        is unknown, those of one type, count and rank are joined in order.
    """
    sure = {
        number: other
        for number, one in mine.items()
        for other, argument in theirs.items()
        if one.place is not None and one.place == argument.place and _is_one_kind(one.ref, argument.ref)
    }
    rest = {number: each for number, each in mine.items() if number not in sure}
    free = {number: each for number, each in theirs.items() if number not in sure.values()}
    guessed: dict[int, int] = {}
    for number, one in rest.items():
        kind = fact if one.place is not None else parameter_kind
        like = [other for other, each in free.items() if kind(each.ref) == kind(one.ref)]
        if kind(one.ref) is None or len(like) != sum(kind(each.ref) == kind(one.ref) for each in rest.values()):
            continue
        like = [other for other in like if other not in guessed.values() and one.place in (theirs[other].place, None)]
        if like:
            guessed[number] = like[0]
    return sure, guessed


def _is_one_kind(first: TensorRef, second: TensorRef) -> bool:
    kind = parameter_kind(first)
    return kind is not None and kind == parameter_kind(second)


def is_parameter(ref: TensorRef) -> bool:
    """Tell whether a tensor can be a number (0-d, or one element in a list) or a list of axes, sizes or strides."""
    is_number = ref.numel == 1 and len(ref.shape or ()) <= 1
    return ref.has_numbers and (is_number or is_parameter_list(ref))


def parameter_kind(ref: TensorRef) -> Hashable:
    """Return what must agree between two parameters in one place; None when the tensor tells nothing.

    Devices hold floating-point numbers as lists of one element, too; integers in a list are axes or sizes.
    """
    known = fact(ref)
    if known is None:
        return None
    is_list = bool(ref.logical_shape if ref.logical_shape is not None else ref.shape)
    return known, ref.dtype == "bool", is_list and known != ("float", 1)


def fact(ref: TensorRef) -> tuple[str, int] | None:
    """Return what must agree between two tensors to be one value; None when the tensor tells nothing."""
    if not ref.has_numbers or ref.numel is None:
        return None
    return dtype_class(ref.dtype), ref.numel
