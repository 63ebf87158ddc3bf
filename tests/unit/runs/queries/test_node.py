from __future__ import annotations

import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_runs import node, row, write_run

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.record.run_folder import read_run
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Phase
from probe_flow.runs.draw.dot import dot_text
from probe_flow.runs.draw.svg import drawn_in_layers
from probe_flow.runs.queries.answers_node import node_lines
from probe_flow.runs.queries.base import Identity, Scope
from probe_flow.runs.queries.node import judgement, node_view
from probe_flow.runs.queries.stored_nodes import StoredNode, StoredNodes
from probe_flow.runs.queries.subgraph import Shown, Subgraph, subgraph


def diamond(tmp_path):
    """In -> (Left, Right) -> Join -> Out, and Aside that In feeds too."""
    nodes = [
        node("In_1", 0),
        node("Left_1", 1, (0, "In_1", 0)),
        node("Right_1", 2, (0, "In_1", 0)),
        node("Join_1", 3, (0, "Left_1", 0), (1, "Right_1", 0), originals=["a", "b"], passes=["AddFusionPass"]),
        node("Out_1", 4, (0, "Join_1", 0)),
        node("Aside_1", 5, (0, "In_1", 0)),
        node("g_Join_1", 3, side="golden"),
    ]
    rows = [
        row(0, "Left_1"),
        row(1, "Join_1", "input", verdict="pass"),
        row(2, "Join_1", verdict="fail", role="origin", reason="too far"),
        row(3, "Out_1", verdict="warning", role="inherited"),
    ]
    return read_run(write_run(tmp_path / "run", rows, nodes))


def text(run, wanted, *, depth=0, attrs=False, scope=Scope()):  # noqa: B008
    return "\n".join(
        node_lines(node_view(run, StoredNodes(run), wanted, depth=depth, scope=scope), has_attributes=attrs)
    )


def test_a_node_is_told_with_its_neighbours_and_their_verdicts(tmp_path):
    answer = node_view(diamond(tmp_path), StoredNodes(diamond(tmp_path)), "Join_1")
    (view,) = answer.views
    assert view.judgement == ("fail", "origin")
    assert [(link.input, link.node.name, judged[0]) for link, judged in view.producers] == [
        (0, "Left_1", "pass"),
        (1, "Right_1", None),
    ]
    assert [(link.node.name, judged) for link, judged in view.consumers] == [("Out_1", ("warning", "inherited"))]
    assert [each.order for each in view.rows] == [1, 2]
    shown = text(diamond(tmp_path), "Join_1")
    assert "originals    a, b" in shown
    assert "passes       AddFusionPass" in shown
    assert "fed by       input 0 <- Left_1 (Left) output 0  [row rule: pass]" in shown


def test_a_golden_node_has_the_rows_of_its_golden_tensors(tmp_path):
    run = diamond(tmp_path)
    (view,) = node_view(run, StoredNodes(run), "g_Join_1").views
    assert view.node.side == "golden"
    assert [each.order for each in view.rows] == [1, 2]


def test_a_name_in_several_executions_is_narrowed_by_its_place(tmp_path):
    nodes = [node("Add_1", 0, rank=rank) for rank in range(6)]
    run = read_run(write_run(tmp_path / "run", [row(0, "Add_1", rank=5, verdict="fail")], nodes))
    answer = node_view(run, StoredNodes(run), "Add_1")
    assert (answer.matching, len(answer.views)) == (6, 4)
    (view,) = node_view(run, StoredNodes(run), "Add_1", scope=Scope(rank=5)).views
    assert view.judgement[0] == "fail"
    assert "2 more nodes of these names, in other executions" in text(run, "Add_1")


def test_a_node_is_found_by_the_name_that_the_dump_has(tmp_path):
    nodes = [{**node("Functional.linear", 0, call=3), "name": "Functional.linear.3.forward"}]
    run = read_run(write_run(tmp_path / "run", [], nodes))
    for wanted in ("Functional.linear.3.forward", "Functional.linear#3", "Functional_linear"):
        assert node_view(run, StoredNodes(run), wanted).views[0].node.title == "Functional.linear#3"
    with pytest.raises(UsageError):
        node_view(run, StoredNodes(run), "Functional.linear.4.backward")


