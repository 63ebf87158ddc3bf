"""Products of an input that was quantised: what that makes of them is no fault, what they are off by themselves is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from offline_builders import Case
from om_writer import tensor
from rule_builders import Tree, attr, desc, op

from probe_flow.comparing import quantising
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import FindingKind, Pairs
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

Array = NDArray[Any]

RANDOM = np.random.default_rng(8)
IMAGES = RANDOM.standard_normal((2, 16, 12, 12)).astype(np.float16)
KERNEL = RANDOM.standard_normal((24, 16, 3, 3)) / 12
TOKENS = RANDOM.standard_normal((2, 40, 64)).astype(np.float16)
MATRIX = RANDOM.standard_normal((64, 48)) / 8
BIAS = RANDOM.standard_normal(48)
WRAPPED = "wrapped"
NOTHING = quantising.Found()


def ints(key: str, *values: int) -> Tree:
    return attr(key, list={"val_type": "VT_LIST_INT", "i": list(values)})


CONV = [ints("strides", 1, 1, 1, 1), ints("pads", 1, 1, 1, 1), ints("dilations", 1, 1, 1, 1), attr("groups", i=1),
        attr("data_format", s="NCHW")]  # fmt: skip


def convolved(x: Array, kernel: Array) -> Array:
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, kernel.astype(float))


def same(values: Array) -> Array:
    return values


def quantised(x: Array, factor: float, offset: float, how: str) -> Array:
    whole = np.rint(x.astype(float) * factor + offset)
    return (whole.astype(int) + 128) % 256 - 128.0 if how == WRAPPED else np.clip(whole, -128, 127)


def asked(factor: float, offset: float) -> list[Tree]:
    return [attr("scale", f=str(factor)), attr("offset", f=str(offset)), attr("round_mode", s="Round")]


def in_bits(scales: Array) -> Array:
    """As a device has them: float32 in the lower half of 64 bits."""
    return scales.astype(np.float32).view(np.uint32).astype(np.uint64)


def images(
    path: Path, *, reach: float = 1.0, how: str = "", wrong: Callable[[Array], Array] = same, scale: float = 1.0,
    attrs: list[Tree] | None = None,
) -> Pairs:  # fmt: skip
    """A convolution that is fused with what makes fractions of its whole numbers, and with a relu.

    Args:
        path: for the dumps.
        reach: largest value that the scale is made for, in the largest that is there.
        how: `WRAPPED`: values beyond that come out at the other end.
        wrong: what a faulty device makes of the result.
        scale: what the scale of the fifth channel is off by.
        attrs: of what quantises, in place of the true ones.
    """
    factor = 127 / (reach * np.abs(IMAGES).max())
    steps = np.abs(KERNEL).max(axis=(1, 2, 3)) / 127
    scales = steps / factor
    scales[5] *= scale
    whole, kernel = quantised(IMAGES, factor, 0.0, how), np.rint(KERNEL / steps.reshape(-1, 1, 1, 1))
    made = np.maximum(convolved(whole, kernel) * scales.reshape(1, -1, 1, 1), 0)
    device, golden = wrong(made).astype(np.float16), np.maximum(convolved(IMAGES, KERNEL), 0)
    case, halves = Case(path), tensor(whole, "int8", "NC1HWC0", c0=32, original_shape=whole.shape)
    case.device("AscendQuant", "a.quant", inputs=[tensor(IMAGES, "float16", "NCHW")], outputs=[halves])
    case.device(
        "Conv2D", "aa.dequantrelu", outputs=[tensor(device, "float16", "NCHW")],
        inputs=[halves, tensor(kernel, "int8", "FRACTAL_Z", c0=32, original_shape=kernel.shape),
                tensor(in_bits(scales), "uint64")],
    )  # fmt: skip
    case.golden.output("x", 0, IMAGES.astype(np.float32))
    case.golden.output("relu", 0, golden.astype(np.float32))
    shape = {"shape": IMAGES.shape, "origin_shape": IMAGES.shape}
    return case.match(rule=case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, **shape)]),
        op("w", "Const", number=2, outputs=[desc(dtype="DT_INT8", shape=KERNEL.shape)]),
        op("s", "Const", number=3, outputs=[desc(dtype="DT_UINT64", shape=(24,))]),
        op("a.quant", "AscendQuant", number=4, inputs=["x:0"], originals=["a.quant"],
           outputs=[desc("a.quant", 0, dtype="DT_INT8", **shape)],
           attrs=asked(factor, 0.0) if attrs is None else attrs),
        op("aa.dequantrelu", "Conv2D", number=5, inputs=["a.quant:0", "w:0", "s:0"],
           originals=["a", "a.dequant", "relu"], attrs=CONV,
           outputs=[desc("relu", 0, shape=device.shape, origin_shape=device.shape)]),
    ))  # fmt: skip


def tokens(
    path: Path, *, reach: float = 1.0, wrong: Callable[[Array], Array] = same, takes_offset: bool = True
) -> Pairs:
    """A product of matrices in whole numbers with an offset and a bias; an operator of its own makes fractions.

    ``takes_offset``: the compiler took what the offset adds from the bias.
    """
    low, high = reach * float(TOKENS.min()), reach * float(TOKENS.max())
    factor, offset = 255 / (high - low), float(np.rint(-128 - low * 255 / (high - low)))
    steps = np.abs(MATRIX).max(axis=0) / 127
    scales = steps / factor
    whole, matrix = quantised(TOKENS, factor, offset, ""), np.rint(MATRIX / steps)
    own = np.rint(BIAS / scales)
    bias = own - offset * matrix.sum(axis=0) if takes_offset else own
    product = (whole if takes_offset else whole - offset) @ matrix + bias
    device = wrong(product * scales).astype(np.float16)
    case, halves, sums = Case(path), tensor(whole, "int8"), tensor(product, "int32")
    case.device("AscendQuant", "a.quant", inputs=[tensor(TOKENS, "float16")], outputs=[halves])
    case.device("BatchMatMulV2", "a", outputs=[sums], inputs=[halves, tensor(matrix, "int8"), tensor(bias, "int32")])
    case.device(
        "AscendDequant", "a.dequant", inputs=[sums, tensor(in_bits(scales), "uint64")],
        outputs=[tensor(device, "float16")],
    )  # fmt: skip
    case.golden.output("x", 0, TOKENS.astype(np.float32))
    case.golden.output("a", 0, (TOKENS.astype(float) @ MATRIX + BIAS).astype(np.float32))
    shape, made = ({"shape": each, "origin_shape": each, "layout": "ND"} for each in (TOKENS.shape, device.shape))
    return case.match(rule=case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, **shape)]),
        op("w", "Const", number=2, outputs=[desc(dtype="DT_INT8", shape=MATRIX.shape)]),
        op("b", "Const", number=3, outputs=[desc(dtype="DT_INT32", shape=(48,))]),
        op("s", "Const", number=4, outputs=[desc(dtype="DT_UINT64", shape=(48,))]),
        op("a.quant", "AscendQuant", number=5, inputs=["x:0"], originals=["a.quant"],
           outputs=[desc("a.quant", 0, dtype="DT_INT8", **shape)], attrs=asked(factor, offset)),
        op("a", "BatchMatMulV2", number=6, inputs=["a.quant:0", "w:0", "b:0"], originals=["a"],
           outputs=[desc("a", 0, dtype="DT_INT32", **made)]),
        op("a.dequant", "AscendDequant", number=7, inputs=["a:0", "s:0"], originals=["a"],
           outputs=[desc("a", 0, **made)]),
    ))  # fmt: skip


def in_order(function: Callable[[Any], Any], batches: Any, **_: Any) -> Any:
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def found(pairs: Pairs, path: Path, how: str = "auto") -> list[str]:
    """Return the origins that fail, with their evidence."""
    context = Context(
        stage="compare", output=path, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    compared = compare_pairs(pairs, Asked(policy="offline", recompute=Recompute(how)), context, None)
    assert sum(row.measurement is not None and row.is_produced for row in compared.rows) == 1
    origins = [each for each in compared.findings if each.kind is FindingKind.ORIGIN and each.fails]
    return [f"{each.node.name}: {each.evidence}" for each in origins]


@pytest.mark.parametrize("make", [images, tokens])
@pytest.mark.parametrize("reach", [1.0, 1.4])
def test_a_scale_for_the_largest_value_or_beyond_accuses_nobody(
    tmp_path: Path, make: Callable[..., Pairs], reach: float
) -> None:
    assert found(make(tmp_path, reach=reach), tmp_path, "all") == []


@pytest.mark.parametrize("make", [images, tokens])
def test_a_scale_that_cuts_off_few_values_to_round_the_others_less_accuses_nobody(
    tmp_path: Path, make: Callable[..., Pairs], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tools choose one: an element of 20 beside thousands of size 1 comes out as 16."""
    name = "IMAGES" if make is images else "TOKENS"
    given = globals()[name].copy()
    given.reshape(-1)[700] = 20.0
    monkeypatch.setitem(globals(), name, given)
    assert found(make(tmp_path, reach=0.8), tmp_path, "all") == []


