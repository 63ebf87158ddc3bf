from __future__ import annotations

import pytest

from probe_flow.engine.schedulers.choice import (
    LARGE_WORK_BYTES,
    PROCESS_BYTES,
    SMALL_WORK_BYTES,
    THREAD_BYTES,
    AutoScheduler,
    SyncScheduler,
    choose,
    make_scheduler,
)
from probe_flow.engine.schedulers.executor import plan_executor
from probe_flow.engine.schedulers.processes import ProcessScheduler
from probe_flow.engine.schedulers.threads import ThreadScheduler
from probe_flow.errors import UsageError

LARGE = LARGE_WORK_BYTES + 1


@pytest.fixture(autouse=True)
def roomy_machine(monkeypatch):
    """Four CPUs and much memory."""
    monkeypatch.setattr("probe_flow.engine.schedulers.choice.usable_cpus", lambda: 4)
    monkeypatch.setattr("probe_flow.engine.schedulers.executor.usable_cpus", lambda: 4)
    monkeypatch.setattr("probe_flow.engine.schedulers.choice.memory_of_machine", lambda: 2**40)


@pytest.mark.parametrize(
    ("total", "serial", "threads", "processes", "expected"),
    [
        (SMALL_WORK_BYTES - 1, None, 8, 8, "sync"),
        (SMALL_WORK_BYTES, None, 8, 8, "threads"),
        (LARGE_WORK_BYTES, None, 8, 8, "threads"),
        (LARGE, None, 8, 8, "processes"),
        (LARGE, LARGE, 8, 8, "processes"),
        (2**50, LARGE_WORK_BYTES, 8, 8, "threads"),
        (2**50, 0, 8, 8, "threads"),
        (2**50, LARGE, 8, 8, "processes"),
        (LARGE, None, 8, 1, "threads"),
        (LARGE, None, 1, 1, "sync"),
    ],
)
def test_the_choice_follows_bytes_workers_and_what_threads_do_one_after_another(
    total, serial, threads, processes, expected
):
    assert choose(total, threads=threads, processes=processes, serial_bytes=serial) == expected


def test_auto_chooses_for_each_call_by_its_batches():
    auto = AutoScheduler(3, 2)
    half = SMALL_WORK_BYTES // 2
    sync, threads, processes = auto.choose([half, half - 1]), auto.choose([half, half]), auto.choose([LARGE, 1])
    assert (type(sync), type(threads), type(processes)) == (SyncScheduler, ThreadScheduler, ProcessScheduler)
    assert (sync.workers, threads.workers, processes.workers) == (1, 3, 2)
    assert auto.choose([LARGE]) is sync, "one batch has nobody to share with"
    assert auto.choose([LARGE, 1], LARGE_WORK_BYTES) is threads


@pytest.mark.parametrize(
    ("total", "more", "workers", "reason"),
    [
        (1, "", 4, "below 32 MB in all: batches run one after another"),
        (SMALL_WORK_BYTES, "", 4, "32 to 256 MB in all: 4 threads"),
        (LARGE, "metrics_backend: numpy\n", 4, "above 256 MB in all: 4 processes"),
        (LARGE, "", 4, "above 256 MB in all: 4 processes, 4 threads for what compiled code measures"),
        (LARGE, "executor: {workers: 1}\n", 1, "one worker: batches run one after another"),
        (
            LARGE,
            "metrics_backend: numpy\nexecutor: {memory_limit: 128MiB}\n",
            2,
            "above 256 MB in all: 2 processes; the memory_limit of 128 MiB has room for 2 of 4 workers",
        ),
        (LARGE, "executor: {memory_limit: 100MiB}\n", 4, "no memory for two processes: 4 threads"),
    ],
)
def test_the_plan_says_what_auto_does_and_why(demo, monkeypatch, total, more, workers, reason):
    monkeypatch.setattr("probe_flow.engine.schedulers.executor.find_spec", lambda name: name)
    executor = plan_executor(demo(more=more), total, scheduler=None, workers=None)
    assert (executor.scheduler, executor.workers, executor.reason) == ("auto", workers, reason)


def test_the_memory_limit_narrows_asked_workers_and_the_plan_says_so(demo):
    workflow = demo(more="executor: {scheduler: processes, workers: 8, memory_limit: 192MiB}\n")
    executor = plan_executor(workflow, 0, scheduler=None, workers=None)
    assert executor.workers == 3
    assert executor.reason == "as asked for; the memory_limit of 192 MiB has room for 3 of 8 workers"
    opened = executor.open()
    assert (opened.name, opened.workers) == ("processes", 3)


def test_a_small_machine_gets_fewer_workers_and_the_plan_says_so(demo, monkeypatch):
    monkeypatch.setattr("probe_flow.engine.schedulers.choice.memory_of_machine", lambda: 2 * PROCESS_BYTES)
    executor = plan_executor(demo(), 0, scheduler="processes", workers=None)
    assert executor.reason == "as asked for; this machine's memory has room for 2 of 4 workers"


def test_a_memory_limit_too_small_for_one_worker_is_found_before_anything_runs(demo):
    workflow = demo(more="executor: {scheduler: processes, memory_limit: 32MiB}\n")
    with pytest.raises(UsageError) as caught:
        plan_executor(workflow, 0, scheduler=None, workers=None)
    assert caught.value.diagnostic.code == "PF6107"
    assert plan_executor(workflow, 0, scheduler="threads", workers=None).workers == 2


def test_a_metrics_backend_that_is_not_installed_is_found_before_anything_runs(demo, monkeypatch):
    monkeypatch.setattr("probe_flow.engine.schedulers.executor.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        plan_executor(demo(more="metrics_backend: numba\n"), 0, scheduler=None, workers=None)
    assert caught.value.diagnostic.code == "PF5116"
    executor = plan_executor(demo(), LARGE, scheduler=None, workers=None)
    assert executor.reason == "above 256 MB in all: 4 processes", "nothing can be compiled"


def test_auto_is_made_with_as_many_threads_and_processes_as_fit():
    auto = make_scheduler("auto", 8, memory_bytes=4 * PROCESS_BYTES)
    assert isinstance(auto, AutoScheduler)
    assert auto.choose([SMALL_WORK_BYTES, 1]).workers == min(8, 4 * PROCESS_BYTES // THREAD_BYTES)
    assert auto.choose([LARGE, 1]).workers == 4


def test_a_cluster_at_an_address_is_planned_without_asking_it(demo):
    pytest.importorskip("distributed")
    workflow = demo(more='executor: {scheduler: distributed, address: "tls://nowhere.invalid:8786"}\n')
    executor = plan_executor(workflow, 0, scheduler=None, workers=None)
    assert (executor.workers, executor.address) == (None, "tls://nowhere.invalid:8786")
    assert executor.reason == "as asked for, at tls://nowhere.invalid:8786"
