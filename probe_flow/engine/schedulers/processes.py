"""The `processes` scheduler: Dask's threads, each of which has a worker process run its batches.

A pool of processes breaks as a whole when one of them dies, and does not tell which batch was to blame. Here every
process has its own connection, so a death costs one batch, which is tried again in a new process. The processes are
started by command line: their environment is set before any library is loaded, and nothing of the main module runs
a second time. That is not for speed: 2,000 empty batches take 1.3 s of CPU, and 1.0 s in a
`ProcessPoolExecutor` that spawns.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from types import MappingProxyType
from typing import Any

from probe_flow.engine.schedulers.base import RETRIES, Batch, BatchLost, Result
from probe_flow.engine.schedulers.threads import run_in_threads
from probe_flow.engine.schedulers.worker import WorkerTracebackError
from probe_flow.files.machine import KILL_S

_KEPT_BYTES = str(32 * 2**20)

WORKER_ENVIRONMENT = MappingProxyType(
    {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "NUMEXPR_NUM_THREADS": "1",
        "MALLOC_TRIM_THRESHOLD_": _KEPT_BYTES,
        "MALLOC_MMAP_THRESHOLD_": _KEPT_BYTES,
    }
)
"""One thread per process: the processes are the parallelism. And what a batch frees stays with its process for the next
one: given back to the system, it costs 7 % of the CPU of 100 pairs of a million elements to get it again (measured)."""

STOP_S = 1.0
"""Seconds that running batches get when work is stopped."""

START_S = 300.0
"""Seconds that a worker process gets to start; on a busy machine with packages on a network it takes long."""

LOOK_S = 1.0
"""Seconds without an answer after which a worker process is looked at: a batch may take as long as its worker lives."""

UNTOUCHED_BYTES = 64 * 2**20
"""What a process allocates and never touches (stacks, arenas, library buffers): 38 MB measured."""

_START = (
    "import sys; sys.path[:] = sys.argv[4:]; from probe_flow.engine.schedulers.worker import serve; "
    "serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split())"
)


class ProcessScheduler:
    """Runs batches in processes of this machine; functions and batches must be importable there.

    Args:
        workers: processes, at least 1.
        memory_bytes: memory for all of them together, mapped files not counted; None = no limit. An allocation
            beyond it fails in the worker, where it costs one tensor.
        batch_s: seconds that a batch may take before its worker and what that started are ended; None = no limit.
        retries_slow: whether a batch that took longer is tried again, as others are whose worker ended. One that is a
            single call is not: what hangs once hangs again.
    """

    name = "processes"
    warnings = ()

    def __init__(
        self,
        workers: int,
        *,
        memory_bytes: int | None = None,
        batch_s: float | None = None,
        retries_slow: bool = True,
    ) -> None:
        self.workers = max(1, workers)
        self._worker_bytes = 0 if memory_bytes is None else memory_bytes // self.workers + UNTOUCHED_BYTES
        self._batch_s = math.inf if batch_s is None else batch_s
        self._retries_slow = retries_slow
        self._ahead: _Pool | None = None

    def start_ahead(self, modules: Sequence[str]) -> None:
        """Start the processes for the next `run` while its batches are being made; `end_ahead` has to follow.

        Args:
            modules: what the batches will need.
        """
        if self._ahead is None:
            self._ahead = self._pool()
            self._ahead.start(self.workers, modules)

    def end_ahead(self) -> None:
        """End the processes that no run took."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _pool(self) -> _Pool:
        return _Pool(self._worker_bytes, self._batch_s, retries_slow=self._retries_slow)

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Yield ``(index, result)`` as batches finish; when work is stopped, running batches get a second to end."""
        pool, self._ahead = self._ahead or self._pool(), None
        call: Callable[[Batch], Result | BatchLost] = partial(pool.call, function)
        try:
            pool.start(min(self.workers, len(batches)), ())  # before Dask is loaded, which takes 0.1 s
            yield from run_in_threads(call, batches, sizes, workers=self.workers, stop_s=STOP_S, abandon=pool.close)
        finally:
            pool.close()


class _Pool:
    """Worker processes, started when needed and used again."""

    def __init__(self, worker_bytes: int, batch_s: float, *, retries_slow: bool) -> None:
        self._worker_bytes, self._batch_s = worker_bytes, batch_s
        self._retries_slow = retries_slow
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._is_closed = False

    def start(self, count: int, modules: Sequence[str]) -> None:
        """Have at least so many processes, which load some modules before they take work.

        Where the system gives no more of them, the call that needs one says so.
        """
        with self._lock, suppress(OSError):
            for _ in range(count - len(self._all)):
                worker = _Worker(self._worker_bytes, modules)
                self._all.add(worker)
                self._idle.append(worker)

    def call(self, function: Callable[[Batch], Result], batch: Batch) -> Result | BatchLost:
        """Run one batch in a process of its own for the time; try again in a new one when that process dies."""
        ending = ""
        for _ in range(1 + RETRIES):
            worker = self._take()
            try:
                is_result, result, text = worker.call((function, batch), self._batch_s)
            except TimeoutError:
                self._drop(worker)
                ending = f"took longer than {self._batch_s:g} s"
                if not self._retries_slow:
                    break
                continue
            except (EOFError, OSError):
                ending = self._drop(worker)
                if self._is_closed:
                    break
                continue
            except BaseException:
                self._drop(worker)
                raise
            with self._lock:
                self._idle.append(worker)
            if not is_result:
                raise result from WorkerTracebackError(text)
            done: Result = result
            return done
        return BatchLost(ending)

    def close(self) -> None:
        """Kill all processes; whoever waits for one is woken, and lets go of it."""
        with self._lock:
            self._is_closed = True
            idle, workers = self._idle, list(self._all)
        for worker in workers:
            worker.kill()
        end_s = time.monotonic() + KILL_S
        for worker in workers:
            worker.ending(max(0.0, end_s - time.monotonic()))
        for worker in idle:
            self._drop(worker)

    def _take(self) -> _Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended:
                    return worker
                self._all.discard(worker)
                worker.disconnect()
            if self._is_closed:
                raise RuntimeError("the worker processes were stopped")
            worker = _Worker(self._worker_bytes)
            self._all.add(worker)
        return worker

    def _drop(self, worker: _Worker) -> str:
        worker.kill()
        with self._lock:
            self._all.discard(worker)
        worker.disconnect()
        return worker.ending()


class _Worker:
    """One process and the connection to it."""

    def __init__(self, memory_bytes: int, modules: Sequence[str] = ()) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            self._process = _start(theirs, memory_bytes, modules)
        self._is_ready = False
        self._is_killed = False

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone, as one that waits for work may be, where memory is short."""
        return self._process.poll() is not None

    def call(self, message: object, timeout_s: float) -> tuple[bool, Any, str]:
        """Send a batch and return the answer: whether it ended well, its result or error, the error's traceback.

        Raises:
            TimeoutError: it took longer.
            EOFError, OSError: the process died.
            RuntimeError: it did not even start.
        """
        if not self._is_ready:
            self._await_start()
        self._connection.send(message)
        answer: tuple[bool, Any, str] = self._receive(timeout_s)
        return answer

    def kill(self) -> None:
        """End the process and what it started at once; nothing happens when it has ended."""
        self._is_killed = True
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def disconnect(self) -> None:
        """Close the connection; for the thread that uses it only."""
        self._connection.close()

    def ending(self, timeout_s: float | None = None) -> str:
        """Wait for the end of the killed process, `KILL_S` at most, and say how it ended."""
        try:
            code = self._process.wait(KILL_S if timeout_s is None else timeout_s)
        except subprocess.TimeoutExpired:
            return "hangs in the system and cannot be killed"
        return f"killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"

    def _await_start(self) -> None:
        try:
            self._receive(START_S)
        except TimeoutError as exc:
            raise RuntimeError(f"a worker process was not ready to work within {START_S:.0f} s") from exc
        except (EOFError, OSError) as exc:
            raise RuntimeError("a worker process ended before it could take work; its own words are above") from exc
        self._is_ready = True

    def _receive(self, timeout_s: float = math.inf) -> Any:
        """Return what the process sends; wait for it as long as it lives, or for a time.

        The connection alone does not show its end: a process that it started may hold the other side open, and one that
        cannot be killed holds it itself. Looks are counted, so that the time while this process is stopped does not.

        Raises:
            EOFError, OSError: the process died, or it was to be killed.
            TimeoutError: it took longer.
        """
        looks = 0
        while not self._connection.poll(min(LOOK_S, timeout_s)):
            looks += 1
            if self._is_killed or (self._process.poll() is not None and not self._connection.poll()):
                raise EOFError
            if looks * LOOK_S >= timeout_s:
                raise TimeoutError
        return self._connection.recv()


def _start(theirs: Connection, memory_bytes: int, modules: Sequence[str]) -> subprocess.Popen[bytes]:
    descriptor = theirs.fileno()
    # A worker is born with SIGINT blocked: Ctrl-C must not end it before it can say that it ignores the signal.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(  # noqa: S603 (our own interpreter)
            [sys.executable, "-c", _START, str(descriptor), str(memory_bytes), " ".join(modules), *sys.path],
            pass_fds=[descriptor],
            env={**os.environ, **WORKER_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=2,  # results of the command alone belong on stdout
            start_new_session=True,  # what a batch starts is ended with its worker
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
