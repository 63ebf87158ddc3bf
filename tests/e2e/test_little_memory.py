"""Commands in a process that may use little memory: an error that names it, never a defect or a wrong exit code."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

import pytest

from e2e.projects import KEEPS_ALL, TORCHAIR
from probe_flow.cli import main as cli
from probe_flow.comparing import steps
from probe_flow.errors import ProbeFlowError, ran_out
from probe_flow.files.machine import START_BYTES, THREAD_BYTES, address_space_needed

MIB = 2**20


def limited(
    limit: int, *arguments: object, code: Sequence[str] = ("-m", "probe_flow"), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process with so many bytes of address space."""
    return subprocess.run(
        [sys.executable, *code, *map(str, arguments)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip


@pytest.mark.parametrize("limit", [100, 130, 160, 199])
@pytest.mark.parametrize("command", ["run", "compare", "reduce", "parse", "suggest-mapping"])
def test_a_process_that_cannot_load_numpy_says_so_before_it_tries(tmp_path, limit, command):
    given = {"run": [TORCHAIR, "--output", tmp_path / "out"], "reduce": [tmp_path], "compare": ["-tp", "a", "-gp", "b"]}
    done = limited(limit * MIB, command, *given.get(command, ()), OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 3, done.stderr
    assert "PF7405" in done.stderr
    assert f"{limit} MiB of address space, and needs 200 MiB" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("limit", [200, 260, 330])
def test_what_little_memory_costs_is_told(dumps, tmp_path, limit):
    """Whether it is enough depends on the versions of the libraries; that nothing is hidden does not."""
    done = limited(
        limit * MIB,
        "run",
        TORCHAIR,
        *dumps.sets(),
        "--output",
        tmp_path / "out",
        "--no-cache",
        OPENBLAS_NUM_THREADS="1",
    )
    assert "PF9001" not in done.stderr
    assert done.returncode == 3 or done.stdout.splitlines()[-1].startswith(("PASS", "FAIL")), done.stderr


@pytest.mark.parametrize("command", [["validate", TORCHAIR], ["plan", TORCHAIR], ["templates"], ["explain", "PF7405"]])
def test_commands_without_numpy_need_less(tmp_path, command):
    done = limited(120 * MIB, *command, OPENBLAS_NUM_THREADS="1", PROBE_FLOW_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_a_plan_does_without_the_cache_where_it_cannot_be_read(tmp_path):
    """An empty cache is not looked into; one with results would load numpy. Those of the bundled dumps are kept, since
    their files are older than those that a test writes."""
    kept = {"PROBE_FLOW_CACHE": str(tmp_path / "cache"), "OPENBLAS_NUM_THREADS": "1"}
    limited(2**34, "run", TORCHAIR, "--output", tmp_path / "out", code=("-c", KEEPS_ALL), **kept)
    done = limited(120 * MIB, "plan", TORCHAIR, **kept)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("cache: not known: this process may use 120 MiB of address space")


def test_what_numpy_needs_depends_on_its_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(192)), raising=False)
    assert address_space_needed({}) == START_BYTES + 64 * THREAD_BYTES
    assert address_space_needed({"OPENBLAS_NUM_THREADS": "3"}) == START_BYTES + 3 * THREAD_BYTES
    assert address_space_needed({"OPENBLAS_NUM_THREADS": "no number", "OMP_NUM_THREADS": "2"}) == (
        START_BYTES + 2 * THREAD_BYTES
    )


LACKS = (
    MemoryError("Unable to allocate 2.00 GiB for an array"),
    MemoryError(),
    ImportError("h5py/h5o.so: failed to map segment from shared object"),
    OSError(12, "Cannot allocate memory"),
    RuntimeError("can't start new thread"),
)


@pytest.mark.parametrize("error", LACKS, ids=repr)
def test_a_lack_of_memory_anywhere_is_no_defect(monkeypatch, capsys, error):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("while doing something") from error

    monkeypatch.setattr(cli.group, "main", fail)
    assert cli.main(["version"]) == 3
    said = capsys.readouterr().err
    assert "PF7404" in said
    assert "memory ran out" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("error", LACKS, ids=repr)
def test_a_lack_of_memory_in_a_stage_is_told_with_the_stage(probe_flow, dumps, monkeypatch, error):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(steps, "compare_pairs", fail)
    done = probe_flow("run", TORCHAIR, *dumps.sets())
    assert done.code == 3
    assert "PF7404" in done.codes
    assert "PF6003" not in done.codes
    assert next(stage for stage in done.record["stages"] if stage["name"] == "result")["status"] == "failed"


def test_other_errors_are_not_taken_for_it():
    assert ran_out(ProbeFlowError([])) is None
    assert ran_out(OSError(13, "Permission denied")) is None


def test_a_full_disk_is_told_with_what_could_not_be_written() -> None:
    for error, what in (
        (OSError(28, "No space left on device"), "the output"),
        (OSError(122, "Disk quota exceeded", "out/run.json"), "`out/run.json`"),
    ):
        problem = ran_out(error)
        assert problem is not None
        assert (problem.code, problem.message) == ("PF6011", f"{what} cannot be written: {error.strerror}")
