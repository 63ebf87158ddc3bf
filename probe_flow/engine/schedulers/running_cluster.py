"""A Dask cluster that runs already: whether its address may be used, who answers there, and what its workers are.

Whoever answers at the address can run code in this process, since Dask's messages hold pickles. So an address is used
only where certificates prove who answers (``tls://``), or where the user says that the network is trusted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from probe_flow.engine.schedulers.base import WINDOW_PER_WORKER
from probe_flow.engine.schedulers.cluster_versions import VERSIONS_NAME, version_problems
from probe_flow.engine.schedulers.distributed import ANSWER_S, DistributedScheduler, connected
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.workflow.model import TLS, Trust, UntrustedAddressError, check_trust

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

VERSIONS_S = 60.0
"""Seconds that the workers of a cluster get to say their versions: some load numpy first, maybe over a network."""


def connect(address: str, workers: int | None = None, *, trust: Trust | None = None) -> DistributedScheduler:
    """Return a scheduler over the running cluster at an address, after asking all its workers for their versions.

    Args:
        address: of the scheduler, ``tls://host:8786``.
        workers: batches in flight; None = a few per thread of the cluster.
        trust: ``network`` for an address that is not ``tls://``: everybody who can answer there may run code here.

    Raises:
        UsageError: PF6110 for an address that is neither authenticated nor trusted, PF6111 without usable
            certificates; no connection is made then. PF6101 when no scheduler answers there, PF6102 for a worker
            without probe_flow, PF6104 for one whose records have another layout, PF6108 when there is no worker,
            PF6112 when workers do not answer.
    """
    try:
        check_trust(address, trust)
    except UntrustedAddressError as exc:
        message, _, cure = str(exc).partition("; ")
        raise UsageError(Diagnostic(exc.code, message, help=cure)) from exc
    security = _security(address)

    def opened() -> AbstractAsyncContextManager[Client]:
        return _running_cluster(address, security)

    with connected(opened) as (loop, client):
        try:
            threads = loop.call(_threads(client), ANSWER_S)
        except Exception as exc:  # what listens there may send anything
            raise UsageError(_unreachable(address, exc)) from exc
        if not threads:
            raise UsageError(_no_workers(address))
        try:
            found = loop.call(_versions(client), VERSIONS_S)
        except Exception as exc:
            raise UsageError(_no_versions(address, exc)) from exc
    problems = tuple(version_problems(found))
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise UsageError(errors)
    slots = workers or WINDOW_PER_WORKER * threads
    return DistributedScheduler(min(workers or threads, threads), slots, opened, problems)


async def _threads(client: Client) -> int:
    known = await client.scheduler.identity()
    return sum(int(worker["nthreads"]) for worker in known["workers"].values())


async def _versions(client: Client) -> Mapping[str, Mapping[str, object] | str]:
    """Return the versions by worker, or in words why there are none."""
    # A function of the standard library: a worker without probe_flow can still answer.
    answers: dict[str, Any] = await client.run(resolve_name, VERSIONS_NAME, on_error="return")
    return {
        worker: answer if isinstance(answer, dict) else f"{type(answer).__name__}: {answer}"
        for worker, answer in answers.items()
    }


def _security(address: str) -> Security:
    """Return the certificates for an address, from Dask's own configuration.

    Raises:
        UsageError: PF6111 for a ``tls://`` address without usable ones.
    """
    from distributed.security import Security

    if not address.startswith(TLS):
        return Security()
    try:
        security = Security(require_encryption=True)
        context = security.get_connection_args("client")["ssl_context"]
    except Exception as exc:  # files that are not there, are none, or do not fit together
        raise UsageError(_no_certificates(address, f"cannot be used: {exc}")) from exc
    if context is None:
        raise UsageError(_no_certificates(address, "are not named"))
    return security


@asynccontextmanager
async def _running_cluster(address: str, security: Security) -> AsyncIterator[Client]:
    from distributed import Client, rpc
    from distributed.utils import silence_logging_cmgr

    from probe_flow.engine.schedulers.own_cluster import closed

    with silence_logging_cmgr(logging.CRITICAL):
        try:
            # A client tries for long, and logs: none is made before the scheduler has answered.
            arguments = security.get_connection_args("client")
            async with rpc(address, timeout=ANSWER_S, connection_args=arguments) as scheduler:
                await asyncio.wait_for(scheduler.identity(), ANSWER_S)
            client = Client(address, security=security, timeout=ANSWER_S, asynchronous=True, set_as_default=False)
        except Exception as exc:  # what listens there may send anything
            raise UsageError(_unreachable(address, exc)) from exc
        try:
            try:
                await asyncio.wait_for(client, 2 * ANSWER_S)
            except Exception as exc:
                raise UsageError(_unreachable(address, exc)) from exc
            yield client
        finally:
            await closed(client.close)


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


def _no_versions(address: str, cause: Exception) -> Diagnostic:
    return Diagnostic(
        "PF6112",
        f"not all workers of the Dask cluster at `{address}` say their versions within {VERSIONS_S:.0f} s: {cause}",
        help="end the workers that hang, or name another cluster in `executor.address`",
    )


def _no_certificates(address: str, what: str) -> Diagnostic:
    return Diagnostic(
        "PF6111",
        f"the certificates for `{address}` {what}",
        help="name them in Dask's configuration, `distributed.comm.tls.ca-file`, `.client.cert` and `.client.key`, or "
        "in the environment, `DASK_DISTRIBUTED__COMM__TLS__CA_FILE`, `..__CLIENT__CERT` and `..__CLIENT__KEY`",
    )
