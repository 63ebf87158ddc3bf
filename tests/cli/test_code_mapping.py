"""`code_mapping`: tables of the recorded networks, and what it says of dumps and texts that do not fit."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import pytest
from ir_networks import dumped_operators, unpack_networks

TIME = "20*"


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_networks(tmp_path_factory.mktemp("ir"))


@pytest.fixture
def place(networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(networks, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def test_every_file_of_a_dump_has_its_row(probe_flow, place: Path):
    texts = [word for number in range(6) for word in ("--ir", f"texts/ctrl_graph_build_{number}.ir")]
    done = probe_flow("-f", "mindspore", "code_mapping", *texts, "--dump_data", "ctrl", "--output", "out")
    assert done.code == 0
    assert "31 of 31 operators are bound to code by 6 IR texts" in done.out
    header, *rows = rows_of(only(place / "out", f"code_mapping_{TIME}.csv"))
    assert header == ["File Path", "Code Stack", "Scope Name", "Parameter"]
    assert [row[0] for row in rows] == sorted(str(path.resolve()) for path in place.glob("ctrl/**/*.npy"))
    for path, code, scope, parameter in rows:
        kind, name = path.rpartition("/")[2].split(".", 1)
        name = name.split(".0.0.")[0]
        if kind == "Parameter":
            assert (code, scope) == ("", "")
            assert f"_{name}: <Tensor" in parameter
            continue
        assert (scope.replace("/", "_"), parameter) == (name, "")
        assert code.startswith("In file /opt/model/ctrl.py:")
    exp = next(row for row in rows if "Exp.Default_Exp-op0" in row[0])
    assert exp[1].splitlines()[1] == "In file /opt/model/ctrl.py:18, 15~22/        return ops.exp(a)"


def test_a_table_of_statistics_gets_columns_once(probe_flow, place: Path):
    table = place / "rank_0" / "statistic.csv"
    table.parent.mkdir()
    shutil.copy(place / "texts" / "tinynet_statistic.csv", table)
    table.chmod(0o640)
    before = rows_of(table)
    words = "--ir", "texts/tinynet_graph_build_0.ir", "--dump_data", str(table)
    assert probe_flow("code_mapping", *words).code == 0
    first = table.read_bytes()
    header, *rows = rows_of(table)
    assert header == [*before[0], "Code Stack", "Scope Name", "Parameter"]
    assert [row[: len(before[0])] for row in rows] == [row[: len(before[0])] for row in before[1:]], (
        "cells as they were"
    )
    assert {len(row) for row in rows} == {len(header)}, "without the comma that the header lacks"
    assert table.stat().st_mode & 0o777 == 0o640
    by_name = {row[1]: row for row in rows}
    assert by_name["Default_optimizer-SGD_AssignAdd-op0"][-2] == "Default/optimizer-SGD/AssignAdd-op0"
    assert probe_flow("code_mapping", *words).code == 0
    assert table.read_bytes() == first


def test_a_table_may_be_left_as_it_is(probe_flow, place: Path):
    table = place / "texts" / "statistic.csv"
    shutil.copy(place / "texts" / "ctrl_statistic.csv", table)
    before = table.read_bytes()
    done = probe_flow("code_mapping", "--ir", "texts", "--dump_data", "texts/statistic.csv", "--no-inplace")
    assert done.code == 0
    assert table.read_bytes() == before
    assert rows_of(table.with_name("statistic_code_mapping.csv"))[0][-3:] == ["Code Stack", "Scope Name", "Parameter"]


def test_what_no_text_knows_is_listed(probe_flow, place: Path):
    words = "--ir", "texts/ctrl_backend_pass.ir", "--dump_data", "ctrl", "--output", "out"
    done = probe_flow("code_mapping", *words)
    assert done.code == 0
    listed = [row[0] for row in rows_of(only(place / "out", f"code_mapping_unbound_{TIME}.csv"))[1:]]
    names = {name for _, kind, name in dumped_operators(place, "ctrl") if kind != "Parameter"}
    assert sorted(listed) == sorted(name for name in names if name.startswith("Expand_"))
    assert "not bound: Expand__" in done.out
    assert "19 of 31 operators" in done.out


def test_hashed_names_are_resolved_and_others_stay_blank(probe_flow, place: Path):
    folder = place / "dump" / "rank_0" / "Ctrl" / "0" / "0"
    folder.mkdir(parents=True)
    real = "Add.Default_Add-op1.0.0.1795176694509867.input.0.DefaultFormat.Float32.npy"
    for name in ("123.npy", "456.npy", "noname.npy", "é.npy"):
        (folder / name).touch()
    (folder / "mapping.csv").write_text(f"123.npy,{real}\n")
    done = probe_flow("code_mapping", "--ir", "texts/ctrl_graph_build_0.ir", "--dump_data", "dump", "--output", "out")
    assert done.code == 0
    rows = {Path(row[0]).name: row[1:] for row in rows_of(only(place / "out", f"code_mapping_{TIME}.csv"))[1:]}
    assert rows.pop("123.npy")[1] == "Default/Add-op1"
    assert list(rows.values()) == [["", "", ""]] * 3
    assert "PF3464" in done.err


def test_names_of_another_model_bind_nothing(probe_flow, place: Path):
    done = probe_flow("code_mapping", "--ir", "texts/tinynet_backend_pass.ir", "--dump_data", "ctrl", "--output", "out")
    assert done.code == 3
    assert "0 of 31 operators are bound" in done.out


def test_a_text_that_is_cut_off_is_used_and_not_green(probe_flow, place: Path):
    whole = (place / "texts" / "ctrl_graph_build_0.ir").read_text()
    (place / "graph_build_0.ir").write_text(whole[:9000])
    done = probe_flow("code_mapping", "--ir", "graph_build_0.ir", "--dump_data", "ctrl", "--output", "out")
    assert done.code == 3
    assert "PF3462" in done.err
    assert "0 of 31" not in done.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--ir", "none.ir", "--dump_data", "ctrl"), 2, "PF3460"),
        (("--ir", "texts/ctrl_statistic.csv", "--dump_data", "ctrl"), 2, "PF3460"),
        (("--ir", "ctrl", "--dump_data", "ctrl"), 2, "PF3460"),
        (("--ir", "texts", "--dump_data", "none"), 2, "PF3201"),
        (("--ir", "texts", "--dump_data", "empty"), 3, "PF3463"),
        (("--ir", "texts"), 2, "--dump_data"),
        (("--dump_data", "ctrl"), 2, "--ir"),
    ],
)
def test_bad_input_is_named(probe_flow, place: Path, words, code, said):
    (place / "empty").mkdir()
    done = probe_flow("code_mapping", *words)
    assert (done.code, list(place.glob("code_mapping*"))) == (code, [])
    assert said in done.err


def test_a_table_of_something_else_stays_as_it_is(probe_flow, place: Path):
    table = place / "ctrl" / "rank_0" / "statistic.csv"
    table.write_text("a,b\n1,2\n")
    done = probe_flow("code_mapping", "--ir", "texts", "--dump_data", str(table))
    assert done.code == 3
    assert "PF3465" in done.err
    assert table.read_text() == "a,b\n1,2\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(probe_flow, place: Path):
    (place / "closed").mkdir(mode=0o500)
    done = probe_flow("code_mapping", "--ir", "texts", "--dump_data", "ctrl", "--output", "closed")
    assert done.code == 3
    assert "PF7001" in done.err


def test_formulas_in_cells_are_not_run(probe_flow, place: Path):
    text = "subgraph @a() {\n  %0(v) = Mul()\n      # Fullname with scope: (=cmd/Mul-op0)\n}\n"
    (place / "net.ir").write_text(text)
    table = place / "statistic.csv"
    table.write_text("Op Type,Op Name,IO,Slot\nMul,=cmd_Mul-op0,input,0,\n")
    assert probe_flow("code_mapping", "--ir", "net.ir", "--dump_data", "statistic.csv").code == 0
    assert rows_of(table)[1] == ["Mul", "=cmd_Mul-op0", "input", "0", "", "'=cmd/Mul-op0", ""]
