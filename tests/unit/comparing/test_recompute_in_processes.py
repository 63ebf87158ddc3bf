"""Calls that are computed again in a process of their own, which ends, hangs, or asks for more than there is."""

from __future__ import annotations

import os
import time

import pytest

from probe_flow.comparing import recompute
from probe_flow.comparing.asked import Recompute
from probe_flow.comparing.recompute_worker import recompute_call
from probe_flow.engine.run.tasks import Silent, StageTasks
from probe_flow.engine.schedulers.processes import ProcessScheduler
from tests.unit.comparing.test_recompute import compared, larger, origins

SECONDS = 20


def ends(job):
    """End the process where the product is computed, as a kernel that crashes does."""
    if job.target.call.api == "matmul":
        os._exit(9)
    return recompute_call(job)


def hangs(job):
    """Compute the product for longer than anybody waits."""
    if job.target.call.api == "matmul":
        time.sleep(600)
    return recompute_call(job)


def in_processes(_workers: int, _seconds: int | None, unit: str) -> StageTasks:
    processes = ProcessScheduler(1, memory_bytes=None, batch_s=SECONDS, retries_slow=False)
    return StageTasks("compare", processes, progress=Silent(), emit=lambda *_, **__: None, unit=unit)


@pytest.mark.parametrize(("computes", "told"), [(ends, "ended"), (hangs, f"took longer than {SECONDS} s")])
def test_a_call_whose_process_ends_or_hangs_keeps_its_judgement_and_costs_no_other(
    tmp_path, monkeypatch, computes, told
):
    """Only a proof names the second fault, which is behind the first: other calls are computed all the same."""
    monkeypatch.setattr(recompute, "SMALL_BYTES", 0)
    monkeypatch.setattr(recompute, "recompute_call", computes)
    found, events = compared(tmp_path, {"matmul": larger(1.3), "softmax": larger(1.05)}, Recompute(), in_processes)
    assert origins(found) == ["Mint.matmul", "MintFunctional.softmax"]
    ((name, reason),) = events[0]["left"]
    assert name == "Mint.matmul"
    assert told in reason
