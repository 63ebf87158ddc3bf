"""Fixtures that several test folders share."""

from __future__ import annotations

import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bundled_samples import unpack_samples
from hypothesis import HealthCheck, settings
from packages_on_path import site

__all__ = ["site"]

DATA = Path(__file__).parent / "data"

unpack_samples()  # while tests are collected some already read them

# One commit gives one answer, however busy the machine is; `HYPOTHESIS_PROFILE=explore` looks for new cases.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("explore"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# What a shell starts in the background ignores Ctrl-C, and so would every command that a test starts and interrupts.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def torchair_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of an unpacked data/torchair archive, e.g. ``torchair_case("healthy")``; leave it as it is."""
    unpacked: dict[str, Path] = {}

    def unpack(name: str) -> Path:
        if name not in unpacked:
            parent = tmp_path_factory.mktemp(name)
            with tarfile.open(DATA / "torchair" / f"{name}.tar.xz") as archive:
                archive.extractall(parent, filter="data")
            unpacked[name] = parent / name
        return unpacked[name]

    return unpack


@pytest.fixture(scope="session", autouse=True)
def _own_result_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's cache out of the tests and the tests out of the user's cache; no run leaves a compiler behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROBE_FLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PROBE_FLOW_WARM_UP", "never")
        yield


@pytest.fixture
def all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have results of pairs of any size kept, so that small tensors show what the cache does."""
    monkeypatch.setattr("probe_flow.measure.result_keys.LEAST_KEPT_BYTES", 0)
