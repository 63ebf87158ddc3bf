"""The dump.json layout in tensor and checksum mode, and as the published tool writes it: cell by cell."""

from __future__ import annotations

import csv
import math
import zlib
from pathlib import Path
from typing import Any

import pytest
from report_builders import catalog

from probe_flow.records import (
    Comparison,
    Execution,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Pairs,
    Row,
    Rule,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.reports.dump_json_columns import Layout
from probe_flow.reports.layout import LAYOUTS
from probe_flow.reports.tables.dump_json.layout import layout_of

KEY = NodeKey(Execution(), "Torch.add", 0)
SIX = ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
FIGURES: dict[str, Any] = {
    "cosine": 0.5,
    "euclidean_distance": 0.25,
    "max_abs_err": 0.125,
    "max_rel_err_eps": 2.0,
    "err_ratio_1e3_eps": 0.75,
    "err_ratio_5e3_eps": 1.0,
}


def tensor(shape: tuple[int, ...] = (2, 3), **more: Any) -> TensorRef:
    fields: dict[str, Any] = {
        "kind": TensorKind.TENSOR,
        "dtype": "float32",
        "stored_dtype": "torch.float32",
        "shape": shape,
        "logical_shape": shape,
        "recorded": Statistics(max=1.0, min=0.0, mean=0.5, l2norm=1.0),
        "item": "Torch.add.0.forward.input.0",
        "file": "a.pt",
    }
    return TensorRef.of(KEY, more.pop("slot", Slot(SlotRole.INPUT)), **{**fields, **more})


def plain(value: object, *, kind: TensorKind = TensorKind.SCALAR, word: str = "", **more: Any) -> TensorRef:
    word = word or type(value).__name__
    fields = {
        "kind": kind,
        "value": value,
        "dtype": word,
        "stored_dtype": word,
        "recorded": None,
        "item": None,
        "file": None,
    }
    return tensor((), **{**fields, **more})


def comparison_of(*rows: Row, tasks: tuple[str, str] = ("tensor", "tensor")) -> Comparison:
    sides = []
    for side, task in zip(("target", "golden"), tasks, strict=True):
        made = catalog(side, [getattr(row.pair, side) for row in rows])
        sides.append(type(made)(made.side, "pytorch", task, "", made.nodes, made.tensors))
    pairs = Pairs(sides[0], sides[1], tuple(row.pair for row in rows))
    return Comparison(pairs, rows, (), {}, "findings", True)


def row_of(
    target: TensorRef | None, golden: TensorRef | None, metrics: dict[str, Any] | None = None, /, **more: Any
) -> Row:
    measured = None if metrics is None else Measurement.of(Mode.TENSOR, metrics, **more)
    return Row(Pair(target, golden, "g", Rule("exact")), measured, Verdict(Status.PASS), 0)


def written(comparison: Comparison, folder: Path, *, strict: bool = False) -> list[dict[str, str]]:
    (LAYOUTS["dump_json_msprobe"].write_csv if strict else LAYOUTS["dump_json"].write_csv)(comparison, folder / "t.csv")
    with (folder / "t.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def six(folder: Path, *row: Any, strict: bool = False, **more: Any) -> list[str]:
    cells = written(comparison_of(row_of(*row, **more)), folder, strict=strict)[0]
    return [cells[name] for name in SIX]


@pytest.mark.parametrize(
    ("tasks", "layout"),
    [
        (("tensor", "tensor"), Layout.TENSOR),
        (("statistics", "statistics"), Layout.STATISTICS),
        (("md5", "md5"), Layout.CHECKSUM),
        (("tensor", "statistics"), Layout.STATISTICS),
        (("md5", "statistics"), Layout.STATISTICS),
    ],
)
def test_the_columns_follow_what_both_sides_hold(tasks, layout):
    assert layout_of(comparison_of(row_of(tensor(), tensor()), tasks=tasks)) is layout


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_the_six_metrics_are_shown(tmp_path):
    assert six(tmp_path, tensor(), tensor(), FIGURES) == ["0.5", "0.25", "0.125", "2.0", "0.75", "1.0"]


@pytest.mark.parametrize(
    ("cosine", "shown"),
    [
        (0.99990001234, "0.9999"),
        (0.9999, "0.9999"),
        (0.123456789012345, "0.123456789012"),
        (0.99989999999999, "0.9999"),
        (math.nan, "Nan"),
        (None, "unsupported"),
        (-0.5, "-0.5"),
    ],
)
def test_a_cosine_is_rounded_to_12_digits_and_near_one_to_6(tmp_path, cosine, shown):
    assert six(tmp_path, tensor(), tensor(), FIGURES | {"cosine": cosine})[0] == shown


def test_errors_are_rounded_to_12_digits_and_the_distance_is_not(tmp_path):
    figures = FIGURES | {"euclidean_distance": 1 / 3, "max_abs_err": 1 / 3, "max_rel_err_eps": math.nan}
    assert six(tmp_path, tensor(), tensor(), figures)[1:4] == ["0.3333333333333333", "0.333333333333", "Nan"]


def test_infinite_metrics_have_a_leading_blank(tmp_path):
    assert six(tmp_path, tensor(), tensor(), FIGURES | {"max_abs_err": math.inf})[2] == " inf"


def test_whole_errors_of_integers_are_numbers(tmp_path):
    assert six(tmp_path, tensor(), tensor(), FIGURES | {"max_abs_err": 3})[2] == "3.0"


def test_our_own_ratios_stand_in_for_the_published_ones(tmp_path):
    figures = {"cosine": 1.0, "euclidean_distance": 0.0, "max_abs_err": 0.0, "max_rel_err": 0.5, "err_ratio_1e3": 0.25}
    assert six(tmp_path, tensor(), tensor(), figures) == ["1.0", "0.0", "0.0", "0.5", "0.25", "unsupported"]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_single_numbers_have_errors_only(tmp_path, shape):
    expected = ["unsupported", "unsupported", "0.125", "2.0", "unsupported", "unsupported"]
    assert six(tmp_path, tensor(shape), tensor(()), FIGURES) == expected


def test_dimensions_of_size_one_do_not_tell_shapes_apart(tmp_path):
    assert six(tmp_path, tensor((1, 4)), tensor((4,)), FIGURES)[0] == "0.5"


def test_other_shapes_are_unmatched_even_with_as_many_elements(tmp_path):
    assert six(tmp_path, tensor((2, 3)), tensor((3, 2)), FIGURES) == ["shape unmatched"] * 6
    assert six(tmp_path, tensor((2, 3)), tensor((5,))) == ["shape unmatched"] * 6


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (tensor(), None),
        (None, tensor()),
        (plain(1.5), plain(1.5)),
        (tensor(), plain(1.5)),
        (tensor((0, 3)), tensor((0, 3))),
        (tensor(kind=TensorKind.UNREADABLE, reason="cut off"), tensor()),
        (tensor(), tensor()),
    ],
    ids=["no golden", "no target", "scalars", "other kind", "empty", "unreadable", "not measured"],
)
def test_what_holds_no_two_tensors_is_unsupported(tmp_path, target, golden):
    assert six(tmp_path, target, golden) == ["unsupported"] * 6


