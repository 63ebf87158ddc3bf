"""A fault on one of two ranks that sum up what they have, from the files to the finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_dumps import Fault, write_ranks
from run_records import first_divergence

from e2e.projects import ROOT, WORKFLOWS, Command, Done

DATA = ROOT / "tests" / "data" / "dump_json"
FAULTS = [
    Fault("scale", "Torch.relu.0", 1),
    Fault("parameter", "Functional.linear.1", 0),
    Fault("own sum", "Distributed.all_reduce.0", 1),
    Fault("argument", "Tensor.__mul__.1", 1),
    Fault("no bias", "Functional.linear.3", 0),
    Fault("element", "Tensor.__add__.0", 1),
    Fault("nan", "Functional.linear.2", 1),
]


def compared(probe_flow: Command, folder: Path, task: str, fault: Fault | None) -> Done:
    golden = write_ranks(folder / "golden", task=task)
    target = write_ranks(folder / "target", task=task, fault=fault, exact=False)
    sets = ("--set", f"target={target}", "--set", f"golden={golden}")
    return probe_flow("run", WORKFLOWS / "pytorch_compare.yaml", *sets)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kind}-{fault.call}-{fault.rank}")
def test_the_rank_and_the_call_of_the_fault_are_named_first(
    probe_flow: Command, tmp_path: Path, fault: Fault, task: str
):
    done = compared(probe_flow, tmp_path, task, fault)
    assert done.code == 1, done.out + done.err
    found = first_divergence(done.record)
    assert (f"{found['node']}.{found['call']}", found["rank"]) == (fault.call, fault.rank)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_ranks_that_sum_in_another_order_pass(probe_flow: Command, tmp_path: Path, task: str):
    done = compared(probe_flow, tmp_path, task, None)
    assert done.code == 0, done.out + done.err
    assert {row["rank"] for row in done.rows} == {0, 1}


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_another_memory_layout_and_requires_grad_are_warnings_at_most(probe_flow: Command, tmp_path: Path, task: str):
    golden = write_ranks(tmp_path / "golden", task=task)
    target = write_ranks(tmp_path / "target", task=task, is_turned=True)
    sets = ("--set", f"target={target}", "--set", f"golden={golden}")
    done = probe_flow("run", WORKFLOWS / "pytorch_compare.yaml", *sets)
    assert done.code == 0, done.out + done.err
    tensors = [row for row in done.rows if row["target"]["dtype"] == "float32"]
    verdicts = {row["verdict"] for row in tensors if not row["node"].startswith("Distributed")}
    assert verdicts == {"warning"}


def test_the_same_network_under_other_names_passes_by_its_structure(probe_flow: Command, tmp_path: Path):
    workflow = tmp_path / "rename.yaml"
    workflow.write_text(
        (WORKFLOWS / "pytorch_compare.yaml").read_text().replace("match.name", "match.structure").replace("../", "")
    )
    sides = (DATA / "pt_stat_rename", DATA / "pt_stat_base")
    done = probe_flow("run", workflow, "--set", f"target={sides[0]}", "--set", f"golden={sides[1]}")
    assert done.code == 0, done.out + done.err
    assert done.record["coverage"]["target"]["missing"] == 0


LATE = "Distributed.all_reduce.0"


def hashed_late(probe_flow: Command, folder: Path, fault: Fault | None) -> Done:
    golden = write_ranks(folder / "golden", task="md5")
    target = write_ranks(folder / "target", task="md5", fault=fault, late=LATE)
    return probe_flow(
        "run", WORKFLOWS / "pytorch_compare.yaml", "--set", f"target={target}", "--set", f"golden={golden}"
    )


def test_a_collective_in_place_that_was_hashed_late_is_not_named_before_the_fault(probe_flow: Command, tmp_path: Path):
    done = hashed_late(probe_flow, tmp_path, Fault("scale", "Functional.linear.2", 1))
    assert done.code == 1, done.out + done.err
    named = [f"{each['node']}.{each['call']}" for each in done.record["findings"] if each["fails"]]
    assert named == ["Functional.linear.2"]


def test_a_healthy_pair_whose_collective_was_hashed_late_on_one_side_passes(probe_flow: Command, tmp_path: Path):
    done = hashed_late(probe_flow, tmp_path, None)
    assert done.code == 0, done.out + done.err
