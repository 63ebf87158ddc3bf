from __future__ import annotations

import io

from probe_flow.cli.progress import PlainProgress, progress_on
from probe_flow.engine.outcome import StageOutcome, StageStatus


def test_plain_lines_about_one_stage_come_at_most_every_ten_seconds():
    stream, times = io.StringIO(), iter([0.0, 1.0, 9.9, 10.0, 15.0, 20.0])
    progress = PlainProgress(stream, monotonic=lambda: next(times))
    progress.stage_started("result", "compare")
    for done in (1, 2, 3, 4, 5):
        progress.stage_advanced("result", done * 10**6, 5 * 10**6)
    assert stream.getvalue().splitlines() == ["result: compare ...", "result: 3 of 5 MB", "result: 5 of 5 MB"]


def test_a_stage_that_does_not_end_well_says_why():
    stream = io.StringIO()
    PlainProgress(stream).stage_ended(StageOutcome("x", "report", StageStatus.SKIPPED, reason="it needs `y`"))
    assert stream.getvalue() == "x: skipped: it needs `y`\n"


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
