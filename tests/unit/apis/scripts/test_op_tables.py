"""The tables of `op_generate` for MindSpore: names, rows, and rounding before anything is judged."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from probe_flow.apis.acc_check import Figures, Judgement
from probe_flow.apis.calls import UnusableError
from probe_flow.apis.run import Checked, Direction
from probe_flow.apis.scripts.op_tables import DETAILS_COLUMNS, RESULT_COLUMNS, write_tables
from probe_flow.apis.side import Held, Result

RIGHT = Judgement(is_right=True, figures=Figures())


def direction(tested: list[float], benchmark: list[float], dtype: str = "float32") -> Direction:
    one = Held(np.array(tested, np.float32), dtype)
    other = Held(np.array(benchmark, np.float64), "float64")
    return Direction((Checked(Result((0,), one), Result((0,), other), RIGHT),))


def tables(folder: Path) -> dict[str, list[list[str]]]:
    found = {}
    for path in folder.iterdir():
        name = re.fullmatch(r"accuracy_checking_(result|details)_\d{14}\.csv", path.name)
        assert name
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
        assert b"\r\n" in path.read_bytes()
        with path.open(encoding="utf-8-sig", newline="") as file:
            found[name[1]] = list(csv.reader(file))
    return found


def test_each_iteration_has_its_rows(tmp_path):
    runs = [
        direction([1.0, 2.0], [1.0, 2.0]),
        direction([1.0, 2.5], [1.0, 2.0]),
        Direction(skipped=UnusableError("no kernel")),
    ]
    written = write_tables("Mint.add.0", "forward", runs, str(tmp_path / "out"))
    assert sorted(map(Path, written)) == sorted((tmp_path / "out").iterdir())
    found = tables(tmp_path / "out")
    assert found["result"] == [
        list(RESULT_COLUMNS),
        ["Mint.add.0", "pass", "", ""],
        ["Mint.add.0", "error", "", "the largest absolute error 0.5 is not below 0.0001;"],
        ["Mint.add.0", "SKIP", "", "no kernel"],
    ]
    header, right, wrong = found["details"]
    assert header == list(DETAILS_COLUMNS)
    assert right[:4] == ["Mint.add.0.forward.output.0", "Float64", "Float32", "(2,)"]
    assert right[5:] == ["0.0", "0.0", "pass", ""]
    assert wrong[5:8] == ["0.5", "0.25", "error"]


def test_a_backward_pass_stands_in_its_own_column(tmp_path):
    write_tables("Mint.add.0", "backward", [direction([1.0], [1.0])], str(tmp_path / "out"))
    assert tables(tmp_path / "out")["result"][1] == ["Mint.add.0", "", "pass", ""]


@pytest.mark.parametrize(
    ("dtype", "tested", "benchmark"),
    [
        ("float16", 2049.0, 2048.9),  # half a unit of float16 at 2048 is 1
        ("bfloat16", 1.0078125, 1.006),  # its neighbours are 1 and 1.0078125
        ("bfloat16", 1.0, 1.00390625),  # a tie goes to the even one
        ("float32", 1.0, 1.0 + 2.0**-25),
    ],
)
def test_what_the_type_cannot_hold_is_no_error(tmp_path, dtype, tested, benchmark):
    held = float(np.float16(tested)) if dtype == "float16" else tested
    write_tables("Mint.add.0", "forward", [direction([held], [benchmark], dtype)], str(tmp_path / "out"))
    assert tables(tmp_path / "out")["details"][1][5] == "0.0"


def test_nan_and_infinity_stay_what_they_are(tmp_path):
    run = direction([np.nan, np.inf, -np.inf, 1.0], [np.nan, np.inf, -np.inf, 1.0], "bfloat16")
    write_tables("Mint.add.0", "forward", [run], str(tmp_path / "out"))
    assert tables(tmp_path / "out")["details"][1][-2:] == ["pass", ""]


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OSError, match="out"):
        write_tables("Mint.add.0", "forward", [], str(tmp_path / "out"))
