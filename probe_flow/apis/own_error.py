"""How far a result is from what its inputs make, and how much of that rounding explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Path, TensorSpec, argument_leaves, leaves
from probe_flow.masks import LEAST

Array = NDArray[Any]

RMS_LIMIT, PEAK_LIMIT, GAIN_LIMIT = 1.0, 1.0, 0.75
"""How many times what rounding explains each figure of a right result may be, where it has many elements. The largest
of kernels of torch in float16, bfloat16 and float32: 0.44, 0.43, 0.27 (products of many factors: 1.9, 0.4, 1.9)."""

FEW = 3.0
"""Added to the first and last limit over the root of the count: of single elements up to 1.6 times was seen."""

SLICE = 32
"""Elements that a slice needs: its root mean square says less of fewer."""

PEAK_OVER_RMS = 6.0
"""Largest of a million normally distributed errors, in standard deviations, and a margin."""


BEYOND = 64.0
"""How many times as large as any score numbers are that mask scores."""

BESIDE = 4.0
"""Roundings that a score moves a mask by, at most: in 16 bits what is added to it is lost, or a step."""

COARSEST = 2.0**-8
"""Relative rounding of the narrowest type that kernels compute in, bfloat16: eight bits are only stored."""

_MIDDLE = 2.0**-16
"""Relative rounding of a product whose operands lie in the middle of two HF32 numbers once in 2^12 elements: which of
them is taken is up to the device."""

_AXES, _OPERANDS = 2, 2
"""Axes of an operand, for what is added to a product stays in float32; and how many there are at least."""


def computed_in(dtype: str, units: Mapping[str, float]) -> float:
    """Return the relative rounding of the type in which arguments of a type are computed with."""
    return min(units.get(dtype, 0.0), COARSEST)


@dataclass(frozen=True)
class OwnError:
    """How far one result of a call is from what its inputs make, in units of the tensor but for ``gain``.

    Args:
        place: of the result.
        rms: root mean square of the error over finite elements.
        peak: largest absolute error.
        gain: change of scale, ``<dumped, computed> / <computed, computed> - 1``.
        size: root mean square of what was computed.
        top: the largest magnitude of it.
        explained: root mean square of what rounding explains.
        explained_peak: the largest of it.
        unit: relative rounding of the element type.
        count: elements.
        nonfinite: elements that are NaN or infinite on one side only.
        is_finite: whether all elements count: they are numbers on both sides, and mask no scores.
        slice_: of the slice across an axis (a channel, a row) that is furthest beyond what rounding explains there:
            root mean square of its error, and what is explained of that, both relative to the slice.
        slice_share: share of its limit.
        is_in_hf32: whether it is that of a product of operands in HF32 (`with_hf32`).
    """

    place: Path
    rms: float
    peak: float
    gain: float
    size: float
    top: float
    explained: float
    explained_peak: float
    unit: float
    count: int
    nonfinite: int
    is_finite: bool = True
    slice_: tuple[float, float] = (0.0, 0.0)
    slice_share: float = 0.0
    is_in_hf32: bool = False

    @property
    def worst(self) -> tuple[str, float, float, float]:
        """The figure furthest beyond what rounding explains: name, itself, what is explained of it, share of its limit.

        ``rms``, ``gain`` and ``slice`` are relative, ``peak`` is in units of the tensor. A share above 1 is beyond all
        healthy results; infinite where nothing but exact values would be right.
        """
        return max(self.worst_of_all, ("slice", *self.slice_, self.slice_share), key=lambda each: each[3])

    @property
    def worst_of_all(self) -> tuple[str, float, float, float]:
        """The same of the figures of all elements, without those of slices."""
        few = FEW / math.sqrt(max(1, self.count))
        peak = self.explained_peak + PEAK_OVER_RMS * self.explained
        figures = (
            ("rms", self.relative, self.explained_relative, RMS_LIMIT + few),
            ("peak", self.peak, peak, PEAK_LIMIT),
            ("gain", abs(self.gain), self.explained_relative, GAIN_LIMIT + few),
        )
        shares = [(name, found, known, _share(found, limit * known)) for name, found, known, limit in figures]
        return max(shares, key=lambda each: each[3])

    @property
    def sizes(self) -> dict[str, float]:
        """The figures of `worst` by their names, each relative to what was computed."""
        peak = _share(self.peak, self.top)
        return {"rms": self.relative, "peak": peak, "gain": abs(self.gain), "slice": self.slice_[0]}

    @property
    def relative(self) -> float:
        """``rms`` relative to what was computed; infinite where that is zero and the dumped is not."""
        return _share(self.rms, self.size)

    @property
    def explained_relative(self) -> float:
        """``explained`` relative to what was computed."""
        return _share(self.explained, self.size)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.inf if part > 0 else 0.0


def own_error(
    place: Path,
    dumped: Array,
    truth: Array,
    moved: Array | None = None,
    *,
    unit: float,
    step: float,
    largest: float = math.inf,
) -> OwnError:
    """Return how far what was dumped is from what was computed, and what rounding explains of it.

    Args:
        place: of the result.
        dumped: its elements.
        truth: what the inputs make, of the same shape.
        moved: what inputs make that are off by a rounding each; None = storage alone is to explain the error.
        unit: relative rounding of the element type.
        step: distance of its neighbours near zero.
        largest: its largest finite number; what is beyond may be infinite.

    Elements that are the same infinity, NaN, or number that masks scores, on both sides do not count.
    """
    count, nonfinite = int(dumped.size), 0
    x, y = _numbers(dumped), _numbers(truth)
    with np.errstate(all="ignore"):
        error = x - y
        squares = _dot(error, error)
        counted = _counted(error, squares, y, unit)
        if not math.isfinite(squares):
            alike = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.isinf(x) & (np.abs(y) > largest * (1.0 - 2.0 * unit)))
            nonfinite = int(np.count_nonzero(~(np.isfinite(error) | alike)))
        if counted is not None:
            error, y = error[counted], y[counted]
            squares = _dot(error, error)
        if not error.size:
            return OwnError(place, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, unit, count, nonfinite)
        size, top = _rms(y), _peak(y)
        gain = _dot(y, error) / (size * size * y.size) if size else 0.0
        found = OwnError(
            place,
            rms=math.sqrt(squares / y.size),
            peak=_peak(error),
            gain=gain,
            size=size,
            top=top,
            explained=unit * size + step,
            explained_peak=unit * top + 2.0 * step,
            unit=unit,
            count=count,
            nonfinite=nonfinite,
            is_finite=counted is None,
        )
        found = _with_slices(found, truth.shape, error, y, None, step)
    return found if moved is None else with_moved(found, dumped, truth, moved, step=step)


def _counted(error: Array, squares: float, y: Array, unit: float) -> Array | None:
    """Return which elements count; None where all do. ``squares``: the sum of the errors' squares."""
    finite = None if math.isfinite(squares) else np.isfinite(error)
    low = float(y.min()) if y.size and y.dtype.kind != "c" else -math.inf
    if not -math.inf < low <= -LEAST:
        return finite
    is_mask = (y <= low / 2.0) & (np.abs(error) <= BESIDE * unit * np.abs(y))
    scores = y[~is_mask]
    if not scores.size or not _peak(scores) * BEYOND <= -low:
        return finite
    return ~is_mask if finite is None else finite & ~is_mask


