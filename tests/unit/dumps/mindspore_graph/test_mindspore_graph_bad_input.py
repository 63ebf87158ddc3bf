"""Kernel dumps of MindSpore that are damaged, incomplete or odd: everything stays visible, nothing is green."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from mindspore_graph_builders import STATISTIC_COLUMNS, turn_into_statistics, unpack

from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.dumps.selection import Selection
from probe_flow.errors import CODES, IncompleteError, Severity, UsageError
from probe_flow.records import Catalog, TensorKind

MATMUL = "MatMul.*_b1-Block_fc-Dense_MatMul-op0.*.output.0.*.npy"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return unpack("base", tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The statistics of the first iteration of a small dump."""
    return turn_into_statistics(unpack("loop", tmp_path)) / "rank_0" / "Net" / "1" / "0" / "statistic.csv"


def read(path: Path, **options) -> Catalog:
    return read_mindspore_graph(path, side="target", **options)


def codes(catalog: Catalog) -> Counter:
    assert all(problem.code in CODES for problem in catalog.problems)
    return Counter(problem.code for problem in catalog.problems)


def unreadable(catalog: Catalog) -> list:
    return [tensor for tensor in catalog.tensors if tensor.kind is TensorKind.UNREADABLE]


def the_file(dump: Path, pattern: str, iteration: int = 0) -> Path:
    (file,) = (dump / "rank_0" / "Net" / "0" / str(iteration)).glob(pattern)
    return file


@pytest.mark.parametrize(("bytes_left", "code"), [(0, "PF3020"), (7, "PF3020"), (60, "PF3021"), (140, "PF3022")])
def test_a_half_written_tensor_is_unreadable_and_leaves_the_others(dump, bytes_left, code):
    file = the_file(dump, MATMUL)
    file.write_bytes(file.read_bytes()[:bytes_left])
    catalog = read(dump)
    assert codes(catalog) == {code: 1}
    (tensor,) = unreadable(catalog)
    assert tensor.node.name.endswith("fc-Dense_MatMul")
    assert tensor.reason
    assert len(catalog.tensors) == 548


def test_an_array_under_another_name_stays_visible(dump):
    file = the_file(dump, MATMUL)
    file.rename(file.with_name("копия =MatMul.npy"))
    catalog = read(dump)
    assert codes(catalog) == {"PF3453": 1}
    (tensor,) = unreadable(catalog)
    assert tensor.node.name == "копия =MatMul"
    assert len(catalog.tensors) == 548


def test_a_numbered_file_without_its_name_stays_visible(tmp_path):
    dump = unpack("long", tmp_path)
    (mapping,) = dump.rglob("mapping.csv")
    lines = mapping.read_text().splitlines(keepends=True)
    mapping.write_text("".join(lines[1:]))
    catalog = read(dump)
    assert codes(catalog) == {"PF3208": 1}
    assert len(unreadable(catalog)) == 1


def test_other_files_are_only_noted(dump):
    (dump / "rank_0" / "Net" / "0" / "0" / "dump.log").write_text("done")
    catalog = read(dump)
    assert codes(catalog) == {"PF3453": 1}
    assert catalog.problems[0].severity is Severity.NOTE
    assert unreadable(catalog) == []


def test_an_iteration_without_a_tensor_is_reported(dump):
    folder = dump / "rank_0" / "Net" / "0" / "1"
    shutil.rmtree(folder)
    folder.mkdir()
    catalog = read(dump)
    assert codes(catalog) == {"PF3456": 1}
    assert "rank_0/Net/0/1" in catalog.problems[0].message
    (lost,) = unreadable(catalog)
    assert (lost.node.name, lost.node.execution.step) == ("all", 1)


def test_a_rank_without_files_is_reported(dump):
    (dump / "rank_1").mkdir()
    catalog = read(dump)
    assert codes(catalog) == {"PF3456": 1}
    assert "`rank_1` holds no tensor" in catalog.problems[0].message


def test_ranks_are_read_as_they_are_there(dump):
    shutil.copytree(dump / "rank_0", dump / "rank_7")
    catalog = read(dump)
    assert [execution.rank for execution in catalog.executions] == [0, 0, 7, 7]
    assert len(catalog.edges) == 2 * len(read(dump, select=Selection(ranks=[0])).edges)


def test_two_networks_of_one_rank_are_told_apart(dump):
    shutil.copytree(dump / "rank_0" / "Net", dump / "rank_0" / "Other")
    catalog = read(dump)
    assert {execution.graph for execution in catalog.executions} == {"Net/0", "Other/0"}
    assert len(catalog.tensors) == 1096


def test_two_runs_in_one_folder_are_reported(dump):
    folder = dump / "rank_0" / "Net" / "0" / "0"
    for file in list(folder.iterdir()):
        parts = file.name.split(".")
        parts[4] = str(int(parts[4]) + 10**9)
        shutil.copy(file, folder / ".".join(parts))
    catalog = read(dump)
    assert codes(catalog) == {"PF3454": 1}
    assert "2 times" in catalog.problems[0].message
    assert len(catalog.tensors) == 822


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no operator"),
        ("subgraph @a() {\n  %0(x) = Add(%1, (2\n", "cut off before"),
        ("subgraph @a() {\n  %0(x) = Add(%1)\n", "cut off"),
        ("subgraph @a() {\n  %0(x) = Add(%1)\n}\nsubgraph @b() {\n  %0(x) = Add(%1)\n}\n", "several graphs"),
        ("\0\x80" * 100, "no operator"),
    ],
)
def test_a_damaged_graph_text_costs_the_edges_only(dump, text, what):
    (file,) = dump.rglob("*.ir")
    file.write_text(text)
    catalog = read(dump)
    assert codes(catalog) == {"PF3455": 1}
    assert what in catalog.problems[0].message
    assert catalog.edges == ()
    assert len(catalog.tensors) == 548


