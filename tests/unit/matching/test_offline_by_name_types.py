"""Operators of one name but different types, without rules: their outputs are compared, their inputs are a guess."""

from __future__ import annotations

import numpy as np
from offline_builders import by_target, match
from om_writer import OmFolder, tensor


def test_inputs_of_operators_of_another_type_are_a_guess(tmp_path):
    values = np.arange(8, dtype=np.float16).reshape(2, 4)
    sides = {"target": ("LayerNormScale", "Relu"), "golden": ("LayerNorm", "Relu")}
    for side, types in sides.items():
        folder = OmFolder(tmp_path / side)
        for at, (name, op_type) in enumerate(zip(("ln", "act"), types, strict=True), start=1):
            given = tensor(values, "float16", address=0x1000 * at)
            made = tensor(values, "float16", address=0x1000 * (at + 1))
            folder.op(op_type, name, at=at, inputs=[given], outputs=[made])
    found = by_target(match(tmp_path / "target", tmp_path / "golden"))
    assert {name: (pair.rule.name, pair.confidence) for name, pair in found.items()} == {
        "ln.input.0": ("name", 0.6), "ln.output.0": ("name", 1.0),
        "act.input.0": ("name", 1.0), "act.output.0": ("name", 1.0),
    }  # fmt: skip
    reason = found["ln.input.0"].reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        "guessed", "`LayerNormScale` and `LayerNorm` of one name: their inputs may be others"
    )  # fmt: skip
