"""What operators of a graph overwrite: a device shows it as it is afterwards, and the next step begins with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from named_origins import compare, origins
from torchair_builders import FIRST_US, GeDump, Op, fx_token, write_device_op, write_fx_node

ROWS, WIDTH = 6, 64
RNG = np.random.default_rng(3)
BEGIN = np.float16(RNG.normal(size=(ROWS, WIDTH)))
NEW = np.float16(RNG.normal(size=(3, 1, WIDTH)))
NOISE = 1 + np.float32(RNG.choice([-1, 1], WIDTH)) * 2.0**-12
GRAPH = [
    Op("cache", "Data", (), [(None, (ROWS, WIDTH))], dtype="float16"),
    Op("x", "Data", (), [(None, (1, WIDTH))], dtype="float16"),
    Op("Exp", "Exp", ("x:0",), [("exp-aten.exp.default.OUTPUT.0", (1, WIDTH))], dtype="float16"),
    Op(
        "ScatterUpdate", "ScatterUpdate", ("cache:0", "Exp:0"),
        [("scatter-npu.scatter_update.default.OUTPUT.0", (ROWS, WIDTH))], dtype="float16",
    ),
    Op("Neg", "Neg", ("ScatterUpdate:0",), [("neg-aten.neg.default.OUTPUT.0", (ROWS, WIDTH))], dtype="float16"),
    Op("Abs", "Abs", ("cache:0",), [("abs-aten.abs.default.OUTPUT.0", (ROWS, WIDTH))], dtype="float16"),
]  # fmt: skip


def write(root: Path, shown: str = "all", form: str = "tensors", wrong_step: int | None = None) -> tuple[Path, Path]:
    """Write three steps; each rounds the exponential otherwise, and ``wrong_step`` loses its update."""
    made = GeDump(root / "msprobe_ge_dump")
    made.graph(GRAPH)
    mine, theirs = BEGIN, BEGIN.astype(np.float32)
    for step, x in enumerate(NEW):
        folder, fx = made.token(step), fx_token(root, step)
        new, due = np.float16(np.exp(x) * NOISE), np.exp(x.astype(np.float32))
        after, expected = (np.concatenate([each[1:], row]) for each, row in ((mine, new), (theirs, due)))
        if step == wrong_step:
            after = mine
        calls = [
            ("Exp", "exp-aten.exp.default", [x], new, [x.astype(np.float32)], due),
            ("Abs", "abs-aten.abs.default", [mine], np.abs(mine), [theirs], np.abs(theirs)),
            ("ScatterUpdate", "scatter-npu.scatter_update.default", [after, new], after, [theirs, due], expected),
            ("Neg", "neg-aten.neg.default", [after], -after, [expected], -expected),
        ]
        for at, (name, key, read, gave, golden_read, golden_gave) in enumerate(calls):
            inputs, outputs = read if shown != "output" else [], [gave] if shown != "input" else []
            if form == "tensors":
                write_device_op(folder, name, name, at=at, inputs=inputs, outputs=outputs, dtype="float16")
            else:
                write_statistics(folder / f"{name}.{name}.1{at}.7.{FIRST_US + at}.csv", inputs, outputs)
            write_fx_node(fx, key, at=at, inputs=golden_read, outputs=[golden_gave])
        mine, theirs = after, expected
    return made.root, root / "msprobe_fx_dump"


def write_statistics(path: Path, *sides: list[np.ndarray]) -> None:
    lines = ["Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count"]
    for side, tensors in zip(("Input", "Output"), sides, strict=True):
        for index, each in enumerate(tensors):
            wide = each.astype(np.float64)
            figures = f"{wide.max():.6g},{wide.min():.6g},{wide.mean():.6g},{each.size}"
            lines.append(f"{side},{index},{each.nbytes},DT_FLOAT16,ND,{'x'.join(map(str, each.shape))},{figures}")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("form", ["tensors", "statistics"])
@pytest.mark.parametrize("shown", ["all", "input", "output"])
def test_a_cache_accuses_nobody(tmp_path, shown, form):
    assert origins(compare(*write(tmp_path, shown, form))) == []


@pytest.mark.parametrize("shown", ["all", "input", "output"])
def test_an_update_that_is_lost_is_named(tmp_path, shown):
    found = origins(compare(*write(tmp_path, shown, wrong_step=1)))
    assert found
    assert found[0].node is not None
    assert (found[0].node.name, found[0].node.execution.step) == ("Neg" if shown == "input" else "ScatterUpdate", 1)
