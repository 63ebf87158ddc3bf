"""Running a model in a child process: what it left, how it ended, and what its log says.

All of it is the same for every framework: it is tested with a stand-in of torch, and with the toy framework.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from processes_seen import is_alive, wait_until
from toy_framework import TOY

from probe_flow.dumpers.base import process
from probe_flow.dumpers.base.job import ModelJob, is_done, read_job, read_run
from probe_flow.dumpers.base.process import run_model
from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.dumpers.registry import RUNNERS
from probe_flow.errors import IncompleteError, UsageError

TORCH = """
class nn:
    class Module:
        pass
def manual_seed(seed): pass
def use_deterministic_algorithms(on, warn_only): pass
"""


PAUSE = "alive.write('up'); alive.flush(); signal.pause()\n"


@pytest.fixture(params=[RUNNERS["torchair_fx"], TOY], ids=lambda runner: runner.name)
def runner(request: pytest.FixtureRequest) -> RunnerSpec:
    found = request.param
    assert isinstance(found, RunnerSpec)
    return found


@pytest.fixture
def job(runner: RunnerSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelJob:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "torch.py").write_text(TORCH, encoding="utf-8")
    monkeypatch.syspath_prepend(str(packages))
    output = tmp_path / "out"
    output.mkdir()
    return ModelJob(runner.name, "net:build", {}, str(output), import_from=str(tmp_path))


def write_net(job: ModelJob, text: str) -> None:
    assert job.import_from is not None
    (Path(job.import_from) / "net.py").write_text(text, encoding="utf-8")


def test_crash_in_native_code_tells_the_signal_and_the_last_words(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(
        job,
        "import os, signal\nprint('loading weights', flush=True)\ndef build(): os.kill(os.getpid(), signal.SIGSEGV)",
    )

    with pytest.raises(IncompleteError) as raised:
        run_model(job, runner)

    assert raised.value.diagnostic.code == "PF6325"
    assert "SIGSEGV" in raised.value.diagnostic.message
    assert raised.value.diagnostic.notes == ("loading weights",)
    assert read_run(Path(job.output)) == {}


def test_a_model_runs_in_the_environment_of_its_user(
    job: ModelJob, runner: RunnerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in that of a command of ours, which tells libraries to be quiet; what the user says of these remains."""
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    names = "PYDANTIC_DISABLE_PLUGINS", "OPENBLAS_THREAD_TIMEOUT"
    write_net(job, f"import os\ndef build(): raise RuntimeError([os.environ.get(name) for name in {names}])")

    with pytest.raises((UsageError, IncompleteError), match=r"\[None, '20'\]"):
        run_model(job, runner)


def test_killed_process_hints_at_memory(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "import os, signal\ndef build(): os.kill(os.getpid(), signal.SIGKILL)")

    with pytest.raises(IncompleteError) as raised:
        run_model(job, runner)

    assert "memory" in (raised.value.diagnostic.help or "")


def test_a_model_beyond_its_memory_fails_alone_and_the_limit_is_named(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "def build(): return bytearray(2**30)")

    with pytest.raises(UsageError, match="MemoryError") as raised:
        run_model(replace(job, memory_bytes=2**29), runner)

    assert (raised.value.diagnostic.help or "").startswith("`memory_limit` lets it take 512 MiB")
    with pytest.raises(UsageError, match="bytearray"):  # what it returned: without a limit it has room
        run_model(job, runner)


