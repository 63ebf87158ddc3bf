"""Compiling before a run needs it: what counts as ready, what is left when it is killed, and when it is not tried."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.metrics.backends import choice as backends
from probe_flow.metrics.backends import code_files, warm_up
from probe_flow.metrics.backends.code_files import ENVIRONMENT

ROOMY = 2 * warm_up.ROOM_BYTES

QUICK = [("widened", (element,)) for element in ("float32", "float64", "int32")]
"""Passes that take a moment to compile, in place of all."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for compiled code in which there is none."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "code"))
    monkeypatch.setattr(warm_up, "memory_of_machine", lambda: ROOMY)
    return tmp_path / "code"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that are started; none is run."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        found.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_a_compiler_is_started_where_its_work_can_be_kept(folder: Path, started: list[list[str]]) -> None:
    assert warm_up.start({})
    (command,) = started
    assert command[:2] == ["/bin/sh", "-c"]
    assert command[4:7] == [sys.executable, "-c", warm_up._START]
    assert all(Path(each).is_absolute() for each in command[7:]), "it does not stay in the present folder"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("environ", "memory_bytes", "machine_bytes"),
    [
        ({"PROBE_FLOW_WARM_UP": "never"}, None, ROOMY),
        ({}, warm_up.ROOM_BYTES - 1, ROOMY),
        ({}, None, warm_up.ROOM_BYTES - 1),
    ],
)
@pytest.mark.usefixtures("folder")
def test_no_compiler_is_started_where_it_is_unwanted_or_has_no_room(
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    memory_bytes: int | None,
    machine_bytes: int,
) -> None:
    monkeypatch.setattr(warm_up, "memory_of_machine", lambda: machine_bytes)
    assert not warm_up.start(environ, memory_bytes=memory_bytes)
    assert started == []


def test_no_compiler_is_started_where_its_work_could_not_be_kept(folder: Path, started: list[list[str]]) -> None:
    folder.write_text("")
    assert not warm_up.start({})
    assert started == []


@pytest.mark.usefixtures("folder")
def test_a_shell_that_cannot_be_started_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("/bin/sh")

    monkeypatch.setattr(subprocess, "run", refused)
    assert not warm_up.start({})


