"""Matching reduced TorchAir dumps: arguments whose shapes nobody recorded."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from torchair_builders import FIRST_US, GeDump, Op, fx_token

from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.matching.torchair.match_torchair import match_torchair
from probe_flow.records import Expectation, Pairs

A = np.array([[-1.0, 2.0], [0.5, 1.0]], np.float32)
WEIGHT = np.array([[3.0, -4.0], [0.1, 0.2]], np.float32)
BIAS = np.array([0.25, -0.125], np.float32)
SMALL = (2, 2)


def linear(
    tmp_path, *, weight=WEIGHT, bias=BIAS, arguments=(BIAS, A, WEIGHT), dtype=np.float16, names=("neg", "addmm")
):
    """Write ``addmm(bias, neg(x), weight)``: the device multiplies first and adds the bias then."""
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(
        [
            Op("x", "Data", (), [(None, SMALL)]), Op("w", "Data", (), [(None, SMALL)]),
            Op("b", "Data", (), [(None, (2,))]),
            Op("Neg", "Neg", ("x:0",), [(f"{names[0]}-aten.neg.default.OUTPUT.0", SMALL)]),
            Op("MatMul", "MatMulV2", ("Neg:0", "w:0"), [(None, SMALL)]),
            Op("Add", "Add", ("MatMul:0", "b:0"), [(f"{names[1]}-aten.addmm.default.OUTPUT.0", SMALL)]),
        ]
    )  # fmt: skip
    result = A @ weight + bias
    folder = dump.token(0)
    ops = [("Neg", "Neg", [-A], [A]), ("MatMulV2", "MatMul", [A, weight], [A @ weight]),
           ("Add", "Add", [A @ weight, bias], [result])]  # fmt: skip
    for at, (op_type, name, inputs, outputs) in enumerate(ops):
        rows = [np.array([[item.min(), item.max()] for item in side], dtype) for side in (inputs, outputs)]
        np.savez(folder / f"{op_type}.{name}.{10 + at}.7.{FIRST_US + at}_min_max.npz", inputs=rows[0], outputs=rows[1])
    golden = fx_token(tmp_path, 0)
    golden.mkdir(parents=True)
    nodes = [("neg-aten.neg.default", [-A], A), ("addmm-aten.addmm.default", arguments, A @ WEIGHT + BIAS)]
    for at, (key, inputs, output) in enumerate(nodes):
        for index, value in [*((f"INPUT.{i}", value) for i, value in enumerate(inputs)), ("OUTPUT.0", output)]:
            extremes = np.array([np.min(value), np.max(value)], np.asarray(value).dtype)
            np.save(golden / f"{key}.{index}.{20260101000000000000 + at}_min_max.npy", extremes)
    return match_torchair(read_torchair_ge(dump.root, side="target"), read_torchair_fx(tmp_path, side="golden"))


def joined(pairs: Pairs) -> dict[str, str]:
    return {
        pair.target.id: pair.golden.id for pair in pairs.pairs if pair.target is not None and pair.golden is not None
    }


def reasons(pairs: Pairs) -> dict[str, str]:
    return {pair.shown.id: pair.reason.code for pair in pairs.pairs if pair.target is None or pair.golden is None}


def test_arguments_are_joined_by_what_was_recorded_of_them(tmp_path):
    pairs = linear(tmp_path)
    assert joined(pairs) == {
        "Neg.input.0": "neg.input.0", "Neg.output.0": "neg.output.0", "MatMul.input.0": "neg.output.0",
        "MatMul.input.1": "addmm.input.2", "Add.input.1": "addmm.input.0", "Add.output.0": "addmm.output.0",
    }  # fmt: skip
    notes = {pair.target.id: pair for pair in pairs.pairs if pair.rule.name == "aligned"}
    assert set(notes) == {"Neg.input.0", "MatMul.input.1", "Add.input.1"}
    assert notes["Add.input.1"].reason.text.endswith("by recorded statistics")
    assert notes["Add.input.1"].confidence < 1.0


def test_the_argument_that_is_an_earlier_output_is_covered_by_it(tmp_path):
    assert reasons(linear(tmp_path)) == {
        "MatMul.output.0": "internal", "Add.input.0": "internal", "addmm.input.1": "covered_by_producer",
    }  # fmt: skip


@pytest.mark.parametrize("wrong", [1.05, 10.0])
def test_a_wrong_weight_is_still_joined_when_nothing_else_is_left(tmp_path, wrong):
    assert joined(linear(tmp_path, weight=WEIGHT * np.float32(wrong)))["MatMul.input.1"] == "addmm.input.2"


def test_two_wrong_parameters_are_left_alone(tmp_path):
    pairs = linear(tmp_path, weight=WEIGHT * 3, bias=BIAS * 3)
    assert "MatMul.input.1" not in joined(pairs)
    missing = [pair for pair in pairs.pairs if pair.reason and pair.reason.expectation is Expectation.MISSING]
    assert {pair.shown.id for pair in missing} == {"MatMul.input.1", "Add.input.1", "addmm.input.0", "addmm.input.2"}
    assert all("statistics like its own" in pair.reason.text for pair in missing)


def test_numbers_among_the_arguments_are_parameters_of_the_operator(tmp_path):
    pairs = linear(tmp_path, arguments=(BIAS, A, WEIGHT, np.float64(1e-5), np.array([1, 2])))
    assert reasons(pairs)["addmm.input.3"] == "argument"
    assert reasons(pairs)["addmm.input.4"] == "argument"
    assert joined(pairs)["MatMul.input.1"] == "addmm.input.2"


def test_an_unknown_dtype_fits_any(tmp_path):
    # A reducer that writes float64 vectors does not say what it reduced.
    wide = tuple(value.astype(np.float64) for value in (BIAS, A, WEIGHT))
    assert joined(linear(tmp_path, arguments=wide))["MatMul.input.1"] == "addmm.input.2"


def test_rows_that_hold_nan_do_not_keep_the_others_from_their_arguments(tmp_path):
    weight = WEIGHT.copy()
    weight[0, 0] = np.nan
    pairs = linear(tmp_path, weight=weight)
    assert joined(pairs)["Add.input.1"] == "addmm.input.0"
    assert joined(pairs)["MatMul.input.1"] == "addmm.input.2"


def test_every_tensor_of_the_bundled_pair_has_a_partner_or_an_expected_reason(torchair_case):
    case = torchair_case("minmax")
    target = read_torchair_ge(case / "msprobe_ge_dump", side="target")
    golden = read_torchair_fx(case / "msprobe_fx_dump", side="golden")
    pairs = match_torchair(target, golden)
    seen = {id(tensor) for pair in pairs.pairs for tensor in (pair.target, pair.golden) if tensor is not None}
    assert seen == {id(tensor) for tensor in (*target.tensors, *golden.tensors)}
    assert Counter(pair.rule.name for pair in pairs.pairs) == {
        "none": 200, "edge": 52, "exact": 51, "aligned": 37, "fused": 2, "self": 2,
    }  # fmt: skip
    left = [pair.reason for pair in pairs.pairs if pair.target is None or pair.golden is None]
    assert all(reason is not None and reason.expectation is Expectation.EXPECTED for reason in left)