def test_attributes_are_named_or_told(tmp_path):
    nodes = [node("A_1", 0, attributes={"kernel": "k\x1b[31m", "sizes": [1, 2]})]
    run = read_run(write_run(tmp_path / "run", [], nodes))
    assert "attributes   kernel, sizes" in text(run, "A_1")
    full = text(run, "A_1", attrs=True)
    assert "kernel: k\\x1b[31m" in full
    assert "sizes: [1, 2]" in full


def test_an_excuse_is_told_beside_the_reason(tmp_path):
    rows = [row(0, "A_1", verdict="fail", reason="too far", waived="known since May")]
    run = read_run(write_run(tmp_path / "run", rows, [node("A_1", 0)]))
    shown = text(run, "A_1")
    assert "    - too far" in shown
    assert "    - waived: known since May" in shown


def test_frames_of_installed_packages_give_way_to_the_users(tmp_path):
    stack = [f"File site-packages/torch/m{place}.py, line 1" for place in range(9)] + ["File train.py, line 7, in step"]
    run = read_run(write_run(tmp_path / "run", [], [node("A_1", 0, stack=stack)]))
    shown = text(run, "A_1")
    assert "File train.py, line 7, in step" in shown
    assert "(9 frames of installed packages left out)" in shown


@pytest.mark.parametrize(
    ("verdicts", "found"),
    [
        (["pass", "fail", "warning"], "fail"),
        (["pass", "skipped"], "pass"),
        (["unmatched_golden", "pass"], "pass"),
    ],
)
def test_the_worst_verdict_stands_for_a_node(verdicts, found):
    assert judgement(Reader(RowRecord).convert(row(0, "A", verdict=verdict)) for verdict in verdicts) == (found, None)


@pytest.mark.parametrize(
    ("depth", "found"),
    [
        (0, {"Join_1": 0}),
        (1, {"Join_1": 0, "Left_1": -1, "Right_1": -1, "Out_1": 1}),
        (9, {"Join_1": 0, "Left_1": -1, "Right_1": -1, "Out_1": 1, "In_1": -2}),
    ],
)
def test_a_neighbourhood_goes_up_and_down_and_not_aside(tmp_path, depth, found):
    run = diamond(tmp_path)
    nodes = StoredNodes(run)
    graph = subgraph(nodes, nodes.find("Join_1")[1][0], depth=depth)
    assert {shown.node.name: shown.distance for shown in graph.nodes} == found
    assert graph.left_out == 0


def test_a_neighbourhood_has_every_edge_between_its_nodes(tmp_path):
    nodes = StoredNodes(diamond(tmp_path))
    graph = subgraph(nodes, nodes.find("Join_1")[1][0], depth=2)
    names = [shown.node.name for shown in graph.nodes]
    assert {(names[edge.producer], names[edge.consumer], edge.input) for edge in graph.edges} == {
        ("In_1", "Left_1", 0),
        ("In_1", "Right_1", 0),
        ("Left_1", "Join_1", 0),
        ("Right_1", "Join_1", 1),
        ("Join_1", "Out_1", 0),
    }


def test_a_wide_graph_costs_each_node_once_and_stops_at_the_cap(tmp_path):
    # 30 layers of 2 nodes, each fed by both of the layer above: 2 ** 30 ways, 60 nodes.
    layers = 30
    nodes = [node(f"N{layer}x{n}_1", 2 * layer + n, *[(k, f"N{layer - 1}x{k}_1", 0) for k in range(2) if layer])
             for layer in range(layers) for n in range(2)]  # fmt: skip
    run = read_run(write_run(tmp_path / "run", [], nodes))
    stored = StoredNodes(run)
    root = stored.find(f"N{layers - 1}x0_1")[1][0]
    whole = subgraph(stored, root, depth=100)
    assert len(whole.nodes) == 2 * layers - 1
    capped = subgraph(stored, root, depth=100, cap=10)
    assert len(capped.nodes) == 10
    assert capped.left_out > 0
    assert "left out" in drawn_in_layers(capped)


