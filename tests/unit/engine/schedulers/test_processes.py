from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import scheduler_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from processes_seen import children, is_alive, wait_until

from probe_flow.engine.run.tasks import Silent, StageTasks
from probe_flow.engine.schedulers import processes
from probe_flow.engine.schedulers.base import BatchError, BatchLost
from probe_flow.engine.schedulers.choice import AutoScheduler, SyncScheduler, ahead
from probe_flow.engine.schedulers.processes import STOP_S, UNTOUCHED_BYTES, ProcessScheduler
from probe_flow.engine.schedulers.threads import ThreadScheduler
from probe_flow.errors import IncompleteError

MIB = 2**20


@pytest.fixture
def scheduler():
    before = children(os.getpid())
    yield ProcessScheduler(2)
    assert children(os.getpid()) == before


def no_event(*_args: object, **_fields: object) -> None:
    """Tell nobody."""


def test_every_batch_is_run_once_with_its_own_index(scheduler):
    results = list(scheduler.run(scheduler_jobs.square, list(range(40)), [1] * 40))
    assert sorted(results) == [(number, number * number) for number in range(40)]


def test_processes_that_were_started_ahead_do_the_next_work_and_have_loaded_what_it_needs(scheduler):
    before = children(os.getpid())
    scheduler.start_ahead(["fractions", "wave"])
    scheduler.start_ahead(["fractions"])
    early = {*children(os.getpid())} - {*before}
    assert len(early) == 2
    found = [seen for _, seen in scheduler.run(scheduler_jobs.surroundings, [0] * 8, [1] * 8)]
    assert {seen["pid"] for seen in found} <= early
    assert all({"fractions", "wave"} <= set(seen["modules"]) for seen in found)
    again = [seen for _, seen in scheduler.run(scheduler_jobs.surroundings, [0] * 8, [1] * 8)]
    assert not {seen["pid"] for seen in again} & early
    scheduler.end_ahead()


def test_processes_that_were_started_ahead_for_nothing_are_ended(scheduler):
    before = children(os.getpid())
    for each in (scheduler, AutoScheduler(2, 2)):
        with ahead(each) as start:
            start(["fractions"])
            assert len(children(os.getpid())) == len(before) + 2
        assert children(os.getpid()) == before


@pytest.mark.parametrize("other", [SyncScheduler(), ThreadScheduler(2)])
def test_what_runs_in_no_process_starts_none_ahead(other):
    before = children(os.getpid())
    with ahead(other) as start:
        start(["fractions"])
        assert children(os.getpid()) == before


def test_a_module_that_cannot_be_loaded_ahead_harms_no_batch_that_does_without(scheduler):
    scheduler.start_ahead(["no_such_module_anywhere"])
    assert sorted(scheduler.run(scheduler_jobs.square, [1, 2], [1, 1])) == [(0, 1), (1, 4)]


def test_a_process_that_dies_while_it_waits_for_work_is_replaced(scheduler):
    before = children(os.getpid())
    scheduler.start_ahead([])
    for pid in {*children(os.getpid())} - {*before}:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not is_alive(pid))
    assert sorted(scheduler.run(scheduler_jobs.square, [1, 2], [1, 1])) == [(0, 1), (1, 4)]


def test_no_batches_start_no_process(scheduler):
    assert list(scheduler.run(scheduler_jobs.square, [], [])) == []


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
@settings(max_examples=3, deadline=None)
def test_one_worker_returns_the_largest_batch_first(sizes):
    found = [size for _, size in ProcessScheduler(1).run(abs, sizes, sizes)]
    assert found == sorted(sizes, reverse=True)


def test_workers_are_other_processes_with_one_thread_for_numpy_and_without_the_main_module(scheduler):
    found = [seen for _, seen in scheduler.run(scheduler_jobs.surroundings, [0] * 8, [1] * 8)]
    pids = {seen["pid"] for seen in found}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids
    assert all(seen["threads"] == ["1", "1", "1"] for seen in found)
    assert not any(seen["has_numpy"] for seen in found)


def test_the_memory_limit_is_shared_by_the_workers():
    limited = ProcessScheduler(2, memory_bytes=300 * MIB)
    ((_, seen),) = limited.run(scheduler_jobs.surroundings, [0], [1])
    assert seen["data_limit"] == 150 * MIB + UNTOUCHED_BYTES


def test_an_allocation_beyond_the_memory_limit_is_an_error_of_the_batch():
    limited = ProcessScheduler(1, memory_bytes=64 * MIB)
    assert list(limited.run(scheduler_jobs.allocate, [16 * MIB], [1])) == [(0, 16 * MIB)]
    with pytest.raises(BatchError) as caught:
        list(limited.run(scheduler_jobs.allocate, [256 * MIB], [1]))
    assert isinstance(caught.value.__cause__, MemoryError)


def test_a_failing_batch_is_named_with_its_cause_and_the_traceback_of_the_worker(scheduler):
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(scheduler_jobs.fail_on_three, list(range(5)), [1] * 5))
    assert caught.value.index == 3
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert "in fail_on_three" in str(cause.__cause__)


def test_an_error_that_cannot_travel_arrives_as_its_words(scheduler):
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(scheduler_jobs.talk, [0], [1]))
    assert str(caught.value.__cause__) == "TalkativeError: one and two"


@pytest.mark.parametrize("function", [scheduler_jobs.unpicklable, lambda batch: batch], ids=["result", "function"])
def test_what_cannot_travel_fails_its_batch(scheduler, function):
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(function, [0], [1]))
    # The words of CPython differ between releases.
    assert re.search("pickle|local object", str(caught.value.__cause__))


