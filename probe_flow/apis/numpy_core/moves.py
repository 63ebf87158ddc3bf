"""Operators that only move elements: views, joins, cuts, look-ups; and casts, whose rounding is that of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import DtypeName, UnusableError

Array = NDArray[Any]

FLOAT_CASTS = frozenset({"float16", "bfloat16", "float32", "float64"})


def same(input: Array, *_: object, **__: object) -> Array:
    """Return the input: a copy, or a view of all of it."""
    return input


def reshape(input: Array, *shape: Any) -> Array:
    """Return the elements in another shape; one length may be -1."""
    return input.reshape(_unpacked(shape))


def view_as(input: Array, other: Array) -> Array:
    """Return the elements in the shape of another tensor."""
    return input.reshape(other.shape)


def flatten(input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Return neighbouring axes as one."""
    if input.ndim == 0:
        return input.reshape(1)
    first, last = start_dim % input.ndim, end_dim % input.ndim
    return input.reshape(*input.shape[:first], -1, *input.shape[last + 1 :])


def transpose(input: Array, dim0: int, dim1: int) -> Array:
    """Return the input with two axes exchanged."""
    return input.swapaxes(dim0, dim1)


def turn(input: Array) -> Array:
    """Return a matrix with rows as columns; vectors stay."""
    return input.T


def permute(input: Array, *dims: Any) -> Array:
    """Return the axes in another order."""
    return input.transpose(_unpacked(dims))


def squeeze(input: Array, dim: Any = None) -> Array:
    """Return the input without its axes of length 1, or without those named that are."""
    if dim is None:
        return input.squeeze()
    named = [each % input.ndim for each in (dim if isinstance(dim, tuple | list) else [dim])]
    return input.squeeze(tuple(each for each in named if input.shape[each] == 1))


def unsqueeze(input: Array, dim: int) -> Array:
    """Return the input with one more axis, of length 1."""
    return np.expand_dims(input, dim)


def expand(input: Array, *sizes: Any) -> Array:
    """Return the input repeated along axes of length 1; -1 keeps a length."""
    wanted = _unpacked(sizes)
    own = (1,) * (len(wanted) - input.ndim) + input.shape
    return np.broadcast_to(input, [mine if size == -1 else size for size, mine in zip(wanted, own, strict=True)])


def expand_as(input: Array, other: Array) -> Array:
    """Return the input repeated to the shape of another tensor."""
    return np.broadcast_to(input, other.shape)


def movedim(input: Array, source: Any, destination: Any) -> Array:
    """Return the input with axes at other places, and the others in their order."""
    return np.moveaxis(input, source, destination)


def unflatten(input: Array, dim: int, sizes: Sequence[int]) -> Array:
    """Return the input with one axis laid out as several."""
    axis = dim % input.ndim
    return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])


def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """Return the diagonal of two axes, as the last axis."""
    return np.diagonal(input, offset, dim1, dim2)


