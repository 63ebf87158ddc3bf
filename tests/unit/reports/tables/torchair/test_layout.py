from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from report_builders import (
    GOOD_METRICS,
    catalog,
    comparison,
    good_row,
    key,
    measurement,
    missing_golden,
    missing_target,
    row,
    stats,
    tensor,
)

from probe_flow.records import Mode, Node, Role, Row, SlotRole, Status, TensorKind
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.tables.torchair.layout import RESULTS

REAL_DATA_HEADER = (
    "Rank,Graph,Token,API Name,Stack Info,Data Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,"
    "Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err Ratio,Five Thousandth Err Ratio,"
    "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm,"
    "Requires_grad Consistent,Result,Accuracy Reached or Not,Err_message,Match,Color"
)


def table(tmp_path: Path, *rows: Row, **more: Any) -> list[dict[str, str]]:
    path = tmp_path / "torchair_result.csv"
    LAYOUTS["torchair"].write_csv(comparison(*rows, **more), path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def one(tmp_path: Path, *rows: Row, **more: Any) -> dict[str, str]:
    return table(tmp_path, *rows, **more)[0]


def metrics(**changed: Any) -> dict[str, Any]:
    return {**GOOD_METRICS, **changed}


def test_the_header_is_the_published_one(tmp_path: Path) -> None:
    LAYOUTS["torchair"].write_csv(comparison(good_row()), tmp_path / "result.csv")
    assert (tmp_path / "result.csv").read_text().splitlines()[0] == REAL_DATA_HEADER


def test_a_measured_row_has_every_cell(tmp_path: Path) -> None:
    assert list(one(tmp_path, good_row()).values()) == [
        "0",
        "1",
        "0",
        "AddV2.Add_1",
        "N/A",
        "[AddV2.Add_1.1.2.1706596912161941,outputs,0, add_1.OUTPUT.0.npy]",
        "float16",
        "float32",
        "[2, 2]",
        "[2, 2]",
        "0.999951",
        "0.25",
        "0.099999904633",
        "0.003333330154",
        "0.5",
        "0.75",
        "2.5",
        "-1.0",
        "0.5",
        "3.0",
        "2.0",
        "-1.0",
        "0.5",
        "3.0",
        "N/A",
        "PASS",
        "Yes",
        "",
        "exact",
        "green",
    ]


@pytest.mark.parametrize(
    ("cosine", "shown"),
    [
        (0.99990000001, "0.9999"),
        (0.9999, "0.9999"),
        (0.99987654321, "0.99987654321"),
        (0.98765432198765, "0.98765432198765"),
        (1.0, "1.0"),
    ],
)
def test_cosine_is_rounded_only_near_one(tmp_path: Path, cosine: float, shown: str) -> None:
    assert one(tmp_path, good_row(measured=measurement(metrics(cosine=cosine))))["Cosine"] == shown


def test_special_values_have_the_published_words(tmp_path: Path) -> None:
    measured = measurement(
        metrics(cosine=math.nan, max_rel_err_eps=math.inf, max_abs_err=None, euclidean_distance=-math.inf),
        target=stats(max=math.nan, min=-math.inf),
    )
    found = one(tmp_path, good_row(measured=measured))
    assert (found["Cosine"], found["MaxRelativeErr"], found["MaxAbsErr"]) == ("NaN", "inf", "N/A")
    assert (found["EucDist"], found["NPU max"], found["NPU min"]) == ("-inf", "NaN", "-inf")


def test_exact_integer_differences_keep_every_digit(tmp_path: Path) -> None:
    assert one(tmp_path, good_row(measured=measurement(metrics(max_abs_err=2**60 + 1))))["MaxAbsErr"] == str(2**60 + 1)


def test_published_formulas_come_before_plain_ones(tmp_path: Path) -> None:
    both = {"max_rel_err_eps": 8388608.0, "max_rel_err": math.inf, "err_ratio_1e3_eps": 0.25, "err_ratio_1e3": 0.5}
    found = one(tmp_path, good_row(measured=measurement(both)))
    assert (found["MaxRelativeErr"], found["One Thousandth Err Ratio"]) == ("8388608.0", "0.25")
    found = one(tmp_path, good_row(measured=measurement({"max_rel_err": math.inf})))
    assert (found["MaxRelativeErr"], found["One Thousandth Err Ratio"]) == ("inf", "N/A")


def test_a_scalar_supports_only_absolute_and_relative_error(tmp_path: Path) -> None:
    scalar = good_row(target=tensor(shape=(1,)), golden=tensor("add_1", side="golden", shape=()))
    found = one(tmp_path, scalar)
    names = ("Cosine", "EucDist", "One Thousandth Err Ratio", "Five Thousandth Err Ratio")
    assert {found[name] for name in names} == {"unsupported"}
    assert (found["MaxAbsErr"], found["MaxRelativeErr"]) == ("0.099999904633", "0.003333330154")
    assert (found["NPU Tensor Shape"], found["Bench Tensor Shape"]) == ("[1]", "[]")


def test_a_vector_of_one_number_has_no_direction(tmp_path: Path) -> None:
    found = one(tmp_path, good_row(target=tensor(shape=(1,)), golden=tensor("add_1", side="golden", shape=(1,))))
    assert (found["Cosine"], found["EucDist"]) == ("unsupported", "0.25")


def test_a_row_without_golden_keeps_what_it_has_and_says_why(tmp_path: Path) -> None:
    found = one(tmp_path, missing_golden())
    assert found["Data Name"] == "[AddV2.Mul_9.1.2.1706596912161941,outputs,0, N/A]"
    assert (found["NPU Dtype"], found["Bench Dtype"], found["Bench Tensor Shape"]) == ("float16", "N/A", "N/A")
    assert (found["Cosine"], found["NPU max"], found["Bench max"]) == ("N/A", "N/A", "N/A")
    assert (found["Result"], found["Accuracy Reached or Not"], found["Match"]) == ("N/A", "N/A", "unmatched")
    assert found["Err_message"] == "no golden operator corresponds to `Mul_9`"
    assert found["Color"] == "yellow"


def test_a_row_without_target_is_named_by_the_golden(tmp_path: Path) -> None:
    found = one(tmp_path, missing_target())
    assert (found["API Name"], found["Data Name"]) == ("aten.add.Tensor.sub_3", "[N/A, sub_3.OUTPUT.0.npy]")
    assert (found["NPU Dtype"], found["Bench Dtype"], found["Color"]) == ("N/A", "float32", "N/A")


def test_every_verdict_has_a_translation() -> None:
    assert {status: RESULTS[status] for status in Status} == {
        Status.PASS: "PASS",
        Status.WARNING: "PASS",
        Status.FAIL: "FAIL",
        Status.NOT_COMPARABLE: "FAIL",
        Status.ERROR: "FAIL",
        Status.UNMATCHED_TARGET: "N/A",
        Status.UNMATCHED_GOLDEN: "N/A",
        Status.SKIPPED: "N/A",
    }


@pytest.mark.parametrize(
    ("cosine", "max_abs_err", "accuracy"),
    [
        (0.98, 0.002, "No"),
        (0.98, 0.001, "Yes"),
        (0.99, 0.5, "Yes"),
        (0.89, 0.0, "No"),
        (1.0, 1.5, "No"),
        (1.0, 1.0, "Yes"),
        (None, 2.0, "No"),
        (None, 0.5, "Yes"),
        (math.nan, 0.5, "Yes"),
        (math.nan, 2.0, "No"),
    ],
)
def test_accuracy_follows_the_older_rule(
    tmp_path: Path, cosine: float | None, max_abs_err: float, accuracy: str
) -> None:
    measured = measurement(metrics(cosine=cosine, max_abs_err=max_abs_err))
    found = one(tmp_path, good_row(measured=measured, status=Status.FAIL))
    assert (found["Result"], found["Accuracy Reached or Not"]) == ("FAIL", accuracy)


def test_accuracy_is_not_reached_when_nan_stands_in_other_places(tmp_path: Path) -> None:
    found = one(tmp_path, good_row(measured=measurement(nonfinite_mismatch=1), status=Status.FAIL))
    assert found["Accuracy Reached or Not"] == "No"


def test_other_element_counts_are_unmatched_and_fail(tmp_path: Path) -> None:
    golden = tensor("add_1", side="golden", shape=(3,))
    found = one(
        tmp_path, row(target=tensor(), golden=golden, status=Status.NOT_COMPARABLE, reasons=("Shape mismatch",))
    )
    assert (found["Result"], found["Accuracy Reached or Not"]) == ("FAIL", "Unmatched")
    assert (found["Cosine"], found["Err_message"], found["Color"]) == ("N/A", "Shape mismatch", "yellow")


@pytest.mark.parametrize(("flags", "shown"), [((True, True), "True"), ((True, False), "False"), ((None, True), "N/A")])
def test_requires_grad_is_consistent_when_both_sides_say_the_same(
    tmp_path: Path, flags: tuple[bool | None, bool | None], shown: str
) -> None:
    left, right = ({} if flag is None else {"requires_grad": flag} for flag in flags)
    pair = good_row(target=tensor(**left), golden=tensor("add_1", side="golden", **right))
    assert one(tmp_path, pair)["Requires_grad Consistent"] == shown


def test_the_stack_of_the_golden_stands_in_for_a_target_without_one(tmp_path: Path) -> None:
    add = key("add_1")
    golden = catalog(
        "golden",
        [],
        nodes={add: Node(add, "aten.add.Tensor", stack_id="s")},
        stacks={"s": ("model.py:7 in forward", "main.py:1")},
    )
    assert one(tmp_path, good_row(), golden=golden)["Stack Info"] == "model.py:7 in forward; main.py:1"


def test_statistics_have_their_own_columns_as_plain_ratios(tmp_path: Path) -> None:
    names = ("max", "min", "mean", "l2norm")
    values: dict[str, Any] = {f"{name}_diff": 0.5 for name in names} | {f"{name}_diff_rel": 0.05 for name in names}
    values["min_diff_rel"] = math.inf
    found = one(tmp_path, good_row(measured=measurement(values, mode=Mode.STATISTICS), status=Status.FAIL))
    assert list(found)[10:18] == [
        "Max diff",
        "Min diff",
        "Mean diff",
        "L2norm diff",
        "MaxRelativeErr",
        "MinRelativeErr",
        "MeanRelativeErr",
        "NormRelativeErr",
    ]
    assert list(found.values())[10:18] == ["0.5", "0.5", "0.5", "0.5", "0.05", "inf", "0.05", "0.05"]
    assert found["Accuracy Reached or Not"] == "No"


def test_checksums_have_their_own_columns(tmp_path: Path) -> None:
    pair = good_row(
        target=tensor(checksum="a1b2c3d4"),
        golden=tensor("add_1", side="golden", checksum="00000000"),
        measured=measurement({"checksum_equal": False}, mode=Mode.CHECKSUM, target=None, golden=None),
        status=Status.FAIL,
    )
    found = one(tmp_path, pair)
    assert (found["NPU MD5"], found["BENCH MD5"], found["Result"]) == ("a1b2c3d4", "00000000", "FAIL")
    assert "Cosine" not in found


def test_a_mixture_of_modes_has_the_columns_of_each_and_every_name_once(tmp_path: Path) -> None:
    reduced = measurement({"max_diff_rel": 0.125}, mode=Mode.STATISTICS)
    first, second = table(tmp_path, good_row(0), good_row(1, "Add_2", measured=reduced))
    assert list(first).count("MaxRelativeErr") == 1
    assert (first["MaxRelativeErr"], first["Max diff"]) == ("0.003333330154", "N/A")
    assert (second["MaxRelativeErr"], second["Cosine"]) == ("0.125", "N/A")


def test_a_comparison_without_rows_has_a_header_only(tmp_path: Path) -> None:
    assert table(tmp_path) == []


@pytest.mark.parametrize("name", ["=cmd|'/c calc'!A1", "@x", "a\nb", 'a"b,c', "汉字"])
def test_names_and_reasons_never_become_formulas_and_come_back_whole(tmp_path: Path, name: str) -> None:
    node = key(name)
    named = tensor(node=node, file=f"{name}.npy")
    side = catalog("target", [named], nodes={node: Node(node, "")})
    found = one(tmp_path, good_row(target=named, reasons=(name,), rule=name), target=side)
    for column in ("API Name", "Err_message", "Match"):
        assert found[column].removeprefix("'") == name
        assert not found[column].startswith(("=", "@"))
    assert found["Data Name"] == f"[{name}.npy, add_1.OUTPUT.0.npy]"


def test_a_tensor_without_a_file_is_named_by_its_id(tmp_path: Path) -> None:
    bare = tensor(kind=TensorKind.STATISTICS, source=None)
    assert one(tmp_path, good_row(target=bare))["Data Name"] == "[Add_1.output.0, add_1.OUTPUT.0.npy]"


def input_row(order: int = 0, **more: Any) -> Row:
    return good_row(
        order,
        target=tensor(role=SlotRole.INPUT),
        golden=tensor("add_1", side="golden", role=SlotRole.INPUT),
        **more,
    )


def colors(tmp_path: Path, *rows: Row) -> list[str]:
    return [found["Color"] for found in table(tmp_path, *rows)]


def test_good_inputs_and_a_bad_output_make_the_output_red(tmp_path: Path) -> None:
    inputs = input_row(measured=measurement(metrics(err_ratio_1e3=0.95)))
    output = good_row(1, measured=measurement(metrics(err_ratio_1e3=0.05)))
    assert colors(tmp_path, inputs, output) == ["green", "red"]


def test_an_inherited_error_is_yellow_even_where_the_inputs_that_are_dumped_are_good(tmp_path: Path) -> None:
    inputs = input_row(measured=measurement(metrics(err_ratio_1e3=0.95)))
    output = good_row(1, measured=measurement(metrics(err_ratio_1e3=0.05)), role=Role.INHERITED)
    assert colors(tmp_path, inputs, output) == ["green", "yellow"]


def test_rules_of_one_operator_do_not_reach_the_next(tmp_path: Path) -> None:
    inputs = input_row(measured=measurement(metrics(err_ratio_1e3=0.95)))
    other = good_row(1, "Mul_2", measured=measurement(metrics(err_ratio_1e3=0.05)))
    assert colors(tmp_path, inputs, other) == ["green", "green"]


def test_a_cosine_that_drops_makes_the_output_yellow(tmp_path: Path) -> None:
    inputs = input_row(measured=measurement(metrics(cosine=1.0)))
    output = good_row(1, measured=measurement(metrics(cosine=0.895)))
    assert colors(tmp_path, inputs, output) == ["green", "yellow"]


def test_norms_decide_the_colour_of_statistics(tmp_path: Path) -> None:
    def norm(value: float) -> Any:
        return measurement({"l2norm_diff_rel": value}, mode=Mode.STATISTICS)

    rows = [input_row(measured=norm(0.01)), good_row(1, measured=norm(0.6)), good_row(2, measured=norm(0.2))]
    assert colors(tmp_path, *rows) == ["green", "red", "yellow"]


@pytest.mark.parametrize(
    ("status", "role", "cosine", "color"),
    [
        (Status.FAIL, Role.ORIGIN, 1.0, "red"),
        (Status.FAIL, Role.UNKNOWN, 0.5, "red"),
        (Status.FAIL, Role.INHERITED, 0.5, "yellow"),
        (Status.FAIL, Role.CLEAN, 1.0, "yellow"),
        (Status.WARNING, Role.CLEAN, 1.0, "yellow"),
        (Status.ERROR, Role.UNKNOWN, 1.0, "red"),
        (Status.SKIPPED, Role.UNKNOWN, 1.0, "N/A"),
        (Status.PASS, Role.CLEAN, 1.0, "green"),
    ],
)
def test_verdict_and_role_decide_the_colour_of_single_rows(
    tmp_path: Path, status: Status, role: Role, cosine: float, color: str
) -> None:
    measured = measurement(metrics(cosine=cosine))
    assert colors(tmp_path, good_row(measured=measured, status=status, role=role)) == [color]


def test_nan_on_the_target_only_is_red(tmp_path: Path) -> None:
    both = measurement(target=stats(nan=1), golden=stats(nan=1))
    one_sided = measurement(target=stats(nan=1))
    assert colors(tmp_path, good_row(0, measured=both), good_row(1, measured=one_sided)) == ["green", "red"]


def legacy(tmp_path: Path, *rows: Row) -> list[list[str]]:
    path = tmp_path / "legacy.csv"
    LAYOUTS["torchair_legacy"].write_csv(comparison(*rows), path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_legacy_table_has_its_24_columns(tmp_path: Path) -> None:
    (header,) = legacy(tmp_path)
    assert ",".join(header) == (
        "token_id,data_id,golden_data_path,golden_op_type,golden_dtype,golden_shape,golden_max_value,golden_min_value,"
        "golden_mean_value,my_data_path,my_op_type,my_dtype,my_shape,my_max_value,my_min_value,my_mean_value,"
        "cosine_similarity,max_relative_error,mean_relative_error,max_absolute_error,mean_absolute_error,kl_divergence,"
        "relative_euclidean_distance,cmp_fail_reason"
    )
    assert len(header) == 24


def test_a_legacy_row_has_absolute_paths_and_blanks_for_what_was_not_computed(tmp_path: Path) -> None:
    values = {
        "cosine": 0.99988597041234567,
        "max_rel_err_masked_eps32": 0.03333330154418945,
        "max_abs_err_masked_eps32": math.inf,
        "relative_euclidean_distance": 0.0182583146,
    }
    _, found = legacy(tmp_path, good_row(measured=measurement(values)))
    assert found == [
        "0",
        "0",
        "/dumps/fx/add_1.OUTPUT.0.npy",
        "",
        "torch.float32",
        "[2, 2]",
        "2.0",
        "-1.0",
        "0.5",
        "/dumps/npu/AddV2.Add_1.1.2.1706596912161941,outputs,0",
        "",
        "torch.float16",
        "[2, 2]",
        "2.5",
        "-1.0",
        "0.5",
        "0.9998859704",
        "0.03333330154418945",
        "",
        "inf",
        "",
        "",
        "0.0182583146",
        "",
    ]


def test_a_legacy_row_without_golden_is_blank_there(tmp_path: Path) -> None:
    _, first, second = legacy(tmp_path, good_row(), missing_golden(1))
    assert (first[1], second[1]) == ("0", "1")
    assert second[2:9] == [""] * 7
    assert second[16:23] == [""] * 7
    assert second[23] == "no golden operator corresponds to `Mul_9`"


def test_a_legacy_row_shows_the_published_formulas_before_ours(tmp_path: Path) -> None:
    values = {
        "cosine": math.nan,
        "cosine_or_zero": 0.0,
        "relative_euclidean_distance": math.inf,
        "relative_euclidean_distance_or_zero": 0.0,
    }
    _, found = legacy(tmp_path, good_row(measured=measurement(values)))
    assert (found[16], found[22]) == ("0.0", "0.0")


def test_a_legacy_reason_says_why_a_row_was_not_compared_and_not_that_it_differs(tmp_path: Path) -> None:
    why = ("words",)
    odd = measurement(GOOD_METRICS, nonfinite_mismatch=2)
    rows = [
        good_row(0, status=Status.FAIL, reasons=why),
        good_row(1, status=Status.FAIL, reasons=why, measured=odd),
        good_row(2, status=Status.NOT_COMPARABLE, reasons=why),
    ]
    assert [found[-1] for found in legacy(tmp_path, *rows)[1:]] == ["", "words", "words"]


def test_extremes_of_truth_values_are_numbers(tmp_path: Path) -> None:
    truths = good_row(measured=measurement(target=stats(min=False, max=True), golden=stats(min=True, max=True)))
    found = one(tmp_path, truths)
    assert [found[f"{side} {name}"] for side in ("NPU", "Bench") for name in ("max", "min")] == ["1", "0", "1", "1"]
    assert legacy(tmp_path, truths)[1][6:8] == ["1", "1"]
