"""Result tables of several ranks, merged: which rows and cells, from which files, and what bad files cost."""

from __future__ import annotations

import csv
import shutil
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

from probe_flow.errors import IncompleteError, Severity, UsageError
from probe_flow.reports.dump_json_columns import CHECKSUMS, DIFFERENCES, JUDGEMENT, METRICS, PREFIX, STATISTICS
from probe_flow.reports.rank_merge.config import MergeConfig, read_merge_config
from probe_flow.reports.rank_merge.merge import RankTable, merge_tables, mode_of
from probe_flow.reports.rank_merge.sources import merge_folder
from probe_flow.reports.rank_merge.tables import find_tables, opened
from probe_flow.reports.rank_merge.write import merged_files

EXPECTED = Path(__file__).parents[3] / "data" / "dump_json" / "expected" / "dist_stat_bug_before_comm"
STATISTICS_HEADER = (*PREFIX, *DIFFERENCES, *STATISTICS, *JUDGEMENT)
TENSOR_HEADER = (*PREFIX, *METRICS, *STATISTICS, *JUDGEMENT, "NPU_Stack_Info", "Data_name", "Role")
CHECKSUM_HEADER = (*PREFIX, *CHECKSUMS, *JUDGEMENT)
STARTED = datetime(2026, 1, 2, 3, 4, 5)
TIME = "20260102030405"
REDUCE = "Distributed.all_reduce.0.forward"


def line(name: str, header: tuple[str, ...] = STATISTICS_HEADER, **cells: Any) -> list[Any]:
    values = {"NPU Name": name, "Bench Name": name, "Max diff": "0.5", "NPU max": "3", "Bench max": "2", **cells}
    return [values.get(column.replace(" ", "_"), values.get(column, "x")) for column in header]


def table(rank: int, *rows: list[Any], header: tuple[str, ...] = STATISTICS_HEADER) -> RankTable:
    return RankTable(rank, f"rank{rank}.csv", header, rows)


def config(*apis: str, measures: tuple[str, ...] = ("Max diff",)) -> MergeConfig:
    return MergeConfig(apis or (REDUCE,), measures)


def cells(*tables: RankTable, by: MergeConfig | None = None) -> list[tuple[Any, ...]]:
    (sheet,), _ = merge_tables(tables, by or config())
    return [sheet.header, *sheet.rows]


