"""The dump.json CSV layout: cell by cell against a real result file, and its texts one by one."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import (
    Catalog,
    Comparison,
    Execution,
    Measurement,
    Mode,
    Node,
    NodeKey,
    Pair,
    Pairs,
    Role,
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
from probe_flow.records.frameworks import PYTORCH
from probe_flow.reports.dump_json_columns import RESULTS
from probe_flow.reports.layout import LAYOUTS

DATA = Path(__file__).parents[4] / "data" / "dump_json"
KEY = NodeKey(Execution(), "Torch.add", 0)
LIKE = {"dtype": "float32", "stored_dtype": "torch.float32", "shape": (2, 3), "logical_shape": (2, 3)}


def written(comparison: Comparison, folder: Path) -> list[dict[str, str]]:
    LAYOUTS["dump_json"].write_csv(comparison, folder / "result.csv")
    with (folder / "result.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def ref(statistics: Statistics | None = None, **more: Any) -> TensorRef:
    fields: dict[str, Any] = {"kind": TensorKind.STATISTICS, "item": "Torch.add.0.forward.input.0", **LIKE}
    slot = more.pop("slot", Slot(SlotRole.INPUT))
    return TensorRef.of(KEY, slot, recorded=statistics, **{**fields, **more})


def scalar(value: object) -> TensorRef:
    word = type(value).__name__
    return ref(kind=TensorKind.SCALAR, value=value, dtype=word, stored_dtype=word, shape=(), logical_shape=())


def comparison_of(
    *rows: tuple[TensorRef | None, TensorRef | None],
    verdict: Verdict | None = None,
    measurement: Measurement | None = None,
    stacks: dict[str, tuple[str, ...]] | None = None,
) -> Comparison:
    node = Node(KEY, "add", stack_id="0" if stacks else None)
    side = Catalog("target", PYTORCH, "statistics", "", {KEY: node}, (), stacks=stacks or {})
    made = [Pair(one, other, "g", Rule("exact")) for one, other in rows]
    judged = verdict or Verdict(Status.PASS)
    compared = tuple(Row(pair, measurement, judged, n) for n, pair in enumerate(made))
    return Comparison(Pairs(side, side, tuple(made)), compared, (), {}, "findings", True)


def row_of(target: TensorRef | None, golden: TensorRef | None, folder: Path, **more: Any) -> dict[str, str]:
    return written(comparison_of((target, golden), **more), folder)[0]


# --- the real result file --------------------------------------------------------------------------------------------

CROSSED = {"Tensor.__mul__.0.backward", "Tensor.__mul__.1.backward"}
"""Rows that the expected file pairs crosswise, because it numbers backward calls by occurrence; ours pair through the
forward calls. All their golden cells differ; the target's cells agree."""

OWN_COLUMNS = {"Result", "Err_message", "Role"}
"""Our verdicts replace the tool's: it calls rows without a partner `pass`, and its rules react to rounding noise."""


@pytest.fixture(scope="module")
def real() -> Comparison:
    target = read_dump_json(DATA / "pt_stat_bug", side="target")
    golden = read_dump_json(DATA / "pt_stat_base", side="golden")
    pairs = match_name(target, golden)
    rows = []
    for order, pair in enumerate(pairs.pairs):
        status = Status.UNMATCHED_TARGET if pair.golden is None else Status.PASS
        rows.append(Row(pair, None, Verdict(status, role=Role.CLEAN), order))
    return Comparison(pairs, tuple(rows), (), {}, "findings", True)


