"""Moves, reductions and picks of ONNX. Source: as `onnx`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import DtypeName, UnusableError
from probe_flow.apis.numpy_core import moves, reductions
from probe_flow.apis.numpy_core.forms.device_moves import cumsum, gathered, one_hot, padded, split_by, whole_numbers

Array = NDArray[Any]
Ints = Sequence[int]

_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip


def cast(x: Array, *, to: int) -> Array:
    """Return the elements in another type; those of floats are rounded where the result is held."""
    return moves.cast(x, DtypeName(_DTYPES.get(to, f"type {to}")))


def reshape(data: Array, shape: Array | None = None, *, allowzero: int = 0, opset: int = 14) -> Array:  # noqa: ARG001
    """Return the elements in another shape; 0 keeps a length, but with ``allowzero``."""
    if shape is None:
        raise UnusableError("its shape is an attribute")
    wanted = whole_numbers(shape)
    if allowzero:
        return data.reshape(wanted)
    return data.reshape([data.shape[place] if size == 0 else size for place, size in enumerate(wanted)])


def flatten(x: Array, *, axis: int = 1) -> Array:
    """Return a matrix: the axes before one, and the others."""
    first = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:first]), -1)


def squeeze(data: Array, named: Array | None = None, *, axes: Ints | None = None) -> Array:
    """Return the input without axes of length 1."""
    found = _given(named, axes)
    return data.squeeze(found) if found is not None else data.squeeze()


def unsqueeze(data: Array, named: Array | None = None, *, axes: Ints | None = None) -> Array:
    """Return the input with axes of length 1 more."""
    return np.expand_dims(data, _given(named, axes) or ())


def transpose(data: Array, *, perm: Ints | None = None) -> Array:
    """Return the axes in another order, by itself the other way round."""
    return data.transpose(tuple(perm) if perm is not None else None)


def concat(*inputs: Array, axis: int) -> Array:
    """Return tensors one behind the other along an axis."""
    return np.concatenate(inputs, axis=axis)


def split_(
    x: Array, sizes: Array | None = None, *, axis: int = 0, split: Ints | None = None, num_outputs: int | None = None
) -> tuple[Array, ...]:
    """Return parts along an axis: of given lengths, or so many of one length, the last maybe shorter."""
    lengths = _given(sizes, split)
    if lengths is None:
        if num_outputs is None:
            raise UnusableError("into how many parts it cuts is told by its results only")
        size = -(-x.shape[axis] // num_outputs)
        lengths = (*[size] * (num_outputs - 1), x.shape[axis] - size * (num_outputs - 1))
    return split_by(x, lengths, axis)


def slice_(
    data: Array,
    first: Array | None = None,
    last: Array | None = None,
    named: Array | None = None,
    by: Array | None = None,
    *,
    starts: Ints | None = None,
    ends: Ints | None = None,
    axes: Ints | None = None,
) -> Array:
    """Return a slice of some axes."""
    begin, end = _given(first, starts), _given(last, ends)
    if begin is None or end is None:
        raise UnusableError("its places are not known")
    along = _given(named, axes) or tuple(range(len(begin)))
    steps = whole_numbers(by) if by is not None else (1,) * len(begin)
    index: list[Any] = [slice(None)] * data.ndim
    for axis, start, stop, step in zip(along, begin, end, steps, strict=True):
        size = data.shape[axis]
        # Beyond the first element backwards is not what Python's -1 means.
        index[axis] = slice(start, None if step < 0 and stop < -size else stop, step)
    return data[tuple(index)]


def gather(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """Return the parts along an axis that indices name."""
    return gathered(data, np.asarray(indices), axis, 0)


def gather_elements(data: Array, indices: Array, *, axis: int = 0) -> Array:
    """Return the element along an axis that each index names."""
    size = data.shape[axis]
    return moves.gather(data, axis, np.where(indices < 0, indices + size, indices))


def gather_nd(data: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Return the parts that the last axis of the indices names."""
    if batch_dims:
        raise UnusableError("`batch_dims` is not computed")
    return data[tuple(np.moveaxis(np.asarray(indices).astype(np.int64), -1, 0))]


def expand(x: Array, shape: Array) -> Array:
    """Return the input repeated to a shape that both are broadcast to."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, whole_numbers(shape)))


def tile(x: Array, repeats: Array) -> Array:
    """Return the input laid side by side."""
    return np.tile(x, whole_numbers(repeats))


def pad(
    data: Array,
    lengths: Array | None = None,
    constant_value: Array | None = None,
    named: Array | None = None,
    *,
    mode: str = "constant",
    pads: Ints | None = None,
    value: float = 0.0,
) -> Array:
    """Return the input with something around it: all lengths before, then all behind, of some axes or of all."""
    given = _given(lengths, pads)
    if given is None:
        raise UnusableError("how much it pads is not known")
    along = whole_numbers(named) if named is not None else tuple(range(data.ndim))
    pairs = [(0, 0)] * data.ndim
    for place, axis in enumerate(along):
        pairs[axis] = given[place], given[place + len(along)]
    return padded(data, pairs, mode, value if constant_value is None else constant_value)


def depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Return channels as pixels."""
    n, c, h, w = x.shape
    inner = c // blocksize**2
    if mode == "DCR":
        parts = x.reshape(n, blocksize, blocksize, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, inner, blocksize, blocksize, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, inner, h * blocksize, w * blocksize)


