"""The viewer shows our files: what is listed, drawn and coloured there is what the dumps and their comparison say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from graph_dumps import BASE, CHAIN, RENAMED, RENAMES, SLOPE, write_dump
from graph_viewer import Viewer

from probe_flow.cli.main import main

FAULT = "Functional.leaky_relu.1.forward"
BLOCK = "Module.layers.1.Block.forward.0"
EMBEDDING = "Module.emb.Embedding.forward.0"
WHITE, GREY = "rgba(255, 255, 255, 1)", "#C7C7C7"
BANDS = {
    "#FFFCF3": (0.0, 0.2),
    "#FFEDBE": (0.2, 0.4),
    "#FFDC7F": (0.4, 0.6),
    "#FFC62E": (0.6, 0.8),
    "#FF704D": (0.8, 1.0),
}

Show = Callable[..., Path]
Serve = Callable[..., Viewer]
Colours = Callable[[Viewer], Mapping[str, str]]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Show:
    """Return a function that makes the graph of dumps by a command, and returns its file."""
    monkeypatch.chdir(tmp_path)
    made: list[Path] = []

    def run(command: str, target: Path, golden: Path | None = None, *more: object) -> Path:
        folder = tmp_path / f"made{len(made)}"
        named = {"npu_path": str(target), **({} if golden is None else {"bench_path": str(golden)})}
        (tmp_path / "given.json").write_text(json.dumps(named))
        sides = ["-i", "given.json"] if command == "graph" else ["-tp", target, *(["-gp", golden] if golden else [])]
        main([str(word) for word in (command, *sides, "-o", folder, *more)])
        (path,) = (each for each in folder.iterdir() if each.is_file())
        made.append(path)
        return path

    return run


def constructed(dump: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = json.loads((dump / "construct.json").read_text(encoding="utf-8"))
    return found


def drawn_at_the_top(dump: Path) -> set[str]:
    """The calls that nothing called, of which neighbours that are no modules become a collection."""
    return {name for name, caller in constructed(dump).items() if caller is None and name.startswith("Module.")}


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
def test_a_build_is_listed_loaded_and_drawn(serve: Serve, show: Show, colours: Colours, command: str) -> None:
    path = show(command, BASE)
    viewer = serve(alone=path)
    kind = "json" if command == "graph" else "db"

    assert viewer.listed() == {"alone": {"type": kind, "tags": [re.sub(r"\.vis(\.db)?$", "", path.name)]}}
    shown = viewer.open("alone")
    assert shown.config["isSingleGraph"] is True
    names = set(shown.names()["npuNodeList"])
    assert names >= constructed(BASE).keys()
    assert shown.expanded(side="Single").keys() >= drawn_at_the_top(BASE)
    inside = {name for name, caller in constructed(BASE).items() if caller == BLOCK}
    assert shown.expanded(BLOCK, side="Single").keys() >= inside
    assert shown.node(FAULT, side="Single")["npu"]["stack_info"]
    assert colours(viewer).keys() >= drawn_at_the_top(BASE)


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
def test_a_comparison_is_coloured_by_its_scores(serve: Serve, show: Show, colours: Colours, command: str) -> None:
    viewer = serve(two=show(command, SLOPE, BASE))
    shown = viewer.open("two")

    assert shown.config["task"] == "summary"
    assert shown.config["colors"].keys() == {*BANDS, GREY}
    listed = shown.names()
    assert listed["npuMatchNodes"].items() >= {name: name for name in constructed(SLOPE)}.items()
    assert listed["npuUnMatchNodes"] == listed["benchUnMatchNodes"] == []
    fills = colours(viewer)
    drawn = shown.expanded()
    scored = {name: node["precisionIndex"] for name, node in drawn.items() if name != "DefaultModel"}
    assert scored.keys() >= drawn_at_the_top(SLOPE)
    for name, score in scored.items():
        if name.startswith("Apis_Between_Modules"):
            continue  # a collection is white inside, with a coloured border
        (expected,) = (fill for fill, (low, high) in BANDS.items() if low <= score < high)
        assert fills[f"N___{name}"] == expected, name
        assert fills[f"B___{name}"] == WHITE
    assert (fills[f"N___{EMBEDDING}"], fills[f"N___{BLOCK}"]) == ("#FFFCF3", "#FF704D")


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
def test_the_list_of_the_darkest_band_holds_the_fault(serve: Serve, show: Show, command: str) -> None:
    shown = serve(two=show(command, SLOPE, BASE)).open("two")

    worst = shown.in_bands([0.8, 1])
    assert FAULT in worst
    assert "Functional.embedding.0.forward" not in worst
    assert "Functional.embedding.0.forward" in shown.in_bands([0, 0.2])


def test_what_has_no_partner_is_grey_and_listed(serve: Serve, show: Show, colours: Colours) -> None:
    path = show("graph", RENAMED, BASE, "--layout", "msprobe")
    viewer = serve(two=path)
    shown = viewer.open("two")
    stored: dict[str, Any] = json.loads(path.read_text())["NPU"]["node"]
    alone = {name for name, node in stored.items() if not node["matched_node_link"]}

    assert alone
    assert set(shown.names()["npuUnMatchNodes"]) == alone
    fills = colours(viewer)
    assert {name for name in alone if fills.get(f"N___{name}") == GREY} == {
        name for name in shown.expanded() if name in alone and not name.startswith("Apis_Between_Modules")
    }


def test_a_mapping_pairs_what_has_other_names(serve: Serve, show: Show) -> None:
    shown = serve(two=show("graph_visualize", RENAMED, BASE, "-lm", RENAMES)).open("two")

    assert shown.names()["npuUnMatchNodes"] == []
    assert shown.node("Module.layers.0.up.Linear.forward.0")["bench"]["node_name"] == (
        "Module.layers.0.fc1.Linear.forward.0"
    )


def test_levels_of_overflow_are_listed(serve: Serve, show: Show, tmp_path: Path) -> None:
    relu = "Functional.relu.0.forward"
    dump = write_dump(tmp_path / "dump", values={**dict.fromkeys(CHAIN, 1.0), relu: float("inf")})
    shown = serve(alone=show("graph_visualize", dump, None, "-oc")).open("alone")

    assert shown.config["overflowCheck"] is True
    assert shown.overflowing("critical") == [relu]
    assert shown.overflowing("medium") == []


def test_every_rank_and_step_of_a_database_is_shown(serve: Serve, show: Show, tmp_path: Path) -> None:
    for step in (0, 1):
        for rank in (0, 10):
            write_dump(tmp_path / "dump" / f"step{step}" / f"rank{rank}")
    viewer = serve(all=show("graph_visualize", tmp_path / "dump"))

    assert (viewer.open("all").config["ranks"], viewer.open("all").config["steps"]) == ([0, 10], [0, 1])
    assert "Module.net.Net.forward.0" in viewer.open("all", rank=10, step=1).expanded(side="Single")


def test_both_formats_of_a_run_are_listed_from_its_folder(tmp_path: Path, serve: Serve) -> None:
    from probe_flow.workflow.templates.packaged import templates

    main(["run", str(templates()["build_graph"]), "--set", f"dump={BASE}", "--output", str(tmp_path / "run")])
    (vis,), (database,) = (list((tmp_path / "run" / word).iterdir()) for word in ("vis", "vis_db"))
    listed = serve(vis=vis, vis_db=database).listed()
    assert {run: found["type"] for run, found in listed.items()} == {"vis": "json", "vis_db": "db"}


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
def test_names_of_any_characters_reach_the_page(serve: Serve, show: Show, tmp_path: Path, command: str) -> None:
    names = ["Module.</script><script>x.A.forward.0", "Module.quo\"te's.B.forward.0", "Module.名前.C.forward.0"]
    shown = serve(odd=show(command, write_dump(tmp_path / "dump", construct=dict.fromkeys(names)))).open("odd")

    assert set(shown.names()["npuNodeList"]) >= set(names)
    assert shown.expanded(side="Single").keys() >= set(names)
