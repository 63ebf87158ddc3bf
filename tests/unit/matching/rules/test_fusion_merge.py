"""Two rule files merged: quantised against original, fused against unfused, and what quantisation filters."""

from __future__ import annotations

import json

import pytest
from rule_builders import desc, model, op

from probe_flow.dumps.rules.rule_json import parse_rule_json
from probe_flow.matching.rules.merge import FusionRules, fusion_rules
from probe_flow.records import Relation


def file(name: str, *ops):
    return parse_rule_json(json.dumps(model(*ops)).encode(), name)


def origins(found: FusionRules, name: str):
    return [(each.origin_name, each.origin_index) for each in found.by_name[name].outputs]


# A quantised convolution: bn1 was folded into conv1 before AMCT put its layers around it.
QUANT = file(
    "quant.json",
    op("x", "Input", number=1, originals=("x",), outputs=(desc("x", 0),)),
    op(
        "conv1_quant_layer",
        "Quant",
        number=2,
        inputs=("x:0",),
        originals=("conv1", "bn1"),
        outputs=(desc(dtype="DT_INT8"),),
    ),
    op(
        "conv1",
        number=3,
        inputs=("conv1_quant_layer:0",),
        originals=("conv1", "bn1"),
        outputs=(desc(dtype="DT_INT32"),),
    ),
    op(
        "conv1_dequant_layer",
        "DeQuant",
        number=4,
        inputs=("conv1:0",),
        originals=("conv1", "bn1"),
        outputs=(desc("bn1", 0),),
    ),
    op("relu1", "ReLU", number=5, inputs=("conv1_dequant_layer:0",), originals=("relu1",), outputs=(desc("relu1", 0),)),
    op(
        "split",
        "Split",
        number=6,
        inputs=("relu1:0",),
        originals=("split",),
        outputs=(desc("split", 1), desc("split", 0)),
    ),
)
FUSED = file(
    "fused.json",
    op("x", "Data", number=1, originals=("x",), outputs=(desc("x", 0),)),
    op(
        "conv1_quant_layer",
        "AscendQuant",
        number=2,
        inputs=("x:0",),
        originals=("conv1_quant_layer",),
        outputs=(desc("conv1_quant_layer", 0, dtype="DT_INT8"),),
    ),
    op(
        "conv1conv1_dequant_layerrelu1",
        number=3,
        inputs=("conv1_quant_layer:0",),
        originals=("conv1", "conv1_dequant_layer", "relu1"),
        outputs=(desc("relu1", 0, layout="NC1HWC0", origin_shape=(1, 8, 4, 4)),),
    ),
    op(
        "split",
        "Split",
        number=4,
        inputs=("conv1conv1_dequant_layerrelu1:0",),
        originals=("split",),
        outputs=(desc("split", 0), desc("split", 1), desc("split", 2)),
    ),
    op("cast", "Cast", number=5, inputs=("split:0",), originals=(), outputs=(desc(),)),
    op("l1a", number=6, originals=("relu1",), outputs=(desc("relu1", 0),), l1="1"),
    op("l1b", number=7, originals=("relu1",), outputs=(desc("nowhere", 0),), l1="1"),
)


def test_names_of_the_quantised_graph_become_those_of_the_original():
    found = fusion_rules(FUSED, quant=QUANT)
    assert {each.name: each.originals for each in found.ops} == {
        "x": ("x",),
        "conv1_quant_layer": ("conv1", "bn1"),
        "conv1conv1_dequant_layerrelu1": ("conv1", "bn1", "relu1"),
        "split": ("split",),
        "cast": (),
        "l1a": ("relu1",),
        "l1b": ("relu1",),
    }
    assert origins(found, "conv1_quant_layer") == [("", None)]
    assert origins(found, "conv1conv1_dequant_layerrelu1") == [("relu1", 0)]


