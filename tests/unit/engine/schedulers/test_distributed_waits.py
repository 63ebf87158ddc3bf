"""Clusters that die, stop or never begin: every wait for them ends, with what to do next."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import scheduler_jobs
from dask_clusters import Cluster, cluster
from processes_seen import wait_until

from probe_flow.engine.schedulers.base import BatchLost
from probe_flow.engine.schedulers.choice import make_scheduler
from probe_flow.errors import IncompleteError, UsageError

pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

from probe_flow.engine.schedulers import distributed, own_cluster
from probe_flow.engine.schedulers.distributed import Loop


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after seconds: who waits for ever is found, and no test depends on how fast a machine is."""
    monkeypatch.setattr(distributed, "LOOK_S", 0.5)
    monkeypatch.setattr(distributed, "IDLE_S", 3.0)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own for a test that damages it; a stopped process of it goes on in the end."""
    with cluster(tmp_path, workers=1) as found:
        try:
            yield found
        finally:
            for process in (found.scheduler, *found.workers):
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)


@pytest.fixture
def no_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine so busy that no worker comes up in the place of one that died."""

    async def only_say_so(nanny: object, _exitcode: int) -> None:
        await nanny._unregister()  # type: ignore[attr-defined]

    monkeypatch.setattr("distributed.nanny.Nanny._on_worker_exit", only_say_so)


def lost_cluster(function: object, batches: list[object], scheduler: object) -> str:
    """Run batches on a cluster that will not end them; return what is said of it."""
    with pytest.raises(IncompleteError) as caught:
        list(scheduler.run(function, batches, [1] * len(batches)))  # type: ignore[attr-defined]
    assert caught.value.diagnostic.code == "PF6108"
    assert "--resume" in (caught.value.diagnostic.help or "")
    return caught.value.diagnostic.message


@pytest.mark.usefixtures("impatient", "no_replacement")
def test_a_worker_that_dies_before_it_hands_its_result_over_ends_the_run_when_nobody_takes_its_place():
    scheduler = make_scheduler("distributed", 1)
    message = lost_cluster(scheduler_jobs.square_but_die_before_handing_over, [1, 2, 3], scheduler)
    assert message == "the Dask cluster does not work: for 3 s it has had no workers"


def test_a_result_that_no_worker_lives_to_hand_over_is_lost(monkeypatch):
    monkeypatch.setattr(distributed, "HANDOVER_S", 1.0)
    results = dict(make_scheduler("distributed", 1).run(scheduler_jobs.square_but_die_before_handing_over, [1], [1]))
    assert isinstance(results[0], BatchLost)
    assert results[0].reason == "its result did not arrive within 1 s, 2 times"


@pytest.mark.usefixtures("impatient")
def test_a_cluster_whose_last_worker_left_ends_the_run(running):
    scheduler = make_scheduler("distributed", address=running.address, trust="network")
    running.workers[0].kill()
    running.workers[0].wait(timeout=300)
    message = lost_cluster(scheduler_jobs.square, [1, 2], scheduler)
    assert message == "the Dask cluster does not work: for 3 s it has had no workers"


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_ends_during_the_run_ends_it(running, tmp_path):
    scheduler = make_scheduler("distributed", address=running.address, trust="network")
    results = scheduler.run(scheduler_jobs.square_then_wait, [(2, None), (3, tmp_path)], [2, 1])
    assert next(results) == (0, 4)
    wait_until(lambda: (tmp_path / "begun").exists())
    running.scheduler.kill()
    with pytest.raises(IncompleteError) as caught:
        next(results)
    assert caught.value.diagnostic.code == "PF6108"


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_is_stopped_ends_the_run(running, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "ANSWER_S", 1.0)
    scheduler = make_scheduler("distributed", address=running.address, trust="network")
    results = scheduler.run(scheduler_jobs.square_then_wait, [(2, None), (3, tmp_path)], [2, 1])
    assert next(results) == (0, 4)
    wait_until(lambda: (tmp_path / "begun").exists())
    running.scheduler.send_signal(signal.SIGSTOP)
    with pytest.raises(IncompleteError) as caught:
        next(results)
    assert caught.value.diagnostic.message == "the Dask cluster does not work: for 3 s its scheduler has not answered"


@pytest.mark.usefixtures("impatient")
def test_a_batch_that_takes_longer_than_the_wait_for_an_idle_cluster_is_waited_for():
    assert list(make_scheduler("distributed", 1).run(time.sleep, [5.0], [1])) == [(0, None)]


def test_a_worker_that_comes_up_late_is_waited_for():
    """Dask's own `LocalCluster` gives up a worker that is not back in time, and is without one from then on."""
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}):
        results = list(make_scheduler("distributed", 1).run(scheduler_jobs.die_on_three, [3, 4], [2, 1]))
    assert isinstance(dict(results)[0], BatchLost)
    assert dict(results)[1] == 4


def test_an_own_cluster_whose_workers_do_not_start_is_given_up_and_leaves_no_process(monkeypatch, tmp_path):
    (tmp_path / "late.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(own_cluster, "START_S", 5.0)
    import dask

    before = set(multiprocessing.active_children())
    with (
        dask.config.set({"distributed.worker.preload": [str(tmp_path / "late.py")]}),
        pytest.raises(IncompleteError) as caught,
    ):
        list(make_scheduler("distributed", 2).run(scheduler_jobs.square, [1], [1]))
    assert caught.value.diagnostic.code == "PF6113"
    assert caught.value.diagnostic.message.startswith("the Dask cluster of 2 workers did not start within 5 s")
    wait_until(lambda: not set(multiprocessing.active_children()) - before)


def test_workers_that_do_not_say_their_versions_are_refused(tmp_path, monkeypatch):
    package = tmp_path / "site" / "probe_flow" / "engine" / "schedulers"
    package.mkdir(parents=True)
    for folder in (package.parents[1], package.parent, package):
        (folder / "__init__.py").touch()
    (package / "cluster_versions.py").write_text("import time\ntime.sleep(600)\n")
    from probe_flow.engine.schedulers import running_cluster

    monkeypatch.setattr(running_cluster, "VERSIONS_S", 1.0)
    with cluster(tmp_path, workers=1, path=tmp_path / "site") as found, pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=found.address, trust="network")
    assert caught.value.diagnostic.code == "PF6112"


def test_a_call_into_a_loop_that_hangs_has_a_bound():
    async def hang() -> None:
        time.sleep(3)

    loop = Loop()
    with pytest.raises(TimeoutError):
        loop.call(hang(), 0.1)
    loop.stop()


def test_what_workers_inherit_is_taken_back_from_the_environment():
    before = dict(os.environ)
    list(make_scheduler("distributed", 1).run(scheduler_jobs.square, [1], [1]))
    assert dict(os.environ) == before
