"""Calls that stack.json and construct.json name although a dump.json has no entry of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.selection import Selection
from probe_flow.records import Catalog, Node

LINEAR, RELU = "Functional.linear.0", "Functional.relu.0"
BOTH = [f"{call}.{direction}" for direction in ("forward", "backward") for call in (LINEAR, RELU)]
FORWARD = [entry for entry in BOTH if entry.endswith("forward")]
MODULE = "Module.net.Net"


def tensor(**more: Any) -> dict[str, Any]:
    return {
        "type": "torch.Tensor", "dtype": "torch.float32", "shape": [2],
        "Max": 2.0, "Min": -1.0, "Mean": 0.5, "Norm": 2.5, "requires_grad": True, **more,
    }  # fmt: skip


def write(
    folder: Path,
    entries: Iterable[str],
    *,
    taken: Iterable[str] | None = FORWARD,
    calls: Mapping[str, str | None] | Iterable[str] = BOTH,
    task: str = "statistics",
    **more: Any,
) -> Path:
    """Write a dump with these entries, calls in stack.json (None: no such file) and calls in construct.json."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {}
    for entry in entries:
        key = "input" if "backward" in entry else "input_args"
        data[entry] = {key: [tensor(**more)], "output": [tensor(**more)]}
    top = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(top))
    if taken is not None:
        (folder / "stack.json").write_text(json.dumps({"0": [list(taken), ["File model.py, line 1, in forward"]]}))
    tree = calls if isinstance(calls, Mapping) else dict.fromkeys(calls)
    (folder / "construct.json").write_text(json.dumps(tree))
    return folder


def lost(folder: Path, **select: Any) -> dict[str, str]:
    calls = lost_calls(read_dump_json(folder, side="target", select=Selection(**select)))
    return {str(node.attributes["entry"]): str(node.attributes["evidence"]) for node in calls}


def lost_calls(catalog: Catalog) -> list[Node]:
    return [node for node in catalog.undumped if "evidence" in node.attributes]


def test_a_dump_of_all_calls_lost_none(tmp_path: Path) -> None:
    assert lost(write(tmp_path, BOTH)) == {}


def test_a_call_of_the_stack_file_without_entry_was_lost(tmp_path: Path) -> None:
    assert lost(write(tmp_path, [entry for entry in BOTH if entry != f"{RELU}.forward"])) == {
        f"{RELU}.forward": "stack"
    }


def test_a_lost_call_is_a_node_with_its_caller(tmp_path: Path) -> None:
    calls = {**dict.fromkeys(BOTH), f"{RELU}.forward": f"{MODULE}.forward.0"}
    folder = write(tmp_path / "step2" / "rank3", [BOTH[0], *BOTH[2:]], calls=calls)

    (node,) = lost_calls(read_dump_json(folder.parents[1], side="target"))

    assert (node.key.execution.step, node.key.execution.rank) == (2, 3)
    assert (node.key.name, node.key.call, node.key.phase.value) == ("Functional.relu", 0, "forward")
    assert (node.op_type, node.parent) == ("relu", MODULE)


def test_a_backward_call_of_the_call_tree_without_entry_was_lost(tmp_path: Path) -> None:
    assert lost(write(tmp_path, BOTH[:-1])) == {f"{RELU}.backward": "calls"}


def test_stack_files_of_the_earlier_form_tell_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path, BOTH[1:])
    (folder / "stack.json").write_text(json.dumps({entry: ["File model.py, line 1"] for entry in FORWARD}))

    assert lost(folder) == {f"{LINEAR}.forward": "stack"}


@pytest.mark.parametrize(
    ("entries", "taken", "calls"),
    [
        pytest.param(BOTH[:1], None, BOTH, id="no stack file"),
        pytest.param([*BOTH[2:]], FORWARD, BOTH, id="backward direction only"),
        pytest.param(FORWARD, FORWARD, BOTH, id="forward direction only"),
        pytest.param(BOTH[::2], FORWARD[:1], BOTH, id="an API that the level of risk leaves out"),
        pytest.param(
            [*BOTH[:3]], FORWARD, [*BOTH, "Functional.relu.1.forward", "Functional.relu.1.backward"], id="list of calls"
        ),
        pytest.param(BOTH[:3], FORWARD, [*BOTH, f"{MODULE}.forward.0", f"{MODULE}.backward.0"], id="scope"),
        pytest.param(BOTH, FORWARD, [*BOTH, "optimizer", f"{MODULE}.parameters_grad.0"], id="no calls"),
        pytest.param([f"{MODULE}.forward.0"], [f"{MODULE}.forward.0"], {}, id="level L1: no call tree"),
    ],
)
def test_what_settings_leave_out_was_not_lost(
    tmp_path: Path, entries: list[str], taken: list[str] | None, calls: list[str]
) -> None:
    assert lost(write(tmp_path, entries, taken=taken, calls=calls)) == {}


