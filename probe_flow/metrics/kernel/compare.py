"""The one-pass comparison kernel: reads both tensors block by block and returns one record.

The kernel never writes to its inputs, holds a few blocks in memory whatever the tensor's size, and gives the same bits
however the blocks are spread over tasks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from probe_flow.errors import Diagnostic, NotComparableError
from probe_flow.metrics.accumulators.base import Rules, SecondPass
from probe_flow.metrics.accumulators.registry import MeasureOptions, kinds_of
from probe_flow.metrics.backends import numpy_backend
from probe_flow.metrics.backends.choice import backend_named
from probe_flow.metrics.backends.plain_blocks import SMALL
from probe_flow.metrics.kernel.kept_blocks import Blocks, kept
from probe_flow.metrics.sums.block_sums import Scratch, Values
from probe_flow.metrics.sums.record import BLOCK, EPS32, EPS64, Accumulator, Record, SpanRecord, fold, join
from probe_flow.metrics.sums.tree import fold_nodes, reduce_span

_NARROW_FLOATS = frozenset({"float32", "float16", "bfloat16", "hifloat8", "complex64", "complex32"})


@functools.cache
def relative_eps(target_dtype: str, golden_dtype: str) -> float:
    """Return what is added to both sides of a relative error where the golden value is zero.

    Float32's epsilon when both sides are floats of at most 32 bits (or complex ones of at most 2 x 32), else
    float64's: integers and bools are compared as float64.
    """
    narrow = all(name in _NARROW_FLOATS or name.startswith("float8") for name in (target_dtype, golden_dtype))
    return EPS32 if narrow else EPS64


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
        options: accumulators and the backend. Second passes are not part of a span; ``max_elements`` is for who opens
            the tensors (`kept_blocks.FirstElements`).
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


TOGETHER = SMALL
"""Elements up to which pairs are measured in one call, all together: a call takes 25 us, however few they are."""


def measure_together(
    targets: Sequence[Values],
    goldens: Sequence[Values],
    dtypes: tuple[str, str],
    options: MeasureOptions,
    scratch: Scratch,
) -> list[SpanRecord]:
    """Measure whole pairs at once; each gets the record that `measure_span` gives it.

    Args:
        targets: values under test of each pair, all of one size and dtype, `TOGETHER` elements in all, at least one.
        goldens: reference values, likewise.
        dtypes: canonical names of the dtypes of target and golden.
        options: as in `measure_span`.
        scratch: buffers of the calling thread.
    """
    rules = _rules(*dtypes, options)
    with np.errstate(all="ignore"):
        records = backend_named(options.backend).measure_blocks(targets, goldens, rules, scratch)
    return [SpanRecord(0, 1, reduce_span(0, (record,), join)) for record in records]


def measure(
    target: Blocks, golden: Blocks, options: MeasureOptions | None = None, scratch: Scratch | None = None
) -> Record:
    """Measure a whole pair; arguments and errors as in `measure_span`, the second pass included when asked for."""
    buffers = scratch or Scratch()
    if options is None or not options.needs_whole_pair:
        return fold([measure_span(target, golden, 0, _block_count(target), options, buffers)])
    first, second = kept(target), kept(golden)
    record = fold([measure_span(first, second, 0, _block_count(target), options, buffers)])
    kinds = kinds_of(options.accumulators).second_passes
    again = (_second_pass(kind, first, second, record, buffers) for kind in kinds)
    return record._replace(accumulators=(*record.accumulators, *(each for each in again if each is not None)))


def _second_pass(
    kind: type[SecondPass], target: Blocks, golden: Blocks, record: Record, scratch: Scratch
) -> Accumulator | None:
    def blocks() -> Iterator[tuple[Values, Values]]:
        for start in range(0, record.numel, BLOCK):
            stop = min(record.numel, start + BLOCK)
            yield _read(target, start, stop), _read(golden, start, stop)

    with np.errstate(all="ignore"):
        given = kind.begin(record, blocks(), scratch)
        if given is None:
            return None
        nodes = reduce_span(0, (kind.update(*block, given, scratch) for block in blocks()), kind.merge)
        return fold_nodes(nodes, kind.merge)


def summarise_span(values: Blocks, first_block: int, n_blocks: int, scratch: Scratch | None = None) -> SpanRecord:
    """Return the statistics of some blocks of one tensor: a record with a target side only."""
    buffers = scratch or Scratch()

    def block(start: int, stop: int) -> Record:
        return Record(stop - start, numpy_backend.summarise_block(_read(values, start, stop), buffers)[0])

    return _span(block, values.numel, first_block, n_blocks)


def summarise(values: Blocks, scratch: Scratch | None = None) -> Record:
    """Return the statistics of one whole tensor: a record with a target side only."""
    return fold([summarise_span(values, 0, _block_count(values), scratch)])


def _rules(target_dtype: str, golden_dtype: str, options: MeasureOptions | None) -> Rules:
    kinds = kinds_of(options.accumulators if options else ())
    return Rules(relative_eps(target_dtype, golden_dtype), kinds.of_values, kinds.of_errors)


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
