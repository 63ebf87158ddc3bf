from __future__ import annotations

import os
from pathlib import Path

import pytest

from probe_flow.engine.schedulers.choice import (
    PROCESS_BYTES,
    fitting_workers,
    memory_of_machine,
    usable_cpus,
    workers_within,
)
from probe_flow.errors import UsageError

MIB = 2**20


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a function that writes files of a system with 8 CPUs and 1 GiB below ``tmp_path``."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def write(**files: str) -> Path:
        texts = {"proc__meminfo": "MemTotal:  1048576 kB\nMemFree: 5 kB\n", **files}
        for name, text in texts.items():
            path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_without_control_groups_affinity_and_the_machine_s_memory_count(system):
    root = system()
    assert usable_cpus(root) == 8
    assert memory_of_machine(root) == 2**30


def test_a_group_of_version_2_limits_cpus_and_memory(system):
    root = system(
        proc__self__cgroup="0::/pod/app\n",
        sys__fs__cgroup__pod__app__cpu_dot_max="150000 100000\n",
        sys__fs__cgroup__pod__app__memory_dot_max="536870912\n",
    )
    assert usable_cpus(root) == 2
    assert memory_of_machine(root) == 512 * MIB


def test_the_tightest_group_around_a_process_counts(system):
    root = system(
        proc__self__cgroup="0::/pod/app\n",
        sys__fs__cgroup__pod__app__cpu_dot_max="max 100000\n",
        sys__fs__cgroup__pod__cpu_dot_max="300000 100000\n",
        sys__fs__cgroup__pod__memory_dot_max="max\n",
    )
    assert usable_cpus(root) == 3
    assert memory_of_machine(root) == 2**30


def test_groups_of_version_1_limit_cpus_and_memory_even_where_their_path_is_the_host_s(system):
    root = system(
        proc__self__cgroup="4:memory:/docker/f00\n1:cpu:/docker/f00\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us="50000\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_period_us="100000\n",
        sys__fs__cgroup__memory__memory_dot_limit_in_bytes="268435456\n",
    )
    assert usable_cpus(root) == 1
    assert memory_of_machine(root) == 256 * MIB


def test_an_unlimited_group_of_version_1_limits_nothing(system):
    root = system(
        proc__self__cgroup="1:cpu:/\n4:memory:/\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us="-1\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_period_us="100000\n",
        sys__fs__cgroup__memory__memory_dot_limit_in_bytes="9223372036854771712\n",
    )
    assert usable_cpus(root) == 8
    assert memory_of_machine(root) == 2**30


def test_a_group_path_never_leads_out_of_its_mount(system):
    root = system(proc__self__cgroup="0::/../../outside\n", sys__outside__cpu_dot_max="100000 100000\n")
    assert usable_cpus(root) == 8


def test_a_system_that_tells_nothing_has_no_limit(tmp_path):
    assert memory_of_machine(tmp_path) is None


def test_workers_fit_into_memory():
    assert fitting_workers(8, 64 * MIB, 200 * MIB) == 3
    assert fitting_workers(2, 64 * MIB, 200 * MIB) == 2
    assert fitting_workers(8, 64 * MIB, None) == 8
    assert fitting_workers(8, 64 * MIB, MIB) == 0


def test_a_memory_limit_narrows_what_was_asked_for():
    assert workers_within("processes", 8, 3 * PROCESS_BYTES) == 3
    assert workers_within("threads", 8, 3 * PROCESS_BYTES) == 8


def test_a_memory_limit_below_one_worker_is_a_mistake_of_the_user():
    with pytest.raises(UsageError) as caught:
        workers_within("processes", 2, PROCESS_BYTES - 1)
    assert caught.value.diagnostic.code == "PF6107"
    assert "64 MiB" in caught.value.diagnostic.message


def test_without_a_limit_one_worker_always_fits(monkeypatch):
    monkeypatch.setattr("probe_flow.engine.schedulers.choice.memory_of_machine", lambda: 1)
    assert workers_within("processes", 4, None) == 1
