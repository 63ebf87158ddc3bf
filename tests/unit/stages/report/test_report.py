from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from call_rows import Call, compared
from openpyxl import load_workbook
from pydantic import ValidationError
from report_builders import comparison, good_row, origin

from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.record import run_json
from probe_flow.records import Comparison, Role, Status
from probe_flow.stages.report.report import STAGE, Options, chosen
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

ALL = [{"csv": "dump_json"}, "jsonl", "junit", "xlsx", {"xlsx": "torchair"}, "markdown", "annotations",
       {"annotations": "gitlab"}]  # fmt: skip
FACTS: dict[str, Any] = {"workflow": {"name": "demo", "path": "demo.yaml"}, "artifacts": ["run.json"]}


class Ran:
    """The stage, run aside, with what it told the engine."""

    def __init__(
        self,
        folder: Path,
        formats: list[Any],
        *comparisons: Comparison,
        announce: Callable[[Path], object] = str,
        **more: Any,
    ) -> None:
        self.reported: list[Diagnostic] = []
        self.events: list[str] = []
        options = Options.model_validate(
            {"uses": "report", "comparison": "result", "formats": formats, **more.pop("options", {})}
        )
        context = Context(
            "report",
            folder,
            no_map,
            self.emit,
            self.report,
            Settings(),
            run_record(**{**FACTS, **more}),
            announce=announce,
        )
        result = STAGE.run(options, {"comparison": comparisons}, context)
        assert isinstance(result, list)
        self.names = [path.relative_to(folder).as_posix() for path in result]

    def emit(self, event: str, **_fields: Any) -> None:
        self.events.append(event)

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.reported += diagnostics


def no_map(*_arguments: Any, **_options: Any) -> Any:
    raise AssertionError("reports have no batches")


def diverging() -> Comparison:
    return comparison(
        good_row(0), good_row(1, "MatMul_2", status=Status.FAIL, role=Role.ORIGIN),
        findings=(origin(1, "MatMul_2"),), gate_passed=False,
    )  # fmt: skip


def test_every_format_becomes_its_file(tmp_path: Path) -> None:
    ran = Ran(tmp_path, ALL, diverging())
    assert ran.names == [
        "compare_result_20260102030405.csv",
        "junit.xml",
        "compare_result_20260102030405.xlsx",
        "torchair_result_20260102030405.xlsx",
        "report.md",
        "annotations.txt",
        "gl-code-quality-report.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ran.names)
    assert ran.reported == []


def test_the_summary_lists_the_files_of_the_run_and_of_this_report(tmp_path: Path) -> None:
    Ran(tmp_path, ["markdown", "junit"], diverging())
    assert (tmp_path / "report.md").read_text().endswith("### Files\n\n- `run.json`\n- `report.md`\n- `junit.xml`\n")


def test_what_a_comparison_concludes_is_found_once_for_all_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Comparison] = []
    monkeypatch.setattr(run_json, "advise", lambda found, given: asked.append(given) or [()] * len(found))
    Ran(tmp_path, ["html", "junit", "markdown", "sarif", "annotations"], diverging())
    assert len(asked) == 1


def test_several_comparisons_are_numbered(tmp_path: Path) -> None:
    ran = Ran(tmp_path, ["junit", {"csv": "torchair"}], diverging(), diverging())
    assert ran.names == [
        "junit_1.xml",
        "torchair_result_1_20260102030405.csv",
        "junit_2.xml",
        "torchair_result_2_20260102030405.csv",
    ]


