"""What has no counterpart: by reason, what counts against coverage first."""

from __future__ import annotations

from pathlib import Path

from stored_runs import row, write_run

from probe_flow.record.run_folder import read_run
from probe_flow.runs.queries.answers import unmatched_lines
from probe_flow.runs.queries.rows import unmatched

ALONE = {"verdict": "unmatched_target", "role": "unknown", "golden": None, "metrics": {}}


def test_what_is_missing_is_told_first(tmp_path: Path) -> None:
    rows = [
        row(0, "Fine"),
        *(row(number, f"Part_{number}", reason="a parameter", **ALONE) for number in (1, 2)),
        row(3, "Lost", reason="nobody has `Lost`", missing=True, **ALONE),
    ]
    answer = unmatched(read_run(write_run(tmp_path / "run", rows, counts={})), limit=5)
    assert [(group.is_missing, group.count) for group in answer.groups] == [(True, 1), (False, 2)]
    assert [group["missing"] for group in answer.data()["groups"]] == [True, False]
    lines = list(unmatched_lines(answer))
    heads = [line for line in lines if " x " in line]
    assert heads == ["1 x target only, missing: nobody has `...`", "2 x target only, unmatched target: a parameter"]
