"""The softmax divergence of a pair: a second pass, with the maxima known from the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from probe_flow.metrics.sums.block_sums import Scratch, load, summed
from probe_flow.metrics.sums.record import BLOCK, Record, Softmax, join_softmax
from probe_flow.metrics.sums.tree import fold_nodes, reduce_span

if TYPE_CHECKING:
    from probe_flow.metrics.kernel.compare import Blocks


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
