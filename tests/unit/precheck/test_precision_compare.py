"""Two checks of PyTorch APIs, compared: the tables that msprobe writes, and by hand what it gets wrong."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from probe_flow.errors import UsageError
from probe_flow.precheck.precision_compare import Judged, Outcome, compare_precision, judge
from probe_flow.precheck.precision_tables import DETAILS_HEADER, FIGURES, Row, read_details
from probe_flow.precheck.results import Status

DATA = Path(__file__).parents[2] / "data" / "precheck"
STARTED = datetime(2026, 1, 2, 3, 4, 5)

DIFFERENT = {
    # It leaves the status blank where mean errors disagree, though the output fails.
    ("Torch.matmul.7.forward.output.0", "ULP误差判定结果"): "error",
    # It marks a direction that has no outputs, where the other is of a type without standard.
    ("Torch.double.0", "Backward Test Success"): " ",
}
"""Cells that differ from msprobe's on purpose."""

ADDED = {"Torch.only_npu.0.forward.output.0", "Torch.only_npu.0"}
"""Rows that it leaves out: the other device has no such output."""


def table(path: Path) -> tuple[list[str], dict[str, dict[str, str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file)
    return header, {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def row(name: str = "Torch.exp.0.forward.output.0", dtype: str = "float32", **given: object) -> Row:
    figures = {key: str(value) for key, value in given.items() if key in FIGURES}
    texts = {key: str(value) for key, value in given.items() if key not in FIGURES}
    return Row(
        name, 2, dtype, texts.get("shape", "(2,)"), texts.get("status", "pass"), texts.get("message", ""), figures
    )


def written(path: Path, rows: Sequence[Mapping[str, str]], header: Sequence[str] | None = None) -> Path:
    columns = header or ["API Name", "DEVICE Dtype", "Shape", *FIGURES.values(), "Status", "Message"]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows([each.get(column, " ") for column in columns] for each in rows)
    return path


def benchmarked(name: str, dtype: str = "torch.float32", rmse: float = 0.0) -> dict[str, str]:
    figures = {FIGURES[key]: "0.0" for key in ("small_ratio", "max_rel", "mean_rel", "error_balance")}
    return {"API Name": name, "DEVICE Dtype": dtype, "Status": "pass", FIGURES["rmse"]: str(rmse), **figures}


@pytest.fixture(params=["newest", "older"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Outcome]:
    kind: str = request.param
    target, golden = (DATA / f"precision_{kind}_{side}.csv" for side in ("npu", "gpu"))
    return kind, compare_precision(target, golden, tmp_path, started=STARTED)


@pytest.mark.parametrize("which", [0, 1])
def test_tables_are_those_of_msprobe_but_for_their_messages(both: tuple[str, Outcome], which: int) -> None:
    kind, outcome = both
    header, rows = table(DATA / f"precision_{kind}_{('result', 'details')[which]}.csv")
    our_header, ours = table(outcome.tables[which])
    assert our_header == header
    assert [name for name in ours if name not in ADDED] == list(rows)
    for name, cells in rows.items():
        for heading, wanted in list(cells.items())[:-1]:
            assert ours[name][heading] == DIFFERENT.get((name, heading), wanted), (name, heading)


def test_tables_begin_with_the_mark_and_their_lines_end_as_those_of_msprobe(both: tuple[str, Outcome]) -> None:
    _, outcome = both
    for path in outcome.tables:
        text = path.read_bytes()
        assert text.startswith(b"\xef\xbb\xbf")
        assert text.endswith(b"\r\n")
    assert [path.name for path in outcome.tables] == [
        "api_precision_compare_result_20260102030405.csv",
        "api_precision_compare_details_20260102030405.csv",
    ]


def test_an_output_that_fails_says_why(both: tuple[str, Outcome]) -> None:
    _, outcome = both
    for call in outcome.calls:
        if call.is_wrong:
            assert call.message
    found = {each.name: each.message for call in outcome.calls for each in call.outputs}
    if "Torch.exp.0.forward.output.0" in found:
        assert found["Torch.exp.0.forward.output.0"] == (
            "root mean square error is 2.5 times that of the other device, more than 2"
        )


def test_outputs_of_one_call_are_one_row_wherever_they_are(tmp_path: Path) -> None:
    names = ["Torch.exp.0.forward.output.0", "Torch.cos.0.forward.output.0", "Torch.exp.0.backward.output.0"]
    target = written(tmp_path / "t.csv", [benchmarked(name, rmse=number) for number, name in enumerate(names)])
    golden = written(tmp_path / "g.csv", [benchmarked(name) for name in names])
    outcome = compare_precision(target, golden, tmp_path, started=STARTED)
    assert [(call.name, call.statuses) for call in outcome.calls] == [
        ("Torch.exp.0", (Status.PASS, Status.ERROR)),
        ("Torch.cos.0", (Status.ERROR, None)),
    ]


def test_two_comparisons_of_one_second_do_not_share_a_name(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [benchmarked("Torch.exp.0.forward.output.0")])
    first, second = (compare_precision(path, path, tmp_path, started=STARTED).tables for _ in range(2))
    assert [path.name[-8:] for path in (*first, *second)] == ["0405.csv", "0405.csv", "0406.csv", "0406.csv"]


def test_an_output_that_the_other_device_lacks_is_skipped_and_missing() -> None:
    found = judge(row(rmse=0.1), None)
    assert (found.status, found.is_missing) == (Status.SKIP, True)
    assert found.message == "the other device has no such output"


def test_figures_of_another_standard_are_no_others() -> None:
    """msprobe takes blank cells for 0, so that whatever the target has is judged by the least error."""
    other = row(status="error", message="shapes differ")
    found = judge(row(rmse=1e-9), other)
    assert (found.status, found.is_missing) == (Status.SKIP, True)
    assert found.message == "the other device has no figures of the benchmark standard"


def test_standards_that_need_no_other_device_judge_all_the_same() -> None:
    assert judge(row(dtype="int64", error_rate=0.0), row(dtype="int64")).status is Status.PASS
    assert judge(row(dtype="float8_e5m2", ulp_ratio=0.5, mean_ulp=0.1), row()).status is Status.ERROR


@pytest.mark.parametrize(
    ("given", "status", "is_missing"),
    [
        ({"status": "error", "message": "its shape is (2,)"}, Status.ERROR, False),  # msprobe passes it
        ({"status": "pass", "dtype": "int8"}, Status.PASS, False),  # quantised: within one
        ({"status": "warning"}, Status.WARNING, False),
        ({"status": "SKIP", "message": "no backward"}, Status.SKIP, False),
        ({"dtype": ""}, Status.SKIP, False),
        ({"dtype": "", "status": "error", "message": "it is a `float`"}, Status.ERROR, False),
        ({"dtype": "float64", "rmse": 0.1}, Status.SKIP, False),
        ({"dtype": "complex64"}, Status.SKIP, False),
        ({"shape": "(0,)", "rmse": 0.1}, Status.SKIP, False),
        ({"shape": "(3, 0, 2)", "rmse": 0.1}, Status.SKIP, False),
        ({"shape": "(10, 20)", "rmse": 0.0}, Status.PASS, False),
        ({"status": "?"}, Status.SKIP, True),
        ({"rmse": "1e"}, Status.SKIP, True),
        ({"name": "Torch.exp.forward.output.0", "rmse": 0.0}, Status.SKIP, True),
        ({"name": "Torch.exp.0.sideways.output.0", "rmse": 0.0}, Status.SKIP, True),
    ],
)
def test_what_has_no_figures_to_judge(given: dict[str, str], status: Status, *, is_missing: bool) -> None:
    found: Judged = judge(row(**given), row(rmse=0.0))
    assert (found.status, found.is_missing) == (status, is_missing)
    assert bool(found.message) or status in (Status.PASS, Status.WARNING)


def test_the_own_share_within_a_thousandth_judges_convolutions_only() -> None:
    for api, status in (("Functional.conv2d", Status.ERROR), ("Torch.exp", Status.PASS)):
        found = judge(row(f"{api}.0.forward.output.0", within_thousandth=0.5, status="pass"), row())
        assert found.status is status


@pytest.mark.parametrize(
    ("api", "rmse", "max_rel", "status"),
    [
        ("exp", 2.0, 10.0, Status.PASS),
        ("exp", 2.1, 1.0, Status.ERROR),
        ("embedding", 1.5, 5.0, Status.PASS),
        ("embedding", 1.6, 1.0, Status.ERROR),
        ("matmul", 1.2, 2.0, Status.PASS),
        ("matmul", 1.0, 2.1, Status.ERROR),
    ],
)
def test_the_level_of_an_api_sets_the_limits(api: str, rmse: float, max_rel: float, status: Status) -> None:
    name = f"Torch.{api}.0.forward.output.0"
    assert judge(row(name, rmse=rmse, max_rel=max_rel), row(name, rmse=1.0, max_rel=1.0)).status is status


@pytest.mark.parametrize(("dtype", "least"), [("float16", 2**-11), ("bfloat16", 2**-8), ("float32", 2**-14)])
def test_errors_of_the_other_device_count_as_at_least_the_spacing(dtype: str, least: float) -> None:
    found = judge(row(dtype=dtype, rmse=2 * least), row(dtype=dtype, rmse=0.0))
    assert (found.status, found.cells["均方根误差比值"]) == (Status.PASS, "2.00000000000000")


def test_nothing_but_skipped_outputs_is_not_green(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [benchmarked("Torch.exp.0.forward.output.0", "torch.float64")])
    (problem,) = compare_precision(path, path, tmp_path, started=STARTED).problems
    assert problem.code == "PF6626"
    empty = written(tmp_path / "e.csv", [])
    assert [each.code for each in compare_precision(empty, empty, tmp_path, started=STARTED).problems] == ["PF6626"]


def test_outputs_that_only_the_other_device_has_are_warned_of(tmp_path: Path) -> None:
    names = ["Torch.exp.0.forward.output.0", "Torch.exp.1.forward.output.0"]
    target = written(tmp_path / "t.csv", [benchmarked(names[0])])
    golden = written(tmp_path / "g.csv", [benchmarked(name) for name in names])
    (problem,) = compare_precision(target, golden, tmp_path, started=STARTED).problems
    assert (problem.code, problem.severity.value) == ("PF6627", "warning")
    assert names[1] in problem.message


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"\xff\xfe\x00\x01", "PF6620", 0),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00", "PF6620", 0),
        (b"", "PF6621", 0),
        (b"API Name,Forward Test Success,Backward Test Success,Message\r\n", "PF6621", 0),
        (b"{header}\r\n{row}Torch.exp.1.forward", "PF6622", 3),
        (b'{header}\r\n{row}Torch.exp.1.forward.output.0,"torch.flo', "PF6622", 3),
        (b"{header}\r\n{row}{row}", "PF6623", 3),
        (b"{header}\r\n{row}={row}", "PF6624", 3),
    ],
)
def test_a_table_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, content: bytes, code: str, line: int
) -> None:
    good = written(tmp_path / "good.csv", [benchmarked("Torch.exp.0.forward.output.0")]).read_text("utf-8-sig")
    header, body = good.splitlines()
    for name, text in ((b"{header}", header), (b"{row}", f"{body}\r\n")):
        content = content.replace(name, text.encode())
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_details(path)
    (problem,) = caught.value.diagnostics
    assert problem.code == code
    assert (problem.span.line if problem.span else 0) == line
    assert problem.help


def test_columns_may_be_more_and_in_any_order(tmp_path: Path) -> None:
    columns = ["Extra", *reversed(["API Name", "DEVICE Dtype", *FIGURES.values()])]
    path = written(tmp_path / "t.csv", [benchmarked("Torch.exp.0.forward.output.0", rmse=0.5)], columns)
    (found,) = read_details(path).values()
    assert (found.dtype, found.figures["rmse"], found.status) == ("float32", "0.5", "")


def test_the_header_of_details_has_each_heading_once() -> None:
    assert len(DETAILS_HEADER) == len(set(DETAILS_HEADER)) == 28
