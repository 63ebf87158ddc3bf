"""Pairs and rows of many ranks are in tables: whatever is written of them is the same to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.graph_dumps import write_graphs
from benchmarks.same_files import differing
from probe_flow.cli.main import main
from probe_flow.dumps.dump_json import reader
from probe_flow.matching.shared import executions
from probe_flow.record.stored import kinds, writing
from probe_flow.record.stored.reading import read_comparison
from probe_flow.records import Comparison
from probe_flow.records.tables import blocks
from probe_flow.records.tables.blocks import PairTable
from probe_flow.records.tables.row_table import RowTable

RANKS = 12
"""Rank 10 comes after rank 2."""


@pytest.fixture
def sides(tmp_path: Path) -> list[str]:
    """Write the dumps of both sides, each of which has a call that the other lacks, and return their options."""
    pair = write_graphs(tmp_path / "dumps", blocks=2, ranks=RANKS)
    for side, rank, place in ((pair.target, 3, 7), (pair.golden, 3, 11), (pair.golden, 10, 5)):
        file = side.parents[1] / f"rank{rank}" / side.name
        dump = json.loads(file.read_text())
        del dump["data"][[*dump["data"]][place]]
        file.write_text(json.dumps(dump))
    return ["-tp", str(pair.target.parents[1]), "-gp", str(pair.golden.parents[1])]


@pytest.fixture
def in_tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes everything a table, of blocks of 16 records of which two are held."""

    def change() -> None:
        monkeypatch.setattr(executions, "MANY", 1)
        monkeypatch.setattr(reader, "MANY", 1)
        for name, value in {"_BITS": 4, "_WITHIN": 15, "BLOCK": 16, "HELD": 2}.items():
            monkeypatch.setattr(blocks, name, value)

    return change


@pytest.mark.parametrize("stretch", [64, 4096])
@pytest.mark.parametrize("command", ["compare", "graph_visualize"])
def test_files_are_the_same(command, stretch, sides, in_tables, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "STRETCH", stretch)
    written: list[Comparison] = []
    write = writing._write
    monkeypatch.setattr(
        writing, "_write", lambda said, record, file: (written.append(record), write(said, record, file))
    )
    codes = []
    for name, change in (("in_tuples", lambda: None), ("in_tables", in_tables)):
        change()
        monkeypatch.setenv("PROBE_FLOW_CACHE", str(tmp_path / f"{name}_cache"))
        codes.append(main([command, *sides, "-o", str(tmp_path / name)]))
    assert codes[0] == codes[1]
    plain, table = (each for each in written if isinstance(each, Comparison))
    assert (type(plain.pairs.pairs), type(plain.rows)) == (tuple, tuple)
    assert (type(table.pairs.pairs), type(table.rows)) == (PairTable, RowTable)
    assert not isinstance(table.rows.pairs, PairTable)  # what only the golden has comes later in order of execution
    assert not any(catalog.ran for catalog in plain.pairs.catalogs)
    assert [len(catalog.ran) for catalog in table.pairs.catalogs] == [RANKS, RANKS]
    found = differing(tmp_path / "in_tuples", tmp_path / "in_tables")
    assert [line.partition(": ")[0] for line in found] == [next_to(tmp_path / "in_tables", kinds.FILE)]

    for name, expected in (("in_tuples", plain), ("in_tables", table)):
        again = read_comparison(tmp_path / name / next_to(tmp_path / name, kinds.FILE))
        assert [*again.pairs.pairs] == [*expected.pairs.pairs] == [*plain.pairs.pairs]
        assert [*again.rows] == [*expected.rows] == [*plain.rows]
        for catalog, other in zip(again.pairs.catalogs, plain.pairs.catalogs, strict=True):
            assert dict(catalog.nodes.items()) == dict(other.nodes)
            assert [*catalog.tensors] == [*other.tensors]


def next_to(folder: Path, name: str) -> str:
    """Return where the only file of a name lies in a folder."""
    (found,) = folder.rglob(name)
    return str(found.relative_to(folder))
