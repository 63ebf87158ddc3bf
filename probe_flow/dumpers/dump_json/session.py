"""A dump that is being made around the steps of a program, whatever the framework."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.recorder import Recorder
from probe_flow.errors import Diagnostic, IncompleteError, UsageError

_open = threading.Lock()


class Taps(Protocol):
    """Hooks in a framework or a model."""

    def install(self) -> None:
        """Put them there."""
        ...

    def remove(self) -> None:
        """Put everything back as it was."""
        ...


class ProgramDump(ABC):
    """What runs in its block is recorded; `step` ends a step.

    Args:
        folder: of the dump.
        recorder: collects the entries.
    """

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        self.folder = folder.absolute()
        """The folder of the dump."""
        self._recorder = recorder
        self._taps: list[Taps] = []

    @abstractmethod
    def _make_taps(self, options: DumpOptions) -> Iterator[Taps]:
        """Yield what tells the recorder of the program."""

    def _step_ended(self) -> None:  # noqa: B027 (a framework may remember nothing)
        """Forget what belongs to the step before."""

    @property
    def entries(self) -> int:
        """Entries that were recorded so far, of all steps."""
        return self._recorder.entries

    def __enter__(self) -> Any:
        if not _open.acquire(blocking=False):
            raise _another()
        try:
            for taps in self._make_taps(self._recorder.options):
                self._taps.append(taps)
                taps.install()
            self._recorder.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._recorder.stop(is_complete=error is None)
        except IncompleteError:
            if error is None:
                raise
        finally:
            self._remove()

    def step(self) -> None:
        """End a step: what comes next is written as the next one.

        Raises:
            IncompleteError: PF6326 when the step cannot be written.
        """
        self._recorder.end_step()
        self._step_ended()

    def stop(self) -> None:
        """Record nothing until `start`: what an optimizer computes, say. The step goes on."""
        self._recorder.pause()

    def start(self) -> None:
        """Record again after `stop`."""
        self._recorder.start()

    def _remove(self) -> None:
        while self._taps:
            self._taps.pop().remove()
        _open.release()


def no_model(found: object, wanted: str) -> UsageError:
    """Return PF6331 for a model that is none."""
    return UsageError(
        Diagnostic(
            "PF6331",
            f"`model` is of type `{type(found).__name__}`, expected a `{wanted}`",
            help="give the model, or a list of models; only level `L1` does without",
        )
    )


def _another() -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6331",
            "another dump is being made in this process",
            help="end it before the next one begins: its calls would be recorded twice",
        )
    )