def with_moved(own: OwnError, dumped: Array, truth: Array, moved: Array, *, step: float) -> OwnError:
    """Return the same, of which rounding explains more: what inputs make that are off by a rounding each.

    Args:
        own: by storage alone.
        dumped, truth, moved: the elements, what was computed of the inputs, and of those that are off.
        step: as above.
    """
    if not own.top and not own.peak:
        return own  # nothing that counts
    with np.errstate(all="ignore"):
        y = _numbers(truth)
        gap = _numbers(moved) - y
        if not own.is_finite:
            error = _numbers(dumped) - y
            gap = gap[_counted(error, _dot(error, error), y, own.unit)]
        squares = _dot(gap, gap)
        if not math.isfinite(squares):
            gap[~np.isfinite(gap)] = 0.0
            squares = _dot(gap, gap)
        drift, worst = math.sqrt(squares / gap.size), _peak(gap)
        own = _with_slices(own, truth.shape, _numbers(dumped) - y if own.is_finite else gap, y, gap, step)
    return replace(
        own,
        explained=math.hypot(drift, own.unit * own.size) + step,
        explained_peak=worst + own.unit * own.top + 2.0 * step,
    )


def _with_slices(
    own: OwnError, shape: tuple[int, ...], error: Array, y: Array, gap: Array | None, step: float
) -> OwnError:
    """Return the same with its worst slice: an error of one channel of many hardly shows in the whole tensor.

    Args:
        own: of the whole tensor, whose own error exceeds nothing where all elements are exact.
        shape: of the tensor.
        error, y, gap: flat: the error, what was computed, and by how much that of moved inputs differs.
        step: distance of neighbours near zero.
    """
    if not (own.unit and own.rms and own.is_finite):
        return own
    found, share = (0.0, 0.0), 0.0
    for axis, length in enumerate(shape):
        each = y.size // length
        if length < 2 or each < SLICE:
            continue
        parts = math.prod(shape[:axis]), length, math.prod(shape[axis + 1 :])
        errors, sizes = (np.sqrt(_dots(values.reshape(parts)) / each) for values in (error, y))
        explained = own.unit * np.maximum(sizes, own.size)  # what is small beside the others may be what they leave
        if gap is not None:
            explained = np.hypot(np.sqrt(_dots(gap.reshape(parts)) / each), explained)
        explained += step
        limit = RMS_LIMIT + FEW / math.sqrt(each)
        shares = np.divide(errors, limit * explained, out=np.where(errors > 0, math.inf, 0.0), where=explained > 0)
        worst = int(shares.argmax())
        if shares[worst] > share:
            share = float(shares[worst])
            size = float(sizes[worst])
            found = _share(float(errors[worst]), size), _share(float(explained[worst]), size)
    return replace(own, slice_=found, slice_share=share)