def test_a_folder_of_its_own_gets_the_records_too(tmp_path: Path) -> None:
    ran = Ran(tmp_path, ["jsonl", "markdown"], diverging(), options={"output": str(tmp_path / "deep" / "er")})
    assert ran.names == ["deep/er/comparison.jsonl", "deep/er/nodes.jsonl", "deep/er/report.md"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(IncompleteError(Diagnostic("PF7001", "the disk is full")), "PF7001"), (ZeroDivisionError("a defect"), "PF7102")],
)
def test_a_format_that_fails_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    def broken(*_arguments: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr("probe_flow.reports.ci.junit.write_junit", broken)
    ran = Ran(tmp_path, ["annotations", "junit", "markdown"], diverging())
    assert ran.names == ["annotations.txt", "report.md"]
    (problem,) = ran.reported
    assert (problem.code, problem.severity) == (code, Severity.ERROR)
    assert ran.events == (["report.crashed"] if code == "PF7102" else [])


def test_every_file_is_announced_before_it_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_more: object) -> None:
        raise ZeroDivisionError("a defect")

    announced: dict[str, bool] = {}

    def announce(path: Path) -> None:
        announced[path.name] = path.exists()

    monkeypatch.setattr("probe_flow.reports.ci.junit.write_junit", broken)
    ran = Ran(tmp_path, [{"csv": "dump_json"}, "junit", "html", "markdown"], diverging(), announce=announce)
    table = "compare_result_20260102030405.csv"
    assert ran.names == [table, "report.html", "report.md"]
    assert [problem.code for problem in ran.reported] == ["PF7102"]
    assert announced == {table: False, "junit.xml": False, "report.html": False, "report.md": False}


def test_what_is_unreadable_makes_every_report_incomplete(tmp_path: Path) -> None:
    problem = Diagnostic("PF3011", "`a.npy` ends early").to_dict()
    Ran(tmp_path, ["markdown", "junit", "annotations"], diverging(), problems=[problem])
    assert "INCOMPLETE" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert 'errors="1"' in (tmp_path / "junit.xml").read_text()
    remarks = (tmp_path / "annotations.txt").read_text().splitlines()
    assert remarks[1:] == ["::error title=probe_flow%3A PF3011::`a.npy` ends early"]


def test_a_thousand_files_of_one_defect_are_one_reason(tmp_path: Path) -> None:
    problems = [Diagnostic("PF3015", f"`{number}.npy` is cut off").to_dict() for number in range(1000)]
    Ran(tmp_path, ["junit", "html"], comparison(good_row()), problems=problems)
    assert "[PF3015] `0.npy` is cut off (and 999 more)" in (tmp_path / "junit.xml").read_text()
    assert "500.npy" not in (tmp_path / "junit.xml").read_text()


def test_warnings_of_readers_leave_the_verdict(tmp_path: Path) -> None:
    problem = Diagnostic("PF3012", "odd", Severity.WARNING).to_dict()
    Ran(tmp_path, ["markdown"], comparison(good_row()), problems=[problem])
    assert "PASS" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_gitlab_gets_json(tmp_path: Path) -> None:
    Ran(tmp_path, [{"annotations": "gitlab"}], diverging())
    verdict, finding = json.loads((tmp_path / "gl-code-quality-report.json").read_text())
    assert verdict["description"].startswith("FAIL: FAIL MatMul_2 (AddV2) output 0")
    assert finding["location"]["path"] == verdict["location"]["path"] == "demo.yaml"


@pytest.mark.parametrize(
    ("formats", "shown"),
    [
        (["xlsx"], ["xlsx: torchair"]),
        (["xlsx", {"csv": "torchair_legacy"}], ["xlsx: torchair_legacy", "csv: torchair_legacy"]),
        (["junit", "junit"], ["junit"]),
        (["jsonl", "jsonl"], ["jsonl"]),
    ],
)
def test_plain_words_have_usual_options(formats: list[Any], shown: list[str]) -> None:
    options = Options.model_validate({"uses": "report", "comparison": "result", "formats": formats})
    assert [str(each) for each in chosen(options.formats)] == shown


@pytest.mark.parametrize(
    "entry", [{"csv": "torchair", "xlsx": "torchair"}, {}, {"csv": None}, {"xlsx": "torchare"}, "pdf"]
)
def test_what_is_no_format_is_refused(entry: Any) -> None:
    with pytest.raises(ValidationError):
        Options.model_validate({"uses": "report", "comparison": "result", "formats": [entry]})


def test_first_differences_are_files_per_rank_and_one_over_all(tmp_path: Path) -> None:
    wrong = [(9.0, 1.0)]
    ranks = compared(Call("Torch.a", rank=0), Call("Torch.a", outputs=wrong, rank=1), files=("rank0/dump.json",))
    ran = Ran(tmp_path, ["diff_analyze", {"csv": "dump_json"}], ranks)
    assert ran.names == [
        "compare_result_rank0_20260102030405.json",
        "compare_result_rank1_20260102030405.json",
        "diff_analyze_1767323045000000000.json",
        "compare_result_rank0_20260102030405.csv",
        "compare_result_rank1_20260102030405.csv",
    ]
    assert list(json.loads((tmp_path / ran.names[2]).read_text())) == ["rank_1"]


