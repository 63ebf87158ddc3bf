"""The table of offline models as msprobe 26.2 writes it; expected cells are those of its own files."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from offline_rows import Op, figures, gap, offline
from report_builders import GOLDEN_ROOT, TARGET_ROOT, stats

from probe_flow.matching.offline.reasons import OfflineRule
from probe_flow.records import (
    Comparison,
    Execution,
    Group,
    Measurement,
    Pair,
    Relation,
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


def cells(tmp_path: Path, comparison: Comparison, **more: Any) -> list[dict[str, str]]:
    LAYOUTS["msaccucmp"].write_csv(comparison, tmp_path / "result.csv", **more)
    with (tmp_path / "result.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def metrics(tmp_path: Path, measured: Measurement, **tensor: Any) -> str:
    """Return the ten cells of a row, as one text."""
    plain = {"shape": (2, 3), "logical_shape": (2, 3), "layout": "ND", "dtype": "float32", **tensor}
    op = Op("a", outputs=[measured], tensor=plain, golden=plain)
    (row,) = cells(tmp_path, offline(op))
    names = list(row)
    return " ".join(list(row.values())[names.index("CosineSimilarity") : names.index("CompareFailReason")])


def test_columns_end_with_the_reason(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("a", outputs=[figures()])))
    assert list(row)[-1] == "CompareFailReason"


@pytest.mark.parametrize(
    ("layout", "rule", "stored", "golden", "shown"),
    [
        ("ND", "", (1, 10), (1, 10), "[10]"),
        ("ND", "ND", (2, 3), (2, 3), "[6]"),
        ("NC1HWC0", "NCHW", (1, 1, 2, 2, 16), (1, 3, 2, 2), "[1,3,2,2]"),
        ("FRACTAL_NZ", "ND", (1, 1, 16, 16), (1, 10), "[1,10]"),
        ("NC1HWC0", "NHWC", (1, 1, 2, 2, 16), (1, 2, 2, 3), "[1,2,2,3]"),
        ("ND", "NCHW", (1, 10), (1, 10), "[1,10]"),
        ("NCHW", "NCHW", (1, 1), (1, 1), "[1]"),
    ],
)
def test_shapes_are_those_in_which_it_compares(
    tmp_path: Path, layout: str, rule: str, stored: Any, golden: Any, shown: str
) -> None:
    target = {"layout": layout, "shape": stored, "logical_shape": golden, "rule_layout": rule}
    op = Op("a", outputs=[figures()], tensor=target, golden={"shape": golden, "logical_shape": golden})
    assert cells(tmp_path, offline(op))[0]["Shape"] == shown


def test_two_private_layouts_are_compared_as_stored(tmp_path: Path) -> None:
    golden = {"layout": "NC1HWC0", "shape": (1, 1, 2, 2, 16), "logical_shape": (1, 3, 2, 2)}
    assert cells(tmp_path, offline(Op("a", outputs=[figures()], golden=golden)))[0]["Shape"] == "[1,1,2,2,16]"


def test_a_row_without_golden_shows_the_stored_shape_and_no_dtype(tmp_path: Path) -> None:
    why = gap("no_golden_dump", "[a] There is no the ground truth dump file for a:input:0.")
    (row,) = cells(tmp_path, offline(Op("a", inputs=[why], tensor={"address": 0})))
    assert (row["Shape"], row["DataType"], row["Address"]) == ("[1,1,2,2,16]", "NaN", "0")
    assert row["CompareFailReason"] == why.text


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [("bfloat16", "float32"), ("float8_e4m3fn", "float64"), ("hifloat8", "float64"), ("int8", "int8")],
)
def test_dtypes_are_those_after_decoding(tmp_path: Path, dtype: str, shown: str) -> None:
    LAYOUTS["msaccucmp"].write_csv(offline(Op("a", outputs=[figures()], tensor={"dtype": dtype})), tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines()[1].split(",")[3] == shown


@pytest.mark.parametrize("code", ["quantised", "not_selected", "l1_inner", "not_tensor"])
def test_tensors_that_it_passes_over_have_no_row(tmp_path: Path, code: str) -> None:
    given = offline(Op("a", inputs=[gap(code, "no row")], outputs=[figures()]))
    assert [row["TensorIndex"] for row in cells(tmp_path, given)] == ["a:output:0"]


def test_filtered_operators_have_no_row_at_all(tmp_path: Path) -> None:
    quantised = {"is_filtered": True}
    ops = (
        Op("a", outputs=[gap("quantised", "x")], facts=quantised),
        Op("b", facts=quantised),
        Op("c", outputs=[figures()]),
    )
    assert [row["NPUDump"] for row in cells(tmp_path, offline(*ops))] == ["c"]


def test_a_group_without_a_tensor_has_one_row_with_all_reasons(tmp_path: Path) -> None:
    inner, carrier = Op("om_a", "A", [gap("inner_node", "x")], originals=("t",)), Op("om_b", "B", originals=("t",))
    (row,) = cells(tmp_path, offline([inner, carrier], relation=Relation.ONE_TO_MANY))
    assert (row["OpType"], row["NPUDump"], row["GroundTruth"], row["TensorIndex"]) == ("A", "om_a,om_b", "t", "NaN")
    assert row["CompareFailReason"] == (
        "[om_a] The op is inner node for multi to multi relation.Skip the op.,"
        '[om_b] There is no dump file for my output operator "om_b". The type is B.'
    )


def test_an_inner_operator_is_one_without_a_dump_too(tmp_path: Path) -> None:
    ops = [Op("mn_a", "A", facts={"is_inner": True}), Op("mn_b", "B")]
    (row,) = cells(tmp_path, offline(ops, relation=Relation.MANY_TO_MANY))
    assert row["CompareFailReason"].startswith("[mn_a] The op is inner node")


def test_an_empty_l1_group_has_one_row(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline([Op("a", originals=("u",)), Op("b", originals=("v",))], relation=Relation.L1))
    assert (row["GroundTruth"], row["CompareFailReason"]) == ("u,v", "The fusion operator list is empty")


def test_different_sizes_are_told_with_both_shapes(tmp_path: Path) -> None:
    op = Op(
        "a",
        outputs=[figures()],
        status=Status.NOT_COMPARABLE,
        tensor={"logical_shape": (6,)},
        golden={"logical_shape": (7,)},
    )
    given = offline(op)
    given = replace(given, rows=tuple(replace(row, measurement=None) for row in given.rows))
    assert cells(tmp_path, given)[0]["CompareFailReason"] == (
        "[a] Due to the different shapes on the left and right,the left dump data(6,) can not be compared to the right "
        "dump data(7,). Please check the batch of the dump data or the shape may be changed due to optimization."
    )


ZERO = stats(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
EMPTY_ERRORS = dict.fromkeys(("acc_rel_err", "max_rel_err_masked", "mean_rel_err_masked"), math.nan)


@pytest.mark.parametrize(
    ("changed", "sides", "place", "expected"),
    [
        ({"cosine": math.nan, **EMPTY_ERRORS, "relative_euclidean_distance": math.inf}, {"golden": ZERO}, 0, "NaN"),
        (
            {"cosine": math.nan, **EMPTY_ERRORS, "relative_euclidean_distance": math.inf},
            {"golden": ZERO},
            2,
            "0.000000",
        ),
        (
            {"cosine": math.nan, **EMPTY_ERRORS, "relative_euclidean_distance": math.inf},
            {"golden": ZERO},
            3,
            "0.000000",
        ),
        ({"cosine": math.nan}, {"target": ZERO}, 0, "NaN"),
        ({"cosine": 1.0}, {"target": ZERO, "golden": ZERO}, 0, "1.0"),
        ({"kl_minmax": math.inf}, {}, 4, "NaN"),
    ],
)
def test_zeros(tmp_path: Path, changed: Any, sides: Any, place: int, expected: str) -> None:
    assert metrics(tmp_path, figures(changed, **sides)).split()[place] == expected


def test_zeros_are_told_with_the_whole_path(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("a", outputs=[figures({"cosine": math.nan}, target=ZERO)])))
    assert row["CompareFailReason"] == (
        f"Cannot compare by Cosine Similarity. All the data is zero in {TARGET_ROOT}/Conv2D.a.7.3.17."
    )
    assert GOLDEN_ROOT not in row["CompareFailReason"]


GOOD = {"acc_rel_err": 0.25, "max_rel_err_masked": 0.125, "mean_rel_err_masked": 0.5}


@pytest.mark.parametrize(
    ("target", "golden", "mismatch", "expected"),
    [
        # Columns in order: cosine, max abs, acc rel, distance, kl, deviations, mean abs, rmse, max rel, mean rel
        ({"nan": 1}, {"nan": 1}, 0, "nan nan 0.250000 nan nan (nan;nan),(nan;nan) nan nan 0.125000 0.500000"),
        ({"nan": 1}, {}, 1, "nan nan nan nan nan (nan;nan),(0.423;0.000) nan nan nan nan"),
        ({}, {"nan": 1}, 1, "nan nan 0.250000 nan nan (0.423;0.719),(nan;nan) nan nan 0.125000 0.500000"),
        ({"inf": 1}, {}, 1, "nan inf inf inf nan (inf;nan),(0.423;0.000) inf inf inf inf"),
        ({}, {"inf": 1}, 1, "nan inf 1.250000 nan nan (0.423;0.719),(inf;nan) inf inf 1.000000 0.666667"),
        ({"inf": 1}, {"inf": 1}, 0, "nan nan nan nan nan (inf;nan),(inf;nan) nan nan nan nan"),
    ],
)
def test_plain_arithmetic_with_values_that_are_no_numbers(
    tmp_path: Path, target: Any, golden: Any, mismatch: int, expected: str
) -> None:
    measured = figures(GOOD, target=stats(**target), golden=stats(**golden), nonfinite_mismatch=mismatch)
    assert metrics(tmp_path, measured) == expected


def test_truth_values_have_a_cosine_alone(tmp_path: Path) -> None:
    found = metrics(tmp_path, figures({"cosine": 0.866025}), dtype="bool")
    assert found == " ".join(["0.866025"] + ["NaN"] * 9)


def test_unruled_operators_take_the_index_of_their_group(tmp_path: Path) -> None:
    ops = (Op("a", "Cast", outputs=[figures()]), Op("b", "Relu", outputs=[gap("no_golden_op", "x")]))
    found = cells(tmp_path, offline(*ops, is_ruled=False, golden_framework="om"))
    assert [(row["Index"], row["OpType"], row["NPUDump"], row["GroundTruth"], row["TensorIndex"]) for row in found] == [
        ("0", "Cast", "a", "a", "a:output:0"),
        ("1", "NaN", "b", "*", "NaN"),
    ]
    assert found[1]["CompareFailReason"] == '[b] There is no the ground truth dump file for the op "b".'


def test_unruled_operators_of_the_golden_alone_stand_last(tmp_path: Path) -> None:
    given = offline(Op("a", outputs=[figures()]), is_ruled=False, golden_framework="om")
    key = NodeKey(Execution(), "only_right")
    golden = TensorRef.of(key, Slot(SlotRole.OUTPUT, (0,)), TensorKind.TENSOR, "float16", shape=(2,))
    row = Row(Pair(None, golden, "7", Rule("none")), None, Verdict(Status.UNMATCHED_GOLDEN), 9)
    groups = (*given.pairs.groups, Group("7", Relation.ONE_TO_ONE, (), (key,)))
    given = replace(given, rows=(row, *given.rows), pairs=replace(given.pairs, groups=groups))
    last = cells(tmp_path, given)[-1]
    assert (last["Index"], last["NPUDump"], last["GroundTruth"]) == ("7", "*", "only_right")
    assert last["CompareFailReason"] == '[only_right] There is no the my output dump file for the op "only_right".'


def test_unruled_operators_of_different_shapes_have_one_row(tmp_path: Path) -> None:
    why = gap("no_rule_shape", "[d] The shape does not match ((2, 3) vs (6)) for d:output:0.")
    given = offline(Op("d", "Mul", outputs=[figures()]), is_ruled=False, golden_framework="om")
    (row,) = given.rows
    row = replace(row, pair=replace(row.pair, reason=why), measurement=None, verdict=Verdict(Status.NOT_COMPARABLE))
    (found,) = cells(tmp_path, replace(given, rows=(row,)))
    assert (found["OpType"], found["NPUDump"], found["GroundTruth"]) == ("NaN", "d", "d")
    assert found["CompareFailReason"] == f"[d] There is no input. Skip the d:input.,{why.text}"


def test_unruled_operators_keep_the_kind_of_tensors_that_agrees(tmp_path: Path) -> None:
    why = gap("no_rule_count", "[d] The number of input does not match (1 vs 2).")
    given = offline(Op("d", "Mul", inputs=[why], outputs=[figures()]), is_ruled=False, golden_framework="om")
    assert [row["TensorIndex"] for row in cells(tmp_path, given)] == ["d:output:0"]


def test_further_columns_are_those_of_the_other_layout(tmp_path: Path) -> None:
    (row,) = cells(tmp_path, offline(Op("a", outputs=[figures()])), columns=("overflow", "model_flags"))
    assert (row["OverFlow"], *list(row.items())[-3:]) == (
        "NO",
        ("IsNpuOps", "NO"),
        ("IsOutputNode", "NaN"),
        ("IsPrecisionError", "NO"),
    )


def test_inputs_of_inner_operators_have_no_row(tmp_path: Path) -> None:
    ops = [Op("gap_sum", inputs=[figures()], originals=("gap",)), Op("gap", outputs=[figures()])]
    given = offline(ops, relation=Relation.ONE_TO_MANY)
    first, *rest = given.rows
    first = replace(first, pair=replace(first.pair, rule=OfflineRule.INNER_INPUT))
    assert [row["TensorIndex"] for row in cells(tmp_path, replace(given, rows=(first, *rest)))] == ["gap:output:0"]
