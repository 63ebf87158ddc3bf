"""The `threads` scheduler: batches as tasks of Dask's threaded scheduler, delivered as they finish.

Dask returns the results of a graph only when the whole graph is done, and holds them until then. So its tasks hand
their results over themselves, through a window that also holds them back when the consumer is slower than they are.
One worker takes them one after another without Dask, whose import is a tenth of a small run (0.12 s of CPU).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic

from probe_flow.engine.schedulers.base import WINDOW_PER_WORKER, Batch, BatchError, Result, largest_first

GRAPH_TASKS = 2000
"""Tasks per Dask graph: bounds the scheduler's own memory; a graph costs about 70 us a task to build and run."""


LOOK_S = 0.5
"""Seconds between two looks for a signal while no batch ends.

Python acts on a signal between two instructions of the main thread. One that arrives just before that thread falls
asleep, or in another thread, does not wake it: a wait without a bound would outlast it.
"""

ABANDON_S = 30.0
"""Seconds that threads get to let go of batches that were abandoned; one that does not is left behind."""


class ThreadScheduler:
    """Runs batches on a pool of threads; numpy and file reads release the interpreter lock.

    Args:
        workers: threads, at least 1.
    """

    name = "threads"
    warnings = ()

    def __init__(self, workers: int) -> None:
        self.workers = max(1, workers)

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """Yield ``(index, result)`` as batches finish; the largest batch starts first."""
        yield from run_in_threads(function, batches, sizes, workers=self.workers)


def run_in_threads(
    function: Callable[[Batch], Result],
    batches: Sequence[Batch],
    sizes: Sequence[int],
    *,
    workers: int,
    stop_s: float | None = None,
    abandon: Callable[[], None] | None = None,
) -> Generator[tuple[int, Result], None, None]:
    """Yield ``(index, result)`` as batches finish, the largest first; see `Scheduler`.

    Args:
        function: called in a thread per batch.
        batches: its arguments.
        sizes: their bytes.
        workers: threads.
        stop_s: seconds to wait for running batches when the iterator ends early; None = as long as they take.
        abandon: called then, and at the ordinary end; must make every running call return, within `ABANDON_S`.
    """
    window = _Window[Result](largest_first(sizes), slots=WINDOW_PER_WORKER * workers)

    def task() -> None:
        index = window.take()
        if index is None:
            return
        try:
            window.deliver((index, function(batches[index])))
        except Exception as exc:
            window.deliver(_failure(index, exc))

    driver = threading.Thread(
        target=_drive, args=(task, len(batches), workers, window), name="probe-flow-dask", daemon=True
    )
    try:
        driver.start()
        yield from window.results(len(batches))
    finally:
        window.stop()
        try:
            _join(driver, stop_s)
        finally:
            if abandon is not None:
                abandon()
        _join(driver, None if abandon is None else ABANDON_S)


def _join(driver: threading.Thread, timeout_s: float | None) -> None:
    """Wait for a thread; one whose start a signal interrupted finds that nothing is left to do."""
    if driver.is_alive():
        driver.join(timeout_s)


def _failure(index: int, cause: Exception) -> BatchError:
    failure = BatchError(index)
    failure.__cause__ = cause
    return failure


def _drive(task: Callable[[], None], count: int, workers: int, window: _Window[Result]) -> None:
    """Run `count` tasks through Dask, in graphs of bounded size. The tasks take the batches in the window's order."""
    try:
        if workers == 1:
            for _ in range(count):
                task()
            return
        with ThreadPoolExecutor(workers, thread_name_prefix="probe-flow") as pool:
            first = min(workers, count)
            for _ in range(first):  # every worker has something to do while Dask is loaded
                pool.submit(task)
            if first == count:
                return
            from dask.threaded import get

            for start in range(first, count, GRAPH_TASKS):
                if window.is_stopped:
                    return
                graph = {("batch", number): (task,) for number in range(start, min(start + GRAPH_TASKS, count))}
                get(graph, list(graph), pool=pool)
    except BaseException as exc:  # the consumer waits for results in another thread: it must hear of any end
        window.deliver(exc)


class _Window(Generic[Result]):
    """Hands out indices and takes results back; at most `slots` indices are between the two.

    One slot is taken per index and freed when the consumer comes back for more than the result it got.
    """

    def __init__(self, order: Sequence[int], *, slots: int) -> None:
        self._order = iter(order)
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(slots)
        self._finished: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()
        self.is_stopped = False

    def take(self) -> int | None:
        """Return the next index once a slot is free, None after `stop`."""
        self._slots.acquire()
        with self._lock:
            if not self.is_stopped:
                return next(self._order, None)
        self._slots.release()  # wakes the next one that waits
        return None

    def deliver(self, result: tuple[int, Result] | BaseException) -> None:
        """Hand a result, or what ended it, to the consumer."""
        self._finished.put(result)

    def results(self, count: int) -> Iterator[tuple[int, Result]]:
        """Yield `count` results as they arrive; raise the first failure."""
        for _ in range(count):
            result = self._await()
            if isinstance(result, BaseException):
                raise result
            yield result
            self._slots.release()

    def _await(self) -> tuple[int, Result] | BaseException:
        while True:
            with contextlib.suppress(queue.Empty):
                return self._finished.get(timeout=LOOK_S)

    def stop(self) -> None:
        """Hand out no more indices, and wake every task that waits for one."""
        with self._lock:
            self.is_stopped = True
        self._slots.release()
