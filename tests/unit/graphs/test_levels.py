"""Overflow levels of nodes, by our rules and by those of msprobe."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from probe_flow.graphs.levels import overflow_levels
from probe_flow.records.levels import Level
from probe_flow.records.model_graph import GraphLayout
from tests.support.graph_trees import entry, graph_of, tensor, write_dump

OWN, PEER = GraphLayout.OWN, GraphLayout.MSPROBE_VIS_DB
BAD = tensor(math.nan, math.nan, math.nan)
INF = tensor(-1.0, math.inf, math.inf)
CALL = "Functional.linear.0.forward"


def level(
    folder: Path, read: list[Any], given: list[Any], name: str = CALL, layout: GraphLayout = OWN, **head: Any
) -> Level | None:
    """Return the level of one call in a module."""
    module = "Module.net.Net.forward.0"
    graph = graph_of(write_dump(folder, {module: None, name: module}, {name: entry(name, read, given)}, **head), layout)
    return overflow_levels(graph).get(graph.numbers[name])


@pytest.mark.parametrize("layout", [OWN, PEER])
@pytest.mark.parametrize(
    ("read", "given", "expected"),
    [
        ([tensor()], [BAD], Level.CRITICAL),
        ([BAD], [BAD], Level.HIGH),
        ([BAD], [tensor()], Level.MEDIUM),
        ([tensor(norm=1.0)], [tensor(norm=100.5)], Level.HIGH),
        ([tensor(norm=1.0)], [tensor(norm=100.0)], None),
        ([tensor(norm=0.0)], [tensor(norm=101.0)], Level.HIGH),
        ([tensor(norm=0.0)], [tensor(norm=99.0)], None),
        ([], [tensor(norm=1e9)], None),
        ([tensor()], [], None),
        ([[tensor(), BAD]], [tensor()], Level.MEDIUM),
    ],
)
def test_levels(tmp_path: Path, layout: GraphLayout, read: list[Any], given: list[Any], expected: Level | None) -> None:
    assert level(tmp_path, read, given, layout=layout) is expected


@pytest.mark.parametrize(("layout", "expected"), [(OWN, Level.CRITICAL), (PEER, None)])
def test_a_norm_that_is_infinite_counts(tmp_path: Path, layout: GraphLayout, expected: Level | None) -> None:
    wide = tensor(norm=math.inf)
    assert level(tmp_path, [tensor(norm=math.inf)] if layout is PEER else [tensor()], [wide], layout=layout) is expected


@pytest.mark.parametrize(("layout", "expected"), [(OWN, Level.HIGH), (PEER, None)])
def test_norms_of_mindspore_count(tmp_path: Path, layout: GraphLayout, expected: Level | None) -> None:
    grown = [tensor(norm=norm, type="mindspore.Tensor", dtype="Float32") for norm in (1.0, 500.0)]
    assert level(tmp_path, grown[:1], grown[1:], layout=layout, framework="mindspore") is expected


@pytest.mark.parametrize(("layout", "expected"), [(OWN, Level.HIGH), (PEER, Level.CRITICAL)])
def test_parameters_are_read(tmp_path: Path, layout: GraphLayout, expected: Level) -> None:
    name = "Module.fc.Linear.forward.0"
    values = {name: {**entry(name, [tensor()], [BAD]), "parameters": {"weight": BAD}}}
    graph = graph_of(write_dump(tmp_path, {name: None}, values), layout)
    assert overflow_levels(graph)[graph.numbers[name]] is expected


def test_gradients_blame_themselves_only_where_the_backward_call_is_clean(tmp_path: Path) -> None:
    levels = {}
    for word, read in (("clean", tensor()), ("bad", BAD)):
        back, grads = "Module.fc.Linear.backward.0", "Module.fc.Linear.parameters_grad.0"
        values = {back: entry(back, [read], [tensor()]), grads: {"weight": [BAD]}}
        graph = graph_of(write_dump(tmp_path / word, {back: None}, values))
        levels[word] = overflow_levels(graph)[graph.numbers[grads]]
    assert levels == {"clean": Level.CRITICAL, "bad": Level.HIGH}


@pytest.mark.parametrize("layout", [OWN, PEER])
@pytest.mark.parametrize("name", ["Torch.empty.0.forward", "Torch.empty_like.0.forward"])
def test_memory_that_was_handed_out_is_no_overflow(tmp_path: Path, layout: GraphLayout, name: str) -> None:
    assert level(tmp_path, [tensor()], [BAD], name, layout) is None


@pytest.mark.parametrize(("layout", "expected"), [(OWN, Level.CRITICAL), (PEER, None)])
def test_a_buffer_that_is_overwritten_is_no_input(tmp_path: Path, layout: GraphLayout, expected: Level | None) -> None:
    assert level(tmp_path, [BAD], [BAD], "Distributed.recv.0.forward", layout) is expected


@pytest.mark.parametrize("layout", [OWN, PEER])
def test_a_mask_writes_infinity_on_purpose(tmp_path: Path, layout: GraphLayout) -> None:
    assert level(tmp_path, [tensor(), tensor()], [INF], "Tensor.masked_fill_.0.forward", layout) is None


def test_a_mask_that_makes_nan_is_told(tmp_path: Path) -> None:
    assert level(tmp_path, [tensor(), tensor()], [BAD], "Tensor.masked_fill_.0.forward") is Level.CRITICAL


def test_what_lies_around_a_node_has_its_level_in_our_layout(tmp_path: Path) -> None:
    module, other = "Module.net.Net.forward.0", "Module.other.Other.forward.0"
    values = {CALL: entry(CALL, [tensor()], [BAD]), module: entry(module, [BAD], [tensor()])}
    folder = write_dump(tmp_path, {other: None, module: None, CALL: module}, values)
    graph = graph_of(folder)
    found = {graph.nodes[number].name: level for number, level in overflow_levels(graph).items()}
    assert found == {CALL: Level.CRITICAL, module: Level.CRITICAL, "DefaultModel": Level.CRITICAL}
    peer = graph_of(folder, PEER)
    assert overflow_levels(peer) == {peer.numbers[CALL]: Level.CRITICAL, peer.numbers[module]: Level.MEDIUM}
