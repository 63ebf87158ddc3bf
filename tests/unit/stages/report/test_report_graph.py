"""The stage `report.graph`: which files it writes where, and the options that do not go together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from graph_dumps import CHAIN, rows, vis, write_dump
from msgspec.structs import replace
from pydantic import ValidationError

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.records import Catalog
from probe_flow.stages.report.report_graph import STAGE, Options
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

STAMP = "20260102030405"
LINEAR = "Module.fc.Linear.forward.0"


def written(folder: Path, *catalogs: Catalog, problems: list[Diagnostic] | None = None, **more: Any) -> list[str]:
    """Run the stage on dumps and return the files that it says it wrote, relative to the run's folder."""

    def nothing(*_arguments: Any, **_options: Any) -> Any:
        return None

    report = (problems if problems is not None else []).extend
    context = Context("graphs", folder, nothing, nothing, report, Settings(), run_record())
    options = Options.model_validate({"uses": "report.graph", "catalog": "dump", **more})
    paths: Any = STAGE.run(options, {"catalog": catalogs}, context)
    assert all(path.is_file() for path in paths)
    return [path.relative_to(folder).as_posix() for path in paths]


def read(folder: Path) -> Catalog:
    return read_dump_json(folder, side="dump")


@pytest.fixture
def dump(tmp_path: Path) -> Catalog:
    return read(write_dump(tmp_path / "dump"))


@pytest.mark.parametrize(
    ("formats", "files"),
    [
        (["vis"], [f"vis/build_{STAMP}.vis"]),
        (["vis_db"], [f"vis_db/build_{STAMP}.vis.db"]),
        (["vis_db", "vis"], [f"vis_db/build_{STAMP}.vis.db", f"vis/build_{STAMP}.vis"]),
        (["vis", "html"], [f"vis/build_{STAMP}.vis", "report.html"]),
    ],
)
def test_each_format_has_a_folder_of_the_run(tmp_path, dump, formats, files):
    assert written(tmp_path, dump, formats=formats) == files


def test_a_named_folder_holds_one_format_itself_and_two_in_folders(tmp_path, dump):
    out = tmp_path / "out"
    assert written(tmp_path, dump, formats=["vis"], output=str(out)) == [f"out/build_{STAMP}.vis"]
    assert written(tmp_path, dump, formats=["vis", "vis_db"], output=str(out)) == [
        f"out/vis/build_{STAMP}.vis",
        f"out/vis_db/build_{STAMP}.vis.db",
    ]


def test_several_dumps_are_numbered(tmp_path, dump):
    assert written(tmp_path, dump, dump, formats=["vis", "html"]) == [
        f"vis_1/build_{STAMP}.vis",
        "report_1.html",
        f"vis_2/build_{STAMP}.vis",
        "report_2.html",
    ]


def test_two_graphs_of_one_step_and_rank_are_told_and_the_first_is_written(tmp_path):
    for tree in ("graph", "pynative"):
        write_dump(tmp_path / "dump" / tree / "step0" / "rank0")
    problems: list[Diagnostic] = []

    assert len(written(tmp_path, read(tmp_path / "dump"), formats=["vis"], problems=problems)) == 1
    assert [problem.code for problem in problems] == ["PF7162"]
    assert "pynative" in problems[0].message


def test_a_dump_that_nobody_can_draw_raises_and_leaves_no_file(tmp_path):
    catalog = read(write_dump(tmp_path / "dump", construct="{}", level="L1", entries=tuple(CHAIN)))

    with pytest.raises(IncompleteError, match="L1"):
        written(tmp_path, catalog, formats=["vis", "vis_db"])
    assert not [path for path in tmp_path.rglob("*.vis*") if path.is_file()]


def test_levels_are_those_of_both_formats(tmp_path):
    catalog = read(write_dump(tmp_path / "dump", values={LINEAR: float("inf")}))
    written(tmp_path, catalog, formats=["vis", "vis_db"], overflow=True)

    in_json = {name: node["data"].get("overflow_level") for name, node in vis(tmp_path / "vis")["node"].items()}
    in_table = dict(rows(tmp_path / "vis_db", "node_name, overflow_level"))
    assert in_json == in_table
    assert in_json[LINEAR] == "critical"


def test_the_page_of_a_dump_alone_holds_its_calls_and_no_rows(tmp_path, dump):
    written(tmp_path, dump, formats=["vis", "html"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert (data["count"], data["nodes"]["count"]) == (0, len(CHAIN))
    assert data["summary"]["word"] == "DONE"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name one stage"),
        ({"catalog": "dump", "comparison": "result"}, "name one stage"),
        ({"catalog": "dump", "formats": ["html"]}, "name `vis` or `vis_db` too"),
        ({"catalog": "dump", "formats": []}, "at least 1 item"),
        ({"comparison": "result", "match": "fuzzy"}, "is for `layout: msprobe`"),
        ({"comparison": "result", "layout": "msprobe", "mapping": "m.yaml"}, "is for `match: layer_mapping`"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValidationError, match=re.escape(said)):
        Options.model_validate({"uses": "report.graph", **options})


def test_graphs_need_a_call_order(tmp_path, dump):
    with pytest.raises(IncompleteError, match="PF7150") as raised:
        written(tmp_path, replace(dump, call_order={}), formats=["vis", "vis_db"])
    assert len(raised.value.diagnostics) == 1  # each format finds it anew
