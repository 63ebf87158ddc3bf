from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from probe_flow.engine.run.signals import AGAIN_S, SIGNALS, Signals
from probe_flow.errors import Stopped


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_work_and_is_remembered(number):
    with Signals() as signals:
        with pytest.raises(Stopped) as caught, signals.working():
            send(number)
        assert caught.value.number == signals.number == number


def test_between_two_pieces_of_work_a_signal_waits_for_the_next(monkeypatch):
    with Signals() as signals:
        send(signal.SIGTERM)
        assert signals.number == signal.SIGTERM
        with pytest.raises(Stopped), signals.working():
            pytest.fail("the work began")


def test_a_wish_that_arrives_twice_is_one(monkeypatch):
    with Signals() as signals:
        with pytest.raises(Stopped), signals.working():
            send(signal.SIGTERM)
        send(signal.SIGHUP)
        assert signals.number == signal.SIGTERM


def test_a_second_wish_after_a_while_ends_the_process():
    program = (
        "import os, signal, probe_flow.engine.run.signals as s\n"
        "with s.Signals() as signals:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        f"    signals._heard_s -= {AGAIN_S}\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('still there')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done.stderr


def test_a_forked_child_leaves_signals_to_its_parent():
    with Signals():
        child = os.fork()
        if child == 0:
            send(signal.SIGTERM)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_was_there_before_is_there_again_and_what_was_ignored_stays_so():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals, signals.working():
            send(signal.SIGHUP)
            assert signals.number == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before[signal.SIGHUP])
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_ctrl_c_that_a_stage_hears_itself_counts():
    with Signals() as signals:
        with pytest.raises(KeyboardInterrupt), signals.working():
            raise KeyboardInterrupt
        assert signals.number == signal.SIGINT


def test_outside_the_main_thread_nothing_is_heard():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    seen = []

    def listen() -> None:
        with Signals(), Signals().working():
            seen.append({number: signal.getsignal(number) for number in SIGNALS})

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join(30)
    assert seen == [before]
