"""Kernel graph texts of MindSpore: definitions, arguments, and which output feeds which input."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe_flow.dumps.mindspore_graph.flow import DataFlow, links_of
from probe_flow.dumps.mindspore_graph.ir import IrError, IrText, read_ir

TEXT = """\
# IR entry: @kernel_graph0
%para1_net.w: <Ref[Tensor[Float32]], (2, 2), ref_key=net.w, is_parameter>  :  has_default  :  <F>  :  IsWeight: true
%para2_фx: <Tensor[Float32], (2, 2)> : [2, 2]  :  <Float32xDefaultFormat[const vector]{2, 2}>  :  IsWeight: false

subgraph @kernel_graph0() {
  %0(equiv_1_CNode_3$a) = Load(%para1_net.w, UMonad[U]) cnode_attrs: {checkpoint: Bool(1)}
      # Fullname with scope: (Default/net-Net/Load-op0)
  %1(y) = PrimFunc_Split(%para2_фx, Tensor(shape=[2], dtype=Float32, value=
[ 1.0e+00, (2)]), "a, (b") {instance name: split} primitive_attrs: {n: I64(2)}
      : (<Tensor[Float32], (2, 2)>) -> (<Tuple[Tensor[Float32]*2], TupleShape((2), (2))>)
      # Fullname with scope: (Default/net-Net/Split-op4)
      # In file /opt/model/net.py:3, 4~5/ %9(z) = Add(%8)/
  %2(a) = TupleGetItem(%1, I64(1)) cnode_attrs: {}
      # Fullname with scope: (Default/net-Net/TupleGetItem-op0)
  %3(t) = MakeTuple(%2, %0, %1) cnode_attrs: {}
      # Fullname with scope: (Default/MakeTuple-op0)
  %4(d) = Depend(%3, %2) cnode_attrs: {}
  %5(c) = PrimFunc_Concat(%3, I64(0)) {instance name: concat}
      # Fullname with scope: (Default/net-Net/Concat-op2)
  %6(e) = TupleGetItem(%3, I64(0)) cnode_attrs: {}
  %7(s) = SGD(%para1_net.w, %5, %6) primitive_attrs: {weight_decay: F32(0)}
      # Fullname with scope: (Default/optimizer-SGD/SGD-op7)
  Return(%7)
}
# Order:
"""


@pytest.fixture
def text(tmp_path: Path) -> IrText:
    file = tmp_path / "ms_output_trace_code_graph_0.ir"
    file.write_text(TEXT)
    return read_ir(file)


def test_definitions_have_operator_arguments_and_scope(text):
    operators = [definition.operator for definition in text.nodes]
    assert operators == ["Load", "PrimFunc_Split", "TupleGetItem", "MakeTuple", "Depend", "PrimFunc_Concat",
                         "TupleGetItem", "SGD"]  # fmt: skip
    split = text.nodes[1]
    assert split.scope == "Default/net-Net/Split-op4"
    assert split.arguments == (
        "%para2_фx",
        "Tensor(shape=[2], dtype=Float32, value=\n[ 1.0e+00, (2)])",
        '"a, (b"',
    )
    assert {name: each.is_weight for name, each in text.parameters.items()} == {"net.w": True, "фx": False}


def test_inputs_are_followed_through_tuples_and_loads(text):
    flow = DataFlow(text)
    by_operator = {definition.operator: definition for definition in text.nodes}
    assert flow.sources(by_operator["PrimFunc_Split"]) == ["фx", None, None]
    assert flow.sources(by_operator["PrimFunc_Concat"]) == [(1, 1), None, (1, 0), None]
    assert flow.sources(by_operator["SGD"]) == [None, (5, 0), (1, 1)]
    assert flow.written(by_operator["SGD"]) == {0: "net.w"}


def test_links_name_operators_by_their_place_among_namesakes(text):
    split, concat, sgd = ("Default_net-Net_Split", 0), ("Default_net-Net_Concat", 0), ("Default_optimizer-SGD_SGD", 0)
    links = links_of(text, {"Default_net-Net_Concat": [0]})
    assert links is not None
    assert (("Parameter.фx", 0), 0, split, 0) in links
    assert (split, 1, concat, 0) in links
    assert (split, 0, concat, 2) in links
    assert (concat, 0, sgd, 1) in links
    assert (sgd, 0, ("Parameter.net_w", 0), 0) in links
    assert (concat, 0, sgd, 0) in links, "the weight is dumped after the operator has written it"


def test_a_text_without_a_dumped_operator_is_of_another_graph(text):
    assert links_of(text, {"Default_net-Net_Concat": [0, 1]}) is None
    assert links_of(text, {"Default_other": [0]}) is None


def test_a_text_that_refers_to_itself_ends(tmp_path):
    file = tmp_path / "g.ir"
    file.write_text("  %0(a) = Depend(%1, %1)\n  %1(b) = Depend(%0, %0)\n  %2(c) = Add(%1, %7)\n")
    text = read_ir(file)
    assert DataFlow(text).sources(text.nodes[2]) == [None, None]


@pytest.mark.parametrize("content", ["", "no graph", "  %0(a) = Add(%1, (%2\n" * 3])
def test_what_is_no_graph_is_refused(tmp_path, content):
    file = tmp_path / "g.ir"
    file.write_text(content)
    with pytest.raises(IrError):
        read_ir(file)


def test_a_missing_text_is_refused(tmp_path):
    with pytest.raises(IrError, match="cannot be read"):
        read_ir(tmp_path / "none.ir")
