"""The published result rules, one by one, on rows as the table shows them."""

from __future__ import annotations

from typing import Any

import pytest

from probe_flow.reports.tables.dump_json.rules import judge_entry

STATISTICS: dict[str, Any] = {
    "NPU Name": "Torch.add.0.forward.input.0",
    "Bench Name": "Torch.add.0.forward.input.0",
    "NPU Dtype": "torch.float32",
    "Bench Dtype": "torch.float32",
    "NPU Tensor Shape": "[2]",
    "Bench Tensor Shape": "[2]",
    "NPU Requires_grad": "False",
    "Bench Requires_grad": "False",
    "NormRelativeErr": 0,
    **{f"{side} {name}": 1.0 for side in ("NPU", "Bench") for name in ("max", "min", "mean", "l2norm")},
}
OUT = {"NPU Name": "Torch.add.0.forward.output.0"}
OUT_1 = {"NPU Name": "Torch.add.0.forward.output.1"}
JUMP = "error: The NormRelativeErr of output is greater than 0.5."
GROWTH = "warning: The norm relative error of output is 10 times that of input."
NONFINITE = "error: There is nan/inf/-inf in the maximum or minimum value of NPU."
GRAD = "error: The Required_Grad of NPU and Bench are inconsistent"
DTYPE = "error: The dtype of NPU and Bench are inconsistent."
SHAPE = "error: The shape of NPU and Bench are inconsistent."
SCALAR = "error: The scalar parameters of NPU and Bench are inconsistent."
SHARE = "error: The input/parameters of One Thousandth Err Ratio > 0.9 while the output < 0.6."
COSINE = "warning: The input/parameters of Cosine > 0.9, and input/parameters - output > 0.1"


def norm(ratio: Any, **where: Any) -> dict[str, Any]:
    return STATISTICS | {"NormRelativeErr": ratio} | where


def tensors(cosine: Any, share: Any, **where: Any) -> dict[str, Any]:
    rest = {name: cell for name, cell in STATISTICS.items() if name != "NormRelativeErr"}
    return rest | {"Cosine": cosine, "One Thousandth Err Ratio": share} | where


def judged(*rows: dict[str, Any], api: str = "add") -> list[tuple[str, list[str]]]:
    return [(marks.result, marks.messages) for marks in judge_entry(rows, api=api)]


PASS: tuple[str, list[str]] = ("pass", [])


@pytest.mark.parametrize(
    ("into", "out", "messages"),
    [
        (0, "60.0%", [JUMP, GROWTH]),
        ("9.9%", "51.0%", [JUMP]),
        ("10.0%", "60.0%", []),
        (0, "50.0%", [GROWTH]),
        (0, "inf", [JUMP]),
        (0, "-inf", [JUMP]),
        (0, "Nan", []),
        (0, "10.0%", []),
        ("0.001%", "0.0101%", [GROWTH]),
        ("0.001%", "0.0099%", []),
        ("N/A", 0, []),
    ],
)
def test_norms_of_outputs_are_weighed_against_inputs(into, out, messages):
    first, second = judged(norm(into), norm(out, **OUT))
    assert first == PASS
    assert second[1] == messages


def test_growth_is_marked_at_the_first_output_and_a_jump_where_it_is():
    rows = judged(norm("1.0%"), norm("1.0%", **OUT), norm("60.0%", **OUT_1))
    assert rows == [PASS, ("warning", [GROWTH]), ("error", [JUMP])]


def test_without_outputs_nothing_is_weighed():
    assert judged(norm("99.0%")) == [PASS]


