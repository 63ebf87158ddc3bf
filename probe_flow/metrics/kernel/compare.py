"""The one-pass comparison kernel: reads both tensors block by block and returns one record.

The kernel never writes to its inputs, holds a few blocks in memory whatever the tensor's size, and gives the same bits
however the blocks are spread over tasks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.metrics.backends import numpy_backend
from probe_flow.metrics.backends.choice import backend_named
from probe_flow.metrics.kernel.kept_blocks import Blocks, kept
from probe_flow.metrics.sums.block_sums import Floats, Rules, Scratch, Values, bounds_of, load, summed, widened
from probe_flow.metrics.sums.options import MeasureOptions
from probe_flow.metrics.sums.record import (
    BLOCK,
    EPS32,
    EPS64,
    MinMax,
    Record,
    Softmax,
    SpanRecord,
    fold,
    join,
    join_minmax,
    join_softmax,
)
from probe_flow.metrics.sums.tree import fold_nodes, reduce_span


def measure_softmax(target: Blocks, golden: Blocks, record: Record, scratch: Scratch) -> Softmax | None:
    """Return the sums behind `kl_softmax`, None where it is not defined.

    Args:
        target: values under test.
        golden: reference values.
        record: of the same pair, for the maxima.
        scratch: buffers.

    Returns:
        None for tensors without elements, for complex numbers, and where either side holds NaN or infinities.
    """
    errors = record.errors
    is_real = record.target.values == record.target.finite
    if errors is None or record.golden is None or not record.numel or errors.compared != record.numel or not is_real:
        return None
    if record.golden.values != record.golden.finite:
        return None
    target_high, golden_high = float(record.target.high), float(record.golden.high)

    def block(start: int) -> Softmax:
        stop = min(record.numel, start + BLOCK)
        x, _ = load(target.read(start, stop), scratch.target, scratch)
        y, _ = load(golden.read(start, stop), scratch.golden, scratch)
        weight, gap = scratch.work[: y.size], scratch.error[: y.size]
        np.exp(np.subtract(y, golden_high, out=weight), out=weight)
        golden_sum = summed(weight)
        np.subtract(y, x, out=gap)
        weighted = summed(np.multiply(weight, gap, out=weight))
        target_sum = summed(np.exp(np.subtract(x, target_high, out=x), out=x))
        return Softmax(target_sum, golden_sum, weighted)

    with np.errstate(all="ignore"):
        nodes = reduce_span(0, (block(start) for start in range(0, record.numel, BLOCK)), join_softmax)
        return fold_nodes(nodes, join_softmax)


_Bounds = tuple[float, float]


def measure_minmax(target: Blocks, golden: Blocks, record: Record, scratch: Scratch) -> MinMax | None:
    """Return the sums behind `kl_minmax`, None where it is not defined.

    Args:
        target: values under test.
        golden: reference values.
        record: of the same pair, for the extremes.
        scratch: buffers.

    Returns:
        None for complex numbers, and where no position is finite on both sides.
    """
    errors = record.errors
    if errors is None or record.golden is None or not errors.compared:
        return None
    if record.target.values != record.target.finite or record.golden.values != record.golden.finite:
        return None  # two numbers per element: complex

    def block(start: int) -> tuple[Floats, Floats]:
        stop = min(record.numel, start + BLOCK)
        if errors.compared == record.numel:
            x = widened(target.read(start, stop), scratch.target, scratch)
            return x, widened(golden.read(start, stop), scratch.golden, scratch)
        x, _ = load(target.read(start, stop), scratch.target, scratch)
        y, _ = load(golden.read(start, stop), scratch.golden, scratch)
        both = np.isfinite(x) & np.isfinite(y)
        return x[both], y[both]

    starts = range(0, record.numel, BLOCK)
    scratch.error.fill(EPS32)  # an array, since numpy takes twice as long for a maximum with a number
    with np.errstate(all="ignore"):
        bounds = _bounds_of_sides(record)
        if errors.compared != record.numel:
            bounds = _joined([(bounds_of(x), bounds_of(y)) for x, y in map(block, starts) if x.size])
        nodes = reduce_span(0, (_sums(*block(start), bounds, scratch) for start in starts), join_minmax)
        return fold_nodes(nodes, join_minmax)


def _bounds_of_sides(record: Record) -> tuple[_Bounds, _Bounds]:
    target, golden = record.target, record.golden
    assert golden is not None
    return (float(target.low), float(target.high)), (float(golden.low), float(golden.high))


def _joined(blocks: list[tuple[_Bounds, _Bounds]]) -> tuple[_Bounds, _Bounds]:
    sides = zip(*blocks, strict=True)
    target, golden = ((min(low for low, _ in side), max(high for _, high in side)) for side in sides)
    return target, golden


def _sums(target: Floats, golden: Floats, bounds: tuple[_Bounds, _Bounds], scratch: Scratch) -> MinMax:
    least = scratch.error[: target.size]
    p, q = _fractions(target, bounds[0], least), _fractions(golden, bounds[1], least)
    target_sum, golden_sum = summed(p), summed(q)
    logarithms = np.divide(p, q, out=q)  # in place, since a third array falls out of the processor's cache
    np.log(logarithms, out=logarithms)
    return MinMax(target_sum, golden_sum, summed(np.multiply(p, logarithms, out=logarithms)))


def _fractions(values: Floats, bounds: _Bounds, least: Floats) -> Floats:
    """Replace values by their place within the bounds, 0 to 1, at least ``least``; those of a constant by 1."""
    low, high = bounds
    if low == high:
        values.fill(1.0)  # whatever the constant is, all elements weigh alike
        return values
    if math.isinf(high - low):
        np.multiply(values, 0.5, out=values)
        low, high = low * 0.5, high * 0.5
    np.subtract(values, low, out=values)
    np.divide(values, high - low, out=values)
    return np.maximum(values, least, out=values)


_NARROW_FLOATS = frozenset({"float32", "float16", "bfloat16", "hifloat8", "complex64", "complex32"})


@functools.cache
def relative_eps(target_dtype: str, golden_dtype: str) -> float:
    """Return what is added to both sides of a relative error where the golden value is zero.

    Float32's epsilon when both sides are floats of at most 32 bits (or complex ones of at most 2 x 32), else
    float64's: integers and bools are compared as float64.
    """
    narrow = all(name in _NARROW_FLOATS or name.startswith("float8") for name in (target_dtype, golden_dtype))
    return EPS32 if narrow else EPS64


def backend_label(options: MeasureOptions) -> str:
    """Return name and version of the backend, for the run's record."""
    return backend_named(options.backend).label


