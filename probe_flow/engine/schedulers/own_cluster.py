"""A Dask cluster on this machine for one run, whose members know each other by a certificate.

Whoever can send messages to a scheduler or worker of Dask can run code in it, and every user of the machine can
connect to a port on the loopback. So scheduler, workers and this process speak TLS with one key, made for the run. It
is in their memory, and for the moment in which each loads it in a file that only the user can read. No HTTP server is
started, since it would answer anybody. This module loads the package `distributed`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from multiprocessing import active_children, current_process, forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import dask
import distributed.utils
from distributed import Client, Nanny, Scheduler, Worker
from distributed.security import Security
from distributed.utils import silence_logging_cmgr

from probe_flow.engine.schedulers.base import RETRIES
from probe_flow.engine.schedulers.processes import START_S, STOP_S, WORKER_ENVIRONMENT
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.leftovers import remove_scratch, temporary_path

SILENT_WORKER_S = 300.0
"""Seconds without a sign of life after which an own worker is replaced; a batch may hold the interpreter lock."""

CLOSE_S = 10.0
"""Seconds that each part of a cluster, and a connection to one, gets to close."""

_LOOPBACK = "127.0.0.1"

_CONFIG: Mapping[str, object] = {
    # Workers are forks of one process that has loaded what all of them need: alone, each takes 0.7 s of CPU to load it.
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.scheduler.allowed-failures": RETRIES,
    "distributed.scheduler.worker-ttl": f"{SILENT_WORKER_S:.0f}s",
    # One batch per thread: a worker that dies makes no other batch suspect.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
    # Dask has freed memory given back to the system at once, which is taken again for the next block: for 1.2 GB of
    # pairs 2.3 s of CPU more than the 4.5 s that two workers need.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # It samples what its workers do a hundred times a second (0.7 s of CPU there) for a page that nobody serves.
    "distributed.worker.profile.enabled": False,
}


_LOADED_ONCE = ("distributed", "numpy", "probe_flow.measure.batches", __name__)
"""Modules that the process loads of which the workers are forks."""


class _WithoutHttp:
    """A server of Dask that does not start the HTTP server which every one of them has."""

    def start_http_server(self, *_args: object, **_kwargs: object) -> None:
        """Start nothing."""


class QuietScheduler(_WithoutHttp, Scheduler):  # type: ignore[misc]
    """A scheduler with one port."""


class QuietWorker(_WithoutHttp, Worker):  # type: ignore[misc]
    """A worker with one port."""


@asynccontextmanager
async def own_cluster(workers: int) -> AsyncIterator[Client]:
    """Give a client of a new cluster of this machine, with one process of one thread per worker.

    A worker that dies is replaced. `LocalCluster` of Dask would not do: it gives up a worker that is not back within
    15 s, and nothing of it waits with a bound.

    Raises:
        IncompleteError: PF6113 when the cluster does not start.
    """
    async with AsyncExitStack() as stack:
        folder = _scratch_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(_environment_restored())
        stack.enter_context(_one_process_to_fork(folder))
        stack.enter_context(_temporary_files_in(folder))
        places = {"temporary-directory": folder, "distributed.nanny.environ.TMPDIR": folder}
        stack.enter_context(dask.config.set({**_CONFIG, **places}))
        stack.enter_context(silence_logging_cmgr(logging.CRITICAL))
        try:
            client = await asyncio.wait_for(_started(workers, stack), START_S)
        except Exception as exc:  # of any kind: ports, processes and memory may all be refused
            raise IncompleteError(_not_started(workers, exc)) from exc
        yield client


def _scratch_folder() -> str:
    """Make the folder for the working files of a cluster; remove those of runs that were killed.

    Dask would make one that everybody can read, and leave it.
    """
    remove_scratch()
    folder = temporary_path(Path(tempfile.gettempdir()) / "probe_flow_cluster")
    folder.mkdir(mode=0o700)
    return str(folder)


@contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Have this process and the workers put temporary files there; the key of TLS is in one while it is loaded."""
    before = tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def _one_process_to_fork(folder: str) -> Iterator[None]:
    """Have Python's server of forks load what the workers need; end it with the cluster, unless it was there before.

    It ends by itself when this process does, and the workers do so too. Its socket lies in the folder, which is named
    by a descriptor: the system cuts the path of a socket at 108 bytes. So does that of the one which Dask starts when a
    signal ended the first, while the cluster is there.
    """
    server: Any = forkserver._forkserver
    settings = current_process()._config  # type: ignore[attr-defined]
    before, places_before = server._forkserver_pid, settings.get("tempdir")
    told_before = server._preload_modules, distributed.utils._forkserver_preload_set
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    distributed.utils._forkserver_preload_set = True  # else it loads pandas where that is installed
    server.set_forkserver_preload([*_LOADED_ONCE])
    os.environ.update(WORKER_ENVIRONMENT)  # it is what the workers begin with
    try:
        settings["tempdir"] = f"/proc/self/fd/{descriptor}"
        server.ensure_running()
        yield
    finally:
        settings["tempdir"] = places_before
        if server._forkserver_pid not in (None, before):
            os.kill(server._forkserver_pid, signal.SIGKILL)  # it has nothing to put in order, which takes it 0.2 s
            server._stop()
        os.close(descriptor)
        server._preload_modules, distributed.utils._forkserver_preload_set = told_before


async def _started(workers: int, stack: AsyncExitStack) -> Client:
    """Start scheduler, workers and client; the stack ends them, also when one fails."""
    security = Security.temporary()
    scheduler = QuietScheduler(
        host=_LOOPBACK, protocol="tls", security=security, dashboard=False, dashboard_address=None
    )
    stack.push_async_callback(closed, scheduler.close)
    await scheduler
    nannies = [
        Nanny(
            scheduler.address,
            host=_LOOPBACK,
            security=security,
            nthreads=1,
            name=number,
            worker_class=QuietWorker,
            # Memory is bounded by workers and blocks. Mapped pages of the dumps count as memory of a worker there;
            # they must neither be spilled, nor stop or end it.
            memory_limit=0,
            death_timeout=START_S,
            silence_logs=logging.CRITICAL,
            dashboard=False,
        )
        for number in range(workers)
    ]
    stack.push_async_callback(_ended, nannies, active_children())
    await asyncio.gather(*nannies)
    client = Client(scheduler.address, security=security, asynchronous=True, set_as_default=False, timeout=START_S)
    stack.push_async_callback(closed, client.close)
    await client
    return client


async def _ended(nannies: Sequence[Nanny], known: Collection[BaseProcess]) -> None:
    """End the worker processes, busy ones too."""
    await asyncio.gather(*(closed(partial(nanny.close, timeout=STOP_S)) for nanny in nannies))
    for process in set(active_children()).difference(known):  # a nanny may have been starting one
        process.kill()


async def closed(close: Callable[[], Awaitable[object]]) -> None:
    """Close a part of a cluster; one that does not close in time is left to the end of its loop or its process."""
    with suppress(Exception):
        await asyncio.wait_for(close(), CLOSE_S)


@contextmanager
def _environment_restored() -> Iterator[None]:
    """Take back what Dask sets in the environment of this process for the workers to inherit."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _not_started(workers: int, cause: Exception) -> Diagnostic:
    why = f": {type(cause).__name__}: {cause}" if str(cause) else ""
    return Diagnostic(
        "PF6113",
        f"the Dask cluster of {workers} workers did not start within {START_S:.0f} s{why}",
        help="run again when the machine has room, with fewer `--workers`, or with `--scheduler processes`",
    )