def expected_rows() -> list[dict[str, str]]:
    with (DATA / "expected/pt_stat_mix_bug.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_cell_of_the_real_result_is_reproduced(real: Comparison, tmp_path: Path) -> None:
    ours = written(real, tmp_path)
    theirs = expected_rows()

    assert [row["NPU Name"] for row in ours] == [row["NPU Name"] for row in theirs]
    differing = []
    for our, their in zip(ours, theirs, strict=True):
        crossed = any(our["NPU Name"].startswith(name) for name in CROSSED)
        columns = [name for name in their if name.startswith("NPU")] if crossed else list(their)
        differing += [
            (our["NPU Name"], name, our[name], their[name])
            for name in columns
            if name not in OWN_COLUMNS and our[name] != their[name]
        ]
    assert differing == []


def test_the_crossed_rows_of_the_real_result_are_put_right(real: Comparison, tmp_path: Path) -> None:
    rows = {row["NPU Name"]: row for row in written(real, tmp_path)}

    assert rows["Tensor.__mul__.0.backward.input.0"]["Bench Name"] == "Tensor.__mul__.0.backward.input.0"
    assert rows["Tensor.__mul__.1.backward.input.0"]["Bench Name"] == "N/A"
    assert rows["Tensor.__mul__.1.backward.input.0"]["Result"] == "unmatched_target"


def test_columns_stand_in_the_order_of_the_layout_with_role_last(real: Comparison, tmp_path: Path) -> None:
    LAYOUTS["dump_json"].write_csv(real, tmp_path / "result.csv")
    header = (tmp_path / "result.csv").read_text(encoding="utf-8").splitlines()[0]

    assert header == (DATA / "expected/pt_stat_mix_bug.csv").read_text(encoding="utf-8").splitlines()[0] + ",Role"


METRIC_COLUMNS = {
    "max": ("Max diff", "MaxRelativeErr"),
    "min": ("Min diff", "MinRelativeErr"),
    "mean": ("Mean diff", "MeanRelativeErr"),
    "l2norm": ("L2norm diff", "NormRelativeErr"),
}


def test_the_texts_are_the_metrics_of_the_same_pair(real: Comparison, tmp_path: Path) -> None:
    for row, cells in zip(real.rows, written(real, tmp_path), strict=True):
        target, golden = row.pair.target, row.pair.golden
        if target is None or golden is None or target.recorded is None or golden.recorded is None:
            continue
        metrics = compare_statistics(target.recorded, golden.recorded)
        for name, (absolute, relative) in METRIC_COLUMNS.items():
            difference, ratio = metrics[f"{name}_diff"], metrics[f"{name}_diff_rel"]
            assert float(cells[absolute]) == (difference or 0.0)
            assert float(cells[relative].rstrip("%")) / 100 == pytest.approx(ratio or 0.0, rel=1e-14)


# --- texts -----------------------------------------------------------------------------------------------------------

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("target", "golden", "absolute", "relative"),
    [
        (2.0, 2.0, "0", "0"),
        (None, None, "0", "0"),
        (NAN, NAN, "0", "0"),
        (True, True, "0", "0"),
        (3, 2, "1", "50.0%"),
        (-1.5, 2.0, "-3.5", "175.0%"),
        (0.5, 0.0, "0.5", "inf"),
        (0.0, -0.0, "0", "0"),
        (1, 1.0, "0", "0"),
        (NAN, 1.0, "Nan", "Nan"),
        (INF, NAN, "Nan", "Nan"),
        (INF, 1.0, "inf", "inf"),
        (1.0, -INF, "inf", "inf"),
        (-INF, 1.0, "-inf", "-inf"),
        (1.0, INF, "-inf", "-inf"),
        (INF, -INF, "inf", "inf"),
        (True, False, "Diff", "Diff"),
        (True, 1.0, "Diff", "Diff"),
        (None, 1.0, "Diff", "Diff"),
        (1.7e308, 1e-300, "1.7e+308", "inf%"),
    ],
)
def test_differences_have_the_texts_of_the_layout(
    tmp_path: Path, target: Any, golden: Any, absolute: str, relative: str
) -> None:
    row = row_of(ref(Statistics(max=target)), ref(Statistics(max=golden)), tmp_path)

    assert (row["Max diff"], row["MaxRelativeErr"]) == (absolute, relative)


@pytest.mark.parametrize(
    ("target", "golden", "absolute"),
    [
        (1.5, 1.0, "0.5"),
        ("mean", "sum", "Diff"),
        ("npu:0", "cuda:1", "N/A"),
        ("npu:0", 3, "Diff"),
        (False, True, "Diff"),
    ],
)
def test_scalars_show_their_value_as_all_four_statistics(
    tmp_path: Path, target: Any, golden: Any, absolute: str
) -> None:
    row = row_of(scalar(target), scalar(golden), tmp_path)

    assert row["NPU Dtype"] == f"<class '{type(target).__name__}'>"
    assert row["NPU Tensor Shape"] == "[]"
    assert {row[f"NPU {name}"] for name in ("max", "min", "mean", "l2norm")} == {str(target)}
    assert {row[f"{name} diff"] for name in ("Max", "Min", "Mean", "L2norm")} == {absolute}


def test_nonfinite_statistics_and_requires_grad_have_their_texts(tmp_path: Path) -> None:
    target = ref(Statistics(max=INF, min=-INF, mean=NAN), item="i", requires_grad=True)
    row = row_of(target, ref(Statistics(max=1)), tmp_path)

    assert [row[f"NPU {name}"] for name in ("max", "min", "mean", "l2norm")] == [" inf", " -inf", "Nan", "None"]
    assert (row["NPU Requires_grad"], row["Bench Requires_grad"]) == ("True", "N/A")
    assert row["Requires_grad Consistent"] == "False"