def test_a_model_that_takes_too_long_is_ended_with_what_it_started(
    job: ModelJob, runner: RunnerSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The time is over as soon as the model runs, however long its start takes here."""
    numbers = tmp_path / "numbers"
    write_net(
        job,
        "import os, subprocess, sys, time\n"
        "def build():\n"
        "    print('loading weights', flush=True)\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"    open({str(tmp_path / 'begun')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"    os.rename({str(tmp_path / 'begun')!r}, {str(numbers)!r})\n"
        "    child.wait()",
    )
    limits: list[float | None] = []

    class Overdue(subprocess.Popen):  # type: ignore[type-arg]
        def wait(self, timeout: float | None = None) -> int:
            limits.append(timeout)
            if len(limits) == 1:
                wait_until(numbers.exists)
                raise subprocess.TimeoutExpired("model", 60)
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Overdue)
    with pytest.raises(IncompleteError, match="took longer than 60 s and was ended") as raised:
        run_model(replace(job, seconds=60), runner)

    assert raised.value.diagnostic.code == "PF6325"
    assert raised.value.diagnostic.notes == ("loading weights",)
    assert limits[0] == 60
    model, child = map(int, numbers.read_text().split())
    wait_until(lambda: not is_alive(model) and not is_alive(child))


@pytest.mark.parametrize("end", ["return 3", "raise SystemExit(1)", "os._exit(0)"])
def test_what_a_model_started_ends_with_it(job: ModelJob, runner: RunnerSpec, tmp_path: Path, end: str) -> None:
    write_net(
        job,
        "import os, subprocess, sys, time\n"
        "def build():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    copy = os.fork()\n"
        "    if not copy: time.sleep(600)\n"
        f"    open({str(tmp_path / 'numbers')!r}, 'w').write(f'{{child.pid}} {{copy}}')\n"
        f"    {end}",
    )

    with pytest.raises((UsageError, IncompleteError)):
        run_model(job, runner)

    left = [int(number) for number in (tmp_path / "numbers").read_text().split()]
    wait_until(lambda: not any(map(is_alive, left)), timeout_s=30)


def test_process_that_exits_by_itself_is_no_success(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "import os\ndef build(): os._exit(0)")

    with pytest.raises(IncompleteError, match="exit code 0"):
        run_model(job, runner)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        ("import nowhere_to_be_found", "cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("def built(): ...", "has no `build`"),
        ("build = 3", "is of type `int`"),
        ("def build(): return 3", "returned of type `int`, which cannot be called"),
        ("def build(): pass", "returned `None`"),
        ("def build(size): ...", "cannot be called without arguments: TypeError"),
    ],
)
def test_model_that_cannot_be_loaded_is_a_wrong_request(
    job: ModelJob, runner: RunnerSpec, net: str, message: str
) -> None:
    write_net(job, net)

    with pytest.raises(UsageError) as raised:
        run_model(job, runner)

    assert raised.value.diagnostic.code == "PF6322"
    assert message in raised.value.diagnostic.message


def test_record_of_an_earlier_run_is_no_success_of_this_one(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "import os\ndef build(): os._exit(0)")
    (Path(job.output) / "model_run.json").write_text('{"schema": "probe_flow/model_run/1", "ok": true}', "utf-8")

    with pytest.raises(IncompleteError):
        run_model(job, runner)


def test_job_is_read_as_it_was_written(job: ModelJob, runner: RunnerSpec) -> None:
    whole = replace(job, inputs={"random": {"seed": 1, "tensors": []}}, dump={"steps": [1]}, dynamic=True)

    assert read_job(whole.write()) == whole


def test_finished_run_counts_only_for_the_same_job_and_the_same_source(
    job: ModelJob, runner: RunnerSpec, tmp_path: Path
) -> None:
    import json

    from msgspec.structs import asdict

    from probe_flow.dumpers.base.job import source_digest

    source = tmp_path / "net.py"
    source.write_text("x = 1", encoding="utf-8")
    record = {
        "schema": "probe_flow/model_run/1",
        "ok": True,
        "job": asdict(job),
        "source": {"path": str(source), "sha256": source_digest(source)},
    }
    (Path(job.output) / "model_run.json").write_text(json.dumps(record), encoding="utf-8")

    assert is_done(job)
    assert not is_done(replace(job, calls=2))
    source.write_text("x = 2", encoding="utf-8")
    assert not is_done(job)
    source.unlink()
    assert not is_done(job)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "other", "ok": true}'])
def test_record_that_cannot_be_read_is_no_run(job: ModelJob, runner: RunnerSpec, text: str) -> None:
    (Path(job.output) / "model_run.json").write_text(text, encoding="utf-8")

    assert not is_done(job)


def test_interrupted_run_ends_its_process(job: ModelJob, runner: RunnerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    write_net(job, "import signal\ndef build(): signal.pause()")
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def wait(self, timeout: float | None = None) -> int:
            if not started:
                started.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)

    with pytest.raises(KeyboardInterrupt):
        run_model(job, runner)
    assert started[0].poll() is not None


def test_a_process_that_cannot_be_killed_is_left_behind(
    job: ModelJob, runner: RunnerSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hangs in a driver."""
    write_net(job, "import time\ndef build(): time.sleep(600)")
    started: list[subprocess.Popen[bytes]] = []
    signals: list[int] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def wait(self, timeout: float | None = None) -> int:
            if not started:
                started.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    monkeypatch.setattr(process, "STOP_S", 0.2)
    monkeypatch.setattr(process, "KILL_S", 0.2)
    monkeypatch.setattr(process.os, "killpg", lambda _process, number: signals.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            run_model(job, runner)
        assert signals == [signal.SIGTERM, signal.SIGKILL]
    finally:
        started[0].kill()
        started[0].wait(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_process_of_the_model_ends_with_a_parent_that_is_killed(job: ModelJob, runner: RunnerSpec, number: int) -> None:
    """The model holds a pipe open: its end is seen there, without waiting for a time."""
    pipe = Path(job.output).parent / "alive"
    os.mkfifo(pipe)
    write_net(job, f"import signal\nalive = open({str(pipe)!r}, 'w')\n" + PAUSE)
    code = "import sys; from probe_flow.dumpers.base.process import run_model as run; from pathlib import Path\n"
    code += "from probe_flow.dumpers.base.job import read_job; from probe_flow.dumpers.registry import RUNNERS\n"
    code += "from toy_framework import TOY; job = read_job(Path(sys.argv[1])); run(job, RUNNERS.get(job.kind, TOY))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", code, str(job.write())], env=environment)
    try:
        with pipe.open("rb", buffering=0) as alive:
            assert alive.read(2) == b"up"
            parent.send_signal(number)
            parent.wait()
            ready, _, _ = select.select([alive], [], [], 60)
            assert ready, "the process of the model is still there after a minute"
            assert alive.read() == b""
    finally:
        parent.kill()
        parent.wait()


def test_exit_of_the_users_code_is_named(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "import sys\ndef build(): sys.exit('no weights')")

    with pytest.raises(IncompleteError, match=r"PF6324.*`sys.exit\('no weights'\)`"):
        run_model(job, runner)


def test_a_traceback_that_the_user_has_no_part_in_is_not_shown(job: ModelJob, runner: RunnerSpec) -> None:
    folder = Path(job.output)
    (folder / "x.npy").write_bytes(b"\x93NUMPY cut off")
    write_net(
        job,
        "print('reading weights', flush=True)\nfrom toy_framework import Net, scaled\nbuild = Net(scaled('a', 2.0))",
    )

    with pytest.raises(UsageError, match="PF6323") as raised:
        run_model(replace(job, kind=TOY.name, inputs={"files": [str(folder / "x.npy")]}), TOY)

    assert raised.value.diagnostic.notes == ("reading weights",)
    assert "Traceback" in (folder / process.LOG_FILE).read_text(encoding="utf-8")


def test_a_traceback_through_the_user_s_code_is_shown(job: ModelJob, runner: RunnerSpec) -> None:
    write_net(job, "def build(): raise ValueError('no weights')")

    with pytest.raises(UsageError, match="PF6322") as raised:
        run_model(job, runner)

    assert any("net.py" in line for line in raised.value.diagnostic.notes)
