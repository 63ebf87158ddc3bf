"""Layer mappings: modules by their place, APIs by their layer, parameters and gradients with their module."""

from __future__ import annotations

from itertools import pairwise

from name_builders import DATA, ONLY, assert_complete, catalog, entry_pairs, item_pairs, read, ref_of

from probe_flow.errors import Span
from probe_flow.mappings.mapping_file import ClassEntries, Entry, read_flat_mapping, read_layer_mapping
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.records import CallFacts, Catalog, Node, NodeKey, NodeKind, Pairs, Phase

LAST_NODE = "Functional.cross_entropy.0.backward.output.0"


def layers(**classes: dict[str, str]) -> list[ClassEntries]:
    span = Span("layers.yaml", 1, 1)
    return [
        ClassEntries(owner, span, tuple(Entry(one, other, span) for one, other in names.items()))
        for owner, names in classes.items()
    ]


def modules(*names: str, framework: str = "pytorch") -> Catalog:
    return catalog([f"{name}.forward.0" for name in names], framework=framework)


def real_pairs() -> Pairs:
    listed = read_layer_mapping(DATA / "mappings" / "layer_map.yaml")
    return match_layer_mapping(read("ms_tensor_base"), read("twin_tensor", "golden"), entries=listed)


def test_what_the_peer_pairs_we_pair_too() -> None:
    theirs = read_flat_mapping(DATA / "mappings" / "data_mapping.yaml", what="data mapping")
    found = item_pairs(real_pairs())

    assert {entry.target for entry in theirs if entry.golden and found[entry.target] != entry.golden} == {LAST_NODE}
    assert set(found) == {entry.target for entry in theirs}


def test_gradients_of_renamed_layers_and_parameters_pair() -> None:
    pairs = real_pairs()
    found = item_pairs(pairs)

    assert_complete(pairs)
    assert found["Cell.mlp.dense1.Dense.parameters_grad.0.weight"] == "Module.mlp.fc1.Linear.parameters_grad.0.weight"
    assert found["Cell.norm.LayerNorm.parameters_grad.0.gamma"] == "Module.norm.LayerNorm.parameters_grad.0.weight"
    assert found["Primitive.relu.ReLU.0.backward.output.0"] == "Functional.relu.0.backward.output.0"


def test_pairs_name_the_line_of_the_layer() -> None:
    lines = {
        str(pair.target.item).split(".forward")[0]: pair.rule_span.line
        for pair in real_pairs().pairs
        if pair.target and pair.golden and pair.rule_span and pair.target.node.name.startswith("Cell")
    }

    assert lines["Cell.mlp.dense1.Dense"] == 4
    assert lines["Cell.mlp.act.ReLU"] == 6


def test_a_class_that_no_layer_has_is_reported() -> None:
    (problem,) = real_pairs().unused

    assert (problem.code, problem.span and problem.span.line) == ("PF4216", 1)
    assert "no layer of class `Net`" in problem.message
    assert problem.help is not None
    assert "`TopLayer` for the outermost layers" in problem.help


def test_the_classes_of_layers_take_no_part() -> None:
    pairs = match_layer_mapping(modules("Cell.a.b.Dense", framework="mindspore"), modules("Module.a.b.Linear"))

    assert entry_pairs(pairs) == [("Cell.a.b.Dense.forward.0", "Module.a.b.Linear.forward.0")]
    assert pairs.pairs[0].rule.name == "layer_mapping"


def test_a_longer_key_collapses_levels_and_goes_first() -> None:
    target = modules("Module.net.GPT", "Module.net.lm.GPTModel", "Module.net.lm.emb.Embedding", "Module.net.lm.x.X")
    golden = modules("Module.net.GPT", "Module.net.emb.Embedding", "Module.net.model.x.X")
    listed = layers(GPT={"lm": "model", "lm.emb": "emb"})

    found = entry_pairs(match_layer_mapping(target, golden, entries=listed))
    assert ("Module.net.lm.emb.Embedding.forward.0", "Module.net.emb.Embedding.forward.0") in found
    assert ("Module.net.lm.x.X.forward.0", "Module.net.model.x.X.forward.0") in found


def test_the_class_of_the_owner_decides() -> None:
    target = modules("Module.a.A", "Module.b.B", "Module.a.q.L", "Module.b.q.L")
    golden = modules("Module.a.A", "Module.b.B", "Module.a.k.L", "Module.b.q.L")

    found = entry_pairs(match_layer_mapping(target, golden, entries=layers(A={"q": "k"})))
    assert ("Module.a.q.L.forward.0", "Module.a.k.L.forward.0") in found
    assert ("Module.b.q.L.forward.0", "Module.b.q.L.forward.0") in found


