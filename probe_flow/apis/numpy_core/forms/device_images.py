"""Convolution, pooling and batch norm of devices: images with their channels second or last.

Source: as `device`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core import convolution, normalising

Array = NDArray[Any]
Ints = Sequence[int]


def conv2d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
) -> Array:
    """Return the convolution of images.

    Args:
        x: images, in the order of axes that the format names.
        filter: ``(out, in / groups, h, w)`` or ``(h, w, in / groups, out)``, whichever fits the channels; where both
            do, by the format of the images.
        bias: one for each output channel.
        strides, dilations: for each axis of the format.
        pads: above, below, left, right.
        groups: of channels.
        data_format: ``NCHW`` or ``NHWC``.
    """
    images, back = as_nchw(x, data_format)
    kernel, _ = as_kernel(filter, images.shape[1], groups, data_format)
    steps, gaps = of_image(strides, data_format), of_image(dilations, data_format)
    return back(
        convolution.conv(images, kernel, None if bias is None else bias.reshape(-1), steps, sides(pads), gaps, groups)
    )


def depthwise_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None = None,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints = (1, 1, 1, 1),
    data_format: str = "NHWC",
) -> Array:
    """Return the convolution of each channel alone, with as many filters as ``(h, w, channels, multiplier)`` says.

    In a graph of ``NCHW`` the filter is ``(multiplier, channels, h, w)``, or as `conv2d` has it for as many groups.
    """
    images, back = as_nchw(x, data_format)
    kernel, _ = as_depthwise(filter, images.shape[1], data_format)
    steps, gaps = of_image(strides, data_format), of_image(dilations, data_format)
    added = None if bias is None else bias.reshape(-1)
    return back(convolution.conv(images, kernel, added, steps, sides(pads), gaps, images.shape[1]))


def max_pool(x: Array, *, ksize: Ints, strides: Ints, padding: str, data_format: str = "NHWC") -> Array:
    """Return the largest element of each window; ``padding`` is ``VALID`` or ``SAME``."""
    return max_pool_v3(x, ksize=ksize, strides=strides, padding_mode=padding, data_format=data_format)


def max_pool_v3(
    x: Array,
    *,
    ksize: Ints,
    strides: Ints,
    padding_mode: str = "CALCULATED",
    pads: Ints = (0, 0, 0, 0),
    data_format: str = "NCHW",
    global_pooling: bool = False,
    ceil_mode: bool = False,
) -> Array:
    """Return the largest element of each window."""
    images, back = as_nchw(x, data_format)
    if global_pooling:
        return back(images.max(axis=(2, 3), keepdims=True))
    kernel, steps = of_image(ksize, data_format), of_image(strides, data_format)
    sides = padding_of(images, kernel, steps, padding_mode, pads)
    return back(convolution.max_pool(2)(images, kernel, steps, sides, ceil_mode=ceil_mode))


def avg_pool(x: Array, *, ksize: Ints, strides: Ints, padding: str, data_format: str = "NHWC") -> Array:
    """Return the mean of each window; what is padded does not count."""
    return avg_pool_v2(x, ksize=ksize, strides=strides, padding_mode=padding, data_format=data_format)


def avg_pool_v2(
    x: Array,
    *,
    ksize: Ints,
    strides: Ints,
    padding_mode: str = "CALCULATED",
    pads: Ints = (0, 0, 0, 0),
    data_format: str = "NCHW",
    global_pooling: bool = False,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int = 0,
) -> Array:
    """Return the mean of each window; ``exclusive``: what is padded does not count."""
    images, back = as_nchw(x, data_format)
    if global_pooling:
        return back(images.mean(axis=(2, 3), keepdims=True))
    kernel, steps = of_image(ksize, data_format), of_image(strides, data_format)
    sides = padding_of(images, kernel, steps, padding_mode, pads)
    pool = convolution.avg_pool(2)
    return back(pool(images, kernel, steps, sides, ceil_mode, not exclusive, divisor_override or None))


def as_nchw(x: Array, data_format: str) -> tuple[Array, Callable[[Array], Array]]:
    """Return images with their channels second, and what brings a result into the order of the input."""
    if x.ndim != 4 or data_format not in ("NCHW", "NHWC"):
        raise UnusableError(f"images of shape {list(x.shape)} in the order `{data_format}` are not computed")
    if data_format == "NCHW":
        return x, np.asarray
    return x.transpose(0, 3, 1, 2), lambda found: found.transpose(0, 2, 3, 1)


def as_kernel(filter: Array, channels: int, groups: int, data_format: str) -> tuple[Array, Callable[[Array], Array]]:
    """Return a filter as ``(out, in / groups, h, w)``, and what brings such a result into its own order (`conv2d`)."""
    if filter.ndim != 4:
        raise UnusableError(f"a filter of shape {list(filter.shape)} is not computed")
    fits = [filter.shape[axis] * groups == channels for axis in (1, 2)]
    if fits[1] and (data_format == "NHWC" or not fits[0]):
        return filter.transpose(3, 2, 0, 1), lambda found: found.transpose(2, 3, 1, 0)
    return filter, np.asarray


def as_depthwise(filter: Array, channels: int, data_format: str) -> tuple[Array, Callable[[Array], Array]]:
    """Return a filter of `depthwise_conv2d` as one of as many groups as channels, and the way back."""
    shape = filter.shape
    if filter.ndim != 4:
        raise UnusableError(f"a filter of shape {list(shape)} is not computed")
    if data_format == "NHWC" and shape[2] == channels:
        height, width, _, many = shape
        kernel = filter.transpose(2, 3, 0, 1).reshape(channels * many, 1, height, width)
        return kernel, lambda found: found.reshape(channels, many, height, width).transpose(2, 3, 0, 1)
    if shape[1] == channels:
        many, _, height, width = shape
        kernel = filter.transpose(1, 0, 2, 3).reshape(channels * many, 1, height, width)
        return kernel, lambda found: found.reshape(channels, many, height, width).transpose(1, 0, 2, 3)
    return filter, np.asarray


def of_image(values: Ints, data_format: str) -> Ints:
    """Return the two numbers of height and width: of four that stand for the axes, of two, or of one for both."""
    if len(values) == 4:
        return values[2:] if data_format == "NCHW" else values[1:3]
    return values if len(values) == 2 else [*values, *values]


def sides(pads: Ints) -> list[tuple[int, int]]:
    if len(pads) != 4 or any(pad < 0 for pad in pads):
        raise UnusableError(f"padding {list(pads)} is not computed")
    return [(pads[0], pads[1]), (pads[2], pads[3])]


def padding_of(images: Array, kernel: Ints, steps: Ints, mode: str, pads: Ints) -> list[tuple[int, int]]:
    if mode == "VALID":
        return [(0, 0), (0, 0)]
    if mode != "SAME":
        return sides(pads)
    return [same_padding(*each) for each in zip(images.shape[2:], kernel, steps, strict=True)]


def same_padding(size: int, length: int, step: int, *, is_lower: bool = False) -> tuple[int, int]:
    """Return the padding before and behind, by which there are ``size / step`` windows, rounded up."""
    whole = max(0, (-(-size // step) - 1) * step + length - size)
    less, more = whole // 2, whole - whole // 2
    return (more, less) if is_lower else (less, more)


def batch_norm(
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> Array:
    """Return the channels normalised, by their own statistics or by given ones."""
    images = np.moveaxis(x, -1, 1) if not data_format.startswith("NC") else x
    y = normalising.batch_norm(images, mean, variance, scale, offset, is_training, eps=epsilon)
    return np.moveaxis(y, 1, -1) if not data_format.startswith("NC") else y
