"""Results of tasks that are kept between runs: those that earlier runs left, and those that this one leaves."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from probe_flow.files.small_files import SmallFiles
from probe_flow.measure.batches import Task
from probe_flow.measure.result_keys import Sources, key_of, label_of, task_text
from probe_flow.measure.sides import Reduced, reduced_of, reduced_text
from probe_flow.metrics.kernel.record_text import record_of, record_text
from probe_flow.metrics.sums.record import Record, SpanRecord
from probe_flow.work import ResultCache

Part = SpanRecord | Record | Reduced
"""What a task leaves."""

Place = tuple[int, int]
"""Pair number and first block: what names a task within a comparison."""


class SecondLook(Struct, frozen=True):
    """What the files of a batch look like once it was measured.

    Args:
        changed: pairs of which a file is another one now.
        texts: what the results of tasks depend on; nothing for those that are not kept.
    """

    changed: frozenset[int]
    texts: Mapping[Place, str]


class KeptResults:
    """The results of one comparison in the cache.

    What a result depends on is found again when it is kept: held meanwhile, it would take more memory than the
    measurement.

    Args:
        cache: where results are kept.
        asked: text of what is asked of the kernel.
        pairs: how many there are.
        small_files: files of which the content is held.
    """

    def __init__(self, cache: ResultCache, asked: str, *, pairs: int, small_files: SmallFiles) -> None:
        self._cache = cache
        self._asked = asked
        self._sources = Sources(cache.key, small_files)
        self._stamps = array("q", bytes(8 * pairs))
        self._unsettled: set[int] = set()
        """Pairs that are small, or with a file that was too young to be sure of; their results are not kept."""

    @property
    def sources(self) -> Sources:
        """The files of the tasks, as they were first seen."""
        return self._sources

    def find(self, tasks: Sequence[Task]) -> list[tuple[str, Part] | None]:
        """Look at the files of tasks and return what is kept of each: label of the backend, and the result."""
        keys = [self._key(task) for task in tasks]
        texts = self._cache.find([key for key in keys if key is not None])
        return [None if key is None or key not in texts else _understood(texts[key]) for key in keys]

    def look_again(self, tasks: Iterable[Task]) -> SecondLook:
        """Look at the files of tasks that were measured: what is kept was measured of the files that it names."""
        changed, texts = set(), {}
        sources = self._sources.seen_again()
        for task in tasks:
            if sources.stamp(task) != self._stamps[task.pair]:
                changed.add(task.pair)
            elif task.pair not in self._unsettled:
                text = task_text(task, self._asked, identify=sources.identify)
                if text is not None:
                    texts[task.pair, task.first_block] = text
        return SecondLook(frozenset(changed), texts)

    def keep(self, results: Iterable[tuple[Task, str, Part]], backend: str) -> None:
        """Keep results of tasks with what they depend on, measured by a backend."""
        self._cache.add(
            {key_of(text): (f"{backend}\n{_text(part)}", label_of(task, text)) for task, text, part in results}
        )

    def _key(self, task: Task) -> str | None:
        text = task_text(task, self._asked, identify=self._sources.identify)
        self._stamps[task.pair] = self._sources.stamp(task)
        if text is None:
            self._unsettled.add(task.pair)
            return None
        return key_of(text)


def _text(part: Part) -> str:
    return reduced_text(part) if isinstance(part, Reduced) else record_text(part)


def _understood(text: str) -> tuple[str, Part] | None:
    """Return what a kept text says; None where another version wrote it (the checksum of the store was right)."""
    backend, _, measured = text.partition("\n")
    reduced = reduced_of(measured) if measured.startswith('["reduced"') else None
    if reduced is not None:
        return backend, reduced
    try:
        return backend, record_of(measured)
    except ValueError:
        return None
