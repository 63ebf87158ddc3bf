"""Make the tensors of a pair comparable: logical shapes without padding, and axes in one order.

Evidence comes first, labels second: a shape in some order of axes must fit the blocks that are stored, and the golden
shape must be the same tensor in some order. Where several orders fit, the one that the rule file (or the golden
layout) names is taken.
"""

from __future__ import annotations

import math

from msgspec import Struct

from probe_flow.matching.offline.axes import (
    Shape,
    Told,
    count,
    fits,
    from_logical,
    is_convertible,
    is_matrix,
    is_order,
    is_plain,
    orders,
    stored_order,
    to_logical,
    without_ones,
)
from probe_flow.matching.offline.reasons import (
    blocks_contradict,
    blocks_mismatch,
    layout_unsupported,
    shape_mismatch,
)
from probe_flow.matching.offline.stored_blocks import fitting_shape
from probe_flow.records import Reason, TensorRef

_UNTOLD = Told()


class Aligned(Struct, frozen=True):
    """A pair as it is to be read; ``problem`` says why it cannot be compared as it stands."""

    target: TensorRef
    golden: TensorRef
    transform: tuple[str, ...] = ()
    problem: Reason | None = None


class _Side(Struct, frozen=True):
    """One tensor with its logical shape; ``order``: None where the axes may be in any order, else the known one.

    The shape of a side of known order is in NCHW or NCDHW. `is_fixed` sides are read in that order by their layout.
    """

    ref: TensorRef
    shape: Shape
    is_fixed: bool = False
    is_matrix: bool = False


def align(target: TensorRef, golden: TensorRef, *, told: Told = _UNTOLD, golden_told: Told = _UNTOLD) -> Aligned:
    """Return how target and golden are compared.

    Args:
        target: of a device dump, or of a `.npy` file.
        golden: the same.
        told: what the rule file says of the original tensor, which both sides are.
        golden_told: what the rule file of the golden model says of the golden tensor.
    """
    if target.shape is None or golden.shape is None:
        return Aligned(target, golden)
    for ref in (target, golden):
        if not is_plain(ref) and not is_convertible(ref):
            return _as_stored(target, golden) or Aligned(target, golden, problem=layout_unsupported(ref.layout))
    mine = _side(target, told, _plain_shape(golden))
    other = _side(golden, golden_told if golden_told != _UNTOLD else told, _known_shape(mine, golden))
    if mine is None and other is not None:
        mine = _side(target, told, other.shape)
    if mine is None or other is None:
        return _as_stored(target, golden) or _unfilled(target, golden, told)
    rank = max(len(mine.shape), len(other.shape))
    labels = (each for each in (golden_told.layout, told.layout) if is_order(each, rank))
    return _joined(mine, other, next(labels, ""))


def alone(ref: TensorRef, told: Told) -> TensorRef:
    """Return a tensor that is compared with nothing with the logical shape that its header or the rules tell."""
    if ref.shape is None or is_plain(ref) or not is_convertible(ref):
        return ref
    side = _side(ref, told, None)
    return ref if side is None else side.ref


def _plain_shape(ref: TensorRef) -> Shape | None:
    return ref.logical_shape if is_plain(ref) and stored_order(ref) is None else None


def _known_shape(side: _Side | None, ref: TensorRef) -> Shape | None:
    return side.shape if side is not None and not is_plain(ref) else None


def _side(ref: TensorRef, told: Told, partner: Shape | None) -> _Side | None:
    """Return the logical shape of a tensor, None when its blocks fit no shape that is known."""
    ref = _in_blocks(ref, told)
    assert ref.shape is not None
    order = stored_order(ref)
    if order is not None:
        shape = to_logical(ref.shape, order)
        return _Side(ref.changed(logical_shape=shape) if ref.logical_shape != shape else ref, shape, is_fixed=True)
    if is_plain(ref):
        logical = ref.logical_shape
        if logical is not None and count(logical) == count(ref.shape):
            return _Side(ref, logical)
        return _Side(ref.changed(logical_shape=ref.shape), ref.shape)
    found = fitting_shape(ref, told, partner)
    if found is None:
        return None
    ref = ref if ref.logical_shape == found else _of_shape(ref, found)
    return _Side(ref, found, is_fixed=not is_matrix(ref), is_matrix=is_matrix(ref))


def _of_shape(ref: TensorRef, shape: Shape) -> TensorRef:
    """Return a tensor in blocks with its logical shape; statistics of all that is stored become those of that shape."""
    recorded, stored = ref.recorded, math.prod(ref.shape or ())
    if recorded is None or stored == math.prod(shape):
        return ref.changed(logical_shape=shape)
    return ref.changed(logical_shape=shape, recorded=recorded.without_padding(stored, math.prod(shape)))


def _in_blocks(ref: TensorRef, told: Told) -> TensorRef:
    """Return a tensor as the rules store it, where its header names no blocks and its sizes leave room for padding."""
    known = told.shape if ref.logical_shape in (None, ref.shape) else ref.logical_shape
    is_padded = known is not None and math.prod(known) < math.prod(ref.shape or ())
    if not is_padded or not (is_plain(ref) or stored_order(ref) is not None):
        return ref
    blocks = ref.changed(layout=told.stored or ref.layout)
    return ref if is_plain(blocks) or fitting_shape(blocks, told, None) is None else blocks


