"""Progress on stderr: live bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from probe_flow.engine.run.outcome import StageOutcome, StageStatus
from probe_flow.engine.run.tasks import Progress, Silent
from probe_flow.jobs import BYTES

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

PLAIN_PERIOD_S = 10.0
"""Least seconds between two plain lines about one stage's advance."""

SHORT_S = 2.0
"""A stage that ends well within so many seconds needs no plain lines where the summary has to fit a screen."""

UPDATES_PER_S = 5
"""How often live bars are drawn; more makes a terminal flicker and costs time."""

_S_PER_HOUR = 3600
_SHOWN_IN_MINUTES_S = 120


def can_redraw(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether a line can be drawn anew: on a terminal that is not dumb, with or without colours."""
    return is_terminal and environment.get("TERM") != "dumb"


@contextmanager
def progress_on(stream: TextIO, *, quiet: bool, is_live: bool, keeps_done: bool = True) -> Iterator[Progress]:
    """Yield the progress display that fits the stream.

    Args:
        stream: where to write.
        quiet: show nothing.
        is_live: the stream is a terminal that can redraw lines; the bars are gone when the block ends.
        keeps_done: leave a line of each stage that ended well (plain lines: of long ones always); of those that did not
            there always is one.
    """
    if quiet:
        yield Silent()
    elif is_live:
        with _bars(stream, keeps_done=keeps_done) as bars:
            yield bars
    else:
        yield PlainProgress(stream, short_s=0.0 if keeps_done else SHORT_S)


class Waiting(Protocol):
    """What calls a function later, such as `threading.Timer`."""

    daemon: bool

    def start(self) -> None:
        """Begin to wait."""

    def cancel(self) -> None:
        """Call nothing any more."""


class PlainProgress:
    """Writes a line when a stage starts and ends, and now and then in between.

    Args:
        stream: where to write.
        short_s: the first line waits so many seconds; a stage that ends well before leaves none.
        monotonic: seconds from any origin.
        later: makes what calls a function after so many seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        short_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], Waiting] = threading.Timer,
    ) -> None:
        self._stream = stream
        self._short_s = short_s
        self._monotonic = monotonic
        self._later = later
        self._began_s = self._last_s = 0.0
        self._first_line = ""
        self._waiting: Waiting | None = None
        self._lock = threading.Lock()

    def stage_started(self, name: str, uses: str) -> None:
        """Say that a stage begins, at once or when it has taken a while."""
        self._began_s = self._last_s = self._monotonic()
        self._first_line = f"{name}: {uses} ..."
        if not self._short_s:
            self._begin()
            return
        self._waiting = self._later(self._short_s, self._begin)
        self._waiting.daemon = True
        self._waiting.start()

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        """Say how far a stage is, at most every 10 s."""
        now = self._monotonic()
        if now - self._last_s >= PLAIN_PERIOD_S:
            self._last_s = now
            self._begin()
            self._write(f"{name}: {amount(done, total, now - self._began_s, unit)}")

    def stage_ended(self, outcome: StageOutcome) -> None:
        """Say how a stage ended."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        with self._lock:
            is_short, self._first_line = bool(self._first_line), ""
        if not is_short or outcome.status is not StageStatus.DONE:
            self._write(ending(outcome))

    def _begin(self) -> None:
        """Write the first line of the stage that runs, if it is not there yet."""
        with self._lock:
            line, self._first_line = self._first_line, ""
        if line:
            self._write(line)

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


def amount(done: int, total: int, elapsed_s: float, unit: str = BYTES) -> str:
    """Return ``3 of 5 MB, 0.2 MB/s, about 12 s left``, at the mean speed so far."""
    text = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if unit == BYTES else f"{done:,} of {total:,} {unit}"
    if not 0 < done < total or elapsed_s <= 0:
        return text
    text = f"{text}, {_rate(done / elapsed_s, unit)}"
    seconds = elapsed_s * (total - done) / done
    if seconds >= _S_PER_HOUR:
        return f"{text}, about {seconds / _S_PER_HOUR:.1f} h left"
    left = f"{seconds / 60:.0f} min" if seconds >= _SHOWN_IN_MINUTES_S else f"{seconds:.0f} s"
    return f"{text}, about {left} left"


def _rate(each_s: float, unit: str) -> str:
    """Return ``2.5 MB/s``, or ``1,200 calls/s``."""
    speed, what = (each_s / 1e6, "MB") if unit == BYTES else (each_s, unit)
    return f"{speed:,.0f} {what}/s" if speed >= 10 else f"{speed:.2g} {what}/s"


def ending(outcome: StageOutcome) -> str:
    """Return how a stage ended, in one line; what made it fail is shown as a diagnostic when the run has ended."""
    if outcome.status is StageStatus.DONE:
        return f"{outcome.name}: done in {outcome.wall_s:.2f} s"
    status = outcome.status.value.replace("_", " ")
    why = outcome.diagnostics[0].code if outcome.diagnostics else outcome.reason
    return f"{outcome.name}: {status}: {why}"


@contextmanager
def _bars(stream: TextIO, *, keeps_done: bool) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    display = RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[amount]}", markup=False),
        console=Console(file=stream),
        refresh_per_second=UPDATES_PER_S,
        transient=True,
    )

    with display:
        yield _Bars(display, keeps_done=keeps_done)


class _Bars:
    """One bar for the stage that runs; finished stages become lines above it."""

    def __init__(self, display: RichProgress, *, keeps_done: bool) -> None:
        self._display = display
        self._keeps_done = keeps_done
        self._tasks: dict[str, TaskID] = {}
        self._began_s: dict[str, float] = {}

    def stage_started(self, name: str, uses: str) -> None:
        self._tasks[name] = self._display.add_task(f"{name} ({uses})", total=None, amount="")
        self._began_s[name] = time.monotonic()

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        text = amount(done, total, time.monotonic() - self._began_s[name], unit)
        self._display.update(self._tasks[name], completed=done, total=total, amount=text)

    def stage_ended(self, outcome: StageOutcome) -> None:
        if outcome.name in self._tasks:
            self._display.remove_task(self._tasks.pop(outcome.name))
        if outcome.status is StageStatus.DONE and not self._keeps_done:
            return
        self._display.console.print(ending(outcome), markup=False, highlight=False)
