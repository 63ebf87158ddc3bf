"""Transpositions that a device makes a flag of the product behind them: it reads the operand as it was."""

from __future__ import annotations

import numpy as np
import pytest
from torchair_builders import GeDump, Op, fx_token, write_device_op, write_fx_node
from torchair_checks import check_complete, golden_of, missing

from probe_flow.analysis.silent_graph_operators import silent_on_device
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WIDE = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) - 7
FIRST = X @ WIDE.T
SECOND = FIRST @ SQUARE.T


def graph():
    return [
        Op("x", "Data", (), [(None, (2, 3))]),
        Op("wide", "Data", (), [(None, (4, 3))]),
        Op("square", "Data", (), [(None, (4, 4))]),
        Op("order", "Const", (), [(None, (2,))], dtype="int64"),
        Op("Transpose", "Transpose", ("wide:0", "order:0"), [("t-aten.t.default.OUTPUT.0", (3, 4))]),
        Op("MatMulV2", "MatMulV2", ("x:0", "Transpose:0"), [("mm-aten.mm.default.OUTPUT.0", (2, 4))]),
        Op("Transpose_1", "Transpose", ("square:0", "order:0"), [("t_1-aten.t.default.OUTPUT.0", (4, 4))]),
        Op("MatMulV2_1", "MatMulV2", ("MatMulV2:0", "Transpose_1:0"), [("mm_1-aten.mm.default.OUTPUT.0", (2, 4))]),
    ]


def matched(tmp_path, *, wide, square, has_files=False):
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(graph())
    fx, folder = fx_token(tmp_path, 0), dump.token(0)
    write_fx_node(fx, "t-aten.t.default", at=1, inputs=[WIDE], outputs=[WIDE.T])
    write_fx_node(fx, "mm-aten.mm.default", at=2, inputs=[X, WIDE.T], outputs=[FIRST])
    write_fx_node(fx, "t_1-aten.t.default", at=3, inputs=[SQUARE], outputs=[SQUARE.T])
    write_fx_node(fx, "mm_1-aten.mm.default", at=4, inputs=[FIRST, SQUARE.T], outputs=[SECOND])
    if has_files:
        write_device_op(folder, "Transpose", "Transpose", at=1, inputs=[WIDE], outputs=[WIDE.T])
        write_device_op(folder, "Transpose", "Transpose_1", at=3, inputs=[SQUARE], outputs=[SQUARE.T])
    write_device_op(folder, "MatMulV2", "MatMulV2", at=2, inputs=[X, wide], outputs=[FIRST])
    write_device_op(folder, "MatMulV2", "MatMulV2_1", at=4, inputs=[FIRST, square], outputs=[SECOND])
    target = read_torchair_ge(dump.root, side="target")
    pairs = match_torchair(target, read_torchair_fx(tmp_path, side="golden"))
    check_complete(pairs)
    assert list(silent_on_device(target, None)) == []
    assert missing(pairs) == []
    return golden_of(pairs)


def test_a_product_with_a_flag_reads_what_the_transposition_read(tmp_path):
    found = matched(tmp_path, wide=WIDE, square=SQUARE)
    assert found["MatMulV2.input.1"] == "t.input.0"
    assert found["MatMulV2_1.input.1"] == "t_1.input.0"  # as the one whose shape tells


@pytest.mark.parametrize("has_files", [False, True])
def test_a_product_without_reads_what_it_gave(tmp_path, has_files):
    found = matched(tmp_path, wide=np.ascontiguousarray(WIDE.T), square=SQUARE.T.copy(), has_files=has_files)
    assert found["MatMulV2.input.1"] == "t.output.0"
    assert found["MatMulV2_1.input.1"] == "t_1.output.0"


def test_two_device_dumps_of_which_one_has_the_flag(tmp_path):
    sides = {}
    for side, wide, square in (("target", WIDE, SQUARE), ("golden", WIDE.T.copy(), SQUARE.T.copy())):
        dump = GeDump(tmp_path / side / "msprobe_ge_dump")
        dump.graph(graph())
        folder = dump.token(0)
        if side == "golden":
            write_device_op(folder, "Transpose", "Transpose", at=1, inputs=[WIDE], outputs=[WIDE.T])
            write_device_op(folder, "Transpose", "Transpose_1", at=3, inputs=[SQUARE], outputs=[SQUARE.T])
        write_device_op(folder, "MatMulV2", "MatMulV2", at=2, inputs=[X, wide], outputs=[FIRST])
        write_device_op(folder, "MatMulV2", "MatMulV2_1", at=4, inputs=[FIRST, square], outputs=[SECOND])
        sides[side] = read_torchair_ge(dump.root, side=side)
    pairs = match_torchair(sides["target"], sides["golden"])
    check_complete(pairs)
    found = golden_of(pairs)
    assert found["MatMulV2.input.0"] == "MatMulV2.input.0"
    assert found["MatMulV2.input.1"] == "Transpose.input.0"
    assert found["MatMulV2_1.input.1"] == "Transpose_1.input.0"
    assert missing(pairs) == []