def test_nonfinite_values_at_other_places_cost_the_published_table_its_metrics_not_ours(tmp_path):
    rows = tensor(), tensor(), FIGURES
    assert six(tmp_path, *rows, nonfinite_mismatch=1, strict=True) == ["N/A"] * 6
    assert six(tmp_path, *rows, nonfinite_mismatch=1)[0] == "0.5"


def side(nan: int = 0, inf: int = 0, norm: float | None = 1.0) -> SideSummary:
    return SideSummary(Statistics(max=1.0, min=0.0, mean=0.5, l2norm=norm, nan=nan, inf=inf))


@pytest.mark.parametrize(
    ("sides", "share", "shown"),
    [
        ((side(nan=1, inf=2), side(nan=1, inf=2)), 1 / 3, "0.666666666667"),  # 1 of 3 numbers and 3 others of 6
        ((side(inf=4), side(inf=4)), 0.0, "0.666666666667"),
        ((side(), side()), 0.5, "0.5"),
    ],
)
def test_nan_and_infinities_at_the_same_places_count_as_close_in_the_published_table(tmp_path, sides, share, shown):
    figures = FIGURES | {"err_ratio_1e3_eps": share}
    row = tensor(), tensor(), figures
    more = {"target": sides[0], "golden": sides[1], "count": 6}
    assert six(tmp_path, *row, **more, strict=True)[4] == shown
    assert six(tmp_path, *row, **more)[4] == str(round(share, 12))


