"""Nodes: identity, also across processes; the names that the collectors' grammar gives, and the published facts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from msgspec.structs import replace

from probe_flow.records import (
    ArrayFacts,
    CallFacts,
    DeviceFacts,
    Execution,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    RuleFacts,
    entry_name,
)

RUN = Execution(rank=0)
KEY = NodeKey(Execution(0, 1), "MatMul_1", 2, Phase.BACKWARD)
LOOK_UP = (
    "import pickle, sys\n"
    "from probe_flow.records import Execution, NodeKey, Phase\n"
    "key = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
    "own = NodeKey(Execution(0, 1), 'MatMul_1', 2, Phase.BACKWARD)\n"
    "print({own: 'found'}.get(key))\n"
)


def test_equal_keys_are_one_key_of_a_dictionary() -> None:
    assert {KEY: 1}[NodeKey(Execution(0, 1), "MatMul_1", 2, Phase.BACKWARD)] == 1
    assert replace(KEY, call=3) != KEY
    assert replace(replace(KEY, call=3), call=2) == KEY


def test_a_key_is_found_in_a_process_that_hashes_text_in_another_way() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    found = subprocess.run(
        [sys.executable, "-c", LOOK_UP, pickle.dumps(KEY).hex()], env=environment, capture_output=True, text=True
    )

    assert found.stdout.strip() == "found", found.stderr


@pytest.mark.parametrize(
    ("kind", "name", "call", "phase", "entry"),
    [
        (NodeKind.API, "Functional.conv2d", 2, Phase.FORWARD, "Functional.conv2d.2.forward"),
        (NodeKind.API, "as.it.stands", 0, Phase.NONE, "as.it.stands"),
        (NodeKind.MODULE, "Module.fc.Linear", 3, Phase.BACKWARD, "Module.fc.Linear.backward.3"),
        (NodeKind.PARAMETERS_GRAD, "Cell.n.LN.parameters_grad", 1, Phase.NONE, "Cell.n.LN.parameters_grad.1"),
        (NodeKind.DEBUG, "y_grad", 4, Phase.NONE, "y_grad.4.debug"),
    ],
)
def test_an_entry_is_named_by_kind_call_and_direction(
    kind: NodeKind, name: str, call: int, phase: Phase, entry: str
) -> None:
    key = NodeKey(RUN, name, call, phase)
    assert entry_name(key, kind) == entry
    node = Node(key, "op", facts=CallFacts(kind))
    assert (node.entry, node.kind, node.caller) == (entry, kind, None)
    assert node.attributes == {"entry": entry, "kind": kind.value}


def test_an_entry_of_another_name_keeps_it() -> None:
    facts = CallFacts(NodeKind.API, "Module.a.A.forward.0", 2, entry="Torch.add.07.forward", evidence="stack")
    assert Node(NodeKey(RUN, "Torch.add", 7), "add", facts=facts).attributes == {
        "entry": "Torch.add.07.forward",
        "kind": "api",
        "parent_entry": "Module.a.A.forward.0",
        "micro_step": 2,
        "evidence": "stack",
    }


def test_a_device_file_of_the_usual_name_is_given_by_its_folder() -> None:
    key = NodeKey(RUN, "Add_2")
    assert Node(key, "Add", order=1706, facts=DeviceFacts("run/1/", 44, 6)).file == "run/1/Add.Add_2.44.6.1706"
    assert (
        Node(key, "Add", order=1706, facts=DeviceFacts("run/1/Add.Add_2.44.1706", 44)).file == "run/1/Add.Add_2.44.1706"
    )
    assert Node(key, "Add").file is None


def test_facts_of_a_device_file_are_published_where_there_are_any() -> None:
    key = NodeKey(RUN, "a/b")
    assert Node(key, "Add", facts=DeviceFacts("Add.a_b.1.2", None)).attributes == {
        "task_id": None,
        "file": "Add.a_b.1.2",
    }
    parts = DeviceFacts("f", 1, 0, graph_types=("Mul", "Add"), header_name="c", clean_name="a_b")
    assert Node(key, "Add", order=9, facts=parts).attributes == {
        "task_id": 1,
        "stream_id": 0,
        "file": "f",
        "header_name": "c",
        "graph_type": ["Mul", "Add"],
        "fx_tensors": [],
        "clean_name": "a_b",
        "timestamp": 9,
    }
    assert Node(key, "", order=5, facts=ArrayFacts("a_b")).attributes == {"clean_name": "a_b", "timestamp": 5}


def test_an_operator_without_file_says_so() -> None:
    rules = RuleFacts("a", 3, ("fuse",), (("_fe_imply_type", "2"),), is_inner=True, is_dumped=False, silent_outputs=2)
    node = Node(NodeKey(RUN, "a"), "Add", rules=rules)
    assert node.passes == ("fuse",)
    assert node.attributes == {
        "op": "a",
        "op_id": "3",
        "_fe_imply_type": "2",
        "inner": "yes",
        "dumped": False,
        "silent_outputs": 2,
    }
