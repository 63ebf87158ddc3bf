"""The `sync` scheduler: one batch after another in the calling thread, without Dask."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from probe_flow.engine.schedulers.base import Batch, BatchError, Result, largest_first


class SyncScheduler:
    """Runs each batch when its result is asked for."""

    name = "sync"
    workers = 1
    warnings = ()

    def run(
        self, function: Callable[[Batch], Result], batches: Sequence[Batch], sizes: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """Yield ``(index, result)``, the largest batch first; only one batch is in memory at a time."""
        for index in largest_first(sizes):
            try:
                result = function(batches[index])
            except Exception as exc:
                raise BatchError(index) from exc
            yield index, result
