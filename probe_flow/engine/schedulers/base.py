"""How batches run: the interface of the schedulers, and what a batch becomes that fails or is lost."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from probe_flow.errors import Diagnostic

Batch = TypeVar("Batch")
Result = TypeVar("Result")

WINDOW_PER_WORKER = 4
"""Batches in flight per worker: enough that no worker waits for the consumer, few enough to bound memory."""

RETRIES = 1
"""How often a batch is tried again after its worker died: a second death is the batch's own doing."""


class BatchLost(Struct, frozen=True):
    """Stands in the place of a result when a batch ended its worker each time that it was tried.

    Args:
        reason: how the last worker ended, e.g. ``killed by SIGKILL``.
    """

    reason: str


class BatchError(Exception):
    """A batch raised; the cause is chained.

    Args:
        index: position of the batch in the sequence given to `Scheduler.run`.
    """

    def __init__(self, index: int) -> None:
        super().__init__(f"batch {index} failed")
        self.index = index


class Scheduler(Protocol):
    """Runs a function over batches and streams the results back.

    ``run`` yields ``(index, result)`` as batches finish, in any order; largest batches start first, so that the
    tail is short. At most ``WINDOW_PER_WORKER * workers`` batches are between start and delivery. Closing the
    iterator stops submission and waits for the batches that run. An exception in a batch arrives as
    `BatchError`. A worker process that dies costs its batch only, which arrives as `BatchLost`.
    """

    @property
    def name(self) -> str:
        """Name in workflow files."""
        ...

    @property
    def workers(self) -> int:
        """Batches that run at the same time."""
        ...

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is worth saying of it before it runs anything."""
        ...

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result | BatchLost], None, None]:
        """Run every batch; ``sizes`` are their bytes, for the order."""
        ...


def largest_first(sizes: Sequence[int]) -> list[int]:
    """Return the indices by size, the largest first; equal sizes keep their order.

    >>> largest_first([1, 5, 5, 9])
    [3, 1, 2, 0]
    """
    return sorted(range(len(sizes)), key=lambda index: -sizes[index])