def test_a_missing_side_is_not_available_throughout(tmp_path: Path) -> None:
    row = row_of(None, ref(Statistics(max=1.0)), tmp_path, verdict=Verdict(Status.UNMATCHED_GOLDEN, reasons=("gone",)))

    assert row["NPU Name"] == "N/A"
    assert row["Bench Name"] == "Torch.add.0.forward.input.0"
    assert {text for name, text in row.items() if name.startswith("NPU")} == {"N/A"}
    assert (row["Max diff"], row["Bench max"], row["Result"], row["Err_message"]) == (
        "N/A",
        "1.0",
        "unmatched_golden",
        '["gone"]',
    )


@pytest.mark.parametrize(
    ("word", "value", "dtype", "shape", "shown"),
    [
        ("torch.Size", "[1, 2]", "torch.Size", "[1, 2]", "None"),
        ("slice", "[1, None, 2]", "slice", "(3,)", "None"),
        ("ellipsis", "...", "ellipsis", "[]", "..."),
        ("torch.ProcessGroup", "[0, 1]", "torch.ProcessGroup", "[]", "[0, 1]"),
        ("torch.dtype", "torch.float16", "<class 'str'>", "[]", "torch.float16"),
    ],
)
def test_things_without_numbers_are_shown_by_their_type(
    tmp_path: Path, word: str, value: str, dtype: str, shape: str, shown: str
) -> None:
    thing = ref(kind=TensorKind.OPAQUE, dtype=word, stored_dtype=word, shape=None, logical_shape=None, value=value)
    row = row_of(thing, thing, tmp_path)

    assert (row["NPU Dtype"], row["NPU Tensor Shape"], row["NPU max"], row["Max diff"]) == (dtype, shape, shown, "0")


def test_tensors_without_recorded_statistics_show_the_measured_ones(tmp_path: Path) -> None:
    sides = [SideSummary(Statistics(max=value)) for value in (3.0, 2.0)]
    measured = Measurement.of(Mode.TENSOR, {}, target=sides[0], golden=sides[1])
    data = ref(kind=TensorKind.TENSOR)
    row = row_of(data, data, tmp_path, measurement=measured)

    assert (row["NPU max"], row["Bench max"], row["MaxRelativeErr"]) == ("3.0", "2.0", "50.0%")


def test_every_verdict_has_a_word_and_only_a_pass_is_called_so() -> None:
    assert set(RESULTS) == set(Status)
    assert [status for status, word in RESULTS.items() if word == "pass"] == [Status.PASS]
    assert RESULTS[Status.FAIL] == RESULTS[Status.ERROR] == "error"


def test_roles_are_written(tmp_path: Path) -> None:
    row = row_of(ref(Statistics()), ref(Statistics()), tmp_path, verdict=Verdict(Status.FAIL, role=Role.ORIGIN))

    assert (row["Result"], row["Role"]) == ("error", "origin")


def test_source_frames_stand_on_the_first_row_of_an_entry_only(tmp_path: Path) -> None:
    outputs = ref(Statistics(), slot=Slot(SlotRole.OUTPUT))
    rows = written(comparison_of((ref(), ref()), (outputs, outputs), stacks={"0": ("File a.py, line 1",)}), tmp_path)

    assert [row["NPU_Stack_Info"] for row in rows] == ["['File a.py, line 1']", "N/A"]


def test_without_source_frames_the_column_is_left_out(tmp_path: Path) -> None:
    assert "NPU_Stack_Info" not in row_of(ref(), ref(), tmp_path)


# --- safety ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\uff05", " ="])
def test_text_that_a_spreadsheet_would_evaluate_is_neutralised(tmp_path: Path, start: str) -> None:
    text = f"{start}cmd|'/c calc'!A1"
    named = ref(Statistics(), item=text, stored_dtype=text)
    row = row_of(named, scalar(text), tmp_path)

    assert [row[name] for name in ("NPU Name", "NPU Dtype", "Bench max")] == ["'" + text] * 3


def test_negative_numbers_stay_numbers(tmp_path: Path) -> None:
    row = row_of(ref(Statistics(min=-2.5)), ref(Statistics(min=-1.0)), tmp_path)

    assert (row["NPU min"], row["Min diff"]) == ("-2.5", "-1.5")


def test_odd_characters_survive_a_csv_reader(tmp_path: Path) -> None:
    names: Sequence[str] = ['a,"b"\n', "c\rd", "e\0f", "g\ud800h", "層.0"]
    rows = written(comparison_of(*((ref(item=name), ref()) for name in names)), tmp_path)

    assert [row["NPU Name"] for row in rows] == ['a,"b"\n', "c\\rd", "e\\x00f", "g\\ud800h", "層.0"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.csv"
    path.write_text("old")
    broken = comparison_of((ref(), ref()), verdict=Verdict("no status"))  # type: ignore[arg-type]

    with pytest.raises(KeyError):
        LAYOUTS["dump_json"].write_csv(broken, path)

    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["result.csv"]
