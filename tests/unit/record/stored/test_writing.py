"""Comparisons as files: what is read is what was written."""

from __future__ import annotations

from pathlib import Path

from report_builders import comparison, good_row

from probe_flow.errors import Diagnostic
from probe_flow.record.stored.kinds import STRETCH
from probe_flow.record.stored.reading import read_comparison
from probe_flow.record.stored.writing import write_comparison


def test_records_within_records_of_their_kind_keep_their_numbers(tmp_path: Path) -> None:
    """What rows were compared with is a row too, and often has the same aside as they."""
    rows = [good_row(number) for number in range(STRETCH + 3)]
    rows[1] = rows[1].with_aside(noise=(rows[0],))
    for number in range(2, len(rows)):
        rows[number] = rows[number].with_aside(failure=Diagnostic("PF5103", f"row {number}"))
    made = comparison(*rows)
    write_comparison(made, tmp_path / "file")
    assert read_comparison(tmp_path / "file").rows == made.rows
