"""Numerics of the simulated device: plain numpy kernels in float32, with the order of summation as a parameter.

A golden run and a device run share the formulas and differ as two real backends do: in the element type between
operators (see `ge_device`) and in the order in which products are summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

CUBE_BLOCK = 16
"""Length along the reduction that the matrix unit multiplies at once before it adds to its accumulator."""

GELU_TANH_COEFFICIENT = 0.044715
"""Cubic term of the tanh form of GELU (Hendrycks and Gimpel, 2016)."""

_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How products and sums are accumulated."""

    matmul: Callable[[Floats, Floats], Floats]
    total: Callable[[Floats, int], Floats]
    """Sum along one axis, which stays with length 1."""


def _blocked_matmul(a: Floats, b: Floats) -> Floats:
    partial = [a[..., k : k + CUBE_BLOCK] @ b[..., k : k + CUBE_BLOCK, :] for k in range(0, a.shape[-1], CUBE_BLOCK)]
    result = partial[-1]
    for block in reversed(partial[:-1]):
        result = result + block
    return result


def _serial_total(x: Floats, axis: int) -> Floats:
    running = np.cumsum(x, axis=axis, dtype=np.float32)
    return np.take(running, [-1], axis=axis)


def _plain_total(x: Floats, axis: int) -> Floats:
    return np.asarray(x.sum(axis=axis, keepdims=True), np.float32)


HOST = Arithmetic(matmul=np.matmul, total=_plain_total)
DEVICE = Arithmetic(matmul=_blocked_matmul, total=_serial_total)


def softmax(arithmetic: Arithmetic, x: Floats, *, axis: int = -1) -> Floats:
    """Return exp(x - max) over its sum along ``axis``. A row of only -inf gives NaN, as on the device."""
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / arithmetic.total(exponentials, axis))


def layer_norm(
    arithmetic: Arithmetic, x: Floats, gamma: Floats, beta: Floats, *, eps: float
) -> tuple[Floats, Floats, Floats]:
    """Normalise the last axis; return the result, the mean and the reciprocal standard deviation."""
    count = np.float32(x.shape[-1])
    mean = arithmetic.total(x, -1) / count
    centred = x - mean
    rstd = 1 / np.sqrt(arithmetic.total(centred * centred, -1) / count + np.float32(eps))
    return centred * rstd * gamma + beta, mean, rstd


def gelu(x: Floats) -> Floats:
    """Return x times the normal distribution function of x."""
    return np.asarray(0.5 * x * (1 + _erf(x * math.sqrt(0.5)).astype(np.float32)), np.float32)


def gelu_tanh(x: Floats, *, coefficient: float = GELU_TANH_COEFFICIENT) -> Floats:
    """Return the tanh form of GELU."""
    inner = math.sqrt(2 / math.pi) * (x + coefficient * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)), np.float32)


def gather(table: Array, indices: Array) -> Array:
    """Return the rows of ``table`` that ``indices`` name."""
    return np.asarray(table[indices.astype(np.int64)])
