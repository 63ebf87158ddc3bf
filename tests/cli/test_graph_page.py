"""The page beside the graphs of `graph` and `graph_visualize`: it says of each call what the graphs say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from graph_dumps import BASE, CHAIN, SLOPE, vis, write_dump

RELU, LINEAR, NET = CHAIN
NAN, INF = float("nan"), float("inf")


def calls(folder: Path, side: str, what: str) -> dict[str, Any]:
    """What the page says of the calls of a side, by their entries; calls of which it says nothing are left out."""
    page = (folder / "probe_flow" / "report.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    nodes, texts = data["nodes"], data["strings"]

    def cells(name: str) -> list[Any]:
        column = nodes.get(name)
        if not isinstance(column, dict):
            return column if isinstance(column, list) else [column] * nodes["count"]
        found, place = [], 0
        for step in column["steps"]:
            place += step or 0
            found.append(None if step is None else place)
        return found

    said = cells(what) if what == "score" else [None if each is None else texts[each] for each in cells(what)]
    entries = [None if each is None else texts[each] for each in cells("entry")]
    usual = zip(*(cells(name) for name in ("named", "kind", "name", "call", "phase")), strict=True)
    for place, (is_named, kind, name, call, phase) in enumerate(usual):
        if is_named:  # the page names it by the collectors' grammar
            ends = {"api": f"{call}.{texts[phase]}", "module": f"{texts[phase]}.{call}"}
            entries[place] = f"{texts[name]}.{ends.get(texts[kind], call)}"
        elif entries[place] is None:
            entries[place] = texts[name]
    lines = zip(cells("side"), entries, said, strict=True)
    return {entry: each for mine, entry, each in lines if mine == side and each is not None}


def test_scores_are_those_of_the_graph(probe_flow: Any, tmp_path: Path) -> None:
    (tmp_path / "compare.json").write_text(json.dumps({"npu_path": str(SLOPE), "bench_path": str(BASE)}))
    probe_flow("graph", "-i", "compare.json", "-o", "out")
    nodes = vis(tmp_path / "out")["NPU"]["node"]
    drawn = {name: node["data"].get("precision_index") for name, node in nodes.items()}
    shown = calls(tmp_path / "out", "target", "score")
    assert shown
    assert len({round(score, 3) for score in shown.values()}) > 3
    for name, score in shown.items():
        # The viewer lists no node whose score is exactly 1, so files have a little less.
        assert drawn[name] == pytest.approx(score, abs=1e-5), name


@pytest.mark.parametrize(
    ("options", "target", "golden"),
    [
        ((), {}, {}),
        (("-oc",), {RELU: "critical", LINEAR: "critical", NET: "critical"}, {LINEAR: "critical", NET: "critical"}),
    ],
)
def test_levels_of_both_sides_are_shown_on_demand(
    probe_flow: Any, tmp_path: Path, options: tuple[str, ...], target: dict[str, str], golden: dict[str, str]
) -> None:
    one = write_dump(tmp_path / "one", values={RELU: NAN})
    other = write_dump(tmp_path / "other", values={LINEAR: INF})
    probe_flow("graph_visualize", "-tp", one, "-gp", other, "-o", "out", *options)
    assert calls(tmp_path / "out", "target", "level") == target
    assert calls(tmp_path / "out", "golden", "level") == golden


def test_a_dump_alone_has_no_scores(probe_flow: Any, tmp_path: Path) -> None:
    one = write_dump(tmp_path / "one", values={RELU: NAN})
    probe_flow("graph_visualize", "-tp", one, "-o", "out", "-oc")
    assert calls(tmp_path / "out", "target", "level")[RELU] == "critical"
    assert calls(tmp_path / "out", "target", "score") == {}
