"""Parts of an ONNX model: what a script is given of it, read without the library and beside it."""

from __future__ import annotations

import base64
import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from probe_flow.errors import UsageError
from probe_flow.scripts.onnx_parts import ModelParts

SAMPLE = Path(__file__).parents[3] / "examples" / "offline" / "models" / "sample.onnx"


def test_a_node_is_cut_out_with_its_attributes_and_weights():
    parts = ModelParts(SAMPLE)
    data, weight, *rest = parts.reads("conv1")
    output = parts.tensor("conv1", 0)

    found = parts.part([output], [data])

    assert not isinstance(found, str)
    assert found.inputs == (data,)
    (node,) = found.graph["nodes"]
    assert (node["op_type"], node["inputs"], node["outputs"]) == ("Conv", [data, weight, *rest], [output])
    assert set(found.graph["constants"]) == {weight, *rest}
    assert node["attributes"] == {"pads": {"type": "INTS", "value": [1, 1, 1, 1]}}
    kernel = found.constants[found.graph["constants"][weight]["file"]]
    assert (kernel.dtype, kernel.shape) == (np.float32, (8, 3, 3, 3))


def test_what_was_not_dumped_is_named():
    parts = ModelParts(SAMPLE)
    found = parts.part([parts.tensor("conv1", 0)], [])
    assert isinstance(found, str)
    assert "it needs `x`, which `conv1` of the model reads" in found


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no model", "is no ONNX model"),
        (b"", "holds no graph"),
        (b"\x3a\x00", "has no operators"),
        (None, "cannot be"),
    ],
)
def test_other_files_are_refused(tmp_path, content, why):
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=why) as caught:
        ModelParts(path)
    assert caught.value.diagnostic.code == "PF6322"


def test_a_cut_model_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    shutil.copy(SAMPLE, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UsageError, match="is no ONNX model: it is cut off"):
        ModelParts(path)


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed")
def test_the_library_makes_the_same_nodes_of_a_part(tmp_path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from probe_flow.apis.onnx.part import OnnxPart

    two = numpy_helper.from_array(np.float32(2), "two")
    then = helper.make_graph([helper.make_node("Mul", ["m", "two"], ["t"])], "then", [], [_info("t")], [two])
    other = helper.make_graph([helper.make_node("Neg", ["m"], ["e"])], "else", [], [_info("e")])
    shift = numpy_helper.from_array(np.full((1,), 0.5, np.float16))
    nodes = [
        helper.make_node("Constant", [], ["c"], name="c", value=shift),
        helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "d"], ["m"], name="Cast_1"),
        helper.make_node("If", ["flag"], ["b"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Resize", ["b", "", "scales"], ["y"], name="up", mode="linear", antialias=1),
        helper.make_node("Own", ["y"], ["z"], domain="com.own", alpha=0.25, texts=["a", "ф"], raw=b"\xff", one=[1.5]),
    ]
    weights = [numpy_helper.from_array(np.array([1.0, 2.0], np.float32), "scales")]
    graph = helper.make_graph(nodes, "g", [_info("x"), _info("flag")], [_info("z")], weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), path)

    found = ModelParts(path).part(["z"], ["x", "flag"])

    assert not isinstance(found, str)
    folder = tmp_path / "script"
    (folder / "constants").mkdir(parents=True)
    for file, values in found.constants.items():
        np.save(folder / file, values)
    side = OnnxPart({**found.graph, "inputs": [], "outputs": []}, folder, is_double=False)
    assert [node.op_type for node in side._nodes] == ["Constant", "Cast", "Add", "If", "Resize", "Own"]
    for node, own in zip(onnx.load(path).graph.node, side._nodes, strict=True):
        node.name, node.domain = own.name, own.domain
        for attribute in (*node.attribute, *own.attribute):
            if attribute.HasField("t"):
                attribute.t.name = ""
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t)))
        assert node == own
    assert [node.name for node in side._nodes][:3] == ["c", "Cast_1__2", "Cast_1"]
    assert base64.b64decode(found.graph["nodes"][3]["attributes"]["then_branch"]["value"]).find(b"then") > 0


def _info(name: str):
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
