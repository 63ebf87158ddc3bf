"""Graphs of dynamic shapes: the text leaves a size open, or has that of another execution."""

from __future__ import annotations

import numpy as np
import pytest
from torchair_builders import GeDump, Op, fx_token, write_device_op, write_fx_node
from torchair_checks import check_complete, golden_of, missing

from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Edge, Pairs

NEW = np.arange(3, dtype=np.float32).reshape(1, 3)


def pairs_of(root, length: int, in_text: int) -> Pairs:
    """A cache of so many rows gets one more, and its exponential is multiplied with a constant of one element."""
    dump = GeDump(root / "msprobe_ge_dump")
    rows = in_text + 1 if in_text >= 0 else -1
    dump.graph([
        Op("cache", "Data", (), [(None, (in_text, 3))]),
        Op("new", "Data", (), [(None, (1, 3))]),
        Op("axis", "Const", (), [(None, ())], dtype="int32"),
        Op("two", "Const", (), [(None, ())]),
        Op("ConcatV2", "ConcatV2", ("cache:0", "new:0", "axis:0"), [("cat-aten.cat.default.OUTPUT.0", (rows, 3))]),
        Op("Exp", "Exp", ("ConcatV2:0",), [("exp-aten.exp.default.OUTPUT.0", (rows, 3))]),
        Op("Mul", "Mul", ("Exp:0", "two:0"), [("mul-aten.mul.Tensor.OUTPUT.0", (rows, 3))]),
    ])  # fmt: skip
    cache = np.linspace(-1, 1, 3 * length, dtype=np.float32).reshape(length, 3)
    joined = np.concatenate([cache, NEW])
    fx, folder = fx_token(root, 0), dump.token(0)
    write_fx_node(fx, "cat-aten.cat.default", at=1, inputs={"0.0": cache, "0.1": NEW, "1": 0}, outputs=[joined])
    write_fx_node(fx, "exp-aten.exp.default", at=2, inputs=[joined], outputs=[np.exp(joined)])
    write_fx_node(fx, "mul-aten.mul.Tensor", at=3, inputs=[np.exp(joined), 2.0], outputs=[2 * np.exp(joined)])
    write_device_op(folder, "ConcatV2", "ConcatV2", at=1, inputs=[cache, NEW], outputs=[joined])
    write_device_op(folder, "Exp", "Exp", at=2, inputs=[joined], outputs=[np.exp(joined)])
    write_device_op(folder, "Mul", "Mul", at=3, inputs=[np.exp(joined), np.float32(2)], outputs=[2 * np.exp(joined)])
    pairs = match_torchair(read_torchair_ge(dump.root, side="target"), read_torchair_fx(root, side="golden"))
    check_complete(pairs)
    return pairs


@pytest.mark.parametrize("in_text", [-1, 2], ids=["open", "of another execution"])
def test_tensors_of_any_length_are_compared_and_linked(tmp_path, in_text):
    pairs = pairs_of(tmp_path, 5, in_text)
    assert missing(pairs) == []
    found = golden_of(pairs)
    assert found["Exp.input.0"] == "cat.output.0"
    assert found["Mul.input.0"] == "exp.output.0"
    nodes = {key.name: key for key in pairs.target.nodes}
    assert {
        Edge(nodes["ConcatV2"], 0, nodes["Exp"], 0),
        Edge(nodes["Exp"], 0, nodes["Mul"], 0),
    } <= set(pairs.target.edges)
