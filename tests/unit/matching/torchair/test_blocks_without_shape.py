"""Device tensors in blocks whose headers give no shape: the graph says how much of them is padding."""

from __future__ import annotations

import numpy as np
import pytest
from ge_writer import DumpTensor
from torchair_builders import GeDump, Op, fx_token, write_device_op, write_fx_node
from torchair_checks import check_complete, golden_of, missing

from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Pairs

IMAGE = np.arange(2 * 3 * 4 * 5, dtype=np.float16).reshape(2, 3, 4, 5)
MATRIX = np.arange(3 * 18, dtype=np.float16).reshape(3, 18)
GRAPH = [
    Op("x", "Data", (), [(None, (2, 3, 4, 5))], "float16"),
    Op("Relu", "Relu", ("x:0",), [("relu-aten.relu.default.OUTPUT.0", (2, 3, 4, 5))], "float16"),
    Op("Abs", "Abs", ("Relu:0",), [("abs-aten.abs.default.OUTPUT.0", (2, 3, 4, 5))], "float16"),
    Op("y", "Data", (), [(None, (3, 18))], "float16"),
    Op("Neg", "Neg", ("y:0",), [("neg-aten.neg.default.OUTPUT.0", (3, 18))], "float16"),
]


def blocks(values: np.ndarray, layout: str) -> DumpTensor:
    """A tensor whose header has no original shape."""
    return DumpTensor(values, "float16", layout, original_shape=())


@pytest.fixture
def pairs(tmp_path) -> Pairs:
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(GRAPH)
    fx, folder = fx_token(tmp_path, 0), dump.token(0)
    write_fx_node(fx, "relu-aten.relu.default", at=1, inputs=[IMAGE], outputs=[IMAGE])
    write_fx_node(fx, "abs-aten.abs.default", at=2, inputs=[IMAGE], outputs=[IMAGE])
    write_fx_node(fx, "neg-aten.neg.default", at=3, inputs=[MATRIX], outputs=[-MATRIX])
    image = blocks(IMAGE, "NC1HWC0")
    write_device_op(folder, "TransData", "trans_TransData_0", at=1, inputs=[DumpTensor(IMAGE, "float16", "NCHW")],
                    outputs=[image])  # fmt: skip
    write_device_op(folder, "Relu", "Relu", at=2, inputs=[image], outputs=[image])
    write_device_op(folder, "Abs", "Abs", at=3, inputs=[image], outputs=[image])
    write_device_op(folder, "Neg", "Neg", at=4, inputs=[blocks(MATRIX, "FRACTAL_NZ")],
                    outputs=[blocks(-MATRIX, "FRACTAL_NZ")])  # fmt: skip
    target = read_torchair_ge(dump.root, side="target")
    found = match_torchair(target, read_torchair_fx(tmp_path, side="golden"))
    check_complete(found)
    return found


def test_each_is_compared_without_its_padding(pairs):
    assert golden_of(pairs) == {
        "trans_TransData_0.output.0": "trans_TransData_0.input.0",
        "Relu.input.0": "relu.input.0",
        "Relu.output.0": "relu.output.0",
        "Abs.input.0": "relu.output.0",
        "Abs.output.0": "abs.output.0",
        "Neg.input.0": "neg.input.0",
        "Neg.output.0": "neg.output.0",
    }
    assert missing(pairs) == []


def test_the_shape_is_that_of_the_graph_and_what_lies_in_the_file_stays(pairs):
    shapes = {ref.id: (ref.shape, ref.logical_shape) for ref in pairs.target.tensors}
    stored = (2, 1, 4, 5, 16)
    found = [value for value in shapes.values() if len(value[0] or ()) == 5]
    assert found == [(stored, (2, 3, 4, 5))] * 5
    assert [value for value in shapes.values() if value[0] == (2, 1, 16, 16)] == [((2, 1, 16, 16), (3, 18))] * 2


HEADER = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,"
    "Negative Inf Count,Positive Inf Count"
)


def test_statistics_of_blocks_are_those_of_the_tensor_that_feeds_the_operator(tmp_path):
    rows, weight = np.eye(2, 3, dtype=np.float16), np.full((3, 5), 0.5, np.float16)
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph([
        Op("x", "Data", (), [(None, (2, 3))], "float16"),
        Op("w", "Data", (), [(None, (3, 5))], "float16"),
        Op("MatMul", "MatMulV2", ("x:0", "w:0"), [("mm-aten.mm.default.OUTPUT.0", (2, 5))], "float16"),
    ])  # fmt: skip
    fx, folder = fx_token(tmp_path, 0), dump.token(0)
    write_fx_node(fx, "mm-aten.mm.default", at=1, inputs=[rows, weight], outputs=[rows @ weight])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MatMulV2.MatMul.11.7.1767225600000001.csv").write_text("\n".join([
        HEADER,
        "Input,0,12,DT_FLOAT16,ND,2x3,1,0,0.333333,6,0,0,0",
        "Input,1,512,DT_FLOAT16,FRACTAL_NZ,1x1x16x16,0.5,0,0.0292969,256,0,0,0",
        "Output,0,20,DT_FLOAT16,ND,2x5,0.5,0.5,0.5,10,0,0,0",
    ]) + "\n")  # fmt: skip
    pairs = match_torchair(read_torchair_ge(dump.root, side="target"), read_torchair_fx(tmp_path, side="golden"))
    check_complete(pairs)
    assert golden_of(pairs)["MatMul.input.1"] == "mm.input.1"
    assert missing(pairs) == []
    recorded = next(ref.recorded for ref in pairs.target.tensors if ref.layout == "FRACTAL_NZ")
    assert recorded is not None
    assert recorded.mean == pytest.approx(0.5, rel=1e-5)  # of 15 elements; those of the padding are zero


def test_statistics_that_a_change_of_layout_pads_are_compared_with_those_it_read(tmp_path):
    """The graph does not know what the device inserted: its two ends have one shape, which one of them shows."""
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(GRAPH)
    fx, folder = fx_token(tmp_path, 0), dump.token(0)
    write_fx_node(fx, "neg-aten.neg.default", at=1, inputs=[MATRIX], outputs=[-MATRIX])
    mean, stored = MATRIX.mean(), MATRIX.sum() / 512
    (folder / "TransData.trans_TransData_0.10.7.1767225600000000.csv").write_text("\n".join([
        HEADER,
        f"Input,0,108,DT_FLOAT16,ND,3x18,53,0,{mean},54,0,0,0",
        f"Output,0,1024,DT_FLOAT16,FRACTAL_NZ,2x1x16x16,53,0,{stored:.6g},512,0,0,0",
    ]) + "\n")  # fmt: skip
    write_device_op(folder, "Neg", "Neg", at=4, inputs=[MATRIX], outputs=[-MATRIX], dtype="float16")
    pairs = match_torchair(read_torchair_ge(dump.root, side="target"), read_torchair_fx(tmp_path, side="golden"))
    assert golden_of(pairs)["trans_TransData_0.output.0"] == "trans_TransData_0.input.0"
    padded = next(ref for ref in pairs.target.tensors if ref.layout == "FRACTAL_NZ")
    assert (padded.shape, padded.logical_shape) == ((2, 1, 16, 16), (3, 18))
    assert padded.recorded is not None
    assert padded.recorded.mean == pytest.approx(float(mean), rel=1e-5)