def measure_span(
    target: Blocks,
    golden: Blocks,
    first_block: int,
    n_blocks: int,
    options: MeasureOptions | None = None,
    scratch: Scratch | None = None,
) -> SpanRecord:
    """Measure blocks ``[first_block, first_block + n_blocks)`` of a pair.

    Args:
        target: values under test.
        golden: reference values, the denominators of relative errors.
        first_block: number of the first block of `BLOCK` elements.
        n_blocks: number of blocks; a pair without elements is one span of 0 blocks.
        options: extra figures and the backend. ``softmax`` and ``minmax`` are second passes and not part of a span;
            ``max_elements`` is for who opens the tensors (`first_elements.FirstElements`).
        scratch: buffers of the calling thread; made anew when None.

    Raises:
        NotComparableError: PF5102 if the element counts differ.
        UsageError: PF5116 if the backend cannot be used.
    """
    if target.numel != golden.numel:
        raise NotComparableError(
            Diagnostic(
                "PF5102",
                f"element counts differ: target {target.numel}, golden {golden.numel}",
                help="check which tensors were paired",
            )
        )
    rules = _rules(target.dtype, golden.dtype, options)
    buffers = scratch or Scratch()
    measure_block = backend_named(options.backend).measure_block if options else numpy_backend.measure_block

    def block(start: int, stop: int) -> Record:
        return measure_block(_read(target, start, stop), _read(golden, start, stop), start, rules, buffers)

    return _span(block, target.numel, first_block, n_blocks)


def measure(
    target: Blocks, golden: Blocks, options: MeasureOptions | None = None, scratch: Scratch | None = None
) -> Record:
    """Measure a whole pair; arguments and errors as in `measure_span`, the second pass included when asked for."""
    buffers = scratch or Scratch()
    if options is None or not options.needs_whole_pair:
        return fold([measure_span(target, golden, 0, _block_count(target), options, buffers)])
    first, second = kept(target), kept(golden)
    record = fold([measure_span(first, second, 0, _block_count(target), options, buffers)])
    return record._replace(
        softmax=measure_softmax(first, second, record, buffers) if options.softmax else None,
        minmax=measure_minmax(first, second, record, buffers) if options.minmax else None,
    )


def summarise_span(
    values: Blocks,
    first_block: int,
    n_blocks: int,
    options: MeasureOptions | None = None,
    scratch: Scratch | None = None,
) -> SpanRecord:
    """Return the statistics of some blocks of one tensor: a record with a target side only."""
    rules = _rules(values.dtype, values.dtype, options)
    buffers = scratch or Scratch()

    def block(start: int, stop: int) -> Record:
        return numpy_backend.summarise_block(_read(values, start, stop), rules, buffers)

    return _span(block, values.numel, first_block, n_blocks)


def summarise(values: Blocks, options: MeasureOptions | None = None, scratch: Scratch | None = None) -> Record:
    """Return the statistics of one whole tensor: a record with a target side only."""
    return fold([summarise_span(values, 0, _block_count(values), options, scratch)])


def _rules(target_dtype: str, golden_dtype: str, options: MeasureOptions | None) -> Rules:
    extra = options or MeasureOptions()
    return Rules(relative_eps(target_dtype, golden_dtype), extra.moments, extra.masked, extra.significant)


def _block_count(values: Blocks) -> int:
    return -(-values.numel // BLOCK)


def _span(block: Callable[[int, int], Record], numel: int, first_block: int, n_blocks: int) -> SpanRecord:
    if first_block < 0 or n_blocks < 0 or (first_block + n_blocks) > -(-numel // BLOCK):
        raise ValueError(f"blocks {first_block} to {first_block + n_blocks} of a tensor of {numel} elements")

    def records() -> Iterator[Record]:
        # A tensor without elements has one record, so that it folds like any other.
        for number in range(first_block, first_block + (n_blocks or (not numel))):
            yield block(number * BLOCK, min(numel, (number + 1) * BLOCK))

    with np.errstate(all="ignore"):
        return SpanRecord(first_block, n_blocks, reduce_span(first_block, records(), join))


def _read(values: Blocks, start: int, stop: int) -> Values:
    found = values.read(start, stop)
    if found.shape != (stop - start,):
        raise ValueError(f"asked for elements {start} to {stop}, got an array of shape {found.shape}")
    return found