def test_the_text_of_another_graph_gives_no_edges(dump, tmp_path):
    (file,) = dump.rglob("*.ir")
    other = unpack("loop", tmp_path / "other")
    shutil.copy(next(other.rglob("*graph_0.ir")), file)
    catalog = read(dump / "rank_0")
    assert catalog.edges == ()
    assert codes(catalog) == {"PF3455": 1}


def test_without_texts_beside_it_the_dump_is_read(dump):
    shutil.rmtree(dump / "rank_0" / "graphs")
    shutil.rmtree(dump / "rank_0" / "execution_order")
    catalog = read(dump)
    assert codes(catalog) == {}
    assert catalog.edges == ()
    assert {node.parent for node in catalog.nodes.values()} == {None}


def test_a_damaged_execution_order_is_reported(dump):
    (file,) = dump.rglob("ms_execution_order_graph_0.csv")
    file.write_text('"' + "x" * 200_000)
    assert codes(read(dump)) == {"PF3455": 1}


def test_a_folder_without_a_dump_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(IncompleteError) as caught:
        read(tmp_path)
    assert caught.value.diagnostic.code == "PF3450"
    assert "1 x txt in 1 files" in caught.value.diagnostic.message


def test_a_missing_folder_is_a_mistake_of_the_user(tmp_path):
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "nowhere")
    assert caught.value.diagnostic.code == "PF3201"


def test_a_link_out_of_the_dump_is_not_followed(dump, tmp_path):
    outside = tmp_path.parent / "outside.npy"
    outside.write_bytes(b"secret")
    file = the_file(dump, MATMUL)
    file.unlink()
    file.symlink_to(outside)
    catalog = read(dump)
    assert codes(catalog) == {"PF3203": 1}
    assert all(tensor.source != str(outside) for tensor in catalog.tensors)


def test_a_table_without_needed_columns_is_reported(table):
    lines = table.read_text().splitlines(keepends=True)
    table.write_text(lines[0].replace(",Slot,", ",Place,") + "".join(lines[1:]))
    catalog = read(table.parents[4])
    assert codes(catalog) == {"PF3451": 1}
    assert "`slot`" in catalog.problems[0].message


@pytest.mark.parametrize("text", ["", "\n\n", "\0\0\0", "a;b;c\n1;2;3\n"])
def test_an_empty_or_foreign_table_is_reported(table, text):
    table.write_text(text)
    catalog = read(table.parents[4])
    assert codes(catalog) == {"PF3451": 1}
    assert [tensor.node.name for tensor in unreadable(catalog)] == ["statistic.csv"]


def test_a_table_with_a_header_only_is_an_iteration_without_tensors(table):
    table.write_text(STATISTIC_COLUMNS + "\n")
    catalog = read(table.parents[4])
    assert codes(catalog) == {"PF3456": 1}
    assert "graph 1" in catalog.problems[0].message
    assert [tensor.node.name for tensor in unreadable(catalog)] == ["all"]


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("Max Value", "many", "`max value` is the text `many`"),
        ("Shape", "(4,x)", "the shape holds `x`"),
        ("Shape", "4 by 4", "the shape is `4 by 4`"),
        ("Shape", "(-3)", "the shape holds `-3`"),
        ("L2Norm Value", "0x10", "`l2norm value` is the text `0x10`"),
    ],
)
def test_a_row_with_wrong_numbers_is_an_unreadable_tensor(table, column, value, what):
    change_cell(table, column, value)
    catalog = read(table.parents[4])
    (tensor,) = unreadable(catalog)
    assert what in tensor.reason
    assert codes(catalog) == {"PF3452": 1}


@pytest.mark.parametrize(("column", "value"), [("IO", "both"), ("Slot", "-1"), ("Slot", ""), ("Op Name", "")])
def test_a_row_that_names_no_tensor_is_reported_with_its_line(table, column, value):
    change_cell(table, column, value)
    catalog = read(table.parents[4])
    assert codes(catalog) == {"PF3452": 1}
    assert catalog.problems[0].notes[0].startswith("line 2:")


def test_a_table_cut_off_in_a_row_keeps_the_rows_before(table):
    text = table.read_text()
    table.write_text(text[: len(text) - len(text.splitlines()[-1]) // 2])
    catalog = read(table.parents[4])
    assert len(catalog.tensors) >= 62


@pytest.mark.parametrize(
    ("cell", "value"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("", "None"), ("null", "None"), ("7", "7")]
)
def test_numbers_that_are_none_or_not_finite_are_taken(table, cell, value):
    change_cell(table, "Max Value", cell)
    catalog = read(table.parents[4])
    assert codes(catalog) == {}
    assert value in {str(tensor.recorded.max) for tensor in catalog.tensors}


def test_checksums_and_unknown_columns_are_taken(table):
    lines = table.read_text().splitlines()
    rows = [f"{line}AB12,new" for line in lines[1:]]
    table.write_text("\n".join([f"{lines[0]},MD5,Weather", *rows]) + "\n")
    catalog = read(table.parents[4], select=Selection(graphs=[1]))
    assert {tensor.checksum for tensor in catalog.tensors} == {"ab12"}


def change_cell(table: Path, column: str, value: str) -> None:
    """Change a cell of the first row; its shape may hold commas, in quotes."""
    import csv

    with table.open(newline="") as stream:
        rows = list(csv.reader(stream))
    rows[1][rows[0].index(column)] = value
    with table.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
