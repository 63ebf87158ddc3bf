"""The metric kernel with the compiled backend where numba is installed, and on two threads with either backend."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec

from benchmarks.figures import Row
from benchmarks.kernel import Array, ArrayBlocks, array_pairs
from benchmarks.timing import Spread, thread_seconds
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.kernel.compare import measure
from probe_flow.metrics.sums.block_sums import Scratch

THREADS = 2
GOALS = {"numba": ">= 1.8", "numpy": ""}


def thread_rows(elements: int, runs: int) -> list[Row]:
    """Return what two threads do of what one does, by wall time; and the speed of the compiled backend."""
    pairs = array_pairs(elements)
    rows = []
    for backend in ("numpy", "numba") if find_spec("numba") else ("numpy",):
        gains = [_gain(pairs["float32"], backend) for _ in range(runs + 1)][1:]
        what = f"float32, {backend}, {THREADS} threads to 1"
        rows.append(Row("kernel", what, "ratio", Spread.of(gains), GOALS[backend]))
        if backend == "numba":
            rows += [_speed(name, pair, runs) for name, pair in pairs.items()]
    return rows


def _speed(name: str, pair: tuple[Array, Array], runs: int) -> Row:
    seconds = [thread_seconds(partial(_measure, pair, "numba", Scratch())) for _ in range(runs + 1)][1:]
    speed = Spread.of([pair[0].size / taken / 1e6 for taken in seconds])
    return Row("kernel", f"{name}, numba", "Melem/s", speed)


def _gain(pair: tuple[Array, Array], backend: str) -> float:
    """Return how many times the work of one thread `THREADS` of them do in the same time."""
    started = time.perf_counter()
    _measure(pair, backend, Scratch())
    alone_s = time.perf_counter() - started
    with ThreadPoolExecutor(THREADS) as pool:
        started = time.perf_counter()
        for done in [pool.submit(_measure, pair, backend, Scratch()) for _ in range(THREADS)]:
            done.result()
        together_s = time.perf_counter() - started
    return THREADS * alone_s / together_s


def _measure(pair: tuple[Array, Array], backend: str, scratch: Scratch) -> None:
    target, golden = pair
    measure(ArrayBlocks(target), ArrayBlocks(golden), MeasureOptions(backend=backend), scratch)
