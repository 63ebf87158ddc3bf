"""What `reduce` shows while it works: one line that is drawn anew on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from probe_flow.api.progress import PLAIN_PERIOD_S, UPDATES_PER_S, can_redraw
from probe_flow.cli.terminal.console import show
from probe_flow.errors import Diagnostic
from probe_flow.transform.reduce.reduce_summary import Summary

Tell = Callable[[Summary, Diagnostic | None], None]


@contextmanager
def display_on(*, quiet: bool) -> Iterator[Tell]:
    """Yield what hears of the totals, and of each problem when it is new."""
    if quiet:
        yield lambda _summary, _problem: None
    elif can_redraw(os.environ, is_terminal=sys.stderr.isatty()):
        with _redrawn() as tell:
            yield tell
    else:
        yield plain_lines(sys.stderr)


def plain_lines(stream: TextIO, *, monotonic: Callable[[], float] = time.monotonic) -> Tell:
    """Return what writes problems at once and totals, where they are others than before, at most every 10 s.

    Args:
        stream: where to write the totals.
        monotonic: seconds from any origin.
    """
    last_s, shown = monotonic(), Summary().line()

    def tell(summary: Summary, problem: Diagnostic | None) -> None:
        nonlocal last_s, shown
        if problem is not None:
            show([problem])
        if monotonic() - last_s >= PLAIN_PERIOD_S and (line := summary.line()) != shown:
            last_s, shown = monotonic(), line
            stream.write(line + "\n")
            stream.flush()

    return tell


@contextmanager
def _redrawn() -> Iterator[Tell]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    last_s, shown = 0.0, Summary().line()

    def tell(summary: Summary, problem: Diagnostic | None) -> None:
        nonlocal last_s, shown
        if problem is not None:
            live.console.print(f"{problem.code}: {problem.message}", markup=False, highlight=False)
        if time.monotonic() - last_s >= 1 / UPDATES_PER_S and (line := summary.line()) != shown:
            last_s, shown = time.monotonic(), line
            live.update(Text(line), refresh=True)

    # Drawn when something happens only: a watch that waits costs no time.
    with Live(Text("waiting for files"), console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield tell
