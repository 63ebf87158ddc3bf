"""The `distributed` scheduler: batches on the workers of a Dask cluster, an own one or one that runs already.

A window of futures is kept in flight, so that neither the cluster nor this process holds more than a few batches per
worker. Only this module knows the package `distributed`; it loads it when a cluster is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from probe_flow.engine.cluster_versions import VERSIONS, VERSIONS_NAME, other_layout, version_problems
from probe_flow.engine.processes import STOP_S, WORKER_ENVIRONMENT
from probe_flow.engine.scheduler import (
    RETRIES,
    WINDOW_PER_WORKER,
    Batch,
    BatchError,
    BatchLost,
    Result,
    largest_first,
)
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

ANSWER_S = 5.0
"""Seconds that a scheduler and its workers get to answer."""

_CONFIG: Mapping[str, object] = {
    # Mapped pages of the dumps count as memory of a worker there; they must neither be spilled nor end it.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": 0.85,
    "distributed.worker.memory.terminate": False,
    "distributed.scheduler.allowed-failures": RETRIES,
    # One batch per thread: a worker that dies makes no other batch suspect.
    "distributed.scheduler.worker-saturation": 1.0,
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
}


@dataclass(frozen=True, slots=True)
class DistributedScheduler:
    """Runs batches on a Dask cluster.

    Args:
        workers: threads of the cluster that batches are meant for.
        slots: batches in flight.
        open_client: connects to the cluster for the time of one `run`.
        warnings: what is worth saying of the cluster.
    """

    workers: int
    slots: int
    open_client: Callable[[], AbstractContextManager[Client]]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def name(self) -> str:
        """Name in workflow files."""
        return "distributed"

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Yield ``(index, result)`` as batches finish, the largest first.

        Raises:
            IncompleteError: PF6108 when the cluster is gone.
        """
        order = largest_first(sizes)
        if order:
            with self.open_client() as client:
                yield from _Window(client, function, batches, self.slots).results(order)


class _Window:
    """The futures in flight of one `run`."""

    def __init__(
        self, client: Client, function: Callable[[Batch], Result], batches: Sequence[Batch], slots: int
    ) -> None:
        self._client = client
        self._function = function
        self._batches = batches
        self._slots = slots
        self._token = secrets.token_hex(8)
        self._running: dict[str, tuple[int, Future]] = {}

    def results(self, order: Sequence[int]) -> Iterator[tuple[int, Any]]:
        from distributed import as_completed

        waiting = iter(order)
        first = [self._submit(index) for index in islice(waiting, self._slots)]
        finished = as_completed(first, loop=self._client.loop)
        try:
            for future in finished:
                index, _ = self._running.pop(future.key)
                result = _result(future, index)
                future.release()
                yield index, result
                for following in islice(waiting, 1):
                    finished.add(self._submit(following))
        finally:
            self._client.cancel([future for _, future in self._running.values()])

    def _submit(self, index: int) -> Future:
        key = f"probe-flow-{self._token}-{index}"
        future = self._client.submit(
            run_batch, VERSIONS["layout"], self._function, self._batches[index], key=key, pure=False, retries=RETRIES
        )
        self._running[key] = index, future
        return future


def run_batch(layout: int, function: Callable[[Batch], Result], batch: Batch) -> Result:
    """Run one batch in a worker, which may have joined the cluster after the others were asked for their versions.

    Raises:
        IncompleteError: PF6104 when the worker's records have another layout than the client's.
    """
    if VERSIONS["layout"] != layout:
        raise IncompleteError(other_layout("a worker that joined the cluster", VERSIONS["layout"]))
    return function(batch)


def local_cluster(workers: int) -> DistributedScheduler:
    """Return a scheduler over a cluster of this machine, one process per worker, alive while batches run."""
    return DistributedScheduler(workers, WINDOW_PER_WORKER * workers, lambda: _own_cluster(workers))


