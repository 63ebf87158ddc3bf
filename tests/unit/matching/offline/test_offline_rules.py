"""Offline models matched by fusion rules: each relation, casts, network inputs, and every reason of a failure."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from offline_builders import Case, by_golden, by_target, check_complete, codes, partners, read, values
from om_writer import tensor
from rule_builders import desc, op

from probe_flow.analysis.silent_operators import silent_operators
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.dumps.selection import Selection as Dumped
from probe_flow.errors import UsageError
from probe_flow.matching.offline.by_ids import Selection, selected_by_ids, selected_by_range
from probe_flow.matching.offline.match_offline import match_offline
from probe_flow.matching.offline.models import RuleBook
from probe_flow.records import Expectation, NodeKey, Pairs, Relation, RuleFacts

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def out(origin: str | None = None, index: int | None = 0, **given: object) -> dict[str, object]:
    return desc(origin, index if origin is not None else None, origin_layout="ND", **given)  # type: ignore[arg-type]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def group_of(pairs: Pairs, node: str) -> tuple[str, Relation, list[str], list[str]]:
    found = next(group for group in pairs.groups if node in [key.name for key in group.target_nodes])
    names = [[key.name for key in side] for side in (found.target_nodes, found.golden_nodes)]
    return found.id, found.relation, *names


def test_one_to_one_inputs_are_compared_with_the_outputs_of_their_producers(case: Case) -> None:
    case.device("Relu", "a/b.c", outputs=[X])
    case.device("Relu", "d", inputs=[X], outputs=[X])
    for name in ("a/b.c", "d"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("a/b.c", "Relu", number=1, originals=["a/b.c"], outputs=[out("a/b.c")]),
        op("d", "Relu", number=2, inputs=["a/b.c:0"], originals=["d"], outputs=[out("d")]),
    )
    pairs = case.match(rule=rule)
    assert partners(pairs) == {
        "a/b.c.output.0": "a_b_c.output.0",
        "d.input.0": "a_b_c.output.0",
        "d.output.0": "d.output.0",
    }
    assert {pair.rule.name for pair in pairs.pairs} == {"one_to_one"}
    assert by_target(pairs)["d.output.0"].rule_span.file == str(rule)  # type: ignore[union-attr]
    assert group_of(pairs, "d") == ("1", Relation.ONE_TO_ONE, ["d"], ["d"])
    check_complete(pairs)


def test_an_operator_made_of_several_originals_gives_the_last_one(case: Case) -> None:
    case.device("Conv2D", "convrelu", outputs=[X])
    for name in ("conv", "bn", "relu"):
        case.golden.output(name, 0, X)
    rule = case.rule(op("convrelu", number=1, originals=["conv", "bn", "relu"], outputs=[out("relu")]))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {"convrelu.output.0": "relu.output.0"}
    assert codes(by_golden(pairs)) == {"conv.output.0": "internal expected", "bn.output.0": "internal expected"}
    assert group_of(pairs, "convrelu") == ("0", Relation.ONE_TO_MANY, ["convrelu"], ["conv", "bn", "relu"])
    check_complete(pairs)


def split_rule(case: Case, **later: object) -> Path:
    return case.rule(
        op("before", "Relu", number=1, originals=["before"], outputs=[out("before")]),
        op("sum", "ReduceSum", number=2, inputs=["before:0"], originals=["gap"], outputs=[out()], is_multiop=True),
        op("gap", "RealDiv", number=3, inputs=["sum:0"], originals=["gap"], outputs=[out("gap")], is_multiop=True),
    )


def test_an_original_that_the_compiler_split(case: Case) -> None:
    case.device("Relu", "before", outputs=[X])
    case.device("ReduceSum", "sum", inputs=[X], outputs=[X])
    case.device("RealDiv", "gap", inputs=[X], outputs=[X])
    for name in ("before", "gap"):
        case.golden.output(name, 0, X)
    pairs = case.match(rule=split_rule(case))
    found = by_target(pairs)
    assert partners(pairs) == {
        "before.output.0": "before.output.0",
        "sum.input.0": "before.output.0",
        "gap.output.0": "gap.output.0",
    }
    assert found["sum.input.0"].rule.name == "inner_input"
    assert found["gap.output.0"].rule.name == "many_to_one"
    assert codes(found) == {"sum.output.0": "inner_node expected", "gap.input.0": "no_golden_dump expected"}
    text = "`sum` is one of several operators for the same originals and gives none of their tensors"
    assert found["sum.output.0"].reason.text == text  # type: ignore[union-attr]
    assert group_of(pairs, "gap") == ("1", Relation.MANY_TO_ONE, ["sum", "gap"], ["gap"])
    rules = pairs.target.nodes[found["sum.input.0"].target.node].rules  # type: ignore[union-attr]
    assert rules == RuleFacts("sum", 2, is_inner=True)
    check_complete(pairs)


def test_several_operators_of_several_originals(case: Case) -> None:
    for name in ("first", "second"):
        case.device("Conv2D", name, outputs=[X])
    for name in ("a", "b"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("first", number=1, originals=["a", "b"], outputs=[out("a")], is_multiop=True),
        op("second", number=2, inputs=["first:0"], originals=["a", "b"], outputs=[out("b")], is_multiop=True),
    )
    pairs = case.match(rule=rule)
    assert partners(pairs) == {"first.output.0": "a.output.0", "second.output.0": "b.output.0"}
    assert {pair.rule.name for pair in pairs.pairs} == {"many_to_many"}
    assert group_of(pairs, "first")[1] is Relation.MANY_TO_MANY


@pytest.mark.parametrize(("originals", "compared"), [(["a", "a", "a"], {"c"}), (["a", "b", "c"], {"a", "c"})])
def test_of_an_l1_group_the_newest_counts_and_the_oldest_of_other_originals(
    case: Case, originals: list[str], compared: set[str]
) -> None:
    for name in "abc":
        case.device("Conv2D", f"l{name}", outputs=[X])
        case.golden.output(name, 0, X)
    rule = case.rule(
        *(
            op(f"l{name}", number=n, originals=[original], outputs=[out(name)], l1="7")
            for n, (name, original) in enumerate(zip("abc", originals, strict=True), start=1)
        )
    )
    pairs = case.match(rule=rule)
    assert set(partners(pairs)) == {f"l{name}.output.0" for name in compared}
    skipped = {f"l{name}.output.0": "l1_inner expected" for name in set("abc") - compared}
    assert codes(by_target(pairs)) == skipped
    assert group_of(pairs, "la")[:2] == ("0", Relation.L1)
    check_complete(pairs)


def test_an_l1_group_without_files_says_so(case: Case) -> None:
    case.device("Relu", "other", outputs=[X])
    case.golden.output("a", 0, X)
    rule = case.rule(
        op("la", number=1, originals=["a"], outputs=[out("a")], l1="7"),
        op("lb", number=2, originals=["a"], outputs=[out()], l1="7"),
        op("other", "Relu", number=3, originals=["other"], outputs=[out("other")]),
    )
    reason = by_golden(case.match(rule=rule))["a.output.0"].reason
    assert reason is not None
    assert reason.code == "empty_l1"
    assert reason.text.startswith("no operator of the L1 group `7` has a file in the device dump")


def test_casts_and_changes_of_layout_are_passed_over(case: Case) -> None:
    case.device("Relu", "a", outputs=[X])
    case.device("TransData", "t", inputs=[X], outputs=[X])
    case.device("Cast", "c", inputs=[X], outputs=[X])
    case.device("Relu", "b", inputs=[X], outputs=[X])
    for name in "ab":
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]),
        op("t", "TransData", number=2, inputs=["a:0"], originals=[], outputs=[out()]),
        op("c", "Cast", number=3, inputs=["t:0"], originals=[], outputs=[out()]),
        op("b", "Relu", number=4, inputs=["c:0"], originals=["b"], outputs=[out("b")]),
    )
    pairs = case.match(rule=rule)
    found = by_target(pairs)
    passed = {"t.output.0", "c.input.0", "c.output.0", "b.input.0"}
    assert {name for name, pair in found.items() if pair.rule.name == "cast_skipped"} == passed
    assert {partners(pairs)[name] for name in passed} == {"a.output.0"}
    assert found["t.input.0"].rule.name == "one_to_one"
    assert "`c`, `t`" in found["b.input.0"].reason.text  # type: ignore[union-attr]
    assert [(edge.producer.name, edge.consumer.name, edge.input) for edge in pairs.target.edges] == [
        ("a", "t", 0),
        ("t", "c", 0),
        ("c", "b", 0),
    ]


def test_a_cast_of_the_model_itself_is_compared_with_its_own_golden(case: Case) -> None:
    case.device("Relu", "a", outputs=[X])
    case.device("Cast", "cast", inputs=[X], outputs=[X])
    for name in ("a", "cast"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]),
        op("cast", "Cast", number=2, inputs=["a:0"], originals=["cast"], outputs=[out("cast")]),
    )
    assert partners(case.match(rule=rule))["cast.output.0"] == "cast.output.0"


@pytest.mark.parametrize("originals", [None, []])
def test_what_was_inserted_gives_what_it_got_whatever_operator_it_was_inserted_for(
    case: Case, originals: list[str] | None
) -> None:
    # As ATC writes it: the change of layout between Pad_49 and Conv_52 names Conv_52, and so does the one behind it.
    case.device("PadV3", "pad", outputs=[X])
    case.device("TransData", "before", inputs=[X], outputs=[X])
    case.device("Conv2D", "conv", inputs=[X], outputs=[X])
    case.device("TransData", "behind", inputs=[X], outputs=[X])
    for name in ("pad", "conv"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("pad", "PadV3", number=1, originals=["pad"], outputs=[out("pad")]),
        op("before", "TransData", number=2, inputs=["pad:0"], originals=originals, outputs=[out("conv")]),
        op("conv", "Conv2D", number=3, inputs=["before:0"], originals=["conv"], outputs=[out("conv")]),
        op("behind", "TransData", number=4, inputs=["conv:0"], originals=originals, outputs=[out("conv")]),
    )
    assert partners(case.match(rule=rule)) == {
        "pad.output.0": "pad.output.0",
        "before.input.0": "pad.output.0",
        "before.output.0": "pad.output.0",
        "conv.input.0": "pad.output.0",
        "conv.output.0": "conv.output.0",
        "behind.input.0": "conv.output.0",
        "behind.output.0": "conv.output.0",
    }


@pytest.mark.parametrize(("origin", "partner"), [("norm", None), ("folded", "folded.output.0")])
def test_a_constant_is_no_result_of_the_operator_that_it_was_made_for(
    case: Case, origin: str, partner: str | None
) -> None:
    # As ATC writes it: what it made of the scale of BatchNormalization_353 names that, and its output 0.
    case.device("BNInferenceD", "norm", inputs=[X, X[0]], outputs=[X])
    for name, data in (("x", X), ("norm", X[0]), ("folded", X[0])):
        case.golden.output(name, 0, data)
    rule = case.rule(
        op("x", "Relu", number=1, originals=["x"], outputs=[out("x")]),
        op("dynamic_const_81", "Const", number=2, outputs=[out(origin)]),
        op("norm", "BNInferenceD", number=3, inputs=["x:0", "dynamic_const_81:0"], originals=["norm", "scale"],
           outputs=[out("norm")]),
    )  # fmt: skip
    pairs = case.match(rule=rule)
    assert partners(pairs).get("norm.input.1") == partner
    if partner is None:
        assert by_target(pairs)["norm.input.1"].reason.text == (  # type: ignore[union-attr]
            "`dynamic_const_81` is a constant of the model, which the golden dump does not have"
        )


def test_casts_in_a_ring_end(case: Case) -> None:
    case.device("Cast", "a", outputs=[X])
    case.golden.output("z", 0, X)
    rule = case.rule(
        op("a", "Cast", number=1, inputs=["b:0"], originals=[], outputs=[out()]),
        op("b", "Cast", number=2, inputs=["a:0"], originals=[], outputs=[out()]),
    )
    assert codes(by_target(case.match(rule=rule))) == {"a.output.0": "no_golden_dump expected"}


@pytest.mark.parametrize(
    ("inputs", "code", "text", "facts"),
    [
        (["nobody:0"], "unknown_producer", "its producer `nobody` is not in the rules", ("nobody",)),
        ([], "input_index", "the dump has an input of index 0, the rules list 0", ("0", "0")),
        (["a:x"], "input_malformed", "the rules say of this input `a:x`", ("a:x",)),
        (["a"], "input_malformed", "the rules say of this input `a`", ("a",)),
        ([":0"], "input_malformed", "the rules say of this input `:0`", (":0",)),
        (["a:3"], "no_golden_dump", "the rules do not describe output 3 of `a`", ()),
    ],
)
def test_inputs_that_the_rules_do_not_explain(
    case: Case, inputs: list[str], code: str, text: str, facts: tuple[str, ...]
) -> None:
    case.device("Relu", "b", inputs=[X], outputs=[X])
    case.golden.output("b", 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]),
        op("b", "Relu", number=2, inputs=inputs, originals=["b"], outputs=[out("b")]),
    )
    pairs = case.match(rule=rule)
    reason = by_target(pairs)["b.input.0"].reason
    assert reason is not None
    assert (reason.code, reason.facts, reason.expectation.value) == (code, facts, "missing")
    assert reason.text.startswith(text)
    assert partners(pairs) == {"b.output.0": "b.output.0"}
    check_complete(pairs)


def test_constants_and_what_only_the_device_has_need_no_golden(case: Case) -> None:
    case.device("TransData", "t", inputs=[X], outputs=[X])
    case.device("Conv2D", "conv", inputs=[X, X], outputs=[X, X])
    case.golden.output("conv", 0, X)
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[out("x")]),
        op("w", "Const", number=2, originals=[], outputs=[out()]),
        op("t", "TransData", number=3, inputs=["x:0"], originals=[], outputs=[out()]),
        op("conv", number=4, inputs=["t:0", "w:0"], originals=["bias", "conv"], outputs=[out("conv"), out()]),
    )
    pairs = case.match(rule=rule)
    expected = "no_golden_dump expected"
    assert codes(by_target(pairs)) == {
        "t.input.0": expected,
        "t.output.0": "self expected",
        "conv.input.0": "self expected",
        "conv.input.1": expected,
        "conv.output.1": expected,
    }
    undumped = {
        key.name: node for key, node in pairs.target.nodes.items() if not (node.rules is None or node.rules.is_dumped)
    }
    assert {name: node.op_type for name, node in undumped.items()} == {"x": "Data", "w": "Const"}
    assert undumped["x"].originals == ("x",)
    assert group_of(pairs, "w") == ("1", Relation.ONE_TO_ONE, ["w"], [])
    # An input from a constant or from outside is a source: no edge.
    assert [(edge.producer.name, edge.consumer.name) for edge in pairs.target.edges] == [("t", "conv")]


def test_outputs_that_the_rules_promise_are_gaps(case: Case) -> None:
    case.device("Split", "s", outputs=[X, X, X])
    case.golden.output("s", 0, X)
    rule = case.rule(op("s", "Split", number=1, originals=["s"], outputs=[out("s"), out("s", 1)]))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {"s.output.0": "s.output.0"}
    missing = "no_golden_dump missing"
    assert codes(by_target(pairs)) == {"s.output.1": missing, "s.output.2": missing}


@pytest.mark.parametrize(("kind", "expectation"), [("ApplyAdamD", "expected"), ("SplitD", "missing")])
def test_states_that_an_optimizer_keeps_are_no_tensors_of_tensorflow(case: Case, kind: str, expectation: str) -> None:
    case.device(kind, "adam/update_w", outputs=[X, X, X])
    case.golden.output("adam/update_w", 0, X)
    outputs = [out("adam/update_w", index) for index in range(3)]
    rule = case.rule(op("adam/update_w", kind, number=1, originals=["adam/update_w"], outputs=outputs))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {"adam/update_w.output.0": "adam_update_w.output.0"}
    left = f"no_golden_dump {expectation}"
    assert codes(by_target(pairs)) == {"adam/update_w.output.1": left, "adam/update_w.output.2": left}


@pytest.mark.parametrize(
    ("name", "expectation"),
    [
        ("train/update_w/ResourceApplyGradientDescent", "expected"),
        ("Adam/update/ResourceApplyAdam_3", "expected"),
        ("count/AssignAddVariableOp", "expected"),
        ("train/update_w/ApplyGradientDescent", "missing"),
        ("ResourceApplyAdam/read", "missing"),
    ],
)
def test_what_updates_a_resource_gives_tensorflow_no_tensor(case: Case, name: str, expectation: str) -> None:
    case.device("Relu", "a", outputs=[X])
    case.device("Apply", name, outputs=[X])
    case.golden.output("a", 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]),
        op(name, "Apply", number=2, originals=[name], outputs=[out(name)]),
    )
    assert codes(by_target(case.match(rule=rule))) == {f"{name}.output.0": f"no_golden_dump {expectation}"}


def test_the_origin_index_names_the_golden_output(case: Case) -> None:
    case.device("Split", "s", outputs=[X, X])
    for index in (0, 1):
        case.golden.output("s", index, X)
    rule = case.rule(op("s", "Split", number=1, originals=["s"], outputs=[out("s", 1), out("s", 0)]))
    assert partners(case.match(rule=rule)) == {"s.output.0": "s.output.1", "s.output.1": "s.output.0"}


def test_operators_without_a_file(case: Case) -> None:
    case.device("Relu", "a", outputs=[X])
    for name in ("a", "b", "x", "lost"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[out("x")]),
        op("a", "Relu", number=2, originals=["a"], outputs=[out("a"), out("lost")]),
        op("b", "Relu", number=3, inputs=["a:0"], originals=["b"], outputs=[out("b")]),
    )
    pairs = case.match(rule=rule)
    found = by_golden(pairs)
    assert codes(found) == {
        "b.output.0": "no_target_dump missing",
        "x.output.0": "no_target_dump expected",
        "lost.output.0": "no_rule_op outside",
    }
    reason = found["b.output.0"].reason
    assert reason is not None
    assert reason.text == "the device dump has no file of `b` (Relu), which computes it: dump that operator too"
    assert reason.facts == ("b", "Relu")
    assert found["b.output.0"].group == "2"
    check_complete(pairs)


def test_an_output_that_the_device_file_lacks(case: Case) -> None:
    case.device("Split", "s", outputs=[X])
    for index in (0, 1):
        case.golden.output("s", index, X)
    rule = case.rule(op("s", "Split", number=1, originals=["s"], outputs=[out("s"), out("s", 1)]))
    assert codes(by_golden(case.match(rule=rule))) == {"s.output.1": "no_target_tensor missing"}


def test_tensors_that_cannot_be_read(case: Case) -> None:
    case.device("Relu", "a", outputs=[tensor(X, data_type=13), tensor(X, data_type=99)])
    case.device("Relu", "b", outputs=[X]).write_bytes(b"\x00" * 20)
    for index in (0, 1):
        case.golden.output("a", index, X)
    case.golden.output("b", 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a"), out("a", 1)]),
        op("b", "Relu", number=2, originals=["b"], outputs=[out("b")]),
    )
    pairs = case.match(rule=rule)
    found = by_target(pairs)
    text = "elements of type `DT_STRING` (device type 13) cannot be read as numbers"
    assert found["a.output.0"].reason.text == text  # type: ignore[union-attr]
    assert {pair.reason.code for pair in found.values() if pair.reason} == {"dtype_unsupported", "unreadable"}
    check_complete(pairs)


def test_missing_slices_have_a_reason_of_their_own(case: Case) -> None:
    case.target.slices("Conv2D", "conv", at=1, parts=[X[:1], X[1:2]], axis=0, count=3)
    case.golden.output("conv", 0, X)
    rule = case.rule(op("conv", number=1, originals=["conv"], outputs=[out("conv")]))
    reason = by_target(case.match(rule=rule))["conv.output.0"].reason
    assert reason is not None
    assert reason.code == "slices_missing"
    assert reason.text.startswith("not all slices of this tensor were dumped")


def fed(case: Case, *inputs: np.ndarray) -> Path:
    """Write a network whose one operator reads what is fed, through a change of layout."""
    for number, _ in enumerate(inputs):
        case.device("TransData", f"t{number}", inputs=[inputs[number]], outputs=[inputs[number]])
    case.device("AddN", "add", inputs=list(inputs), outputs=[X])
    case.golden.output("add", 0, X)
    numbers = range(len(inputs))
    return case.rule(
        *(op(f"x{n}", "Data", number=1 + n, originals=[f"x{n}"], outputs=[out(f"x{n}")]) for n in numbers),
        *(op(f"t{n}", "TransData", number=10 + n, inputs=[f"x{n}:0"], originals=[], outputs=[out()]) for n in numbers),
        op("add", "AddN", number=20, inputs=[f"t{n}:0" for n in numbers], originals=["add"], outputs=[out("add")]),
    )


def test_what_is_fed_is_compared_with_what_the_golden_read(case: Case) -> None:
    rule = fed(case, X, X)
    for number in (0, 1):
        case.golden.input("add", number, X)
    pairs = case.match(rule=rule)
    found = by_target(pairs)
    assert {name: pair.golden.id for name, pair in found.items() if pair.golden} == {
        **{f"t{n}.{role}.0": f"add.input.{n}" for n in (0, 1) for role in ("input", "output")},
        **{f"add.input.{n}": f"add.input.{n}" for n in (0, 1)},
        "add.output.0": "add.output.0",
    }
    assert {pair.rule.name for pair in pairs.pairs} == {"network_input", "one_to_one"}
    check_complete(pairs)


IMAGE = np.arange(2 * 20 * 4 * 6, dtype=np.float32).reshape(2, 20, 4, 6)


def through_two(case: Case) -> Pairs:
    """Match a network whose input, which the golden lacks, is cast and then stored in blocks of 16 channels."""
    plain, blocked = tensor(IMAGE, "float16", "NCHW"), tensor(IMAGE, "float16", "NC1HWC0")
    case.device("Cast", "c", inputs=[tensor(IMAGE, layout="NCHW")], outputs=[plain])
    case.device("TransData", "t", inputs=[plain], outputs=[blocked])
    case.device("Relu", "relu", inputs=[blocked], outputs=[blocked])
    case.golden.output("relu", 0, IMAGE)
    shape = IMAGE.shape
    return case.match(
        rule=case.rule(
            op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, shape=shape)]),
            op("c", "Cast", number=2, inputs=["x:0"], originals=[], outputs=[desc(shape=shape)]),
            op("t", "TransData", number=3, inputs=["c:0"], originals=[], outputs=[desc(shape=shape)]),
            op("relu", "Relu", number=4, inputs=["t:0"], originals=["relu"], outputs=[desc("relu", 0, shape=shape)]),
        )
    )


def test_what_becomes_of_an_input_that_the_golden_lacks_is_compared_with_what_the_device_was_fed(case: Case) -> None:
    pairs = through_two(case)
    check_complete(pairs)
    found = {name: pair for name, pair in by_target(pairs).items() if pair.rule.is_self}
    assert {name: pair.golden.id for name, pair in found.items()} == {
        "c.output.0": "c.input.0", "t.input.0": "c.input.0", "t.output.0": "c.input.0", "relu.input.0": "c.input.0",
    }  # fmt: skip
    for pair in found.values():
        target, golden = values(pair)
        assert np.array_equal(target, IMAGE.ravel())
        assert np.array_equal(golden, IMAGE.ravel())
    assert by_target(pairs)["c.input.0"].golden is None


BYTES = np.arange(12, dtype=np.uint8).reshape(3, 4)


def preprocessed(case: Case, *, is_fused: bool) -> Pairs:
    """A model whose input AIPP makes of bytes, in an operator of its own or in the first that computes."""
    if not is_fused:
        case.device("Aipp", "aipp", inputs=[tensor(BYTES, "uint8")], outputs=[X])
    case.device("Relu", "a", inputs=[tensor(BYTES, "uint8") if is_fused else X], outputs=[X])
    case.golden.output("x", 0, X)
    case.golden.output("a", 0, X)
    data = op("x", "Data", number=1, originals=["x"], outputs=[out("x", dtype="DT_UINT8")])
    aipp = op("aipp", "Aipp", number=2, inputs=["x:0"], originals=[], outputs=[out()])
    relu = op("a", "Relu", number=3, inputs=["x:0" if is_fused else "aipp:0"], originals=["a"], outputs=[out("a")])
    return case.match(rule=case.rule(*([data, relu] if is_fused else [data, aipp, relu])))


def test_what_aipp_makes_of_bytes_is_what_the_original_is_fed(case: Case) -> None:
    pairs = preprocessed(case, is_fused=False)
    assert partners(pairs) == {
        "aipp.output.0": "x.output.0",
        "a.input.0": "x.output.0",
        "a.output.0": "a.output.0",
    }
    reason = by_target(pairs)["aipp.input.0"].reason
    assert reason is not None
    assert (reason.expectation, "AIPP" in reason.text) == (Expectation.EXPECTED, True)
    check_complete(pairs)


def test_bytes_are_not_compared_with_what_the_original_is_fed(case: Case) -> None:
    pairs = preprocessed(case, is_fused=True)
    assert partners(pairs) == {"a.output.0": "a.output.0"}
    check_complete(pairs)


def test_what_aipp_makes_is_other_numbers_than_the_bytes_that_it_reads(case: Case) -> None:
    """The golden lacks the input: what stores it otherwise behind AIPP is compared with what AIPP made."""
    made = X / 2
    case.device("Aipp", "aipp", inputs=[tensor(BYTES, "uint8")], outputs=[made])
    case.device("TransData", "t", inputs=[made], outputs=[made])
    case.device("Relu", "a", inputs=[made], outputs=[made])
    case.golden.output("a", 0, made)
    pairs = case.match(
        rule=case.rule(
            op("x", "Data", number=1, originals=["x"], outputs=[out("x", dtype="DT_UINT8")]),
            op("aipp", "Aipp", number=2, inputs=["x:0"], originals=[], outputs=[out()]),
            op("t", "TransData", number=3, inputs=["aipp:0"], originals=[], outputs=[out()]),
            op("a", "Relu", number=4, inputs=["t:0"], originals=["a"], outputs=[out("a")]),
        )
    )
    assert partners(pairs) == {"t.output.0": "t.input.0", "a.input.0": "t.input.0", "a.output.0": "a.output.0"}
    check_complete(pairs)


def test_a_layout_that_cannot_be_undone_is_a_gap_as_what_the_golden_lacks(case: Case) -> None:
    case.device("TransData", "t", inputs=[X], outputs=[X[:2]])
    case.device("Relu", "a", inputs=[X], outputs=[X])
    case.golden.output("a", 0, X)
    pairs = case.match(
        rule=case.rule(
            op("x", "Data", number=1, originals=["x"], outputs=[out("x")]),
            op("t", "TransData", number=2, inputs=["x:0"], originals=[], outputs=[out()]),
            op("a", "Relu", number=3, inputs=["t:0"], originals=["a"], outputs=[out("a")]),
        )
    )
    assert codes(by_target(pairs))["t.output.0"] == "no_golden_dump expected"


def test_golden_inputs_that_nothing_is_compared_with_are_no_gap(case: Case) -> None:
    case.device("Relu", "b", outputs=[X])
    case.golden.output("b", 0, X)
    case.golden.input("b", 0, X)
    pairs = case.match(rule=case.rule(op("b", "Relu", number=1, originals=["b"], outputs=[out("b")])))
    assert codes(by_golden(pairs)) == {"b.input.0": "covered_by_producer expected"}


def chain(case: Case, count: int = 6) -> Path:
    names = [f"n{number}" for number in range(1, count + 1)]
    for name in names:
        case.device("Relu", name, outputs=[X])
        case.golden.output(name, 0, X)
    return case.rule(
        *(op(name, "Relu", number=n, originals=[name], outputs=[out(name)]) for n, name in enumerate(names, start=1))
    )


@pytest.mark.parametrize(
    ("text", "ids"), [("1,-1,2", {1, 3, 5, 6}), ("2,5,2", {2, 4, 5}), (" 3 , 3 , 1 ", {3}), ("1,6,5", {1, 6})]
)
def test_a_range_of_ids(case: Case, text: str, ids: set[int]) -> None:
    pairs = case.match(rule=chain(case), select=partial(selected_by_range, text=text))
    assert set(partners(pairs)) == {f"n{number}.output.0" for number in ids}
    others = {f"n{number}.output.0" for number in range(1, 7)} - set(partners(pairs))
    assert codes(by_target(pairs)) == dict.fromkeys(others, "not_selected outside")
    assert codes(by_golden(pairs)) == dict.fromkeys(others, "not_selected outside")
    assert pairs.target.attrs["selected_ops"] == tuple(sorted(ids))
    check_complete(pairs)


@pytest.mark.parametrize(
    "select", [partial(selected_by_range, text="1,1,1"), partial(selected_by_ids, ids=[1])], ids=["range", "ids"]
)
def test_a_fused_group_is_selected_as_a_whole(case: Case, select: partial[Selection]) -> None:
    for name in ("part", "whole", "other"):
        case.device("Relu", name, outputs=[X])
    case.golden.output("one", 0, X)
    case.golden.output("other", 0, X)
    rule = case.rule(
        op("part", "Relu", number=1, originals=["one"]),
        op("whole", "Relu", number=2, originals=["one"], outputs=[out("one")]),
        op("other", "Relu", number=3, originals=["other"], outputs=[out("other")]),
    )
    pairs = case.match(rule=rule, select=select)
    assert set(partners(pairs)) == {"whole.output.0"}
    assert pairs.target.attrs["selected_ops"] == (1, 2)
    assert codes(by_golden(pairs)) == {"other.output.0": "not_selected outside"}


@pytest.mark.parametrize("text", ["0,3,1", "7,7,1", "3,2,1", "1,9,1", "1,3,0", "1,3,6", "1,3", "a,b,c", "1,-2,1"])
def test_a_range_that_the_rules_do_not_have(case: Case, text: str) -> None:
    with pytest.raises(UsageError) as error:
        case.match(rule=chain(case), select=partial(selected_by_range, text=text))
    assert error.value.diagnostic.code == "PF4404"
    assert error.value.diagnostic.help


def test_chosen_ids(case: Case) -> None:
    rule = chain(case)
    pairs = case.match(rule=rule, select=partial(selected_by_ids, ids=[2, 5, 90]))
    assert set(partners(pairs)) == {"n2.output.0", "n5.output.0"}
    assert [problem.code for problem in pairs.problems] == ["PF4405"]
    with pytest.raises(UsageError) as error:
        case.match(rule=rule, select=partial(selected_by_ids, ids=[90]))
    assert error.value.diagnostic.code == "PF4404"


def test_rules_of_another_model_are_told(case: Case) -> None:
    for number in range(12):
        case.device("Relu", f"mine{number}", outputs=[X])
    case.golden.output("b", 0, X)
    rule = case.rule(op("other", "Relu", number=1, originals=["b"], outputs=[out("b")]))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {}
    assert [problem.code for problem in pairs.problems] == ["PF4403"]
    assert set(codes(by_target(pairs)).values()) == {"not_in_rules missing"}
    check_complete(pairs)


def test_names_that_every_model_has_do_not_speak_for_rules(case: Case) -> None:
    """The compiler counts what it inserts from zero in each model."""
    case.device("TransData", "trans_TransData_0", inputs=[X], outputs=[X])
    case.device("Relu", "mine", inputs=[X], outputs=[X])
    case.device("NetOutput", "Node_Output", inputs=[X])
    case.golden.output("mine", 0, X)
    rule = case.rule(
        op("trans_TransData_0", "TransData", number=1, originals=[], outputs=[out()]),
        op("other", "Relu", number=2, inputs=["trans_TransData_0:0"], originals=["b"], outputs=[out("b")]),
        op("Node_Output", "NetOutput", number=3, inputs=["other:0"]),
    )
    (problem,) = case.match(rule=rule).problems
    assert problem.code == "PF4403"
    assert problem.message.startswith("the rules name 0 of the 1 operators that the device dumped")
    assert problem.notes == ("the device dumped `mine`", "the rules name `other`")


def test_operators_that_look_alike_in_file_names_keep_apart(case: Case) -> None:
    case.device("Relu", "a/b", outputs=[X])
    case.device("Relu", "a.b", outputs=[X + 1])
    case.golden.output("first", 0, X)
    case.golden.output("second", 0, X + 1)
    rule = case.rule(
        op("a/b", "Relu", number=1, originals=["first"], outputs=[out("first")]),
        op("a.b", "Relu", number=2, originals=["second"], outputs=[out("second")]),
    )
    assert partners(case.match(rule=rule)) == {"a/b.output.0": "first.output.0", "a.b.output.0": "second.output.0"}


def test_model_outputs_of_the_rule_file_are_kept(case: Case) -> None:
    from rule_builders import attr, texts

    case.device("Relu", "a", outputs=[X])
    case.golden.output("a", 0, X)
    rule = case.rule(
        op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]),
        attrs=[attr("attr_model_out_nodes_name", list=texts("a:0"))],
    )
    assert case.match(rule=rule).target.attrs["model_outputs"] == ("a:0",)


def test_nodes_without_a_file_stand_where_their_ids_put_them(case: Case) -> None:
    case.device("Relu", "b", outputs=[X])
    case.device("Relu", "d", outputs=[X])
    case.golden.output("b", 0, X)
    rule = case.rule(
        *(op(name, "Relu", number=n, originals=[name], outputs=[out(name)]) for n, name in enumerate("abcd", start=1))
    )
    nodes = case.match(rule=rule).target.nodes
    order = {key.name: node.order for key, node in nodes.items()}
    assert order["a"] < order["b"] == order["c"] < order["d"]
    assert all(isinstance(key, NodeKey) for key in nodes)


def test_a_golden_of_another_model_is_told(case: Case) -> None:
    case.device("Relu", "a", outputs=[X])
    case.golden.output("z", 0, X)
    pairs = case.match(rule=case.rule(op("a", "Relu", number=1, originals=["a"], outputs=[out("a")])))
    problem = pairs.problems[0]
    assert problem.code == "PF4410"
    assert problem.notes == ("the rules name `a`", "the golden has `z`")


@pytest.mark.parametrize(("nodes", "code"), [(("conv*",), "filtered outside"), (None, "no_golden_dump missing")])
def test_an_original_that_the_golden_s_selection_leaves_out_is_not_missing(
    case: Case, nodes: tuple[str, ...] | None, code: str
) -> None:
    """Though the selection takes the name of the fused operator, which begins as that of its first original."""
    case.device("Conv2D", "conv1relu1", outputs=[X])
    case.device("MaxPool", "pool1", inputs=[X], outputs=[X])
    for name in ("conv1", "pool1"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("conv1relu1", "Conv2D", number=1, originals=["conv1", "relu1"], outputs=[out("relu1")]),
        op("pool1", "MaxPool", number=2, inputs=["conv1relu1:0"], originals=["pool1"], outputs=[out("pool1")]),
    )
    book = RuleBook((read_rule_file(rule),))
    golden = read_npy_folder(case.golden.path, side="golden", select=Dumped(nodes=nodes))
    found = by_target(match_offline(read(case.target.path, "target"), golden, book))
    assert codes({name: found[name] for name in ("conv1relu1.output.0", "pool1.input.0")}) == {
        "conv1relu1.output.0": code, "pool1.input.0": code
    }  # fmt: skip


def test_the_copies_of_a_graph_for_several_batch_sizes_have_one_golden(case: Case) -> None:
    names = [f"a_ascend_mbatch_batch_{number}" for number in (0, 1)]
    for name in names:
        case.device("Relu", name, outputs=[X])
    case.golden.output("a", 0, X)
    rule = case.rule(
        *(op(name, "Relu", number=n, originals=[name], outputs=[out(name)]) for n, name in enumerate(names, start=1))
    )
    pairs = case.match(rule=rule)
    assert partners(pairs) == {f"{name}.output.0": "a.output.0" for name in names}
    assert pairs.problems == ()


def four(case: Case, *, dumped: str, types: dict[str, str], **more: dict[str, object]) -> Pairs:
    """Match a chain of operators a -> b -> c -> d of which those in ``dumped`` have files on both sides."""
    names = "abcd"
    for name in dumped:
        case.device(types.get(name, "Relu"), name, outputs=[X])
        case.golden.output(name, 0, X)
    return case.match(
        rule=case.rule(
            *(
                op(
                    name,
                    types.get(name, "Relu"),
                    number=number,
                    inputs=[f"{names[number - 1]}:0"] if number else [],
                    originals=[name],
                    outputs=[out(name)],
                    **more.get(name, {}),  # type: ignore[arg-type]
                )
                for number, name in enumerate(names)
            )
        )
    )


def silent(pairs: Pairs) -> list[tuple[str, int, str]]:
    return [(each.node.name, each.outputs, each.evidence) for each in silent_operators(pairs.target)]


@pytest.mark.parametrize(
    ("dumped", "types", "found"),
    [
        ("abcd", {}, []),
        ("acd", {}, ["b"]),
        ("ad", {}, ["b", "c"]),
        ("abc", {}, []),  # nobody reads what d gives: it may be the end of the network, which has no file
        ("acd", {"b": "Reshape"}, []),
        ("acd", {"b": "StridedSliceD"}, []),
        ("acd", {"b": "Cast"}, []),
        ("bcd", {"a": "Const"}, []),
        ("bcd", {"a": "Data"}, []),
    ],
)
def test_operators_of_the_rules_without_file_are_silent(
    case: Case, dumped: str, types: dict[str, str], found: list[str]
) -> None:
    assert silent(four(case, dumped=dumped, types=types)) == [(name, 1, "rules") for name in found]


def test_an_operator_that_was_not_selected_is_not_silent(case: Case) -> None:
    target = four(case, dumped="ad", types={}).target
    selected = replace(target, attrs={**target.attrs, "select": {"nodes": ("[ab]",)}})
    assert [each.node.name for each in silent_operators(selected)] == ["b"]


def test_an_operator_that_no_rule_names_may_be_the_silent_one(case: Case) -> None:
    case.device("Relu", "bc", outputs=[X])
    assert silent(four(case, dumped="ad", types={})) == []


def test_a_dump_of_inputs_tells_of_no_operator_that_it_is_silent(case: Case) -> None:
    for name in "ad":
        case.device("Relu", name, inputs=[X])
    case.golden.output("a", 0, X)
    assert silent(four(case, dumped="", types={})) == []


def test_what_is_not_selected_is_not_silent(case: Case) -> None:
    case.device("Relu", "a", outputs=[X])
    case.golden.output("a", 0, X)
    rule = case.rule(
        *(
            op(name, "Relu", number=number, inputs=inputs, originals=[name], outputs=[out(name)])
            for number, (name, inputs) in enumerate((("a", []), ("b", ["a:0"]), ("c", ["b:0"])))
        )
    )
    assert silent(case.match(rule=rule)) == [("b", 1, "rules")]
    assert silent(case.match(rule=rule, select=partial(selected_by_ids, ids=[0]))) == []
