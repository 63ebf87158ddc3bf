"""Suggested layer mappings: what they say, what they cannot, and that `match.layer_mapping` reproduces the pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from structure_builders import HIDDEN, Program, layer, layers

from probe_flow.formats.dump_json import read_dump_json
from probe_flow.formats.mapping_file import read_layer_mapping
from probe_flow.matching.mapping_layers import match_layer_mapping
from probe_flow.matching.structure import match_structure
from probe_flow.matching.structure_layer_mapping import SuggestedEntry, Suggestion, suggest_layer_mapping
from probe_flow.matching.structure_layer_text import layer_mapping_text
from probe_flow.records import Pairs

DATA = Path(__file__).parents[2] / "data" / "dump_json"


def match(target: Path, golden: Path) -> Pairs:
    return match_structure(read_dump_json(target, side="target"), read_dump_json(golden, side="golden"))


def said(suggestion: Suggestion) -> dict[str, dict[str, str]]:
    return {
        owner: {".".join(entry.child): ".".join(entry.partner) for entry in entries}
        for owner, entries in suggestion.classes.items()
    }


def module_pairs(pairs: Pairs) -> dict[str, str]:
    """Target entry -> golden entry of modules and their gradients."""
    return {
        str(pairs.target.nodes[pair.target.node].attrs["entry"]): str(
            pairs.golden.nodes[pair.golden.node].attrs["entry"]
        )
        for pair in pairs.pairs
        if pair.target is not None
        and pair.golden is not None
        and pairs.target.nodes[pair.target.node].attrs["kind"] != "api"
    }


def remapped(pairs: Pairs, folder: Path) -> Pairs:
    """The pairs of `match.layer_mapping` under the file that the pairs suggest."""
    file = folder / "layer_mapping.yaml"
    file.write_text(layer_mapping_text(suggest_layer_mapping(pairs), target="t", golden="g"), encoding="utf-8")
    return match_layer_mapping(pairs.target, pairs.golden, entries=read_layer_mapping(file))


def test_the_mapping_of_renamed_modules_names_what_differs() -> None:
    suggestion = suggest_layer_mapping(match(DATA / "pt_stat_rename", DATA / "pt_stat_base"))
    assert said(suggestion) == {"Layer": {"ffn": "mlp"}}
    assert (suggestion.modules, suggestion.entries, suggestion.guesses) == (11, 1, 0)


def test_the_mapping_of_twins_names_modules_and_calls() -> None:
    suggestion = suggest_layer_mapping(match(DATA / "ms_tensor_base", DATA / "twin_tensor"))
    assert said(suggestion) == {
        "LayerNorm": {"LayerNorm": "layer_norm"},
        "MLP": {"dense1": "fc1", "act": "relu", "dense2": "fc2"},
        "ReLU": {"ReLU": "relu"},
    }
    assert not suggestion.conflicts
    assert not suggestion.unpaired


@pytest.mark.parametrize(("target", "golden"), [("pt_stat_rename", "pt_stat_base"), ("ms_tensor_base", "twin_tensor")])
def test_the_written_mapping_reproduces_the_module_pairs(target: str, golden: str, tmp_path: Path) -> None:
    pairs = match(DATA / target, DATA / golden)
    again = remapped(pairs, tmp_path)
    assert module_pairs(again) == module_pairs(pairs)
    assert [problem.code for problem in again.problems] == []


def test_a_shifted_layer_gets_entries_of_its_own(tmp_path: Path) -> None:
    pairs = match(
        layers([0, 2, 3], path="blocks").write(tmp_path / "target"), layers([0, 1, 2, 3]).write(tmp_path / "golden")
    )
    suggestion = suggest_layer_mapping(pairs)
    assert said(suggestion) == {"TopLayer": {"blocks": "layers", "blocks.1": "layers.2", "blocks.2": "layers.3"}}
    assert [name for name, _ in suggestion.unpaired] == ["golden Module.layers.1.Layer"]
    assert module_pairs(remapped(pairs, tmp_path)) == module_pairs(pairs)


def test_a_wrapper_collapses_into_keys_of_several_levels(tmp_path: Path) -> None:
    wrapped = Program()
    with wrapped.module("body", "Body"):
        for number in range(2):
            layer(wrapped, f"body.h.{number}", seed=number)
    plain = Program()
    for number in range(2):
        layer(plain, f"layers.{number}", seed=number)
    pairs = match(wrapped.write(tmp_path / "wrapped"), plain.write(tmp_path / "plain"))
    assert said(suggest_layer_mapping(pairs)) == {"TopLayer": {"body.h": "layers"}}
    assert module_pairs(remapped(pairs, tmp_path)) == module_pairs(pairs)


def test_owners_of_one_class_that_differ_are_reported(tmp_path: Path) -> None:
    def blocks(names: list[str]) -> Program:
        program = Program()
        for number, name in enumerate(names):
            with program.module(f"layers.{number}", "Block"):
                program.linear(f"layers.{number}.{name}", seed=number)
        return program

    pairs = match(
        blocks(["a", "a", "a"]).write(tmp_path / "target"), blocks(["b", "b", "c"]).write(tmp_path / "golden")
    )
    suggestion = suggest_layer_mapping(pairs)
    assert said(suggestion) == {"Block": {"a": "b"}}
    assert suggestion.conflicts == ("`a` of `Block` is `b` in 2 places, but `c` in others: one class has one entry",)


def test_a_partner_elsewhere_in_the_tree_is_reported(tmp_path: Path) -> None:
    def net(inner: str, outer: str) -> Program:
        program = Program()
        with program.module("a", "A"):
            program.linear(inner, seed=1)
            program.linear("a.x", seed=2, shape=(HIDDEN, 3))
        program.linear(outer, seed=3, shape=(5, HIDDEN))
        return program

    target = net("a.y", "z")
    golden = net("a.y", "w")
    pairs = match(target.write(tmp_path / "target"), golden.write(tmp_path / "golden"))
    assert said(suggest_layer_mapping(pairs)) == {"TopLayer": {"z": "w"}}
    odd = match(target.write(tmp_path / "target"), net("b.y", "w").write(tmp_path / "odd"))
    suggestion = suggest_layer_mapping(odd)
    assert suggestion.conflicts == (
        "`Module.a.y.Linear` -> `Module.b.y.Linear`: the partner is not below `Module.a.A`, the partner of "
        "`Module.a.A`",
    )


def test_guesses_are_marked_in_the_text(tmp_path: Path) -> None:
    pairs = match(
        layers([50, 51], path="blocks").write(tmp_path / "target"), layers([0, 1, 2]).write(tmp_path / "golden")
    )
    suggestion = suggest_layer_mapping(pairs)
    assert suggestion.guesses == 1
    text = layer_mapping_text(suggestion, target="t", golden="g")
    assert "  # CHECK: paired by structure, confidence 0.5" in text
    assert "\n  blocks: layers  # confidence 0.5, 2 places\n" in text
    assert "\n# Not paired:\n#   golden Module.layers.2.Layer: nothing in the target fits" in text


def test_odd_names_are_quoted_and_stay_on_their_line() -> None:
    entries = (
        SuggestedEntry(("no",), ("a b",), 0.9, 1),
        SuggestedEntry(("0", "x"), ('"q"',), 0.5, 2, note="line one\nTopLayer:"),
        SuggestedEntry(("plain_1",), ("ё:#",), 0.9, 1),
    )
    suggestion = Suggestion({"true": entries}, 3, unpaired=(("target M.\n", "why"),))
    text = layer_mapping_text(suggestion, target="a\nb: c", golden="g")
    assert yaml.safe_load(text) == {"true": {"no": "a b", "0.x": '"q"', "plain_1": "ё:#"}}
    assert "# CHECK: line one TopLayer:" in text


def test_a_long_list_is_cut() -> None:
    suggestion = Suggestion({}, 0, conflicts=tuple(f"c{number}" for number in range(23)))
    assert layer_mapping_text(suggestion, target="t", golden="g").endswith("#   c19\n#   and 3 more\n")
