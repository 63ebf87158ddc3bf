"""The two tables: byte for byte those of msprobe, and nothing that a spreadsheet program would run."""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from probe_flow.apis.calls import canonical_dtype
from probe_flow.apis.scripts.op_tables import DETAILS_COLUMNS, RESULT_COLUMNS
from probe_flow.precheck.results import ApiResult, Direction, Output, Side, Status
from probe_flow.precheck.tables import details_rows, header, own_word, result_rows
from probe_flow.records.frameworks import Kernels

DATA = Path(__file__).parents[2] / "data" / "precheck"


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))[1:]


def base(name: str) -> tuple[str, str]:
    call, phase, _, _ = name.rsplit(".", 3)
    return call, phase


def results_of(details: Path, states: Path) -> Iterator[ApiResult]:
    """Yield the results that msprobe's tables tell of."""
    outputs = {key: [output_of(row) for row in rows] for key, rows in groupby(rows_of(details), lambda r: base(r[0]))}
    for name, forward, backward, message in rows_of(states):
        found = {
            phase: None if not state else Direction(Status(state), tuple(outputs.get((name, phase), ())), message)
            for phase, state in (("forward", forward), ("backward", backward))
        }
        yield ApiResult(name, **found)


def output_of(row: list[str]) -> Output:
    _, benchmark, tested, shape, cosine, largest, relative, state, message = row
    sides = [Side(canonical_dtype(word), ast.literal_eval(shape)) for word in (tested, benchmark)]
    figures = [float(cell) if cell else None for cell in (cosine, largest, relative)]
    return Output(*sides, state == "pass", *figures, message)


@pytest.mark.parametrize("name", ["quickstart", "net"])
def test_msprobes_tables_byte_for_byte(name: str) -> None:
    details, states = DATA / f"{name}_details.csv", DATA / f"{name}_result.csv"
    results = list(results_of(details, states))
    assert b"".join([header(DETAILS_COLUMNS), *map(details_rows, results)]) == details.read_bytes()
    found = b"".join([header(RESULT_COLUMNS), *map(result_rows, results)]).decode("utf-8-sig")
    # Messages are in our own words.
    assert [row[:3] for row in csv.reader(io.StringIO(found))][1:] == [row[:3] for row in rows_of(states)]
    if name == "quickstart":
        assert found.encode("utf-8-sig") == states.read_bytes()


def test_tables_begin_with_one_mark_and_their_lines_end_as_msprobes() -> None:
    assert header(RESULT_COLUMNS) == b"\xef\xbb\xbfAPI Name,Forward Test Success,Backward Test Success,Message\r\n"
    text = details_rows(ApiResult("Mint.a.0", passed(), passed()))
    assert text.count(b"\r\n") == text.count(b"\n") == 2
    assert b"\xef\xbb\xbf" not in text


def passed(**more: object) -> Direction:
    side = Side("float32", (2, 3))
    return Direction(Status.PASS, (Output(side, side, is_right=True, cosine=1.0, max_abs=0.0, max_rel=0.0, **more),))  # type: ignore[arg-type]


def wrong(message: str) -> Direction:
    side = Side("bfloat16", ())
    return Direction(Status.ERROR, (Output(side, side, is_right=False, cosine=-1.0, max_abs=1e-7, message=message),))


def test_each_state_has_its_row() -> None:
    skipped = Direction(Status.SKIP, reason="no kernel")
    assert result_rows(ApiResult("Mint.a.0", passed())) == b"Mint.a.0,pass,,\r\n"
    assert result_rows(ApiResult("Mint.a.0", None, skipped)) == b"Mint.a.0,,SKIP,no kernel\r\n"
    assert result_rows(ApiResult("a", wrong("bad"), skipped)) == b"a,error,SKIP,bad; no kernel\r\n"
    both = result_rows(ApiResult("a", wrong("bad"), wrong("worse"), unsaved="disk full"))
    assert both == b"a,error,error,bad; worse; Its data could not be saved: disk full\r\n"
    assert details_rows(ApiResult("a", skipped, wrong('bad, "so"'))) == (
        b'a.backward.output.0,BFloat16,BFloat16,(),-1.0,1e-07,,error,"bad, ""so"""\r\n'
    )


def test_plain_results_have_the_name_of_their_python_type() -> None:
    output = Output(Side("int", value=3), Side("bool", value=True), is_right=False, message="it is 3")
    row = details_rows(ApiResult("a", Direction(Status.ERROR, (output,))))
    assert row == b"a.forward.output.0,bool,int,(),,,,error,it is 3\r\n"


def test_the_shape_is_the_benchmarks() -> None:
    output = Output(Side("int64", (2,)), Side("int64", (3, 1)), is_right=False)
    assert b'"(3, 1)"' in details_rows(ApiResult("a", Direction(Status.ERROR, (output,))))


@pytest.mark.parametrize(
    "name",
    [
        "=1+1",
        "+a",
        "-a",
        "@SUM(A1)",
        "%x",
        "\t=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0da",
        "\uff20a",
        "\uff05a",
        "a;=1+1",
    ],
)
def test_no_cell_is_run_by_a_spreadsheet(name: str) -> None:
    skipped = Direction(Status.SKIP, reason=name)
    (row,) = csv.reader(io.StringIO(result_rows(ApiResult(name, skipped)).decode(), newline=""))
    assert row[0] == f"'{name}"
    assert row[3].startswith("'")
    (row,) = csv.reader(io.StringIO(details_rows(ApiResult(name, wrong(name))).decode(), newline=""))
    assert row[0].startswith("'")
    assert row[-1].startswith("'")


@pytest.mark.parametrize("name", ["Mint.a-b.0", "a=1", "a; b", "O'Brien"])
def test_other_cells_are_as_they_are(name: str) -> None:
    assert result_rows(ApiResult(name, passed())).decode() == f"{name},pass,,\r\n"


@pytest.mark.parametrize(
    "word",
    [
        "Int8",
        "UInt8",
        "Int16",
        "UInt16",
        "Int32",
        "UInt32",
        "Int64",
        "UInt64",
        "Float16",
        "Float32",
        "Float64",
        "Bool",
        "BFloat16",
        "Int4",
        "Complex64",
    ],
)
def test_element_types_are_in_the_words_of_the_dump(word: str) -> None:
    assert own_word(canonical_dtype(word), Kernels.MINDSPORE) == word
    assert own_word(canonical_dtype(word), Kernels.PYTORCH) == f"torch.{canonical_dtype(word)}"