IN_PLACE: Mapping[str, str | None] = {
    "Module.net.Net.forward.0": None,
    "Module.net.fc.Linear.forward.0": "Module.net.Net.forward.0",
    "Module.net.relu.ReLU.forward.0": "Module.net.Net.forward.0",
    "Module.net.Net.backward.0": None,
    "Module.net.relu.ReLU.backward.0": "Module.net.Net.backward.0",
    "Module.net.fc.Linear.backward.0": "Module.net.relu.ReLU.backward.0",
}
"""What mindstudio-probe 26.2.0 writes of a linear layer and a ReLU in place, whose backward call has no entry."""


def test_a_backward_call_whose_end_the_collector_never_saw_was_not_lost(tmp_path: Path) -> None:
    taken = [entry for entry in IN_PLACE if "forward" in entry]
    entries = [entry for entry in IN_PLACE if entry != "Module.net.relu.ReLU.backward.0"]
    assert lost(write(tmp_path / "in place", entries, taken=taken, calls=IN_PLACE)) == {}

    ended = {**IN_PLACE, "Module.net.fc.Linear.backward.0": "Module.net.Net.backward.0"}
    assert lost(write(tmp_path / "lost", entries, taken=taken, calls=ended)) == {
        "Module.net.relu.ReLU.backward.0": "calls"
    }


def test_other_tasks_write_entries_of_some_calls_only(tmp_path: Path) -> None:
    assert lost(write(tmp_path, BOTH[:1], task="nan_check")) == {}


def test_a_tensor_dump_against_an_earlier_dump_may_stop_early(tmp_path: Path) -> None:
    assert lost(write(tmp_path / "one", BOTH[1:], task="tensor")) != {}
    assert lost(write(tmp_path / "two", BOTH[1:], task="tensor", md5="00ff00ff")) == {}


def test_calls_that_are_not_selected_were_not_lost(tmp_path: Path) -> None:
    write(tmp_path, [BOTH[0], *BOTH[2:]])

    assert lost(tmp_path, nodes=["Functional.linear"]) == {}
    assert lost(tmp_path, nodes=["Functional.*"]) == {f"{RELU}.forward": "stack"}


def test_an_entry_that_could_not_be_read_was_not_lost(tmp_path: Path) -> None:
    write(tmp_path, BOTH)
    file = tmp_path / "dump.json"
    content = json.loads(file.read_text())
    content["data"][f"{RELU}.forward"] = 5
    file.write_text(json.dumps(content))

    assert lost(tmp_path) == {}


def test_calls_that_construct_json_alone_names_are_known_with_their_callers_and_place(tmp_path: Path) -> None:
    """Left out by the level of risk or a list: construct.json names them in the order in which they began."""
    block, view, add = f"{MODULE}.forward.0", "Tensor.view.0.forward", "Tensor.add.0.forward"
    last = "Tensor.sum.0.forward"
    calls = {
        view: block,
        block: ["Module.outer.Outer.forward.1", 3],
        f"{LINEAR}.forward": block,
        add: block,
        last: None,
    }
    folder = write(tmp_path / "rank2", [f"{LINEAR}.forward", add], calls=calls, taken=None)

    catalog = read_dump_json(folder, side="target")

    assert [node.entry for node in catalog.nodes.values()] == [f"{LINEAR}.forward", add]
    found = {node.entry: (node.order, node.caller) for node in catalog.undumped}
    # The order is that of the dumped call that ended next; behind all, that of one more.
    assert found == {view: (0, block), block: (2, "Module.outer.Outer.forward.1"), last: (2, None)}
    (module,) = (node for node in catalog.undumped if node.entry == block)
    assert (module.key.name, module.key.execution.rank, module.attributes["micro_step"]) == (MODULE, 2, 3)


def test_a_selection_of_nodes_holds_for_calls_without_entry_too(tmp_path: Path) -> None:
    write(tmp_path, BOTH[:1], taken=None)
    catalog = read_dump_json(tmp_path, side="target", select=Selection(nodes=["Functional.l*"]))
    assert [node.entry for node in catalog.undumped] == [f"{LINEAR}.backward"]
