"""The threads scheduler beside signals; what it shares with the others is in `test_base`."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from probe_flow.engine.schedulers.threads import ThreadScheduler


def test_a_signal_that_does_not_wake_the_main_thread_is_heard_all_the_same():
    heard = threading.Event()
    while_it_ran: list[bool] = []

    def batch(_: int) -> None:
        time.sleep(0.2)  # until the main thread waits for the result, mostly
        # Sent to this thread, it leaves the other one asleep, as one does that arrives just before it falls asleep.
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        while_it_ran.append(heard.wait(60))

    def hear(*_: object) -> None:
        heard.set()
        raise InterruptedError("heard")

    former = signal.signal(signal.SIGUSR1, hear)
    try:
        with pytest.raises(InterruptedError, match="heard"):
            list(ThreadScheduler(1).run(batch, [0], [1]))
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert while_it_ran == [True]
