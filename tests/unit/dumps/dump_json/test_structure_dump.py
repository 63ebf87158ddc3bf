"""Dumps of task ``structure``: no entries, their calls are those of construct.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.selection import Selection
from probe_flow.errors import IncompleteError, UsageError
from probe_flow.records import Catalog, Phase, Slot, SlotRole, TensorKind
from probe_flow.relations.call_tree import ROOT, call_trees

BLOCK, NORM = "Module.block.Block.forward.0", "Module.block.norm.LayerNorm.forward.0"
THE_CALL = Slot(SlotRole.CALL, ())
CALLS: dict[str, Any] = {
    # As collectors write it: a call of an API, then the modules around it, from the outermost on.
    "Functional.layer_norm.0.forward": NORM,
    BLOCK: None,
    NORM: BLOCK,
    "Tensor.__add__.0.forward": BLOCK,
    "Tensor.__add__.0.backward": "Module.block.Block.backward.0",
    "Module.block.Block.backward.0": None,
}


def write(folder: Path, calls: object = CALLS, *, level: str = "mix", data: Mapping[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    top = {"task": "structure", "level": level, "framework": "pytorch", "dump_data_dir": None, "data": data or {}}
    (folder / "dump.json").write_text(json.dumps(top))
    if calls is not None:
        (folder / "construct.json").write_text(calls if isinstance(calls, str) else json.dumps(calls))
    return folder


def read(path: Path, **select: Any) -> Catalog:
    return read_dump_json(path, side="target", select=Selection(**select))


def entries(catalog: Catalog) -> list[str | None]:
    return [node.entry for node in catalog.nodes.values()]


def codes(catalog: Catalog) -> list[str]:
    return [problem.code for problem in catalog.problems]


def test_calls_come_as_they_ended_which_is_the_order_of_other_dumps(tmp_path: Path) -> None:
    catalog = read(write(tmp_path))
    assert entries(catalog) == [
        "Functional.layer_norm.0.forward",
        NORM,
        "Tensor.__add__.0.forward",
        BLOCK,
        "Tensor.__add__.0.backward",
        "Module.block.Block.backward.0",
    ]
    assert [node.order for node in catalog.nodes.values()] == list(range(6))
    assert [node.op_type for node in catalog.nodes.values()][:2] == ["layer_norm", "LayerNorm"]
    assert (catalog.task, catalog.attrs["task"], catalog.attrs["level"]) == ("structure", "structure", "mix")
    assert catalog.problems == catalog.undumped == ()


def test_each_call_has_itself_in_place_of_tensors(tmp_path: Path) -> None:
    catalog = read(write(tmp_path / "rank3"))
    assert [tensor.node for tensor in catalog.tensors] == list(catalog.nodes)
    for tensor, node in zip(catalog.tensors, catalog.nodes.values(), strict=True):
        assert (tensor.slot, tensor.kind, tensor.extents, tensor.recorded) == (THE_CALL, TensorKind.OPAQUE, (), None)
        assert tensor.item == node.entry
        assert tensor.source == str(tmp_path / "rank3" / "construct.json")
    assert str(THE_CALL) == "call"
    assert catalog.tensors[4].id == "Tensor.__add__.backward.call"


def test_the_call_tree_is_that_of_the_file(tmp_path: Path) -> None:
    (tree,) = call_trees(read(write(tmp_path))).values()
    known = [call.entry for call in tree.calls]
    found = {known[n]: known[caller] if caller != ROOT else None for n, caller in enumerate(tree.callers)}
    assert found == CALLS
    assert tree.dumped == len(CALLS)


def test_micro_steps_and_unknown_parents_are_kept(tmp_path: Path) -> None:
    calls = {"megatron_micro_step_number": 1, "Torch.add.0.forward": ["optimizer", 1], "Torch.mul.0.forward": [None, 0]}
    catalog = read(write(tmp_path, calls))
    assert [node.attributes.get("micro_step") for node in catalog.nodes.values()] == [1, 0]
    (tree,) = call_trees(catalog).values()
    assert [call.entry for call in tree.calls] == ["Torch.add.0.forward", "Torch.mul.0.forward", "optimizer"]
    assert list(tree.callers) == [2, ROOT, ROOT]


def test_steps_and_ranks_are_executions_of_their_own(tmp_path: Path) -> None:
    for step in range(2):
        for rank in range(2):
            write(tmp_path / f"step{step}" / f"rank{rank}")
    catalog = read(tmp_path)
    assert [(run.step, run.rank) for run in catalog.executions] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(catalog.nodes) == 4 * len(CALLS)
    assert [node.order for node in catalog.nodes.values()] == list(range(4 * len(CALLS)))
    assert len(read(tmp_path, steps=[1], ranks=[0]).nodes) == len(CALLS)


def test_nodes_are_selected_by_name(tmp_path: Path) -> None:
    write(tmp_path)
    assert entries(read(tmp_path, nodes=["Tensor.*"])) == ["Tensor.__add__.0.forward", "Tensor.__add__.0.backward"]
    with pytest.raises(UsageError) as caught:
        read(tmp_path, nodes=["Nothing.*"])
    assert caught.value.diagnostics[0].code == "PF3404"


@pytest.mark.parametrize(
    ("calls", "warning"),
    [
        (None, []),
        ("{}", []),
        ('{"megatron_micro_step_number": 2}', []),
        ("", ["PF3413"]),
        (json.dumps(CALLS)[:70], ["PF3413"]),
        ("[1]", ["PF3413"]),
    ],
)
def test_without_a_call_in_construct_json_the_dump_is_empty(
    tmp_path: Path, calls: str | None, warning: list[str]
) -> None:
    with pytest.raises(IncompleteError) as caught:
        read(write(tmp_path, calls))
    first, *others = caught.value.diagnostics
    assert first.code == "PF3402"
    assert first.message == "`dump.json` holds no entry, and `construct.json` next to it is missing or names no call"
    assert "level mix or L0" in str(first.help)
    assert [each.code for each in others] == warning


def test_a_circle_is_cut_and_named(tmp_path: Path) -> None:
    a, b, c = (f"Module.{name}.M.forward.0" for name in "abc")
    catalog = read(write(tmp_path, {a: b, b: c, c: a, "Torch.abs.0.forward": c}))
    (problem,) = catalog.problems
    assert (problem.code, "its own ancestor" in problem.message) == ("PF3413", True)
    (tree,) = call_trees(catalog).values()
    assert sorted(str(call.entry) for call in tree.calls) == sorted([a, b, c, "Torch.abs.0.forward"])
    assert list(tree.callers).count(ROOT) == 1


def test_a_parent_that_is_no_name_costs_the_parent_not_the_call(tmp_path: Path) -> None:
    calls = {"Torch.a.0.forward": 3, "Torch.b.0.forward": ["x"], "Torch.c.0.forward": {}, "Torch.d.0.forward": [4, 1]}
    catalog = read(write(tmp_path, calls))
    assert entries(catalog) == list(calls)
    assert [node.caller for node in catalog.nodes.values()] == [None] * 4
    assert codes(catalog) == ["PF3413"] * 4


def test_names_that_follow_no_grammar_and_names_of_one_call(tmp_path: Path) -> None:
    names = ["Torch.add.0.forward", "Torch.add.00.forward", "optimizer", "=cmd()", ""]
    catalog = read(write(tmp_path, dict.fromkeys(names)))
    assert entries(catalog) == ["Torch.add.0.forward", "optimizer", "=cmd()", ""]
    assert [node.key.phase for node in catalog.nodes.values()] == [Phase.FORWARD, Phase.NONE, Phase.NONE, Phase.NONE]
    assert sorted(codes(catalog)) == ["PF3410", "PF3410", "PF3412"]
    assert not any("optimizer" in problem.message for problem in catalog.problems), "collectors name its step so"


def test_a_structure_dump_with_entries_is_read_by_its_entries(tmp_path: Path) -> None:
    entry = {"input_args": [], "input_kwargs": {}, "output": [{"type": "int", "value": 1}]}
    catalog = read(write(tmp_path, data={"Tensor.__add__.0.forward": entry}))
    assert entries(catalog) == ["Tensor.__add__.0.forward"]
    assert catalog.task == "statistics"
    assert len(catalog.undumped) == len(CALLS) - 1


NAMES = [f"Module.m{number}.M.forward.0" for number in range(6)]
VALUES = st.none() | st.sampled_from(NAMES) | st.integers() | st.tuples(st.sampled_from(NAMES), st.integers(0, 3))


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1))
def test_whatever_construct_json_says_each_call_is_there_once_after_what_it_made(
    tmp_path_factory: pytest.TempPathFactory, calls: dict[str, object]
) -> None:
    catalog = read(write(tmp_path_factory.mktemp("structure"), calls))
    assert sorted(map(str, entries(catalog))) == sorted(calls)
    (tree,) = call_trees(catalog).values()
    for number in range(tree.dumped):
        around = list(tree.around(number))
        assert around == sorted(set(around), key=around.index)
        assert all(caller > number for caller in around)


def test_a_call_that_stands_there_twice_is_named(tmp_path: Path) -> None:
    a, b = "Module.a.M.forward.0", "Module.b.M.forward.0"
    catalog = read(write(tmp_path, f'{{"{a}": null, "{b}": null, "{b}": "{a}"}}'))
    (problem,) = catalog.problems
    assert (problem.code, f"`{b}` stands there twice" in problem.message) == ("PF3413", True)
    assert [node.name for node in catalog.nodes] == ["Module.b.M", "Module.a.M"]  # b ended first: a called it
