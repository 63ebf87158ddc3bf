"""Run folders that somebody edited or a disk damaged: every question ends with an answer or a diagnostic."""

from __future__ import annotations

import random
from typing import Any

import pytest
from stored_runs import node, row, write_run

JUNK: list[Any] = [None, 5, -1.5, "x", [], {}, [1, {"a": 2}], {"a": [1]}, True, "nan", 10**400, "\udcff"]
QUESTIONS = [
    ["--origin"],
    ["--below", "cosine=0.5"],
    ["--node", "B_1", "--depth", "2", "--attrs", "--svg", "near.svg"],
    ["--node", "A"],
    ["--tensor", "B_1"],
    ["--unmatched", "--format", "json"],
    ["--node", "B_1", "--format", "json"],
    ["--verdict", "fail"],
    [],
]


def place(name: str) -> dict[str, Any]:
    return {
        "node": name, "op_type": "x", "rank": 0, "graph": 1, "step": 0, "call": 0, "phase": "forward",
        "direction": "output", "index": "0", "golden_node": None, "metrics": {}, "evidence": "e",
    }  # fmt: skip


def parts() -> dict[str, Any]:
    argument = {"direction": "input", "index": "0", "path": [0], "kind": "tensor", "dtype": "f", "shape": [2]}
    return {
        "rows": [
            row(0, "A_1"),
            row(1, "B_1", "input"),
            row(2, "B_1", cosine=0.1, verdict="fail", role="origin", reason="r"),
        ],
        "nodes": [
            node("A_1", 0, attributes={"entry": "A.0.forward"}, stack=["f"], originals=["a"], arguments=[argument]),
            node("B_1", 1, (0, "A_1", 0)),
        ],
        "details": [
            {"order": 2, "start": 0, "target": [1.0], "golden": [2.0], "edges": [0, 1.0, 2.0], "counts": [1, 0],
             "equal": 0}
        ],
        "record": {
            "first_divergence": place("B_1"), "findings": [place("B_1"), place("A_1")], "suspects": [place("B_1")],
            "coverage": {"target": {"tensors": 1}, "golden": {}}, "inputs": [{"stage": "target", "path": "/nowhere"}],
            "stages": [{"name": "target", "uses": "dump.npy"}],
        },
    }  # fmt: skip


def damaged(value: Any, chance: random.Random) -> Any:
    """Return a value with one thing somewhere in it replaced or taken away."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {name: each for name, each in value.items() if name != key}
        new = chance.choice(JUNK) if chance.random() < 0.4 else damaged(value[key], chance)
        return {**value, key: new}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], damaged(value[at], chance), *value[at + 1 :]]
    return chance.choice(JUNK)


@pytest.mark.parametrize("seed", range(12))
def test_every_question_ends_with_an_answer_or_a_diagnostic(probe_flow, tmp_path, seed):
    chance = random.Random(seed)
    for number, (name, whole) in enumerate(parts().items()):
        broken = damaged(whole, chance)
        if not isinstance(broken, type(whole)):
            continue
        given = {**parts(), name: broken}
        folder = tmp_path / f"run{number}"
        write_run(folder, given["rows"], given["nodes"], given["details"], **given["record"])
        for question in QUESTIONS:
            done = probe_flow("show", folder, *question)
            assert done.code in (0, 2, 3)
            assert "PF9001" not in done.err, (broken, question)


def test_a_wrong_value_is_named(probe_flow, tmp_path):
    folder = write_run(tmp_path / "run", [row(0, "A_1", rank="first")], [node("A_1", 0, edges=7)], findings=[3])
    assert "`findings` has another form" in probe_flow("show", folder).err
    write_run(folder, [row(0, "A_1", rank="first")], [node("A_1", 0, edges=7)])
    assert "line 1 is no record of a pair: `rank`" in probe_flow("show", folder, "--verdict", "pass").err
    assert "line 1 is no record of a node: `edges`" in probe_flow("show", folder, "--node", "A_1").err
