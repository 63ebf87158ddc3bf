"""The `distributed` scheduler: batches on the workers of a Dask cluster, an own one or one that runs already.

All of Dask runs in an event loop in a separate thread, and every wait for something there has a bound. A few batches
per worker are in flight, so that neither the cluster nor this process holds more. The package `distributed` is loaded
when a cluster is asked for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import secrets
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from probe_flow.engine.schedulers.base import (
    RETRIES,
    WINDOW_PER_WORKER,
    Batch,
    BatchError,
    BatchLost,
    Result,
    largest_first,
)
from probe_flow.engine.schedulers.cluster_versions import VERSIONS, other_layout
from probe_flow.errors import Diagnostic, IncompleteError

if TYPE_CHECKING:
    from distributed import Client, Future

ANSWER_S = 5.0
"""Seconds that the scheduler of a cluster gets to answer a question, and to accept a connection."""

OPEN_S = 360.0
"""Seconds for all that opens a cluster together, each step of which has a shorter bound."""

END_S = 60.0
"""Seconds for all that closes a cluster together, each step of which has a shorter bound."""

LOOK_S = 5.0
"""Seconds without a result after which the scheduler is asked whether anybody works."""

IDLE_S = 120.0
"""Seconds without a result and without a working worker that end a run; a worker that died is replaced in less."""

HANDOVER_S = 60.0
"""Seconds that the result of a finished batch gets to arrive, as often as a batch may be tried."""

_Answer = TypeVar("_Answer")


class Loop:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="probe-flow-cluster", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, _Answer]) -> concurrent.futures.Future[_Answer]:
        """Start work in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, _Answer], timeout_s: float) -> _Answer:
        """Do work in the loop and return its answer.

        Raises:
            TimeoutError: it took longer; it is cancelled then.
        """
        begun = self.begin(work)
        try:
            return begun.result(timeout_s)
        except concurrent.futures.TimeoutError as exc:  # another class in Python 3.10
            raise TimeoutError(f"no answer within {timeout_s:.0f} s") from exc
        finally:
            begun.cancel()

    def stop(self) -> None:
        """Cancel what is left and end the thread; one that hangs is left to the end of the process."""
        with suppress(TimeoutError):
            self.call(_cancel_others(), ANSWER_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=ANSWER_S)


@contextmanager
def connected(
    open_client: Callable[[], AbstractAsyncContextManager[Client]],
) -> Iterator[tuple[Loop, Client]]:
    """Give a client of a cluster, and the loop in which it lives."""
    loop = Loop()
    try:
        manager = open_client()
        try:
            client = loop.call(_entered(manager), OPEN_S)
        except TimeoutError as exc:
            raise IncompleteError(_idle(f"it did not open within {OPEN_S:.0f} s")) from exc
        try:
            yield loop, client
        finally:
            with suppress(TimeoutError):
                loop.call(_left(manager), END_S)
    finally:
        loop.stop()


async def _entered(manager: AbstractAsyncContextManager[Client]) -> Client:
    return await manager.__aenter__()


async def _left(manager: AbstractAsyncContextManager[Client]) -> None:
    await manager.__aexit__(None, None, None)


