"""Comparisons as files: what is read is what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from report_builders import comparison, good_row

from probe_flow.errors import Diagnostic
from probe_flow.files.filed_numbers import NumberFile
from probe_flow.record.stored import writing
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


def test_records_are_told_apart_wherever_in_memory_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses stand for records: 8 bytes apart, and a multiple of 32 GiB apart, where 32 bits of them are alike."""
    monkeypatch.setattr(writing, "id", lambda address: address, raising=False)
    region = 8 << 32
    addresses = [base + 8 * number for number in range(STRETCH) for base in (5 * region, 0, 7 * region)]
    written = writing._Written()
    for begin in range(0, len(addresses), STRETCH):
        part = addresses[begin : begin + STRETCH]
        assert written.numbers(part) == [-1] * len(part)
        written.add(part)
    assert written.numbers(addresses) == [*range(len(addresses))]
    assert all(type(number) is int for number in written.numbers(addresses[:2]))
    assert written.numbers([6 * region, 5 * region + 8 * STRETCH, 7 * region]) == [-1, -1, 2]


def test_texts_that_pairs_share_stand_once_and_are_shared_again(tmp_path: Path) -> None:
    rows = [good_row(number) for number in range(6)]
    groups = [f"group {number}" for number in range(3)]
    rows = [replace(row, pair=replace(row.pair, grouping=groups[n // 2])) for n, row in enumerate(rows)]
    made = comparison(*rows)
    write_comparison(made, tmp_path / "file")
    assert [(tmp_path / "file").read_bytes().count(group.encode()) for group in groups] == [1, 1, 1]
    found = read_comparison(tmp_path / "file").rows
    assert found == made.rows
    assert found[0].pair.group is found[1].pair.group


def test_figures_in_a_file_are_written_as_those_in_memory(tmp_path: Path) -> None:
    """Also where a table is more than a piece, and other tables stay in memory."""
    made = comparison(*map(good_row, range(9)))
    tables = [row.measurement.table for row in made.rows if row.measurement is not None]
    write_comparison(made, tmp_path / "memory")
    put = NumberFile().put
    for table in tables[::2]:
        table.put_away(put)
    write_comparison(made, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == (tmp_path / "memory").read_bytes()
    assert read_comparison(tmp_path / "file").rows == made.rows