def test_a_worker_that_is_killed_once_costs_nothing(scheduler, tmp_path):
    batches = [None, tmp_path / "killed", None]
    results = dict(scheduler.run(scheduler_jobs.die_once, batches, [1, 9, 1]))
    assert (tmp_path / "killed").exists()
    assert results == dict.fromkeys(range(3), "survived")


def test_a_batch_that_kills_two_workers_is_lost_and_no_other(scheduler):
    results = dict(scheduler.run(scheduler_jobs.die_on_three, list(range(8)), [1] * 8))
    assert results.pop(3) == BatchLost("killed by SIGKILL")
    assert results == {number: number for number in range(8) if number != 3}


def test_a_stage_makes_the_result_of_a_lost_batch_from_the_diagnostic(scheduler):
    tasks = StageTasks("result", scheduler, progress=Silent(), emit=no_event)
    batches = list(range(5))
    found = dict(
        tasks(
            scheduler_jobs.die_on_three,
            batches,
            sizes=[1] * 5,
            lost=lambda batch, diagnostic: (batch, diagnostic),  # type: ignore[arg-type,return-value]
        )
    )
    batch, diagnostic = found.pop(3)
    assert batch == 3
    assert (diagnostic.code, diagnostic.stage) == ("PF6106", "result")
    assert "batch 4 of 5" in diagnostic.message
    assert "SIGKILL" in diagnostic.message
    assert "memory" in diagnostic.help
    assert found == {number: number for number in (0, 1, 2, 4)}


def test_a_stage_that_cannot_do_without_a_lost_batch_fails(scheduler):
    tasks = StageTasks("result", scheduler, progress=Silent(), emit=no_event)
    with pytest.raises(IncompleteError) as caught:
        list(tasks(scheduler_jobs.die_on_three, [3], sizes=[1]))
    assert caught.value.diagnostic.code == "PF6106"


def test_a_worker_that_does_not_start_fails_the_batch_instead_of_trying_for_ever(scheduler, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(scheduler_jobs.square, [1], [1]))
    assert "before it could take work" in str(caught.value.__cause__)


def test_a_worker_that_hangs_while_it_starts_fails_the_batch(scheduler, monkeypatch):
    monkeypatch.setattr(processes, "_START", "import time; time.sleep(600)")
    monkeypatch.setattr(processes, "START_S", 2.0)
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(scheduler_jobs.square, [1], [1]))
    assert "not ready to work within 2 s" in str(caught.value.__cause__)


def test_a_worker_that_died_is_noticed_though_another_process_holds_its_connection(scheduler, tmp_path):
    try:
        ((_, result),) = scheduler.run(scheduler_jobs.die_and_leave_an_heir, [tmp_path], [1])
        assert result == BatchLost("killed by SIGKILL")
        heirs = [int(path.name.partition("-")[2]) for path in tmp_path.glob("heir-*")]
        assert [is_alive(heir) for heir in heirs] == [True, True]
    finally:
        (tmp_path / "end").touch()


def test_stopping_does_not_wait_for_a_worker_that_cannot_be_killed(tmp_path, monkeypatch):
    """As one that hangs in a driver, or in the network file system that it reads from."""
    monkeypatch.setattr(processes, "KILL_S", 0.5)
    kill, survivors = subprocess.Popen.kill, []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: survivors.append(process))
    results = ProcessScheduler(1).run(scheduler_jobs.write_pid_or_square, [tmp_path, 3], [1, 2])
    try:
        assert next(results) == (1, 9)
        wait_until(lambda: len(list(tmp_path.iterdir())) == 1)
        results.close()
    finally:
        for process in set(survivors):
            kill(process)
            process.wait(timeout=300)


def test_stopping_gives_running_batches_a_second_and_then_kills_them(scheduler, tmp_path):
    interrupted: list[float] = []

    def interrupt_when_two_batches_run() -> None:
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        interrupted.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    helper = threading.Thread(target=interrupt_when_two_batches_run)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        next(scheduler.run(scheduler_jobs.write_pid_and_wait, [tmp_path] * 50, [1] * 50))
    assert time.monotonic() - interrupted[0] >= STOP_S
    helper.join()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ended")] == []
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)


def test_a_batch_that_hangs_is_ended_with_what_it_started_and_is_lost(tmp_path: Path) -> None:
    marker = tmp_path / "child"
    hanging = ProcessScheduler(1, batch_s=8.0)  # twice: it is tried again
    (found,) = hanging.run(scheduler_jobs.hang_with_a_child, [marker], [1])
    assert found == (0, BatchLost("took longer than 8 s"))
    child = int(marker.read_text())
    wait_until(lambda: not is_alive(child))


def test_a_batch_that_is_one_call_is_not_tried_again_when_it_hangs(tmp_path: Path) -> None:
    hanging = ProcessScheduler(1, batch_s=8.0, retries_slow=False)
    (found,) = hanging.run(scheduler_jobs.write_pid_and_wait, [tmp_path], [1])
    assert found == (0, BatchLost("took longer than 8 s"))
    assert len(list(tmp_path.iterdir())) == 1, "each try leaves a file"


def test_a_batch_gets_the_time_that_its_worker_lives_unless_it_is_said() -> None:
    assert dict(ProcessScheduler(1).run(scheduler_jobs.square, [3], [1])) == {0: 9}
