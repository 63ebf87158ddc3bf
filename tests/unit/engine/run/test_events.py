from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
import structlog

from probe_flow.engine.run.events import Clock, open_events
from probe_flow.errors import UsageError

CLOCK = Clock(now=lambda: datetime(2026, 2, 3, tzinfo=timezone.utc), monotonic=lambda: 0.0)


def test_each_event_is_one_json_line_with_run_id_and_time(tmp_path):
    path = tmp_path / "events.jsonl"
    with open_events(path, run_id="demo-1", clock=CLOCK) as log:
        log.emit("stage.started", stage="target", path=Path("a/b"))
        log.emit("stage.ended", text="two\nlines é")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "event": "stage.started",
        "run_id": "demo-1",
        "stage": "target",
        "path": "a/b",
        "level": "info",
        "timestamp": "2026-02-03T00:00:00.000+00:00",
    }
    assert lines[1]["text"] == "two\nlines é"


def test_events_are_on_disk_before_the_run_ends(tmp_path):
    path = tmp_path / "events.jsonl"
    with open_events(path, run_id="demo-1", clock=CLOCK) as log:
        log.emit("run.started")
        assert json.loads(path.read_text())["event"] == "run.started"


def test_events_of_an_earlier_run_are_replaced(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("old\n")
    with open_events(path, run_id="demo-1", clock=CLOCK) as log:
        log.emit("run.started")
    assert "old" not in path.read_text()


def test_the_global_structlog_configuration_is_not_touched(tmp_path):
    before = structlog.is_configured()
    with open_events(tmp_path / "events.jsonl", run_id="demo-1", clock=CLOCK) as log:
        log.emit("run.started")
    assert structlog.is_configured() is before is False


def test_a_link_in_its_place_is_replaced_and_a_folder_refused(tmp_path):
    (tmp_path / "other").write_text("of somebody else")
    (tmp_path / "events.jsonl").symlink_to("other")
    with open_events(tmp_path / "events.jsonl", run_id="demo-1", clock=CLOCK) as log:
        log.emit("stage.started")
    assert (tmp_path / "other").read_text() == "of somebody else"
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="PF6011"), open_events(tmp_path / "folder", run_id="demo-1", clock=CLOCK):
        pass
