"""Versions of this process and of the workers of a cluster, and what differences between them mean."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np

from probe_flow.errors import Diagnostic, Severity
from probe_flow.metrics.kernel.record_text import LAYOUT
from probe_flow.version import __version__

VERSIONS: Mapping[str, str | int] = {
    "probe_flow": __version__,
    "numpy": np.__version__,
    "python": ".".join(platform.python_version_tuple()[:2]),
    "layout": LAYOUT,
}
"""Of this process; ``layout`` is that of the records which the kernel makes. A plain dict: it travels."""

VERSIONS_NAME = f"{__name__}:VERSIONS"
"""How a worker finds its own `VERSIONS`."""

_MATTERS = MappingProxyType(
    {
        "probe_flow": "batches may be measured in different ways",
        "numpy": "sums may differ in their last bits",
        "python": "batches may not arrive as they were sent",
    }
)


def version_problems(by_worker: Mapping[str, Mapping[str, object] | str]) -> Iterator[Diagnostic]:
    """Yield what is wrong with the versions of workers.

    Args:
        by_worker: per address the worker's `VERSIONS`, or in words why there are none.

    Yields:
        PF6102 per worker without a fitting probe_flow, PF6104 per worker whose records this process cannot use,
        PF6103 (a warning) per version that differs, with the workers that have it.
    """
    for worker, found in by_worker.items():
        if isinstance(found, str):
            yield Diagnostic(
                "PF6102",
                f"worker `{worker}` cannot load probe_flow: {found}",
                help=f"install probe_flow {__version__} there, in the environment of the worker",
            )
        elif found.get("layout") != LAYOUT:
            yield other_layout(f"worker `{worker}`", found.get("layout"))
    for name, consequence in _MATTERS.items():
        own = VERSIONS[name]
        others: dict[object, list[str]] = {}
        for worker, found in by_worker.items():
            if not isinstance(found, str) and found.get(name) != own:
                others.setdefault(found.get(name), []).append(worker)
        for version, workers in others.items():
            yield Diagnostic(
                "PF6103",
                f"{name} is {own} here and {version} on {_named(workers)}: {consequence}",
                Severity.WARNING,
                help=f"install {name} {own} on the workers",
            )


def other_layout(worker: str, found: object) -> Diagnostic:
    """Return PF6104: a worker makes records that this process cannot use."""
    return Diagnostic(
        "PF6104",
        f"{worker} makes records of layout {found}, this process needs layout {LAYOUT}",
        help=f"install probe_flow {__version__} there",
    )


def _named(workers: list[str]) -> str:
    others = len(workers) - 1
    more = f" and {others} more worker{'s' if others > 1 else ''}" if others else ""
    return f"`{workers[0]}`{more}"