def write(path: Path, rows: Any, header: Any = STATISTICS_HEADER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".xlsx":
        book = Workbook(write_only=True)
        sheet = book.create_sheet("part_1")
        for row in [header, *rows]:
            sheet.append(list(row))
        book.save(path)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    return path


def name(rank: int, kind: str = "csv", time: str = TIME) -> str:
    return f"compare_result_rank{rank}_{time}.{kind}"


def number(value: Any) -> Any:
    """Return a number without its last digits, which a workbook does not hold."""
    try:
        return f"{float(value):.14g}"
    except (TypeError, ValueError):
        return value


def test_real_tables_merge_to_the_cells_of_the_other_tool(tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copy(EXPECTED / f"compare_result_rank{rank}.xlsx", tmp_path / name(rank, "xlsx"))
    settings = config("Distributed.all_reduce", "Functional.linear.1", measures=("Max diff", "NormRelativeErr"))
    (path,), problems = merge_folder(tmp_path, tmp_path / "out", settings, started=STARTED)
    assert (path.name, problems) == (f"multi_ranks_compare_merge_{TIME}.xlsx", [])
    ours, theirs = load_workbook(path), load_workbook(EXPECTED / "multi_ranks_compare_merge.xlsx")
    assert ours.sheetnames == theirs.sheetnames
    for sheet in theirs:
        found = {row[0]: [number(cell) for cell in row] for row in ours[sheet.title].iter_rows(values_only=True)}
        wanted = {row[0]: [number(cell) for cell in row] for row in sheet.iter_rows(values_only=True)}
        assert found == wanted
        # Deviation on purpose: the order of the dumps instead of the alphabet.
        calls = list(dict.fromkeys(key.rsplit(".", 2)[0] for key in list(found)[1:]))
        assert calls == [
            REDUCE, "Functional.linear.1.forward", "Functional.linear.1.backward", "Distributed.all_reduce.1.forward",
        ]  # fmt: skip


def test_rows_are_chosen_from_the_start_of_the_name_at_dots() -> None:
    rows = [line(f"{REDUCE}.input.0"), line("X.Distributed.all_reduce.0.forward.input.0"), line(f"{REDUCE}2.input.0")]
    assert cells(table(0, *rows), table(1, *rows)) == [
        ("NPU Name", "rank0", "rank1"),
        (f"{REDUCE}.input.0", "0.5", "0.5"),
    ]


def test_rows_of_some_ranks_stand_where_their_dump_has_them() -> None:
    names = [f"{REDUCE}.{part}" for part in ("a", "b", "c", "d")]
    first = table(0, line(names[0]), line(names[2]))
    second = table(1, line(names[0]), line(names[1]), line(names[2]), line(names[3]))
    assert [row[0] for row in cells(first, second)[1:]] == names
    assert cells(first, second)[2] == (names[1], None, "0.5")


@pytest.mark.parametrize("word", ["N/A", "unsupported", "Nan"])
def test_cells_without_a_number_show_the_largest_values(word: str) -> None:
    rows = [line(f"{REDUCE}.input.group", **{"Max diff": word, "NPU max": "[0, 1]", "Bench max": "[0, 1]"})]
    found = cells(table(0, *rows), table(1, *rows))
    assert found[1][1] == "NPU:[0, 1]  Bench:[0, 1]"


def test_the_group_of_a_call_stands_in_a_last_column() -> None:
    def rows(group: str) -> list[list[Any]]:
        return [line(f"{REDUCE}.input.0"), line(f"{REDUCE}.input.group", **{"Max diff": "N/A", "NPU max": group})]

    found = cells(table(0, *rows("[0, 1]")), table(2, *rows("[2, 3]")))
    assert found[0] == ("NPU Name", "rank0", "rank2", "group")
    assert found[1] == (f"{REDUCE}.input.0", "0.5", "0.5", "[0, 1]; [2, 3]")


def test_of_equal_names_the_first_counts_and_golden_rows_go_by_their_name() -> None:
    item = f"{REDUCE}.input.0"
    alone = line("N/A", **{"Bench Name": f"{REDUCE}.input.1", "Max diff": "N/A", "NPU max": "N/A"})
    rows = [line(item), line(item, **{"Max diff": "9"}), alone]
    found = cells(table(0, *rows), table(1, line(item)))
    assert found[1:] == [(item, "0.5", "0.5"), (f"{REDUCE}.input.1", "NPU:N/A  Bench:2", None)]


def test_all_measures_of_the_mode_are_merged_without_a_list() -> None:
    for header, measures in ((STATISTICS_HEADER, DIFFERENCES), (TENSOR_HEADER, METRICS)):
        tables = [table(rank, line(f"{REDUCE}.input.0", header), header=header) for rank in (0, 1)]
        sheets, _ = merge_tables(tables, config(measures=()))
        assert tuple(sheet.measure for sheet in sheets) == (*measures, "Requires_grad Consistent")


def test_tables_of_another_form_are_left_out_and_said() -> None:
    good = [table(rank, line(f"{REDUCE}.input.0")) for rank in (0, 1)]
    others = [
        table(2, header=("Name", "Value")),
        table(3, header=CHECKSUM_HEADER),
        table(4, line(REDUCE, TENSOR_HEADER), header=TENSOR_HEADER),
        table(5, header=()),
    ]
    (sheet,), problems = merge_tables([*good, *others], config())
    assert sheet.header == ("NPU Name", "rank0", "rank1")
    assert [problem.code for problem in problems] == ["PF7124"] * 4
    texts = [problem.message for problem in problems]
    assert "no result table" in texts[0]
    assert "holds checksums" in texts[1]
    assert texts[2].endswith("is a table of tensor mode; the ones before it are of statistics mode")


def test_headers_must_be_exact() -> None:
    assert mode_of(STATISTICS_HEADER[:-1]) is None
    assert mode_of((*STATISTICS_HEADER, "More")) is None
    assert mode_of((*STATISTICS_HEADER, "Role", "Role")) is None
    assert mode_of(TENSOR_HEADER) is not None


def test_a_column_of_another_mode_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "merge.yaml"
    path.write_text("api: [Distributed.all_reduce]\ncompare_index: [Cosine]\n")
    with pytest.raises(UsageError) as caught:
        merge_tables([table(rank, line(REDUCE)) for rank in (0, 1)], read_merge_config(path))
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "PF7121"
    assert diagnostic.span is not None
    assert (diagnostic.span.line, diagnostic.span.column) == (2, 17)


@pytest.mark.parametrize("count", [0, 1])
def test_less_than_two_tables_are_nothing_to_merge(count: int) -> None:
    with pytest.raises(IncompleteError, match="PF7122"):
        merge_tables([table(rank, line(REDUCE)) for rank in range(count)], config())


def test_apis_without_rows_are_said_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "merge.yaml"
    path.write_text(f"api:\n- {REDUCE}\n- Torch.nothing\n")
    found = read_merge_config(path)
    _, (problem,) = merge_tables([table(rank, line(f"{REDUCE}.input.0")) for rank in (0, 1)], found)
    assert (problem.code, problem.severity, problem.span and problem.span.line) == ("PF7126", Severity.WARNING, 3)
    with pytest.raises(IncompleteError, match="no row of any rank"):
        merge_tables([table(rank, line("Torch.other")) for rank in (0, 1)], found)


@pytest.mark.parametrize(
    ("text", "code", "message", "place"),
    [
        ("", "PF7120", "is empty", None),
        ("- a\n", "PF7120", "does not start with a mapping", (1, 1)),
        ("api:\n", "PF7120", "names no `api`", None),
        ("api: Distributed\n", "PF7120", "`api` is not a list", (1, 6)),
        ("api: [a, 3]\n", "PF7120", "an entry of `api` is no name", (1, 10)),
        ("api: [a, ' . ']\n", "PF7120", "an entry of `api` is no name", (1, 10)),
        ("apis: [a]\n", "PF7120", "`apis` is no key", (1, 1)),
        ("api: [a]\ncompare_index: [Max dif]\n", "PF7121", "`Max dif` is no column", (2, 17)),
        ("api: [a\n", "PF1001", "", None),
        ("api: [a]\napi: [b]\n", "PF1003", "written twice", (2, 1)),
    ],
)
def test_mistakes_of_the_configuration_are_told_with_their_place(
    tmp_path: Path, text: str, code: str, message: str, place: tuple[int, int] | None
) -> None:
    path = tmp_path / "merge.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_merge_config(path)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code
    assert message in diagnostic.message
    if place:
        assert diagnostic.span is not None
        assert (diagnostic.span.line, diagnostic.span.column) == place


def test_a_configuration_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_merge_config(tmp_path / "absent.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"api: [\xff]")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_merge_config(tmp_path / "bytes.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_merge_config(tmp_path / "large.yaml")


def test_files_are_found_by_rank_and_step_and_others_are_said(tmp_path: Path) -> None:
    for file in (
        name(10), name(2, "xlsx"), f"compare_result_rank3-rank3_{TIME}.xlsx", f"compare_result_rank_{TIME}.xlsx",
        "notes.txt", "table.csv", f"multi_ranks_compare_merge_{TIME}.xlsx", f"step4/{name(0)}", f"step10/{name(1)}",
    ):  # fmt: skip
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found, problems = find_tables(tmp_path)
    assert {step: [each.rank for each in ranks] for step, ranks in found.items()} == {
        "": [2, 3, 10], "step4": [0], "step10": [1],
    }  # fmt: skip
    assert [problem.message.split("`")[1] for problem in problems] == [f"compare_result_rank_{TIME}.xlsx", "table.csv"]


def test_two_runs_of_one_rank_are_refused_and_two_kinds_of_one_run_are_one(tmp_path: Path) -> None:
    (tmp_path / name(0)).touch()
    (tmp_path / name(0, "xlsx")).touch()
    found, _ = find_tables(tmp_path)
    assert [file.name for file in found[""][0].files] == [name(0)]
    (tmp_path / name(0, time="20260102040506")).touch()
    with pytest.raises(UsageError, match="PF7125"):
        find_tables(tmp_path)


def test_the_parts_of_a_long_table_are_one_table(tmp_path: Path) -> None:
    for part in (2, 1, 10):
        write(tmp_path / f"compare_result_rank0_{TIME}_part_{part}.csv", [line(f"{REDUCE}.input.{part}")])
    found, _ = find_tables(tmp_path)
    with opened(found[""][0]) as whole:
        assert [row[0] for row in whole.rows] == [f"{REDUCE}.input.{part}" for part in (1, 2, 10)]


def test_csv_and_workbooks_merge_together(tmp_path: Path) -> None:
    row = line(f"{REDUCE}.input.0", **{"Max diff": 0.5, "Requires_grad_Consistent": True})
    write(tmp_path / name(0), [row])
    write(tmp_path / name(1, "xlsx"), [row])
    settings = config(measures=("Max diff", "Requires_grad Consistent"))
    (path,), _ = merge_folder(tmp_path, tmp_path / "out", settings, started=STARTED)
    book = load_workbook(path)
    assert [list(row) for row in book["Max diff"].iter_rows(values_only=True)][1] == [f"{REDUCE}.input.0", 0.5, 0.5]
    assert [list(row) for row in book["Requires_grad Consistent"].iter_rows(values_only=True)][1][1:] == ["True", True]


def test_without_xlsxwriter_every_measure_is_a_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.reports.rank_merge.write.can_write_workbooks", lambda: False)
    for rank in (0, 1):
        write(tmp_path / name(rank), [line(f"{REDUCE}.input.0", **{"Max diff": "-0.5", "Min_diff": "=1+1"})])
    settings = config(measures=("Max diff", "Min diff"))
    paths, _ = merge_folder(tmp_path, tmp_path, settings, started=STARTED)
    assert [path.name for path in paths] == [
        f"multi_ranks_compare_merge_Max_diff_{TIME}.csv",
        f"multi_ranks_compare_merge_Min_diff_{TIME}.csv",
    ]
    assert paths[0].read_text() == f"NPU Name,rank0,rank1\n{REDUCE}.input.0,-0.5,-0.5\n"
    assert paths[1].read_text().endswith(".input.0,'=1+1,'=1+1\n")


def test_steps_are_merged_into_folders_of_their_own(tmp_path: Path) -> None:
    for step in ("step0", "step1"):
        for rank in (0, 1):
            write(tmp_path / step / name(rank), [line(f"{REDUCE}.input.0")])
    paths, _ = merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)
    assert [path.parent.name for path in paths] == ["step0", "step1"]


def damaged(kind: str, path: Path) -> None:
    if kind == "no archive":
        path.write_bytes(b"hello")
    elif kind == "cut":
        whole = write(path, [line(REDUCE)]).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    elif kind == "another archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    elif kind == "entities":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("xl/workbook.xml", '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    elif kind == "broken xml":
        good = write(path.with_name("good.xlsx"), [line(REDUCE)])
        with zipfile.ZipFile(good) as source, zipfile.ZipFile(path, "w") as archive:
            for member in source.namelist():
                text = source.read(member)
                archive.writestr(member, text[: len(text) // 2] if "worksheets" in member else text)
        good.unlink()


@pytest.mark.parametrize("kind", ["no archive", "cut", "another archive", "entities", "broken xml"])
def test_a_damaged_workbook_costs_its_rank(tmp_path: Path, kind: str) -> None:
    for rank in (0, 1):
        write(tmp_path / name(rank), [line(f"{REDUCE}.input.0")])
    damaged(kind, tmp_path / name(2, "xlsx"))
    paths, (problem,) = merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)
    assert (len(paths), problem.code, problem.severity) == (1, "PF7123", Severity.ERROR)
    assert name(2, "xlsx") in problem.message


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe\x00", "utf-8"), (b'"a\nb', "unexpected end of data"), (b"a,b\x00c\n", "PF7124")],
)
def test_a_damaged_csv_costs_its_rank(tmp_path: Path, content: bytes, why: str) -> None:
    for rank in (0, 1):
        write(tmp_path / name(rank), [line(f"{REDUCE}.input.0")])
    (tmp_path / name(2)).write_bytes(content)
    _, (problem,) = merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)
    assert why in f"{problem.code} {problem.message}"


def test_a_workbook_larger_than_any_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.reports.rank_merge.tables.MAX_UNPACKED_BYTES", 1000)
    for rank in (0, 1):
        write(tmp_path / name(rank, "xlsx"), [line(REDUCE)])
    with pytest.raises(IncompleteError) as caught:
        merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)
    assert "unpacks to more than" in str(caught.value)


def test_an_empty_folder_is_nothing_to_merge(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="0 result tables"):
        merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)


def test_without_openpyxl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / name(0, "xlsx"), [line(REDUCE)])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(UsageError, match=r"PF7128.*openpyxl"):
        merge_folder(tmp_path, tmp_path / "out", config(), started=STARTED)


def test_merged_text_is_never_a_formula(tmp_path: Path) -> None:
    rows = [line(f"{REDUCE}.=1", **{"Max diff": "=HYPERLINK(1)"})]
    sheets, _ = merge_tables([table(0, *rows), table(1, *rows)], config())
    (file,) = merged_files(sheets, started=STARTED)
    file.write(tmp_path / file.name)
    cell = load_workbook(tmp_path / file.name)["Max diff"]["B2"]
    assert (cell.value, cell.data_type) == ("=HYPERLINK(1)", "s")