def test_all_spellings_of_the_outermost_owner_are_understood() -> None:
    for owner in ("TopLayer", "Cell", "Module"):
        pairs = match_layer_mapping(modules("Module.a.A"), modules("Module.b.A"), entries=layers(**{owner: {"a": "b"}}))
        assert entry_pairs(pairs) == [("Module.a.A.forward.0", "Module.b.A.forward.0")]
        assert not pairs.problems
    assert not pairs.unused


def test_apis_meet_in_their_layer_whatever_their_type_and_number() -> None:
    target = catalog(
        ["Mint.matmul.0.forward", "Cell.x.X.forward.0", "Mint.matmul.1.forward", "Cell.y.Y.forward.0"],
        parents={"Mint.matmul.0.forward": "Cell.x.X.forward.0", "Mint.matmul.1.forward": "Cell.y.Y.forward.0"},
        framework="mindspore",
    )
    golden = catalog(
        ["Tensor.matmul.7.forward", "Module.y.Y.forward.0"],
        parents={"Tensor.matmul.7.forward": "Module.y.Y.forward.0"},
    )

    found = entry_pairs(match_layer_mapping(target, golden))
    assert ("Mint.matmul.1.forward", "Tensor.matmul.7.forward") in found
    assert ("Mint.matmul.0.forward", None) in found


def test_an_operator_is_the_function_that_it_spells_in_its_layer() -> None:
    calls = {"Mint.mul.0.forward": "a", "Mint.mul.1.forward": "b", "Mint.sub.0.forward": "b"}
    theirs = {"Tensor.__mul__.0.forward": "a", "Tensor.__mul__.1.forward": "b", "Tensor.__rsub__.0.forward": "b"}
    target, golden = (
        catalog(
            ["Module.a.A.forward.0", "Module.b.B.forward.0", *where],
            parents={name: f"Module.{layer}.{layer.upper()}.forward.0" for name, layer in where.items()},
            framework=framework,
        )
        for where, framework in ((calls, "mindspore"), (theirs, "pytorch"))
    )

    found = dict(entry_pairs(match_layer_mapping(target, golden)))
    assert found["Mint.mul.0.forward"] == "Tensor.__mul__.0.forward"
    assert found["Mint.mul.1.forward"] == "Tensor.__mul__.1.forward"
    assert found["Mint.sub.0.forward"] is None, "`__rsub__` takes its operands the other way round"


def test_an_api_can_be_mapped_like_a_layer() -> None:
    entry, other = "Torch.old.0.forward", "Torch.new.0.forward"
    target = catalog([entry, "Module.a.A.forward.0"], parents={entry: "Module.a.A.forward.0"})
    golden = catalog([other, "Module.a.A.forward.0"], parents={other: "Module.a.A.forward.0"})

    pairs = match_layer_mapping(target, golden, entries=layers(A={"old": "new"}))
    assert (entry, other) in entry_pairs(pairs)
    assert not pairs.problems
    assert not pairs.unused


def test_layers_of_a_pipeline_stage_are_counted_from_zero() -> None:
    target = modules("Module.t.ParallelTransformer", "Module.t.layers.4.L", "Module.t.layers.5.L")
    golden = modules("Module.t.ParallelTransformer", "Module.t.layers.0.L", "Module.t.layers.1.L")

    found = entry_pairs(match_layer_mapping(target, golden))
    assert ("Module.t.layers.4.L.forward.0", "Module.t.layers.0.L.forward.0") in found
    assert ("Module.t.layers.5.L.forward.0", "Module.t.layers.1.L.forward.0") in found


def test_an_entry_without_use_names_the_children_there_are() -> None:
    target = modules("Module.m.MLP", "Module.m.dense1.Dense")
    golden = modules("Module.m.MLP", "Module.m.fc1.Linear")
    pairs = match_layer_mapping(target, golden, entries=layers(MLP={"dens1": "fc1", "dense1": "fc"}))

    assert [(problem.code, problem.help) for problem in pairs.unused] == [
        ("PF4216", "nearest: `dense1`"),
        ("PF4217", "nearest: `fc1`"),
    ]


def test_dumps_without_modules_are_reported() -> None:
    side = catalog(["Torch.a.0.forward"])

    pairs = match_layer_mapping(side, side)
    assert [problem.code for problem in pairs.problems] == ["PF4219", "PF4219"]
    assert entry_pairs(pairs) == [("Torch.a.0.forward", "Torch.a.0.forward")]


