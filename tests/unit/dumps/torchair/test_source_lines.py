"""The lines of a model behind device operators, from texts as TorchAir prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from torchair_builders import GeDump, mul_add_relu, write_device_op, write_mul_add_relu

from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.dumps.torchair.graph_files import OR_EARLIER, source_file_name, source_lines
from probe_flow.records import Catalog

TEXT = """\
# -*- coding: utf-8 -*-
from torchair._ge_concrete_graph import ge_apis as ge

x_0 = ge.Data(index=0, dtype=0, shape=[2, 3], placement="NPU", node_name="x")

# File "/home/me/model.py", line 12, in forward    p = x * y
## FX Code: mul: torch.float32[2, 3]npu:0 = torch.ops.aten.mul.Tensor(x: torch.float32[2, 3]npu:0, y)
Mul_0 = ge.Mul(x_0, y_0, node_name="Mul")

# File "/home/me/model.py", line 13, in forward    s = p + z
## FX Code: add = torch.ops.aten.add.Tensor(mul, z)
Mul_9_0 = ge.Mul(z_0, ge.Const(1, dtype=0), node_name="Mul_9")
Add_0 = ge.Add(Mul_0, Mul_9_0, node_name="Add")
## FX Code: relu = torch.ops.aten.relu.default(add)
Relu_0 = ge.Relu(Add_0, node_name="Relu")
_ = ge.NetOutput([Relu_0], dependencies=[])
"""
LINE_12 = 'File "/home/me/model.py", line 12, in forward p = x * y'
LINE_13 = 'File "/home/me/model.py", line 13, in forward s = p + z'
NAME = "dynamo_original_graph_1_rank_0_pid_9_ts_20260101000000000009.py"


def read(dump: GeDump) -> Catalog:
    return read_torchair_ge(dump.root, side="target")


def frames(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    return {key.name: catalog.stacks[node.stack_id] for key, node in catalog.nodes.items() if node.stack_id is not None}


@pytest.fixture
def dump(tmp_path: Path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(mul_add_relu())
    write_mul_add_relu(made.token(0), None)
    return made


def test_operators_have_the_line_of_their_node_and_later_nodes_perhaps_an_earlier_one():
    # A line is printed once only: the relu may come from line 12 just as well.
    assert source_lines(iter(TEXT.splitlines(keepends=True))) == {
        "Mul": LINE_12,
        "Mul_9": LINE_13,
        "Add": LINE_13,
        "Relu": LINE_13 + OR_EARLIER,
    }


def test_a_text_beside_the_dump_gives_its_nodes_their_lines(dump):
    (dump.root / NAME).write_text(TEXT)
    catalog = read(dump)
    assert catalog.problems == ()
    assert frames(catalog) == {"Mul": (LINE_12,), "Add": (LINE_13,), "Relu": (LINE_13 + OR_EARLIER,)}


def test_a_fused_operator_has_the_lines_of_its_parts(dump):
    write_device_op(dump.token(1), "AutomaticBufferFusionOp", "MulAdd", at=1)
    (dump.root / NAME).write_text(TEXT)
    assert frames(read(dump))["MulAdd"] == (LINE_12, LINE_13)


@pytest.mark.parametrize(
    "name",
    [
        "dynamo_original_graph_2_rank_0_pid_9_ts_20260101000000000009.py",
        "dynamo_original_graph_1_rank_1_pid_9_ts_20260101000000000009.py",
        "dynamo_optimized_graph_1_rank_0_pid_9_ts_20260101000000000009.py",
    ],
)
def test_texts_of_other_graphs_ranks_and_kinds_are_passed_over(dump, name):
    (dump.root / name).write_text(TEXT)
    catalog = read(dump)
    assert (frames(catalog), catalog.problems) == ({}, ())


def test_a_text_without_numbers_may_be_of_any_graph_that_it_knows(dump):
    (dump.root / "dynamo_20260101000000000009.py").write_text(TEXT)
    (dump.root / "dynamo_other.py").write_text(TEXT.replace('"Add"', '"Sub"').replace("line 12", "line 99"))
    assert frames(read(dump))["Mul"] == (LINE_12,)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"x" * 3_000_000, b'# File "a.py"\n' * 9])
def test_whatever_a_text_holds_the_dump_is_read(dump, content):
    (dump.root / NAME).write_bytes(content)
    catalog = read(dump)
    assert (len(catalog.nodes), frames(catalog), catalog.problems) == (3, {}, ())


def test_only_texts_of_graphs_are_sources():
    assert source_file_name("dynamo_original_graph_3_rank_1_pid_9_ts_20260101000000000009.py").graph == 3
    assert [source_file_name(name) for name in ("model.py", "dynamo_original_graph_3.txt")] == [None, None]
