"""Kernel dumps of MindSpore's graph mode compared from a workflow file: tensors, and statistics."""

from __future__ import annotations

from pathlib import Path

import pytest
from mindspore_graph_builders import turn_into_statistics, unpack
from run_records import first_divergence

from e2e.projects import Command

WORKFLOW = """\
version: 1
name: kernels
stages:
  target: {{uses: dump.mindspore_graph, path: {target}}}
  golden: {{uses: dump.mindspore_graph, path: {golden}}}
  pairs: {{uses: match.name, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: dump_json, gate: findings}}
  report: {{uses: report, comparison: result, formats: [jsonl, html, junit]}}
"""

NORM = "Default_network-Loss_net-Net_b1-Block_norm-LayerNorm_LayerNorm"
SUM = "Default_network-Loss_net-Net_b1-Block_Add"


@pytest.fixture
def workflow(tmp_path: Path):
    """Return a function that unpacks two stored dumps and writes the workflow that compares them."""

    def write(target: str, golden: str, *, statistics: bool = False) -> Path:
        for side, name in (("target", target), ("golden", golden)):
            folder = unpack(name, tmp_path / side)
            if statistics:
                turn_into_statistics(folder)
        file = tmp_path / "kernels.yaml"
        file.write_text(WORKFLOW.format(target="target", golden="golden"))
        return file

    return write


def first(done) -> tuple[str, str, str, int, int]:
    found = first_divergence(done.record)
    return found["node"], found["direction"], found["index"], found["call"], found["step"]


@pytest.mark.parametrize("statistics", [False, True])
def test_a_healthy_twin_is_green(probe_flow: Command, workflow, statistics):
    done = probe_flow("run", workflow("rounded", "base", statistics=statistics))
    assert done.code == 0, done.out + done.err
    assert first_divergence(done.record) is None
    assert len(done.rows) == 548
    assert done.record["coverage"]["target"]["compared"] == 548


@pytest.mark.parametrize("statistics", [False, True])
def test_a_wrong_argument_is_named(probe_flow: Command, workflow, statistics):
    done = probe_flow("run", workflow("epsilon", "base", statistics=statistics))
    assert done.code == 1, done.out + done.err
    assert first(done) == (NORM, "input", "5", 0, 0)


@pytest.mark.parametrize("statistics", [False, True])
def test_an_inserted_operator_is_named_itself_or_where_its_result_is_used(probe_flow: Command, workflow, statistics):
    done = probe_flow("run", workflow("scaled", "base", statistics=statistics))
    assert done.code == 1, done.out + done.err
    assert first(done)[0] in ("Expand__Muls_Mul", SUM)
    alone = {row["node"] for row in done.rows if row["verdict"] == "unmatched_target"}
    assert alone == {"Expand__Muls_Mul"}


def test_a_dump_agrees_with_a_copy_of_itself_in_loops_too(probe_flow: Command, workflow):
    done = probe_flow("run", workflow("loop", "loop"))
    assert done.code == 0, done.out + done.err
    assert {row["verdict"] for row in done.rows} == {"pass"}


def test_a_tensor_that_is_cut_off_makes_the_run_incomplete(probe_flow: Command, workflow, tmp_path):
    file = workflow("base", "base")
    (damaged,) = (tmp_path / "target" / "rank_0" / "Net" / "0" / "0").glob("Softmax.*output.0*")
    damaged.write_bytes(damaged.read_bytes()[:-8])
    done = probe_flow("run", file)
    assert done.code == 3
    assert "PF3022" in done.codes
    assert done.verdicts("error") == {"Default_network-Loss_net-Net_Softmax.output.0"}


def test_an_iteration_without_tensors_makes_the_run_incomplete(probe_flow: Command, workflow, tmp_path):
    file = workflow("base", "base")
    for lost in (tmp_path / "target" / "rank_0" / "Net" / "0" / "1").iterdir():
        lost.unlink()
    done = probe_flow("run", file)
    assert "PF3456" in done.codes
    assert len(done.verdicts("unmatched_golden")) > 100
    assert done.code == 3


def test_dumps_of_nothing_in_common_are_never_green(probe_flow: Command, workflow):
    done = probe_flow("run", workflow("loop", "base"))
    assert done.code == 3
