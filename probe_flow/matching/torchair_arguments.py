"""Align device inputs with the arguments of an FX node where no graph edge names the golden tensor.

Numbers and things that are no tensors are left out first. What remains is aligned in order by class of dtype and
element count, equal shapes preferred; then what is unique on both sides is joined whatever its place. Floating-point
numbers join one-element constants of the device when there are equally many.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from probe_flow.formats.graph_links import align
from probe_flow.matching.torchair_golden import dtype_class
from probe_flow.records import TensorKind, TensorRef

MAX_PARAMETER = 16
"""Integer lists up to this length may be parameters (axes, shapes, permutations), which compare by meaning only."""


class Origin(enum.Enum):
    """Where a device input comes from, as far as aligning it matters."""

    FX_TENSOR = "fx tensor"
    GRAPH_INPUT = "graph input"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class DeviceInput:
    """A device input that may be an argument of an FX node."""

    ref: TensorRef
    origin: Origin

    @property
    def is_parameter(self) -> bool:
        """A short integer list that the device graph itself holds: an axis or shape, not data."""
        return self.origin is Origin.CONSTANT and is_parameter_list(self.ref)


def is_parameter_list(ref: TensorRef) -> bool:
    """Tell whether a tensor can be a list of axes, sizes or strides."""
    shape = ref.logical_shape if ref.logical_shape is not None else ref.shape
    count = ref.numel
    return dtype_class(ref.dtype) == "int" and shape is not None and len(shape) <= 1 and (count or 0) <= MAX_PARAMETER


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which argument each device input is: by index into both lists. `is_exact`: all of them, one by one."""

    pairs: tuple[tuple[int, int], ...]
    is_exact: bool = False


def align_arguments(inputs: Sequence[DeviceInput], arguments: Sequence[TensorRef]) -> Alignment:
    """Align the device inputs of one FX node with its tensor arguments."""
    mine = [None if item.is_parameter else fact(item.ref) for item in inputs]
    theirs = [fact(ref) for ref in arguments]
    shapes = [item.ref.logical_shape for item in inputs]
    bonus = [
        (i, j)
        for i, shape in enumerate(shapes)
        for j, ref in enumerate(arguments)
        if shape is not None and shape == ref.shape
    ]
    pairs = align(mine, theirs, bonus=bonus)
    used_mine, used_theirs = {i for i, _ in pairs}, {j for _, j in pairs}
    rest = [i for i in range(len(mine)) if i not in used_mine and mine[i] is not None]
    free = [j for j in range(len(theirs)) if j not in used_theirs]
    counts = Counter(mine[i] for i in rest), Counter(theirs[j] for j in free)
    for i in rest:
        if counts[0][mine[i]] == counts[1][mine[i]] == 1:
            pairs.append((i, next(j for j in free if theirs[j] == mine[i])))
    is_exact = len(pairs) == len(inputs) == len(arguments) and all(i == j for i, j in pairs)
    is_exact = is_exact and all(shapes[i] == arguments[j].shape for i, j in pairs)
    return Alignment(tuple(sorted(pairs)), is_exact)


def align_numbers(inputs: Sequence[DeviceInput], numbers: Sequence[TensorRef]) -> list[tuple[int, int]]:
    """Join one-element floating-point constants of the device with the numbers among the arguments, in order.

    Only equally many on both sides are joined: anything else would pair values of different meaning.
    """
    constants = [
        index
        for index, item in enumerate(inputs)
        if item.origin is Origin.CONSTANT and item.ref.numel == 1 and dtype_class(item.ref.dtype) == "float"
    ]
    return list(zip(constants, range(len(numbers)), strict=True)) if len(constants) == len(numbers) else []


def fact(ref: TensorRef) -> tuple[str, int] | None:
    """Return what must agree between two tensors to be one value; None when the tensor tells nothing."""
    if ref.kind is not TensorKind.TENSOR or ref.numel is None:
        return None
    return dtype_class(ref.dtype), ref.numel
