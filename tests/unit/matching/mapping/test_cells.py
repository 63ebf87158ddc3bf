"""Cell mappings: renamed modules, parameters of other names, primitives of MindSpore, and entries without use."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from name_builders import DATA, ONLY, assert_complete, catalog, entry_pairs, item_pairs, read, ref_of

from probe_flow.errors import Span
from probe_flow.mappings.mapping_file import Entry, read_flat_mapping
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.matching.mapping.match_mapping import match_cell_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.shared.api_table import PYTORCH_OF, pytorch_name
from probe_flow.records import Expectation, NodeKey, Pairs, Phase, Relation, Slot, SlotRole

MAPPINGS = DATA / "mappings"
LAST_NODE = "Functional.cross_entropy.0.backward.output.0"


def mapped(names: dict[str, str]) -> list[Entry]:
    return [Entry(one, other, Span("m.yaml", line, 1)) for line, (one, other) in enumerate(names.items(), 1)]


def peer(case: str) -> dict[str, str | None]:
    """What the peer paired: item of the target -> item of the golden."""
    lines = (DATA / "expected_pairs" / f"{case}.csv").read_text(encoding="utf-8").splitlines()
    return {one: None if other == "N/A" else other for one, _, other in (line.partition(",") for line in lines)}


def mindspore_pairs(name: str | None) -> Pairs:
    listed = read_flat_mapping(MAPPINGS / name, what="cell mapping") if name else ()
    return match_cell_mapping(read("ms_tensor_base"), read("twin_tensor", "golden"), entries=listed)


# --- real dumps ------------------------------------------------------------------------------------------------------


def test_renamed_networks_pair_completely() -> None:
    listed = read_flat_mapping(MAPPINGS / "cell_map_pt.yaml", what="cell mapping")
    pairs = match_cell_mapping(read("pt_stat_rename"), read("pt_stat_base", "golden"), entries=listed)

    assert_complete(pairs)
    assert Counter(pair.rule.name for pair in pairs.pairs) == {"exact": 163, "cell_mapping": 24}
    assert all(pair.target and pair.golden for pair in pairs.pairs)
    assert not pairs.problems
    assert not pairs.unused
    lines = {pair.rule_span.line for pair in pairs.pairs if pair.rule_span}
    assert lines == {1, 2, 3}


def test_backward_calls_that_the_peer_crosses_pair_with_their_like() -> None:
    listed = read_flat_mapping(MAPPINGS / "cell_map_pt.yaml", what="cell mapping")
    found = item_pairs(match_cell_mapping(read("pt_stat_rename"), read("pt_stat_base", "golden"), entries=listed))
    theirs = peer("pt_stat_rename_cellmap")

    differing = {one for one, other in theirs.items() if found[one] != other}
    assert len(differing) == 26
    assert all(".backward." in one and found[one] == one for one in differing)


@pytest.mark.parametrize(
    ("case", "name"), [("ms_pt_tensor_cellmap", "cell_map_ms.yaml"), ("ms_pt_tensor_cellmap_default", None)]
)
def test_what_the_peer_pairs_across_frameworks_we_pair_too(case: str, name: str | None) -> None:
    found = item_pairs(mindspore_pairs(name))

    lost = {one for one, other in peer(case).items() if other is not None and found[one] != other}
    assert lost == {LAST_NODE}


def test_frameworks_meet_wherever_both_computed_the_same() -> None:
    pairs = mindspore_pairs("cell_map_ms.yaml")
    found = item_pairs(pairs)

    assert_complete(pairs)
    assert not pairs.problems
    assert not pairs.unused
    alone = [pair for pair in pairs.pairs if pair.target is None or pair.golden is None]
    assert {pair.reason.expectation for pair in alone if pair.reason} == {Expectation.EXPECTED}
    norm = "norm.LayerNorm.forward.0.parameters"
    assert found[f"Cell.{norm}.gamma"] == f"Module.{norm}.weight"
    assert found["Cell.norm.LayerNorm.parameters_grad.0.beta"] == "Module.norm.LayerNorm.parameters_grad.0.bias"
    assert found["Primitive.matmul.MatMul.1.forward.input.1"] == "Functional.linear.1.forward.input.1"
    assert found["Primitive.bias_add.BiasAdd.1.forward.output.0"] == "Functional.linear.1.forward.output.0"
    assert found["Primitive.matmul.MatMul.1.backward.output.1"] == "Functional.linear.1.backward.output.1"
    assert found["Primitive.layer_norm.LayerNorm.0.backward.output.2"] == "Functional.layer_norm.0.backward.output.0"
    assert found["Primitive.matmul.MatMul.1.forward.output.0"] is None


def test_guesses_across_frameworks_say_so() -> None:
    rules = {(pair.rule.name, pair.confidence) for pair in mindspore_pairs("cell_map_ms.yaml").pairs if pair.golden}

    assert {confidence for rule, confidence in rules if rule == "api_mapping"} == {0.8, 1.0}
    assert {confidence for rule, confidence in rules if rule == "exact"} == {1.0}


def test_primitives_of_one_api_form_one_group() -> None:
    pairs = mindspore_pairs("cell_map_ms.yaml")
    (group,) = (group for group in pairs.groups if group.id.endswith("Primitive.matmul.MatMul.1.forward"))

    assert group.relation is Relation.MANY_TO_ONE
    assert [key.name for key in group.target_nodes] == ["Primitive.matmul.MatMul", "Primitive.bias_add.BiasAdd"]
    assert [key.name for key in group.golden_nodes] == ["Functional.linear"]


def test_the_sides_may_be_swapped() -> None:
    listed = mapped({"fc1.Linear": "dense1.Dense"})
    pairs = match_cell_mapping(read("twin_tensor"), read("ms_tensor_base", "golden"), entries=listed)

    assert_complete(pairs)
    found = item_pairs(pairs)
    assert found["Module.mlp.fc1.Linear.forward.0.output.0"] == "Cell.mlp.dense1.Dense.forward.0.output.0"
    assert found["Module.norm.LayerNorm.parameters_grad.0.weight"] == "Cell.norm.LayerNorm.parameters_grad.0.gamma"


# --- names -----------------------------------------------------------------------------------------------------------


def one_module(entry: str, other: str, names: dict[str, str]) -> Pairs:
    return match_cell_mapping(catalog([entry]), catalog([other]), entries=mapped(names))


@pytest.mark.parametrize(
    ("entry", "other", "names"),
    [
        ("Cell.a.Dense.forward.0", "Module.a.Dense.forward.0", {}),
        ("Module.fc2.Dense.forward.0", "Module.fc2.Linear.forward.0", {"fc2.Dense": "fc2.Linear"}),
        ("Module.x.Row.forward.0", "Module.x.TERow.forward.0", {"Row": "TERow"}),
        ("Module.a.b.C.forward.0", "Module.x.b.D.forward.0", {"a": "x", "C": "D"}),
        ("Module.a.B.forward.0", "Module.y.D.forward.0", {"a": "x", "x.B": "y.D"}),
        ("Module.a.B.forward.0", "Module.x.B.forward.0", {"B": "C", "a.B": "x.B"}),
        ("Module.a.B.backward.0", "Module.x.B.backward.0", {"a": "x"}),
        ("Module.a.B.parameters_grad.0", "Module.x.B.parameters_grad.0", {"a.B": "x.B"}),
        ("Torch.old.0.forward", "Torch.new.0.forward", {"old": "new"}),
    ],
)
def test_names_are_replaced_between_dots(entry: str, other: str, names: dict[str, str]) -> None:
    pairs = one_module(entry, other, names)

    assert entry_pairs(pairs) == [(entry, other)]
    assert pairs.pairs[0].rule.name == "cell_mapping"


def test_a_part_of_a_segment_is_no_name_and_the_warning_says_so() -> None:
    pairs = one_module("Module.fc12.Linear.forward.0", "Module.fx2.Linear.forward.0", {"fc1": "fx"})

    assert entry_pairs(pairs) == [(None, "Module.fx2.Linear.forward.0"), ("Module.fc12.Linear.forward.0", None)]
    (problem,) = pairs.unused
    assert (problem.code, str(problem.span)) == ("PF4216", "m.yaml:1:1")
    assert problem.help == "it is a part of `fc12.Linear`, but not between dots: write whole segments"


def test_an_entry_that_matches_nothing_names_the_nearest() -> None:
    (problem,) = one_module("Module.fc2.Dense.forward.0", "Module.fc2.Dense.forward.0", {"fc2.Dnse": "x"}).unused

    assert problem.code == "PF4216"
    assert problem.help is not None
    assert problem.help.startswith("nearest: `fc2.Dense`")


def test_an_entry_that_leads_nowhere_names_the_nearest() -> None:
    names = {"fc2.Dense": "fc2.Liner"}
    (problem,) = one_module("Cell.fc2.Dense.forward.0", "Module.fc2.Linear.forward.0", names).unused

    assert problem.code == "PF4217"
    assert "leads to `Module.fc2.Liner`" in problem.message
    assert problem.help == "nearest: `Module.fc2.Linear`"


def test_a_lone_module_says_what_it_was_renamed_to() -> None:
    pairs = one_module("Module.a.B.forward.0", "Module.b.B.forward.0", {"a": "c"})
    reason = pairs.pairs[-1].reason

    assert reason is not None
    line = Span("m.yaml", 1, 1).brief
    assert f"the golden has no `Module.c.B` (forward) (from `Module.a.B` by {line})" in reason.text


# --- parameters ------------------------------------------------------------------------------------------------------


def test_an_alias_counts_only_where_the_own_name_is_missing() -> None:
    entry = "Module.n.Norm.forward.0"
    key = NodeKey(ONLY, "Module.n.Norm")
    slots = [Slot(SlotRole.PARAMETER, (name,)) for name in ("gamma", "weight", "beta")]
    target = catalog([entry], tensors=[ref_of(key, slot) for slot in slots])
    golden = catalog([entry], tensors=[ref_of(key, Slot(SlotRole.PARAMETER, (name,))) for name in ("weight", "bias")])

    pairs = match_cell_mapping(target, golden)
    found = [(p.target and p.target.slot.index, p.golden and p.golden.slot.index) for p in pairs.pairs]
    assert found == [("gamma", None), ("weight", "weight"), ("beta", "bias")]


def test_aliases_can_be_set() -> None:
    entry, key = "Module.n.Norm.forward.0", NodeKey(ONLY, "Module.n.Norm")
    target = catalog([entry], tensors=[ref_of(key, Slot(SlotRole.PARAMETER, ("scale",)))])
    golden = catalog([entry], tensors=[ref_of(key, Slot(SlotRole.PARAMETER, ("weight",)))])

    assert match_cell_mapping(target, golden).pairs[0].golden is None
    assert match_cell_mapping(target, golden, aliases={"scale": "weight"}).pairs[0].golden is not None


# --- across frameworks -----------------------------------------------------------------------------------------------


def test_the_built_in_table_has_what_the_peer_has() -> None:
    identities_of_tensor = 186

    assert len(PYTORCH_OF) + identities_of_tensor == 399
    assert pytorch_name("Mint.add") == "Torch.add"
    assert pytorch_name("MintFunctional.gelu") == "Functional.gelu"
    assert pytorch_name("Functional.swapaxes") == "Torch.transpose"
    assert pytorch_name("Functional.unknown") is None


def test_apis_meet_by_the_built_in_table_only_across_frameworks() -> None:
    target, golden = ["Functional.dense.0.forward"], ["Functional.linear.0.forward"]
    same = match_cell_mapping(catalog(target), catalog(golden))
    other = match_cell_mapping(catalog(target, framework="mindspore"), catalog(golden))

    assert len(entry_pairs(same)) == 2
    assert entry_pairs(other) == [(target[0], golden[0])]
    assert (other.pairs[0].rule.name, other.pairs[0].confidence) == ("api_mapping", 0.95)


def test_an_own_name_goes_before_the_table() -> None:
    entry = "Functional.sin.0.forward"
    pairs = match_cell_mapping(catalog([entry], framework="mindspore"), catalog([entry]))

    assert [pair.rule.name for pair in pairs.pairs] == ["exact"]


def test_a_module_of_another_class_at_the_same_path_is_paired() -> None:
    target = catalog(["Cell.a.b.Dense.forward.0"], framework="mindspore")
    pairs = match_cell_mapping(target, catalog(["Module.a.b.Linear.forward.0"]))

    assert [(pair.rule.name, pair.confidence) for pair in pairs.pairs] == [("cell_mapping", 0.95)]


def test_two_modules_at_one_path_are_too_many() -> None:
    target = catalog(["Cell.a.b.Dense.forward.0"], framework="mindspore")
    golden = catalog(["Module.a.b.Linear.forward.0", "Module.a.b.Other.forward.0"])

    assert all(pair.rule.name == "none" for pair in match_cell_mapping(target, golden).pairs)


def test_primitives_of_other_shapes_are_not_taken_for_a_linear() -> None:
    cell, module = "Cell.a.Dense.forward.0", "Module.a.Linear.forward.0"
    names = "Primitive.matmul.MatMul", "Functional.linear"
    keys = [NodeKey(ONLY, name) for name in names]
    slots = [Slot(SlotRole.INPUT, (0,)), Slot(SlotRole.INPUT, (1,)), Slot(SlotRole.OUTPUT, (0,))]
    mine = [ref_of(keys[0], slot, logical_shape=(2, 3)) for slot in slots]
    theirs = [ref_of(keys[1], slot, logical_shape=(3, 2)) for slot in slots]
    calls = [f"{names[0]}.0.forward", cell], [f"{names[1]}.0.forward", module]
    target = catalog(calls[0], parents={calls[0][0]: cell}, tensors=mine, framework="mindspore")
    pairs = match_cell_mapping(target, catalog(calls[1], parents={calls[1][0]: module}, tensors=theirs))

    assert_complete(pairs)
    assert (calls[0][0], None) in entry_pairs(pairs)
    (reason,) = {pair.reason for pair in pairs.pairs if pair.golden is None}
    assert reason is not None
    assert (reason.code, reason.expectation) == ("framework_internal", Expectation.EXPECTED)


def test_gradients_of_different_autograd_nodes_are_not_compared() -> None:
    entry = "Functional.cross_entropy.0.backward"
    key = NodeKey(ONLY, "Functional.cross_entropy", 0, Phase.BACKWARD)
    sides = [catalog([entry], tensors=[ref_of(key)], framework=name) for name in ("mindspore", "pytorch")]

    pairs = match_cell_mapping(*sides)
    assert [pair.reason.code for pair in pairs.pairs if pair.reason] == ["other_autograd_node"] * 2
    assert match_cell_mapping(sides[1], sides[1]).pairs[0].golden is not None


# --- any dump --------------------------------------------------------------------------------------------------------

APIS = ("Primitive.m.MatMul", "Primitive.b.BiasAdd", "Functional.linear", "Mint.mm", "Torch.mm")
MODULES = ("Cell.a.A", "Module.a.B", "Cell.a.b.C", "Module.b.C")
NAMES = st.sampled_from(
    [
        *(f"{name}.{call}.{way}" for name in APIS for call in (0, 1) for way in ("forward", "backward")),
        *(f"{name}.{way}.0" for name in MODULES for way in ("forward", "backward", "parameters_grad")),
    ]
)


@settings(max_examples=60, deadline=None)
@given(
    target=st.lists(NAMES, unique=True),
    golden=st.lists(NAMES, unique=True),
    names=st.dictionaries(st.sampled_from(["a", "A", "a.A", "b", "MatMul"]), st.sampled_from(["b", "B", "x.y"])),
)
def test_every_tensor_is_in_the_result_once(target: list[str], golden: list[str], names: dict[str, str]) -> None:
    scopes = {name: "Cell.a.A.forward.0" for name in target if name.endswith(".forward") and "Primitive" in name}
    theirs = {name: "Module.a.B.forward.0" for name in golden if name.endswith("linear.0.forward")}
    sides = catalog(target, framework="mindspore", parents=scopes), catalog(golden, parents=theirs)

    assert_complete(match_cell_mapping(*sides, entries=mapped(names)))
    assert_complete(match_layer_mapping(*sides))
    assert_complete(match_name(*sides, fuzzy=True))
