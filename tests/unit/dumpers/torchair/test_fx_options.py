"""Which nodes, steps and values an FX dump takes."""

from __future__ import annotations

import json

import pytest

from probe_flow.dumpers.base.node_filter import NodeFilter
from probe_flow.dumpers.torchair.fx_options import FxDumpOptions


@pytest.mark.parametrize(
    ("nodes", "name", "taken"),
    [
        (NodeFilter(), "add_1", True),
        (NodeFilter(include=("ADD",)), "native_add_1", True),
        (NodeFilter(include=("add",)), "mm", False),
        (NodeFilter(include=("add*",)), "native_add_1", False),
        (NodeFilter(include=("mm", "add_?")), "add_1", True),
        (NodeFilter(include=("add",), exclude=("add_1",)), "add_1", False),
        (NodeFilter(types=("aten.add.*",)), "add_1", True),
        (NodeFilter(types=("mm",)), "add_1", False),
    ],
)
def test_filter_takes_nodes_by_patterns_and_parts_of_names(nodes: NodeFilter, name: str, *, taken: bool) -> None:
    assert nodes.takes(name, "aten.add.Tensor") is taken


def test_steps_are_all_unless_listed() -> None:
    assert FxDumpOptions().takes_step(7)
    assert FxDumpOptions(steps=(0, 2)).takes_step(2)
    assert not FxDumpOptions(steps=(0, 2)).takes_step(1)


def test_options_are_plain_values_in_the_manifest() -> None:
    options = FxDumpOptions(nodes=NodeFilter(include=("mm",)), steps=(0, 2))
    found = json.loads(json.dumps(options.to_dict()))
    assert found["nodes"]["include"] == ["mm"]
    assert (found["steps"], found["data"], found["precision"]) == ([0, 2], "tensor", None)