def test_tensors_without_a_number_are_equal_in_the_published_table(tmp_path):
    none = side(nan=6, norm=None)
    row = tensor(), tensor(), dict.fromkeys(FIGURES)
    more = {"target": none, "golden": none, "count": 6}
    assert six(tmp_path, *row, **more, strict=True) == ["1.0", "0.0", "0.0", "0.0", "1.0", "1.0"]
    assert six(tmp_path, *row, **more) == ["unsupported"] * 6


@pytest.mark.parametrize(("norms", "shown"), [((1e-17, 1e-18), "1.0"), ((1e-17, 1.0), "Nan"), ((1.0, 1.0), "0.5")])
def test_norms_up_to_the_float_epsilon_are_zero_in_the_published_table(tmp_path, norms, shown):
    more = {"target": side(norm=norms[0]), "golden": side(norm=norms[1]), "count": 6}
    assert six(tmp_path, tensor(), tensor(), FIGURES, **more, strict=True)[0] == shown


@pytest.mark.parametrize(
    ("target", "golden", "shown"),
    [
        (math.nan, 1.0, ["Nan", "Nan"]),
        (math.inf, math.inf, ["Nan", "Nan"]),
        (-math.inf, 1.0, [" inf", " inf"]),
        (2.0, math.inf, [" inf", "Nan"]),
        (math.inf, 0.0, [" inf", " inf"]),
    ],
)
def test_single_numbers_are_subtracted_whatever_they_are_in_the_published_table(tmp_path, target, golden, shown):
    one, other = (tensor((), recorded=Statistics(max=each, min=each, mean=each)) for each in (target, golden))
    found = six(tmp_path, one, other, dict.fromkeys(FIGURES), nonfinite_mismatch=1, strict=True)
    assert found == ["unsupported", "unsupported", *shown, "unsupported", "unsupported"]


@pytest.mark.parametrize(
    ("target", "golden", "published", "ours"),
    [
        (3, 4, ("-1.0", "25.0%"), ("-1", "25.0%")),
        (2**60, 2**60 + 1, ("0.0", "0.0%"), ("-1", "8.673617379884035e-17%")),
        (0.0, -0.0, ("0.0", "inf"), ("0", "0")),
        (1, 1.0, ("0.0", "0.0%"), ("0", "0")),
        (5, 0, ("5.0", "inf"), ("5", "inf")),
        ("5", "7", ("-2.0", "28.57142857142857%"), ("Diff", "Diff")),
        ("nan", "NaN", ("0", "0"), ("Diff", "Diff")),
        ("inf", "3", ("inf", "inf"), ("Diff", "Diff")),
        ("CUDA:0", "npu:0", ("N/A", "N/A"), ("Diff", "Diff")),
        (True, False, ("Diff", "Diff"), ("Diff", "Diff")),
    ],
)
def test_the_published_table_subtracts_texts_as_floats(tmp_path, target, golden, published, ours):
    comparison = comparison_of(row_of(plain(target), plain(golden)), tasks=("statistics", "statistics"))
    for strict, expected in ((True, published), (False, ours)):
        row = written(comparison, tmp_path, strict=strict)[0]
        assert (row["Max diff"], row["MaxRelativeErr"]) == expected


@pytest.mark.parametrize(
    ("value", "dtype", "shown", "checksum"),
    [
        (plain("channels_last", word="torch.memory_format", kind=TensorKind.OPAQUE, no_value=""),
         "<class 'NoneType'>", "None", "00000000"),
        (plain("None", word="int", kind=TensorKind.OPAQUE, no_value="None"),
         "<class 'NoneType'>", "None", f"{zlib.crc32(b'None'):08x}"),
        (plain(1, slot=Slot(SlotRole.INPUT, ("dst",))), "int", "1", "1"),
        (plain("nan"), "<class 'str'>", "Nan", f"{zlib.crc32(b'nan'):08x}"),
    ],
)  # fmt: skip
def test_the_published_table_shows_of_other_values_what_msprobe_does(tmp_path, value, dtype, shown, checksum):
    for tasks, cells in ((("statistics",) * 2, {"NPU max": shown}), (("md5",) * 2, {"NPU MD5": checksum})):
        row = written(comparison_of(row_of(value, value), tasks=tasks), tmp_path, strict=True)[0]
        assert row["NPU Dtype"] == dtype
        assert {name: row[name] for name in cells} == cells


def test_a_tensor_without_checksum_has_that_of_nothing_in_the_published_table(tmp_path):
    comparison = comparison_of(row_of(tensor(), tensor()), tasks=("md5", "md5"))
    assert written(comparison, tmp_path, strict=True)[0]["NPU MD5"] == "00000000"
    assert written(comparison, tmp_path)[0]["NPU MD5"] == "N/A"


