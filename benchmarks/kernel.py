"""The metric kernel on arrays in memory, one thread, with memcpy measured in the same loop."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.dumps import base_values
from benchmarks.timing import Spread, thread_seconds
from probe_flow.metrics.kernel.compare import measure
from probe_flow.metrics.sums.block_sums import Scratch

COPIED_BYTES = 256 * 2**20
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ArrayBlocks:
    """An array as the kernel reads it."""

    values: Array

    @property
    def numel(self) -> int:
        return self.values.size

    @property
    def dtype(self) -> str:
        return str(self.values.dtype)

    def read(self, start: int, stop: int) -> Array:
        return self.values[start:stop]


@dataclass(frozen=True)
class KernelFigures:
    """Million element pairs a second by name, and the bytes of both sides a second as a share of memcpy's."""

    memcpy: Spread
    speeds: dict[str, Spread]
    shares: dict[str, Spread]
    half_to_single: Spread


def kernel_figures(elements: int, runs: int) -> KernelFigures:
    """Measure every pair of dtypes ``runs`` times in turn, after one round that is not counted."""
    pairs, scratch = array_pairs(elements), Scratch()
    source = np.ones(COPIED_BYTES // 4, np.float32)
    copy = np.empty_like(source)
    copied: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in pairs}
    for number in range(runs + 1):
        copy_s = thread_seconds(lambda: np.copyto(copy, source))
        if number:
            copied.append(COPIED_BYTES / copy_s / 1e9)
        for name, (target, golden) in pairs.items():
            taken = thread_seconds(partial(measure, ArrayBlocks(target), ArrayBlocks(golden), scratch=scratch))
            if number:
                seconds[name].append(taken)
    memcpy = statistics.median(copied)
    speeds, shares = {}, {}
    for name, (target, golden) in pairs.items():
        speeds[name] = Spread.of([elements / taken / 1e6 for taken in seconds[name]])
        shares[name] = Spread.of([(target.nbytes + golden.nbytes) / taken / 1e9 / memcpy for taken in seconds[name]])
    halves = zip(seconds["float16"], seconds["float32"], strict=True)
    return KernelFigures(Spread.of(copied), speeds, shares, Spread.of([single / half for half, single in halves]))


def array_pairs(elements: int) -> dict[str, tuple[Array, Array]]:
    """Return what is measured: close values, as two runs of one model give them."""
    golden = base_values(elements)
    target = golden * np.float32(1.0001)
    pairs: dict[str, tuple[Array, Array]] = {"float32": (target, golden)}
    for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        pairs[name] = target.astype(dtype), golden.astype(dtype)
    pairs["float16 against float32"] = target.astype(np.float16), golden
    pairs["int64"] = (target * 1000).astype(np.int64), (golden * 1000).astype(np.int64)
    return pairs
