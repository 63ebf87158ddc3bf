"""Names and folders of MindSpore kernel dumps, by hand and by the real lists of two models."""

from __future__ import annotations

import pytest

from probe_flow.dumps.mindspore_graph.layout import RunFolder, run_folder
from probe_flow.dumps.mindspore_graph.names import OpName, op_name, parse_tensor_file_name
from probe_flow.dumps.mindspore_graph.statistic_csv import _digits, _shape
from probe_flow.records import Phase, Slot, SlotRole


def test_a_file_name_is_taken_apart():
    found = parse_tensor_file_name(
        "MatMul.Default_net-Net_b1-Block_fc-Dense_MatMul-op12.3.4.1795176644352705.input.1.NCHW.Float16.npy"
    )
    assert found is not None
    assert (found.op_type, found.slot, found.timestamp) == ("MatMul", Slot(SlotRole.INPUT, (1,)), 1795176644352705)
    assert (found.layout, found.dtype) == ("NCHW", "Float16")
    full = "Default_net-Net_b1-Block_fc-Dense_MatMul-op12"
    assert found.op == OpName(full, "Default_net-Net_b1-Block_fc-Dense_MatMul", 12)


@pytest.mark.parametrize(
    ("name", "layout", "dtype"),
    [
        ("Parameter.net_b1_fc_bias.0.0.1795.output.0.DefaultFormat.Float32.npy", "DefaultFormat", "Float32"),
        ("Parameter.фx.0.0.1795.output.0.DefaultFormat.npy", "DefaultFormat", ""),
    ],
)
def test_parameters_have_no_number_and_older_writers_no_dtype(name, layout, dtype):
    found = parse_tensor_file_name(name)
    assert found is not None
    assert (found.op_type, found.op.number, found.layout, found.dtype) == ("Parameter", -1, layout, dtype)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.npy",
        "Add.Default_Add-op0.0.0.1.input.0.DefaultFormat.Float32.bin",
        "Add.Default_Add-op0.0.0.1.between.0.DefaultFormat.Float32.npy",
        "Add.Default_Add-op0.0.x.1.input.0.DefaultFormat.Float32.npy",
        "add_1-aten.add.Tensor.INPUT.0.20251017071211190258.npy",
        "." * 300 + "npy",
    ],
)
def test_other_names_are_none(name):
    assert parse_tensor_file_name(name) is None


def test_a_scope_and_its_flattened_form_are_one_name():
    assert op_name("Gradients/Default/net.a-Net/Grad_Mul/Mul-op3") == op_name(
        "Gradients_Default_net_a-Net_Grad_Mul_Mul-op3"
    )
    assert op_name("Gradients/Default/Mul-op3").phase is Phase.BACKWARD
    assert op_name("Default/Gradients_like/Mul-op3").phase is Phase.FORWARD


@pytest.mark.parametrize(
    ("folders", "above", "found"),
    [
        (("rank_2", "Net", "1", "20"), ("x",), RunFolder(2, "Net", 1, 20)),
        (("a", "rank_2", "Net", "1", "20"), (), RunFolder(2, "Net", 1, 20)),
        ((), ("rank_2", "Net", "1", "20"), RunFolder(2, "Net", 1, 20)),
        (("1", "20"), (), RunFolder(None, None, 1, 20)),
        (("device", "Net", "1", "20"), (), RunFolder(None, "Net", 1, 20)),
        (("rank_0", "Net", "3", "constants"), (), RunFolder(0, "Net", 3, None)),
        (("rank_0", "graphs"), (), None),
        (("rank_0", "Net", "01", "2"), (), None),
        (("rank_0", "Net", "1", "-2"), (), None),
        (("20",), (), None),
        ((), (), None),
    ],
)
def test_folders_tell_rank_net_graph_and_iteration(folders, above, found):
    assert run_folder(folders, above=above) == found


@pytest.mark.parametrize(
    ("text", "digits"),
    [("1.36646", 6), ("-2.5e-05", 2), ("0.0833333", 6), ("3", 1), ("0", 0), ("nan", 0), ("", 0), ("1234567.5", 8)],
)
def test_digits_are_counted_without_leading_zeros(text, digits):
    assert _digits(text) == digits


@pytest.mark.parametrize(
    ("text", "shape"), [("(4,8)", (4, 8)), ("(8)", (8,)), ("()", ()), ("[2, 3]", (2, 3)), ("", None), (None, None)]
)
def test_shapes_are_read(text, shape):
    assert _shape(text) == shape
