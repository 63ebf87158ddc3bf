"""Suggested layer mappings: what they say, what they cannot, and that `match.layer_mapping` reproduces the pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from structure_builders import HIDDEN, Program, layer, layers, tensor, write_dump

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.mappings.mapping_file import read_layer_mapping
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.matching.structure.layer_check import without_contradictions
from probe_flow.matching.structure.layer_mapping import SuggestedEntry, Suggestion, suggest_layer_mapping
from probe_flow.matching.structure.layer_text import layer_mapping_text
from probe_flow.matching.structure.match_structure import match_structure
from probe_flow.records import NodeKind, Pairs

DATA = Path(__file__).parents[3] / "data" / "dump_json"


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
        str(pairs.target.nodes[pair.target.node].entry): str(pairs.golden.nodes[pair.golden.node].entry)
        for pair in pairs.pairs
        if pair.target is not None
        and pair.golden is not None
        and pairs.target.nodes[pair.target.node].kind is not NodeKind.API
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


def projections(names: str, *, seeds: str, order: str = "abc", is_one_input: bool = True) -> Program:
    """Three projections of one attention, called in an order, each with the weights of its seed."""
    program = Program()
    with program.module("attn", "Attention"):
        given = program.hidden() if is_one_input else None
        calls = dict(zip("abc", zip(names, seeds, strict=True), strict=True))
        for name, seed in (calls[which] for which in order):
            program.linear(f"attn.{name}", seed=seed, given=given)
    return program


def test_siblings_that_read_one_input_are_to_check_where_no_value_tells_them_apart(tmp_path: Path) -> None:
    pairs = match(
        projections("qkv", seeds="123").write(tmp_path / "target"),
        projections("abc", seeds="456").write(tmp_path / "golden"),
    )
    suggestion = suggest_layer_mapping(pairs)
    assert said(suggestion) == {"Attention": {"q": "a", "k": "b", "v": "c"}}
    assert suggestion.guesses == 3
    text = layer_mapping_text(suggestion, target="t", golden="g")
    assert text.count("  # CHECK: paired by structure, confidence 0.5") == 3
    assert "`Module.attn.b.Linear.forward.0` of the golden fits it as well: the order decided" in text


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ({"seeds": "123"}, {"seeds": "123"}),  # equal weights
        ({"seeds": "123", "is_one_input": False}, {"seeds": "456", "is_one_input": False}),  # one behind the other
        ({"names": "abc", "seeds": "123"}, {"seeds": "456"}),  # equal names
        ({"seeds": "123"}, {"seeds": "423"}),  # all but one have their values: so has the last
    ],
)
def test_siblings_are_sure_where_values_order_or_names_tell_them_apart(
    target: dict[str, str], golden: dict[str, str], tmp_path: Path
) -> None:
    pairs = match(
        projections(**{"names": "qkv", **target}).write(tmp_path / "target"),  # type: ignore[arg-type]
        projections(**{"names": "abc", **golden}).write(tmp_path / "golden"),  # type: ignore[arg-type]
    )
    assert suggest_layer_mapping(pairs).guesses == 0


def sparse(folder: Path, prefix: str, outermost: str, *, api: str, size: int) -> Path:
    """A dump with a list filter: few calls, callers not dumped; what two of them share differs in shape and value."""
    word = "Cell" if prefix == "mindspore" else "Module"
    dtype = "Float32" if prefix == "mindspore" else "torch.float32"

    def of(shape: tuple[int, ...], seed: str) -> dict[str, object]:
        kind = "mindspore.Tensor" if prefix == "mindspore" else "torch.Tensor"
        return {**tensor(shape, f"{prefix} {seed}"), "type": kind, "dtype": dtype}

    path = f"{word}.{outermost}.backbone"
    calls = [f"{path}.{name}.{kind}.forward.0" for name, kind in (("conv1", "Conv2d"), ("stage", "Stage"))]
    shapes = {f"{api}.0.forward": ((3,), (3,)), **dict.fromkeys(calls, ((size, 8), (size, 4)))}
    data = {
        entry: {"input_args": [of(given, f"{entry} in")], "input_kwargs": {}, "output": [of(made, f"{entry} out")]}
        for entry, (given, made) in shapes.items()
    }
    construct = {f"{api}.0.forward": calls[0], **dict.fromkeys(calls, f"{path}.Backbone.forward.0")}
    dump = {"task": "statistics", "level": "mix", "framework": prefix, "data": data}
    return write_dump(folder, dump, construct)


def test_modules_of_one_class_and_path_below_the_outermost_part_pair(tmp_path: Path) -> None:
    target = sparse(tmp_path / "target", "mindspore", "network", api="Mint.logical_or", size=2)
    golden = sparse(tmp_path / "golden", "pytorch", "module", api="Torch.cumsum", size=5)
    pairs = match(target, golden)
    found = {one: other for one, other in module_pairs(pairs).items() if one.startswith("Cell")}
    assert found == {
        f"Cell.network.backbone.{name}.forward.0": f"Module.module.backbone.{name}.forward.0"
        for name in ("conv1.Conv2d", "stage.Stage")
    }
    assert said(suggest_layer_mapping(pairs)) == {"TopLayer": {"network": "module"}}


def gated(folder: Path, *, is_layer: bool) -> Path:
    """A block whose gate is a layer of its own, or a call."""
    program = Program()
    with program.module("block", "Block"):
        program.call("Torch.sigmoid", program.tensor((4, HIDDEN), "x"))
        if is_layer:
            with program.module("block.act", "HSwish"):
                program.call("Torch.hswish", program.tensor((4, HIDDEN), "y"))
        else:
            program.place += 1
            program.call("Functional.hardswish", program.tensor((4, HIDDEN), "y"))
        program.call("Torch.tanh", program.tensor((4, HIDDEN), "z"))
    return program.write(folder)


def test_a_layer_that_the_golden_has_as_a_call_is_mapped_to_the_call(tmp_path: Path) -> None:
    pairs = match(gated(tmp_path / "target", is_layer=True), gated(tmp_path / "golden", is_layer=False))
    assert said(suggest_layer_mapping(pairs)) == {"Block": {"act.hswish": "hardswish"}}


def test_wrappers_on_one_side_are_part_of_the_outermost_part(tmp_path: Path) -> None:
    target = sparse(tmp_path / "target", "mindspore", "network_with_loss.module", api="Mint.logical_or", size=2)
    golden = sparse(tmp_path / "golden", "pytorch", "module", api="Torch.cumsum", size=5)
    suggestion = suggest_layer_mapping(match(target, golden))
    assert (suggestion.modules, said(suggestion)) == (2, {"TopLayer": {"network_with_loss.module": "module"}})


def test_modules_of_other_classes_or_inner_paths_do_not_pair_by_their_place(tmp_path: Path) -> None:
    target = sparse(tmp_path / "target", "mindspore", "network", api="Mint.logical_or", size=2)
    golden = sparse(tmp_path / "golden", "pytorch", "module", api="Torch.cumsum", size=5)
    file = golden / "step0" / "proc1" / "dump.json"
    file.write_text(file.read_text().replace("conv1.Conv2d", "conv1.Other").replace("stage.Stage", "phase.Stage"))
    suggestion = suggest_layer_mapping(match(target, golden))
    assert suggestion.modules == 1  # the two stages, by what they are
    assert suggestion.guesses == 1
    file.write_text(file.read_text().replace("phase.Stage", "phase.Phase"))
    assert suggest_layer_mapping(match(target, golden)).modules == 0


def crossed(folder: Path) -> tuple[Path, Path]:
    """Two blocks with two linear layers each; what the target calls `p` has the weights of the golden's `b`."""
    sides = []
    for side, names in (("target", {"p": "second", "q": "first"}), ("golden", {"a": "first", "b": "second"})):
        program = Program()
        for number in range(2):
            with program.module(f"blocks.{number}", "Block"):
                for name, seed in names.items():
                    program.place = 1000 * number + (100 if seed == "first" else 200)  # activations go with the weights
                    program.linear(f"blocks.{number}.{name}", seed=f"{seed} {number}")
        sides.append(program.write(folder / side))
    return sides[0], sides[1]


