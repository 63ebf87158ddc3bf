"""Max, Min, Mean and Norm of a tensor as dump.json has them: computed where the tensor is, in its own dtype.

Mean and norm of types that msprobe leaves without one (float64, integers) are computed in float64. Of a complex tensor
they are those of the absolute values, of a bool whether any and whether all elements are true. A tensor without
dimensions has its value in all four places, as msprobe writes it. NaN and infinities go through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Figures = tuple[Any, Any, Any, Any]
"""Max, Min, Mean, Norm: None, numbers, or tensors without dimensions that are still on the device."""

NONE: Figures = (None, None, None, None)
_HAS_MEAN = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_PART = 1 << 20
"""Integers are brought to float64 so many at a time."""


def statistics(tensor: torch.Tensor) -> Figures:
    """Return the statistics of a dense tensor that needs no gradient; nothing of its size is kept or made."""
    dtype = tensor.dtype
    if not tensor.numel():
        return NONE
    if dtype.is_complex:
        values = np.abs(tensor.resolve_conj().resolve_neg().cpu().numpy())
        return values.max().item(), values.min().item(), values.mean().item(), float(np.linalg.norm(values.reshape(-1)))
    if dtype == torch.bool:
        return tensor.any(), tensor.all(), None, None
    if not tensor.dim():
        value = tensor.clone()
        return value, value, value, value
    least, largest = torch.aminmax(tensor)
    if dtype in _HAS_MEAN:
        return largest, least, torch.mean(tensor), torch.linalg.vector_norm(tensor)
    if dtype.is_floating_point:
        return NONE
    total, squares = 0, 0.0
    for part in tensor.reshape(-1).split(_PART):
        total += int(part.sum(dtype=torch.int64))
        squares += float(part.double().square().sum())
    return largest, least, total / tensor.numel(), squares**0.5


def plain(figure: Any) -> Any:
    """Return a figure as a number."""
    return figure.item() if isinstance(figure, torch.Tensor) else figure
