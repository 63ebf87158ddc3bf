"""Matching by structure: renamed dumps, twins of two frameworks, dropped and inserted layers, wrappers, guesses."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from structure_builders import HIDDEN, Program, layer, layers, tensor, write_dump
from work_done import growth

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import CODES, Span
from probe_flow.mappings.mapping_file import ClassEntries, Entry
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.structure import likeness
from probe_flow.matching.structure.layer_mapping import suggest_layer_mapping
from probe_flow.matching.structure.match_structure import match_structure
from probe_flow.records import GUESS, Catalog, Expectation, Pairs, Phase, TensorRef

DATA = Path(__file__).parents[3] / "data" / "dump_json"


def read(name: str | Path, side: str = "target") -> Catalog:
    return read_dump_json(DATA / name, side=side)


def match(target: Path, golden: Path) -> Pairs:
    return match_structure(read(target), read(golden, "golden"))


def entry(side: Catalog, ref: TensorRef | None) -> str | None:
    return None if ref is None else str(side.nodes[ref.node].entry)


def entries(pairs: Pairs) -> dict[str, str]:
    """Target entry -> golden entry of every pair with two sides."""
    return {
        str(entry(pairs.target, pair.target)): str(entry(pairs.golden, pair.golden))
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None
    }


def lone(pairs: Pairs) -> set[tuple[str, str]]:
    """Side and entry of what has no partner at all."""
    paired = entries(pairs)
    ours = {entry(pairs.target, pair.target) for pair in pairs.pairs if pair.target is not None} - set(paired)
    theirs = {entry(pairs.golden, pair.golden) for pair in pairs.pairs if pair.golden is not None} - set(
        paired.values()
    )
    return {("target", str(name)) for name in ours} | {("golden", str(name)) for name in theirs}


def items(pairs: Pairs) -> list[tuple[object, object]]:
    return [
        (pair.target.item if pair.target else None, pair.golden.item if pair.golden else None) for pair in pairs.pairs
    ]


def assert_every_tensor_is_in_a_pair(pairs: Pairs) -> None:
    for catalog, side in ((pairs.target, "target"), (pairs.golden, "golden")):
        there = [getattr(pair, side) for pair in pairs.pairs if getattr(pair, side) is not None]
        assert sorted(map(id, there)) == sorted(map(id, catalog.tensors))
    assert all(pair.reason is not None for pair in pairs.pairs if pair.target is None or pair.golden is None)


def test_renamed_modules_pair_completely() -> None:
    pairs = match(DATA / "pt_stat_rename", DATA / "pt_stat_base")
    assert all(pair.target is not None and pair.golden is not None for pair in pairs.pairs)
    found = entries(pairs)
    for one, other in found.items():
        words = one.replace(".ffn.", ".mlp.").replace("FeedForward", "MLP").replace("SelfAttention", "Attn")
        assert other == words
    assert {pair.rule.name for pair in pairs.pairs} == {"structure"}
    assert all(0.9 <= pair.confidence < 1 for pair in pairs.pairs)
    assert pairs.problems == ()
    assert_every_tensor_is_in_a_pair(pairs)


@pytest.mark.parametrize(
    ("target", "golden"), [("pt_stat_bug", "pt_stat_base"), ("pt_tensorL0_bug", "pt_tensorL0_base")]
)
def test_where_names_are_equal_the_pairs_are_those_of_names(target: str, golden: str) -> None:
    sides = read(target), read(golden, "golden")
    assert items(match_structure(*sides)) == items(match_name(*sides))


LINEAR = [("inp", "inp", 0), ("mlp.dense1", "mlp.fc1", 1), ("mlp.dense2", "mlp.fc2", 2), ("head", "head", 3)]
"""Dense layers of the MindSpore net, the linear layer that each is in the twin, and the number of its calls."""


def twin_truth() -> dict[str, str]:
    """What corresponds in `ms_tensor_base` and `twin_tensor`, written down by hand from the two programs."""
    truth = {
        "Cell.mlp.act.ReLU": "Module.mlp.relu.ReLU",
        "Cell.mlp.MLP": "Module.mlp.MLP",
        "Cell.norm.LayerNorm": "Module.norm.LayerNorm",
    }
    truth |= {f"Cell.{one}.Dense": f"Module.{other}.Linear" for one, other, _ in LINEAR}
    found = {f"{one}.{way}.0": f"{other}.{way}.0" for one, other in truth.items() for way in ("forward", "backward")}
    with_parameters = ("Cell.norm.LayerNorm", *(f"Cell.{one}.Dense" for one, _, _ in LINEAR))
    found |= {f"{name}.parameters_grad.0": f"{truth[name]}.parameters_grad.0" for name in with_parameters}
    for way in ("forward", "backward"):
        for number in range(4):
            found[f"Primitive.matmul.MatMul.{number}.{way}"] = f"Functional.linear.{number}.{way}"
            found[f"Primitive.bias_add.BiasAdd.{number}.{way}"] = f"Functional.linear.{number}.{way}"
        found[f"Primitive.relu.ReLU.0.{way}"] = f"Functional.relu.0.{way}"
        found[f"Primitive.layer_norm.LayerNorm.0.{way}"] = f"Functional.layer_norm.0.{way}"
        found[f"Tensor.__add__.0.{way}"] = f"Tensor.__add__.0.{way}"
        found[f"Functional.cross_entropy.0.{way}"] = f"Functional.cross_entropy.0.{way}"
    # The first layer's input needs no gradient, and the weight's is given transposed by one of the frameworks.
    del found["Primitive.matmul.MatMul.0.backward"]
    return found


def test_a_net_of_mindspore_pairs_with_its_twin_of_pytorch() -> None:
    pairs = match(DATA / "ms_tensor_base", DATA / "twin_tensor")
    assert entries(pairs) == twin_truth()
    only_here = {f"Primitive.shape_op.Shape.{number}.forward" for number in range(4)}
    only_here |= {f"Tensor.to.{number}.{way}" for number in range(2) for way in ("forward", "backward")}
    only_here.add("Primitive.matmul.MatMul.0.backward")
    assert lone(pairs) == {("target", name) for name in only_here}
    alone = [pair.reason for pair in pairs.pairs if pair.target is None or pair.golden is None]
    assert all(reason is not None and reason.expectation is Expectation.EXPECTED for reason in alone)
    assert pairs.problems == ()
    assert_every_tensor_is_in_a_pair(pairs)


def one_layer(folder: Path, framework: str) -> Path:
    """A dense layer of 3 x 10 rows: primitives of MindSpore, or one call of PyTorch, which hooks a reshape in it."""

    def of(*shapes: tuple[int, ...]) -> list[dict[str, Any]]:
        kind, dtype = ("mindspore.Tensor", "Float32") if framework == "mindspore" else ("torch.Tensor", "torch.float32")
        return [{**tensor(shape, f"{framework} {shape}"), "type": kind, "dtype": dtype} for shape in shapes]

    def forward(given: list[dict[str, Any]], made: list[dict[str, Any]]) -> dict[str, Any]:
        return {"input_args": given, "input_kwargs": {}, "output": made}

    rows, wide, weight, bias = (30, 8), (3, 10, 8), (8, 8), (8,)
    if framework == "mindspore":
        module = "Cell.fc.Dense"
        data = {
            "Primitive.matmul.MatMul.0.forward": forward(of(rows, weight), of(rows)),
            "Primitive.bias_add.BiasAdd.0.forward": forward(of(rows, bias), of(rows)),
            "Primitive.bias_add.BiasAdd.0.backward": {"input": of(rows), "output": of(rows, bias)},
            "Primitive.matmul.MatMul.0.backward": {"input": of(rows), "output": of(weight, rows)},
        }
    else:
        module = "Module.fc.Linear"
        data = {
            "Functional.linear.0.forward": forward(of(wide, weight, bias), of(wide)),
            "Functional.linear.0.backward": {"input": of(wide), "output": of(rows)},
        }
    construct: dict[str, str | None] = {name: f"{module}.{name.rpartition('.')[2]}.0" for name in data}
    for way in ("forward", "backward"):
        data[f"{module}.{way}.0"] = forward(of(wide), of(wide)) if way == "forward" else {
            "input": of(wide), "output": of(wide)
        }  # fmt: skip
        construct[f"{module}.{way}.0"] = None
    return write_dump(folder, {"task": "statistics", "level": "mix", "framework": framework, "data": data}, construct)


def test_the_gradient_of_a_step_within_a_call_of_another_framework_is_compared_with_nothing(tmp_path: Path) -> None:
    pairs = match(one_layer(tmp_path / "target", "mindspore"), one_layer(tmp_path / "golden", "pytorch"))

    found = entries(pairs)
    assert found["Primitive.matmul.MatMul.0.forward"] == "Functional.linear.0.forward"
    compared = [
        pair
        for pair in pairs.pairs
        if pair.golden is not None and str(entry(pairs.golden, pair.golden)) == "Functional.linear.0.backward"
    ]
    (step,) = [pair for pair in compared if str(pair.golden and pair.golden.slot) == "output.0"]
    assert step.target is None
    assert step.reason is not None
    assert "no argument of the call has its shape" in step.reason.text
    assert step.reason.expectation is Expectation.EXPECTED
    assert_every_tensor_is_in_a_pair(pairs)


def convolutions(folder: Path, framework: str) -> Path:
    """Two convolutions, the first with a bias, which MindSpore adds in a call of its own."""

    def of(name: str, *shapes: tuple[int, ...]) -> list[dict[str, Any]]:
        kind, dtype = ("mindspore.Tensor", "Float32") if framework == "mindspore" else ("torch.Tensor", "torch.float32")
        return [{**tensor(shape, f"{name} {shape}"), "type": kind, "dtype": dtype} for shape in shapes]

    data: dict[str, Any] = {}
    construct: dict[str, str | None] = {}

    def call(name: str, module: str, given: list[dict[str, Any]], made: list[dict[str, Any]]) -> None:
        data[name] = {"input_args": given, "input_kwargs": {}, "output": made}
        construct[name] = f"{module}.forward.0"

    wide, weight, bias = (2, 8, 5, 5), (8, 8, 3, 3), (8,)
    prefix, kind = ("Cell", "Conv2d") if framework == "mindspore" else ("Module", "Conv2d")
    for number, (path, has_bias) in enumerate((("stem", True), ("body", False))):
        module = f"{prefix}.{path}.{kind}"
        given, result = of(f"in {path}", wide), of(f"out {path}", wide)
        weights = of(path, weight)
        if framework == "mindspore":
            product = of(f"product {path}", wide) if has_bias else result
            call(f"Primitive.conv2d.Conv2D.{number}.forward", module, given + weights, product)
            if has_bias:
                call("Primitive.bias_add.BiasAdd.0.forward", module, product + of(path, bias), result)
        else:
            call(f"Functional.conv2d.{number}.forward", module, given + weights + of(path, bias) * has_bias, result)
        data[f"{module}.forward.0"] = {"input_args": given, "input_kwargs": {}, "output": result}
        construct[f"{module}.forward.0"] = None
    return write_dump(folder, {"task": "statistics", "level": "mix", "framework": framework, "data": data}, construct)


def test_a_convolution_and_its_bias_are_together_the_call_of_the_other_framework(tmp_path: Path) -> None:
    pairs = match(convolutions(tmp_path / "target", "mindspore"), convolutions(tmp_path / "golden", "pytorch"))

    results = {
        str(entry(pairs.target, pair.target)): str(entry(pairs.golden, pair.golden))
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None and str(pair.target.slot).startswith("output")
    }
    assert results["Primitive.bias_add.BiasAdd.0.forward"] == "Functional.conv2d.0.forward"
    assert results["Primitive.conv2d.Conv2D.1.forward"] == "Functional.conv2d.1.forward"
    assert "Primitive.conv2d.Conv2D.0.forward" not in results
    assert suggest_layer_mapping(pairs).classes == {}, "`Conv2D: conv2d` would be wrong of the first"
    assert_every_tensor_is_in_a_pair(pairs)


def test_a_mapping_of_a_convolution_compares_no_result_before_the_bias(tmp_path: Path) -> None:
    target, golden = convolutions(tmp_path / "target", "mindspore"), convolutions(tmp_path / "golden", "pytorch")
    span = Span("m.yaml", 1, 1)
    entries = [ClassEntries("Conv2d", span, (Entry("Conv2D", "conv2d", span),))]
    pairs = match_layer_mapping(read(target), read(golden, "golden"), entries=entries)

    found = {
        (str(entry(pairs.target, pair.target)), str(pair.target.slot))
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None and "Conv2D" in pair.target.node.name
    }
    first, second = "Primitive.conv2d.Conv2D.0.forward", "Primitive.conv2d.Conv2D.1.forward"
    assert {(first, "input.0"), (first, "input.1"), (second, "output.0")} <= found
    assert (first, "output.0") not in found


def test_tensors_of_the_twin_pair_by_what_they_are_not_by_their_slots() -> None:
    pairs = match(DATA / "ms_tensor_base", DATA / "twin_tensor")
    found = {
        (entry(pairs.target, pair.target), str(pair.target.slot)): str(pair.golden.slot)
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None
    }
    norm = "Primitive.layer_norm.LayerNorm.0"
    assert found[f"{norm}.forward", "input.1"] == "input.2"
    assert found[f"{norm}.forward", "input.2"] == "input.3"
    # beta, gamma, x here; x, gamma, beta there
    assert [found[f"{norm}.backward", f"output.{number}"] for number in range(3)] == [
        "output.2",
        "output.1",
        "output.0",
    ]
    assert found["Primitive.bias_add.BiasAdd.1.forward", "input.1"] == "input.2"
    assert found["Cell.norm.LayerNorm.forward.0", "parameter.gamma"] == "parameter.weight"
    assert found["Cell.norm.LayerNorm.parameters_grad.0", "parameter_grad.beta"] == "parameter_grad.bias"


def renamed(content: Any, words: Mapping[str, str]) -> Any:
    """A JSON value with the parts of module names replaced."""
    if isinstance(content, dict):
        return {renamed(key, words): renamed(value, words) for key, value in content.items()}
    if isinstance(content, list):
        return [renamed(value, words) for value in content]
    if isinstance(content, str) and content.startswith("Module."):
        return ".".join(words.get(part, part) for part in content.split("."))
    return words.get(content, content) if content in ("weight", "bias") else content


NAMES = ["emb", "Embedding", "ln1", "ln2", "LayerNorm", "attn", "Attn", "qkv", "proj", "Linear"]
NAMES += ["mlp", "MLP", "fc1", "fc2", "Layer", "layers", "head", "weight", "bias"]


@settings(max_examples=15, deadline=None)
@given(st.permutations(NAMES), st.booleans())
def test_any_renaming_is_undone(shuffled: list[str], are_new: bool) -> None:
    words = {name: f"{new}_x" if are_new else new for name, new in zip(NAMES, shuffled, strict=True)}
    source = DATA / "pt_stat_base" / "step0" / "proc1000"
    dump, construct = (json.loads((source / name).read_text()) for name in ("dump.json", "construct.json"))
    with tempfile.TemporaryDirectory() as folder:
        target = read(write_dump(Path(folder), renamed(dump, words), renamed(construct, words)))
    pairs = match_structure(target, read("pt_stat_base", "golden"))
    assert entries(pairs) == {renamed(name, words): name for name in dump["data"]}
    assert all(pair.target is not None and pair.golden is not None for pair in pairs.pairs)


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return read(layers(list(range(8))).write(tmp_path_factory.mktemp("eight")), "golden")


def layer_partners(pairs: Pairs) -> dict[str, str]:
    """Number of each target layer -> number of its partner."""
    return {
        one.split(".")[2]: other.split(".")[2]
        for one, other in entries(pairs).items()
        if one.endswith(".Layer.forward.0")
    }


def test_a_copy_with_the_noise_of_bfloat16_pairs_like_the_original(tmp_path: Path, eight: Catalog) -> None:
    target = read(layers(list(range(8)), noise=0.008).write(tmp_path))
    assert items(match_structure(target, eight)) == items(match_name(target, eight))


@pytest.mark.parametrize("path", ["layers", "blocks"])
@pytest.mark.parametrize("noise", [0.0, 0.008])
def test_values_tell_which_layer_was_dropped(tmp_path: Path, eight: Catalog, path: str, noise: float) -> None:
    kept = [0, 1, 2, 4, 5, 6, 7]
    pairs = match_structure(read(layers(kept, noise=noise, path=path).write(tmp_path)), eight)
    assert layer_partners(pairs) == {str(place): str(number) for place, number in enumerate(kept)}
    assert pairs.problems == ()
    dropped = {name for side, name in lone(pairs) if side == "golden"}
    assert "Module.layers.3.Layer.forward.0" in dropped
    assert "Module.layers.3.attn.q.Linear.parameters_grad.0" in dropped
    assert len(dropped) == 16 + 16 + 5  # forward, backward, gradients of parameters


def test_an_inserted_layer_stays_alone_and_shifts_nothing(tmp_path: Path, eight: Catalog) -> None:
    pairs = match_structure(read(layers([0, 1, 2, 99, *range(3, 8)], path="blocks").write(tmp_path)), eight)
    assert layer_partners(pairs) == {"0": "0", "1": "1", "2": "2", **{str(n + 1): str(n) for n in range(3, 8)}}
    assert ("target", "Module.blocks.3.Layer.forward.0") in lone(pairs)
    assert not any(side == "golden" for side, _ in lone(pairs))


def test_layers_that_nothing_tells_apart_pair_in_order_and_say_that_it_is_a_guess(
    tmp_path: Path, eight: Catalog
) -> None:
    pairs = match_structure(read(layers(list(range(100, 107)), path="blocks").write(tmp_path)), eight)
    assert layer_partners(pairs) == {str(number): str(number) for number in range(7)}
    assert [problem.code for problem in pairs.problems] == ["PF4241"]
    assert "PF4241" in CODES
    of_layer = next(
        pair for pair in pairs.pairs if entry(pairs.target, pair.target) == "Module.blocks.2.Layer.forward.0"
    )
    assert of_layer.confidence == 0.5
    assert of_layer.reason is not None
    assert "`Module.layers.3.Layer.forward.0` of the golden fits it as well: the order decided" in of_layer.reason.text
    inside = next(
        pair for pair in pairs.pairs if entry(pairs.target, pair.target) == "Module.blocks.2.attn.q.Linear.backward.0"
    )
    assert inside.confidence == 0.5
    assert inside.reason is not None
    assert "within `Module.blocks.2.Layer.forward.0`, whose partner is a guess" in inside.reason.text


def test_24_layers_of_equal_values_keep_their_order(tmp_path: Path) -> None:
    golden = read(layers([7] * 24).write(tmp_path / "golden"), "golden")
    pairs = match_structure(read(layers([7] * 24, path="blocks").write(tmp_path / "target")), golden)
    assert layer_partners(pairs) == {str(number): str(number) for number in range(24)}
    assert lone(pairs) == set()
    fewer = match_structure(read(layers([7] * 23, path="blocks").write(tmp_path / "fewer")), golden)
    found = {int(one): int(other) for one, other in layer_partners(fewer).items()}
    assert [*found.values()] == sorted(found.values())
    assert len(found) == 23
    assert "PF4241" in {problem.code for problem in fewer.problems}


def test_values_wrong_behind_a_fault_do_not_mislead(tmp_path: Path, eight: Catalog) -> None:
    program = layers(list(range(8)), path="blocks")
    names = list(program.data)
    behind = names.index("Module.blocks.4.norm.LayerNorm.forward.0")
    for name in names[behind:]:
        for part in ("input_args", "output"):
            for place, value in enumerate(program.data[name][part]):
                program.data[name][part][place] = {**value, "Max": 1e4, "Min": float("nan"), "Norm": 1e9}
    pairs = match_structure(read(program.write(tmp_path)), eight)
    assert layer_partners(pairs) == {str(number): str(number) for number in range(8)}
    assert lone(pairs) == set()


def test_a_wrong_weight_stays_where_it_is(tmp_path: Path, eight: Catalog) -> None:
    """Layers 2 and 3 have exchanged their weights; under equal names that is the fault to be seen."""
    pairs = match_structure(read(layers([0, 1, 3, 2, 4, 5, 6, 7]).write(tmp_path)), eight)
    assert layer_partners(pairs) == {str(number): str(number) for number in range(8)}


def test_siblings_in_another_order_find_their_own_parameters(tmp_path: Path) -> None:
    def heads(words: str, prefix: str) -> Program:
        program = Program()
        with program.module("attn", "Attention"):
            for word in words:
                program.linear(f"attn.{prefix}{word}", seed=word)
        return program

    pairs = match(heads("qvk", "to_").write(tmp_path / "target"), heads("qkv", "").write(tmp_path / "golden"))
    found = entries(pairs)
    for word in "qkv":
        assert found[f"Module.attn.to_{word}.Linear.forward.0"] == f"Module.attn.{word}.Linear.forward.0"
        assert found[f"Module.attn.to_{word}.Linear.backward.0"] == f"Module.attn.{word}.Linear.backward.0"
    moved = [pair for pair in pairs.pairs if entry(pairs.target, pair.target) == "Module.attn.to_k.Linear.forward.0"]
    assert all(pair.confidence == 0.7 and pair.reason is not None for pair in moved)


def wrapped(seeds: list[int]) -> Program:
    program = Program()
    program.linear("embed", seed="embed", shape=(HIDDEN, 32))
    with program.module("body", "Body"), program.module("body.stack", "Sequential"):
        for number, seed in enumerate(seeds):
            layer(program, f"body.stack.{number}", seed=seed)
    program.linear("head", seed="head", shape=(32, HIDDEN))
    return program


def grouped(seeds: list[int], size: int) -> Program:
    program = Program()
    program.linear("embed", seed="embed", shape=(HIDDEN, 32))
    for start in range(0, len(seeds), size):
        with program.module(f"group.{start // size}", "Group"):
            for place, seed in enumerate(seeds[start : start + size]):
                layer(program, f"group.{start // size}.{place}", seed=seed)
    program.linear("head", seed="head", shape=(32, HIDDEN))
    return program


@pytest.mark.parametrize("is_target", [True, False])
def test_a_level_of_modules_that_one_side_has_is_looked_through(tmp_path: Path, *, is_target: bool) -> None:
    seeds = list(range(8))
    folders = [wrapped(seeds).write(tmp_path / "wrapped"), layers(seeds).write(tmp_path / "plain")]
    pairs = match(*folders) if is_target else match(*folders[::-1])
    side = "target" if is_target else "golden"
    levels = ("body.Body", "body.stack.Sequential")
    assert lone(pairs) == {(side, f"Module.{name}.{way}.0") for name in levels for way in ("forward", "backward")}
    alone = [pair.reason for pair in pairs.pairs if pair.target is None or pair.golden is None]
    assert {reason.code for reason in alone if reason} == {
        "wrapper",
        f"no_{'golden' if is_target else 'target'}_forward",
    }
    assert all(reason is not None and reason.expectation is Expectation.EXPECTED for reason in alone)


def test_layers_grouped_otherwise_pair_one_by_one(tmp_path: Path) -> None:
    seeds = list(range(8))
    pairs = match(grouped(seeds, 4).write(tmp_path / "four"), grouped(seeds, 2).write(tmp_path / "two"))
    found = {one: other for one, other in entries(pairs).items() if one.endswith(".Layer.forward.0")}
    assert list(found.values()) == [f"Module.group.{n // 2}.{n % 2}.Layer.forward.0" for n in range(8)]


def test_a_call_that_only_one_side_has_names_its_nearest(tmp_path: Path, eight: Catalog) -> None:
    calls: list[str | None] = [None] * 8
    calls[2] = "Tensor.__mul__"
    target = read(layers(list(range(8)), calls=calls).write(tmp_path))  # type: ignore[arg-type]
    pairs = match_structure(target, eight)
    assert lone(pairs) == {("target", f"Tensor.__mul__.0.{way}") for way in ("forward", "backward")}
    reasons = [pair.reason for pair in pairs.pairs if pair.golden is None]
    assert reasons[0] is not None
    assert reasons[0].expectation is Expectation.MISSING
    assert "nearest: `Tensor.__add__.2.forward` (it has a partner already)" in reasons[0].text


def test_dumps_of_apis_alone_pair_in_order_and_say_so(tmp_path: Path) -> None:
    def flat(extra: int | None) -> Path:
        program = Program()
        for number in range(30):
            weight = program.tensor((HIDDEN, HIDDEN), f"w {number}")
            program.call("Functional.linear", program.hidden(), weight)
            if number == extra:
                program.call("Tensor.__mul__", program.hidden())
            program.call("Functional.gelu", program.hidden())
        dump = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": program.data}
        return write_dump(tmp_path / str(extra), dump, {})

    pairs = match(flat(17), flat(None))
    assert lone(pairs) == {("target", "Tensor.__mul__.0.forward")}
    assert all(one == other for one, other in entries(pairs).items())
    assert [problem.code for problem in pairs.problems] == ["PF4242"]


def test_modules_without_construct_json_are_arranged_by_their_paths(tmp_path: Path) -> None:
    source = DATA / "pt_tensorL0_base" / "step0" / "proc1000" / "dump.json"
    dump = json.loads(source.read_text())
    dump["task"] = "statistics"
    dump["data"] = {
        name.replace(".mlp.", ".ffn.").replace(".MLP.", ".FFN."): value for name, value in dump["data"].items()
    }
    pairs = match_structure(read(write_dump(tmp_path, dump, None)), read("pt_tensorL0_base", "golden"))
    assert lone(pairs) == set()
    assert entries(pairs)["Module.layers.0.ffn.fc1.Linear.backward.0"] == "Module.layers.0.mlp.fc1.Linear.backward.0"
    assert [problem.code for problem in pairs.problems] == ["PF4242"]


def test_different_models_have_little_in_common(tmp_path: Path) -> None:
    program = Program()
    for number in range(20):
        program.call(
            "Functional.conv2d", program.tensor((1, 3, 9, 9), number), output=program.tensor((1, 4, 7, 7), number)
        )
    pairs = match_structure(read(program.write(tmp_path)), read("pt_stat_base", "golden"))
    assert "PF4240" in {problem.code for problem in pairs.problems}
    assert_every_tensor_is_in_a_pair(pairs)


def test_backward_calls_alone_pair_as_a_tree_of_their_own(tmp_path: Path) -> None:
    def backward_only(path: str) -> Path:
        catalog = layers([1, 2, 3], path=path)
        folder = catalog.write(tmp_path / path)
        place = folder / "step0" / "proc1" / "dump.json"
        dump = json.loads(place.read_text())
        dump["data"] = {name: value for name, value in dump["data"].items() if ".forward" not in name}
        place.write_text(json.dumps(dump))
        return folder

    pairs = match(backward_only("blocks"), backward_only("layers"))
    assert lone(pairs) == set()
    assert all(one.replace("blocks", "layers") == other for one, other in entries(pairs).items())


def test_recomputed_forwards_are_no_gap(tmp_path: Path) -> None:
    source = DATA / "pt_stat_base" / "step0" / "proc1000"
    dump, construct = (json.loads((source / name).read_text()) for name in ("dump.json", "construct.json"))
    data = list(dump["data"].items())
    at = next(place for place, (name, _) in enumerate(data) if name == "Functional.linear.3.backward")
    for api, number, again in (("linear", 2, 5), ("gelu", 0, 1), ("linear", 3, 6)):
        entry_again = f"Functional.{api}.{again}.forward"
        construct[entry_again] = "Module.layers.0.mlp.MLP.forward.1"
        data.insert(at, (entry_again, dump["data"][f"Functional.{api}.{number}.forward"]))
        construct[f"Functional.{api}.{number}.forward"] = "Module.layers.0.mlp.MLP.forward.0"
        at += 1
    dump["data"] = dict(data)
    pairs = match_structure(read(write_dump(tmp_path, dump, construct)), read("pt_stat_base", "golden"))
    assert not any(side == "golden" for side, _ in lone(pairs))
    assert_every_tensor_is_in_a_pair(pairs)
    assert all(one == other for one, other in entries(pairs).items() if one.endswith(".backward"))


def test_ranks_pair_as_they_do_by_name(tmp_path: Path) -> None:
    catalog = read("pt_stat_base")
    pairs = match_structure(catalog, replace(catalog, side="golden"), step_offset=3)
    assert [problem.code for problem in pairs.problems] == ["PF4203", "PF4203"]
    assert all(pair.reason is not None and "no counterpart" in pair.reason.text for pair in pairs.pairs)


def test_nodes_without_tensors_and_an_empty_tree_do_no_harm(tmp_path: Path) -> None:
    entry_value: dict[str, object] = {"input_args": [], "input_kwargs": {}, "output": []}
    dump = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": {"Tensor.x.0.forward": entry_value}}
    folder = write_dump(tmp_path, dump, {"Tensor.x.0.forward": "Module.gone.Gone.forward.0"})
    pairs = match(folder, folder)
    assert pairs.pairs == ()
    assert len(pairs.groups) == 1


def with_a_strange_and_two_missing(layer_count: int) -> list[int]:
    half = layer_count // 2
    return [*range(half - 7), 999, *range(half - 4, layer_count)]


@pytest.mark.parametrize("seeds_of", [lambda count: list(range(count)), with_a_strange_and_two_missing])
def test_twice_the_nodes_take_twice_the_work(tmp_path: Path, seeds_of: Callable[[int], list[int]]) -> None:
    def work(layer_count: int) -> Callable[[], object]:
        seeds = seeds_of(layer_count)
        folder = tmp_path / str(layer_count)
        golden = read(layers(list(range(layer_count))).write(folder / "golden"), "golden")
        target = read(layers(seeds, path="blocks", noise=0.004).write(folder / "target"))
        return partial(match_structure, target, golden)

    assert growth(work, 40) < 2.2


def test_a_strange_layer_and_missing_ones_among_5000_nodes_move_no_other(tmp_path: Path) -> None:
    golden = read(layers(list(range(135))).write(tmp_path / "golden"), "golden")
    seeds = with_a_strange_and_two_missing(135)
    pairs = match_structure(read(layers(seeds, path="blocks", noise=0.004).write(tmp_path / "target")), golden)
    partners = layer_partners(pairs)
    assert [int(other) for one, other in partners.items() if int(one) < 60] == list(range(60))
    assert partners[str(len(seeds) - 1)] == "134"


def test_every_link_keeps_the_direction() -> None:
    pairs = match(DATA / "ms_tensor_base", DATA / "twin_tensor")
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            assert pair.target.node.phase is pair.golden.node.phase or Phase.NONE in (
                pair.target.node.phase,
                pair.golden.node.phase,
            )


def test_every_guess_is_one_for_the_analysis(tmp_path: Path) -> None:
    def net(kind: str, seeds: list[int]) -> Program:
        program = layers(seeds, path="blocks" if kind == "target" else "layers")
        given = program.tensor((3,), "odd")
        changed = {**given, "dtype": "torch.float64"} if kind == "target" else given
        program.call("Functional.odd" if kind == "target" else "Functional.even", changed, output=given)
        return program

    pairs = match(net("target", [50, 51]).write(tmp_path / "t"), net("golden", [0, 1, 2]).write(tmp_path / "g"))
    weak = [pair for pair in pairs.pairs if pair.target and pair.golden and pair.confidence <= GUESS]
    assert {pair.confidence for pair in weak} == {0.5, 0.6}
    assert all(pair.is_guess for pair in weak)
    texts = [pair.reason.text for pair in weak if pair.reason and "dtypes differ" in pair.reason.text]
    assert texts
    assert all("paired by structure, confidence 0.6" in text for text in texts)


def test_a_likeness_does_not_depend_on_the_order_in_which_its_parts_are_added() -> None:
    # `sum` rounds otherwise from Python 3.12 on, which decided about ties.
    parts = {"content": 0.7, "parameters": 0.1, "shapes": 0.3, "class": 1.0, "path": 0.9}
    found = {likeness._weighted(dict(order)) for order in permutations(parts.items())}
    (only,) = found
    assert only == pytest.approx((0.245 + 0.02 + 0.06 + 0.05 + 0.045) / 0.85, abs=1e-15)
