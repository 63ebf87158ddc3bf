"""Offline models in the stages `report` and `report.pairs`: names of files, further columns, no figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from offline_rows import Op, figures, offline
from pydantic import ValidationError

from probe_flow.records import Comparison, Execution
from probe_flow.stages.report import report, report_pairs
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

STAMP = "20260102030405"


def context(folder: Path) -> Context:
    def nothing(*_arguments: Any, **_options: Any) -> Any:
        return None

    return Context("report", folder, nothing, nothing, nothing, Settings(), run_record())


def names(folder: Path, formats: list[Any], *comparisons: Comparison, **more: Any) -> list[str]:
    options = report.Options.model_validate({"uses": "report", "comparison": "c", "formats": formats, **more})
    result = report.STAGE.run(options, {"comparison": comparisons}, context(folder))
    assert isinstance(result, list)
    return [path.relative_to(folder).as_posix() for path in result]


def one(**more: Any) -> Comparison:
    return offline(Op("conv1", outputs=[figures()]), **more)


@pytest.mark.parametrize("layout", ["offline", "msaccucmp"])
def test_the_result_has_its_published_name(tmp_path: Path, layout: str) -> None:
    assert names(tmp_path, [{"csv": layout}], one()) == [f"result_{STAMP}.csv"]


def test_both_layouts_do_not_overwrite_each_other(tmp_path: Path) -> None:
    found = names(tmp_path, [{"csv": "offline"}, {"csv": "msaccucmp"}, {"xlsx": "offline"}], one())
    assert found == [f"result_{STAMP}_offline.csv", f"result_{STAMP}_msaccucmp.csv", f"result_{STAMP}.xlsx"]


def test_a_model_of_a_tree_is_in_the_name(tmp_path: Path) -> None:
    model = one(execution=Execution(rank=1, step=2, graph=11, model="net"))
    assert names(tmp_path, [{"csv": "offline"}, "advisor", "mapping"], model) == [
        f"1_net_2_result_{STAMP}.csv",
        "1_net_2_advisor_summary.txt",
        f"1_net_2_mapping_{STAMP}.csv",
    ]


@pytest.mark.parametrize("entry", [{"csv": "offline"}, {"csv": "msaccucmp"}])
def test_columns_are_added_when_they_are_asked_for(tmp_path: Path, entry: Any) -> None:
    (name,) = names(tmp_path, [entry], one(), columns=["overflow", "model_flags"])
    header = (tmp_path / name).read_text().splitlines()[0].split(",")
    assert {"OverFlow", "IsNpuOps", "IsOutputNode", "IsPrecisionError"} <= set(header)


def test_columns_reach_a_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    (name,) = names(tmp_path, [{"xlsx": "offline"}], one(), columns=["overflow"])
    (sheet,) = openpyxl.load_workbook(tmp_path / name).worksheets
    assert "OverFlow" in [cell.value for cell in sheet[1]]


def test_other_layouts_have_no_such_columns(tmp_path: Path) -> None:
    found = names(tmp_path, [{"csv": "torchair"}, {"csv": "offline"}], one(), columns=["overflow"])
    assert ["OverFlow" in (tmp_path / name).read_text() for name in found] == [False, True]


def test_columns_without_a_table_that_has_them_are_a_mistake() -> None:
    with pytest.raises(ValidationError, match=r"add `\{csv: offline\}`"):
        report.Options.model_validate(
            {"uses": "report", "comparison": "c", "formats": ["html"], "columns": ["overflow"]}
        )


def test_columns_have_names() -> None:
    with pytest.raises(ValidationError):
        report.Options.model_validate(
            {"uses": "report", "comparison": "c", "formats": [{"csv": "offline"}], "columns": ["overflw"]}
        )


def test_pairs_are_written_without_figures(tmp_path: Path) -> None:
    options = report_pairs.Options.model_validate(
        {"uses": "report.pairs", "pairs": "p", "formats": ["mapping", "data_mapping"], "output": str(tmp_path / "out")}
    )
    result = report_pairs.STAGE.run(options, {"pairs": [one().pairs]}, context(tmp_path))
    assert isinstance(result, list)
    assert [path.name for path in result] == [f"mapping_{STAMP}.csv", f"data_mapping_{STAMP}.yaml"]
    assert (tmp_path / "out" / f"mapping_{STAMP}.csv").read_text().splitlines()[1].startswith("0,Conv2D,conv1,conv1,")


def test_several_matches_are_numbered(tmp_path: Path) -> None:
    options = report_pairs.Options.model_validate({"uses": "report.pairs", "pairs": "p"})
    result = report_pairs.STAGE.run(options, {"pairs": [one().pairs, one().pairs]}, context(tmp_path))
    assert isinstance(result, list)
    assert [path.name for path in result] == [f"mapping_1_{STAMP}.csv", f"mapping_2_{STAMP}.csv"]
