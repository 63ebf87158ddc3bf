"""Bring tensors of torch to numpy without changing a value: types that numpy lacks are widened, the rest is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import NotHeldError

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64} | {
    getattr(torch, name): torch.float32 for name in _FLOAT8 if hasattr(torch, name)
}
_PLAIN = frozenset({np.dtype(bool), *(np.dtype(code) for code in np.typecodes["AllInteger"] + "efdFD")})


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the dtype as the manifest writes it: ``bfloat16``."""
    return str(tensor.dtype).removeprefix("torch.")


def host_array(tensor: torch.Tensor) -> NDArray[Any]:
    """Return the elements in C order on the host, bfloat16 and float8 as float32; plain CPU tensors are not copied.

    Raises:
        NotHeldError: a sparse, quantised or meta tensor, or a dtype that has no exact array form.
    """
    if tensor.is_meta or tensor.layout != torch.strided:
        raise NotHeldError("it has no elements in memory" if tensor.is_meta else f"its layout is {tensor.layout}")
    if tensor.is_quantized:
        raise NotHeldError("it is quantised")
    with torch.no_grad():
        held = tensor.detach().resolve_conj().resolve_neg()
        held = held.to(_WIDER.get(held.dtype, held.dtype)).cpu()
        try:
            array = held.numpy()
        except (TypeError, RuntimeError) as error:
            raise NotHeldError(f"numpy has no {dtype_name(tensor)}") from error
    if array.dtype not in _PLAIN:
        raise NotHeldError(f"numpy has no {dtype_name(tensor)}")
    ordered: NDArray[Any] = np.ascontiguousarray(array).reshape(array.shape)
    return ordered
