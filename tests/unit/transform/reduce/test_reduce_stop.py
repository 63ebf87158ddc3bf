"""A stop is heard here and by workers, and leaves no file behind."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from probe_flow.transform.reduce import reduce_stop
from probe_flow.transform.reduce.reduce_stop import Stop


@pytest.fixture
def own_temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_file_for_workers_appears_with_the_signal_and_goes_with_the_stop(own_temporary):
    with Stop() as stop:
        assert list(own_temporary.iterdir()) == []  # what is killed now leaves nothing
        assert not stop.wait(0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(60)
        assert (stop.signal, stop.is_requested) == (signal.SIGTERM, True)
        assert Path(stop.path).exists()
    assert list(own_temporary.iterdir()) == []


def test_a_second_signal_ends_at_once(own_temporary):
    with Stop():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_without_a_folder_that_can_be_written_one_can_still_stop(monkeypatch):
    def none():
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(reduce_stop.tempfile, "gettempdir", none)
    monkeypatch.setattr(reduce_stop.os, "open", lambda *_, **__: none())
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_requested
