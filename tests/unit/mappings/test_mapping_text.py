"""Data mappings that are written: they read back as what was paired."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from name_builders import catalog, item_pairs, read, ref_of

from probe_flow.files.yaml.positions import parse_value
from probe_flow.mappings.mapping_file import data_mapping_text, read_flat_mapping, yaml_key
from probe_flow.matching.mapping.data import match_data_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Execution, NodeKey


def test_a_written_mapping_makes_the_same_pairs(tmp_path: Path) -> None:
    sides = read("pt_stat_bug"), read("pt_stat_base", "golden")
    pairs = match_name(*sides)
    file = tmp_path / "data_mapping.yaml"
    file.write_text(data_mapping_text(pairs), encoding="utf-8")

    again = match_data_mapping(*sides, entries=read_flat_mapping(file, what="data mapping"))
    assert item_pairs(again) == item_pairs(pairs)
    assert "Tensor.__mul__.1.forward.output.0: N/A\n" in file.read_text(encoding="utf-8")


def test_nothing_to_write_is_an_empty_mapping() -> None:
    pairs = match_name(catalog(["Torch.a.0.forward"]), catalog(["Torch.a.0.forward"]))

    assert data_mapping_text(pairs) == "{}\n"


def test_odd_names_are_quoted() -> None:
    key = NodeKey(Execution(step=0), "Torch.a")
    tensor = ref_of(key, item="a: {b}\n# c")
    side = catalog(["Torch.a.0.forward"], tensors=[tensor])

    text = data_mapping_text(match_name(side, side))
    assert text == '"a: {b}\\U0000000A# c": "a: {b}\\U0000000A# c"\n'


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_name_reads_back_as_itself(name: str) -> None:
    written, problems = parse_value(f"- {yaml_key(name)}\n", "f")

    assert not problems
    assert written is not None
    assert isinstance(written.value, list)
    assert str(written.value[0]) == name


@pytest.mark.parametrize("name", ["true", "null", "1e3", "0x1f", "- a", "N/A ", "<<", "a\tb"])
def test_names_that_yaml_reads_otherwise_are_quoted(name: str) -> None:
    assert yaml_key(name).startswith('"')