def test_dtypes_are_not_checked() -> None:
    key = NodeKey(ONLY, "Module.a.A")
    sides = [catalog(["Module.a.A.forward.0"], tensors=[ref_of(key, dtype=dtype)]) for dtype in ("int32", "float32")]

    (pair,) = match_layer_mapping(*sides).pairs
    assert pair.golden is not None
    assert pair.reason is not None
    assert pair.reason.code == "dtype_differs"


def lone(pairs: Pairs) -> dict[str, tuple[str, bool]]:
    """Code of the reason of each tensor without partner, and whether it is a gap, by the entry's name."""
    found = {}
    for pair in pairs.pairs:
        side, ref = (pairs.target, pair.target) if pair.golden is None else (pairs.golden, pair.golden)
        if ref is not None and pair.reason is not None and None in (pair.target, pair.golden):
            found[str(side.nodes[ref.node].entry)] = (pair.reason.code, pair.reason.is_gap)
    return found


def test_what_one_framework_makes_of_smaller_layers_is_internal_to_the_layer() -> None:
    inner = ["Mint.add.0.forward", "Cell.gru.rnn.Rnn.forward.0", "Cell.gru.GRU.forward.0"]
    back = ["Mint.add.0.backward", "Cell.gru.rnn.Rnn.backward.0", "Cell.gru.GRU.backward.0"]
    own = ["Cell.own.extra.Extra.forward.0", "Cell.own.Own.forward.0"]
    parents = dict(pairwise(inner)) | {own[0]: own[1]}  # of gradients no callers are recorded
    target = catalog([*inner, *own, *back], parents=parents, framework="mindspore")
    there = ["Module.gru.GRU.forward.0", "Module.own.other.Other.forward.0", "Module.own.Own.forward.0"]
    golden = catalog([*there, "Module.gru.GRU.backward.0"], parents={there[1]: there[2]})

    inside, missing = ("framework_internal", False), ("no_golden_node", True)
    assert lone(match_layer_mapping(target, golden)) == {
        **dict.fromkeys((*inner[:2], *back[:2]), inside),
        own[0]: missing,
        there[1]: ("no_target_node", True),
    }


def test_gradients_whose_caller_no_dump_records_meet_through_their_calls() -> None:
    target = catalog(
        ["Mint.add.0.forward", "Cell.a.A.forward.0", "Mint.add.0.backward"],
        parents={"Mint.add.0.forward": "Cell.a.A.forward.0", "Mint.add.0.backward": "Cell.a.A.backward.0"},
        framework="mindspore",
    )
    golden = catalog(
        ["Torch.add.3.forward", "Module.a.A.forward.0", "Torch.add.3.backward"],
        parents={"Torch.add.3.forward": "Module.a.A.forward.0"},
    )

    assert ("Mint.add.0.backward", "Torch.add.3.backward") in entry_pairs(match_layer_mapping(target, golden))


def test_calls_that_the_other_collector_leaves_out_are_no_gap() -> None:
    target = catalog(
        ["Functional.cat.0.forward", "Functional.tril.0.forward", "Cell.a.A.forward.0"], framework="mindspore"
    )
    silent = Node(NodeKey(ONLY, "Torch.cat", 0, Phase.FORWARD), "cat", facts=CallFacts(NodeKind.API, None))
    golden = catalog(["Module.a.A.forward.0"], undumped=(silent,))

    assert lone(match_layer_mapping(target, golden)) == {
        "Functional.cat.0.forward": ("not_dumped", False),
        "Functional.tril.0.forward": ("no_golden_node", True),
    }


def test_a_layer_whose_calls_are_paired_is_a_level_that_the_other_side_lacks() -> None:
    names = ["Mint.hswish.0.forward", "Cell.a.act.Act.forward.0", "Mint.mul.0.forward", "Cell.a.A.forward.0"]
    parents = {names[0]: names[1], names[1]: names[3], names[2]: names[3]}
    there = ["Torch.hardswish.0.forward", "Torch.mul.0.forward", "Module.a.A.forward.0", "Module.a.b.B.forward.0"]
    golden = catalog(there, parents=dict.fromkeys((*there[:2], there[3]), there[2]))

    def reasons(**entries: str) -> dict[str, tuple[str, bool]]:
        target = catalog(names, parents=parents, framework="mindspore")
        found = lone(match_layer_mapping(target, golden, entries=layers(A=entries)))
        return {name: found[name] for name in names if name in found}

    assert reasons(**{"act.hswish": "hardswish"}) == {names[1]: ("wrapper", False)}
    assert reasons() == {names[0]: ("no_golden_node", True), names[1]: ("outside_mapping", False)}