def test_outputs_are_looked_up_by_number_and_keep_their_place():
    found = fusion_rules(FUSED, quant=QUANT)
    assert origins(found, "split") == [("split", 1), ("split", 0), ("", None)]
    assert origins(found, "l1b") == [("nowhere", 0)]


def test_groups_are_made_anew_whatever_the_l1_groups():
    found = fusion_rules(FUSED, quant=QUANT)
    assert [(group.key, group.relation, len(group.ops)) for group in found.groups] == [
        (("x",), Relation.ONE_TO_ONE, 1),
        (("conv1", "bn1"), Relation.ONE_TO_MANY, 1),
        (("conv1", "bn1", "relu1"), Relation.ONE_TO_MANY, 1),
        (("split",), Relation.ONE_TO_ONE, 1),
        (("cast",), Relation.ONE_TO_ONE, 1),
        (("relu1",), Relation.L1, 2),
    ]


def test_layout_and_shape_of_the_original_come_from_the_target_rules_if_they_have_any():
    said = desc("relu1", 0, origin_layout="NHWC", origin_shape=(1, 4, 4, 8))
    unsaid = desc("relu1", 0, origin_layout="", origin_shape=(9, 9))
    fused = file("f.json", op("a", originals=("relu1",), outputs=(said, unsaid)))
    quant = file(
        "q.json",
        op("relu1", originals=("r",), outputs=(desc("r", 0, origin_layout="NCHW", origin_shape=(1, 8, 4, 4)),)),
    )
    outputs = fusion_rules(fused, quant=quant).by_name["a"].outputs
    assert [(each.origin_layout, each.origin_shape) for each in outputs] == [
        ("NHWC", (1, 4, 4, 8)),
        ("NCHW", (1, 8, 4, 4)),
    ]
    assert [(each.dtype, each.layout, each.shape) for each in outputs] == [("DT_FLOAT16", "NCHW", (1, 8, 4, 4))] * 2


def test_an_origin_without_a_number_means_all_outputs_of_the_group():
    fused = file("f.json", op("conv1"))
    found = fusion_rules(fused, quant=QUANT)
    assert origins(found, "conv1") == [("", None), ("", None), ("bn1", 0)]


def test_names_that_the_quantisation_rules_do_not_have_are_told():
    found = fusion_rules(FUSED, quant=QUANT)
    (problem,) = found.problems
    assert problem.code == "PF4308"
    assert problem.message == "1 of the names of `fused.json` is not in the quantisation rules `quant.json`"
    assert problem.notes == ("`nowhere` is unknown",)
    assert found.files == ("fused.json", "quant.json")


def test_rules_of_another_model_are_told():
    other = file("other.json", op("elsewhere", originals=("e",)))
    (problem,) = fusion_rules(file("f.json", op("a", originals=("p", "q"))), quant=other).problems
    assert problem.message == "none of the names of `f.json` is in the quantisation rules `other.json`"
    (problem,) = fusion_rules(file("f.json", op("a", originals=("p", "q"))), close=other).problems
    assert problem.message == "none of the names of `f.json` is in the rules without fusion `other.json`"


def test_constants_that_only_the_target_has_are_no_unknown_names():
    fused = file("f.json", op("a", originals=("relu1",)), op("dynamic_const_7", "Const", outputs=(desc(),)))
    assert fusion_rules(fused, quant=QUANT).problems == ()
    assert fusion_rules(fused, close=file("c.json", op("relu1", originals=("relu1",)))).problems == ()


CLOSE = file(
    "close.json",
    op("x", "Data", number=1, originals=("x",), outputs=(desc("x", 0),)),
    op("conv", number=2, originals=("conv1",), outputs=(desc("conv1", 0),)),
    op("bn_close", number=3, originals=("bn1",), outputs=(desc("bn1", 0),)),
    op("gap_sum", number=4, originals=("gap",), outputs=(desc(),), is_multiop=True),
    op("gap_div", number=5, originals=("gap",), outputs=(desc("other", 0), desc("gap", 0)), is_multiop=True),
    op("norm", number=6, originals=("norm", "gap"), outputs=(desc("norm", 0),)),
    op("gather", number=7, originals=("gather",), outputs=(desc(), desc()), is_multiop=True),
    op("gather_more", number=7, originals=("gather",), outputs=(), is_multiop=True),
    op("cast", "Cast", number=8, originals=(), outputs=(desc("gather", 0),)),
)


