"""Operators of devices that make or read quantised values.

Source: as in `device`. Of optional inputs that are absent a dump holds nothing, so what an input is shows in its type
and size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError

Array = NDArray[Any]

_ROUNDINGS = {
    "Round": np.rint,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Ceiling": np.ceil,
    "Trunc": np.trunc,
    "Truncate": np.trunc,
}


def ascend_quant(x: Array, *, scale: float, offset: float, sqrt_mode: bool = False, round_mode: str = "Round") -> Array:
    """Return ``scale * x + offset`` as whole numbers of 8 bits, in floats: which way they round is no error."""
    if round_mode not in _ROUNDINGS:
        raise UnusableError(f"rounding `{round_mode}` is not known")
    factor = scale * scale if sqrt_mode else scale
    return np.clip(_ROUNDINGS[round_mode](factor * x + offset), -128.0, 127.0)


def ascend_dequant(x: Array, deq_scale: Array, *, sqrt_mode: bool = False, relu_flag: bool = False) -> Array:
    """Return whole numbers times a scale, one for all or for each channel: float32 in the lower half of 64 bits."""
    factor = fractions(deq_scale)
    if sqrt_mode:
        factor = factor * factor
    shaped = factor.reshape(1, -1, *[1] * (x.ndim - 2)) if factor.size > 1 and x.ndim > 3 else factor
    found = x * shaped
    return np.maximum(found, 0) if relu_flag else np.asarray(found)


def ascend_anti_quant(x: Array, *, scale: float, offset: float, sqrt_mode: bool = False) -> Array:
    """Return whole numbers and an offset, times a scale."""
    return np.asarray((x + offset) * (scale * scale if sqrt_mode else scale))


_LARGEST = {2: 127.0, 29: 7.0}
"""Largest whole number of the types that `DynamicQuant` gives, by their numbers in attributes: int8, int4."""


def dynamic_quant(
    x: Array, smooth_scales: Array | None = None, *_groups: Array, dst_type: int = 2
) -> tuple[Array, Array]:
    """Return each row as whole numbers, the largest of which is that of the type, and the scales of the rows."""
    if dst_type not in _LARGEST:
        raise UnusableError(f"quantising to type {dst_type} is not known")
    if smooth_scales is not None and smooth_scales.shape != x.shape[-1:]:
        raise UnusableError("smoothing scales of groups are not known")
    smooth = x if smooth_scales is None else x * smooth_scales
    scale = np.abs(smooth).max(axis=-1) / _LARGEST[dst_type]
    whole = np.divide(smooth, scale[..., None], out=np.zeros(x.shape), where=scale[..., None] > 0)
    return np.rint(whole), np.asarray(scale)


def quant_batch_matmul(
    x1: Array, x2: Array, scale: Array, *more: Array, transpose_x1: bool = False, transpose_x2: bool = False
) -> Array:
    """Return the product of quantised matrices times their scales: one, or one a column, and one a row.

    Among ``more`` whole numbers are a bias in front of the scales, positive fractions, one a row, the scales of rows,
    others a bias behind.
    """
    product = _turned(x1, turns=transpose_x1) @ _turned(x2, turns=transpose_x2)
    rows, columns = product.shape[-2:]
    behind: list[Array] = []
    factor = fractions(scale)
    if factor.size not in (1, columns):
        raise UnusableError("scales of groups are not known")
    for each in more:
        if each.dtype.kind in "iu":
            product = product + each
        elif each.size == rows and (each > 0).all():
            factor = factor * each.reshape(-1, 1)
        else:
            behind.append(each)
    return np.asarray(sum(behind, product * factor))


def weight_quant_batch_matmul(
    x: Array, weight: Array, antiquant_scale: Array, *more: Array, transpose_x: bool = False,
    transpose_weight: bool = False, antiquant_group_size: int = 0,
) -> Array:  # fmt: skip
    """Return the product with weights of whole numbers times their scales; ``more`` are offset and bias."""
    if antiquant_group_size:
        raise UnusableError("scales of groups are not known")
    offset = next((each for each in more[:1] if each.shape == antiquant_scale.shape), None)
    weights = (weight if offset is None else weight + offset) * antiquant_scale
    product = _turned(x, turns=transpose_x) @ _turned(weights, turns=transpose_weight)
    return np.asarray(sum(more[offset is not None :], product))


def _turned(matrix: Array, *, turns: bool) -> Array:
    return matrix.swapaxes(-1, -2) if turns else matrix


def fractions(scale: Array) -> Array:
    """Return scales as numbers: in whole numbers of 64 bits the lower half is a float32."""
    flat = scale.reshape(-1)
    found = (flat & 0xFFFFFFFF).astype(np.uint32).view(np.float32) if flat.dtype.kind in "iu" else flat
    return np.asarray(found.astype(np.float64))


QUANTISED: Mapping[str, Callable[..., Any]] = {
    "AscendQuant": ascend_quant, "AscendDequant": ascend_dequant, "AscendAntiQuant": ascend_anti_quant,
    "DynamicQuant": dynamic_quant, "QuantBatchMatmulV3": quant_batch_matmul, "QuantBatchMatmulV4": quant_batch_matmul,
    "WeightQuantBatchMatmulV2": weight_quant_batch_matmul,
}  # fmt: skip
"""By type."""
