"""Dumps of task ``structure`` from msprobe 26.2: which calls correspond, and that nothing is called a pass.

`tests/data/dump_json/structure.tar.xz`: ``target`` calls `leaky_relu` once more in each of two blocks than ``golden``,
forward and backward; ``statistics`` is the program of ``golden``, dumped with statistics.
"""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import probe_flow as pf

ARCHIVE = Path(__file__).parents[1] / "data" / "dump_json" / "structure.tar.xz"
REPORTS: list[Any] = ["html", "junit", "jsonl", {"csv": "dump_json"}, "markdown"]
EXTRA = {f"Functional.leaky_relu.{call}.{direction}" for call in (1, 3) for direction in ("forward", "backward")}
BOTH = "both dumps are of task `structure`, which records calls and no values"
NO_VALUES = "both dumps record that the call ran, and no values"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("structure")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module", params=["match.name", "match.structure"])
def run(request: pytest.FixtureRequest, dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> pf.Run:
    output = tmp_path_factory.mktemp("run") / "out"
    return pf.compare(dumps / "target", dumps / "golden", match=request.param, output=output, reports=REPORTS)


def rows_of(run: pf.Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(run.folder) / "comparison.jsonl").read_text().splitlines()]


def test_the_run_says_which_calls_correspond_and_is_no_pass(run: pf.Run) -> None:
    assert (run.verdict, run.exit_code, run.origin) == ("incomplete", 3, None)
    assert list(run.record.incomplete) == [
        f"nothing was compared: {BOTH}; 50 calls correspond, 4 only in the target, 0 only in the golden"
    ]
    coverage = {side: (found.tensors, found.compared, found.missing) for side, found in run.record.coverage.items()}
    assert coverage == {"target": (54, 0, 4), "golden": (50, 0, 0)}


def test_each_call_is_a_row_without_verdict(run: pf.Run) -> None:
    rows = rows_of(run)
    assert Counter(row["verdict"] for row in rows) == {"not_comparable": 50, "unmatched_target": 4}
    assert {row["metrics"] != {} for row in rows} == {False}
    assert {(row["direction"], row["index"], row["kind"]) for row in rows} == {("call", "", "opaque")}
    paired = [row for row in rows if row["golden"] is not None]
    assert all(row["reason"].startswith(NO_VALUES) for row in paired)
    assert len({row["golden"]["name"] for row in paired}) == 50
    renumbered = {row["name"]: row["golden"]["name"] for row in paired if row["name"].startswith("Module")}
    assert all(name.startswith("Module") for name in renumbered.values())


def test_by_name_the_inserted_calls_are_alone_and_shift_nothing(dumps: Path, tmp_path: Path) -> None:
    run = pf.compare(dumps / "target", dumps / "golden", match="match.name", output=tmp_path / "out")
    rows = rows_of(run)
    assert {row["name"] for row in rows if row["golden"] is None} == EXTRA
    partners = {row["name"]: row["name"] for row in rows if row["golden"] is not None}
    assert len(partners) == 50
    (second,) = (row for row in rows if row["name"] == "Functional.leaky_relu.2.forward")
    assert second["golden"]["name"] == "Functional.leaky_relu#1.call"
    assert second["rule"] == "aligned"


def test_tables_show_the_calls_and_no_difference(run: pf.Run) -> None:
    (file,) = Path(run.folder).glob("*.csv")
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 54
    assert Counter(row["Result"] for row in rows) == {"not_comparable": 50, "unmatched_target": 4}
    assert not {column for column in rows[0] if "diff" in column or "Err" in column} - {"Err_message"}
    assert {row["NPU Dtype"] for row in rows} == {"N/A"}


def test_the_table_in_the_words_of_msprobe_has_no_such_call_so_that_none_is_a_pass(dumps: Path, tmp_path: Path) -> None:
    reports: list[Any] = [{"csv": "dump_json_msprobe"}]
    pf.compare(dumps / "target", dumps / "golden", output=tmp_path / "out", reports=reports)
    (file,) = (tmp_path / "out").glob("*.csv")
    with file.open(newline="") as stream:
        assert list(csv.DictReader(stream)) == []


def test_junit_counts_every_call_as_skipped(run: pf.Run) -> None:
    (file,) = Path(run.folder).glob("junit.xml")
    suites = ET.parse(file).getroot()
    assert (suites.get("failures"), suites.get("errors")) == ("0", "1")
    assert [case.get("message") for case in suites.iter("skipped")] == ["54 nodes"]
    conclusion = next(each.get("value") for each in suites.iter("property") if each.get("name") == "conclusion")
    assert str(conclusion).startswith("INCOMPLETE nothing was compared")
    assert "54 calls" in str(next(each.get("value") for each in suites.iter("property") if each.get("name") == "dumps"))


def test_the_page_and_the_summary_are_written(run: pf.Run) -> None:
    page = (Path(run.folder) / "report.html").read_text()
    assert "50 calls correspond" in page
    assert "50 calls correspond" in (Path(run.folder) / "report.md").read_text()


def test_a_stored_run_is_read_again(run: pf.Run) -> None:
    again = pf.open_run(run.folder)
    assert again.exit_code == 3
    assert Counter(str(row.verdict.value) for row in again.rows()) == {"not_comparable": 50, "unmatched_target": 4}


@pytest.mark.parametrize("match", ["match.name", "match.structure"])
@pytest.mark.parametrize(("target", "golden"), [("golden", "statistics"), ("statistics", "golden")])
def test_against_a_dump_with_values_each_row_says_why_it_is_alone(
    dumps: Path, tmp_path: Path, target: str, golden: str, match: str
) -> None:
    run = pf.compare(dumps / target, dumps / golden, match=match, output=tmp_path / "out", reports=REPORTS)
    bare, other = ("target", "golden") if target == "golden" else ("golden", "target")
    assert run.exit_code == 3
    assert list(run.record.incomplete) == [
        f"nothing was compared: the {bare} is a dump of task `structure`, which records calls and no values, and the "
        f"{other} has values; dump the {bare} again with task `statistics` or `tensor`, or the {other} with task "
        "`structure`"
    ]
    rows = rows_of(run)
    assert Counter(row["verdict"] for row in rows) == {f"unmatched_{bare}": 50, f"unmatched_{other}": 163}
    why = f"both sides have this call, but the {bare} is a dump of task `structure`, which records no values"
    assert Counter(row["verdict"] for row in rows if row["reason"] == why) == {
        f"unmatched_{bare}": 48,
        f"unmatched_{other}": 148,
    }
    assert all(row["reason"] for row in rows)


def test_a_dump_against_itself_is_no_pass_either(dumps: Path, tmp_path: Path) -> None:
    run = pf.compare(dumps / "golden", dumps / "golden", output=tmp_path / "out")
    assert (run.verdict, run.exit_code) == ("incomplete", 3)
    assert "same dump on both sides" in run.record.incomplete[0]
    assert "50 calls correspond, 0 only in the target, 0 only in the golden" in run.record.incomplete[1]


def test_a_rank_without_counterpart_is_named(dumps: Path, tmp_path: Path) -> None:
    for rank in range(2):
        shutil.copytree(dumps / "golden" / "step0" / "proc1000", tmp_path / "target" / "step0" / f"rank{rank}")
    shutil.copytree(tmp_path / "target" / "step0" / "rank0", tmp_path / "golden" / "step0" / "rank0")
    run = pf.compare(tmp_path / "target", tmp_path / "golden", output=tmp_path / "out")
    assert "50 calls correspond, 50 only in the target" in run.record.incomplete[0]
    assert any("rank 1" in problem.message for problem in run.problems)