@pytest.mark.parametrize("make", [images, tokens])
def test_a_scale_that_leaves_more_than_one_for_the_largest_value_is_told(
    tmp_path: Path, make: Callable[..., Pairs]
) -> None:
    (finding,) = found(make(tmp_path, reach=0.5), tmp_path)
    assert "the scale that its input was quantised with leaves" in finding
    assert "values" in finding.rpartition("it cuts off")[2]
    left = np.clip(IMAGES.astype(float), -abs(IMAGES).max() / 2, abs(IMAGES).max() / 2) - IMAGES
    if make is images:
        size = np.sqrt(np.mean(IMAGES.astype(float) ** 2))
        assert f"leaves {np.sqrt(np.mean(left**2)) / size:.1e} of error" in finding


@pytest.mark.parametrize("make", [images, tokens])
@pytest.mark.parametrize("reach", [1.0, 0.8])
def test_a_result_that_its_whole_numbers_do_not_make_is_wrong(
    tmp_path: Path, make: Callable[..., Pairs], reach: float
) -> None:
    (finding,) = found(make(tmp_path, reach=reach, wrong=lambda made: made * 1.2), tmp_path)
    assert finding.startswith(("aa.dequantrelu: ", "a.dequant: "))
    assert "given its own inputs, the output is off by 2." in finding


