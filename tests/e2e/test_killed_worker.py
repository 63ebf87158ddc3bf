"""A worker that is killed while it measures costs the pairs of its batch, and says so."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import scheduler_jobs

from e2e.projects import GOLDEN, TARGET, TORCHAIR, Done, settle
from probe_flow.work import Settings

EACH_ALONE = 1 << 60
"""Parts of all that is read, so many that no two pairs of one golden tensor share a batch."""


@pytest.mark.usefixtures("all_kept")
def test_a_run_whose_cluster_is_gone_ends_and_goes_on_elsewhere(probe_flow, dumps, monkeypatch):
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    settle(dumps.root)
    whole = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "sync", output="whole")

    async def only_say_so(nanny: Any, _exitcode: int) -> None:
        await nanny._unregister()

    with monkeypatch.context() as patch:
        patch.setattr("distributed.nanny.Nanny._on_worker_exit", only_say_so)
        patch.setattr("probe_flow.engine.schedulers.distributed.WINDOW_PER_WORKER", 1)
        patch.setattr("probe_flow.engine.schedulers.distributed.LOOK_S", 0.5)
        patch.setattr("probe_flow.engine.schedulers.distributed.IDLE_S", 3.0)
        patch.setattr("probe_flow.engine.run.execute.Settings", partial(Settings, batch_bytes=1))
        patch.setattr("probe_flow.measure.batches.GROUPS", EACH_ALONE)
        patch.setattr("probe_flow.measure.run.measure_batch", scheduler_jobs.measure_but_die_before_handing_add_over)
        lost = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "distributed", "--workers", 1, cache="cache")
    assert lost.code == 3
    assert lost.record["verdict"] == "incomplete"
    assert "PF6108" in lost.err
    resumed = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "sync", "--resume", cache="cache")
    assert resumed.code == whole.code
    assert resumed.record["cache"]["hits"] > 0
    name = "comparison.jsonl"
    assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def measured(done: Done) -> dict[str, object]:
    return {row["target"]["name"]: row["metrics"] for row in done.rows if row["verdict"] in ("pass", "warning", "fail")}


@pytest.mark.parametrize("scheduler", ["processes", "distributed"])
def test_pairs_of_a_lost_batch_are_errors_and_all_others_have_their_verdict(probe_flow, dumps, monkeypatch, scheduler):
    if scheduler == "distributed":
        pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    whole = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "sync")
    monkeypatch.setattr("probe_flow.engine.run.execute.Settings", partial(Settings, batch_bytes=1))
    monkeypatch.setattr("probe_flow.measure.batches.GROUPS", EACH_ALONE)
    monkeypatch.setattr("probe_flow.measure.run.measure_batch", scheduler_jobs.measure_or_die)
    done = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", scheduler, "--workers", 2)
    assert done.code == 3
    assert done.record["verdict"] == "incomplete"
    lost = done.verdicts("error")
    assert lost
    assert all(name.startswith("Add.") for name in lost)
    assert all("ended its worker 2 times" in row["reason"] for row in done.rows if row["verdict"] == "error")
    assert (done.seen("target"), done.seen("golden")) == (TARGET, GOLDEN)
    assert measured(done) == {name: figures for name, figures in measured(whole).items() if name not in lost}
