"""Moves, reductions and picks of devices; what is an attribute of one type is an input of another.

Source: as `device`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import moves, reductions

Array = NDArray[Any]
Ints = Sequence[int]


def whole_numbers(values: Array) -> tuple[int, ...]:
    """Return the elements of a tensor of whole numbers: axes, sizes, places."""
    return tuple(int(each) for each in np.asarray(values).reshape(-1))


def transpose(x: Array, perm: Array) -> Array:
    """Return the axes in another order."""
    return x.transpose(whole_numbers(perm))


def transpose_d(x: Array, *, perm: Ints) -> Array:
    """Return the same."""
    return x.transpose(tuple(perm))


def confusion_transpose_d(x: Array, *, perm: Ints, shape: Ints, transpose_first: bool) -> Array:
    """Return the axes in another order and in another shape, whichever of both comes first."""
    return (
        x.transpose(tuple(perm)).reshape(tuple(shape))
        if transpose_first
        else x.reshape(tuple(shape)).transpose(tuple(perm))
    )


def concat_v2(*x: Array) -> Array:
    """Return tensors one behind the other, along the axis that the last input names."""
    *parts, axis = x
    return np.concatenate(parts, axis=int(axis.reshape(())))


def concat(concat_dim: Array, *x: Array) -> Array:
    """Return the same; the first input names the axis."""
    return np.concatenate(x, axis=int(concat_dim.reshape(())))


def concat_d(*x: Array, concat_dim: int) -> Array:
    """Return the same along the axis of the attribute."""
    return np.concatenate(x, axis=concat_dim)


def pack(*x: Array, axis: int = 0) -> Array:
    """Return tensors along a new axis."""
    return np.stack(x, axis=axis)


def unpack(x: Array, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the parts along an axis, which is gone from them."""
    return moves.unbind(x, axis)


def split(split_dim: Array, x: Array, *, num_split: int) -> tuple[Array, ...]:
    """Return so many equal parts along the axis that the first input names."""
    return tuple(np.split(x, num_split, axis=int(split_dim.reshape(()))))


def split_d(x: Array, *, split_dim: int, num_split: int) -> tuple[Array, ...]:
    """Return the same along the axis of the attribute."""
    return tuple(np.split(x, num_split, axis=split_dim))


def split_v(x: Array, size_splits: Array, split_dim: Array) -> tuple[Array, ...]:
    """Return parts of given lengths, of which one may be -1: what is left."""
    return split_by(x, whole_numbers(size_splits), int(split_dim.reshape(())))


def split_v_d(x: Array, *, size_splits: Ints, split_dim: int) -> tuple[Array, ...]:
    """Return the same."""
    return split_by(x, size_splits, split_dim)


def split_by(x: Array, sizes: Ints, axis: int) -> tuple[Array, ...]:
    """Return parts of given lengths along an axis."""
    rest = x.shape[axis] - sum(size for size in sizes if size >= 0)
    whole = [rest if size < 0 else size for size in sizes]
    if min(whole) < 0 or sum(whole) != x.shape[axis]:
        raise UnusableError(f"an axis of length {x.shape[axis]} has no parts of {list(sizes)}")
    return tuple(np.split(x, list(np.cumsum(whole)[:-1]), axis=axis))


def slice_(x: Array, offsets: Array, size: Array) -> Array:
    """Return a block that begins at places and has sizes, of which -1 is up to the end."""
    return slice_d(x, offsets=whole_numbers(offsets), size=whole_numbers(size))


def slice_d(x: Array, *, offsets: Ints, size: Ints) -> Array:
    """Return the same."""
    places = zip(offsets, size, strict=True)
    return x[tuple(slice(first, None if length == -1 else first + length) for first, length in places)]


