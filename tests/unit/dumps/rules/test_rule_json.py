"""Fusion rules from JSON, on texts written from the published form and on real files of ATC."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_builders import REAL, attr, desc, model, op, texts

from probe_flow.dumps.rules.records import RuleFile, RuleOp, RuleOutput
from probe_flow.dumps.rules.rule_json import parse_rule_json
from probe_flow.errors import FormatError

needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="real ATC files may not be copied into the project")


def parse(tree: object) -> RuleFile:
    return parse_rule_json(json.dumps(tree).encode(), "net.json")


def only(tree: object) -> RuleOp:
    ((found,),) = (graph.ops for graph in parse(model(tree)).graphs)
    return found


def problem(raw: bytes):
    with pytest.raises(FormatError) as caught:
        parse_rule_json(raw, "dir/net.json")
    return caught.value.diagnostic


def wrong(tree: object):
    return problem(json.dumps(tree).encode())


def test_reads_everything_that_an_operator_says():
    outputs = (desc("relu1", 2, layout="NC1HWC0", shape=(1, 1, 4, 4, 16), origin_shape=(1, 8, 4, 4)),)
    tree = op("a/conv", "Conv2D", number=7, inputs=("x:0", "w:1"), originals=("conv", "relu1"), outputs=outputs)
    tree["attr"] += [attr("_datadump_is_multiop", b=True), attr("_L1_fusion_sub_graph_no", s="3")]
    output = RuleOutput("DT_FLOAT16", "NC1HWC0", (1, 1, 4, 4, 16), "relu1", 2, "NCHW", (1, 8, 4, 4))
    assert only(tree) == RuleOp(
        name="a/conv",
        op_type="Conv2D",
        id=7,
        graph="net",
        inputs=("x:0", "w:1"),
        outputs=(output,),
        originals=("conv", "relu1"),
        is_multiop=True,
        l1_group="3",
    )


def test_absent_id_is_zero_and_absent_inputs_are_none():
    found = only({"name": "x", "type": "Data"})
    assert (found.id, found.inputs, found.outputs, found.originals, found.is_multiop) == (0, (), (), None, False)


def test_a_list_without_items_says_that_there_are_no_originals():
    assert only(op("cast", originals=())).originals == ()
    assert only({**op("cast"), "attr": [{"key": "_datadump_original_op_names", "value": None}]}).originals == ()
    empty = attr("_datadump_original_op_names", list={"val_type": 1, "s": [""]})
    assert only({**op("cast"), "attr": [empty]}).originals == ()


def test_empty_inputs_and_control_edges_are_dropped_so_that_the_rest_counts_dump_inputs():
    assert only(op("fc", inputs=("gap:0", "", "pool:-1", "w:0", ""))).inputs == ("gap:0", "w:0")


def test_marks_of_l1_slices_are_stripped_from_names_and_inputs():
    found = only(op("conv_lxslice12", inputs=("pool_lxslice0:1",)))
    assert (found.name, found.inputs) == ("conv", ("pool:1",))


def test_an_origin_without_a_number_gets_the_position_of_its_description():
    outputs = only(op("split", outputs=(desc("s"), desc("s"), desc("other", 0)))).outputs
    assert [(each.origin_name, each.origin_index) for each in outputs] == [("s", 0), ("s", 1), ("other", 0)]


def test_descriptions_without_attributes_keep_their_position():
    outputs = only(op("nms", outputs=({"dtype": "DT_INT32"}, desc("second")))).outputs
    assert outputs[0] == RuleOutput("DT_INT32", "", None)
    assert (outputs[1].origin_name, outputs[1].origin_index) == ("second", 1)


def test_the_origin_layout_falls_back_to_the_first_layout():
    plain, said, empty = desc("a"), desc("a"), desc("a")
    said["attr"].append(attr("_datadump_origin_format", s="NHWC"))
    empty["attr"].append(attr("_datadump_origin_format", s=""))
    outputs = only(op("a", outputs=(plain, said, empty))).outputs
    assert [each.origin_layout for each in outputs] == ["NCHW", "NHWC", "NCHW"]


def test_absent_shapes_are_told_from_those_of_scalars():
    absent, scalar = desc("a", shape=None), desc("a", shape=(), origin_shape=())
    outputs = only(op("a", outputs=(absent, scalar))).outputs
    assert [(each.shape, each.origin_shape) for each in outputs] == [(None, None), ((), ())]


def test_names_of_passes_come_alone_or_in_a_list():
    assert only(op("a", attrs=[attr("pass_name", s="OnePass")])).passes == ("OnePass",)
    assert only(op("a", attrs=[attr("pass_name", list=texts("P", "Q"))])).passes == ("P", "Q")


def test_escapes_that_atc_puts_into_texts_are_undone():
    found = only(op("x", originals=("\\345\\215\\267/a", 'say \\"hi\\"', "plain", "odd\\q\\\\")))
    assert found.originals == ("卷/a", 'say "hi"', "plain", "odd\\q\\\\")


def test_numbers_of_64_bits_may_be_quoted_and_types_may_be_numbers():
    tree = op("a", outputs=({"dtype": 27, "shape": {"dim": ["4", 5]}},))
    found = only({**tree, "id": "12"})
    assert (found.id, found.outputs[0].shape, found.outputs[0].dtype) == (12, (4, 5), "DT_BF16")


def test_further_facts_are_kept_by_the_names_of_the_file():
    attrs = (
        attr("_is_custom_op", b=False),
        attr("_fe_imply_type", i=6),
        attr("a_kernelname", s="te_a__kernel0"),
        attr("b_kernelname", s="another's"),
        attr("_parent_node_index", i=2),
        attr("unheard_of", s="x"),
        attr("aipp_config_path", t={"desc": {}}),
    )
    assert only(op("a", attrs=attrs, subgraphs=("body",))).attrs == {
        "_fe_imply_type": 6,
        "_is_custom_op": False,
        "_kernelname": "te_a__kernel0",
        "parent_node_index": 2,
        "subgraph_name": ("body",),
    }


def test_fractions_may_be_quoted():
    found = only(op("a", attrs=[attr("_fe_imply_type", f="1e-05"), attr("_engine_type", f=0.5)]))
    assert found.attrs == {"_engine_type": 0.5, "_fe_imply_type": 1e-05}


def test_the_model_says_how_it_was_made():
    attrs = (
        attr("atc_cmdline", s="atc --model=m.onnx"),
        attr("unheard_of", s="x"),
        attr("attr_model_out_nodes_name", list=texts("fc:0:y")),
    )
    found = parse(model(op("a"), attrs=(*attrs, {"key": "tasks", "value": None}, attr("framework_type", s="Onnx"))))
    assert found.attrs == {
        "atc_cmdline": "atc --model=m.onnx",
        "attr_model_out_nodes_name": ("fc:0:y",),
        "framework_type": "Onnx",
    }


def test_graphs_stay_apart():
    found = parse(model(op("a"), more=({"name": "body", "op": [op("b")]}, {"name": "empty"})))
    assert [(graph.name, [each.name for each in graph.ops]) for graph in found.graphs] == [
        ("net", ["a"]),
        ("body", ["b"]),
        ("empty", []),
    ]
    assert found.graphs[1].ops[0].graph == "body"


@pytest.mark.parametrize(
    ("raw", "what", "place"),
    [
        (b'{"graph": [', "the file ends in the middle", (1, 12)),
        (b'{"graph": ["a', "the file ends in the middle", (1, 12)),
        (b'{"graph":\n [}]}', "Expecting value", (2, 3)),
        (b"\x08\x0e", "Expecting value", (1, 1)),
        (b" \n ", "Expecting value", (2, 2)),
    ],
)
def test_broken_json_is_told_with_its_place(raw, what, place):
    found = problem(raw)
    assert (found.code, found.message) == (
        "PF4303",
        f"`net.json` is neither a rule JSON nor an offline model: {what}",
    )
    assert (found.span.line, found.span.column) == place


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b'{"name": "\xff"}', "byte 10 is not UTF-8"),
        (b"[" * 200_000, "values are nested too deeply"),
        (b'{"graph": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    ],
)
def test_absurd_json_is_refused(raw, what):
    found = problem(raw)
    assert found.code == "PF4303"
    assert what in found.message


@pytest.mark.parametrize("tree", [{}, [], "text", 3, None, {"graph": {}}, {"graph": "x"}])
def test_json_of_something_else_is_refused(tree):
    found = wrong(tree)
    assert (found.code, found.message) == (
        "PF4304",
        "`net.json` holds no fusion rules: its top level has no list `graph`",
    )


@pytest.mark.parametrize("tree", [{"graph": []}, {"graph": [{"name": "g", "op": []}]}, {"graph": [{}]}])
def test_graphs_without_operators_are_refused(tree):
    assert wrong(tree).message == "`net.json` holds no fusion rules: its graphs have no operators"


@pytest.mark.parametrize(
    ("place", "value", "pointer", "message"),
    [
        (("graph", 0), 3, "/graph/0", "the number 3, not an object"),
        (("graph", 0), attr("k", s="v"), "/graph/0", "an attribute, not an object"),
        (("graph", 0, "op"), {}, "/graph/0/op", "an object, not a list"),
        (("graph", 0, "op", 0), [], "/graph/0/op/0", "a list, not an object"),
        (("graph", 0, "op", 0, "name"), None, "/graph/0/op/0/name", "nothing, not a name"),
        (("graph", 0, "op", 0, "name"), "", "/graph/0/op/0/name", "a text, not a name"),
        (("graph", 0, "op", 0, "type"), 1.5, "/graph/0/op/0/type", "the number 1.5, not a name"),
        (("graph", 0, "op", 0, "id"), True, "/graph/0/op/0/id", "a truth value, not a whole number of 64 bits"),
        (("graph", 0, "op", 0, "id"), 10**400, "/graph/0/op/0/id", "a number, not a whole number of 64 bits"),
        (("graph", 0, "op", 0, "id"), "x", "/graph/0/op/0/id", "a text, not a whole number of 64 bits"),
        (("attr",), [attr("soc_version", f="x")], "/attr/0/value/f", "a text, not a number"),
        (("graph", 0, "op", 0, "input"), "x:0", "/graph/0/op/0/input", "a text, not a list"),
        (("graph", 0, "op", 0, "input", 0), 7, "/graph/0/op/0/input/0", "the number 7, not a text"),
        (("graph", 0, "op", 0, "attr", 0), "x", "/graph/0/op/0/attr/0", "a text, not an object with a text `key`"),
        (("graph", 0, "op", 0, "attr", 0, "value"), "x", "/graph/0/op/0/attr/0/value", "a text, not an object"),
        (
            ("graph", 0, "op", 0, "attr", 0, "value"),
            {"i": 3},
            "/graph/0/op/0/attr/0/value",
            "an object, not a list of texts",
        ),
        (
            ("graph", 0, "op", 0, "attr", 0, "value", "list", "s", 0),
            3,
            "/graph/0/op/0/attr/0/value/list/s/0",
            "the number 3, not a text",
        ),
        (
            ("graph", 0, "op", 0, "output_desc", 0, "shape"),
            [1],
            "/graph/0/op/0/output_desc/0/shape",
            "a list, not an object",
        ),
        (
            ("graph", 0, "op", 0, "output_desc", 0, "shape", "dim", 1),
            1.5,
            "/graph/0/op/0/output_desc/0/shape/dim/1",
            "the number 1.5, not a whole number of 64 bits",
        ),
        (
            ("graph", 0, "op", 0, "output_desc", 0, "attr", 2, "value"),
            {"i": -1},
            "/graph/0/op/0/output_desc/0/attr/2/value",
            "an object, not a whole number from 0",
        ),
    ],
)
def test_values_of_another_kind_are_told_with_their_pointer(place, value, pointer, message):
    tree = model(op("a", inputs=("x:0",), originals=("o",), outputs=(desc("o", 0),)))
    parent = tree
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    found = wrong(tree)
    assert found.code == "PF4305"
    assert found.fields["pointer"] == pointer
    assert found.message == f"`net.json` has at `{pointer}` {message}"


def test_a_byte_order_mark_does_no_harm():
    raw = b"\xef\xbb\xbf" + json.dumps(model(op("a"))).encode()
    assert parse_rule_json(raw, "net.json").graphs[0].ops[0].name == "a"


_plain = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.floats(allow_nan=False)
_keys = st.sampled_from(
    ["graph", "op", "name", "type", "id", "input", "attr", "key", "value", "list", "s", "i", "output_desc", "shape"]
)
_names = st.sampled_from(["_datadump_original_op_names", "_datadump_is_multiop", "origin_shape", "pass_name"])
_any = st.recursive(
    _plain | _names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(_keys, _any, max_size=4), max_size=3))
def test_whatever_stands_in_a_graph_is_read_or_refused(ops):
    for each in ops:
        each.setdefault("name", "a")
        each.setdefault("type", "T")
    try:
        outcome = len(parse({"graph": [{"op": ops}]}).graphs[0].ops)
    except FormatError as error:
        outcome = error.diagnostic.code
    assert outcome in {len(ops), "PF4304", "PF4305"}


@needs_real
def test_real_file_with_fused_operators():
    path = REAL / "fused_132_ops.om.json"
    found = parse_rule_json(path.read_bytes(), str(path))
    (graph,) = found.graphs
    by_name = {each.name: each for each in graph.ops}
    assert (graph.name, len(graph.ops)) == ("tdnn_NPU_0", 132)
    assert found.attrs["soc_version"] == "Ascend310"
    assert found.attrs["attr_model_out_nodes_name"] == ("Squeeze_391:0:output",)
    data = by_name["feats"]
    assert (data.id, data.inputs, data.originals) == (0, (), None)
    fused = by_name["Div_331Mul_333Add_335Mul_337Add_338"]
    assert fused.originals == ("Div_331", "Mul_333", "Add_335", "Mul_337", "Add_338")
    assert fused.passes == ("AutomaticUbFusion",)
    assert fused.outputs == (RuleOutput("DT_FLOAT16", "ND", (1, 1500), "Add_338", 0, "ND", (1, 1500), "DT_FLOAT"),)
    assert by_name["trans_TransData_4"].originals == ()
    norm = by_name["BatchNormalization_60_BNInferenceD"]
    assert norm.is_multiop
    assert norm.passes == ("BatchNormPreprocessFusionPass", "BatchNormBnInferFusionPass", "HostBNFusionPass")
    assert norm.attrs["_ge_attr_op_kernel_lib_name"] == "AIcoreEngine"
    assert by_name["Pad_49"].inputs == (
        "PartitionedCall_Transpose_0_Transpose_1:0",
        "dynamic_const_67614_39:0",
        "dynamic_const_67614_234:0",
    )


@needs_real
def test_real_file_with_several_outputs_and_a_plain_pass_name():
    path = REAL / "onnx_nms_submodel.om.json"
    (graph,) = parse_rule_json(path.read_bytes(), str(path)).graphs
    nms = next(each for each in graph.ops if each.name == "BatchMultiClassNMS_1203")
    assert [(each.dtype, each.shape) for each in nms.outputs] == [
        ("DT_FLOAT16", (1, 4, 100)),
        ("DT_FLOAT16", (1, 100)),
        ("DT_FLOAT16", (1, 100)),
        ("DT_INT32", (1, 8)),
    ]
    assert sorted(each.id for each in graph.ops) == list(range(19))
