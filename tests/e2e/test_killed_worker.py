"""A worker that is killed while it measures costs the pairs of its batch, and says so."""

from __future__ import annotations

from functools import partial

import pytest
import scheduler_jobs

from e2e.projects import GOLDEN, TARGET, TORCHAIR, Done
from probe_flow.stages.base import Settings


def measured(done: Done) -> dict[str, object]:
    return {row["target"]["name"]: row["metrics"] for row in done.rows if row["verdict"] in ("pass", "warning", "fail")}


@pytest.mark.parametrize("scheduler", ["processes", "distributed"])
def test_pairs_of_a_lost_batch_are_errors_and_all_others_have_their_verdict(probe_flow, dumps, monkeypatch, scheduler):
    if scheduler == "distributed":
        pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    whole = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "sync")
    monkeypatch.setattr("probe_flow.engine.execute.Settings", partial(Settings, batch_bytes=1))
    monkeypatch.setattr("probe_flow.stages.measure_pairs.measure_batch", scheduler_jobs.measure_or_die)
    done = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", scheduler, "--workers", 2)
    assert done.code == 3
    assert done.record["verdict"] == "incomplete"
    lost = done.verdicts("error")
    assert lost
    assert all(name.startswith("Add.") for name in lost)
    assert all("ended its worker 2 times" in row["reason"] for row in done.rows if row["verdict"] == "error")
    assert (done.seen("target"), done.seen("golden")) == (TARGET, GOLDEN)
    assert measured(done) == {name: figures for name, figures in measured(whole).items() if name not in lost}
