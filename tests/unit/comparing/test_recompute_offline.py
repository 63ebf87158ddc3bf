"""Operators of offline models computed again: stored in blocks, their attributes in the rules of the model."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ge_writer import DumpTensor
from ml_dtypes import bfloat16
from offline_builders import Case
from om_writer import OmTensor
from rule_builders import attr, desc, op

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.recompute_worker import HIDDEN
from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANDOM = np.random.default_rng(24)
X = RANDOM.standard_normal((1, 8, 6, 6)).astype(np.float16)
KERNEL = (RANDOM.standard_normal((8, 8, 3, 3)) / 8).astype(np.float16)


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def ints(key, *values):
    return attr(key, list={"val_type": "VT_LIST_INT", "i": list(values)})


CONV = [ints("strides", 1, 1, 1, 1), ints("pads", 1, 1, 1, 1), ints("dilations", 1, 1, 1, 1), attr("groups", i=1),
        attr("data_format", s="NCHW")]  # fmt: skip
LEAKY = [attr("negative_slope", f="0.25")]


def convolved(x, kernel):
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel.astype(float))


def leaky(x):
    return np.where(x > 0, x, x * 0.25)


def blocked(values, layout="NC1HWC0"):
    return OmTensor(DumpTensor(values.astype(np.float16), "float16", layout), original_shape=values.shape)


def network(folder, *, product=1.0, slope=1.0, kernel=KERNEL, conv=CONV, tail=LEAKY):
    """Write ``leaky_relu(conv(x))`` as a device ran it and as arrays; some of it may be off by a factor."""
    case = Case(folder)
    a = (convolved(X, kernel) * product).astype(np.float16)
    b = (leaky(a.astype(float)) * slope).astype(np.float16)
    case.device("Conv2D", "conv", inputs=[blocked(X), blocked(kernel, "FRACTAL_Z")], outputs=[blocked(a)])
    case.device("LeakyRelu", "act", inputs=[blocked(a)], outputs=[blocked(b)])
    case.golden.output("x", 0, X.astype(np.float32))
    case.golden.output("conv", 0, convolved(X, KERNEL).astype(np.float32))
    case.golden.output("act", 0, leaky(convolved(X, KERNEL)).astype(np.float32))
    shapes = {"shape": a.shape, "origin_shape": a.shape, "layout": "NC1HWC0"}
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, shape=X.shape, origin_shape=X.shape)]),
        op("kernel", "Const", number=2, outputs=[desc(shape=KERNEL.shape)]),
        op("conv", "Conv2D", number=3, inputs=["x:0", "kernel:0"], originals=["conv"],
           outputs=[desc("conv", 0, **shapes)], attrs=conv),
        op("act", "LeakyRelu", number=4, inputs=["conv:0"], originals=["act"], outputs=[desc("act", 0, **shapes)],
           attrs=tail),
    )  # fmt: skip
    return case, rule


def compared(case, rule, how="auto"):
    told = []

    def emit(event, **fields):
        if event == "compare.recomputed":
            told.append(fields)

    context = Context(
        stage="compare", output=case.path, map=in_order, emit=emit, report=lambda _: None, settings=Settings(),
        facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    found = compare_pairs(case.match(rule=rule), Asked(recompute=Recompute(how)), context, None)
    return [each for each in found.findings if each.kind is FindingKind.ORIGIN and each.fails], told


def names(findings):
    return [each.node.name for each in findings]


def test_a_second_fault_behind_a_convolution_in_blocks_is_named(tmp_path):
    case, rule = network(tmp_path, product=1.5, slope=1.2)
    assert names(compared(case, rule, "never")[0]) == ["conv"]
    findings, told = compared(case, rule)
    assert names(findings) == ["conv", "act"]
    assert "given its own inputs, the output is off by" in findings[1].evidence
    assert (told[0]["calls"], told[0]["left"]) == (2, [])


def test_a_healthy_model_is_computed_and_accused_of_nothing(tmp_path):
    findings, told = compared(*network(tmp_path), "all")
    assert names(findings) == []
    assert (told[0]["calls"], told[0]["left"]) == (2, [])


def test_wrong_weights_that_the_golden_does_not_show_are_cleared_by_no_proof(tmp_path):
    """The convolution is right given its weights, and these are what is wrong: it stays named."""
    spoilt = KERNEL.copy()
    spoilt[3] *= 2
    findings, told = compared(*network(tmp_path, kernel=spoilt))
    assert names(findings) == ["conv"]
    assert told[0]["left"] == [["conv", HIDDEN]]


def test_weights_whose_header_has_no_shape_have_that_of_the_rules(tmp_path):
    case, a = Case(tmp_path), convolved(X, KERNEL)
    weights = OmTensor(DumpTensor(KERNEL, "float16", "FRACTAL_Z"), original_shape=None)
    case.device("Conv2D", "conv", inputs=[blocked(X), weights], outputs=[blocked(a)])
    for name, values in (("x", X), ("conv", a)):
        case.golden.output(name, 0, values.astype(np.float32))
    shapes = {"shape": a.shape, "origin_shape": a.shape, "layout": "NC1HWC0"}
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, shape=X.shape, origin_shape=X.shape)]),
        op("kernel", "Const", number=2, outputs=[desc(layout="FRACTAL_Z", origin_shape=KERNEL.shape)]),
        op("conv", "Conv2D", number=3, inputs=["x:0", "kernel:0"], originals=["conv"],
           outputs=[desc("conv", 0, **shapes)], attrs=CONV),
    )  # fmt: skip
    findings, told = compared(case, rule, "all")
    assert (names(findings), told[0]["calls"], told[0]["left"]) == ([], 1, [])


def channels_last(folder, product=1.0):
    """Write a strided convolution of TensorFlow and a pooling: NHWC and HWCN there, in blocks on the device."""
    case, turned = Case(folder), lambda each: each.transpose(0, 2, 3, 1)
    due = convolved(X, KERNEL)[:, :, ::2, ::2]
    made = (due * product).astype(np.float16)
    pooled, truth = (
        np.maximum.reduce([each[:, :, i : i + 2, j : j + 2] for i in (0, 1) for j in (0, 1)]) for each in (made, due)
    )

    def stored(values):
        data = DumpTensor(values.astype(np.float16), "float16", "NC1HWC0")
        return OmTensor(data, original_shape=turned(values).shape)

    def flat(values):
        return OmTensor(DumpTensor(values, "float32", "ND"), original_shape=values.shape)

    weights = OmTensor(DumpTensor(KERNEL, "float16", "FRACTAL_Z"), original_shape=KERNEL.transpose(2, 3, 1, 0).shape)
    case.device("Conv2D", "conv", inputs=[stored(X), weights], outputs=[stored(made)])
    case.device("MaxPool", "pool", inputs=[stored(made)], outputs=[stored(pooled)])
    mean, true_mean = (each.mean(axis=(2, 3)).astype(np.float32) for each in (pooled, truth))
    loss, true_loss = (np.square(each).sum(keepdims=True).reshape(1) / 2 for each in (mean, true_mean))
    case.device("ReduceMeanD", "mean", inputs=[stored(pooled)], outputs=[flat(mean)])
    case.device("L2Loss", "loss", inputs=[flat(mean)], outputs=[flat(loss)])
    for name, values in (("x", X), ("conv", due), ("pool", truth)):
        case.golden.output(name, 0, turned(values).astype(np.float32))
    case.golden.output("mean", 0, true_mean)
    case.golden.output("loss", 0, true_loss.reshape(()))
    common = {"origin_layout": "NHWC", "layout": "NC1HWC0"}
    shapes = [{**common, "origin_shape": turned(each).shape} for each in (X, made, pooled)]
    last = attr("data_format", s="NHWC")
    strided = [
        ints("strides", 1, 2, 2, 1),
        ints("pads", 1, 1, 1, 1),
        ints("dilations", 1, 1, 1, 1),
        attr("groups", i=1),
    ]
    window = [ints("ksize", 1, 2, 2, 1), ints("strides", 1, 1, 1, 1), attr("padding", s="VALID")]
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, **shapes[0])]),
        op("kernel", "Const", number=2, outputs=[desc(layout="FRACTAL_Z", origin_layout="HWCN")]),
        op("conv", "Conv2D", number=3, inputs=["x:0", "kernel:0"], originals=["conv"],
           outputs=[desc("conv", 0, **shapes[1])], attrs=[*strided, last]),
        op("pool", "MaxPool", number=4, inputs=["conv:0"], originals=["pool"], outputs=[desc("pool", 0, **shapes[2])],
           attrs=[*window, last]),
        op("mean", "ReduceMeanD", number=5, inputs=["pool:0"], originals=["mean"],
           outputs=[desc("mean", 0, shape=mean.shape, origin_layout="ND")],
           attrs=[ints("axes", 1, 2), attr("keep_dims", b="false")]),
        op("loss", "L2Loss", number=6, inputs=["mean:0"], originals=["loss"], outputs=[desc("loss", 0, shape=(1,))]),
    )  # fmt: skip
    return case, rule


def test_images_of_tensorflow_are_computed_as_the_device_stores_them(tmp_path):
    """Attributes speak of channels last, while blocks are read as NCHW, and weights are HWCN in their header.

    A mean has axes, and no order of its own: they count as in the rest of the model.
    """
    findings, told = compared(*channels_last(tmp_path / "healthy"), "all")
    assert (names(findings), told[0]["calls"], told[0]["left"]) == ([], 4, [])
    findings, told = compared(*channels_last(tmp_path / "faulty", product=1.5))
    assert (names(findings), told[0]["left"]) == (["conv"], [])
    assert "given its own inputs, the output is off by" in findings[0].evidence


def in_bfloat16(values):
    return values.astype(np.float32).astype(bfloat16)


@pytest.mark.parametrize(("factor", "due"), [(1.0, []), (1.05, ["conv"])])
def test_one_wrong_channel_of_many_is_found_by_what_its_own_inputs_make(tmp_path, factor, due):
    """A twentieth of one channel in 64 is less than bfloat16 and the errors of the inputs explain of all elements."""
    x, kernel = RANDOM.standard_normal((1, 64, 12, 12)), RANDOM.standard_normal((64, 64, 3, 3)) / 24
    given, weights = in_bfloat16(x), in_bfloat16(kernel)
    a = convolved(given, weights)
    a[:, 5] *= factor
    case = Case(tmp_path)
    shapes = {"shape": x.shape, "origin_shape": x.shape, "layout": "NCHW", "dtype": "DT_BF16"}
    tensors = [OmTensor(DumpTensor(each.astype(np.float32), "bfloat16", "NCHW"), original_shape=each.shape)
               for each in (given, weights, a)]  # fmt: skip
    case.device("Cast", "cast", outputs=tensors[:1])
    case.device("Conv2D", "conv", inputs=tensors[:2], outputs=tensors[2:])
    case.golden.output("cast", 0, x.astype(np.float32))
    case.golden.output("conv", 0, convolved(x, kernel).astype(np.float32))
    rule = case.rule(
        op("cast", "Cast", number=1, originals=["cast"], outputs=[desc("cast", 0, **shapes)]),
        op("kernel", "Const", number=2, outputs=[desc(shape=kernel.shape)]),
        op("conv", "Conv2D", number=3, inputs=["cast:0", "kernel:0"], originals=["conv"],
           outputs=[desc("conv", 0, **shapes)], attrs=CONV),
    )  # fmt: skip
    assert names(compared(case, rule, "never")[0]) == []
    findings, told = compared(case, rule)
    assert names(findings) == due
    assert not due or "off by 5.0e-02 in one slice" in findings[0].evidence
    assert (told[0]["calls"] if told else 0) == len(due)


@pytest.mark.parametrize(("product", "due"), [(1.0, []), (1.05, ["convrelu"])])
def test_what_is_fused_behind_a_convolution_is_found_by_the_golden(tmp_path, product, due):
    case = Case(tmp_path)
    result = np.maximum(convolved(X, KERNEL) * product, 0)
    case.device("Conv2D", "convrelu", inputs=[blocked(X), blocked(KERNEL, "FRACTAL_Z")], outputs=[blocked(result)])
    case.golden.output("x", 0, X.astype(np.float32))
    case.golden.output("relu", 0, np.maximum(convolved(X, KERNEL), 0).astype(np.float32))
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, shape=X.shape, origin_shape=X.shape)]),
        op("kernel", "Const", number=2, outputs=[desc(shape=KERNEL.shape)]),
        op("convrelu", "Conv2D", number=3, inputs=["x:0", "kernel:0"], originals=["conv", "relu"], attrs=CONV,
           outputs=[desc("relu", 0, shape=result.shape, origin_shape=result.shape, layout="NC1HWC0")]),
    )  # fmt: skip
    findings, told = compared(case, rule, "all")
    assert names(findings) == due
    assert (told[0]["calls"], told[0]["left"]) == (1, [])
    assert all("given its own inputs, the output is off by" in each.evidence for each in findings)


def behind_a_product(folder, last, *, factor=1.0):
    """Write ``last(x @ w + bias)`` in bfloat16 as one operator; the golden has the last result only."""
    random = np.random.default_rng(1)
    x, kernel, bias = (random.standard_normal(shape) for shape in ((2, 12, 64), (64, 128), (128,)))
    given, weights, added = in_bfloat16(x), in_bfloat16(kernel / 8), in_bfloat16(bias / 10)
    made = last(given.astype(float) @ weights + added) * factor
    case = Case(folder)
    tensors = [OmTensor(DumpTensor(each.astype(np.float32), "bfloat16", "ND"), original_shape=each.shape)
               for each in (given, weights, added, made)]  # fmt: skip
    case.device("Cast", "cast", outputs=tensors[:1])
    case.device("BatchMatMulV2", "mm", inputs=tensors[:3], outputs=tensors[3:])
    case.golden.output("cast", 0, x.astype(np.float32))
    case.golden.output("act", 0, last(x @ (kernel / 8) + bias / 10).astype(np.float32))
    flat = {"layout": "ND", "dtype": "DT_BF16"}
    rule = case.rule(
        op("cast", "Cast", number=1, originals=["cast"], outputs=[desc("cast", 0, shape=x.shape, **flat)]),
        op("w", "Const", number=2, outputs=[desc(shape=kernel.shape)]),
        op("b", "Const", number=3, outputs=[desc(shape=bias.shape)]),
        op("mm", "BatchMatMulV2", number=4, inputs=["cast:0", "w:0", "b:0"], originals=["mm", "add", "act"],
           outputs=[desc("act", 0, shape=made.shape, **flat)]),
    )  # fmt: skip
    return case, rule


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softplus(x):
    return np.log1p(np.exp(x))


@pytest.mark.parametrize(("factor", "due"), [(1.0, []), (1.02, ["mm"])])
def test_what_is_fused_behind_a_product_and_its_bias_is_found_by_the_golden(tmp_path, factor, due):
    findings, told = compared(*behind_a_product(tmp_path, gelu, factor=factor), "all")
    assert names(findings) == due
    assert (told[0]["calls"], told[0]["left"]) == (1, [])
    assert all("given its own inputs, the output is off by a factor of 2.0e-02" in f.evidence for f in findings)


def test_what_explains_any_result_is_taken_for_no_part_of_a_fused_operator(tmp_path):
    """A bias over a product, which comes near zero, is off by far more than its size where the product is rounded."""
    findings, told = compared(*behind_a_product(tmp_path, softplus), "all")
    assert names(findings) == []
    assert told[0]["left"] == [["mm", HIDDEN]]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"conv": CONV[1:]}, None),  # left before a process is asked: the evidence says why
        ({"conv": [ints("strides", 1, 1, 2, 2), *CONV[1:]]}, "result 0 has shape [1, 8, 6, 6] in the dump"),
        ({"conv": [*CONV[:3], attr("groups", i=3), *CONV[4:]]}, "its arguments do not fit each other"),
        ({"conv": [attr("strides", list={"i": ["one"]}), *CONV[1:]]}, None),
    ],
)
def test_attributes_that_lack_or_contradict_the_tensors_leave_the_judgement(tmp_path, changed, reason):
    findings, told = compared(*network(tmp_path, product=1.5, **changed))
    assert names(findings) == ["conv"]
    if reason is None:
        assert "not recomputed: its graph does not give its attribute `strides`" in findings[0].evidence
    else:
        assert dict(told[0]["left"])["conv"].startswith(reason)


def test_a_rule_file_that_went_away_meanwhile_leaves_the_judgement(tmp_path):
    case, rule = network(tmp_path, product=1.5)
    pairs = case.match(rule=rule)
    rule.write_text(json.dumps({"graph": []}))
    context = Context(
        stage="compare", output=case.path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    findings = compare_pairs(pairs, Asked(recompute=Recompute("auto")), context, None).findings
    assert findings[0].node.name == "conv"
    assert "not recomputed: its attributes are not known" in findings[0].evidence


def averaged(folder, *, wrong=1.0, joined=np.multiply):
    """Write a moving average that a device computes in one operator: a difference times a number, small beside both.

    The average begins at 1, so a rounding of what the difference is made of is a fifth of it.
    """
    case, momentum = Case(folder), np.float16(0.01)
    before, batch = (
        np.ones(64, np.float16),
        (1 + 0.05 * np.random.default_rng(7).standard_normal(64)).astype(np.float16),
    )
    made = joined((before - batch).astype(float), float(momentum))
    made[np.abs(made).argmax()] *= wrong
    given = [OmTensor(DumpTensor(each, "float16", "ND"), original_shape=each.shape) for each in (before, batch)]
    number = OmTensor(DumpTensor(np.asarray([momentum]), "float16", "ND"), original_shape=(1,))
    result = OmTensor(DumpTensor(made.astype(np.float16), "float16", "ND"), original_shape=made.shape)
    case.device("Abs", "norm", inputs=[given[1]], outputs=[given[1]])
    case.device("Sub", "both", inputs=[given[0], given[1], number], outputs=[result])
    right = joined(before.astype("f4") - batch.astype("f4"), np.float32(0.01))
    for name, values in {"mean": before, "x": batch, "norm": batch, "mul": right}.items():
        case.golden.output(name, 0, values.astype(np.float32))
    flat = {"shape": (64,), "origin_shape": (64,), "layout": "ND"}
    rule = case.rule(
        op("mean", "Data", number=1, originals=["mean"], outputs=[desc("mean", 0, **flat)]),
        op("x", "Data", number=2, originals=["x"], outputs=[desc("x", 0, **flat)]),
        op("momentum", "Const", number=3, outputs=[desc(shape=(1,))]),
        op("norm", "Abs", number=4, inputs=["x:0"], originals=["norm"], outputs=[desc("norm", 0, **flat)]),
        op("both", "Sub", number=5, inputs=["mean:0", "norm:0", "momentum:0"], originals=["sub", "mul"],
           outputs=[desc("mul", 0, **flat)]),
    )  # fmt: skip
    return case, rule


def test_a_wrong_channel_of_a_difference_that_is_multiplied_in_one_operator_is_named(tmp_path):
    assert names(compared(*averaged(tmp_path / "before", wrong=1.5), "never")[0]) == []
    findings, _ = compared(*averaged(tmp_path / "wrong", wrong=1.5), "all")
    assert names(findings) == ["both"]
    assert "given its own inputs, the output is off by" in findings[0].evidence


@pytest.mark.parametrize("joined", [np.multiply, np.divide, lambda made, number: np.abs(made) ** number])
def test_what_is_fused_behind_an_operator_is_accused_of_nothing_where_it_is_right_or_not_known(tmp_path, joined):
    assert compared(*averaged(tmp_path, joined=joined), "all")[0] == []
