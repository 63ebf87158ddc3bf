"""Convolutions and pooling over any number of axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError

Array = NDArray[Any]
Sizes = Sequence[int] | int
Padding = Sizes | Sequence[tuple[int, int]] | str
"""Lengths on both sides of each axis, before and behind it, or by a name: ``valid`` (none), ``same``."""


def conv(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """Return the convolution of ``(batch, channels, ...)``, or of one image, with ``(out, channels / groups, ...)``."""
    axes = weight.ndim - 2
    is_single = input.ndim == axes + 1
    x = input[None] if is_single else input
    steps, gaps = each_axis(stride, axes), each_axis(dilation, axes)
    reach = [gap * (size - 1) + 1 for gap, size in zip(gaps, weight.shape[2:], strict=True)]
    x = np.pad(x, [(0, 0), (0, 0), *padded_sides(padding, reach, axes)])
    windows = sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    windows = windows[_at(slice(None), slice(None), *_strides(steps), *_strides(gaps))]
    of_groups = np.split(windows, groups, axis=1)
    filters = np.split(weight, groups)
    summed = [1, *range(2 + axes, 2 + 2 * axes)], [1, *range(2, 2 + axes)]
    parts = [np.tensordot(part, kernel, axes=summed) for part, kernel in zip(of_groups, filters, strict=True)]
    out = np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
    if bias is not None:
        out = out + bias.reshape(1, -1, *[1] * axes)
    return out[0] if is_single else out


def conv_aten(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    """Return either kind of convolution, with the arguments of ``aten.convolution``."""
    if transposed:
        return conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Array:
    """Return the transposed convolution with ``(channels, out / groups, ...)``: each input element adds a kernel."""
    axes = weight.ndim - 2
    is_single = input.ndim == axes + 1
    x = input[None] if is_single else input
    steps, pads, gaps, more = (each_axis(value, axes) for value in (stride, padding, dilation, output_padding))
    sizes, kernel = x.shape[2:], weight.shape[2:]
    whole = [
        (size - 1) * step + gap * (length - 1) + 1 + extra
        for size, step, gap, length, extra in zip(sizes, steps, gaps, kernel, more, strict=True)
    ]
    out = np.zeros((x.shape[0], weight.shape[1] * groups, *whole))
    channels, given = weight.shape[0] // groups, weight.shape[1]
    for group, place in itertools.product(range(groups), np.ndindex(*kernel)):
        part = x[:, group * channels : (group + 1) * channels]
        factor = weight[_at(slice(group * channels, (group + 1) * channels), slice(None), *place)]
        spread = np.moveaxis(np.tensordot(part, factor, axes=([1], [0])), -1, 1)
        at = tuple(
            slice(each * gap, each * gap + (size - 1) * step + 1, step)
            for each, gap, size, step in zip(place, gaps, sizes, steps, strict=True)
        )
        out[_at(slice(None), slice(group * given, (group + 1) * given), *at)] += spread
    cut = tuple(slice(pad, size - pad) for pad, size in zip(pads, whole, strict=True))
    out = out[_at(slice(None), slice(None), *cut)]
    if bias is not None:
        out = out + bias.reshape(1, -1, *[1] * axes)
    return out[0] if is_single else out


def max_pool(axes: int) -> Any:
    """Return the pooling over so many axes that keeps the largest element of each window."""

    def pool(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Array:
        if return_indices:
            raise UnusableError("`return_indices` is not computed")
        windows = _windows(input, axes, kernel_size, stride, padding, dilation, filler=-np.inf, is_ceil=ceil_mode)
        return np.asarray(windows.max(axis=tuple(range(-axes, 0))))

    return pool


def avg_pool(axes: int) -> Any:
    """Return the pooling over so many axes that takes the mean of each window."""

    def pool(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        last = tuple(range(-axes, 0))
        total = _windows(input, axes, kernel_size, stride, padding, 1, is_ceil=ceil_mode).sum(axis=last)
        if divisor_override is not None:
            return np.asarray(total / divisor_override)
        ones, filler = np.ones(input.shape[-axes:]), 1.0 if count_include_pad else 0.0
        counts = _windows(ones, axes, kernel_size, stride, padding, 1, filler=filler, is_ceil=ceil_mode).sum(axis=last)
        return np.asarray(total / counts)

    return pool


def adaptive_avg_pool(axes: int) -> Any:
    """Return the pooling to a given size of so many axes; each window takes the mean of what falls into it."""

    def pool(input: Array, output_size: Sizes | None) -> Array:
        wanted = output_size if isinstance(output_size, tuple | list) else [output_size] * axes
        out = input
        for axis, length in zip(range(-axes, 0), wanted, strict=True):
            size = out.shape[axis]
            parts = length or size
            edges = [(part * size // parts, -(-(part + 1) * size // parts)) for part in range(parts)]
            means = [out.take(range(*edge), axis=axis).mean(axis=axis, keepdims=True) for edge in edges]
            out = np.concatenate(means, axis=axis)
        return out

    return pool


def _windows(
    input: Array,
    axes: int,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    *,
    filler: float = 0.0,
    is_ceil: bool = False,
) -> Array:
    """Return the windows of the last axes, of lengths ``kernel``.

    With ``is_ceil`` those too that reach beyond the padding, if they begin before it; what lies there is the smallest
    element, or counts as nothing.
    """
    lengths, gaps = each_axis(kernel, axes), each_axis(dilation, axes)
    steps = each_axis(kernel if stride is None or stride == () else stride, axes)
    reach = [gap * (length - 1) + 1 for gap, length in zip(gaps, lengths, strict=True)]
    pads = padded_sides(padding, reach, axes)
    none = [(0, 0)] * (input.ndim - axes)
    x = np.pad(input, [*none, *pads], constant_values=filler) if any(map(any, pads)) else input
    if is_ceil:
        sizes = input.shape[-axes:]
        more = [(0, _beyond(*each)) for each in zip(sizes, pads, reach, steps, strict=True)]
        x = np.pad(x, [*none, *more], constant_values=min(filler, 0.0))
    windows = sliding_window_view(x, reach, axis=tuple(range(x.ndim - axes, x.ndim)))
    return windows[_at(..., *_strides(steps), *_strides(gaps))]


def _beyond(size: int, pads: tuple[int, int], reach: int, step: int) -> int:
    """Return by how much the last window of an axis reaches beyond the padding."""
    whole = size + sum(pads)
    count = -(-(whole - reach) // step) + 1
    if (count - 1) * step >= size + pads[0]:
        count -= 1
    return max(0, (count - 1) * step + reach - whole)


def _strides(steps: Sequence[int]) -> list[slice]:
    return [slice(None, None, step) for step in steps]


def _at(*places: Any) -> Any:
    """Return an index of several axes."""
    return places


def padded_sides(padding: Padding, reach: Sequence[int], axes: int) -> list[tuple[int, int]]:
    """Return the lengths before and behind each axis; ``reach``: how many elements a window spans."""
    if padding == "valid":
        return [(0, 0)] * axes
    if padding == "same":
        return [((size - 1) // 2, size - 1 - (size - 1) // 2) for size in reach]
    if isinstance(padding, str):
        raise UnusableError(f"padding `{padding}` is not known")
    if isinstance(padding, int):
        return [(padding, padding)] * axes
    pairs = [(each, each) if isinstance(each, int) else (int(each[0]), int(each[1])) for each in padding]
    return pairs * axes if len(pairs) == 1 else pairs


def each_axis(value: Sizes, axes: int) -> list[int]:
    """Return one number per axis: one alone stands for all."""
    found = [int(value)] * axes if isinstance(value, int) else [int(each) for each in value]
    return found * axes if len(found) == 1 else found


MAX_POOLS, AVG_POOLS, ADAPTIVE_POOLS = (
    {axes: make(axes) for axes in (1, 2, 3)} for make in (max_pool, avg_pool, adaptive_avg_pool)
)
"""By the number of axes."""
