"""Of operators that compute the same a compiler runs one: the others have no file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from torchair_builders import GeDump, Op, fx_token, write_device_op, write_fx_node
from torchair_checks import check_complete, missing

from probe_flow.analysis.silent_graph_operators import silent_on_device
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Pairs

X = np.array([[1, -2, 3], [0.5, 4, -1]], np.float32)
EXP = np.exp(X)


def graph(first: str, second: str) -> list[Op]:
    """Softmax twice along the axes that are given, each followed by an exponential that nobody else reads."""

    def chain(axes: str, tail: str, number: int) -> list[Op]:
        fx = f"_softmax{tail}-aten._softmax.default.OUTPUT.0", f"exp{tail}-aten.exp.default.OUTPUT.0"
        value = f't {{ data: "{number}" }}'
        return [
            Op(f"Const{tail}", "Const", (), [(None, ())], attrs={"value": value, "_place": f's: "{tail}"'}),
            Op(f"Softmax{tail}", "SoftmaxV2", ("x:0", f"Const{tail}:0"), [(fx[0], (2, 3))], attrs={"axes": axes}),
            Op(f"Exp{tail}", "Exp", (f"Softmax{tail}:0",), [(fx[1], (2, 3))]),
        ]

    tail = Op("Add", "Add", ("Exp:0", "Exp_1:0"), [("add-aten.add.Tensor.OUTPUT.0", (2, 3))])
    return [Op("x", "Data", (), [(None, (2, 3))]), *chain(first, "", 7), *chain(second, "_1", 7), tail]


def match(root, ops: Sequence[Op]) -> Pairs:
    dump = GeDump(root / "msprobe_ge_dump")
    dump.graph(ops)
    fx, folder = fx_token(root, 0), dump.token(0)
    for at, tail in enumerate(("", "_1")):
        write_fx_node(fx, f"_softmax{tail}-aten._softmax.default", at=2 * at, inputs=[X], outputs=[X])
        write_fx_node(fx, f"exp{tail}-aten.exp.default", at=2 * at + 1, inputs=[X], outputs=[EXP])
    write_fx_node(fx, "add-aten.add.Tensor", at=9, inputs=[EXP, EXP], outputs=[EXP + EXP])
    write_device_op(folder, "SoftmaxV2", "Softmax", at=1, inputs=[X, np.float32(7)], outputs=[X])
    write_device_op(folder, "Exp", "Exp", at=2, inputs=[X], outputs=[EXP])
    write_device_op(folder, "Add", "Add", at=3, inputs=[EXP, EXP], outputs=[EXP + EXP])
    pairs = match_torchair(read_torchair_ge(dump.root, side="target"), read_torchair_fx(root, side="golden"))
    check_complete(pairs)
    return pairs


@pytest.fixture
def merged(tmp_path) -> Pairs:
    return match(tmp_path, graph("i: 1", "i: 1"))


def test_what_it_would_have_given_is_said_to_be_what_the_other_gave(merged):
    reasons = {pair.golden.id: pair.reason.text for pair in merged.pairs if pair.target is None and pair.reason}
    assert reasons["_softmax_1.output.0"] == "`Softmax` ran for `Softmax_1`, its equal"


def test_nothing_is_missing_then(merged):
    assert missing(merged) == []
    assert list(silent_on_device(merged.target, None)) == []


def test_along_another_axis_it_is_another_operator(tmp_path):
    pairs = match(tmp_path, graph("i: 1", "i: 0"))
    assert missing(pairs) == ["_softmax_1.input.0", "_softmax_1.output.0", "exp_1.input.0"]
    assert [node.name for node, _, _ in silent_on_device(pairs.target, None)] == ["Softmax_1", "Exp_1"]
