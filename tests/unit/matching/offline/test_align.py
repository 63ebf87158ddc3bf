"""Alignment of offline pairs: what compare reads of both sides is the same sequence of values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ge_writer import to_layout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from offline_builders import Case, by_target, values
from om_writer import tensor
from rule_builders import desc, op

from probe_flow.records import NodeKey, Pair, Rule, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.records.node import Execution

ORDERS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "HWCN": (2, 3, 1, 0), "CHWN": (1, 2, 3, 0)}
ORDERS_5D = {"NCDHW": (0, 1, 2, 3, 4), "NDHWC": (0, 2, 3, 4, 1)}


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)


def one_pair(
    path: Path,
    logical: np.ndarray,
    layout: str,
    golden: np.ndarray,
    *,
    label: str = "NCHW",
    header_shape: tuple[int, ...] | None,
    rule_shape: tuple[int, ...] | None = None,
) -> Pair:
    """Match one operator: its device output in `layout`, whose original the rules describe."""
    case = Case(path)
    case.device("Conv2D", "conv", outputs=[tensor(logical, layout=layout, original_shape=header_shape)])
    case.golden.output("conv", 0, golden)
    output = desc("conv", 0, origin_layout=label, origin_shape=rule_shape)
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[output]))
    return by_target(case.match(rule=rule))["conv.output.0"]


def assert_equal(pair: Pair, logical: np.ndarray) -> None:
    assert pair.reason is None, pair.reason
    target, golden = values(pair)
    np.testing.assert_array_equal(target, golden)
    np.testing.assert_array_equal(np.sort(target), np.sort(logical.reshape(-1)))


@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_Z", "NCHW", "NHWC", "HWCN", "CHWN"])
@pytest.mark.parametrize("label", ["NCHW", "NHWC"])
@pytest.mark.parametrize("told", ["header", "rule", "golden"])
def test_four_axes_in_any_layout_equal_the_golden_in_the_order_of_the_label(
    tmp_path: Path, layout: str, label: str, told: str
) -> None:
    logical = numbers(2, 20, 3, 5)
    golden = logical.transpose(ORDERS[label])
    pair = one_pair(
        tmp_path,
        logical,
        layout,
        golden,
        label=label,
        header_shape=golden.shape if told == "header" else None,
        rule_shape=golden.shape if told == "rule" else None,
    )
    assert_equal(pair, logical)


@pytest.mark.parametrize("shape", [(2, 2, 2, 2), (1, 16, 16, 16), (3, 1, 1, 3), (4, 4, 4, 1)])
@pytest.mark.parametrize("layout", ["NC1HWC0", "NHWC", "NCHW", "FRACTAL_Z"])
@pytest.mark.parametrize("label", ["NCHW", "NHWC"])
def test_where_several_orders_fit_the_label_decides(
    tmp_path: Path, shape: tuple[int, ...], layout: str, label: str
) -> None:
    logical = numbers(*shape)
    golden = logical.transpose(ORDERS[label])
    assert_equal(one_pair(tmp_path, logical, layout, golden, label=label, header_shape=golden.shape), logical)


@pytest.mark.parametrize("layout", ["NC1HWC0", "NCHW", "NHWC"])
@pytest.mark.parametrize("label", ["NCHW", "NHWC"])
def test_a_golden_in_the_other_order_than_the_label_is_seen_by_its_shape(
    tmp_path: Path, layout: str, label: str
) -> None:
    logical = numbers(2, 20, 3, 5)
    other = {"NCHW": "NHWC", "NHWC": "NCHW"}[label]
    golden, header = logical.transpose(ORDERS[other]), logical.transpose(ORDERS[label])
    pair = one_pair(tmp_path, logical, layout, golden, label=label, header_shape=header.shape)
    assert_equal(pair, logical)


@pytest.mark.parametrize("label", ["NCHW", "NHWC", "ND", ""])
@pytest.mark.parametrize("is_flipped", [False, True])
def test_plain_tensors_in_nd_are_turned_only_when_shapes_show_it(tmp_path: Path, label: str, is_flipped: bool) -> None:
    logical = numbers(2, 20, 3, 5)
    golden = logical.transpose(ORDERS["NHWC"]) if is_flipped else logical
    pair = one_pair(tmp_path, logical, "ND", golden, label=label, header_shape=logical.shape)
    if is_flipped and label == "NHWC":  # NHWC is what both labels and shapes call the header's shape
        assert pair.transform
    assert_equal(pair, logical)


@pytest.mark.parametrize("layout", ["NDC1HWC0", "NCDHW", "NDHWC"])
@pytest.mark.parametrize("label", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("told", ["header", "golden"])
def test_five_axes(tmp_path: Path, layout: str, label: str, told: str) -> None:
    logical = numbers(2, 18, 3, 4, 5)
    golden = logical.transpose(ORDERS_5D[label])
    shape = golden.shape if told == "header" else None
    assert_equal(one_pair(tmp_path, logical, layout, golden, label=label, header_shape=shape), logical)


@pytest.mark.parametrize("shape", [(5,), (40, 18), (3, 40, 18), (2, 3, 17, 33)])
@pytest.mark.parametrize("told", ["header", "rule", "golden"])
def test_matrices_in_blocks_keep_their_axes(tmp_path: Path, shape: tuple[int, ...], told: str) -> None:
    logical = numbers(*shape)
    pair = one_pair(
        tmp_path,
        logical,
        "FRACTAL_NZ",
        logical,
        label="ND",
        header_shape=shape if told == "header" else None,
        rule_shape=shape if told == "rule" else None,
    )
    assert_equal(pair, logical)


@pytest.mark.parametrize(("shape", "golden"), [((1, 20, 1, 1), (1, 20)), ((2, 20, 3, 5), (2, 300)), ((2, 3), (6,))])
def test_axes_that_the_golden_merges(tmp_path: Path, shape: tuple[int, ...], golden: tuple[int, ...]) -> None:
    logical = numbers(*shape)
    layout = "NC1HWC0" if len(shape) == 4 else "ND"
    assert_equal(one_pair(tmp_path, logical, layout, logical.reshape(golden), header_shape=shape), logical)


def test_axes_that_a_golden_with_channels_last_merges(tmp_path: Path) -> None:
    logical = numbers(2, 20, 3, 5)
    last = logical.transpose(ORDERS["NHWC"])
    pair = one_pair(tmp_path, logical, "NC1HWC0", last.reshape(2, 300), label="NHWC", header_shape=last.shape)
    assert_equal(pair, logical)


def test_axes_that_a_reader_splits_lie_as_they_are_stored(tmp_path: Path) -> None:
    """The rules call the product before the split a matrix, the device the one behind channels last."""
    logical = numbers(2, 20, 3, 5)
    last = logical.transpose(ORDERS["NHWC"])
    pair = one_pair(tmp_path, logical, "NHWC", last.reshape(30, 20), label="ND", header_shape=last.shape)
    assert_equal(pair, logical)


@pytest.mark.parametrize("has_header", [True, False])
def test_blocks_of_a_split_matrix_have_the_order_of_their_own_description(tmp_path: Path, has_header: bool) -> None:
    """A decoder makes a picture with channels last of what a dense layer gives: no operator is left of the reshape."""
    logical = numbers(2, 20, 3, 5)
    last = logical.transpose(ORDERS["NHWC"])
    case = Case(tmp_path)
    blocks = tensor(logical, layout="NC1HWC0", original_shape=last.shape if has_header else None)
    case.device("MatMulV2", "fc", outputs=[tensor(last.reshape(2, 300), layout="ND")])
    case.device("TransData", "t", inputs=[tensor(logical, layout="NHWC", original_shape=last.shape)], outputs=[blocks])
    case.device("Relu", "up", inputs=[blocks])
    case.golden.output("fc", 0, last.reshape(2, 300))
    own = desc(layout="NC1HWC0", origin_layout="NHWC", origin_shape=last.shape)
    rule = case.rule(
        op("fc", "MatMulV2", number=1, outputs=[desc(layout="ND", origin_layout="ND", origin_shape=(2, 300))]),
        op("t", "TransData", number=2, inputs=["fc:0"], originals=[], outputs=[own]),
        op("up", "Relu", number=3, inputs=["t:0"]),
    )
    pairs = by_target(case.match(rule=rule))
    for name in ("fc.output.0", "t.input.0", "t.output.0", "up.input.0"):
        np.testing.assert_array_equal(*values(pairs[name]))


@pytest.mark.parametrize("shape", [(20,), (3, 20), (2, 20, 5)])
def test_fewer_axes_in_a_layout_of_four(tmp_path: Path, shape: tuple[int, ...]) -> None:
    padded = {1: (1, *shape, 1, 1), 2: (*shape, 1, 1)}.get(len(shape), (*shape[:2], 1, shape[-1]))
    logical = numbers(*padded)
    assert_equal(one_pair(tmp_path, logical, "NC1HWC0", logical.reshape(shape), header_shape=shape), logical)


def test_wrong_shapes_of_the_rule_give_way_to_the_golden(tmp_path: Path) -> None:
    logical = numbers(4, 20, 3, 5)
    pair = one_pair(tmp_path, logical, "NC1HWC0", logical, header_shape=None, rule_shape=(-1, 20, 3, 5))
    assert_equal(pair, logical)


@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_Z", "NCHW", "ND"])
@pytest.mark.parametrize(("header", "rule"), [((1, 8, 4, 4), (1, 8, 4, 4)), ((1, 8, 4, 4), None), (None, (1, 8, 4, 4))])
def test_a_golden_of_more_channels_is_not_compared_with_padding(
    tmp_path: Path, layout: str, header: tuple[int, ...] | None, rule: tuple[int, ...] | None
) -> None:
    """Eight channels lie in blocks of sixteen: there is room for the ninth of the golden."""
    logical, golden = numbers(1, 8, 4, 4), numbers(1, 9, 4, 4)
    pair = one_pair(tmp_path, logical, layout, golden, header_shape=header, rule_shape=rule)
    assert pair.reason is not None
    assert (pair.reason.code, pair.reason.facts) == ("shape_mismatch", ("(1, 8, 4, 4)", "(1, 9, 4, 4)"))


def test_other_sizes_are_said_with_both_shapes(tmp_path: Path) -> None:
    pair = one_pair(tmp_path, numbers(2, 3, 4, 5), "ND", numbers(1, 3, 4, 5), header_shape=(2, 3, 4, 5))
    assert pair.reason is not None
    assert pair.reason.code == "shape_mismatch"
    assert pair.reason.text.startswith("the target has shape (2, 3, 4, 5), the golden (1, 3, 4, 5): ")


def test_a_matrix_beyond_its_blocks_names_the_shape_that_fits(tmp_path: Path) -> None:
    pair = one_pair(tmp_path, numbers(20, 18), "FRACTAL_NZ", numbers(40, 18), header_shape=(40, 18))
    assert pair.reason is not None
    assert (pair.reason.code, pair.reason.facts) == ("blocks_mismatch", ("(40, 18)", "(32, 32)"))
    assert "shape (40, 18) does not fit" in pair.reason.text


def one_lie(path: Path, logical: np.ndarray, claimed: int) -> Pair:
    """Match weights that are stored without groups and whose header claims some."""
    case = Case(path)
    stored = to_layout(logical, "FRACTAL_Z", c0=16, groups=1)
    bytes_of = tensor(stored, sub_format=claimed, format=4, original_shape=logical.shape)
    case.device("Conv2D", "conv", outputs=[bytes_of])
    case.golden.output("conv", 0, logical)
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[desc("conv", 0, origin_shape=logical.shape)]))
    return by_target(case.match(rule=rule))["conv.output.0"]


@pytest.mark.parametrize("shape", [(3, 3, 20, 33), (20, 33, 3, 3)])
def test_groups_that_the_blocks_contradict_are_the_reason_and_not_equal_shapes(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    reason = one_lie(tmp_path, numbers(*shape), 4).reason
    assert reason is not None
    assert reason.code == "blocks_contradict"
    assert f"does not hold {shape} in the 4 groups of its sub-format, but it does without groups" in reason.text
    assert "golden" not in reason.text


def test_the_same_weights_without_a_claim_are_compared(tmp_path: Path) -> None:
    assert_equal(one_lie(tmp_path, numbers(3, 3, 20, 33), 0), numbers(3, 3, 20, 33))


@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ"])
@pytest.mark.parametrize("header", [0, 2], ids=["no format", "ND"])
def test_a_header_that_names_no_blocks_has_those_of_the_rules(tmp_path: Path, layout: str, header: int) -> None:
    logical = numbers(2, 20, 3, 5) if layout != "FRACTAL_NZ" else numbers(18, 5)
    case = Case(tmp_path)
    case.device("Conv2D", "conv", outputs=[tensor(logical, layout=layout, original_shape=logical.shape, format=header)])
    case.golden.output("conv", 0, logical)
    output = desc("conv", 0, layout=layout, origin_shape=logical.shape)
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[output]))
    assert_equal(by_target(case.match(rule=rule))["conv.output.0"], logical)


def test_blocks_that_the_rules_name_and_the_sizes_contradict_are_not_believed(tmp_path: Path) -> None:
    logical = numbers(2, 20, 3, 5)
    case = Case(tmp_path)
    case.device("Conv2D", "conv", outputs=[tensor(logical, layout="NCHW", original_shape=(1, 20, 3, 5))])
    case.golden.output("conv", 0, logical)
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[desc("conv", 0, layout="NC1HWC0")]))
    assert_equal(by_target(case.match(rule=rule))["conv.output.0"], logical)


def test_an_unknown_layout_is_named(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.device("Conv2D", "conv", outputs=[tensor(numbers(1, 3, 4, 5), format=5)])
    case.golden.output("conv", 0, numbers(1, 3, 4, 5))
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[desc("conv", 0)]))
    pair = by_target(case.match(rule=rule))["conv.output.0"]
    assert pair.reason is not None
    assert (pair.reason.code, pair.reason.facts) == ("layout_unsupported", ("NC1C0HWPAD",))
    assert pair.reason.text == "no conversion is known of the storage layout `NC1C0HWPAD`"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.tuples(*[st.integers(1, 20)] * 4),
    layout=st.sampled_from(["NC1HWC0", "FRACTAL_Z", "NHWC", "NCHW", "HWCN"]),
    label=st.sampled_from(["NCHW", "NHWC"]),
    golden_layout=st.sampled_from(["NC1HWC0", "NCHW", "NHWC"]),
)
def test_any_pair_of_device_layouts(
    tmp_path: Path, shape: tuple[int, ...], layout: str, label: str, golden_layout: str
) -> None:
    """Both sides are device tensors, which give their logical shape in the order of the label."""
    from probe_flow.matching.offline.align import align
    from probe_flow.matching.offline.axes import Told

    logical = numbers(*shape)
    told = tuple(shape[axis] for axis in ORDERS[label])
    sides = [_raw(tmp_path, side, to_layout(logical, each), each, told) for side, each in
             (("target", layout), ("golden", golden_layout))]  # fmt: skip
    aligned = align(sides[0], sides[1], told=Told(label))
    assert_equal(Pair.on_terms(aligned.target, aligned.golden, "0", Rule("x"), transform=aligned.transform), logical)


def _raw(folder: Path, name: str, stored: np.ndarray, layout: str, logical: tuple[int, ...]) -> TensorRef:
    from probe_flow.records import Extent

    path = folder / name
    path.write_bytes(np.ascontiguousarray(stored).tobytes())
    return TensorRef.of(
        NodeKey(Execution(), "conv"),
        Slot(SlotRole.OUTPUT),
        TensorKind.TENSOR,
        dtype="float32",
        shape=stored.shape,
        logical_shape=logical,
        layout=layout,
        extents=(Extent(str(path), 0, stored.nbytes),),
    )


@pytest.mark.parametrize(("layout", "other"), [("FRACTAL_NZ", "NC1HWC0"), ("NC1HWC0", "FRACTAL_NZ")])
def test_axes_merged_between_two_kinds_of_blocks_keep_their_sequence(tmp_path: Path, layout: str, other: str) -> None:
    """A reshape that leaves no file lies between what one device stored in planes and the other as a matrix."""
    from probe_flow.matching.offline.align import align
    from probe_flow.matching.offline.axes import Told

    heads = numbers(2, 27, 3, 8)
    shapes = {"NC1HWC0": heads, "FRACTAL_NZ": heads.reshape(2, 27, 24)}
    target, golden = (
        _raw(tmp_path, side, to_layout(shapes[each], each), each, shapes[each].shape)
        for side, each in (("target", layout), ("golden", other))
    )
    aligned = align(target, golden, told=Told("NCHW"))
    assert aligned.problem is None
    assert_equal(Pair.on_terms(aligned.target, aligned.golden, "0", Rule("x"), transform=aligned.transform), heads)


def test_axes_merged_in_another_order_than_the_blocks_are_no_match(tmp_path: Path) -> None:
    """With channels last a merged axis mixes channels and places: the same count is not the same sequence."""
    from probe_flow.matching.offline.align import align
    from probe_flow.matching.offline.axes import Told

    planes = numbers(2, 27, 3, 8)
    target = _raw(tmp_path, "target", to_layout(planes.reshape(2, 27, 24), "FRACTAL_NZ"), "FRACTAL_NZ", (2, 27, 24))
    golden = _raw(tmp_path, "golden", to_layout(planes, "NC1HWC0"), "NC1HWC0", (2, 27, 3, 8))
    problem = align(target, golden, told=Told("NHWC")).problem
    assert problem is not None
    assert problem.code == "shape_mismatch"


@pytest.mark.parametrize(("least", "known"), [(0, None), (2, 2)])
def test_statistics_of_blocks_are_of_what_they_hold_without_their_zeros(
    tmp_path: Path, least: int, known: int | None
) -> None:
    """Three channels in blocks of sixteen: the device's mean is of the zeros too, and so may an extreme of zero be."""
    logical = np.full((1, 3, 4, 5), 2, np.float32)
    logical[0, 0, 0, 0] = 6
    case, mean = Case(tmp_path), logical.sum() / (16 * 20)
    table = (
        "Input/Output,Index,Data Type,Format,Shape,Max Value,Min Value,Avg Value\n"
        f"Output,0,DT_FLOAT16,NC1HWC0,1x1x4x5x16,6,{least},{mean:.6g}\n"
    )
    case.target.file("Conv2D.conv.7.3.1700000000000000.csv", table.encode())
    case.golden.output("conv", 0, logical)
    rule = case.rule(op("conv", originals=["conv"], number=1, outputs=[desc("conv", 0, origin_shape=logical.shape)]))
    pair = by_target(case.match(rule=rule))["conv.output.0"]
    assert pair.target is not None
    assert (pair.target.kind, pair.target.logical_shape) == (TensorKind.STATISTICS, logical.shape)
    recorded = pair.target.recorded
    assert recorded is not None
    assert recorded.mean == pytest.approx(logical.mean(), rel=1e-5)
    assert (recorded.min, recorded.max) == (known, 6)