def strided_slice(
    x: Array,
    begin: Array,
    end: Array,
    strides: Array | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Array:
    """Return a slice of each axis from the first on, as TensorFlow's ``StridedSlice``."""
    first = whole_numbers(begin)
    return strided_slice_d(
        x,
        begin=first,
        end=whole_numbers(end),
        strides=[1] * len(first) if strides is None else whole_numbers(strides),
        begin_mask=begin_mask,
        end_mask=end_mask,
        ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask,
    )


def strided_slice_d(
    x: Array,
    *,
    begin: Ints,
    end: Ints,
    strides: Ints,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Array:
    """Return the same; bit i of a mask says something of the i-th place: from the start, to the end, one place only."""
    if ellipsis_mask or new_axis_mask:
        raise UnusableError("`ellipsis_mask` and `new_axis_mask` are not computed")
    index: list[Any] = []
    for place, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << place
        if shrink_axis_mask & bit:
            index.append(first)
        else:
            index.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return x[tuple(index)]


def pad(x: Array, paddings: Array) -> Array:
    """Return the input with zeros around it: for each axis how many before and behind."""
    return np.pad(x, [(int(before), int(behind)) for before, behind in paddings.reshape(x.ndim, 2)])


def pad_v3(
    x: Array,
    paddings: Array,
    constant_values: Array | None = None,
    *,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Array:
    """Return the input with a constant, its reflection or its border around it.

    The lengths are pairs an axis where they are contiguous, else all those before and then all those behind.
    """
    pairs = paddings.reshape(x.ndim, 2) if paddings_contiguous else paddings.reshape(2, x.ndim).T
    return padded(x, [(int(before), int(behind)) for before, behind in pairs], mode, constant_values)


def padded(x: Array, pairs: Sequence[tuple[int, int]], mode: str, value: Array | float | None) -> Array:
    """Return the input with something around it."""
    if any(length < 0 for pair in pairs for length in pair):
        raise UnusableError("it cuts off instead of padding")
    if mode == "constant":
        return np.pad(x, pairs, constant_values=0 if value is None else np.asarray(value).reshape(-1)[0])
    if mode not in ("reflect", "edge"):
        raise UnusableError(f"padding by `{mode}` is not computed")
    return np.pad(x, pairs, mode="reflect" if mode == "reflect" else "edge")


def tile(x: Array, multiples: Array) -> Array:
    """Return the input laid side by side."""
    return np.tile(x, whole_numbers(multiples))


def tile_d(x: Array, *, multiples: Ints) -> Array:
    """Return the same."""
    return np.tile(x, tuple(multiples))


def broadcast_to(x: Array, shape: Array) -> Array:
    """Return the input repeated to a shape."""
    return np.broadcast_to(x, whole_numbers(shape))


def reshape(x: Array, shape: Array, *, axis: int = 0, num_axes: int = -1) -> Array:
    """Return the elements in another shape; 0 keeps a length."""
    if axis or num_axes != -1:
        raise UnusableError("a shape of some axes only is not computed")
    return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(whole_numbers(shape))])


def squeeze(x: Array, *, axis: Ints = ()) -> Array:
    """Return the input without axes of length 1."""
    return x.squeeze(tuple(axis) or None)


def unsqueeze(x: Array, *, axes: Ints) -> Array:
    """Return the input with axes of length 1 more."""
    return np.expand_dims(x, tuple(axes))


def expand_dims(x: Array, axis: Array) -> Array:
    """Return the input with one such axis more."""
    return np.expand_dims(x, int(axis.reshape(())))


def flatten(x: Array, *, axis: int = 1) -> Array:
    """Return a matrix: the axes before one, and the others."""
    return x.reshape(int(np.prod(x.shape[: axis % (x.ndim + 1)], dtype=np.int64)), -1)


def gather_v2(x: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
    """Return the parts along an axis that indices of any shape name."""
    return gathered(x, indices, int(axis.reshape(())), batch_dims)


def gather(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Return the same along the first axis."""
    return gathered(x, indices, 0, batch_dims)


def gather_v2_d(x: Array, indices: Array, *, axis: int) -> Array:
    """Return the same along the axis of the attribute."""
    return gathered(x, indices, axis, 0)


def gathered(x: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    """Return the parts along an axis that indices name; what lies outside is up to the kernel."""
    if batch_dims:
        raise UnusableError("`batch_dims` is not computed")
    length = x.shape[axis]
    places = indices.astype(np.int64)
    if places.size and (places.min() < -length or places.max() >= length):
        raise UnusableError(f"its indices lie outside 0 to {length - 1}")
    return x.take(places, axis=axis)


def gather_elements(x: Array, index: Array, *, dim: int = 0) -> Array:
    """Return the element along an axis that each index names."""
    return moves.gather(x, dim, np.where(index < 0, index + x.shape[dim], index))


def gather_nd(x: Array, indices: Array) -> Array:
    """Return the parts that the last axis of the indices names."""
    return x[tuple(np.moveaxis(indices.astype(np.int64), -1, 0))]


def one_hot(x: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
    """Return one value at the place that each element names, another one elsewhere."""
    size = int(depth.reshape(()))
    hit = np.asarray(x)[..., None] == np.arange(size)
    return np.moveaxis(np.where(hit, on_value.reshape(()), off_value.reshape(())), -1, axis)


def fill(dims: Array, value: Array) -> Array:
    """Return one value everywhere."""
    return np.broadcast_to(value.reshape(()), whole_numbers(dims))


def reducing(reduce: Callable[..., Any]) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Return a reduction whose axes are its second input, and the one that has them as an attribute."""

    def by_tensor(x: Array, axes: Array, *, keep_dims: bool = False, noop_with_empty_axes: bool = True) -> Array:
        if not axes.size and noop_with_empty_axes:
            return x
        return reduce(x, tuple(int(each) for each in axes.reshape(-1)) or None, keep_dims)

    def by_attribute(x: Array, *, axes: Ints, keep_dims: bool = False) -> Array:
        return reduce(x, tuple(axes) or None, keep_dims)

    return by_tensor, by_attribute


def _total_of_squares(x: Array, axes: Any, keep: bool) -> Array:
    return reductions.total(np.square(x), axes, keep)


def _product_of_all(x: Array, axes: Any, keep: bool) -> Array:
    return np.asarray(x.prod(axis=axes, keepdims=keep))


def square_sum(x: Array, *, axis: Ints, keep_dims: bool = False) -> Array:
    """Return the sum of squares over axes."""
    return _total_of_squares(x, tuple(axis) or None, keep_dims)


def _largest(x: Array, axes: Any, keep: bool) -> Array:
    return np.asarray(x.max(axis=axes, keepdims=keep))


def _smallest(x: Array, axes: Any, keep: bool) -> Array:
    return np.asarray(x.min(axis=axes, keepdims=keep))


_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "ReduceSum": reductions.total, "ReduceMean": reductions.mean, "ReduceMax": _largest, "ReduceMin": _smallest,
    "ReduceProd": _product_of_all, "ReduceAll": reductions.every, "ReduceAny": reductions.some,
}  # fmt: skip


def _reductions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name, reduce in _REDUCTIONS.items():
        found[name], found[f"{name}D"] = reducing(reduce)
    return found


def arg_max_v2(x: Array, dimension: Array) -> Array:
    """Return the place of the largest element along an axis."""
    return np.asarray(np.argmax(x, axis=int(dimension.reshape(()))))


def arg_max_d(x: Array, *, dimension: int) -> Array:
    """Return the same."""
    return np.asarray(np.argmax(x, axis=dimension))


def arg_min(x: Array, dimension: Array) -> Array:
    """Return the place of the smallest element along an axis."""
    return np.asarray(np.argmin(x, axis=int(dimension.reshape(()))))


def arg_min_d(x: Array, *, dimension: int) -> Array:
    """Return the same."""
    return np.asarray(np.argmin(x, axis=dimension))


def arg_max_with_value(x: Array, *, dimension: int, keep_dims: bool = False) -> tuple[Array, Array]:
    """Return the place of the largest element along an axis, and the element."""
    found = np.argmax(x, axis=dimension, keepdims=keep_dims), x.max(axis=dimension, keepdims=keep_dims)
    return np.asarray(found[0]), np.asarray(found[1])


def top_k_v2(x: Array, k: Array, *, sorted: bool = True, dim: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the k largest elements along an axis, or the smallest, in their order, and their places."""
    return reductions.topk(x, int(k.reshape(())), dim, largest, sorted)


def cumsum(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Return the running sum along an axis."""
    return cumsum_d(x, axis=int(axis.reshape(())), exclusive=exclusive, reverse=reverse)


def cumsum_d(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """Return the same; ``exclusive`` leaves out each element itself, ``reverse`` begins at the end."""
    turned = np.flip(x, axis) if reverse else x
    found = reductions.cumsum(turned, axis)
    if exclusive:
        found = found - turned
    return np.flip(found, axis) if reverse else found


DEVICE_MOVES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **_reductions(), "SquareSumV1": square_sum,
        "Transpose": transpose, "TransposeD": transpose_d, "ConfusionTransposeD": confusion_transpose_d,
        "ConcatV2": concat_v2, "Concat": concat, "ConcatD": concat_d, "ConcatV2D": concat_d, "Pack": pack,
        "Unpack": unpack, "Split": split, "SplitD": split_d, "SplitV": split_v, "SplitVD": split_v_d,
        "Slice": slice_, "SliceD": slice_d, "StridedSlice": strided_slice, "StridedSliceD": strided_slice_d,
        "Pad": pad, "PadV3": pad_v3, "Tile": tile, "TileD": tile_d, "BroadcastTo": broadcast_to, "Expand": broadcast_to,
        "Reshape": reshape, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "ExpandDims": expand_dims,
        "Flatten": flatten, "GatherV2": gather_v2, "Gather": gather, "GatherV2D": gather_v2_d,
        "GatherElements": gather_elements, "GatherNd": gather_nd, "OneHot": one_hot, "Fill": fill,
        "ArgMaxV2": arg_max_v2, "ArgMaxD": arg_max_d, "ArgMin": arg_min, "ArgMinD": arg_min_d,
        "ArgMaxWithValue": arg_max_with_value, "TopKV2": top_k_v2, "Cumsum": cumsum, "CumsumD": cumsum_d,
        "Identity": moves.same, "TensorMove": moves.same, "TransData": moves.same, "StopGradient": moves.same,
    }
)  # fmt: skip
