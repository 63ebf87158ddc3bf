"""Random damage to kernel dumps: the reader reports it, and never fails otherwise."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from mindspore_graph_builders import turn_into_statistics, unpack

from probe_flow.errors import CODES
from probe_flow.formats.mindspore_graph import read_mindspore_graph
from probe_flow.records import TensorKind

INSERTED = (b"%1(", b'"', b"\n,,,\n", b"\xff\xfe", b"(" * 500, b"9" * 400)


def damaged(content: bytes, dice: random.Random) -> bytes:
    kind = dice.choice(("cut", "flip", "repeat", "insert"))
    at = dice.randrange(len(content) + 1)
    if kind == "cut":
        return content[:at]
    if kind == "repeat":
        return content[:at] + content[dice.randrange(len(content) + 1) :]
    if kind == "insert":
        return (
            content[:at] + dice.choice((b"%1(", b'"', b"\n,,,\n", b"\xff\xfe", b"(" * 500, b"9" * 400)) + content[at:]
        )
    changed = bytearray(content)
    for _ in range(dice.randrange(1, 20)):
        if changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize(("name", "is_table"), [("loop", False), ("loop", True), ("long", False)])
def test_damage_is_reported_or_harmless(tmp_path: Path, name: str, is_table: bool):
    dump = unpack(name, tmp_path)
    if is_table:
        turn_into_statistics(dump)
    dice = random.Random(f"{name}{is_table}")
    files = sorted(file for file in dump.rglob("*") if file.is_file())
    for _ in range(60):
        file = dice.choice(files)
        whole = file.read_bytes()
        file.write_bytes(damaged(whole, dice))
        catalog = read_mindspore_graph(dump, side="target")
        assert {problem.code for problem in catalog.problems} <= CODES.keys()
        assert all(tensor.reason for tensor in catalog.tensors if tensor.kind is TensorKind.UNREADABLE)
        assert {tensor.node for tensor in catalog.tensors} == catalog.nodes.keys()
        file.write_bytes(whole)