@pytest.mark.parametrize(
    ("target", "golden", "shown"),
    [
        (tensor(), tensor(), "['a.pt', 'a.pt']"),
        (tensor(), None, "['a.pt', 'N/A']"),
        (None, tensor(file=""), "['N/A', '-1']"),
        (plain(1), tensor(file="it's.npy"), "['-1', \"it's.npy\"]"),
    ],
)
def test_files_of_both_sides_are_named(tmp_path, target, golden, shown):
    assert written(comparison_of(row_of(target, golden)), tmp_path)[0]["Data_name"] == shown


def test_an_unreadable_tensor_keeps_what_was_recorded_of_it(tmp_path):
    broken = tensor(kind=TensorKind.UNREADABLE, reason="cut off")
    row = written(comparison_of(row_of(broken, tensor())), tmp_path)[0]
    assert (row["NPU Dtype"], row["NPU Tensor Shape"], row["NPU max"]) == ("torch.float32", "[2, 3]", "1.0")
    bare = tensor(kind=TensorKind.UNREADABLE, stored_dtype="", recorded=None, shape=None, logical_shape=None)
    row = written(comparison_of(row_of(bare, tensor())), tmp_path)[0]
    assert (row["NPU Dtype"], row["NPU Tensor Shape"], row["NPU max"]) == ("N/A", "N/A", "N/A")


# --- checksums -------------------------------------------------------------------------------------------------------


def sums(folder: Path, target: TensorRef | None, golden: TensorRef | None) -> tuple[str, str]:
    row = written(comparison_of(row_of(target, golden), tasks=("md5", "md5")), folder)[0]
    assert "Max diff" not in row
    assert "NPU max" not in row
    return row["NPU MD5"], row["BENCH MD5"]


def test_recorded_checksums_are_shown(tmp_path):
    assert sums(tmp_path, tensor(checksum="0a1b2c3d"), None) == ("0a1b2c3d", "N/A")
    assert sums(tmp_path, tensor(checksum="=1+1"), tensor()) == ("'=1+1", "N/A")


@pytest.mark.parametrize(("value", "text"), [(True, "True"), (1.0, "1.0"), ("層", "層"), (-1, "-1")])
def test_plain_values_have_the_checksum_of_their_text(tmp_path, value, text):
    expected = f"{zlib.crc32(text.encode()):08x}"
    assert sums(tmp_path, plain(value), plain(value)) == (expected, expected)


def test_the_checksum_of_one_point_zero_is_that_of_the_published_tool(tmp_path):
    assert sums(tmp_path, plain(2.0), plain(False))[1] == "ea0c4734"


def test_groups_and_peers_show_their_value(tmp_path):
    group = plain("[0, 1]", kind=TensorKind.OPAQUE, word="torch.ProcessGroup")
    peer = plain(3, slot=Slot(SlotRole.INPUT, ("dst",)))
    assert sums(tmp_path, group, peer) == ("[0, 1]", "3")


def test_nothing_has_no_checksum(tmp_path):
    nothing = plain(None, kind=TensorKind.NULL)
    assert sums(tmp_path, nothing, nothing) == ("N/A", "N/A")


# --- the published table ---------------------------------------------------------------------------------------------


def test_the_published_table_calls_what_has_no_partner_a_pass_and_leaves_golden_rows_out(tmp_path):
    rows = row_of(tensor(), None), row_of(None, tensor())
    (row,) = written(comparison_of(*rows), tmp_path, strict=True)
    assert (row["Result"], row["Err_message"]) == ("pass", "[]")
    assert "Role" not in row


def test_the_published_table_judges_all_rows_of_a_call_together(tmp_path):
    out = {"slot": Slot(SlotRole.OUTPUT), "item": "Torch.add.0.forward.output.0"}
    good = row_of(tensor(), tensor(), FIGURES | {"err_ratio_1e3_eps": 1.0, "cosine": 1.0})
    bad = row_of(tensor(**out), tensor(**out), FIGURES | {"err_ratio_1e3_eps": 0.0, "cosine": 0.5})
    rows = written(comparison_of(good, bad), tmp_path, strict=True)
    assert [row["Result"] for row in rows] == ["pass", "error"]
    assert rows[1]["Err_message"].count("error: ") == rows[1]["Err_message"].count("warning: ") == 1