def space_to_depth(x: Array, *, blocksize: int) -> Array:
    """Return pixels as channels."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


def trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """Return one triangle, 0 elsewhere."""
    at = 0 if k is None else int(np.asarray(k).reshape(()))
    return np.triu(x, at) if upper else np.tril(x, at)


def one_hot_of_two(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """Return the second value at the place that each index names, the first one elsewhere."""
    size = int(np.asarray(depth).reshape(()))
    places = np.where(indices < 0, indices + size, indices)
    return one_hot(places, np.asarray(size), values[1], values[0], axis=axis)


def resize(
    x: Array,
    roi: Array | None = None,  # noqa: ARG001
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    axes: Ints | None = None,
) -> Array:
    """Return the input with the nearest elements repeated; no other way of scaling."""
    if mode != "nearest" or axes is not None:
        raise UnusableError(f"scaling by `{mode}`, or along some axes only, is not computed")
    found = x
    for axis, size in enumerate(x.shape):
        if sizes is not None and np.size(sizes):
            length = whole_numbers(sizes)[axis]
            scale = length / size
        elif scales is not None and np.size(scales):
            scale = float(np.asarray(scales).reshape(-1)[axis])
            length = math.floor(size * scale)
        else:
            raise UnusableError("its size is not known")
        if length != size:
            places = _source_places(size, length, scale, coordinate_transformation_mode, nearest_mode)
            found = found.take(places, axis=axis)
    return found


def _source_places(size: int, length: int, scale: float, mode: str, nearest: str) -> Array:
    out: Array = np.arange(length)
    at: Array
    if mode == "asymmetric":
        at = out / scale
    elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and length > 1):
        at = (out + 0.5) / scale - 0.5
    elif mode == "align_corners":
        at = out * (size - 1) / max(1, length - 1)
    else:
        raise UnusableError(f"coordinates `{mode}` are not computed")
    rounded = {
        "round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at), "ceil": np.ceil(at),
    }.get(nearest)  # fmt: skip
    if rounded is None:
        raise UnusableError(f"rounding `{nearest}` is not known")
    return np.clip(rounded, 0, size - 1).astype(np.int64)


# -- reductions and picks


def reducing(reduce: Callable[..., Any]) -> Callable[..., Array]:
    """Return a reduction over axes that are an input or, in older versions, an attribute."""

    def operator(
        data: Array,
        named: Array | None = None,
        *,
        axes: Ints | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        along = _given(named, axes)
        if not along and noop_with_empty_axes:
            return data
        return np.asarray(reduce(data, along or tuple(range(data.ndim)), bool(keepdims)))

    return operator


def _l2(data: Array, axes: Any, keep: bool) -> Array:
    return np.sqrt(reductions.total(np.square(data), axes, keep))


_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "ReduceSum": reductions.total, "ReduceMean": reductions.mean, "ReduceLogSumExp": reductions.logsumexp,
    "ReduceL2": _l2,
    "ReduceMax": lambda data, axes, keep: data.max(axis=axes, keepdims=keep),
    "ReduceMin": lambda data, axes, keep: data.min(axis=axes, keepdims=keep),
    "ReduceProd": lambda data, axes, keep: data.prod(axis=axes, keepdims=keep),
    "ReduceL1": lambda data, axes, keep: reductions.total(np.abs(data), axes, keep),
    "ReduceSumSquare": lambda data, axes, keep: reductions.total(np.square(data), axes, keep),
    "ReduceLogSum": lambda data, axes, keep: np.log(reductions.total(data, axes, keep)),
}  # fmt: skip


def arg_max(data: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:  # noqa: ARG001
    """Return the place of the largest element along an axis; which of equal ones is judged by their values."""
    return np.asarray(np.argmax(data, axis=axis, keepdims=bool(keepdims)))


def arg_min(data: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:  # noqa: ARG001
    """Return the place of the smallest one."""
    return np.asarray(np.argmin(data, axis=axis, keepdims=bool(keepdims)))


def top_k(
    x: Array, number: Array | None = None, *, axis: int = -1, k: int | None = None, largest: int = 1, sorted: int = 1
) -> tuple[Array, Array]:
    """Return the k largest elements along an axis, or the smallest, in their order, and their places."""
    count = k if number is None else int(np.asarray(number).reshape(()))
    if count is None:
        raise UnusableError("how many it picks is not known")
    return reductions.topk(x, count, axis, bool(largest), bool(sorted))


def cum_sum(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """Return the running sum along an axis."""
    return cumsum(x, np.asarray(axis), exclusive=bool(exclusive), reverse=bool(reverse))


def _given(by_input: Any, by_attribute: Ints | None) -> tuple[int, ...] | None:
    if by_input is not None:
        return whole_numbers(by_input)
    return tuple(by_attribute) if by_attribute is not None else None


ONNX_MOVES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **{name: reducing(reduce) for name, reduce in _REDUCTIONS.items()},
        "Cast": cast, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze, "Unsqueeze": unsqueeze,
        "Transpose": transpose, "Concat": concat, "Split": split_, "Slice": slice_, "Gather": gather,
        "GatherElements": gather_elements, "GatherND": gather_nd, "Expand": expand, "Tile": tile, "Pad": pad,
        "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth, "Trilu": trilu, "OneHot": one_hot_of_two,
        "Resize": resize, "ArgMax": arg_max, "ArgMin": arg_min, "TopK": top_k, "CumSum": cum_sum,
    }
)  # fmt: skip
