"""Pairs of small tensors, measured many in a call of the kernel: alone, most of their time would go into calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.kernel.compare import TOGETHER, measure_together
from probe_flow.metrics.kernel.kept_blocks import Blocks
from probe_flow.metrics.sums.block_sums import Scratch, Values
from probe_flow.metrics.sums.record import BLOCK, SpanRecord

WAITING = BLOCK
"""Elements of pairs that wait for others of their kind."""


class _Kind(NamedTuple):
    """What pairs that are measured together have in common."""

    numel: int
    dtypes: tuple[str, str]
    stored: tuple[np.dtype[Any], np.dtype[Any]]


class _Waiting(NamedTuple):
    number: int
    target: Values
    golden: Values


class SmallPairs:
    """Pairs that are measured when there are enough of their size and dtypes, or at the end.

    Args:
        options: of the kernel, without a second pass.
        scratch: of the calling thread.
    """

    def __init__(self, options: MeasureOptions, scratch: Scratch) -> None:
        self._options = options
        self._scratch = scratch
        self._waiting: dict[_Kind, list[_Waiting]] = defaultdict(list)
        self._elements = 0
        self._found: dict[int, SpanRecord | Exception] = {}

    def add(self, number: int, target: Blocks, golden: Blocks) -> None:
        """Read a pair of equal element counts, at least 1 and at most `TOGETHER`; both may be closed afterwards."""
        numel = target.numel
        waiting = _Waiting(number, target.read(0, numel), golden.read(0, numel))
        if not waiting.target.shape == waiting.golden.shape == (numel,):  # it would get the elements of another pair
            raise ValueError(f"asked for {numel} elements, got {waiting.target.size} and {waiting.golden.size}")
        kind = _Kind(numel, (target.dtype, golden.dtype), (waiting.target.dtype, waiting.golden.dtype))
        pairs = self._waiting[kind]
        pairs.append(waiting)
        self._elements += numel
        if (len(pairs) + 1) * numel > TOGETHER:
            self._measure(kind, self._waiting.pop(kind))
        elif self._elements > WAITING:
            self._measure_all()

    def measured(self) -> dict[int, SpanRecord | Exception]:
        """Measure those that wait, and return what was found of all pairs by number, or why nothing was."""
        self._measure_all()
        return self._found

    def _measure_all(self) -> None:
        while self._waiting:
            self._measure(*self._waiting.popitem())

    def _measure(self, kind: _Kind, pairs: Sequence[_Waiting]) -> None:
        self._elements -= len(pairs) * kind.numel
        try:
            targets, goldens = [pair.target for pair in pairs], [pair.golden for pair in pairs]
            records = measure_together(targets, goldens, kind.dtypes, self._options, self._scratch)
        except Exception as error:  # a defect must cost one row
            if len(pairs) == 1:
                self._found[pairs[0].number] = error
                return
            for pair in pairs:
                self._elements += kind.numel
                self._measure(kind, [pair])
        else:
            self._found.update(zip([pair.number for pair in pairs], records, strict=True))