def unfused(*ops) -> FusionRules:
    return fusion_rules(file("fused.json", *ops), close=CLOSE)


def test_originals_become_operators_of_the_unfused_model_each_once():
    found = unfused(
        op("a", originals=("conv1", "bn1", "gone")), op("b", originals=("gap", "norm")), op("c", originals=())
    )
    assert [each.originals for each in found.ops] == [("conv", "bn_close"), ("gap_div", "norm"), ()]


def test_the_operator_that_gives_an_output_stands_for_its_original():
    """A later operator that lists the original among others (a constant folded in) does not."""
    found = unfused(op("a", originals=("gap",), outputs=(desc("gap", 0),)))
    assert found.by_name["a"].originals == ("gap_div",)
    assert origins(found, "a") == [("gap_div", 1)]


def test_an_output_that_only_a_copy_names_is_found_there():
    found = unfused(op("a", originals=("gather",), outputs=(desc("gather", 0),)))
    assert found.by_name["a"].originals == ("gather_more",)
    assert origins(found, "a") == [("cast", 0)]


def test_every_operator_of_the_target_keeps_its_place():
    """The peer loses all device operators but one, and the one of several that carries the result."""
    ops = [op(f"trans_{i}", "TransData", number=i, originals=(), outputs=(desc(),)) for i in range(3)]
    ops += [
        op("sum", number=4, originals=("gap",), outputs=(desc(),)),
        op("div", number=5, originals=("gap",), outputs=(desc("gap", 0),)),
    ]
    found = unfused(*ops)
    assert [each.name for each in found.ops] == ["trans_0", "trans_1", "trans_2", "sum", "div"]
    assert [(group.key, group.relation) for group in found.groups][3] == (("gap",), Relation.MANY_TO_ONE)
    assert origins(found, "div") == [("gap_div", 1)]


def test_relations_count_the_operators_of_the_unfused_model():
    (group,) = unfused(op("a", originals=("conv1", "gone"))).groups
    assert group.relation is Relation.ONE_TO_ONE
    assert group.key == ("conv1", "gone")


def test_unknown_originals_and_outputs_are_told():
    found = unfused(op("a", originals=("gone", "conv1"), outputs=(desc("conv1", 5), desc("lost", 0))))
    (problem,) = found.problems
    assert problem.message == "3 of the names of `fused.json` are not in the rules without fusion `close.json`"
    assert problem.notes == ("`gone` is unknown", "`conv1:5` is unknown", "`lost` is unknown")
    assert origins(found, "a") == [("conv", 5), ("lost", 0)]


def filtered(*ops) -> list[str]:
    return [each.name for each in fusion_rules(file("f.json", *ops)).ops if each.is_filtered]


def chain(*ops):
    """Return operators that feed each other in order."""
    found = []
    for number, each in enumerate(ops):
        given = [f"{found[-1]['name']}:0"] if found else []
        found.append({**each, "id": number + 1, "input": given})
    return found


def step(name: str, dtype: str = "DT_FLOAT16", op_type: str = "Conv2D"):
    return op(name, op_type, outputs=(desc(dtype=dtype),))


def test_everything_between_quantisation_and_dequantisation_is_filtered():
    ops = chain(
        step("x"),
        step("a_quant_layer", "DT_INT8"),
        step("conv", "DT_INT32"),
        step("relu", "DT_INT32"),
        step("b_dequant_layer"),
        step("end"),
    )
    assert filtered(*ops) == ["conv", "relu"]


