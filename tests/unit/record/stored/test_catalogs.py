"""Catalogs that are kept between runs: written whole, and read only for the state that they were written for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from probe_flow.errors import IncompleteError
from probe_flow.record.stored.kept import catalog_of, problem_of_kept, read_catalog
from probe_flow.record.stored.kinds import header
from probe_flow.record.stored.writing import catalog_bytes, write_catalog
from probe_flow.records import Catalog, Node, SlotRole, shared_numbers
from probe_flow.records.frameworks import PYTORCH
from probe_flow.testing import builders


@pytest.fixture
def catalog() -> Catalog:
    return builders.catalog([builders.tensor("a"), builders.tensor("b")])


def test_a_catalog_comes_back_for_its_state_only(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "folder" / "c"
    write_catalog(catalog, path, state="as it is")
    assert read_catalog(path, state="as it is") == catalog
    assert read_catalog(path, state="changed") is None
    assert read_catalog(tmp_path / "none", state="as it is") is None
    assert [each.name for each in path.parent.iterdir()] == ["c"], "no temporary file is left"
    assert problem_of_kept(path) is None


def test_what_all_dumps_share_is_shared_again() -> None:
    numbers = shared_numbers(2000)
    tensors = [builders.tensor(f"n{number}", role=SlotRole.INPUT) for number in (0, 1)]
    nodes = {each.node: Node(each.node, "Add", order=numbers[1500]) for each in tensors}
    made = replace(builders.catalog(tensors), framework=PYTORCH, nodes=nodes)
    found = catalog_of(catalog_bytes(made))
    assert found == made
    assert found.framework is PYTORCH
    for one, other in zip(found.tensors, made.tensors, strict=True):
        assert one.type is other.type
        assert one.traits is other.traits
    assert {id(node.order) for node in found.nodes.values()} == {id(numbers[1500])}


def test_facts_of_one_tensor_stay_its_own() -> None:
    named = builders.tensor("a").changed(item="a's own")
    (found,) = catalog_of(catalog_bytes(builders.catalog([named]))).tensors
    assert found.item == "a's own"
    assert found.traits == named.traits


def test_one_of_other_records_is_none(tmp_path: Path, catalog: Catalog) -> None:
    path = tmp_path / "c"
    write_catalog(catalog, path, state="s")
    line, _, body = path.read_bytes().partition(b"\n")
    said = json.loads(line)
    assert said.pop("state") == "s"
    assert said == {**header(), "format": "probe_flow.catalog/3"}
    path.write_bytes(json.dumps({**said, "records": {}, "state": "s"}).encode() + b"\n" + body)
    assert read_catalog(path, state="s") is None


@pytest.mark.parametrize("cut", [1, 8, 40])
def test_damage_is_named(tmp_path: Path, catalog: Catalog, cut: int) -> None:
    path = tmp_path / "c"
    write_catalog(catalog, path, state="s")
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(IncompleteError, match="`c` cannot be read: it ends in the middle"):
        read_catalog(path, state="s")
    assert problem_of_kept(path).code == "PF7116"
    assert problem_of_kept(tmp_path / "none").code == "PF7116"


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "in the way").touch()
    with pytest.raises(OSError, match="directory"):
        write_catalog(catalog, tmp_path / "c", state="s")
    assert [each.name for each in tmp_path.iterdir()] == ["c"]