def test_who_starts_it_does_not_wait_for_it_and_is_not_its_parent(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    says = f"import os; open({str(pipe)!r}, 'w').write(str(os.getppid()))"  # waits until the pipe is read
    monkeypatch.setattr(warm_up, "_START", says)
    assert warm_up.start({})
    with pipe.open() as reading:
        assert int(reading.read()) != os.getpid()


numba_only = pytest.mark.frameworks


@pytest.fixture
def quick(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder; three quick passes are all that there is to compile."""
    pytest.importorskip("numba", reason="numba is not installed (extra accel)")
    monkeypatch.setattr(warm_up, "_tasks", lambda: list(QUICK))
    return folder


def names(folder: Path) -> set[str]:
    """Return which passes are in the folder."""
    return {"-".join(path.name.split("-")[:2]) for path in folder.glob("*.code")}


def compile_all() -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []
    warm_up.compile_now(lambda done, count: told.append((done, count)))
    return told


@numba_only
def test_everything_is_compiled_once_and_read_back(quick: Path) -> None:
    state = warm_up.state()
    assert (state.passes, state.missing, state.folder) == (3, 3, quick)
    assert compile_all() == [(0, 3), (1, 3), (2, 3)]
    assert names(quick) == {"widened-float32", "widened-float64", "widened-int32"}
    assert warm_up.state().missing == 0
    assert compile_all() == []


@numba_only
@pytest.mark.parametrize("cut", ["float64", "int32"])
def test_a_file_that_was_cut_is_compiled_again_and_no_other(quick: Path, cut: str) -> None:
    compile_all()
    (file,) = quick.glob(f"widened-{cut}-*")
    file.write_bytes(file.read_bytes()[:-1])
    assert warm_up.state().missing == 1
    assert compile_all() == [(0, 1)]
    assert warm_up.state().missing == 0


@pytest.fixture
def new_key() -> Iterator[None]:
    from probe_flow.metrics.backends import compiled_code

    compiled_code.key.cache_clear()
    yield
    compiled_code.key.cache_clear()


@numba_only
@pytest.mark.parametrize("other", ["processor", "version"])
def test_code_for_another_processor_or_version_is_not_ready(
    quick: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, other: str
) -> None:
    from probe_flow.metrics.backends import compiled_code

    compile_all()
    request.getfixturevalue("new_key")
    if other == "processor":
        monkeypatch.setattr(compiled_code.llvm, "get_host_cpu_name", lambda: "another")
    else:
        monkeypatch.setattr(compiled_code, "VERSION", "0.0")
    assert warm_up.state().missing == 3
    assert code_files.is_any_kept("widened"), "so llvmlite was asked"


@numba_only
def test_every_pass_has_to_be_there_before_auto_takes_compiled_code(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from probe_flow.metrics.backends import numba_backend

    monkeypatch.setattr(numba_backend, "passes_with", lambda _kinds: iter(QUICK))
    monkeypatch.setattr(backends.code_files, "is_any_kept", lambda _name: True)
    assert not backends.is_compiled(())
    compile_all()
    assert backends.is_compiled(())
    next(quick.glob("widened-int32-*")).unlink()
    assert not backends.is_compiled(())


SERVE = """
import json, os, signal, sys
from probe_flow.metrics.backends import compiled_code, warm_up
warm_up._tasks = lambda: [("widened", (each,)) for each in ("float32", "float64", "int32")]
whole = compiled_code.compile_ahead
def first_one_then_none(*task):
    if os.environ.get("KILLED") and task[1] != ("float32",):
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*task)
compiled_code.compile_ahead = first_one_then_none
warm_up.serve()
print(json.dumps([os.nice(0), os.getpgid(0) == os.getpid(), signal.alarm(0), os.getcwd()]))
"""


def serve(**environment: str) -> subprocess.CompletedProcess[str]:
    """Do in a process that is waited for what is else done in one that is not."""
    paths = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", SERVE], env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@numba_only
def test_in_the_background_it_has_the_lowest_priority_and_an_end(quick: Path) -> None:
    done = serve()
    niceness, leads_a_group, left_s, folder = json.loads(done.stdout)
    assert (niceness, leads_a_group, folder) == (19, True, "/")
    assert 0 < left_s <= warm_up.END_S
    assert warm_up.state().missing == 0
    assert {path.suffix for path in quick.iterdir()} == {".code"}


@numba_only
def test_killed_halfway_it_leaves_what_is_whole_and_the_next_one_goes_on(quick: Path) -> None:
    assert serve(KILLED="1").returncode == -signal.SIGKILL
    assert names(quick) == {"widened-float32"}
    state = warm_up.state()
    assert (state.missing, state.holder, state.failure) == (2, None, "")
    assert compile_all() == [(0, 2), (1, 2)]


@numba_only
def test_two_never_compile_at_once(quick: Path) -> None:
    quick.mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(quick / warm_up.LOCK_NAME)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"held\n"
        assert serve().returncode == 0
        assert names(quick) == set()
        holder = warm_up.state().holder
        assert holder is not None
        assert holder.pid == other.pid
        with pytest.raises(IncompleteError) as caught:
            compile_all()
        assert caught.value.diagnostic.code == "PF5120"
        assert f"process {other.pid} on" in caught.value.diagnostic.message
    finally:
        other.stdin.close()
        other.wait(60)
        other.stdout.close()


HOLD = """
import sys
from pathlib import Path
from probe_flow.files.lock_file import LockFile
lock = LockFile(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@numba_only
def test_what_the_compiler_found_wrong_is_said_and_not_tried_again_by_itself(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from probe_flow.metrics.backends import compiled_code

    tried = []

    def fails(*task: Any) -> bool:
        tried.append(task)
        raise RuntimeError("cannot determine type")

    for name in ("alarm", "nice", "setpgid", "chdir"):
        monkeypatch.setattr({"alarm": signal}.get(name, os), name, lambda *_: None)
    with monkeypatch.context() as patch:
        patch.setattr(compiled_code, "compile_ahead", fails)
        warm_up.serve()
        warm_up.serve()
        assert len(tried) == 1
        assert warm_up.state().failure == "RuntimeError: cannot determine type"
        with pytest.raises(IncompleteError, match="RuntimeError: cannot determine type"):
            compile_all()
    compile_all()
    assert (warm_up.state().missing, warm_up.state().failure) == (0, "")


@numba_only
def test_code_that_does_not_read_back_is_not_ready(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "keep", lambda _file, _code: None)
    with pytest.raises(IncompleteError, match="does not read back"):
        compile_all()
    assert warm_up.state().missing == 3
    assert not list(quick.iterdir())


@numba_only
def test_without_a_folder_that_can_be_written_nothing_is_compiled(quick: Path) -> None:
    quick.write_text("")
    with pytest.raises(IncompleteError) as caught:
        compile_all()
    assert caught.value.diagnostic.code == "PF5120"
    assert str(quick) in caught.value.diagnostic.message
    assert ENVIRONMENT in str(caught.value.diagnostic.help)
    assert warm_up.state().folder is None


@pytest.mark.usefixtures("folder")
def test_without_numba_there_is_nothing_to_compile_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_missing", lambda: list(QUICK))
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(UsageError) as caught:
        compile_all()
    assert caught.value.diagnostic.code == "PF5116"


@numba_only
def test_all_passes_are_those_of_all_accumulators() -> None:
    pytest.importorskip("numba", reason="numba is not installed (extra accel)")
    found = {what if isinstance(what, str) else what.name for what, _ in warm_up._tasks()}
    assert found == {"measure", "masked_errors", "signed_errors", "squared_deviations", "tiny_values"}
