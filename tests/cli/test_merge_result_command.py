"""`probe-flow merge_result`: the syntax of msprobe, and what its mistakes cost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

EXPECTED = Path(__file__).parents[1] / "data" / "dump_json" / "expected" / "dist_stat_bug_before_comm"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the tables of two ranks, beside a merge configuration."""
    folder = tmp_path / "results"
    folder.mkdir()
    for rank in (0, 1):
        shutil.copy(
            EXPECTED / f"compare_result_rank{rank}.xlsx", folder / f"compare_result_rank{rank}_20260102030405.xlsx"
        )
    (tmp_path / "merge.yaml").write_text("api: [Distributed.all_reduce]\ncompare_index: [Max diff]\n")
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ("-i", "results", "-o", "out", "-config", "merge.yaml"),
        ("--input_dir", "results", "--output_dir", "out", "--config-path", "merge.yaml"),
        ("--input-dir=results", "--output-dir=out", "--config=merge.yaml"),
    ],
)
@pytest.mark.usefixtures("results")
def test_ranks_are_merged(probe_flow: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = probe_flow("merge_result", *arguments)
    assert outcome.code == 0, outcome.err
    (path,) = (tmp_path / "out").iterdir()
    assert outcome.out == f"merged: out/{path.name}\n"
    assert [cell.value for cell in next(load_workbook(path)["Max diff"].iter_rows())] == ["NPU Name", "rank0", "rank1"]


@pytest.mark.usefixtures("results")
def test_a_mistyped_key_of_the_configuration_is_a_usage_error_with_its_line(
    probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "merge.yaml").write_text("api: [Distributed.all_reduce]\ncompare_indx: [Max diff]\n")
    outcome = probe_flow("merge_result", "-i", "results", "-o", "out", "-config", "merge.yaml")
    assert outcome.code == 2
    assert "error[PF7120]: `compare_indx` is no key of a merge configuration" in outcome.err
    assert "merge.yaml:2:1" in outcome.err
    assert "did you mean `compare_index`?" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_one_rank_is_nothing_to_merge(probe_flow: Callable[..., Any], results: Path) -> None:
    next(iter(results.iterdir())).unlink()
    outcome = probe_flow("merge_result", "-i", "results", "-o", "out", "-config", "merge.yaml")
    assert outcome.code == 3
    assert "PF7122" in outcome.err
    assert "1 result table of ranks" in outcome.err


@pytest.mark.usefixtures("results")
def test_a_folder_that_is_not_there_is_a_usage_error(probe_flow: Callable[..., Any]) -> None:
    for path in ("absent", "merge.yaml"):
        outcome = probe_flow("merge_result", "-i", path, "-o", "out", "-config", "merge.yaml")
        assert outcome.code == 2
        assert "PF2101" in outcome.err


def test_a_damaged_table_leaves_the_result_incomplete(probe_flow: Callable[..., Any], results: Path) -> None:
    (results / "compare_result_rank7_20260102030405.xlsx").write_bytes(b"PK\x03\x04")
    outcome = probe_flow("merge_result", "-i", "results", "-o", "out", "-config", "merge.yaml")
    assert outcome.code == 3
    assert "PF7123" in outcome.err
    assert outcome.out.startswith("merged: out/multi_ranks_compare_merge_")


def test_an_option_that_is_missing_is_named(probe_flow: Callable[..., Any]) -> None:
    outcome = probe_flow("merge_result", "-i", ".")
    assert outcome.code == 2
    assert "--output_dir" in outcome.err


@pytest.mark.parametrize("kind", [(), ("--xlsx",)])
def test_what_compare_writes_can_be_merged(
    probe_flow: Callable[..., Any], tmp_path: Path, kind: tuple[str, ...]
) -> None:
    examples = Path(__file__).parents[2] / "examples" / "dump_json"
    paths = ("-tp", examples / "ranks_target" / "step0", "-gp", examples / "ranks_golden" / "step0")
    assert probe_flow("compare", *paths, "-o", "results", *kind).code == 1
    arguments = ("-i", "results", "-o", "merged", "-config", examples / "merge_config.yaml")
    outcome = probe_flow("-f", "pytorch", "merge_result", *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    (path,) = (tmp_path / "merged").iterdir()
    ours, theirs = load_workbook(path), load_workbook(EXPECTED / "multi_ranks_compare_merge.xlsx")
    for sheet in theirs:
        found, wanted = (
            {row[0]: row[1:] for row in book[sheet.title].iter_rows(min_row=2, values_only=True)}
            for book in (ours, theirs)
        )
        assert found.keys() == wanted.keys()
        for name, cells in wanted.items():
            ratios = [float(str(cell).rstrip("%")) for cell in (*found[name], *cells)]
            assert ratios[:2] == pytest.approx(ratios[2:], rel=1e-9), name
