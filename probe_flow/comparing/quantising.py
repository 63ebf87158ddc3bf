"""Products of an input that was quantised to 8 bits, computed from the target's own dump where the golden has floats.

What rounding and clipping the input makes of the result is no fault, but how large it is depends on the scale that a
tool chose: one that clips the largest values leaves more than a step, and leaves it in few channels. No figure of
either side tells that, but the device's dump does: the operator that quantises has its input and its result, and a
product is linear, so what it makes of the difference of both is what its own result is off by.

The whole numbers are computed exactly, so a result that is not what they make is wrong whatever came in. That is
believed where the golden's input, quantised alike, makes about the golden's result. A result that is what they make
clears nobody: scales and weights were compared with nothing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from probe_flow.analysis.limits import BEYOND
from probe_flow.analysis.model.deviation import TINY
from probe_flow.analysis.model.unseen_inputs import SPARE
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.apis.calls import Call, Plain, TensorSpec, UnusableError
from probe_flow.apis.numpy_core.bounded import surely_bytes
from probe_flow.apis.numpy_core.compute import computed, needed_bytes
from probe_flow.apis.numpy_core.forms.device_quantised import ascend_quant, fractions
from probe_flow.apis.numpy_core.names import Function, find
from probe_flow.comparing.asked import Recompute
from probe_flow.comparing.recompute import LIMIT_BYTES, Work, each_done
from probe_flow.comparing.recompute_calls import Side
from probe_flow.comparing.recompute_worker import MIXED, SideCall, at_most
from probe_flow.elements.blocks import array_of
from probe_flow.errors import Diagnostic, FormatError, NotComparableError
from probe_flow.measure.aligned_sides import aligned_sides
from probe_flow.records import Mode, Node, NodeKey, Pairs, TensorRef
from probe_flow.records.row import Quantised, Recomputed, Row, Rows
from probe_flow.work import Context

LIMIT = 256
"""Products that are looked at: others are judged by their types."""

QUANTISE, DEQUANTISE = "AscendQuant", "AscendDequant"

ROUNDINGS = 2.0
"""How many roundings of its type a right result may be off by."""

_Array = NDArray[Any]


class Quantising(Struct, frozen=True):
    """A product of an input that was quantised.

    Args:
        row: number of the row of its result.
        product: its call of two tensors.
        quantise: the call that gives the first of them.
        source, whole: what that reads and gives.
        weights: the second.
        bias: in whole numbers, one a channel; None: there is none.
        scales: what makes floats of the product's whole numbers, one or one a channel.
        target, golden: its result on both sides.
        golden_source: what the golden has in place of ``source``; None: it is not compared.
    """

    row: int
    product: Call
    quantise: Call
    source: TensorRef
    whole: TensorRef
    weights: TensorRef
    bias: TensorRef | None
    scales: TensorRef
    target: TensorRef
    golden: TensorRef
    golden_source: TensorRef | None


class Found(Struct, frozen=True):
    """What a result is off by because its input was quantised, and by itself; None where that is not known."""

    quantised: Quantised | None = None
    own: Recomputed | None = None


def find_quantised(rows: Rows, pairs: Pairs, wanted: Recompute, diagnosis: Diagnosis, context: Context) -> bool:
    """Give rows of results `Row.quantised` and, to those that are wrong by themselves, `Row.recomputed`.

    Asked are rows that are suspect or nearly so, and all others too where anything is suspect. A product is left out if
    its dump lacks a tensor or an attribute, or if it takes too much memory.

    Args:
        rows: measured; changed in place.
        pairs: of the comparison.
        wanted: how much is computed again.
        diagnosis: what the search found without.
        context: worker processes.

    Returns:
        Whether any row has one of both now.
    """
    asked = dict.fromkeys(wanted.candidates(rows, diagnosis))
    if diagnosis.suspects:
        asked |= dict.fromkeys(range(len(rows)))
    jobs = [*islice(_jobs(rows, pairs, asked), LIMIT)] if asked else []
    done = False
    for job, found in zip(jobs, each_done(jobs, _WORK, context), strict=True):
        if found.quantised is not None or found.own is not None:
            rows[job.row] = rows[job.row].with_aside(quantised=found.quantised, recomputed=found.own)
            done = True
    return done


def _jobs(rows: Sequence[Row], pairs: Pairs, asked: Iterable[int]) -> Iterator[Quantising]:
    producers = {(edge.consumer, edge.input): edge.producer for edge in pairs.target.edges}
    nodes = pairs.target.nodes
    chains: dict[int, tuple[NodeKey, NodeKey, NodeKey]] = {}
    for number in asked:
        row, key = rows[number], rows[number].node
        if row.measurement is None or row.measurement.mode is not Mode.TENSOR or not row.is_produced:
            continue
        product = producers.get((key, 0), key) if _type(nodes.get(key)) == DEQUANTISE else key
        source = producers.get((product, 0))
        if source is not None and _type(nodes.get(source)) == QUANTISE:
            chains[number] = (source, product, key)
    keys = {key for chain in chains.values() for key in chain}
    side = Side(pairs.target, keys)
    read = {row.node: row for row in rows if row.node in keys and row.measurement is not None and not row.is_produced}
    for number, chain in chains.items():
        with suppress(UnusableError):
            quantise, call, last = (side.call(each) for each in chain)
            yield _job(number, rows[number], read.get(chain[0]), quantise, call, last)


def _type(node: Node | None) -> str:
    return node.op_type if node is not None else ""


def _job(number: int, row: Row, read: Row | None, quantise: SideCall, product: SideCall, last: SideCall) -> Quantising:
    """Return what there is to compute for a row; ``read`` is that of what was quantised, ``last`` gives the result.

    Raises:
        UnusableError: the dump does not hold all of it, or it takes too much memory.
    """
    source, whole, weights = quantise.inputs.get((0,)), product.inputs.get((0,)), product.inputs.get((1,))
    biases = [ref for place, ref in product.inputs.items() if place > (1,) and ref.dtype == "int32"]
    scales = [ref for ref in last.inputs.values() if ref.dtype == "uint64"]
    if source is None or whole is None or weights is None or len(scales) != 1 or len(biases) > 1:
        raise UnusableError("the dump lacks a tensor of it", is_expected=True)
    call = dataclasses.replace(product.call, args=product.call.args[:2])
    if needed_bytes(_function(call), call) > LIMIT_BYTES:
        raise UnusableError("it takes too much memory")
    is_compared = read is not None and read.pair.golden is not None and read.pair.target is source
    fed = aligned_sides(read.pair)[1] if read is not None and is_compared else None
    bias, (target, golden) = biases[0] if biases else None, aligned_sides(row.pair)
    return Quantising(
        number, call, quantise.call, source, whole, weights, bias, scales[0], target, golden, fed,
    )  # fmt: skip


def _function(call: Call) -> Function:
    """Return what computes a product.

    Raises:
        UnusableError: nothing.
    """
    return find(call.kind, call.api, is_mindspore=False)


def measured(job: Quantising) -> Found:
    """Return what quantising made of a result, and how far that is from what its whole numbers make."""
    try:
        with np.errstate(all="ignore"):
            return _Product(job).found()
    except (UnusableError, FormatError, NotComparableError, ValueError, LookupError, MemoryError):
        return Found()


class _Product:
    """The tensors of a product, in float64.

    Raises:
        UnusableError: it is not known how to compute it.
        ValueError: its tensors do not fit each other.
    """

    def __init__(self, job: Quantising) -> None:
        self._job = job
        first, second = (each.shape for each in job.product.args if isinstance(each, TensorSpec))
        self._shape, self._weights = first, _elements(job.weights).reshape(second)
        self._asked: dict[str, Any] = {
            name: leaf.value for name, leaf in job.quantise.kwargs.items() if isinstance(leaf, Plain)
        }
        self._offset = float(self._asked["offset"])
        self._scales = fractions(array_of(job.scales))

    def found(self) -> Found:
        """Return what there is to say of its result."""
        source, whole = (_elements(each).reshape(self._shape) for each in (self._job.source, self._job.whole))
        left = whole - self._exact(source)
        # A step more or less is how the device rounds. Other whole numbers are not explained by their input.
        is_explained = np.abs(whole - ascend_quant(source, **self._asked)).max(initial=0.0) <= 1.0
        made = self._floats(self._made(left))
        result = _elements(self._job.target).reshape(made.shape)
        if not (np.isfinite(made).all() and np.isfinite(result).all()):
            return Found()
        quantised = _figures(made, result, self._told(source, left)) if is_explained else None
        return Found(quantised, self._own_error(whole, result))

    def _told(self, source: _Array, left: _Array) -> str:
        """Return what is wrong with a scale that leaves more than one for the largest value does; empty where none is.

        A tool that cuts off few values to round all others less leaves less of them together.
        """
        scaled = self._exact(source) - self._offset
        low, high = min(float(scaled.min()), 0.0), max(float(scaled.max()), 0.0)
        step = (high - low) / 255 if self._offset else max(high, -low) / 127
        size, due = max(_rms(scaled), TINY), step / math.sqrt(12.0)
        if _rms(left) <= SPARE * due:
            return ""
        cut = int(np.count_nonzero(np.abs(left) > 1.0))
        how = f"it cuts off {cut:,} of {left.size:,} values" if cut else "its steps are too large"
        return (
            f"the scale that its input was quantised with leaves {_rms(left) / size:.1e} of error, and one for the "
            f"largest value {due / size:.1e}: {how}"
        )

    def _exact(self, source: _Array) -> _Array:
        """Return the fractions that whole numbers were made of."""
        scale = float(self._asked["scale"])
        return source * (scale * scale if self._asked.get("sqrt_mode") else scale) + self._offset

    def _made(self, whole: _Array) -> _Array:
        """Return the product of whole numbers whose offset is taken off."""
        found = computed(_function(self._job.product), self._job.product, {(0,): whole, (1,): self._weights})
        return np.asarray(found[0][1])

    def _floats(self, whole: _Array) -> _Array:
        return np.asarray(whole * _by_channel(self._scales, whole))

    def _own_error(self, whole: _Array, result: _Array) -> Recomputed | None:
        """Return how far a result is from what its whole numbers make; None unless it is surely wrong."""
        job, unit = self._job, UNIT.get(self._job.target.dtype, 0.0)
        if job.golden_source is None or not unit:
            return None
        golden = _elements(job.golden).reshape(result.shape)
        fed = ascend_quant(_elements(job.golden_source).reshape(self._shape), **self._asked)
        ours, theirs = self._made(whole - self._offset), self._made(fed - self._offset)
        size, least = _rms(golden), 0.0 if golden.min() >= 0.0 else -np.inf

        def errors(constants: _Array) -> tuple[float, float]:
            made = (np.maximum(self._floats(whole + constants), least) for whole in (theirs, ours))
            return _rms(golden - next(made)), _rms(result - next(made))

        other, own = min(map(errors, self._constants(result)))  # what makes the golden's result is what is added
        if not 0.0 < MIXED * other < own:
            return None
        score = own / (ROUNDINGS * unit * size)
        return Recomputed("rms", own / size, unit, score, golden=MIXED * other / own) if score > BEYOND else None

    def _constants(self, result: _Array) -> Iterator[_Array]:
        """Yield what may be added to a product: its bias, from which a compiler may have taken what the offset adds."""
        if self._job.bias is None:
            yield np.zeros(1)
            return
        bias = _elements(self._job.bias)
        yield _by_channel(bias, result)
        if self._offset:
            yield _by_channel(bias + self._offset * self._sums(result), result)

    def _sums(self, result: _Array) -> _Array:
        """Return the sum of the weights of each channel: padding is filled with the offset, so all of them count."""
        if self._weights.ndim == 2:
            return np.asarray(self._made(np.ones(self._shape)).reshape(-1, result.shape[-1])[0])
        return np.asarray(self._weights.reshape(len(self._weights), -1).sum(axis=1))


def _figures(errors: _Array, result: _Array, told: str) -> Quantised:
    energy = float(np.sum(result**2))
    others = tuple(axis for axis in range(errors.ndim) if axis != _channel_axis(errors))
    return Quantised(
        rms=_rms(errors),
        peak=float(np.abs(errors).max(initial=0.0)),
        gain=abs(float(np.sum(errors * result))) / energy if energy else 0.0,
        offset=abs(float(np.mean(errors))),
        channels=tuple(np.sqrt(np.mean(errors**2, axis=others)).tolist()),
        told=told,
    )


def _rms(values: _Array) -> float:
    return math.sqrt(float(np.mean(values**2)))


def _channel_axis(values: _Array) -> int:
    """Return which axis counts the channels of images, or the columns of matrices."""
    return 1 if values.ndim in (4, 5) else values.ndim - 1


def _by_channel(values: _Array, product: _Array) -> _Array:
    """Return one value, or one a channel, in a shape that is repeated along the other axes.

    Raises:
        ValueError: there are as many as neither.
    """
    shape = [1] * product.ndim
    shape[_channel_axis(product)] = 1 if values.size == 1 else product.shape[_channel_axis(product)]
    return values.reshape(shape)


def _elements(ref: TensorRef) -> _Array:
    return array_of(ref).astype(np.float64)


def lost(job: Quantising, reason: Diagnostic) -> Found:  # noqa: ARG001
    """Return what became of a job that hangs, or ended its worker each time."""
    return Found()


def _needed(job: Quantising) -> float:
    found = surely_bytes(_function(job.product), job.product)
    return math.inf if found is None else found


def _nbytes(job: Quantising) -> int:
    return sum(each.nbytes or 0 for each in astuple(job) if isinstance(each, TensorRef))


def _measured_apart(job: Quantising) -> Found:
    with at_most(LIMIT_BYTES):
        return measured(job)


_WORK = Work(_needed, _nbytes, measured, _measured_apart, lost)
