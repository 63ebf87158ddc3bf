"""Device operators computed again from their own inputs: they are known by their types alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torchair_builders import GeDump, mul_add_relu, write_device_op, write_fx_node

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

X, Y, Z = (np.arange(6, dtype=np.float32).reshape(2, 3) + base for base in (1, 10, -40))


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def origins(folder: Path, *, product: float, relu: float, recompute: str) -> list[str]:
    """Compare ``relu(x * y + z)``, some of whose device results are off by a factor."""
    dump = GeDump(folder / "ge")
    dump.graph(mul_add_relu())
    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    a = X * Y * np.float32(product)
    b = a + Z
    write_device_op(device, "Mul", "Mul", at=1, inputs=[X, Y], outputs=[a])
    write_device_op(device, "Add", "Add", at=2, inputs=[a, Z], outputs=[b])
    write_device_op(device, "Relu", "Relu", at=3, inputs=[b], outputs=[np.maximum(b, 0) * np.float32(relu)])
    write_fx_node(fx, "mul-aten.mul.Tensor", at=1, inputs=[X, Y], outputs=[X * Y])
    write_fx_node(fx, "add-aten.add.Tensor", at=2, inputs=[X * Y, Z], outputs=[X * Y + Z])
    write_fx_node(fx, "relu-aten.relu.default", at=3, inputs=[X * Y + Z], outputs=[np.maximum(X * Y + Z, 0)])
    context = Context(
        stage="compare", output=folder, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    pairs = match_torchair(read_torchair_ge(folder / "ge", side="target"), read_torchair_fx(fx, side="golden"))
    found = compare_pairs(pairs, Asked(recompute=Recompute(recompute)), context, None)
    return [each.node.name for each in found.findings if each.kind is FindingKind.ORIGIN and each.fails]


@pytest.mark.parametrize(("recompute", "due"), [("never", ["Mul"]), ("auto", ["Mul", "Relu"])])
def test_a_second_wrong_operator_is_found_by_its_own_inputs(tmp_path, recompute, due):
    assert origins(tmp_path, product=1.5, relu=1.2, recompute=recompute) == due


def test_what_only_carries_on_is_no_further_origin(tmp_path):
    assert origins(tmp_path, product=1.5, relu=1.0, recompute="auto") == ["Mul"]


def test_a_healthy_pair_is_accused_of_nothing(tmp_path):
    assert origins(tmp_path, product=1.0, relu=1.0, recompute="all") == []
