from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import scheduler_jobs
from dask_clusters import cluster
from processes_seen import children, command_line, is_alive

from probe_flow.engine.run.plan import make_plan, with_scheduler
from probe_flow.engine.schedulers.base import BatchError, BatchLost
from probe_flow.engine.schedulers.choice import held, make_scheduler
from probe_flow.errors import UsageError

pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

OTHER_PACKAGE = """\
VERSIONS = {{"probe_flow": "0.0.1", "numpy": "{numpy}", "python": "{python}", "layout": {layout}}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=1) as found:
        yield found.address


@pytest.fixture
def other_package(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a folder with another version of probe_flow."""

    def write(versions: str | None) -> Path:
        package = tmp_path / "site" / "probe_flow" / "engine" / "schedulers"
        package.mkdir(parents=True)
        for folder in (package.parents[1], package.parent, package):
            (folder / "__init__.py").touch()
        if versions is not None:
            (package / "cluster_versions.py").write_text(versions)
        return tmp_path / "site"

    return write


def test_an_own_cluster_runs_every_batch_and_leaves_no_process():
    before = children(os.getpid())
    scheduler = make_scheduler("distributed", 2)
    assert (scheduler.name, scheduler.workers, scheduler.warnings) == ("distributed", 2, ())
    batches = list(range(20))
    results = list(scheduler.run(scheduler_jobs.square, batches, batches))
    assert sorted(results) == [(number, number * number) for number in batches]
    left = set(children(os.getpid())) - set(before)
    # The tracker of shared resources belongs to Python and ends with it.
    assert all("resource_tracker" in command_line(pid) for pid in left)


def test_one_cluster_is_held_for_several_runs_and_leaves_no_process():
    before = children(os.getpid())
    with held(make_scheduler("distributed", 1)) as scheduler:
        ((_, first),) = scheduler.run(scheduler_jobs.process, [0], [1])
        assert list(scheduler.run(scheduler_jobs.square, [], [])) == []
        ((_, second),) = scheduler.run(scheduler_jobs.process, [0], [1])
    assert first == second != os.getpid()
    left = set(children(os.getpid())) - set(before)
    assert all("resource_tracker" in command_line(pid) for pid in left)


def test_workers_of_an_own_cluster_are_forks_of_a_process_that_loaded_what_they_need():
    found = list(make_scheduler("distributed", 2).run(scheduler_jobs.origin, list(range(20)), [1] * 20))
    ((parent, is_loaded),) = {origin for _, origin in found}
    assert is_loaded
    assert parent != os.getpid()
    assert not is_alive(parent)


def test_a_held_cluster_is_left_where_a_run_ends_early_and_the_next_run_opens_another():
    with held(make_scheduler("distributed", 1)) as scheduler:
        ((_, first),) = scheduler.run(scheduler_jobs.process, [0], [1])
        results = scheduler.run(scheduler_jobs.process, list(range(1000)), [1] * 1000)
        next(results)
        results.close()
        ((_, second),) = scheduler.run(scheduler_jobs.process, [0], [1])
    assert first != second


def test_a_batch_that_kills_two_workers_is_lost_and_no_other():
    results = dict(make_scheduler("distributed", 1).run(scheduler_jobs.die_on_three, list(range(5)), [1] * 5))
    assert isinstance(results[3], BatchLost)
    assert {number: results[number] for number in (0, 1, 2, 4)} == {0: 0, 1: 1, 2: 2, 4: 4}


def test_workers_of_an_own_cluster_have_one_thread_for_numpy():
    ((_, seen),) = make_scheduler("distributed", 1).run(scheduler_jobs.surroundings, [0], [1])
    assert seen["threads"] == ["1", "1", "1"]


def test_a_cluster_at_an_address_runs_every_batch(address):
    scheduler = make_scheduler("distributed", address=address, trust="network")
    assert (scheduler.workers, scheduler.warnings) == (1, ())
    batches = list(range(20))
    results = list(scheduler.run(scheduler_jobs.square, batches, batches))
    assert sorted(results) == [(number, number * number) for number in batches]


def test_a_failing_batch_is_named_with_its_cause(address):
    with pytest.raises(BatchError) as caught:
        list(
            make_scheduler("distributed", address=address, trust="network").run(
                scheduler_jobs.fail_on_three, [0, 3], [1, 1]
            )
        )
    assert caught.value.index == 1
    assert isinstance(caught.value.__cause__, ValueError)


def test_closing_early_leaves_the_cluster_usable(address):
    scheduler = make_scheduler("distributed", address=address, trust="network")
    results = scheduler.run(scheduler_jobs.square, list(range(1000)), [1] * 1000)
    next(results)
    results.close()
    assert list(scheduler.run(scheduler_jobs.square, [7], [1])) == [(0, 49)]


def test_the_plan_takes_the_workers_of_the_cluster(address, demo):
    plan = make_plan(demo(more=f'executor: {{scheduler: distributed, address: "{address}", trust: network}}\n'))
    assert plan.executor.workers is None
    assert with_scheduler(plan, plan.executor.open()).executor.workers == 1


def test_an_address_where_nothing_answers_is_refused_within_seconds():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=address, trust="network")
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "PF6101"
    assert address in diagnostic.message
    assert "dask scheduler" in (diagnostic.help or "")


@pytest.mark.parametrize("address", ["nonsense", "nonsense://host:1", "tcp://no-such-host.invalid:8786"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=address, trust="network")
    assert caught.value.diagnostic.code == "PF6101"


def test_a_cluster_without_workers_is_refused(tmp_path):
    with cluster(tmp_path, workers=0) as found, pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=found.address, trust="network")
    assert caught.value.diagnostic.code == "PF6108"


@pytest.mark.parametrize(
    ("versions", "code", "told"),
    [
        (None, "PF6102", "cannot load probe_flow: ModuleNotFoundError"),
        (OTHER_PACKAGE.format(numpy="1.26.4", python="3.9", layout=999), "PF6104", "layout 999"),
    ],
    ids=["no package", "other layout"],
)
def test_a_worker_that_cannot_be_used_is_refused_by_name(tmp_path, other_package, versions, code, told):
    with cluster(tmp_path, workers=1, path=other_package(versions)) as found, pytest.raises(UsageError) as caught:
        make_scheduler("distributed", address=found.address, trust="network")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [code]
    assert told in caught.value.diagnostic.message
    assert "worker `tcp://127.0.0.1:" in caught.value.diagnostic.message