@pytest.mark.parametrize("dtype", ["DT_FLOAT16", "DT_FLOAT", "DT_BF16"])
def test_every_float_type_ends_it(dtype):
    assert filtered(*chain(step("a/AscendQuant", "DT_INT8"), step("b/AscendDequant", dtype), step("end"))) == []


def test_a_dequantisation_of_another_type_ends_nothing_and_is_told():
    ops = chain(step("a.quant", "DT_INT8"), step("b.dequant", "DT_INT32"), step("end"))
    found = fusion_rules(file("f.json", *ops))
    assert [each.name for each in found.ops if each.is_filtered] == ["b.dequant", "end"]
    (problem,) = found.problems
    assert (problem.code, problem.message) == (
        "PF4310",
        "output 0 of `b.dequant` is DT_INT32: neither quantised nor dequantised",
    )


def test_a_quantisation_of_another_type_begins_nothing():
    assert filtered(*chain(step("a_quant_layer", "DT_FLOAT16"), step("conv", "DT_INT32"))) == []


def test_anti_quantisation_may_do_both():
    assert filtered(*chain(step("a_quant_layer", "DT_INT8"), step("a_anti_quant_layer"), step("end"))) == []
    assert filtered(*chain(step("a_anti_quant_layer", "DT_INT8"), step("conv"))) == ["conv"]


def test_a_fused_operator_is_known_by_its_originals():
    fused = op("fused", originals=("conv", "b_dequant_layer"), outputs=(desc(),))
    assert filtered(*chain(step("a_quant_layer", "DT_INT8"), fused, step("end"))) == []


def test_the_output_that_is_used_decides():
    both = op("two_dequant_layer", number=2, inputs=("q:0",), outputs=(desc(), desc(dtype="DT_INT32")))
    ops = [
        op("q_quant_layer", number=1, outputs=(desc(dtype="DT_INT8"),)),
        {**both, "input": ["q_quant_layer:0"]},
        op("good", number=3, inputs=("two_dequant_layer:0",), outputs=(desc(),)),
        op("bad", number=4, inputs=("two_dequant_layer:1",), outputs=(desc(),)),
    ]
    assert filtered(*ops) == ["two_dequant_layer", "bad"]


def test_producers_that_come_later_or_nowhere_count_as_normal():
    ops = [
        op("a", number=1, inputs=("q_quant_layer:0", "none:0", "broken", ":", "a:9"), outputs=(desc(),)),
        op("q_quant_layer", number=2, outputs=(desc(dtype="DT_INT8"),)),
        op("b", number=3, inputs=("q_quant_layer:7",), outputs=(desc(),)),
    ]
    assert filtered(*ops) == []


def test_an_operator_that_looks_quantised_by_a_part_of_its_name_is_not():
    assert filtered(*chain(step("post_quantile", "DT_INT8"), step("end"))) == []


@pytest.mark.parametrize(
    ("name", "op_type", "compares"),
    [
        ("conv", "Conv2D", (True, True)),
        ("x", "AscendDequant", (False, True)),
        ("x_dequant_layer", "T", (False, True)),
        ("xAscendDequant", "T", (False, True)),
        ("x_dequant", "T", (False, True)),
        ("x_dequant_1", "T", (True, True)),
        ("x", "AscendQuant", (True, False)),
    ],
)
def test_what_quantising_operators_compare(name, op_type, compares):
    (each,) = fusion_rules(file("f.json", op(name, op_type))).ops
    assert (each.compares_inputs, each.compares_outputs) == compares


def test_filtering_of_the_target_rules_stays_when_files_are_merged():
    found = fusion_rules(
        file(
            "f.json",
            *chain(step("a_quant_layer", "DT_INT8"), step("conv1", "DT_INT32"), step("b_dequant_layer"), step("end")),
        ),
        quant=QUANT,
    )
    assert [each.name for each in found.ops if each.is_filtered] == ["conv1"]
