"""What a stage gets from the engine (a way to run batches, events, settings, what was measured before), and scripts.

The rooms below the stages use the same services, so that they need neither YAML nor an engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from probe_flow.errors import Diagnostic
from probe_flow.files.small_files import SmallFiles
from probe_flow.files.yaml.places import Place
from probe_flow.jobs import TaskMap
from probe_flow.record.types.run import RunRecord

if TYPE_CHECKING:
    from probe_flow.record.run_json import Summary
    from probe_flow.records import Comparison

Result = TypeVar("Result")
Found = TypeVar("Found", covariant=True)


class Emit(Protocol):
    """Send one structured event: a constant name with fields."""

    def __call__(self, event: str, **fields: Any) -> None: ...


class ResultCache(Protocol):
    """Where a stage finds what it measured before, and leaves what it measures now; the engine supplies it."""

    @property
    def key(self) -> str:
        """What identifies an input file: ``stat`` or ``content``."""

    def find(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the kept texts by key."""

    def add(self, texts: Mapping[str, tuple[str, str]]) -> None:
        """Keep texts: key -> (text, label). Never raises for a failing disk: that costs the cache, not the result."""


class NoCache:
    """Keeps nothing."""

    key = "stat"

    def find(self, keys: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """Return nothing."""
        return {}

    def add(self, texts: Mapping[str, tuple[str, str]]) -> None:
        """Forget."""


class Isolate(Protocol):
    """Give a way to run batches that may end their process: each in a worker process, whatever the scheduler is.

    Args:
        workers: processes at the same time.
        seconds: that a batch may take before its process and what that started are ended; None = no limit. One that
            takes longer is lost, while one that ends its process is tried once more.
        unit: what the sizes of its batches count, for people.
    """

    def __call__(self, workers: int, seconds: int | None, unit: str) -> TaskMap: ...


def no_processes(workers: int, seconds: int | None, unit: str) -> TaskMap:  # noqa: ARG001
    """Give none: the `Isolate` of contexts without worker processes."""
    raise RuntimeError("whoever made this context has no worker processes to give")


class Begun(Protocol[Found]):
    """Work that is done, or that a fork of this process does meanwhile."""

    @property
    def is_done(self) -> bool:
        """Whether its result is known."""
        ...

    def result(self) -> Found:
        """Wait for its result, or raise what the work raises."""
        ...

    def stop(self) -> None:
        """End it if it is not done."""
        ...


class Beside(Protocol):
    """Begin work whose result is not needed at once: in a fork of this process where that pays, else do it now.

    Args:
        work: what is done; doing it twice gives the same. It tells nobody anything and its result can be pickled.
        rows: what it takes, in rows of a comparison.
        folders: where it writes.
    """

    def __call__(self, work: Callable[[], Result], *, rows: int, folders: Iterable[Path] = ()) -> Begun[Result]: ...


class Done(Struct, Generic[Result], frozen=True):
    """The result of work that is done."""

    found: Result
    is_done: bool = True

    def result(self) -> Result:
        """Return it."""
        return self.found

    def stop(self) -> None:
        """Do nothing."""


def at_once(work: Callable[[], Result], *, rows: int, folders: Iterable[Path] = ()) -> Begun[Result]:  # noqa: ARG001
    """Do it now: the `Beside` of contexts without processes."""
    return Done(work())


def summarized(comparison: Comparison) -> Summary:
    """Return what `run.json` would say of a comparison."""
    from probe_flow.record.run_json import comparison_summary

    return comparison_summary(comparison)


class Settings(Struct, frozen=True):
    """Run-wide settings of the workflow file that stages need.

    Args:
        io: ``auto``, ``mmap`` or ``read``.
        metrics_backend: ``auto``, ``numpy`` or ``numba``.
        batch_bytes: pair bytes per batch.
        tensors: folder of converted tensors; None = none are kept.
        keeps_all_tensors: whether small converted tensors are kept as well.
        is_resumed: whether the run continues one that did not end.
        memory_bytes: memory that the run may take; None = that of the machine.
    """

    io: str = "auto"
    metrics_backend: str = "auto"
    batch_bytes: int = 128 * 2**20
    tensors: Path | None = None
    keeps_all_tensors: bool = False
    is_resumed: bool = False
    memory_bytes: int | None = None


class Context(Struct, frozen=True):
    """What the engine gives a running stage.

    Args:
        stage: its name in the workflow.
        output: the run's folder; only report stages write, and only there or where their options say.
        map: runs batches (`TaskMap`).
        emit: sends events (`Emit`).
        report: records diagnostics (warnings) that belong to the run.
        settings: run-wide settings, see `Settings`.
        facts: the record of the run so far: workflow, params, versions, timings, problems.
        cache: what was measured before (`ResultCache`).
        small_files: small files of the dumps that were read before, with their contents.
        announce: is told of every result file before it is begun.
        compile_later: called where compiled code would serve this run, and is not there yet.
        place: where the stage's options were written, for problems that show only while it runs; None = nowhere.
        isolate: gives a map whose batches may end their process (`Isolate`).
        beside: begins work that can be done while the stage does other work (`Beside`).
        summary: returns what `run.json` says of a comparison that the stage was given.
        consumed: the names of the stages whose results each option gets, in the order of these.
    """

    stage: str
    output: Path
    map: TaskMap
    emit: Emit
    report: Callable[[Iterable[Diagnostic]], None]
    settings: Settings
    facts: RunRecord
    cache: ResultCache = field(default_factory=NoCache)
    small_files: SmallFiles = field(default_factory=SmallFiles)
    announce: Callable[[Path], object] = lambda _path: None
    compile_later: Callable[[], object] = lambda: None
    place: Place | None = None
    isolate: Isolate = no_processes
    beside: Beside = at_once
    summary: Callable[[Comparison], Summary] = summarized
    consumed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def file_suffixes(self, option: str, count: int) -> list[str]:
        """Return what follows the names of the files about each of the results that an option gets.

        That is nothing for a single one, ``_run=a`` for a variant of a stage with a matrix, else a number.
        """
        if count < 2:
            return [""] * count
        names = self.consumed.get(option, ())
        variants = [_VARIANT.sub("", name).rstrip("]") for name in names]
        found = ["_" + variant.replace("=#", "").replace(",", "_") for variant in variants]
        is_told = len(names) == count == len({*found}) and all("[" in name for name in names)
        return found if is_told else [f"_{number}" for number in range(1, count + 1)]


_VARIANT = re.compile(r"^[^\[]*\[")
"""What stands before the values in the name of a variant, ``stage[run=a]``."""


class Scripts(Struct, frozen=True):
    """Scripts that a stage wrote.

    Args:
        files: they, what lies beside them, and what they found.
        found: what each found, as fields of the run's record; none of those that were not tried.
    """

    files: Sequence[Path]
    found: Sequence[Mapping[str, Any]] = ()