def test_an_entry_that_values_contradict_is_left_out_with_the_reason(tmp_path: Path) -> None:
    target, golden = crossed(tmp_path)
    pairs = match(target, golden)
    assert said(suggest_layer_mapping(pairs)) == {"Block": {"p": "b", "q": "a"}}
    wrong = SuggestedEntry(("p",), ("a",), 0.9, 2), SuggestedEntry(("q",), ("b",), 0.9, 2)
    checked = without_contradictions(Suggestion({"Block": wrong}, 4), pairs.target, pairs.golden)
    assert (said(checked), checked.guesses) == ({}, 2)
    assert [(owner, entry.child, entry.partner) for owner, entry in checked.rejected] == [
        ("Block", ("p",), ("a",)),
        ("Block", ("q",), ("b",)),
    ]
    note = checked.rejected[0][1].note
    weight = "Linear.forward.0.parameters.weight"
    assert note.startswith(
        f"`Module.blocks.0.p.{weight}` differs from `Module.blocks.0.a.{weight}` and has the values of "
        f"`Module.blocks.0.b.{weight}`"
    )
    text = layer_mapping_text(checked, target="t", golden="g")
    assert "# CHECK, left out because the values of the dumps contradict it:\n#   Block: p -> a: " in text
    assert yaml.safe_load(text) is None


def test_what_structure_suggests_contradicts_no_value(tmp_path: Path) -> None:
    pairs = match(*crossed(tmp_path))
    suggestion = suggest_layer_mapping(pairs)
    assert without_contradictions(suggestion, pairs.target, pairs.golden) == suggestion


def test_an_entry_that_values_contradict_in_one_place_stays_to_check(tmp_path: Path) -> None:
    def blocks(side: str, names: list[tuple[str, str]]) -> Path:
        program = Program()
        for number, pair in enumerate(names):
            with program.module(f"blocks.{number}", "Block"):
                for name, seed in zip(pair, ("first", "second"), strict=True):
                    program.linear(f"blocks.{number}.{name}", seed=f"{seed} {number}")
        return program.write(tmp_path / side)

    target = blocks("target", [("p", "q")] * 3)
    golden = blocks("golden", [("a", "b"), ("a", "b"), ("b", "a")])
    pairs = match(target, golden)
    checked = without_contradictions(suggest_layer_mapping(pairs), pairs.target, pairs.golden)
    assert said(checked) == {"Block": {"p": "a", "q": "b"}}
    assert checked.guesses == 2
    assert not checked.rejected
    assert all("differs from" in entry.note for entry in checked.classes["Block"])


def test_values_that_differ_everywhere_contradict_nothing(tmp_path: Path) -> None:
    target = layers([0, 1], path="blocks", noise=0.5).write(tmp_path / "target")
    pairs = match(target, layers([0, 1]).write(tmp_path / "golden"))
    suggestion = suggest_layer_mapping(pairs)
    assert said(suggestion) == {"TopLayer": {"blocks": "layers"}}
    assert without_contradictions(suggestion, pairs.target, pairs.golden) == suggestion