def test_a_circle_ends(tmp_path):
    nodes = [node("A_1", 0, (0, "C_1", 0)), node("B_1", 1, (0, "A_1", 0)), node("C_1", 2, (0, "B_1", 0), (1, "C_1", 0))]
    stored = StoredNodes(read_run(write_run(tmp_path / "run", [], nodes)))
    graph = subgraph(stored, stored.find("A_1")[1][0], depth=50)
    assert len(graph.nodes) == 3
    assert ElementTree.fromstring(drawn_in_layers(graph)) is not None


@pytest.mark.parametrize(
    "edge", [{"input": 0, "producer": "A_1", "call": [], "phase": "forward", "output": 0}, {"producer": 3}, 7]
)
def test_an_edge_of_another_form_is_named(tmp_path, edge):
    run = read_run(write_run(tmp_path / "run", [], [node("A_1", 0), node("B_1", 1, edges=[edge])]))
    with pytest.raises(IncompleteError) as caught:
        StoredNodes(run)
    assert caught.value.diagnostic.code == "PF7204"
    assert "line 2 is no record of a node: `edges[0]" in caught.value.diagnostic.message


def test_an_edge_from_a_node_without_a_record_leads_nowhere(tmp_path):
    stored = StoredNodes(read_run(write_run(tmp_path / "run", [], [node("B_1", 0, (0, "gone_1", 0))])))
    assert stored.producers(stored.find("B_1")[1][0]) == []


def test_neighbours_in_time_are_found_without_a_search(tmp_path, monkeypatch):
    nodes = [node("Cell", 0), *(node(f"N_{n}", n + 1, parent="Cell") for n in range(50))]
    stored = StoredNodes(read_run(write_run(tmp_path / "run", [], nodes)))
    every = list(stored)
    with monkeypatch.context() as patch:
        patch.setattr(StoredNode, "__eq__", lambda *_: pytest.fail("nodes are compared one by one"))
        beside = [[other and other.name for other in stored.beside(each)] for each in every]
        held = [each.name for each in stored.children(every[0])]
    assert beside[1] == ["Cell", "N_1"]
    assert beside[50] == ["N_48", None]
    assert held == [f"N_{n}" for n in range(50)]


def drawn(names):
    shown = tuple(
        Shown(
            StoredNode(
                line=place,
                side="target",
                known=Identity(None, 0, 1, 0, name, 0, Phase.FORWARD),
                name=name,
                op_type="Add",
                order=place,
                parent=None,
                flows=(),
                passes=(),
                kernel="",
                stack=None,
            ),
            place,
        )
        for place, name in enumerate(names)
    )
    return Subgraph(shown, (), 0, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=4))
def test_no_name_breaks_a_drawing(names):
    svg = drawn_in_layers(drawn(names))
    boxes = list(ElementTree.fromstring(svg.encode("utf-8", "replace")).iter("{http://www.w3.org/2000/svg}rect"))
    assert len(boxes) == 1 + len(names) + 1  # the background, the nodes, the second border of the first
    text = dot_text(drawn(names))
    for line in text.splitlines():
        unescaped = line.replace("\\\\", "").replace('\\"', "")
        assert unescaped.count('"') % 2 == 0
    assert len([line for line in text.splitlines() if line.startswith("  n") and "[label=" in line]) == len(names)


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graphviz_takes_what_is_written_for_it():
    ended = subprocess.run(
        ["dot", "-Tsvg"], input=dot_text(drawn(['a"b', "c{|}<d>", "\\n"])).encode(), capture_output=True
    )
    assert ended.returncode == 0
    ElementTree.fromstring(ended.stdout)