def test_what_the_offset_adds_may_be_in_the_bias_or_not(tmp_path: Path) -> None:
    assert found(tokens(tmp_path, takes_offset=False), tmp_path, "all") == []


def test_a_scale_of_one_channel_that_is_off_is_cleared_by_no_proof(tmp_path: Path) -> None:
    """The product is right given its scales, and one of these is what is wrong."""
    (finding,) = found(images(tmp_path, reach=0.9, scale=2.0), tmp_path)
    assert finding.startswith("aa.dequantrelu: ")
    assert "given its own inputs" not in finding


def test_values_that_come_out_at_the_other_end_explain_nothing(tmp_path: Path) -> None:
    (finding,) = found(images(tmp_path, reach=0.8, how=WRAPPED), tmp_path)
    assert finding.startswith("aa.dequantrelu: ")
    assert "given its own inputs, the output is off by" in finding


@pytest.mark.parametrize("attrs", [[], [attr("scale", s="large")], [attr("scale", f="20"), attr("offset", f="0"),
                                                                   attr("round_mode", s="Up")]])  # fmt: skip
def test_without_the_attributes_a_product_keeps_its_judgement(tmp_path: Path, attrs: list[Tree]) -> None:
    assert found(images(tmp_path, attrs=attrs), tmp_path) == []
    assert len(found(images(tmp_path / "cut", reach=0.5, attrs=attrs), tmp_path)) == 1


def test_a_product_that_takes_too_much_memory_keeps_its_judgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantising, "LIMIT_BYTES", 1000)
    assert len(found(images(tmp_path, reach=0.5), tmp_path)) == 1


def test_a_dump_that_changes_meanwhile_explains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[quantising.Quantising] = []
    with monkeypatch.context() as patched:
        patched.setattr(
            quantising, "each_done", lambda given, *_: iter([jobs.append(each) or NOTHING for each in given])
        )
        assert len(found(images(tmp_path, reach=0.5), tmp_path)) == 1
    assert quantising.measured(jobs[0]).quantised is not None
    Path(jobs[0].tensors[0].extents[0].file).write_bytes(b"")
    assert quantising.measured(jobs[0]) == NOTHING
