"""Bring tensors of a graph to numpy without changing a value: types that numpy lacks are widened, the rest is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Path = tuple[int, ...]

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64} | {
    getattr(torch, name): torch.float32 for name in _FLOAT8 if hasattr(torch, name)
}
_PLAIN = frozenset({np.dtype(bool), *(np.dtype(code) for code in np.typecodes["AllInteger"] + "efdFD")})


class NotHeldError(Exception):
    """A tensor that an array cannot hold; the text says why."""


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


def positional(values: Sequence[object]) -> Iterator[tuple[Path, object]]:
    """Yield arguments or results with their slots; a list that holds a tensor is taken apart."""
    for index, value in enumerate(values):
        if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
            for inner, item in enumerate(value):
                yield (index, inner), item
        else:
            yield (index,), value


def by_keyword(values: Mapping[str, object], count: int) -> Iterator[tuple[str, Path, object]]:
    """Yield keyword arguments with their slots, which follow those of ``count`` positional arguments."""
    for name, (path, value) in zip(_names(values), positional(tuple(values.values())), strict=True):
        yield name, (path[0] + count, *path[1:]), value


def _names(values: Mapping[str, object]) -> Iterator[str]:
    for name, value in values.items():
        for _ in positional((value,)):
            yield name


def results(value: object) -> Iterator[tuple[Path, object]]:
    """Yield what a node returned, one slot for each."""
    return positional(tuple(value) if isinstance(value, (list, tuple)) else (value,))


def plain(value: object) -> object:
    """Return an argument that is no tensor as the manifest writes it: numbers and texts as they are."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        return f"tensor {dtype_name(value)} {tuple(value.shape)}"
    return str(value)[:200]


def peer_array(value: object) -> NDArray[Any]:
    """Return an argument that is no tensor as the array that TorchAir writes for it.

    ``None`` becomes an array of one object, as in TorchAir's own dumps. Readers must not unpickle it.
    """
    if value is None:
        return np.array(None, dtype=object)
    if isinstance(value, (bool, int, float, str)):
        return np.asarray(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bool, int, float)) for item in value):
        return np.asarray(value)
    return np.asarray(str(plain(value)))