def _dots(parts: Array) -> Array:
    """Return the sum of squares of each slice across the second of three axes."""
    if parts.dtype.kind == "c":
        return _dots(parts.real) + _dots(parts.imag)
    return np.asarray(np.einsum("abc,abc->b", parts, parts))


def _dot(one: Array, other: Array) -> float:
    """Return the real part of the scalar product, by this thread alone: BLAS has all others wait for each other."""
    if one.dtype.kind == "c":
        return float(np.vdot(one, other).real)
    return float(np.einsum("i,i->", one, other))


def _rms(values: Array) -> float:
    return math.sqrt(_dot(values, values) / values.size)


def _peak(values: Array) -> float:
    if values.dtype.kind == "c":
        return float(np.abs(values).max())
    return max(float(values.max()), -float(values.min()))


def _numbers(values: Array) -> Array:
    return values.reshape(-1).astype(np.complex128 if values.dtype.kind == "c" else np.float64, copy=False)


def moved_by(unit: float, values: Array, seed: int) -> Array:
    """Return each element up or down by a relative step, at random."""
    bits = np.frombuffer(np.random.default_rng(seed).bytes(-(-values.size // 8)), np.uint8)
    ups = np.unpackbits(bits, count=values.size).reshape(values.shape)
    found: Array = np.asarray(np.array([1.0 - unit, 1.0 + unit])[ups])  # of one element, numpy makes a number of it
    return np.multiply(found, values, out=found)


def with_hf32(
    found: list[OwnError],
    call: Call,
    operands: Sequence[Array],
    units: Mapping[str, float],
    errors_in: Callable[[Callable[[Array], Array], Mapping[str, float]], list[OwnError]],
) -> list[OwnError]:
    """Return own errors, those of results that operands in HF32 make without what this explains.

    An NPU computes convolutions of float32 so by default (`torch.npu.conv.allow_hf32`), and other products by choice:
    it rounds operands to 11 bits of fraction and adds up in float32. A result is off by 2e-4 of its size then, and
    right: the operands rounded so make it. Nothing else does, so that this is no allowance.

    Args:
        found: by the operands as they were dumped.
        call: whose results, or gradients of arguments, they are.
        operands: the tensors that it computes of.
        units: element type -> relative rounding.
        errors_in: returns them anew, with something made of each operand, by other units.
    """
    if all(own.worst[3] <= 1.0 for own in found) or not _is_of_float32(call):
        return found
    if sum(each.ndim >= _AXES for each in operands) < _OPERANDS:
        return found
    others = errors_in(in_hf32, {**units, "float32": _MIDDLE})
    return [
        replace(other, is_in_hf32=True) if other.worst[3] <= 1.0 < own.worst[3] and not other.nonfinite else own
        for own, other in zip(found, others, strict=True)
    ]


def in_hf32(values: Array) -> Array:
    """Return an operand as the device rounds it, in float64; vectors as they are."""
    from probe_flow.apis.values import hf32

    return hf32(values).astype(values.dtype) if values.ndim >= _AXES and values.dtype.kind == "f" else values


def _is_of_float32(call: Call) -> bool:
    places: list[tuple[Path, object]] = [*argument_leaves(call), *leaves(call.results)]
    return all(leaf.dtype == "float32" for _, leaf in places if isinstance(leaf, TensorSpec))
