"""Sums, means, extremes and picks along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import UnusableError

Array = NDArray[Any]
Axes = Sequence[int] | int | None


def total(input: Array, dim: Axes = None, keepdim: bool = False, *, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the sum over axes, over all where none are given."""
    return np.asarray(_summable(input).sum(axis=_axes(dim), keepdims=keepdim))


def mean(input: Array, dim: Axes = None, keepdim: bool = False, *, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the mean over axes."""
    return np.asarray(input.mean(axis=_axes(dim), keepdims=keepdim))


def prod(input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the product over an axis."""
    return np.asarray(_summable(input).prod(axis=_axes(dim), keepdims=keepdim))


def cumsum(input: Array, dim: int, *, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the running sum along an axis."""
    return np.asarray(_summable(input).cumsum(axis=dim))


def cumprod(input: Array, dim: int, *, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the running product along an axis."""
    return np.asarray(_summable(input).cumprod(axis=dim))


def nansum(input: Array, dim: Axes = None, keepdim: bool = False, *, dtype: object = None) -> Array:
    """Return the sum over axes of what is not NaN."""
    return total(np.where(np.isnan(input), 0, input), dim, keepdim, dtype=dtype)


def count_nonzero(input: Array, dim: Axes = None) -> Array:
    """Return how many elements over axes are not 0."""
    return np.asarray(np.count_nonzero(input, axis=_axes(dim)))


def dist(input: Array, other: Array, p: float = 2) -> Array:
    """Return the norm of the difference of all elements."""
    return np.asarray(np.linalg.norm(np.subtract(input, other).reshape(-1), ord=p))


def quantile(
    input: Array, q: Array | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Array:
    """Return what lies at a share of the elements in order, between two of them in proportion; of several, axis 0."""
    if interpolation != "linear":
        raise UnusableError(f"interpolation `{interpolation}` is not computed")
    return np.asarray(np.quantile(input, q, axis=dim, keepdims=keepdim))


def var_mean(
    input: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """Return `variance` and `mean`."""
    axes = None if isinstance(dim, bool) else dim
    return variance(input, dim, unbiased, keepdim, correction=correction), mean(input, axes, keepdim)


def std_mean(
    input: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> tuple[Array, Array]:
    """Return `deviation` and `mean`."""
    axes = None if isinstance(dim, bool) else dim
    return deviation(input, dim, unbiased, keepdim, correction=correction), mean(input, axes, keepdim)


def variance(
    input: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Array:
    """Return the variance over axes, divided by the count less the correction, which is 1 by itself."""
    is_whole = isinstance(dim, bool)  # then the second argument is the third
    off = float(dim if isinstance(dim, bool) else unbiased) if correction is None else correction
    return np.asarray(input.var(axis=None if is_whole else _axes(dim), ddof=off, keepdims=keepdim))


def deviation(
    input: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Array:
    """Return the root of `variance`."""
    return np.sqrt(variance(input, dim, unbiased, keepdim, correction=correction))


def norm(input: Array, p: object = 2, dim: Axes = None, keepdim: bool = False, dtype: object = None) -> Array:  # noqa: ARG001
    """Return the root of the sum of squares over axes; no other norm."""
    if p not in (2, 2.0, "fro", None):
        raise UnusableError(f"norm `{p}` is not computed")
    return np.asarray(np.sqrt(np.square(np.abs(input)).sum(axis=_axes(dim), keepdims=keepdim)))


def vector_norm(
    input: Array, ord: object = 2, dim: Axes = None, keepdim: bool = False, *, dtype: object = None
) -> Array:
    """Return the same with the arguments of ``torch.linalg.vector_norm``."""
    return norm(input, ord, dim, keepdim, dtype)


def logsumexp(input: Array, dim: Axes, keepdim: bool = False) -> Array:
    """Return the logarithm of the sum of exponentials."""
    axes = _axes(dim)
    top = input.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    found = np.log(np.exp(input - top).sum(axis=axes, keepdims=True)) + top
    return np.asarray(found if keepdim else found.squeeze(axis=axes))


def every(input: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return whether all elements over axes are true."""
    return np.asarray(input.astype(bool).all(axis=_axes(dim), keepdims=keepdim))


def some(input: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return whether any element over axes is true."""
    return np.asarray(input.astype(bool).any(axis=_axes(dim), keepdims=keepdim))


def amax(input: Array, dim: Axes = (), keepdim: bool = False) -> Array:
    """Return the largest element over axes."""
    return np.asarray(input.max(axis=_axes(dim), keepdims=keepdim))


def amin(input: Array, dim: Axes = (), keepdim: bool = False) -> Array:
    """Return the smallest element over axes."""
    return np.asarray(input.min(axis=_axes(dim), keepdims=keepdim))


def extreme(of_all: Callable[..., Array], of_two: Callable[..., Array], place: Callable[..., Array]) -> Any:
    """Return an operator that is three: the extreme of all, of two tensors, or along an axis with its place."""

    def operator(input: Array, dim: Any = None, keepdim: bool = False, *, other: Array | None = None) -> Any:
        second = dim if isinstance(dim, np.ndarray) else other
        if second is not None:
            return np.asarray(of_two(input, second))
        if dim is None:
            return np.asarray(of_all(input))
        return of_all(input, axis=dim, keepdims=keepdim), place(input, axis=dim, keepdims=keepdim)

    return operator


largest = extreme(np.max, np.maximum, np.argmax)
smallest = extreme(np.min, np.minimum, np.argmin)


def argmax(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Return the place of the largest element along an axis, of the flat tensor where none is given."""
    return np.asarray(np.argmax(input, axis=dim, keepdims=keepdim))


def argmin(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """Return the place of the smallest one."""
    return np.asarray(np.argmin(input, axis=dim, keepdims=keepdim))


def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """Return the k largest (or smallest) elements along an axis in their order, and their places."""
    if not sorted:
        raise UnusableError("its picks come in any order")
    values, places = sort(input, dim, largest)
    kept = range(k)
    return values.take(kept, axis=dim), places.take(kept, axis=dim)


def sort(input: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> tuple[Array, Array]:  # noqa: ARG001
    """Return the elements along an axis in order, and where they were."""
    if np.isnan(input).any():
        raise UnusableError("where NaN stands in an order is up to the kernel")
    places = np.argsort(-input if descending and input.dtype.kind == "f" else input, axis=dim, kind="stable")
    if descending and input.dtype.kind != "f":
        places = np.flip(places, axis=dim)
    return np.take_along_axis(input, places, axis=dim), places


def argsort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:  # noqa: ARG001
    """Return where the elements in order were."""
    return sort(input, dim, descending)[1]


def _axes(dim: Axes) -> tuple[int, ...] | None:
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return None
    return (int(dim),) if isinstance(dim, int) else tuple(map(int, dim))


def _summable(input: Array) -> Array:
    return input.astype(np.int64) if input.dtype == np.bool_ else input
