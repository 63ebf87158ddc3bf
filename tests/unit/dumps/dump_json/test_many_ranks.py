"""Ranks of statistics are packed while they are read; what is packed is what is read otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.graph_dumps import write_graphs
from probe_flow.dumps.dump_json import reader
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.records import Catalog, TensorKind

RANKS = 4


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Write the dumps of some ranks and return the folder of their steps."""
    return write_graphs(tmp_path, blocks=1, ranks=RANKS).target.parents[2]


def read_both(dump: Path, monkeypatch: pytest.MonkeyPatch, *, many: int) -> tuple[Catalog, Catalog]:
    """Return a dump as it is read, and where that many tensors are many."""
    plain = read_dump_json(dump, side="target")
    monkeypatch.setattr(reader, "MANY", many)
    return plain, read_dump_json(dump, side="target")


@pytest.mark.parametrize("many", [1, 150, 300])
def test_packed_ranks_are_those_that_are_read_otherwise(many, dump, monkeypatch):
    plain, packed = read_both(dump, monkeypatch, many=many)
    assert not plain.ran
    assert [each.execution.rank for each in packed.ran] == [*range(RANKS)]
    assert packed.in_full() == plain
    assert len({id(each.program) for each in packed.ran}) == len({id(each.held) for each in packed.ran}) == 1


def test_few_tensors_and_those_of_one_rank_are_not_packed(dump, monkeypatch):
    plain, found = read_both(dump, monkeypatch, many=10_000)
    assert found == plain
    assert not found.ran
    monkeypatch.setattr(reader, "MANY", 1)
    assert not read_dump_json(dump / "step0" / "rank1", side="target").ran


@pytest.mark.parametrize("rank", range(RANKS))
def test_ranks_with_elements_are_not_packed(rank, dump, monkeypatch):
    import numpy as np

    file = dump / "step0" / f"rank{rank}" / "dump.json"
    content = json.loads(file.read_text())
    value = next(iter(content["data"].values()))["output"][0]
    np.save(file.with_name("x.npy"), np.zeros(value["shape"], np.float32))
    folder = file.with_name("dump_tensor_data")
    folder.mkdir()
    file.with_name("x.npy").rename(folder / "x.npy")
    value["data_name"] = "x.npy"
    file.write_text(json.dumps(content))
    plain, found = read_both(dump, monkeypatch, many=1)
    assert any(tensor.kind is TensorKind.TENSOR for tensor in plain.tensors)
    assert not found.ran
    assert found == plain
