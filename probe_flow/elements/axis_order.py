"""Read a tensor with its axes in another order: channels last as channels first, say, without moving a byte."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from probe_flow.records import TensorRef
from probe_flow.tensors.encoding import TORCH, parse_encoding, restrided
from probe_flow.tensors.layouts import LOGICAL_ORDER, PLAIN_LAYOUTS


def aligned(sides: Mapping[str, TensorRef], transform: Iterable[str]) -> dict[str, TensorRef]:
    """Return the sides of a pair as they are to be read, element by element alike.

    Args:
        sides: tensors by the names of their sides.
        transform: words of `Pair.transform`; ``golden:nhwc_to_nchw`` says in which order a side gives its logical axes.

    Raises:
        ValueError: when a word is none, or does not fit its tensor.
    """
    found = dict(sides)
    for word in transform:
        side, given = order_of(word)
        if side not in found:
            raise ValueError(f"`{word}` is of a side that is not there")
        found[side] = channels_first(found[side], given)
    return found


def order_of(word: str) -> tuple[str, str]:
    """Return side and order of axes that a word of `Pair.transform` names.

    >>> order_of("golden:nhwc_to_nchw")
    ('golden', 'NHWC')
    """
    side, _, orders = word.partition(":")
    return side, orders.upper().partition("_TO_")[0]


def channels_first(ref: TensorRef, given: str) -> TensorRef:
    """Return the tensor with its logical axes in the order NCHW, or NCDHW where there are five.

    Args:
        ref: whose logical shape is in the order ``given``. In a private layout only the shape is: such a layout counts
            logical axes itself, as NCHW or NCDHW.
        given: one letter per axis, e.g. ``NHWC``.

    Raises:
        ValueError: when the order does not fit the number of axes, or is none of NCHW or NCDHW axes.
    """
    logical = ref.logical_shape if ref.logical_shape is not None else ref.shape or ()
    axes = axes_of(given, len(logical))
    shape = tuple(logical[axis] for axis in axes)
    if ref.layout not in PLAIN_LAYOUTS:
        return ref.changed(logical_shape=shape)
    strides = _strides(ref, logical)
    if strides is None:
        return ref.changed(layout=given, shape=logical, logical_shape=shape)
    encoding = restrided(ref.extents[0].encoding, tuple(strides[axis] for axis in axes))
    return ref.changed(shape=shape, logical_shape=shape, extents=(replace(ref.extents[0], encoding=encoding),))


def axes_of(given: str, count: int) -> tuple[int, ...]:
    """Return which of ``count`` axes in the order ``given`` is the first, second, ... of NCHW or NCDHW.

    Raises:
        ValueError: as `channels_first`.

    >>> axes_of("NHWC", 4)
    (0, 3, 1, 2)
    """
    wanted = LOGICAL_ORDER.get(len(given), "")
    if sorted(given) != sorted(wanted) or len(given) != count:
        raise ValueError(f"a shape of {count} axes is not in the order {given}")
    return tuple(given.index(letter) for letter in wanted)


def _strides(ref: TensorRef, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the distances between elements where they are not those of C order, which a layout's name can say."""
    if len(ref.extents) != 1 or ref.extents[0].encoding == TORCH:
        return None
    encoding = parse_encoding(ref.extents[0].encoding)
    if encoding.is_fortran_order:
        return tuple(math.prod(shape[:axis]) for axis in range(len(shape)))
    return encoding.strides
