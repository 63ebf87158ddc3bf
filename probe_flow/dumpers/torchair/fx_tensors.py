"""Name the arguments and results of a graph's nodes by their slots, and write those that are no tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from probe_flow.dumpers.torch.tensors import dtype_name

Path = tuple[int, ...]


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
