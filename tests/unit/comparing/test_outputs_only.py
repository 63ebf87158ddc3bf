"""Device dumps of outputs alone (``dump_mode`` output): what each operator read is known from the graph text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torchair_builders import GeDump, Op, write_device_op, write_fx_node

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

ROWS, WIDTH = 64, 32


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def fx_name(node: str, kind: str) -> str:
    return f"{node}-aten.{kind}"


def written(folder: Path, *, tie: bool = False, turned: bool = False, product: float = 1.0) -> None:
    """Write ``h = relu(x)``, ``argmax(h)``, the rows of a table that it picks, and apart from them ``h * 3``.

    Args:
        folder: of both dumps.
        tie: the two largest values of the first row are one rounding apart, and the device picks the second.
        turned: the device picks some value of the second row.
        product: factor on the device's ``h * 3``.
    """
    source = np.random.default_rng(5).standard_normal((ROWS, WIDTH)).astype(np.float16).astype(np.float32)
    table = np.random.default_rng(6).standard_normal((WIDTH, 8)).astype(np.float16).astype(np.float32)
    source[0, :2] = 5.0, 5.0 - 2.0**-9
    golden = np.maximum(source, 0)
    mine = golden.copy()
    due = golden.argmax(axis=1)
    picked = due.copy()
    if tie:
        mine[0, :2] = 4.996, 4.9998
        picked[0] = 1
    if turned:
        picked[1] = (due[1] + 7) % WIDTH
    dump = GeDump(folder / "ge")
    names = [fx_name("relu", "relu.default"), fx_name("argmax", "argmax.default")]
    names += [fx_name("embedding", "embedding.default"), fx_name("mul", "mul.Tensor")]
    relu, argmax, rows, mul = (f"{name}.OUTPUT.0" for name in names)
    dump.graph(
        [
            Op("arg0", "Data", (), [(None, (ROWS, WIDTH))], dtype="float16"),
            Op("arg1", "Data", (), [(None, (WIDTH, 8))], dtype="float16"),
            Op("Relu", "Relu", ("arg0:0",), [(relu, (ROWS, WIDTH))], dtype="float16"),
            Op("ArgMaxV2", "ArgMaxV2", ("Relu:0",), [(argmax, (ROWS,))], dtype="int64"),
            Op("GatherV2", "GatherV2", ("arg1:0", "ArgMaxV2:0"), [(rows, (ROWS, 8))], dtype="float16"),
            Op("Mul", "Mul", ("Relu:0",), [(mul, (ROWS, WIDTH))], dtype="float16"),
        ]
    )
    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    write_device_op(device, "Relu", "Relu", at=1, outputs=[mine], dtype="float16")
    write_device_op(device, "ArgMaxV2", "ArgMaxV2", at=2, outputs=[picked], dtype="int64")
    write_device_op(device, "GatherV2", "GatherV2", at=3, outputs=[table[picked]], dtype="float16")
    write_device_op(device, "Mul", "Mul", at=4, outputs=[mine * np.float32(3 * product)], dtype="float16")
    write_fx_node(fx, names[0], at=1, inputs=[source], outputs=[golden])
    write_fx_node(fx, names[1], at=2, inputs=[golden], outputs=[due])
    write_fx_node(fx, names[2], at=3, inputs=[table, due], outputs=[table[due]])
    write_fx_node(fx, names[3], at=4, inputs=[golden, 3.0], outputs=[golden * 3])


def failing(folder: Path) -> list[str]:
    """Return what the comparison accuses, drift included."""
    context = Context(
        stage="compare", output=folder, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    target = read_torchair_ge(folder / "ge", side="target")
    pairs = match_torchair(target, read_torchair_fx(folder / "fx", side="golden"))
    comparison = compare_pairs(pairs, Asked(recompute=Recompute("auto")), context, None)
    return [f"{each.kind}:{each.node.name}" for each in comparison.findings if each.fails]


@pytest.mark.parametrize(
    ("fault", "due"),
    [
        ({}, []),
        ({"tie": True}, []),
        ({"turned": True}, [f"{FindingKind.ORIGIN}:ArgMaxV2"]),
        ({"product": 1.1}, [f"{FindingKind.ORIGIN}:Mul"]),
        ({"tie": True, "product": 1.1}, [f"{FindingKind.ORIGIN}:Mul"]),
        ({"turned": True, "product": 1.1}, [f"{FindingKind.ORIGIN}:ArgMaxV2", f"{FindingKind.ORIGIN}:Mul"]),
    ],
)
def test_what_is_accused(tmp_path, fault, due):
    written(tmp_path, **fault)
    assert failing(tmp_path) == due


def test_edges_are_those_of_the_graph(tmp_path):
    written(tmp_path)
    edges = {
        (each.producer.name, each.consumer.name, each.input)
        for each in read_torchair_ge(tmp_path / "ge", side="target").edges
    }
    assert edges == {("Relu", "ArgMaxV2", 0), ("ArgMaxV2", "GatherV2", 1), ("Relu", "Mul", 0)}
