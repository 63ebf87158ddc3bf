from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.engine.schedulers.base import WINDOW_PER_WORKER, BatchError, largest_first
from probe_flow.engine.schedulers.choice import SyncScheduler, make_scheduler, usable_cpus
from probe_flow.engine.schedulers.threads import ThreadScheduler
from probe_flow.errors import UsageError

ALL = pytest.mark.parametrize(
    "scheduler", [SyncScheduler(), ThreadScheduler(2), ThreadScheduler(5)], ids=lambda s: s.name
)


def square(number: int) -> int:
    return number * number


@ALL
def test_every_batch_is_run_once_with_its_own_index(scheduler):
    batches = list(range(50))
    results = list(scheduler.run(square, batches, [7] * 50))
    assert sorted(results) == [(number, number * number) for number in batches]


@ALL
def test_no_batches_give_no_results(scheduler):
    assert list(scheduler.run(square, [], [])) == []


@given(sizes=st.lists(st.integers(0, 1000), max_size=40), workers=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_threads_return_what_sync_returns(sizes, workers):
    batches = [size * 3 for size in sizes]
    expected = dict(SyncScheduler().run(square, batches, sizes))
    assert dict(ThreadScheduler(workers).run(square, batches, sizes)) == expected


@pytest.mark.parametrize("scheduler", [SyncScheduler(), ThreadScheduler(1)], ids=["sync", "threads"])
def test_the_largest_batch_starts_first(scheduler):
    started: list[str] = []
    list(scheduler.run(started.append, ["small", "huge", "large", "equal"], [1, 9, 5, 5]))
    assert started == ["huge", "large", "equal", "small"]


def test_equal_sizes_keep_their_order():
    assert largest_first([2, 2, 3, 2]) == [2, 0, 1, 3]


def test_order_holds_beyond_one_dask_graph(monkeypatch):
    monkeypatch.setattr("probe_flow.engine.schedulers.threads.GRAPH_TASKS", 7)
    started: list[int] = []
    list(ThreadScheduler(1).run(started.append, list(range(40)), list(range(40))))
    assert started == list(range(39, -1, -1))


def test_two_threads_run_two_batches_at_the_same_time():
    together = threading.Barrier(2, timeout=300)
    # Each batch waits until another one has begun: on one thread this would break the barrier.
    assert len(list(ThreadScheduler(2).run(lambda _: together.wait(), range(4), [1] * 4))) == 4


def test_results_arrive_while_other_batches_still_run():
    first_was_seen = threading.Event()

    def work(index: int) -> int:
        if index == 1:
            assert first_was_seen.wait(timeout=300)
        return index

    results = ThreadScheduler(2).run(work, [0, 1], [1, 1])
    assert next(results) == (0, 0)
    first_was_seen.set()
    assert list(results) == [(1, 1)]


class CountedBatches(Sequence[int]):
    """Makes each batch when it is asked for, and counts."""

    def __init__(self, length: int) -> None:
        self.made = 0
        self.reached = threading.Semaphore(0)
        self._length = length
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index):
        with self._lock:
            self.made += 1
        self.reached.release()
        return index


def test_no_more_than_the_window_is_made_before_the_consumer_takes_results():
    workers = 2
    window = WINDOW_PER_WORKER * workers
    batches = CountedBatches(100)
    results = ThreadScheduler(workers).run(square, batches, [1] * 100)
    taken = 0
    for _ in results:
        taken += 1
        # Wait until the workers have filled the window again, then see that they stop there.
        while batches.made < min(100, taken - 1 + window):
            assert batches.reached.acquire(timeout=300)
        assert batches.made <= taken - 1 + window
    assert taken == 100


def test_sync_makes_a_batch_only_when_its_result_is_asked_for():
    batches = CountedBatches(10)
    results = SyncScheduler().run(square, batches, [1] * 10)
    next(results)
    next(results)
    assert batches.made == 2


def fails_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


@ALL
def test_a_failing_batch_is_named_with_its_cause(scheduler):
    with pytest.raises(BatchError) as caught:
        list(scheduler.run(fails_on_three, [0, 1, 2, 3, 4], [1] * 5))
    assert caught.value.index == 3
    assert isinstance(caught.value.__cause__, ValueError)


@ALL
def test_closing_stops_submission_and_leaves_no_thread(scheduler):
    batches = CountedBatches(10_000)
    results = scheduler.run(square, batches, [1] * 10_000)
    next(results)
    results.close()
    assert batches.made <= 1 + WINDOW_PER_WORKER * scheduler.workers
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("probe-flow")]


def test_an_interrupt_while_waiting_stops_submission():
    batches = CountedBatches(10_000)
    results = ThreadScheduler(2).run(square, batches, [1] * 10_000)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt())
    assert batches.made <= 1 + WINDOW_PER_WORKER * 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("probe-flow")]


def test_ctrl_c_reaches_a_consumer_that_waits_for_results():
    started, released = threading.Event(), threading.Event()

    def work(_: int) -> None:
        if not started.is_set():
            started.set()
            os.kill(os.getpid(), signal.SIGINT)  # to the main thread, which waits for the first result
        assert released.wait(timeout=300)

    def release_soon() -> None:
        assert started.wait(timeout=300)
        released.set()

    helper = threading.Thread(target=release_soon)
    helper.start()
    batches = CountedBatches(10_000)
    with pytest.raises(KeyboardInterrupt):
        for _ in ThreadScheduler(2).run(work, batches, [1] * 10_000):
            pass
    helper.join()
    assert batches.made < 10_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("probe-flow")]


def test_a_defect_of_the_graph_reaches_the_consumer(monkeypatch):
    def broken(*_args, **_kwargs):
        raise RuntimeError("no graph")

    monkeypatch.setattr("dask.threaded.get", broken)
    with pytest.raises(RuntimeError, match="no graph"):
        list(ThreadScheduler(2).run(square, [1, 2, 3], [1, 1, 1]))


def test_no_more_batches_than_workers_need_no_graph(monkeypatch):
    monkeypatch.setattr("dask.threaded.get", None)
    assert sorted(ThreadScheduler(3).run(square, [1, 2, 3], [1, 1, 1])) == [(0, 1), (1, 4), (2, 9)]


def test_small_work_does_not_import_dask():
    code = (
        "import sys; from probe_flow.engine.schedulers.choice import make_scheduler;"
        "assert list(make_scheduler('auto', 2).run(abs, [-1], [100])) == [(0, 1)];"
        "print([name for name in ('dask', 'numpy', 'distributed') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_workers_default_to_the_cpus_of_this_process():
    assert make_scheduler("threads").workers == usable_cpus() >= 1
    assert make_scheduler("threads", 3).workers == 3
    assert make_scheduler("sync", 3).workers == 1


@pytest.mark.parametrize("package", ["distributed", "cryptography"])
def test_distributed_without_a_package_names_the_extra(monkeypatch, package):
    monkeypatch.setattr(
        "probe_flow.engine.schedulers.choice.find_spec", lambda name: None if name == package else object()
    )
    with pytest.raises(UsageError) as caught:
        make_scheduler("distributed")
    assert caught.value.diagnostic.code == "PF6105"
    assert f"`{package}`" in caught.value.diagnostic.message
    assert "pip install probe-flow[distributed]" in (caught.value.diagnostic.help or "")


def test_an_unknown_scheduler_gets_a_suggestion():
    with pytest.raises(UsageError) as caught:
        make_scheduler("thread")
    assert caught.value.diagnostic.code == "PF2103"
    assert "`threads`" in (caught.value.diagnostic.help or "")
