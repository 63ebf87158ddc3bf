from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import pytest

from probe_flow.api.progress import PlainProgress, amount, progress_on
from probe_flow.engine.run.outcome import StageOutcome, StageStatus


def test_plain_lines_about_one_stage_come_at_most_every_ten_seconds():
    stream, times = io.StringIO(), iter([0.0, 1.0, 9.9, 10.0, 15.0, 20.0])
    progress = PlainProgress(stream, monotonic=lambda: next(times))
    progress.stage_started("result", "compare")
    for done in (1, 2, 3, 4, 5):
        progress.stage_advanced("result", done * 10**6, 5 * 10**6)
    assert stream.getvalue().splitlines() == [
        "result: compare ...",
        "result: 3 of 5 MB, 0.3 MB/s, about 7 s left",
        "result: 5 of 5 MB",
    ]


def test_a_stage_that_does_not_end_well_says_why():
    stream = io.StringIO()
    PlainProgress(stream).stage_ended(StageOutcome("x", "report", StageStatus.SKIPPED, reason="it needs `y`"))
    assert stream.getvalue() == "x: skipped: it needs `y`\n"


class Later:
    """Calls a function when the test says that the time has come."""

    def __init__(self, seconds, call) -> None:
        self.seconds, self.call, self.daemon, self.is_on = seconds, call, False, False
        Later.last = self

    def start(self) -> None:
        self.is_on = True

    def cancel(self) -> None:
        self.is_on = False


@pytest.mark.parametrize(
    ("is_long", "status", "lines"),
    [
        (False, StageStatus.DONE, []),
        (True, StageStatus.DONE, ["result: compare ...", "result: done in 3.00 s"]),
        (False, StageStatus.FAILED, ["result: failed: no reason"]),
    ],
)
def test_plain_lines_of_a_short_stage_are_left_out_unless_it_fails(is_long, status, lines):
    stream = io.StringIO()
    progress = PlainProgress(stream, short_s=2.0, later=Later)
    progress.stage_started("result", "compare")
    assert (stream.getvalue(), Later.last.seconds, Later.last.is_on) == ("", 2.0, True)
    if is_long:
        Later.last.call()
    progress.stage_ended(StageOutcome("result", "compare", status, wall_s=3.0, reason="no reason"))
    assert stream.getvalue().splitlines() == lines
    assert not Later.last.is_on


def test_how_far_a_long_stage_is_comes_behind_its_first_line():
    stream, times = io.StringIO(), iter([0.0, 20.0])
    progress = PlainProgress(stream, short_s=2.0, later=Later, monotonic=lambda: next(times))
    progress.stage_started("result", "compare")
    progress.stage_advanced("result", 1 * 10**6, 5 * 10**6)
    assert stream.getvalue().splitlines()[0] == "result: compare ..."
    Later.last.call()
    assert len(stream.getvalue().splitlines()) == 2


def test_quiet_progress_writes_nothing():
    stream = io.StringIO()
    with progress_on(stream, quiet=True, is_live=True) as progress:
        progress.stage_started("result", "compare")
        progress.stage_advanced("result", 1, 2)
        progress.stage_ended(StageOutcome("result", "compare", StageStatus.DONE))
    assert stream.getvalue() == ""


def test_bars_leave_one_line_per_stage_with_names_taken_literally():
    stream = io.StringIO()
    with progress_on(stream, quiet=False, is_live=True) as progress:
        progress.stage_started("result[m=a]", "compare")
        progress.stage_advanced("result[m=a]", 1, 2)
        progress.stage_ended(StageOutcome("result[m=a]", "compare", StageStatus.DONE, wall_s=1.5))
        progress.stage_ended(StageOutcome("table", "report", StageStatus.SKIPPED, reason="[red]"))
    assert "result[m=a]: done in 1.50 s" in stream.getvalue()
    assert "table: skipped: [red]" in stream.getvalue()


def test_bars_leave_only_what_did_not_end_well_where_the_summary_has_to_fit_a_screen():
    stream = io.StringIO()
    with progress_on(stream, quiet=False, is_live=True, keeps_done=False) as progress:
        progress.stage_started("result", "compare")
        progress.stage_ended(StageOutcome("result", "compare", StageStatus.DONE, wall_s=1.5))
        progress.stage_ended(StageOutcome("table", "report", StageStatus.SKIPPED, reason="it needs `y`"))
    assert "done in" not in stream.getvalue()
    assert "table: skipped: it needs `y`" in stream.getvalue()


@pytest.mark.parametrize(
    ("done_mb", "elapsed_s", "shown"),
    [
        (0, 5.0, "0 of 1000 MB"),
        (10, 1.0, "10 of 1000 MB, 10 MB/s, about 99 s left"),
        (10, 3.0, "10 of 1000 MB, 3.3 MB/s, about 5 min left"),
        (10, 60.0, "10 of 1000 MB, 0.17 MB/s, about 1.6 h left"),
        (1000, 60.0, "1000 of 1000 MB"),
    ],
)
def test_the_time_left_follows_from_the_bytes(done_mb, elapsed_s, shown):
    assert amount(done_mb * 10**6, 1000 * 10**6, elapsed_s) == shown


def test_what_is_counted_has_its_own_rate():
    assert amount(1500, 3000, 1.0, "calls") == "1,500 of 3,000 calls, 1,500 calls/s, about 1 s left"
    assert amount(1, 10, 2.0, "files") == "1 of 10 files, 0.5 files/s, about 18 s left"


LIVE = """
import sys, time
from probe_flow.api.progress import progress_on
from probe_flow.engine.run.outcome import StageOutcome, StageStatus
with progress_on(sys.stderr, quiet=False, is_live=True) as progress:
    progress.stage_started("result", "compare")
    for step in range(400):
        progress.stage_advanced("result", step * 10**6, 400 * 10**6)
        time.sleep(0.0025)
    progress.stage_ended(StageOutcome("result", "compare", StageStatus.DONE, wall_s=1.0))
"""


def test_a_terminal_gets_one_line_drawn_at_most_five_times_a_second():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", LIVE], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(slave)
        shown = read_all(master)
        assert process.wait(timeout=300) == 0
    took_s = time.monotonic() - began
    os.close(master)
    drawn = shown.count("\x1b[2K")
    assert 3 <= drawn <= 5 * took_s + 4  # the first, the last, the end of the stage and its removal come on top
    assert "\x1b[1A" not in shown
    assert "result: done in 1.00 s" in shown
    assert " MB/s, about " in shown


def read_all(descriptor: int) -> str:
    """Read what a terminal got until the program behind it ends."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # Linux reports a closed terminal as an error
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()
