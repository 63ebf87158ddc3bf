"""Device operators computed again from their own inputs: known by their types, and by what their graph says of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ge_writer import DumpTensor
from ml_dtypes import bfloat16
from torchair_builders import GeDump, Op, mul_add_relu, write_device_op, write_fx_node

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
    return named(compared(folder, recompute)[0])


def compared(folder: Path, recompute: str):
    """Compare both sides; return the comparison, and what was told of computing again."""
    told: list[dict] = []

    def emit(event, **fields):
        if event == "compare.recomputed":
            told.append(fields)

    context = Context(
        stage="compare", output=folder, map=in_order, emit=emit, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    target = read_torchair_ge(folder / "ge", side="target")
    pairs = match_torchair(target, read_torchair_fx(folder / "fx", side="golden"))
    return compare_pairs(pairs, Asked(recompute=Recompute(recompute)), context, None), told


def named(comparison) -> list[str]:
    return [each.node.name for each in comparison.findings if each.kind is FindingKind.ORIGIN and each.fails]


@pytest.mark.parametrize(("recompute", "due"), [("never", ["Mul"]), ("auto", ["Mul", "Relu"])])
def test_a_second_wrong_operator_is_found_by_its_own_inputs(tmp_path, recompute, due):
    assert origins(tmp_path, product=1.5, relu=1.2, recompute=recompute) == due


def test_what_only_carries_on_is_no_further_origin(tmp_path):
    assert origins(tmp_path, product=1.5, relu=1.0, recompute="auto") == ["Mul"]


def test_a_healthy_pair_is_accused_of_nothing(tmp_path):
    assert origins(tmp_path, product=1.0, relu=1.0, recompute="all") == []


WEIGHT = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
ROWS = np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32)


def softmax(values, axis=-1):
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def network(folder: Path, *, product=1.0, share=1.0, axes="i: -1", slope="f: 0.5", leaky=1.0, name="Leaky") -> None:
    """Write ``leaky_relu(softmax(rows @ weight) - 0.1)``; ``axes``, ``slope`` are what the graph says."""
    shape = (32, 8)
    axes = {"axes": f"list {{ val_type: VT_LIST_INT {axes} }}"} if axes else {}
    dump = GeDump(folder / "ge")
    dump.graph(
        [
            Op("rows", "Data", (), [(None, ROWS.shape)]),
            Op("weight", "Data", (), [(None, WEIGHT.shape)]),
            Op("tenth", "Data", (), [(None, shape)]),
            Op("MatMul", "MatMulV2", ("rows:0", "weight:0"), [("mm-aten.mm.default.OUTPUT.0", shape)],
               attrs={"transpose_x1": "b: false", "transpose_x2": "b: false"}),
            Op("Softmax", "SoftmaxV2", ("MatMul:0",), [("softmax-aten._softmax.default.OUTPUT.0", shape)], attrs=axes),
            Op("Sub", "Sub", ("Softmax:0", "tenth:0"), [("sub-aten.sub.Tensor.OUTPUT.0", shape)]),
            Op("Leaky", "LeakyRelu", ("Sub:0",), [("leaky-aten.leaky_relu.default.OUTPUT.0", shape)],
               attrs={"negative_slope": slope}),
        ]
    )  # fmt: skip
    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    tenth = np.full(shape, 0.1, np.float32)
    for side in ("device", "fx"):
        is_device = side == "device"
        a = ROWS @ WEIGHT * np.float32(product if is_device else 1)
        b = softmax(a) * np.float32(share if is_device else 1)
        c = b - tenth
        d = np.where(c > 0, c, c * np.float32(0.5)) * np.float32(leaky if is_device else 1)
        if is_device:
            write_device_op(device, "MatMulV2", "MatMul", at=1, inputs=[ROWS, WEIGHT], outputs=[a])
            write_device_op(device, "SoftmaxV2", "Softmax", at=2, inputs=[a], outputs=[b])
            write_device_op(device, "Sub", "Sub", at=3, inputs=[b, tenth], outputs=[c])
            write_device_op(device, "LeakyRelu", name, at=4, inputs=[c], outputs=[d])
        else:
            write_fx_node(fx, "mm-aten.mm.default", at=1, inputs=[ROWS, WEIGHT], outputs=[a])
            write_fx_node(fx, "softmax-aten._softmax.default", at=2, inputs=[a], outputs=[b])
            write_fx_node(fx, "sub-aten.sub.Tensor", at=3, inputs=[b, tenth], outputs=[c])
            write_fx_node(fx, "leaky-aten.leaky_relu.default", at=4, inputs=[c], outputs=[d])


def test_operators_with_attributes_are_computed_by_what_their_graph_says(tmp_path):
    network(tmp_path, product=1.4, share=1.1)
    assert named(compared(tmp_path, "never")[0]) == ["MatMul"]
    found, told = compared(tmp_path, "auto")
    assert named(found) == ["MatMul", "Softmax"]
    assert all("given its own inputs, the output is off by" in each.evidence for each in found.findings[:2])
    assert (told[0]["calls"], told[0]["left"]) == (4, [])


def test_all_of_a_healthy_network_is_computed_and_accused_of_nothing(tmp_path):
    network(tmp_path)
    found, told = compared(tmp_path, "all")
    assert named(found) == []
    assert (told[0]["calls"], told[0]["left"]) == (4, [])


@pytest.mark.parametrize("wrong", [{"axes": "i: 0"}, {"axes": "i: 7"}, {"slope": "f: 0.25"}, {"slope": 's: "half"'}])
def test_nobody_is_accused_by_a_graph_that_says_something_else_than_was_computed(tmp_path, wrong):
    network(tmp_path / "right", **wrong)
    assert named(compared(tmp_path / "right", "all")[0]) == []
    network(tmp_path / "off", product=1.4, **wrong)
    assert named(compared(tmp_path / "off", "auto")[0]) == ["MatMul"]


def test_where_a_graph_gives_no_attribute_the_default_of_its_operator_counts(tmp_path):
    network(tmp_path, product=1.4, share=1.1, leaky=1.2)  # axes are -1 by default, the slope 0 and not a half
    (graph,) = (tmp_path / "ge").glob("dynamo_*.txt")
    lines = [line for line in graph.read_text().splitlines() if not line.startswith("  attr {")]
    graph.write_text("\n".join(lines))
    assert named(compared(tmp_path, "auto")[0]) == ["MatMul", "Softmax"]


@pytest.mark.parametrize(("as_whole", "due"), [(np.rint, []), (np.trunc, ["Round"]), (np.floor, ["Round"])])
def test_how_a_value_was_rounded_to_whole_numbers_is_asked_where_one_step_is_within_the_error(tmp_path, as_whole, due):
    # The scores of both sides are half a step apart, so that one step is explained by them in every element.
    golden = np.random.default_rng(3).uniform(40, 60, (32, 16)).astype(np.float32)
    target = (golden + np.random.default_rng(4).choice([-0.1, 0.1], golden.shape)).astype(np.float16)
    dump = GeDump(tmp_path / "ge")
    dump.graph(
        [
            Op("x", "Data", (), [(None, (32, 16))], "float16"),
            Op("Round", "Round", ("x:0",), [("round-aten.round.default.OUTPUT.0", (32, 16))], "float16"),
        ]
    )
    rounded = as_whole(target)
    write_device_op(dump.token(0), "Round", "Round", at=1, inputs=[target], outputs=[rounded], dtype="float16")
    write_fx_node(tmp_path / "fx", "round-aten.round.default", at=1, inputs=[golden], outputs=[np.rint(golden)])
    assert named(compared(tmp_path, "auto")[0]) == due


CHANNELS = np.linspace(0.5, 1.5, 16)


def quantised(folder: Path, *, scales=1.0, channel=1.0, noise=2.0**-12) -> list[str]:
    """Compare rows that are quantised one by one and multiplied with weights that are quantised by column.

    Args:
        folder: for the dumps.
        scales: what the scales of the device's rows are off by.
        channel: and one column of its product.
        noise: relative error of what the device quantises.
    """
    rows = np.random.default_rng(3).standard_normal((32, 64))
    weight = np.random.default_rng(4).standard_normal((64, 16)) * CHANNELS
    by_column = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
    whole = np.rint(weight / by_column).astype(np.int8)
    shape = (32, 16)
    dump = GeDump(folder / "ge")
    dump.graph(
        [
            Op("rows", "Data", (), [(None, rows.shape)]),
            Op("weight", "Data", (), [(None, whole.shape)], dtype="int8"),
            Op("by_column", "Data", (), [(None, by_column.shape)]),
            Op("Quant", "DynamicQuant", ("rows:0",), [("quant-npu.npu_dynamic_quant.default.OUTPUT.0", rows.shape),
               ("quant-npu.npu_dynamic_quant.default.OUTPUT.1", rows.shape[:1])]),
            Op("MatMul", "QuantBatchMatmulV3", ("Quant:0", "weight:0", "by_column:0", "Quant:1"),
               [("mm-npu.npu_quant_matmul.default.OUTPUT.0", shape)]),
        ]
    )  # fmt: skip
    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    for is_device in (True, False):
        read = (rows * (1 + is_device * noise * np.random.default_rng(5).choice([-1, 1], rows.shape))).astype(
            np.float32
        )
        scale = (np.abs(read).max(axis=1) / 127).astype(np.float32)
        steps = np.rint(read / scale[:, None]).astype(np.int8)
        by_row = (scale * (scales if is_device else 1)).astype(np.float32)
        product = (steps.astype(np.float64) @ whole) * by_column * by_row[:, None]
        if is_device:
            product[:, 3] *= channel
            write_device_op(
                device, "DynamicQuant", "Quant", at=1, inputs=[DumpTensor(read.astype(np.float16), "float16")],
                outputs=[DumpTensor(steps, "int8"), DumpTensor(by_row, "float32")],
            )  # fmt: skip
            write_device_op(
                device, "QuantBatchMatmulV3", "MatMul", at=2, dtype="float16",
                inputs=[DumpTensor(steps, "int8"), DumpTensor(whole, "int8"), DumpTensor(by_column, "float32"),
                        DumpTensor(by_row, "float32")],
                outputs=[product],
            )  # fmt: skip
        else:
            write_fx_node(fx, "quant-npu.npu_dynamic_quant.default", at=1, inputs=[read], outputs=[steps, by_row])
            write_fx_node(
                fx, "mm-npu.npu_quant_matmul.default", at=2, inputs=[steps, whole, by_column],
                outputs=[product.astype(np.float32)],
            )  # fmt: skip
    return named(compared(folder, "auto")[0])


@pytest.mark.parametrize(
    ("faults", "due"),
    [
        ({}, []),
        ({"noise": 2.0**-6}, ["Quant"]),  # what it reads is off; nothing before it was dumped
        ({"scales": 1.06}, ["Quant"]),
        ({"channel": 1.3}, ["MatMul"]),
    ],
)
def test_quantised_products_are_held_to_what_their_own_scales_make_of_them(tmp_path, faults, due):
    assert quantised(tmp_path, **faults) == due


BIAS = np.random.default_rng(6).standard_normal(8).astype(np.float32)


def expanded(folder: Path, *, offset=0.0, beta=1.0, product=1.0, mode="all") -> list[str]:
    """Compare ``addmm``, which the device expands into a product in bfloat16, unknown to the golden, and a sum.

    What is multiplied is a difference in which roundings grow to a fiftieth, so that an offset may come from there.

    Args:
        folder: for the dumps.
        offset: added to the device's sum.
        beta: what both sides multiply the bias by, of which the device's graph says nothing.
        product: factor of the first row of the device's product.
        mode: what is computed again.
    """
    shape = (32, 8)
    dump = GeDump(folder / "ge")
    dump.graph(
        [
            Op("high", "Data", (), [(None, ROWS.shape)], "bfloat16"),
            Op("weight", "Data", (), [(None, WEIGHT.shape)], "bfloat16"),
            Op("bias", "Data", (), [(None, BIAS.shape)], "bfloat16"),
            Op("level", "Data", (), [(None, ROWS.shape)], "bfloat16"),
            Op("Sub", "Sub", ("high:0", "level:0"), [("sub-aten.sub.Tensor.OUTPUT.0", ROWS.shape)], "bfloat16"),
            Op("MatMulV2", "MatMulV2", ("Sub:0", "weight:0"), [(None, shape)], "bfloat16"),
            Op("Add", "Add", ("MatMulV2:0", "bias:0"), [("addmm-aten.addmm.default.OUTPUT.0", shape)], "bfloat16"),
        ]
    )
    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    level = np.full(ROWS.shape, 8, np.float32)
    high, weight, bias = (each.astype(bfloat16) for each in (ROWS + level, WEIGHT, BIAS))
    rows = (high.astype(np.float32) - level).astype(bfloat16)
    exact = [ROWS, *(each.astype(np.float32) for each in (weight, bias))]
    factors = np.where(np.arange(len(rows)) == 0, product, 1.0)[:, None]
    inner = (rows.astype(np.float32) @ exact[1] * factors).astype(bfloat16)
    total = (inner.astype(np.float32) + np.float32(beta) * exact[2] + np.float32(offset)).astype(bfloat16)
    inputs = [high, level.astype(bfloat16)]
    write_device_op(device, "Sub", "Sub", at=0, inputs=inputs, outputs=[rows], dtype="bfloat16")
    write_device_op(device, "MatMulV2", "MatMulV2", at=1, inputs=[rows, weight], outputs=[inner], dtype="bfloat16")
    write_device_op(device, "Add", "Add", at=2, inputs=[inner, bias], outputs=[total], dtype="bfloat16")
    golden = exact[0] @ exact[1] + np.float32(beta) * exact[2]
    write_fx_node(fx, "sub-aten.sub.Tensor", at=0, inputs=[ROWS + level, level], outputs=[ROWS])
    write_fx_node(fx, "addmm-aten.addmm.default", at=1, inputs=[exact[2], exact[0], exact[1]], outputs=[golden])
    return named(compared(folder, mode)[0])


def test_a_sum_behind_a_product_that_the_golden_does_not_show_is_named_by_its_own_inputs(tmp_path):
    assert expanded(tmp_path, offset=0.18) == ["Add"]  # of a result of size 4.3


@pytest.mark.parametrize("mode", ["never", "auto", "all"])
def test_a_wrong_product_that_the_golden_does_not_show_is_not_cleared_by_the_sum_behind_it(tmp_path, mode):
    assert expanded(tmp_path, product=2.0, mode=mode) == ["Add"]


def test_a_product_and_the_sum_behind_it_are_computed_together(tmp_path):
    assert expanded(tmp_path, product=1.1, mode="never") == []  # a tenth of one row of 32
    found, told = compared(tmp_path, "auto")
    assert named(found) == ["Add"]
    assert "given its own inputs, the output is off by" in found.findings[0].evidence
    assert "(computed by numpy together with `MatMulV2`, which the golden does not show)" in found.findings[0].evidence
    assert told[0]["left"] == []


@pytest.mark.parametrize("beta", [1.0, 1.5])
def test_what_both_sides_make_of_a_tensor_that_the_golden_does_not_show_accuses_nobody(tmp_path, beta):
    assert expanded(tmp_path, beta=beta) == []


def fused(folder: Path, *, noise=0.0, hidden=0.0, parts=("Mul", "Add")) -> list[str]:
    """Compare ``x * y + z``, which the device runs as one operator; both sides compute in bfloat16.

    ``x`` is a difference in which roundings grow, so that by its size alone an error of the result may come from there.

    Args:
        folder: for the dumps.
        noise: relative error of the device's result, up or down at random.
        hidden: what both sides add besides, of which the graph says nothing.
        parts: what the graph says that the device's operator is fused of.
    """
    shape, name = (32, 16), "".join(parts)
    dump = GeDump(folder / "ge")
    dump.graph(
        [
            *(Op(name, "Data", (), [(None, shape)], "bfloat16") for name in ("high", "level", "y", "z")),
            Op("Sub", "Sub", ("high:0", "level:0"), [("sub-aten.sub.Tensor.OUTPUT.0", shape)], "bfloat16"),
            Op(parts[0], parts[0], ("Sub:0", "y:0"), [("mul-aten.mul.Tensor.OUTPUT.0", shape)], "bfloat16"),
            Op(parts[1], parts[1], (f"{parts[0]}:0", "z:0"), [("add-aten.add.Tensor.OUTPUT.0", shape)], "bfloat16"),
        ]
    )

    def stored(values):
        return np.asarray(values).astype(bfloat16).astype(np.float32)

    device, fx = dump.token(0), folder / "fx"
    fx.mkdir(parents=True)
    draw = np.random.default_rng(8)
    level = np.full(shape, 8, np.float32)
    high, y, z = level + ROWS[:, :16], stored(draw.normal(size=shape)), stored(draw.normal(size=shape))
    for is_device in (True, False):
        x = stored((stored(high) if is_device else high) - level)
        inner = x * y if is_device else stored(x * y)
        result = stored((inner + z + hidden) * (1 + noise * is_device * draw.choice([-1, 1], shape)))
        if is_device:
            inputs = [stored(high), level]
            write_device_op(device, "Sub", "Sub", at=0, inputs=inputs, outputs=[x], dtype="bfloat16")
            write_device_op(device, "AutomaticBufferFusionOp", name, at=1, inputs=[x, y, z], outputs=[result],
                            dtype="bfloat16")  # fmt: skip
        else:
            write_fx_node(fx, "sub-aten.sub.Tensor", at=0, inputs=[high, level], outputs=[x])
            write_fx_node(fx, "mul-aten.mul.Tensor", at=1, inputs=[x, y], outputs=[inner])
            write_fx_node(fx, "add-aten.add.Tensor", at=2, inputs=[inner, z], outputs=[result])
    return named(compared(folder, "all")[0])


def test_a_fused_operator_is_computed_as_what_the_graph_says_it_is_fused_of(tmp_path):
    assert fused(tmp_path, noise=0.03) == ["MulAdd"]


@pytest.mark.parametrize("other", [{}, {"hidden": 0.5}, {"parts": ("Mul", "Maximum")}, {"parts": ("Mul", "Nobody")}])
def test_no_fused_operator_is_accused_of_what_both_sides_do(tmp_path, other):
    assert fused(tmp_path, **other) == []