class DistributedScheduler(Struct, frozen=True):
    """Runs batches on a Dask cluster.

    Args:
        workers: threads of the cluster that batches are meant for.
        slots: batches in flight.
        open_client: connects to the cluster for the time of one `run`.
        warnings: what is worth saying of the cluster.
    """

    workers: int
    slots: int
    open_client: Callable[[], AbstractAsyncContextManager[Client]]
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
            IncompleteError: PF6108 when the cluster is gone, or nobody in it works for `IDLE_S`; PF6113 when an own
                one does not start.
        """
        order = largest_first(sizes)
        if order:
            with connected(self.open_client) as (loop, client):
                yield from _Flow(loop, client, function, batches).results(order, slots=self.slots)


class HeldCluster:
    """A scheduler over a cluster that is opened once for several `run`s, by the first that has batches.

    The comparison of a stage has up to four: one cluster of this machine takes 1.5 s of CPU to start.

    Args:
        scheduler: whose cluster it is.
    """

    def __init__(self, scheduler: DistributedScheduler) -> None:
        self._scheduler = scheduler
        self.name, self.workers, self.warnings = scheduler.name, scheduler.workers, scheduler.warnings
        self._open: tuple[Loop, Client] | None = None
        self._left = ExitStack()

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Yield as `DistributedScheduler.run`; where it ends early, what is under way ends with the cluster."""
        order = largest_first(sizes)
        if not order:
            return
        try:
            if self._open is None:
                self._open = self._left.enter_context(connected(self._scheduler.open_client))
            flow = _Flow(*self._open, function, batches)
            yield from flow.results(order, slots=self._scheduler.slots)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster; the next `run` opens another one."""
        self._open = None
        self._left.close()


class _Flow(Generic[Batch, Result]):
    """The batches of one `run`: each is a task of the loop, whose outcome comes to the thread that asks for it."""

    def __init__(
        self, loop: Loop, client: Client, function: Callable[[Batch], Result], batches: Sequence[Batch]
    ) -> None:
        self._loop = loop
        self._client = client
        self._function = function
        self._batches = batches
        self._token = secrets.token_hex(8)
        self._ended: queue.SimpleQueue[tuple[int, Result | BatchLost] | Exception] = queue.SimpleQueue()

    def results(self, order: Sequence[int], *, slots: int) -> Iterator[tuple[int, Result | BatchLost]]:
        waiting = iter(order)
        for index in islice(waiting, slots):
            self._loop.begin(self._batch(index))
        for _ in order:
            outcome = self._next()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome
            for following in islice(waiting, 1):
                self._loop.begin(self._batch(following))

    def _next(self) -> tuple[int, Result | BatchLost] | Exception:
        """Return the next outcome; give up when nobody has worked for too long.

        Looks are counted, not the time between them: while this process is stopped, nothing is known of the cluster.
        """
        looks, why = 0, ""
        while looks * LOOK_S < IDLE_S:
            with suppress(queue.Empty):
                return self._ended.get(timeout=LOOK_S)
            try:
                why = self._loop.call(_idleness(self._client), ANSWER_S)
            except Exception:  # of any kind: it neither answers nor works
                why = "its scheduler has not answered"
            looks = looks + 1 if why else 0
        return IncompleteError(_idle(f"for {IDLE_S:.0f} s {why}"))

    async def _batch(self, index: int) -> None:
        try:
            self._ended.put((index, await self._outcome(index)))
        except Exception as exc:  # for the thread that waits
            self._ended.put(exc)

    async def _outcome(self, index: int) -> Result | BatchLost:
        from distributed import CancelledError, KilledWorker, as_completed

        future: Future = self._client.submit(
            run_batch,
            VERSIONS["layout"],
            self._function,
            self._batches[index],
            key=f"probe-flow-{self._token}-{index}",
            pure=False,
            retries=RETRIES,
        )
        arriving = asyncio.ensure_future(future.result())
        arriving.add_done_callback(_ignore)  # it may arrive when nobody waits for it any more
        for _ in range(1 + RETRIES):
            # A result whose worker ends before it has handed it over is computed again, as often as that happens.
            async for _finished in as_completed([future], loop=self._client.loop):
                await asyncio.wait({arriving}, timeout=HANDOVER_S)
            if arriving.done():
                break
        else:
            return BatchLost(f"its result did not arrive within {HANDOVER_S:.0f} s, {1 + RETRIES} times")
        try:
            result: Result = arriving.result()
        except KilledWorker as exc:
            return BatchLost(f"the last one was {exc.last_worker.address}")
        except (CancelledError, asyncio.CancelledError) as exc:
            raise IncompleteError(_gone()) from exc
        except Exception as exc:  # of any origin: the batch raised it
            raise BatchError(index) from exc
        finally:
            future.release()
        return result


def _ignore(task: asyncio.Future[object]) -> None:
    if not task.cancelled():
        task.exception()


def run_batch(layout: int, function: Callable[[Batch], Result], batch: Batch) -> Result:
    """Run one batch in a worker, which may have joined the cluster after the others were asked for their versions.

    Raises:
        IncompleteError: PF6104 when the worker's records have another layout than the client's.
    """
    if VERSIONS["layout"] != layout:
        raise IncompleteError(other_layout("a worker that joined the cluster", VERSIONS["layout"]))
    return function(batch)


async def _idleness(client: Client) -> str:
    """Return why nobody works in a cluster, in words; nothing where somebody does."""
    assigned, known = await asyncio.gather(client.scheduler.processing(workers=None), client.scheduler.identity())
    workers = known["workers"]
    if any(assigned.get(address) and _can_work(facts) for address, facts in workers.items()):
        return ""
    return f"none of its {len(workers)} workers has taken work" if workers else "it has had no workers"


def _can_work(worker: Mapping[str, Any]) -> bool:
    """Return whether a worker works at what it is given: a paused one only ends what it has begun."""
    executing: int = worker["metrics"].get("task_counts", {}).get("executing", 0)
    return worker["status"] == "running" or executing > 0


def local_cluster(workers: int) -> DistributedScheduler:
    """Return a scheduler over a cluster of this machine, one process per worker, alive while batches run."""

    def opened() -> AbstractAsyncContextManager[Client]:
        from probe_flow.engine.schedulers.own_cluster import own_cluster

        return own_cluster(workers)

    return DistributedScheduler(workers, WINDOW_PER_WORKER * workers, opened)


def _idle(why: str) -> Diagnostic:
    return Diagnostic(
        "PF6108",
        f"the Dask cluster does not work: {why}",
        help="check its workers, then run again: finished batches are not measured twice (`run --resume`)",
    )


def _gone() -> Diagnostic:
    return Diagnostic(
        "PF6108",
        "the Dask cluster is gone: its scheduler, or the last of its workers, ended",
        help="start it, then run again: finished batches are not measured twice (`run --resume`)",
    )