def test_without_a_difference_there_is_a_note_instead_of_a_file(tmp_path: Path) -> None:
    ran = Ran(tmp_path, ["diff_analyze"], compared(Call("Torch.a")))
    assert ran.names == ["compare_result_rank0_20260102030405.json"]
    assert [(each.code, each.severity) for each in ran.reported] == [("PF7140", Severity.NOTE)]


def test_thresholds_of_first_differences_are_options(tmp_path: Path) -> None:
    large = dict.fromkeys(("max_diff_rel", "min_diff_rel", "mean_diff_rel", "l2norm_diff_rel"), 99.0)
    comparison = compared(Call("Torch.a", outputs=[(9.0, 1.0)]))
    assert len(Ran(tmp_path, [{"diff_analyze": {"l2norm_diff_rel": 0.1}}], comparison).names) == 2
    assert len(Ran(tmp_path, [{"diff_analyze": large}], comparison).names) == 1
    with pytest.raises(ValidationError, match="greater than 0"):
        Ran(tmp_path, [{"diff_analyze": {"max_diff_rel": 0}}], comparison)
    with pytest.raises(ValidationError, match="Extra inputs"):
        Ran(tmp_path, [{"diff_analyze": {"cosine": 0.5}}], comparison)


def ranks_and_configuration(folder: Path, *ranks: int) -> tuple[Comparison, str]:
    (folder / "merge.yaml").write_text("api: [Distributed.all_reduce]\ncompare_index: [Max diff]\n")
    calls = [Call("Distributed.all_reduce", rank=rank) for rank in ranks]
    return compared(*calls, files=tuple(f"rank{rank}/dump.json" for rank in ranks)), str(folder / "merge.yaml")


def test_the_ranks_of_one_comparison_are_merged(tmp_path: Path) -> None:
    comparison, path = ranks_and_configuration(tmp_path, 0, 1)
    ran = Ran(tmp_path, [{"rank_merge": path}], comparison)
    assert (ran.names, ran.reported) == (["multi_ranks_compare_merge_20260102030405.xlsx"], [])
    sheet = load_workbook(tmp_path / ran.names[0])["Max diff"]
    assert [list(row) for row in sheet.iter_rows(values_only=True)] == [
        ["NPU Name", "rank0", "rank1"],
        ["Distributed.all_reduce.0.forward.input.0", 0, 0],
        ["Distributed.all_reduce.0.forward.output.0", 0, 0],
    ]


def test_a_single_rank_cannot_be_merged_and_costs_that_file_only(tmp_path: Path) -> None:
    comparison, path = ranks_and_configuration(tmp_path, 0)
    ran = Ran(tmp_path, [{"rank_merge": path}, "markdown"], comparison)
    assert ran.names == ["report.md"]
    assert [each.code for each in ran.reported] == ["PF7122"]


def test_a_broken_merge_configuration_costs_that_file_only(tmp_path: Path) -> None:
    comparison, path = ranks_and_configuration(tmp_path, 0, 1)
    Path(path).write_text("api: Distributed\n")
    ran = Ran(tmp_path, [{"rank_merge": path}, "markdown"], comparison)
    assert ran.names == ["report.md"]
    assert [each.code for each in ran.reported] == ["PF7120"]


def test_a_failing_search_for_first_differences_costs_its_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any) -> Any:
        raise ZeroDivisionError("nothing to divide")

    monkeypatch.setattr("probe_flow.analysis.first_difference.search.first_differences", broken)
    ran = Ran(tmp_path, ["diff_analyze", "markdown"], compared(Call("Torch.a")))
    assert ran.names == ["report.md"]
    assert [each.message for each in ran.reported] == [
        "what `diff_analyze` shows is not found: ZeroDivisionError: nothing to divide"
    ]
    assert ran.events == ["report.crashed"]
