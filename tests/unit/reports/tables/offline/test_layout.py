"""The table of offline models: the published columns, one row for every operator and tensor."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from offline_rows import METRICS, Op, figures, gap, offline
from report_builders import stats

from probe_flow.records import (
    Comparison,
    Execution,
    Expectation,
    Pair,
    Reason,
    Row,
    Rule,
    Slot,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.node import NodeKey
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.tables.offline.groups import Operators
from probe_flow.reports.tables.offline.layout import offline_table
from tests.support.rules import kind_of

SEED = (
    "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,CosineSimilarity,MaxAbsoluteError,"
    "AccumulatedRelativeError,RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,"
    "RootMeanSquareError,MaxRelativeError,MeanRelativeError,CompareFailReason"
)


def lines(tmp_path: Path, comparison: Comparison, **more: Any) -> list[list[str]]:
    path = tmp_path / "result.csv"
    LAYOUTS["offline"].write_csv(comparison, path, **more)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def cells(tmp_path: Path, comparison: Comparison, **more: Any) -> list[dict[str, str]]:
    header, *rows = lines(tmp_path, comparison, **more)
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_the_published_columns_come_first(tmp_path: Path) -> None:
    header = lines(tmp_path, offline(Op("conv1", outputs=[figures()])))[0]
    assert ",".join(header) == f"{SEED},Result,Match,Remarks"


def test_a_measured_row_has_every_cell(tmp_path: Path) -> None:
    op = Op("conv1relu1", outputs=[figures()], originals=("conv1", "bn1", "relu1"))
    assert lines(tmp_path, offline(op))[1] == [
        "0", "Conv2D", "conv1relu1", "float16", "4096", "conv1,bn1,relu1", "float32", "conv1relu1:output:0",
        "[1,3,2,2]", "1.000000", "0.001506", "1.885325", "0.000334", "0.000001", "(0.423;0.719),(0.423;0.000)",
        "0.000140", "0.000279", "1.000000", "0.000921", "", "PASS", "one_to_one", "",
    ]  # fmt: skip


def test_lines_end_with_carriage_return_and_line_feed(tmp_path: Path) -> None:
    lines(tmp_path, offline(Op("conv1", outputs=[figures()])))
    text = (tmp_path / "result.csv").read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n") == 2


def test_an_operator_without_a_dump_has_a_row_of_its_own(tmp_path: Path) -> None:
    found = cells(tmp_path, offline(Op("x", "Data"), Op("conv1_w", "Const", originals=())))
    assert [row["CompareFailReason"] for row in found] == [
        '[x] There is no dump file for my output operator "x". The type is Data.',
        '[conv1_w] There is no dump file for my output operator "conv1_w". The type is Const.',
    ]
    assert [row["GroundTruth"] for row in found] == ["x", "*"]
    assert {found[0][column] for column in ("TensorIndex", "Shape", "Address", "DataType", "CosineSimilarity")} == {
        "NaN"
    }


def test_rows_stand_by_group_then_operator_and_inputs_first(tmp_path: Path) -> None:
    given = offline(
        Op("conv1", inputs=[figures()], outputs=[figures()]),
        [Op("gap_sum", outputs=[gap("inner_node", "inside")], originals=("gap",)), Op("gap", outputs=[figures()])],
    )
    # Rows of a comparison stand in the order of time; the table goes by groups.
    shuffled = replace(given, rows=tuple(reversed(given.rows)))
    found = cells(tmp_path, shuffled)
    names = [row["TensorIndex"] for row in found]
    assert [row["Index"] for row in found] == ["0", "0", "1", "1"]
    assert names[2:] == ["gap_sum:output:0", "gap:output:0"]
    assert found[3]["NPUDump"] == "gap_sum,gap"
    assert found[3]["GroundTruth"] == "gap"


def test_names_are_those_of_the_rules(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("block_conv", outputs=[figures()], facts={"op": "block/conv"})))
    assert (row["NPUDump"], row["TensorIndex"]) == ("block/conv", "block/conv:output:0")


@pytest.mark.parametrize("expectation", Expectation)
def test_a_tensor_of_the_golden_alone_has_a_row_if_it_is_a_gap(tmp_path: Path, expectation: Expectation) -> None:
    given = offline(Op("conv1relu1", outputs=[figures()], originals=("conv1", "relu1")))
    key, slot = NodeKey(Execution(), "conv1"), Slot(SlotRole.OUTPUT, (0,))
    golden = TensorRef.of(key, slot, TensorKind.TENSOR, "float32", shape=(2,))
    reason = Reason(kind_of("some"), "nobody asked for `conv1`", expectation)
    row = Row(Pair(None, golden, "0", Rule("none"), reason=reason), None, Verdict(Status.UNMATCHED_GOLDEN), 9)
    _, *found = cells(tmp_path, replace(given, rows=(row, *given.rows)))
    columns = ("Index", "NPUDump", "GroundTruth", "TensorIndex", "Shape", "CompareFailReason")
    expected = [("0", "*", "conv1", "conv1:output:0", "[2]", "nobody asked for `conv1`")]
    assert [tuple(row[column] for column in columns) for row in found] == (
        expected if expectation is Expectation.MISSING else []
    )


@pytest.mark.parametrize(
    ("golden", "columns"), [("npy", ["Address"]), ("om", ["Address", "Address"])], ids=["npy", "om"]
)
def test_an_address_column_for_each_device_dump(tmp_path: Path, golden: str, columns: list[str]) -> None:
    header = lines(tmp_path, offline(Op("a", outputs=[figures()]), golden_framework=golden))[0]
    assert [name for name in header if name == "Address"] == columns


def test_an_unknown_address_is_not_a_number(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("a", outputs=[figures()], tensor={"address": 0})))
    assert row["Address"] == "NaN"


def test_the_sequence_is_shown_for_chosen_operators_alone(tmp_path: Path) -> None:
    other = Reason(kind_of("not_selected"), "operator 2 was not selected", Expectation.EXPECTED)
    left_out = Op("b", outputs=[other])
    ops = (Op("a", outputs=[figures()]), left_out, [Op("c"), Op("d")])
    found = cells(tmp_path, offline(*ops, target_attrs={"selected_ops": (1, 4)}))
    assert [(row["Index"], row["OpSequence"], row["NPUDump"]) for row in found] == [("0", "1", "a"), ("2", "4", "c,d")]


def test_a_selection_of_all_shows_the_sequence_too(tmp_path: Path) -> None:
    op = Op("a", outputs=[figures()])
    assert "OpSequence" in cells(tmp_path, offline(op, target_attrs={"selected_ops": (1,)}))[0]
    assert "OpSequence" not in cells(tmp_path, offline(op))[0]


@pytest.mark.parametrize(
    ("dtype", "statistics", "expected"),
    [
        ("float16", {"max": 65504.0}, "YES"),
        ("float16", {"min": -65504.0}, "YES"),
        ("float16", {"inf": 1}, "YES"),
        ("float16", {"max": 65472.0}, "NO"),
        ("float32", {"max": 65504.0}, "NaN"),
        ("bfloat16", {"inf": 1}, "NaN"),
    ],
)
def test_overflow_is_that_of_half_precision(
    tmp_path: Path, dtype: str, statistics: dict[str, Any], expected: str
) -> None:
    op = Op("a", outputs=[figures(target=stats(**statistics))], tensor={"dtype": dtype})
    (row,) = cells(tmp_path, offline(op), columns=("overflow",))
    assert row["OverFlow"] == expected


def test_overflow_stands_behind_the_shape(tmp_path: Path) -> None:
    header = lines(tmp_path, offline(Op("a")), columns=("overflow",))[0]
    assert header[header.index("Shape") + 1] == "OverFlow"


@pytest.mark.parametrize(
    ("changed", "op_type", "expected"),
    [
        ({}, "Conv2D", "NO"),
        ({"cosine": 0.9899}, "Conv2D", "YES"),
        ({"relative_euclidean_distance": 0.051}, "Conv2D", "YES"),
        ({"kl_minmax": 0.0051}, "Conv2D", "YES"),
        ({"rmse": 1.01}, "Conv2D", "YES"),
        ({"mean_rel_err_masked": 1.01}, "Conv2D", "YES"),
        ({"cosine": float("nan"), "rmse": 9.0}, "Conv2D", "NO"),
        ({"cosine": 0.5}, "TransData", "NO"),
        ({"cosine": 0.5}, "Data", "NO"),
        ({"cosine": 0.5}, "PartitionCall", "NO"),
    ],
)
def test_a_precision_error_is_one_of_five_figures(
    tmp_path: Path, changed: dict[str, Any], op_type: str, expected: str
) -> None:
    (row,) = cells(tmp_path, offline(Op("a", op_type, outputs=[figures(changed)])), columns=("model_flags",))
    assert row["IsPrecisionError"] == expected


def test_flags_tell_device_operators_and_model_outputs(tmp_path: Path) -> None:
    ops = (Op("cast", "Cast", [figures()], originals=("",)), Op("softmax", outputs=[figures()]), Op("w", "Const"))
    found = cells(tmp_path, offline(*ops, target_attrs={"model_outputs": ("softmax:0",)}), columns=("model_flags",))
    assert [(row["IsNpuOps"], row["IsOutputNode"]) for row in found] == [("YES", "NO"), ("NO", "YES"), ("NO", "NO")]


def test_unknown_outputs_are_not_guessed(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("fc", outputs=[figures()])), columns=("model_flags",))
    assert row["IsOutputNode"] == "NaN"


def test_without_a_list_the_outputs_are_what_net_output_reads(tmp_path: Path) -> None:
    ops = (Op("fc", outputs=[figures()]), Op("end", "NetOutput", inputs=[figures()]))
    given = offline(*ops)
    # The last operator reads the golden tensor of `fc`.
    fc, end = given.rows
    read = replace(end, pair=replace(end.pair, golden=fc.pair.golden))
    given = replace(given, rows=(fc, read), pairs=replace(given.pairs, pairs=(fc.pair, read.pair)))
    assert [row["IsOutputNode"] for row in cells(tmp_path, given, columns=("model_flags",))] == ["YES", "NO"]


def test_a_single_element_is_a_scalar(tmp_path: Path) -> None:
    one = {"shape": (1, 1), "logical_shape": (1, 1)}
    op = Op("a", outputs=[figures({"cosine": None}, count=1)], tensor=one, golden=one)
    (row,) = cells(tmp_path, offline(op))
    assert (row["CosineSimilarity"], row["CompareFailReason"]) == ("1.000000", "This tensor is scalar.")


def test_values_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    measured = figures(target=stats(nan=2, inf=1), nonfinite_mismatch=3)
    (row,) = cells(tmp_path, offline(Op("a", outputs=[measured], status=Status.FAIL)))
    assert row["CompareFailReason"] == (
        "2 NaN and 1 inf in the target; 3 of these places differ; the others are measured without them"
    )
    assert row["Result"] == "FAIL"


def test_a_tensor_of_zeros_has_no_direction(tmp_path: Path) -> None:
    zero = stats(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
    (row,) = cells(tmp_path, offline(Op("a", outputs=[figures({"cosine": float("nan")}, golden=zero)])))
    assert row["CompareFailReason"] == ("Cannot compare by Cosine Similarity. All the data is zero in a.0.17.npy.")


def test_metrics_of_installed_packages_have_columns(tmp_path: Path) -> None:
    found = cells(tmp_path, offline(Op("a", outputs=[figures({"acme_error": 0.5})]), Op("w")))
    assert [row["acme_error"] for row in found] == ["0.500000", "NaN"]
    assert list(found[0]).index("acme_error") == list(found[0]).index("CompareFailReason") - 1


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    given = offline(Op("=1+1", "+cmd", outputs=[gap("no_golden_dump", "@SUM(1)")], originals=("-2",)), Op("%x"))
    for line in lines(tmp_path, given)[1:]:
        assert not any(cell.startswith(("=", "+", "-", "@", "%")) for cell in line)


def test_no_metric_is_lost() -> None:
    from probe_flow.reports.tables.offline.metrics import METRIC_COLUMNS

    named = {name for name in METRIC_COLUMNS.values() if name}
    assert named | {"mean_target", "std_target", "mean_golden", "std_golden"} == set(METRICS)


def test_names_of_a_large_group_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = offline([Op(f"op{number}", outputs=[figures()]) for number in range(200)])
    asked: list[NodeKey] = []
    name = Operators.name
    monkeypatch.setattr(Operators, "name", lambda self, key: asked.append(key) or name(self, key))
    rows = list(offline_table(comparison).rows)
    assert len(rows) == 200
    assert rows[7][1][2] == ",".join(f"op{number}" for number in range(200))
    assert len(asked) < 10 * 200