def connect(address: str, workers: int | None = None) -> DistributedScheduler:
    """Return a scheduler over the running cluster at an address, after asking all its workers for their versions.

    Args:
        address: of the scheduler, ``tcp://host:8786``.
        workers: batches in flight; None = a few per thread of the cluster.

    Raises:
        UsageError: PF6101 when nothing answers there, PF6102 for a worker without probe_flow, PF6104 for one whose
            records have another layout, PF6108 when there is no worker.
    """
    with _running_cluster(address) as client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise UsageError(_no_workers(address))
        found = _versions(client)
    problems = tuple(version_problems(found))
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise UsageError(errors)
    return DistributedScheduler(
        min(workers or threads, threads),
        workers or WINDOW_PER_WORKER * threads,
        lambda: _running_cluster(address),
        problems,
    )


def _versions(client: Client) -> Mapping[str, Mapping[str, object] | str]:
    """Return the versions by worker, or in words why there are none."""
    # A function of the standard library: a worker without probe_flow can still answer.
    answers: dict[str, Any] = client.run(resolve_name, VERSIONS_NAME, on_error="return")
    return {
        worker: answer if isinstance(answer, dict) else f"{type(answer).__name__}: {answer}"
        for worker, answer in answers.items()
    }


@contextmanager
def _own_cluster(workers: int) -> Iterator[Client]:
    import dask
    from distributed import Client, LocalCluster

    with ExitStack() as stack:
        stack.enter_context(dask.config.set(_CONFIG))
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # a fixed port may be taken
            silence_logs=logging.CRITICAL,
        )
        stack.callback(cluster.close)
        stack.callback(cluster.sync, _end_workers, cluster)
        yield stack.enter_context(Client(cluster, set_as_default=False))


async def _end_workers(cluster: LocalCluster) -> None:
    """End the worker processes, busy ones too; closing the cluster alone would wait longer for running batches."""
    await asyncio.gather(*(nanny.close(timeout=STOP_S) for nanny in cluster.workers.values()))


@contextmanager
def _running_cluster(address: str) -> Iterator[Client]:
    from distributed import Client

    # A client that fails to connect may hang when it is thrown away: none is made before the scheduler has answered.
    try:
        asyncio.run(asyncio.wait_for(_ask(address), ANSWER_S))
    except Exception as exc:  # whatever listens there may send anything
        raise UsageError(_unreachable(address, exc)) from exc
    with Client(address, timeout=ANSWER_S, set_as_default=False) as client:
        yield client


async def _ask(address: str) -> None:
    """Return when a Dask scheduler answers at the address."""
    from distributed import rpc
    from distributed.security import Security

    security = Security().get_connection_args("client")
    async with rpc(address, timeout=ANSWER_S, connection_args=security) as scheduler:
        await scheduler.identity()


def _result(future: Future, index: int) -> Any:
    from distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker as exc:
        return BatchLost(f"the last one was {exc.last_worker.address}")
    except CancelledError as exc:
        raise IncompleteError(_gone()) from exc
    except Exception as exc:  # of any origin: the batch raised it
        raise BatchError(index) from exc


def _unreachable(address: str, cause: Exception) -> Diagnostic:
    why = f": {cause}" if str(cause) else ""
    return Diagnostic(
        "PF6101",
        f"no Dask scheduler answers at `{address}` within {ANSWER_S:.0f} s{why}",
        help="start one with `dask scheduler`, correct `executor.address`, or use `--scheduler processes`",
    )


def _no_workers(address: str) -> Diagnostic:
    return Diagnostic(
        "PF6108",
        f"the Dask scheduler at `{address}` has no workers",
        help=f"start some with `dask worker {address}`",
    )


def _gone() -> Diagnostic:
    return Diagnostic(
        "PF6108",
        "the Dask cluster is gone: its scheduler, or the last of its workers, ended",
        help="start it again; what was measured before is kept",
    )