def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    """Return images that are larger by a factor, each square of pixels made of that many channels (axis -3)."""
    *batch, channels, height, width = input.shape
    factor, first = upscale_factor, len(batch)
    parts = input.reshape(*batch, channels // factor**2, factor, factor, height, width)
    order = (*range(first), first, first + 3, first + 1, first + 4, first + 2)
    return parts.transpose(order).reshape(*batch, channels // factor**2, height * factor, width * factor)


def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    """Return images that are smaller by a factor, of each square of pixels that many channels."""
    *batch, channels, height, width = input.shape
    factor, first = downscale_factor, len(batch)
    parts = input.reshape(*batch, channels, height // factor, factor, width // factor, factor)
    order = (*range(first), first, first + 2, first + 4, first + 1, first + 3)
    return parts.transpose(order).reshape(*batch, channels * factor**2, height // factor, width // factor)


def repeat(input: Array, *sizes: Any) -> Array:
    """Return the input laid side by side so many times along each axis."""
    return np.tile(input, _unpacked(sizes))


def repeat_interleave(input: Array, repeats: int, dim: int | None = None) -> Array:
    """Return each element so many times."""
    if not isinstance(repeats, int):
        raise UnusableError("its repeats differ from element to element")
    return np.repeat(input, repeats, axis=dim)


def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Return tensors one behind the other along an axis; empty vectors count as nothing, as in torch."""
    parts = [each for each in tensors if each.shape != (0,)]
    return np.concatenate(parts or list(tensors), axis=dim)


def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Return tensors one behind the other along a new axis."""
    return np.stack(list(tensors), axis=dim)


def added(*tensors: Array, ranges: Sequence[tuple[int, int]], shape: Sequence[int]) -> Array:
    """Return the sum of flat ranges of tensors, all of one length, in a shape: what a collective adds up."""
    first, *others = _ranges(tensors, ranges)
    return np.asarray(sum(others, start=first)).reshape(shape)


def joined(*tensors: Array, ranges: Sequence[tuple[int, int]], shape: Sequence[int]) -> Array:
    """Return flat ranges of tensors one behind the other, in a shape: what a collective puts together."""
    return np.concatenate(_ranges(tensors, ranges)).reshape(shape)


def _ranges(tensors: Sequence[Array], ranges: Sequence[tuple[int, int]]) -> list[Array]:
    return [tensor.reshape(-1)[start:stop] for tensor, (start, stop) in zip(tensors, ranges, strict=True)]


def hstack(tensors: Sequence[Array]) -> Array:
    """Return tensors one behind the other along the second axis, vectors along the only one."""
    return np.hstack(list(tensors))


def vstack(tensors: Sequence[Array]) -> Array:
    """Return tensors one below the other, vectors as rows."""
    return np.vstack(list(tensors))


def split(input: Array, split_size_or_sections: Any, dim: int = 0) -> tuple[Array, ...]:
    """Return parts along an axis: of one length, the last maybe shorter, or of those listed."""
    length, sizes = input.shape[dim], split_size_or_sections
    edges = list(range(sizes, length, sizes)) if isinstance(sizes, int) else list(np.cumsum(sizes)[:-1])
    return tuple(np.split(input, edges, axis=dim))


def chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    """Return at most so many parts of one length, the last maybe shorter."""
    return split(input, -(-input.shape[dim] // chunks) or 1, dim)


def unbind(input: Array, dim: int = 0) -> tuple[Array, ...]:
    """Return the parts along an axis, which is gone from them."""
    return tuple(np.moveaxis(input, dim, 0))


def narrow(input: Array, dim: int, start: int, length: int) -> Array:
    """Return a part along an axis."""
    return input.take(range(int(start), int(start) + length), axis=dim)


def select(input: Array, dim: int, index: int) -> Array:
    """Return the elements at one place of an axis."""
    return input.take(index, axis=dim)


def aten_slice(input: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """Return a slice along an axis."""
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)]


def get_item(input: Array, index: Any) -> Array:
    """Return what an index names: numbers, slices, ``...``, None, masks and tensors of places."""
    return input[index]


def flip(input: Array, *dims: Any) -> Array:
    """Return axes the other way round."""
    return np.flip(input, _unpacked(dims))


def roll(input: Array, shifts: Any, dims: Any = None) -> Array:
    """Return elements moved along axes, those that fall out put in again."""
    return np.roll(input, shifts, axis=dims)


def tril(input: Array, diagonal: int = 0) -> Array:
    """Return the lower triangle, 0 elsewhere."""
    return np.tril(input, diagonal)


def triu(input: Array, diagonal: int = 0) -> Array:
    """Return the upper triangle, 0 elsewhere."""
    return np.triu(input, diagonal)


def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """Return the input with constants around it: pairs of lengths, those of the last axis first."""
    if mode != "constant":
        raise UnusableError(f"padding by `{mode}` is not computed")
    if any(length < 0 for length in pad):
        raise UnusableError("it cuts off instead of padding")
    pairs = [(0, 0)] * (input.ndim - len(pad) // 2) + [tuple(pad[at : at + 2]) for at in range(len(pad) - 2, -1, -2)]
    return np.pad(input, pairs, constant_values=value or 0)


def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:  # noqa: ARG001
    """Return ``input[i][index[i][j]]`` along an axis; the index may be shorter in the others."""
    cut = tuple(slice(None) if axis == dim % input.ndim else slice(size) for axis, size in enumerate(index.shape))
    return np.take_along_axis(input[cut], _places(index, input.shape[dim]), axis=dim)


def take_along(input: Array, indices: Array, dim: int | None = None) -> Array:
    """Return elements by their places along an axis; other axes are broadcast."""
    return np.take_along_axis(input, indices, axis=dim)


def index_select(input: Array, dim: int, index: Array) -> Array:
    """Return the parts along an axis that a vector of places names."""
    return input.take(_places(index, input.shape[dim]), axis=dim)


def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,  # noqa: ARG001
    max_norm: float | None = None,
    norm_type: float = 2.0,  # noqa: ARG001
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    sparse: bool = False,  # noqa: ARG001
) -> Array:
    """Return the rows of the weight that the input names."""
    if max_norm is not None:
        raise UnusableError("it changes its weight in place")
    return weight[_places(input, weight.shape[0])]


def torch_embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,  # noqa: ARG001
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    sparse: bool = False,  # noqa: ARG001
) -> Array:
    """Return the same with the arguments in the order of ``torch.embedding``."""
    return weight[_places(indices, weight.shape[0])]


def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,  # noqa: ARG001
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    mode: str = "mean",
    sparse: bool = False,  # noqa: ARG001
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """Return the sum, mean or largest of the rows of the weight that each row of the input names."""
    if max_norm is not None:
        raise UnusableError("it changes its weight in place")
    if offsets is not None or include_last_offset or padding_idx is not None or input.ndim != 2:
        raise UnusableError("its bags are of several lengths")
    rows = weight[_places(input, weight.shape[0])]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    if mode not in ("sum", "mean", "max"):
        raise UnusableError(f"mode `{mode}` is not known")
    return np.asarray(getattr(rows, mode)(axis=1))


def ms_gather(input_params: Array, input_indices: Array, axis: int, batch_dims: int = 0) -> Array:
    """Return the parts along an axis that indices of any shape name, as MindSpore and ONNX gather."""
    if batch_dims:
        raise UnusableError("`batch_dims` is not computed")
    return input_params.take(_places(input_indices, input_params.shape[axis]), axis=axis)


def one_hot(input: Array, num_classes: int = -1) -> Array:
    """Return 1 at the place that each element names, 0 elsewhere."""
    classes = int(input.max()) + 1 if num_classes == -1 else num_classes
    return np.eye(classes, dtype=np.int64)[_places(input, classes)]


def cast(input: Array, dtype: DtypeName) -> Array:
    """Return the input in another element type: integers cut off the fraction, floats round when the result is held."""
    return _as_type(input, dtype.dtype)


def cast_to(dtype: str) -> Any:
    """Return the cast to one element type."""

    def operator(input: Array, memory_format: object = None) -> Array:  # noqa: ARG001
        return _as_type(input, dtype)

    return operator


def type_as(input: Array, other: Array) -> Array:
    """Return the input in the element type of another tensor."""
    return _as_type(input, "float64" if other.dtype.kind == "f" else str(other.dtype))


def to(input: Array, *wanted: Any, dtype: Any = None, **others: object) -> Array:
    """Return the input in the element type that is named, by itself or by a tensor; a device changes nothing."""
    unknown = others.keys() - {"device", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise UnusableError(f"argument `{min(unknown)}` is not known")
    for each in (dtype, *wanted):
        if isinstance(each, np.ndarray):
            return type_as(input, each)
        if isinstance(each, DtypeName):
            return _as_type(input, each.dtype)
    return input


def _as_type(input: Array, dtype: str) -> Array:
    if dtype in FLOAT_CASTS:
        return input.astype(np.float64)
    if dtype == "bool":
        return input.astype(np.bool_)
    if dtype.lstrip("u").startswith("int"):
        finite = np.isfinite(input).all() if input.dtype.kind == "f" else True
        limits = np.iinfo(dtype)
        if not finite or (input.size and (input.min() < limits.min or input.max() > limits.max)):
            raise UnusableError(f"values beyond `{dtype}`, whose cast is up to the kernel")
        return input.astype(np.int64)
    raise UnusableError(f"casts to `{dtype}` are not computed")


def _places(index: Array, length: int) -> Array:
    found = index.astype(np.int64)
    if found.size and (found.min() < 0 or found.max() >= length):
        raise UnusableError(f"its indices lie outside 0 to {length - 1}")
    return found


def _unpacked(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Return numbers that were given one by one, or as one list."""
    given = values[0] if len(values) == 1 and isinstance(values[0], tuple | list) else values
    return tuple(int(each) for each in given)
