"""Products: matrices, linear layers, sums over named axes, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core.normalising import softmax

Array = NDArray[Any]


def matmul(input: Array, other: Array) -> Array:
    """Return the matrix product; leading axes are broadcast, and vectors are rows or columns."""
    return np.asarray(np.matmul(input, other))


def mm(input: Array, mat2: Array) -> Array:
    """Return the product of two matrices, or of two batches of them."""
    return matmul(input, mat2)


def mv(input: Array, vec: Array) -> Array:
    """Return matrix times vector."""
    return matmul(input, vec)


def outer(input: Array, vec2: Array) -> Array:
    """Return each element of one vector times each of another."""
    return np.asarray(np.outer(input, vec2))


def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return ``input @ weight.T + bias``: input ``(..., in)``, weight ``(out, in)`` or ``(in,)``."""
    product = matmul(input, weight.T)
    return product if bias is None else product + bias


def addmm(input: Array, mat1: Array, mat2: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """Return ``beta * input + alpha * mat1 @ mat2``; where beta is 0 nothing of the input counts, NaN neither."""
    product = alpha * matmul(mat1, mat2)
    return product if beta == 0 else beta * input + product


def baddbmm(input: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """Return the same of batches of matrices."""
    return addmm(input, batch1, batch2, beta=beta, alpha=alpha)


def addmv(input: Array, mat: Array, vec: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """Return the same of matrix times vector."""
    return addmm(input, mat, vec, beta=beta, alpha=alpha)


def addbmm(input: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    """Return the same of the sum of a batch of products."""
    product = alpha * matmul(batch1, batch2).sum(axis=0)
    return product if beta == 0 else beta * input + product


def tensordot(a: Array, b: Array, dims: Any = 2) -> Array:
    """Return the sum over pairs of axes: so many of the last and first ones, or those named of each side."""
    if not isinstance(dims, int):
        dims = tuple(tuple(map(int, each)) for each in dims)
    return np.asarray(np.tensordot(a, b, axes=dims))


def kron(input: Array, other: Array) -> Array:
    """Return each element of one times all of the other."""
    return np.asarray(np.kron(input, other))


def cross(input: Array, other: Array, dim: int | None = None) -> Array:
    """Return the vector product along an axis of length 3, the first one where none is given."""
    axis = dim if dim is not None else input.shape.index(3)
    a, b = (np.moveaxis(each, axis, -1) for each in np.broadcast_arrays(input, other))
    found = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return np.stack(found, axis=axis)


def linalg_cross(input: Array, other: Array, *, dim: int = -1) -> Array:
    """Return `cross` along the last axis where none is given."""
    return cross(input, other, dim)


def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return ``input1 @ weight[o] @ input2`` for each of the outputs; weight ``(out, in1, in2)``."""
    product = np.einsum("...i,oij,...j->...o", input1, weight, input2, optimize=True)
    return np.asarray(product if bias is None else product + bias)


def gemm(a: Array, b: Array, c: Array | None = None, *, alpha: float = 1, beta: float = 1, **turned: int) -> Array:
    """Return the ``Gemm`` of ONNX: ``alpha * A' @ B' + beta * C``, with ``transA`` and ``transB``."""
    unknown = turned.keys() - {"transA", "transB"}
    if unknown:
        raise UnusableError(f"argument `{min(unknown)}` of `Gemm` is not known")
    left, right = a.T if turned.get("transA") else a, b.T if turned.get("transB") else b
    product = alpha * (left @ right)
    return product if c is None else product + beta * c


def einsum(equation: str, *operands: Any) -> Array:
    """Return the sum over named axes, as numpy writes it."""
    if not isinstance(equation, str):
        raise UnusableError("the axes of `einsum` were given as lists")
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], tuple) else operands
    return np.asarray(np.einsum(equation, *given, optimize=True))


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """Return ``softmax(query @ key.T * scale + mask) @ value`` over ``(..., length, size)``."""
    if dropout_p:
        raise UnusableError("it drops elements at random")
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (np.repeat(each, repeats, axis=-3) for each in (key, value))
    scores = matmul(query, key.swapaxes(-1, -2)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == np.bool_ else scores + attn_mask
    return matmul(softmax(scores, -1), value)
