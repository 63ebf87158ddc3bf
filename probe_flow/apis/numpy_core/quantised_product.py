"""A product of the whole numbers that a tensor was quantised to, computed from what a device's dump has of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Plain, TensorSpec
from probe_flow.apis.numpy_core.bounded import surely_bytes
from probe_flow.apis.numpy_core.compute import computed, needed_bytes
from probe_flow.apis.numpy_core.forms.device_quantised import ascend_quant, fractions
from probe_flow.apis.numpy_core.names import Function, find

Array = NDArray[Any]

WORSE = 1.5
"""How many times as much error as a scale for the largest value a good one leaves at most: scales are made for other
inputs too, which had larger values."""

ROUNDINGS = 2.0
"""How many roundings of its type a right result may be off by."""

MIXED = 2.0
"""How many times as far from what its whole numbers make a target's result has to be as the golden's is from what its
input makes when it is quantised alike: what is not understood of a product leaves both as far off."""

TINY = float(np.finfo(np.float64).tiny)


class Left(Struct, frozen=True):
    """What quantising the input of a product makes of its result.

    Args:
        rms, peak, offset: root mean square, largest and mean error, in units of the result.
        gain: common factor of the error and the result.
        channels: root mean square error of each channel.
        told: what is wrong with the scale, in words; empty of a good one.
    """

    rms: float
    peak: float
    gain: float
    offset: float
    channels: tuple[float, ...]
    told: str


class Own(Struct, frozen=True):
    """How far a result is from what its whole numbers make, or those that it should have read.

    Args:
        found: the error, relative to the golden.
        explained: what rounding explains of it.
        score: the error in what no right result reaches.
        golden: the same of the golden, as a share of what it may be off by: not above 1.
    """

    found: float
    explained: float
    score: float
    golden: float


class Tensors(Struct, frozen=True):
    """The tensors of a product, of any types and shapes of their sizes.

    Args:
        source, whole: what was quantised, and the whole numbers.
        weights, bias: in whole numbers; the bias, one a channel, may be none.
        scales: what makes floats of the whole numbers of the result, one or one a channel.
        target, golden: the result on both sides.
        golden_source: what the golden has in place of ``source``; None: unknown.
    """

    source: Array
    whole: Array
    weights: Array
    bias: Array | None
    scales: Array
    target: Array
    golden: Array
    golden_source: Array | None


class QuantisedProduct(Struct, frozen=True):
    """A product of an input that was quantised, as a dump records it.

    Args:
        product: the call of input and weights.
        quantise: the call that gives the input.
    """

    product: Call
    quantise: Call

    @property
    def function(self) -> Function:
        """What computes it.

        Raises:
            UnusableError: nothing does.
        """
        return find(self.product.kind, self.product.api, is_mindspore=False)

    @property
    def surely_bytes(self) -> float:
        """What computing it takes at most; infinity where its shapes do not bound that.

        Raises:
            UnusableError: nothing computes it.
        """
        found = surely_bytes(self.function, self.product)
        return math.inf if found is None else found

    @property
    def needed_bytes(self) -> int:
        """What computing it takes as its attributes stand.

        Raises:
            UnusableError: nothing computes it.
        """
        return needed_bytes(self.function, self.product)

    def of(self, tensors: Sequence[Array | None], unit: float) -> tuple[Left | None, Own | None]:
        """Return what quantising made of a result, and its own error if it is surely wrong; None where not known.

        Args:
            tensors: those of `Tensors`, in their order.
            unit: relative rounding of the result's type.

        Raises:
            UnusableError: it is not known how to compute it.
            ValueError, LookupError, TypeError: its tensors or attributes do not fit each other.
        """
        given: Sequence[Any] = tensors
        with np.errstate(all="ignore"):
            return _Product(self, Tensors(*given)).found(unit)


class _Product:
    """The tensors of a product, in float64."""

    def __init__(self, call: QuantisedProduct, tensors: Tensors) -> None:
        self._call, self._function, self._tensors = call.product, call.function, tensors
        first, second = (each.shape for each in call.product.args if isinstance(each, TensorSpec))
        self._shape, self._weights = first, _wide(tensors.weights).reshape(second)
        self._asked: Mapping[str, Any] = {
            name: leaf.value for name, leaf in call.quantise.kwargs.items() if isinstance(leaf, Plain)
        }
        self._offset = float(self._asked["offset"])
        self._scales = fractions(tensors.scales)

    def found(self, unit: float) -> tuple[Left | None, Own | None]:
        """Return what `QuantisedProduct.of` does."""
        source, whole = (_wide(each).reshape(self._shape) for each in (self._tensors.source, self._tensors.whole))
        left = whole - self._exact(source)
        due = ascend_quant(source, **self._asked)
        is_due = np.abs(whole - due).max(initial=0.0) <= 1.0  # a step more or less is how the device rounds
        made = self._floats(self._made(left))
        result = _wide(self._tensors.target).reshape(made.shape)
        if not (np.isfinite(made).all() and np.isfinite(result).all()):
            return None, None
        left_over = _figures(made, result, self._told(source, left)) if is_due else None
        return left_over, self._own_error(whole if is_due else due, result, unit)

    def _told(self, source: Array, left: Array) -> str:
        """Return what is wrong with a scale that leaves more than one for the largest value does; empty where none is.

        A tool that cuts off few values to round all others less leaves less of them together.
        """
        scaled = self._exact(source) - self._offset
        low, high = min(float(scaled.min()), 0.0), max(float(scaled.max()), 0.0)
        step = (high - low) / 255 if self._offset else max(high, -low) / 127
        size, due = max(_rms(scaled), TINY), step / math.sqrt(12.0)
        if _rms(left) <= WORSE * due:
            return ""
        cut = int(np.count_nonzero(np.abs(left) > 1.0))
        how = f"it cuts off {cut:,} of {left.size:,} values" if cut else "its steps are too large"
        return (
            f"the scale that its input was quantised with leaves {_rms(left) / size:.1e} of error, and one for the "
            f"largest value {due / size:.1e}: {how}"
        )

    def _exact(self, source: Array) -> Array:
        """Return the fractions that whole numbers were made of."""
        scale = float(self._asked["scale"])
        return source * (scale * scale if self._asked.get("sqrt_mode") else scale) + self._offset

    def _made(self, whole: Array) -> Array:
        """Return the product of whole numbers whose offset is taken off."""
        found = computed(
            find(self._call.kind, self._call.api, is_mindspore=False), self._call, {(0,): whole, (1,): self._weights}
        )
        return np.asarray(found[0][1])

    def _floats(self, whole: Array) -> Array:
        return np.asarray(whole * _by_channel(self._scales, whole))

    def _own_error(self, whole: Array, result: Array, unit: float) -> Own | None:
        """Return how far a result is from what its whole numbers make; None unless it is surely wrong."""
        tensors = self._tensors
        if tensors.golden_source is None or not unit:
            return None
        golden = _wide(tensors.golden).reshape(result.shape)
        fed = ascend_quant(_wide(tensors.golden_source).reshape(self._shape), **self._asked)
        ours, theirs = self._made(whole - self._offset), self._made(fed - self._offset)
        size, least = _rms(golden), 0.0 if golden.min() >= 0.0 else -np.inf

        def errors(constants: Array) -> tuple[float, float]:
            made = (np.maximum(self._floats(whole + constants), least) for whole in (theirs, ours))
            return _rms(golden - next(made)), _rms(result - next(made))

        other, own = min(map(errors, self._constants(result)))  # what makes the golden's result is what is added
        if not 0.0 < MIXED * other < own:
            return None
        return Own(own / size, unit, own / (ROUNDINGS * unit * size), MIXED * other / own)

    def _constants(self, result: Array) -> Iterator[Array]:
        """Yield what may be added to a product: its bias, from which a compiler may have taken what the offset adds."""
        if self._tensors.bias is None:
            yield np.zeros(1)
            return
        bias = _wide(self._tensors.bias)
        yield _by_channel(bias, result)
        if self._offset:
            yield _by_channel(bias + self._offset * self._sums(result), result)

    def _sums(self, result: Array) -> Array:
        """Return the sum of the weights of each channel: padding is filled with the offset, so all of them count."""
        if self._weights.ndim == 2:
            return np.asarray(self._made(np.ones(self._shape)).reshape(-1, result.shape[-1])[0])
        return np.asarray(self._weights.reshape(len(self._weights), -1).sum(axis=1))


def _figures(errors: Array, result: Array, told: str) -> Left:
    energy = float(np.sum(result**2))
    others = tuple(axis for axis in range(errors.ndim) if axis != _channel_axis(errors))
    return Left(
        rms=_rms(errors),
        peak=float(np.abs(errors).max(initial=0.0)),
        gain=abs(float(np.sum(errors * result))) / energy if energy else 0.0,
        offset=abs(float(np.mean(errors))),
        channels=tuple(np.sqrt(np.mean(errors**2, axis=others)).tolist()),
        told=told,
    )


def _rms(values: Array) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _channel_axis(values: Array) -> int:
    """Return which axis counts the channels of images, or the columns of matrices."""
    return 1 if values.ndim in (4, 5) else values.ndim - 1


def _by_channel(values: Array, product: Array) -> Array:
    """Return one value, or one a channel, in a shape that is repeated along the other axes.

    Raises:
        ValueError: there are as many as neither.
    """
    shape = [1] * product.ndim
    shape[_channel_axis(product)] = 1 if values.size == 1 else product.shape[_channel_axis(product)]
    return values.reshape(shape)


def _wide(values: Array) -> Array:
    return values.astype(np.float64)
