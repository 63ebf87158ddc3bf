"""Many small jobs as batches for workers: how they are filled, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from probe_flow.errors import Diagnostic

Batch = TypeVar("Batch")
Result = TypeVar("Result")

BYTES = "bytes"
"""The usual unit of the sizes of jobs; others are named as people read them, such as ``calls``."""


class TaskMap(Protocol):
    """How a stage runs many independent batches; the engine supplies it over a scheduler.

    ``function`` must be importable (a module-level function); results come back as ``(index, result)`` in any order.
    A batch may end its worker process each time that it is tried: ``lost`` makes its result from the batch and the
    reason (PF6106); without it, the stage fails. ``serial_bytes`` of the sizes are worked on under the interpreter
    lock, as numpy's small steps are, so that threads wait for each other; None = all of them.
    """

    def __call__(
        self,
        function: Callable[[Batch], Result],
        batches: Sequence[Batch],
        *,
        sizes: Sequence[int],
        lost: Callable[[Batch, Diagnostic], Result] | None = None,
        serial_bytes: int | None = None,
    ) -> Iterator[tuple[int, Result]]: ...


def in_batches(
    sizes: Iterable[Sequence[int]], *, most_bytes: int, most_jobs: int, most_group_bytes: int = 0
) -> Iterator[slice]:
    """Yield which jobs make a batch, one behind the other; none is empty.

    Args:
        sizes: bytes of each job, in groups that stay in one batch where they fit into one.
        most_bytes: of a batch; a larger job has one of its own.
        most_jobs: of a batch.
        most_group_bytes: up to so many bytes a group stays in one batch, which is then of that group alone where it is
            larger than `most_bytes`.
    """
    start = end = filled = 0
    for group in sizes:
        whole = sum(group)
        begins = filled + whole > most_bytes
        most = max(most_bytes, whole) if whole <= most_group_bytes else most_bytes
        for size in group:
            if end > start and (begins or filled + size > most or end - start >= most_jobs):
                yield slice(start, end)
                start, filled = end, 0
            begins = False
            end += 1
            filled += size
    if end > start:
        yield slice(start, end)