@pytest.mark.parametrize(
    ("into", "out", "messages"),
    [
        ((1.0, 1.0), (1.0, 0.05), [SHARE]),
        ((1.0, 0.9), (1.0, 0.05), []),
        ((1.0, 1.0), (1.0, 0.1), []),
        ((0.95, 1.0), (0.84, 1.0), [COSINE]),
        ((0.95, 1.0), (0.86, 1.0), []),
        ((0.9, 1.0), (0.1, 1.0), []),
        ((1.0, 1.0), (0.5, 0.0), [SHARE, COSINE]),
        (("unsupported", "unsupported"), (0.5, 0.0), [SHARE, COSINE]),
        (("Nan", "N/A"), ("shape unmatched", "unsupported"), []),
    ],
)
def test_shares_and_cosines_of_outputs_are_weighed_against_inputs(into, out, messages):
    assert judged(tensors(*into), tensors(*out, **OUT))[1][1] == messages


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"NPU max": "nan"}, NONFINITE),
        ({"NPU min": " -inf"}, NONFINITE),
        ({"NPU Requires_grad": "True"}, GRAD),
        ({"NPU Dtype": "Float32"}, DTYPE),
        ({"NPU Tensor Shape": "[2, 1]"}, SHAPE),
    ],
)
def test_facts_of_a_row_are_errors(cells, message):
    assert judged(STATISTICS | cells) == [("error", [message])]


@pytest.mark.parametrize(
    "cells",
    [
        {"NPU max": "nan", "Bench max": "nan"},
        {"Bench max": " inf"},
        {"NPU max": "None"},
        {"NPU Requires_grad": ""},
        {"Bench Name": "N/A", "Bench Dtype": "N/A", "Bench Tensor Shape": "N/A", "Bench Requires_grad": "N/A"},
    ],
)
def test_facts_that_are_none(cells):
    assert judged(STATISTICS | cells) == [PASS]


def test_arguments_that_differ_are_errors_of_inputs_only():
    number = {f"{side} Dtype": "<class 'float'>" for side in ("NPU", "Bench")}
    number |= {f"{side} Tensor Shape": "[]" for side in ("NPU", "Bench")}
    row = STATISTICS | number | {"NPU max": 1.1}
    assert judged(row) == [("error", [SCALAR])]
    assert judged(row | OUT) == [PASS]


@pytest.mark.parametrize("api", ["empty", "to", "__setitem__"])
def test_apis_without_defined_values_are_not_judged(api):
    assert judged(norm(0), norm("99.0%", **OUT), STATISTICS | {"NPU max": "nan"}, api=api) == [PASS] * 3


def test_collectives_are_judged_by_their_outputs_alone():
    rows = [STATISTICS | {"NPU max": "nan"}, norm("99.0%", **OUT), STATISTICS | {"NPU max": "nan"} | OUT_1]
    assert judged(*rows, api="_all_gather_base") == [PASS, PASS, ("error", [NONFINITE])]


@pytest.mark.parametrize(
    ("sums", "result"),
    [
        (("aa", "aa"), "pass"),
        (("N/A", "N/A"), "pass"),
        (("aa", "ab"), "error"),
        (("aa", "N/A"), "warning"),
        (("", "aa"), "warning"),
    ],
)
def test_checksums_are_compared_as_text(sums, result):
    row = {"NPU Name": "Torch.add.0.forward.output.0", "NPU MD5": sums[0], "BENCH MD5": sums[1]}
    assert judged(row)[0][0] == result


def test_no_rows_are_no_marks():
    assert judged() == []


@pytest.mark.parametrize(
    ("name", "messages"), [("Module.qkv_proj.Linear", []), ("Module.gate_up", []), ("M.q", [DTYPE])]
)
def test_the_dtype_of_joined_operators_is_not_compared(name, messages):
    row = norm(0, **{"NPU Dtype": "torch.float16", "Bench Name": f"{name}.forward.0.input.0"})
    assert judged(row)[0][1] == messages


def test_an_api_of_its_own_is_judged_like_others_where_it_has_no_inputs():
    out = norm(0, **OUT, **{"NPU max": "Nan"})
    assert judged(out, api="empty") == [("error", [NONFINITE])]
    assert judged(norm(0), out, api="empty") == [PASS, PASS]


@pytest.mark.parametrize(
    ("golden", "messages"), [("N/A", [NONFINITE]), ("None", [NONFINITE]), ("Nan", []), (" inf", [])]
)
def test_nan_in_the_target_counts_where_the_golden_has_neither_nan_nor_infinity(golden, messages):
    row = norm(0, **{"NPU max": "Nan", "Bench max": golden, "Bench min": golden})
    assert judged(row)[0][1] == messages