def _joined(mine: _Side, other: _Side, label: str) -> Aligned:
    if mine.is_fixed and not other.is_fixed and not other.is_matrix:
        return _onto(mine, other, label, "golden")
    if other.is_fixed and not mine.is_fixed and not mine.is_matrix:
        return _onto(other, mine, label, "target")
    if not mine.is_fixed and not other.is_fixed and len(mine.shape) == len(other.shape) in (4, 5):
        words = _between(mine, other, label)
        if words is not None:
            return Aligned(mine.ref, other.ref, words)
    if count(mine.shape) == count(other.shape):
        fixed = [side for side in (mine, other) if side.is_fixed]
        is_same = without_ones(mine.shape) == without_ones(other.shape)
        if is_same or all(_keeps_sequence(side, label) for side in fixed):
            return Aligned(mine.ref, other.ref)
    return Aligned(mine.ref, other.ref, problem=shape_mismatch(mine.shape, other.shape))


def _between(mine: _Side, other: _Side, label: str) -> tuple[str, ...] | None:
    """Return the words for two sides whose axes may be in any order, None where no order relates them."""
    if mine.shape == other.shape:
        return ()
    rank = len(mine.shape)
    first, second = orders(rank)
    swaps = []
    if not other.is_matrix and to_logical(other.shape, second) == mine.shape:
        swaps.append(("golden", first))
    if not mine.is_matrix and to_logical(mine.shape, second) == other.shape:
        swaps.append(("target", second))
    if not swaps:
        return None
    # Both fit for shapes such as (2, 2, 3, 3): the label says in which order the target's logical shape is.
    side = next((side for side, order in swaps if order == label), swaps[0][0])
    return (_word(side, second),)


def _onto(fixed: _Side, free: _Side, label: str, side: str) -> Aligned:
    """Bring the free side's axes into the order of the fixed one; ``side`` is the free side's name."""

    def aligned(free_ref: TensorRef, words: tuple[str, ...] = (), problem: Reason | None = None) -> Aligned:
        sides = (fixed.ref, free_ref) if side == "golden" else (free_ref, fixed.ref)
        return Aligned(*sides, words, problem)

    rank = len(fixed.shape)
    if len(free.shape) == rank in (4, 5):
        for order in orders(rank, (label,), layout=fixed.ref.layout):
            if to_logical(free.shape, order) == fixed.shape:
                return aligned(free.ref, _words(side, order, rank))
    if count(free.shape) == count(fixed.shape):
        if _keeps_sequence(fixed, label):
            return aligned(free.ref)
        label = label or stored_order(fixed.ref) or ""
        # The plain side is the tensor in the order of the label with axes merged or split: give it all axes again.
        if len(free.ref.extents) == 1 and free.ref.extents[0].encoding.partition("@")[0] == "raw":
            shape = from_logical(fixed.shape, label)
            return aligned(free.ref.changed(shape=shape, logical_shape=shape), _words(side, label, rank))
    shapes = (fixed.shape, free.shape) if side == "golden" else (free.shape, fixed.shape)
    return aligned(free.ref, (), shape_mismatch(*shapes))


def _keeps_sequence(fixed: _Side, label: str) -> bool:
    """Tell whether merging or splitting axes of a tensor, in the order of the label, keeps the sequence NCHW.

    Where nothing tells the order, it is that of the stored axes.
    """
    label = label or stored_order(fixed.ref) or ""
    return not label or _flattens_alike(fixed.shape, label)


def _flattens_alike(shape: Shape, order: str) -> bool:
    """Tell whether the elements follow each other alike in both orders: the longer axes keep their sequence."""
    logical = [axis for axis, dim in zip(_letters(len(shape)), shape, strict=True) if dim != 1]
    return logical == [axis for axis in order if axis in logical]


def _letters(rank: int) -> str:
    return next(iter(orders(rank)))


def _words(side: str, order: str, rank: int) -> tuple[str, ...]:
    return () if order == _letters(rank) else (_word(side, order),)


def _word(side: str, order: str) -> str:
    return f"{side}:{order.lower()}_to_{_letters(len(order)).lower()}"


def _as_stored(target: TensorRef, golden: TensorRef) -> Aligned | None:
    """Compare what is stored, padding included, where both sides store it alike and nobody knows the logical shape."""
    if (target.layout, target.shape, target.sub_format) != (golden.layout, golden.shape, golden.sub_format):
        return None
    if is_plain(target):
        return None
    sides = [ref.changed(layout="ND", logical_shape=ref.shape) for ref in (target, golden)]
    return Aligned(sides[0], sides[1])


def _unfilled(target: TensorRef, golden: TensorRef, told: Told) -> Aligned:
    """Say which shape does not fit the blocks."""
    shape = target.logical_shape if target.logical_shape != target.shape else told.shape
    stored = target.shape or ()
    golden_shape = golden.logical_shape if golden.logical_shape is not None else golden.shape or ()
    if is_matrix(target) and shape is not None and len(stored) >= 4:
        padded = (stored[-3] * stored[-2], stored[-4] * stored[-1])
        return Aligned(target, golden, problem=blocks_mismatch(shape, padded))
    mine = shape if shape is not None else stored
    if sorted(without_ones(mine)) == sorted(without_ones(golden_shape)):  # the shapes agree, so the blocks are wrong
        side = target if not is_plain(target) else golden
        return Aligned(target, golden, problem=_contradiction(side, mine))
    return Aligned(target, golden, problem=shape_mismatch(mine, golden_shape))


def _contradiction(ref: TensorRef, shape: Shape) -> Reason:
    assert ref.shape is not None
    plain = ref.changed(sub_format=0)
    ways = (shape, *(to_logical(shape, order) for order in orders(len(shape), layout=ref.layout)))
    fits_ungrouped = any(fits(plain, way) for way in ways)
    return blocks_contradict(shape, ref.shape, ref.layout, ref.sub_format, fits_ungrouped=fits_ungrouped)
