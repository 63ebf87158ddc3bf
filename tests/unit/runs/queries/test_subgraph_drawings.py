"""What a drawn neighbourhood says: whose fault it is, not which rows miss the published rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from stored_runs import node, row, write_run

from probe_flow.record.run_folder import read_run
from probe_flow.runs.draw.dot import dot_text
from probe_flow.runs.draw.svg import drawn_in_layers
from probe_flow.runs.queries.node import node_view
from probe_flow.runs.queries.stored_nodes import StoredNodes
from probe_flow.runs.queries.subgraph import Subgraph

SVG = "{http://www.w3.org/2000/svg}"
CHAIN = ("Healthy", "Wrong", "Carrier", "Fine", "Apart", "Plain")


def neighbourhood(tmp_path: Path, verdict: str, **origin: Any) -> Subgraph:
    """A chain in which a healthy operator fails the row rule, and the wrong one has any verdict."""
    nodes = [node(name, place, *([(0, CHAIN[place - 1], 0)] if place else [])) for place, name in enumerate(CHAIN)]
    rows = [
        row(0, "Healthy", verdict="fail", excess=0.3),
        row(1, "Wrong", verdict=verdict, role="origin", **origin),
        row(2, "Carrier", verdict="pass", role="inherited", excess=0.5),
        row(3, "Fine", excess=0.01),
        row(4, "Apart", verdict="unmatched_target", role="unknown", golden=None, metrics={}),
    ]
    run = read_run(write_run(tmp_path / "run", rows, nodes, counts={}))
    (view,) = node_view(run, StoredNodes(run), "Carrier", depth=5).views
    assert view.graph is not None
    return view.graph


def boxes(graph: Subgraph) -> dict[str, dict[str, Any]]:
    """The box of every operator with the texts on it."""
    found = {}
    for group in ElementTree.fromstring(drawn_in_layers(graph)).iter(f"{SVG}g"):
        rects = group.findall(f"{SVG}rect")
        if rects:
            texts = group.findall(f"{SVG}text")
            name = (group.findtext(f"{SVG}title") or "").partition(" (")[0]
            ink = {text.get("fill") for text in texts}
            found[name] = {**rects[-1].attrib, "texts": [text.text for text in texts], "ink": ink, "rects": len(rects)}
    return found


def brightness(colour: str) -> int:
    return sum(int(colour[at : at + 2], 16) for at in (1, 3, 5))


@pytest.mark.parametrize("verdict", ["pass", "fail", "unmatched_target"])
def test_the_origin_is_the_darkest_box_with_the_thickest_border(tmp_path: Path, verdict: str) -> None:
    found = boxes(neighbourhood(tmp_path, verdict, excess=5.2))
    assert min(found, key=lambda name: brightness(found[name]["fill"])) == "Wrong"
    assert max(found, key=lambda name: float(found[name]["stroke-width"])) == "Wrong"
    assert "\u25c6 wrong here, 5.2 x its limit" in found["Wrong"]["texts"]
    assert f"row rule: {verdict.replace('_', ' ')}" in found["Wrong"]["texts"]
    assert found["Wrong"]["ink"] == {"#ffffff"}


def test_healthy_operators_look_healthy_whatever_the_row_rule_says(tmp_path: Path) -> None:
    found = boxes(neighbourhood(tmp_path, "fail", excess=5.2))
    assert found["Healthy"]["stroke"] == found["Fine"]["stroke"]
    assert {"\u25cf fine", "row rule: fail"} <= set(found["Healthy"]["texts"])
    blue = [int(found[name]["fill"][5:7], 16) - int(found[name]["fill"][1:3], 16) for name in ("Healthy", "Fine")]
    assert min(blue) > 0
    assert int(found["Carrier"]["fill"][1:3], 16) > int(found["Carrier"]["fill"][5:7], 16)  # amber
    assert "\u21b3 carries it on" in found["Carrier"]["texts"]


def test_what_was_not_compared_is_dashed_and_the_node_asked_for_has_a_second_border(tmp_path: Path) -> None:
    found = boxes(neighbourhood(tmp_path, "fail"))
    assert {name for name in found if "stroke-dasharray" in found[name]} == {"Apart", "Plain"}
    assert {name for name in found if found[name]["rects"] == 2} == {"Carrier"}


def test_graphviz_gets_the_same_colours(tmp_path: Path) -> None:
    graph = neighbourhood(tmp_path, "pass", excess=1.5)
    fills = re.findall(r'tooltip="(\w+) .*? fillcolor="(#\w+)"', dot_text(graph))
    assert dict(fills) == {name: box["fill"] for name, box in boxes(graph).items()}
    assert re.search(r'tooltip="Carrier .*peripheries=2', dot_text(graph))


def test_the_larger_the_unexplained_error_the_darker_the_origin(tmp_path: Path) -> None:
    sizes = [
        boxes(neighbourhood(tmp_path / str(excess), "fail", excess=excess))["Wrong"] for excess in (1.5, 5.0, 50.0)
    ]
    assert [brightness(box["fill"]) for box in sizes] == sorted(
        (brightness(box["fill"]) for box in sizes), reverse=True
    )
    assert len({box["fill"] for box in sizes}) == 3
