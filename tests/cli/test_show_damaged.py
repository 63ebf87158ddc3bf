"""Run folders that somebody edited or a disk damaged: every question ends with an answer or a diagnostic."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from stored_runs import node, packaged_run, row, write_run

from probe_flow.record.schemas import schema
from probe_flow.record.types.reading import MisfitError, Reader
from probe_flow.record.types.run import RunRecord

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


def parts() -> dict[str, Any]:
    argument = {
        "direction": "input", "index": "0", "path": [0], "kind": "tensor", "dtype": "f", "shape": [2], "value": None,
    }  # fmt: skip
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
             "equal": 0, "maps": []}
        ],
        "record": {
            "findings": [{"node": "B_1"}, {"node": "A_1"}], "suspects": [0, 1],
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
    lines = parts()
    record = lines.pop("record")
    for file in ("run.json", "comparison.jsonl", "nodes.jsonl", "details.jsonl"):
        folder = tmp_path / file
        write_run(folder, lines["rows"], lines["nodes"], lines["details"], **record)
        text = (folder / file).read_text()
        whole = json.loads(text) if file == "run.json" else [json.loads(line) for line in text.splitlines()]
        broken = damaged(whole, chance)
        texts = [json.dumps(each) for each in (broken if isinstance(broken, list) else [broken])]
        (folder / file).write_text("".join(f"{each}\n" for each in texts))
        for question in QUESTIONS:
            done = probe_flow("show", folder, *question)
            assert done.code in (0, 2, 3)
            assert "PF9001" not in done.err, (broken, question)


def test_a_wrong_value_is_named(probe_flow, tmp_path):
    folder = write_run(tmp_path / "run", [row(0, "A_1", rank="first")], [node("A_1", 0, edges=7)])
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "findings": [3]}))
    assert "`findings[0]` is a whole number, expected an object" in probe_flow("show", folder).err
    write_run(folder, [row(0, "A_1", rank="first")], [node("A_1", 0, edges=7)])
    assert "line 1 is no record of a pair: `rank`" in probe_flow("show", folder, "--verdict", "pass").err
    assert "line 1 is no record of a node: `edges`" in probe_flow("show", folder, "--node", "A_1").err


Place = tuple[str | int, ...]

COMMANDS = [
    ["show", "run"],
    ["show", "run", "--format", "json"],
    ["show", "run", "--origin"],
    ["show", "run", "--quiet"],
    ["show", "run", "--node", "Gelu_1"],
    ["diff", "run", "whole"],
    ["diff", "whole", "run", "--format", "json"],
    ["baseline", "accept", "run", "-o", "accepted.jsonl"],
]


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Yield where the values inside a record lie; of a list, its first two."""
    yield from (path,) if path else ()
    children = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def replaced(record: Any, path: Place, junk: Any) -> Any:
    """Return a copy of a record with another value at a place."""
    key, *rest = path
    copy = dict(record) if isinstance(record, dict) else list(record)
    copy[key] = replaced(record[key], tuple(rest), junk) if rest else junk
    return copy


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run that found something, its tables cut to what questions about the record need."""
    return packaged_run("torchair_ge_vs_fx", tmp_path_factory.mktemp("runs") / "whole")


def wrong_types(record: Any, seed: int, count: int) -> list[tuple[Place, Any]]:
    cases = [(place, junk) for place in places(record) for junk in JUNK]
    return random.Random(seed).sample(cases, count)


@pytest.mark.parametrize("seed", range(6))
def test_every_command_takes_wrong_types_in_the_record_for_what_they_are(
    probe_flow, tmp_path, monkeypatch, whole, seed
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for file in whole.iterdir():
        (tmp_path / "run" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "whole").symlink_to(whole)
    record = json.loads((whole / "run.json").read_text())
    for number, (place, junk) in enumerate(wrong_types(record, seed, 40)):
        (tmp_path / "run" / "run.json").write_text(json.dumps(replaced(record, place, junk)))
        command = COMMANDS[number % len(COMMANDS)]
        done = probe_flow(*command)
        assert done.code in (0, 1, 2, 3)
        assert "PF9001" not in done.err, (place, junk, command)


def test_a_wrong_type_is_told_with_its_place_and_what_was_expected(probe_flow, tmp_path, whole):
    record = json.loads((whole / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(replaced(record, ("findings", 0, "metrics", "cosine"), [1])))
    done = probe_flow("show", tmp_path)
    assert done.code == 3
    assert "PF7111" in done.err
    assert "`findings[0].metrics.cosine` is a list, expected" in done.err
    assert "run.json" in done.err
    (tmp_path / "run.json").write_text((whole / "run.json").read_text().replace('"exit_code": 1', '"exit_code": NaN'))
    assert "`NaN` is no number of JSON" in probe_flow("show", tmp_path).err


def test_what_is_refused_of_a_real_record_is_what_its_schema_refuses(whole):
    record = json.loads((whole / "run.json").read_text())
    published = Draft202012Validator(schema("run"))
    assert is_read(record)
    assert published.is_valid(record)
    for place, junk in wrong_types(record, 0, 600):
        if junk != 10**400:  # a number to JSON Schema, but none that a tensor can hold
            changed = replaced(record, place, junk)
            assert is_read(changed) == published.is_valid(changed), (place, junk)


def is_read(record: Any) -> bool:
    try:
        Reader(RunRecord).convert(record)
    except MisfitError:
        return False
    return True


def test_names_that_are_no_text_are_printed(whole, tmp_path):
    """As a terminal or a pipe takes them: in a process of its own."""
    record = json.loads((whole / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(replaced(record, ("inputs", 0, "stage"), "\udcff")))
    for name in ("comparison.jsonl", "nodes.jsonl"):
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    shutil.copytree(tmp_path, tmp_path / "copy")
    for encoding in ("utf-8", "ascii"):
        done = subprocess.run(
            [sys.executable, "-m", "probe_flow", "diff", tmp_path, tmp_path / "copy", "--format", "json"],
            env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)
