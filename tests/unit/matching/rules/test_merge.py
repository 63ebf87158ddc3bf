"""Fusion rules of one file: groups, what is left unsaid about originals, and real files of ATC."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_builders import REAL, attr, desc, model, op

from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.dumps.rules.rule_json import parse_rule_json
from probe_flow.matching.rules.merge import FusionRules, clean_name, fusion_rules
from probe_flow.records import Relation

needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="real ATC files may not be copied into the project")


def rules(*ops, **more) -> FusionRules:
    return fusion_rules(parse_rule_json(json.dumps(model(*ops, **more)).encode(), "net.json"))


def groups(found: FusionRules):
    return [(group.key, group.relation, [each.name for each in group.ops]) for group in found.groups]


def origins(found: FusionRules, name: str):
    return [(each.origin_name, each.origin_index) for each in found.by_name[name].outputs]


def test_groups_count_by_first_appearance_and_operators_by_id():
    found = rules(
        op("c", number=3, originals=("o3",)),
        op("a", number=1, originals=("o1",)),
        op("b", number=2, originals=("o3",)),
    )
    assert [(each.name, each.group) for each in found.ops] == [("a", 1), ("b", 0), ("c", 0)]
    assert groups(found) == [
        (("o3",), Relation.MANY_TO_ONE, ["b", "c"]),
        (("o1",), Relation.ONE_TO_ONE, ["a"]),
    ]


def test_operators_of_one_id_stay_in_order_of_the_file():
    found = rules(op("x"), op("y", number=1), op("z"))
    assert [each.name for each in found.ops] == ["x", "z", "y"]


@pytest.mark.parametrize(
    ("ops", "relation"),
    [
        ([op("a", originals=("x",))], Relation.ONE_TO_ONE),
        ([op("a", originals=())], Relation.ONE_TO_ONE),
        ([op("a", originals=("x", "y"))], Relation.ONE_TO_MANY),
        ([op("a", originals=("x",)), op("b", originals=("x",))], Relation.MANY_TO_ONE),
        ([op("a", originals=("x", "y")), op("b", originals=("x", "y"))], Relation.MANY_TO_MANY),
        ([op("a", originals=("x", "y"), l1="1"), op("b", originals=("z",), l1="1")], Relation.L1),
        ([op("a", originals=("x",), l1="1")], Relation.ONE_TO_ONE),
    ],
)
def test_relations_count_target_to_golden(ops, relation):
    (group,) = rules(*ops).groups
    assert group.relation is relation


def test_originals_whose_texts_run_together_alike_stay_apart():
    found = rules(op("p", originals=("ab", "c")), op("q", originals=("a", "bc")))
    assert [group.key for group in found.groups] == [("ab", "c"), ("a", "bc")]


def test_an_l1_group_is_not_mistaken_for_an_original_of_that_name():
    found = rules(op("a", originals=("7",)), op("b", originals=("x",), l1="7"))
    assert [group.key for group in found.groups] == [("7",), ("", "7")]


def test_originals_that_repeat_count_once():
    found = rules(op("t", originals=("Transpose_0", "Transpose_0"), outputs=(desc(),)), op("u", originals=("b", "a")))
    assert groups(found) == [
        (("Transpose_0",), Relation.ONE_TO_ONE, ["t"]),
        (("b", "a"), Relation.ONE_TO_MANY, ["u"]),
    ]
    assert found.by_name["t"].originals == ("Transpose_0",)


def test_device_operators_have_a_group_of_their_own_and_no_originals():
    found = rules(op("cast1", "Cast", originals=()), op("cast2", "Cast", originals=()))
    assert groups(found) == [
        (("cast1",), Relation.ONE_TO_ONE, ["cast1"]),
        (("cast2",), Relation.ONE_TO_ONE, ["cast2"]),
    ]
    assert [each.originals for each in found.ops] == [(), ()]


def test_without_the_attribute_an_operator_is_its_own_original():
    found = rules(op("pad", outputs=(desc(), desc("other", 0), desc())))
    assert found.by_name["pad"].originals == ("pad",)
    assert origins(found, "pad") == [("pad", 0), ("other", 0), ("pad", 2)]


def test_without_the_attribute_and_descriptions_one_output_is_assumed():
    found = rules(op("end", "NetOutput"))
    assert origins(found, "end") == [("end", None)]


def test_a_renamed_operator_gives_the_outputs_of_its_only_original():
    found = rules(op("PartitionedCall_Conv_52_Conv2D_12", originals=("Conv_52",), outputs=(desc(), desc("x", 0))))
    assert origins(found, "PartitionedCall_Conv_52_Conv2D_12") == [("Conv_52", 0), ("x", 0)]


def test_outputs_stay_without_origin_where_several_could_give_it():
    found = rules(
        op("two", originals=("a", "b"), outputs=(desc(),)),
        op("sum", originals=("gap",), outputs=(desc(),), is_multiop=True),
        op("div", originals=("gap",), outputs=(desc("gap", 0),), is_multiop=True),
        op("l1", originals=("z",), outputs=(desc(),), l1="1"),
        op("cast", "Cast", originals=(), outputs=(desc(),)),
    )
    for name in ("two", "sum", "l1", "cast"):
        assert origins(found, name) == [("", None)]
    assert [each.is_inner for each in found.ops] == [False, True, False, False, False]


def test_constants_of_a_group_do_not_hide_that_one_operator_stands_for_the_original():
    found = rules(
        op("gather_axis", "Const", originals=("Gather_1",), outputs=(desc(),)),
        op("gather", "GatherV2", originals=("Gather_1",), outputs=(desc(),)),
    )
    assert origins(found, "gather") == [("Gather_1", 0)]
    assert origins(found, "gather_axis") == [("", None)]
    assert groups(found)[0][1] is Relation.MANY_TO_ONE


def test_slices_of_one_operator_are_one():
    found = rules(op("conv_lxslice0", originals=("conv",)), op("conv_lxslice1", number=1, originals=("conv",)))
    assert groups(found) == [(("conv",), Relation.ONE_TO_ONE, ["conv"])]
    assert found.problems == ()


def test_names_that_repeat_are_told_and_mean_the_first():
    found = rules(
        op("a/b", number=1, originals=("x",)),
        op("a/b", number=2, originals=("y",)),
        op("c.d", number=3),
        op("c_d", number=4),
    )
    assert found.by_name["a/b"].originals == ("x",)
    assert found.by_clean_name["c_d"].name == "c.d"
    assert [each.code for each in found.problems] == ["PF4309", "PF4309"]
    assert [each.message for each in found.problems] == [
        "in `net.json`, names that several operators have: 1",
        "in `net.json`, names in dump files that several operators have: 1",
    ]
    assert [each.notes for each in found.problems] == [("`a/b`",), ("`c_d`",)]


def test_names_in_files_have_no_slashes_and_dots():
    found = rules(op("block/conv.1/relu"))
    assert found.by_clean_name["block_conv_1_relu"] is found.by_name["block/conv.1/relu"]
    assert clean_name("onnx::Gather_1") == "onnx::Gather_1"


def test_facts_are_carried_along():
    found = rules(
        op("a", "T", number=5, inputs=("x:1",), originals=("o",), is_multiop=True, attrs=[attr("pass_name", s="P")])
    )
    (each,) = found.ops
    assert (each.op_type, each.id, each.graph, each.inputs) == ("T", 5, "net", ("x:1",))
    assert (each.is_multiop, each.passes, found.files) == (True, ("P",), ("net.json",))


def body(name: str, *ops):
    return {"name": name, "op": list(ops)}


def test_edges_go_past_the_borders_of_a_subgraph():
    found = rules(
        op("x", "Data"),
        op("y", "Data"),
        op("call", "PartitionedCall", inputs=("x:0", "y:0"), subgraphs=("sub",), originals=()),
        op("after", inputs=("call:1",)),
        more=[
            body(
                "sub",
                op("sub/arg", "Data", attrs=[attr("parent_node_index", i=1)], outputs=(desc(),)),
                op("sub/relu", "Relu", inputs=("sub/arg:0",)),
                op("sub_Node_Output", "NetOutput", inputs=("sub/arg:0", "sub/relu:0")),
            )
        ],
    )
    assert found.by_name["sub/relu"].inputs == ("y:0",)
    assert found.by_name["after"].inputs == ("sub/relu:0",)


@pytest.mark.parametrize(("caller", "carried"), [("While", (0,)), ("StatelessWhile", (0,)), ("PartitionedCall", ())])
def test_what_a_loop_hands_from_turn_to_turn_is_marked(caller, carried):
    found = rules(
        op("x"),
        op("loop", caller, inputs=("x:0",), subgraphs=("body",), originals=()),
        more=[
            body(
                "body",
                op("body/arg", "Data", attrs=[attr("parent_node_index", i=0)], outputs=(desc(),)),
                op("body/mul", "Mul", inputs=("body/arg:0", "x:0")),
                op("body/add", "Add", inputs=("body/mul:0",)),
            )
        ],
    )
    assert found.by_name["body/mul"].inputs == ("x:0", "x:0"), "the first turn gets it, so that the flow is known"
    assert found.by_name["body/mul"].carried == carried
    assert found.by_name["body/add"].carried == ()


def test_an_input_that_a_subgraph_names_itself_stays():
    found = rules(
        op("call", "PartitionedCall", inputs=("x:0",), subgraphs=("sub",), outputs=(desc("net_out", 0),)),
        op("after", inputs=("call:0",)),
        more=[
            body(
                "sub",
                op("arg", "Data", attrs=[attr("parent_node_index", i=0)], outputs=(desc("golden_input", 0),)),
                op("relu", inputs=("arg:0",)),
                op("out", "NetOutput", inputs=("relu:0",)),
            )
        ],
    )
    assert found.by_name["relu"].inputs == ("arg:0",)
    assert found.by_name["after"].inputs == ("call:0",)


def test_branches_give_no_output_and_circles_end():
    argument = op("arg", "Data", attrs=[attr("parent_node_index", i=0)])
    found = rules(
        op("choose", "If", inputs=("choose:0",), subgraphs=("then", "else", "lost")),
        op("after", inputs=("choose:0",)),
        op("loop", "While", inputs=("loop:0",), subgraphs=("again",), originals=()),
        op("far", inputs=("loop:0",)),
        more=[
            body("then", argument, op("r1", inputs=("arg:0",)), op("o1", "NetOutput", inputs=("r1:0",))),
            body("else", op("o2", "NetOutput", inputs=())),
            body(
                "again",
                op("a2", "Data", attrs=[attr("parent_node_index", i=0)]),
                op("o3", "NetOutput", inputs=("a2:0",)),
            ),
        ],
    )
    assert found.by_name["after"].inputs == ("choose:0",)
    assert found.by_name["r1"].inputs == ("choose:0",)
    assert found.by_name["far"].inputs == ("loop:0",)
    assert found.by_name["choose"].inputs == ("choose:0", "r1:0"), "what a branch gave goes on through its caller"


_names = st.sampled_from(["a", "b", "c", "d/e", "d.e", "f_lxslice1"])
_ops = st.builds(
    op,
    _names,
    st.sampled_from(["Conv2D", "Const", "Data", "NetOutput"]),
    number=st.integers(0, 3),
    inputs=st.lists(st.sampled_from(["a:0", "b:1", "c:x", "", "d/e:-1", ":", "a"]), max_size=2),
    originals=st.none() | st.lists(st.sampled_from(["o", "p", "a"]), max_size=2),
    outputs=st.lists(st.builds(desc, st.none() | st.sampled_from(["o", "p"])), max_size=2),
    l1=st.none() | st.sampled_from(["", "1"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_ops, min_size=1, max_size=8), st.none() | st.lists(_ops, min_size=1, max_size=4), st.booleans())
def test_no_operator_is_lost_and_groups_are_in_order(ops, others, is_close):
    rule = parse_rule_json(json.dumps(model(*ops)).encode(), "net.json")
    other = parse_rule_json(json.dumps(model(*others)).encode(), "other.json") if others else None
    found = fusion_rules(rule, close=other) if is_close else fusion_rules(rule, quant=other)
    assert {each.name for each in found.ops} == {each["name"].removesuffix("_lxslice1") for each in ops}
    assert set(found.by_name) == {each.name for each in found.ops}
    assert [group.index for group in found.groups] == list(range(len(found.groups)))
    assert all(group.ops and {each.group for each in group.ops} == {group.index} for group in found.groups)
    assert sum(len(group.ops) for group in found.groups) == len(found.ops)
    assert [each.id for each in found.ops] == sorted(each.id for each in found.ops)


@needs_real
def test_real_file_with_fused_operators():
    found = fusion_rules(read_rule_file(REAL / "fused_132_ops.om.json"))
    assert found.problems == ()
    assert len(found.ops) == 132
    assert origins(found, "PartitionedCall_Conv_52_Conv2D_12") == [("Conv_52", 0)]
    many = [group for group in found.groups if group.relation is Relation.MANY_TO_ONE]
    assert [(group.key, len(group.ops)) for group in many] == [(("RandomNormalLike_327",), 3)]
    assert sum(group.relation is Relation.ONE_TO_MANY for group in found.groups) == 13


@needs_real
def test_real_file_with_a_constant_of_a_group():
    found = fusion_rules(read_rule_file(REAL / "onnx_nms_submodel.om.json"))
    assert origins(found, "PartitionedCall_Gather_1221_gatherv2_3") == [("Gather_1221", 0)]
    assert origins(found, "BatchMultiClassNMS_1203") == [("BatchMultiClassNMS_1203", i) for i in range(4)]
