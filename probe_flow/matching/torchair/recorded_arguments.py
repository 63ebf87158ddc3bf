"""Align device inputs with the arguments of an FX node of which only statistics are known.

Reduced FX dumps do not say what shape an argument had. Three facts are left: an argument has exactly the statistics of
the FX output that it is; the statistics of both sides agree closely unless something is wrong; and what remains alone
of its type on both sides belongs together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from probe_flow.matching.torchair.arguments import DeviceInput, Origin, Place
from probe_flow.matching.torchair.fx_golden import GoldenIndex, dtype_class
from probe_flow.matching.torchair.graph import FxGraph
from probe_flow.records import Statistics, TensorRef

CLOSE = 2.0**-6
"""Largest difference of two figures, relative to the largest value, that rounding to 16 bits explains with a margin."""


def align_recorded(
    graph: FxGraph,
    golden: GoldenIndex,
    places: Sequence[Place],
    inputs: Sequence[DeviceInput],
    arguments: Sequence[TensorRef],
) -> list[tuple[int, int]]:
    """Return which argument stands at which place, as (place, argument).

    Args:
        graph: names the FX values of the places.
        golden: outputs of the FX nodes.
        places: inputs of the expansion, from `places_of`.
        inputs: the dumped ones, by `Place.waiting`.
        arguments: tensor arguments of the FX node, in order.
    """
    pairs = list(_by_producer(graph, golden, places, arguments))
    waiting = {
        number: item
        for number, place in enumerate(places)
        if place.waiting is not None and _is_tensor(item := inputs[place.waiting])
    }
    _drop_joined(waiting, pairs)
    if not waiting:
        return sorted(pairs)
    pairs += _by_figures(waiting, _free(arguments, pairs))
    _drop_joined(waiting, pairs)
    pairs += _by_elimination(waiting, _free(arguments, pairs))
    return sorted(pairs)


def is_number(tensor: TensorRef) -> bool:
    """Whether a tensor of unknown shape can be a single number: its least value is its largest."""
    found = tensor.recorded
    return tensor.numel is None and found is not None and found.min is not None and found.min == found.max


def _by_producer(
    graph: FxGraph, golden: GoldenIndex, places: Sequence[Place], arguments: Sequence[TensorRef]
) -> Iterator[tuple[int, int]]:
    taken: set[int] = set()
    for number, place in enumerate(places):
        values = [golden.output(name) for name, _ in graph.values(place.source)] if place.source else []
        for at, argument in enumerate(arguments):
            if at not in taken and any(value is not None and _is_same(value, argument) for value in values):
                taken.add(at)
                yield number, at
                break


def _is_same(value: TensorRef, argument: TensorRef) -> bool:
    return (
        value.recorded is not None
        and value.dtype == argument.dtype
        and value.recorded == argument.recorded
        and value.checksum == argument.checksum
    )


def _is_tensor(item: DeviceInput) -> bool:
    """Whether an input can be joined at all: axes and shapes that the device graph itself holds compare by meaning."""
    return not (item.origin is Origin.CONSTANT and dtype_class(item.ref.dtype) == "int")


def _drop_joined(waiting: dict[int, DeviceInput], pairs: Sequence[tuple[int, int]]) -> None:
    for number, _ in pairs:
        waiting.pop(number, None)


def _free(arguments: Sequence[TensorRef], pairs: Sequence[tuple[int, int]]) -> dict[int, TensorRef]:
    taken = {at for _, at in pairs}
    return {at: argument for at, argument in enumerate(arguments) if at not in taken}


def _by_figures(waiting: dict[int, DeviceInput], free: dict[int, TensorRef]) -> list[tuple[int, int]]:
    """Join the closest first."""
    candidates = [
        (distance, abs(number - at), number, at)
        for number, item in waiting.items()
        for at, argument in free.items()
        if (distance := _distance(item.ref, argument)) <= CLOSE
    ]
    joined: dict[int, int] = {}
    for _, _, number, at in sorted(candidates):
        if number not in joined and at not in joined.values():
            joined[number] = at
    return list(joined.items())


def _by_elimination(waiting: dict[int, DeviceInput], free: dict[int, TensorRef]) -> list[tuple[int, int]]:
    pairs = []
    for kind in ("float", "int", "complex"):
        mine = [number for number, item in waiting.items() if dtype_class(item.ref.dtype) == kind]
        theirs = [at for at, found in free.items() if not is_number(found) and dtype_class(found.dtype) in (kind, "")]
        if len(mine) == len(theirs) == 1:
            pairs.append((mine[0], theirs[0]))
    return pairs


def _distance(target: TensorRef, golden: TensorRef) -> float:
    """Return the largest difference of what both recorded, relative to the golden's largest value."""
    classes = {dtype_class(tensor.dtype) for tensor in (target, golden)} - {""}
    if len(classes) > 1 or target.recorded is None or golden.recorded is None:
        return math.inf
    top = max((abs(value) for value in _extremes(golden.recorded)), default=0.0)
    gaps = []
    for name in ("min", "max", "mean"):
        values = getattr(target.recorded, name), getattr(golden.recorded, name)
        if None not in values:
            gaps.append(abs(float(values[0]) - float(values[1])))
    if not gaps or not all(math.isfinite(gap) for gap in gaps):
        return math.inf
    return max(gaps) / top if top else (0.0 if not any(gaps) else math.inf)


def _extremes(found: Statistics) -> list[float]:
    return [float(value) for value in (found.min, found.max) if value is not None and math.isfinite(value)]
