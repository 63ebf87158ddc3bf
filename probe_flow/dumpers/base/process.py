"""Run a job in a child process: its imports, its memory and its crashes stay there; its output goes to a log."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from probe_flow.dumpers.base.job import INPUT_FOLDER, LOG_FILE, RUN_FILE, ModelJob, read_run
from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.dumpers.dump_files import make_folder
from probe_flow.dumps.manifest import JOB_FILE
from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.files.machine import KILL_S, QUIET_LIBRARIES
from probe_flow.files.opening import open_bytes

REPEAT = "repeat_"
"""Beginning of the names of folders with repeated runs."""

_OURS = frozenset({INPUT_FOLDER, JOB_FILE, LOG_FILE, RUN_FILE})


def prepare_output(folder: Path, runners: Collection[RunnerSpec], *, may_replace: bool) -> None:
    """Make the folder, and remove from it what an earlier run of a model left, if it may be replaced.

    Args:
        folder: of the next run.
        runners: one of which made the earlier run.
        may_replace: whether that is removed.

    Raises:
        UsageError: PF6321 if it holds anything else, or must not be replaced.
        IncompleteError: PF6326 when it cannot be made.
    """
    if folder.exists():
        names = _OURS.union(*({runner.folder, *runner.leaves} for runner in runners))
        _clear(folder, names, may_replace=may_replace)
    make_folder(folder)


def _clear(folder: Path, names: Collection[str], *, may_replace: bool) -> None:
    if not folder.is_dir():
        raise _refusal(folder, "is a file, not a folder", "name a new folder with `output`")
    entries = sorted(folder.iterdir())
    foreign = [entry.name for entry in entries if entry.name not in names and not entry.name.startswith(REPEAT)]
    if foreign or (entries and not (folder / JOB_FILE).is_file()):
        held = f"`{foreign[0]}`, which no run of a model left" if foreign else "a dump of another program"
        raise _refusal(folder, f"holds {held}", "name a new or an empty folder with `output`")
    if entries and not may_replace:
        raise _refusal(folder, "holds an earlier dump", "set `overwrite: replace`, or name a new folder with `output`")
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _refusal(folder: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6321", f"the output folder `{folder.name}` {what}", help=cure, path=str(folder)))


STOP_S = 10.0
"""Seconds that a child gets to end after it was asked to, before it is killed."""

_TAIL_BYTES = 16 << 10
_TAIL_LINES = 15
_LINE_BYTES = 64 << 10
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^ *File "([^"]+)", line [0-9]+', re.MULTILINE)
_PACKAGE = f"{Path(__file__).resolve().parents[2]}/"
_MEMORY = re.compile(r"memory|alloc", re.IGNORECASE)


def run_model(job: ModelJob, runner: RunnerSpec) -> dict[str, Any]:
    """Run a job and return the record that its process left, and what the framework only said in the log.

    Raises:
        UsageError: what was asked for cannot be run (PF6320 to PF6323, PF6328, PF6329, PF6331).
        IncompleteError: PF6324 the model raised, PF6325 its process ended by a signal, without a word or because
            it took too long, PF6326 the dump could not be written, PF6327 nothing was dumped.
    """
    output = Path(job.output)
    (output / RUN_FILE).unlink(missing_ok=True)
    for problem in runner.problems():
        raise UsageError(problem)
    log = output / LOG_FILE
    with log.open("wb") as stream, _lifeline() as line:
        process = subprocess.Popen(  # noqa: S603 (our own module, under the running interpreter)
            [sys.executable, "-m", "probe_flow.dumpers.base.child", str(job.write()), str(line), *_of(runner)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=_environment(job),
            pass_fds=(line,),
            start_new_session=True,
        )
        try:
            # Without a limit as long as the user's model takes: its end, or Ctrl-C, ends the wait.
            code = process.wait(job.seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            raise _overdue(job, log) from None
        except BaseException:
            _stop(process)
            raise
        _stop_rest(process.pid)
    record = read_run(output)
    if record.get("ok") and code == 0:
        return {**record, **{name: _said(pattern, log) for name, pattern in runner.said.items()}}
    raise _failure(job, record.get("failure"), code, log)


@contextmanager
def _lifeline() -> Iterator[int]:
    """Give the reading end of a pipe whose writing end is ours alone: it ends with this process, however that ends."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _of(runner: RunnerSpec) -> tuple[str, str]:
    """Return what the child needs to know of its runner."""
    return runner.runner, runner.folder


def _environment(job: ModelJob) -> dict[str, str]:
    """Return the environment of the child: its user's, with the same packages, and what an interpreter begins with."""
    users = {name: value for name, value in os.environ.items() if QUIET_LIBRARIES.get(name) != value}
    own = {**users, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONUNBUFFERED": "1"}
    if job.is_deterministic:
        own.setdefault("PYTHONHASHSEED", "0")
    return own


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the child and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILL_S)


def _stop_rest(group: int) -> None:
    """End what a child that has ended left running: copies of it, servers, workers."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _failure(job: ModelJob, failure: object, code: int, log: Path) -> UsageError | IncompleteError:
    notes = _tail(log)
    if isinstance(failure, dict):
        notes = _without_own_traceback(_lines(log))[-_TAIL_LINES:]
        found, message, cure = str(failure.get("code")), str(failure.get("message")), failure.get("help")
        if _MEMORY.search(message):
            cure = (_limit(job) + (cure or "")) or None
        diagnostic = Diagnostic(found, message, help=cure, notes=notes, path=failure.get("path"))
        return UsageError(diagnostic) if failure.get("is_wrong_request") else IncompleteError(diagnostic)
    how = f"by signal {_signal_name(-code)}" if code < 0 else f"with exit code {code}"
    cure = _limit(job) + "its last words are below; the whole log is beside the dump"
    if code == -signal.SIGKILL:
        cure = "the system kills a process when memory runs out: use smaller inputs, or a machine with more; " + cure
    return IncompleteError(
        Diagnostic("PF6325", f"the process that ran `{job.model}` ended {how}", help=cure, notes=notes, path=str(log))
    )


def _overdue(job: ModelJob, log: Path) -> IncompleteError:
    message = f"the process that ran `{job.model}` took longer than {job.seconds} s and was ended"
    cure = "see its last words below, or raise `time_limit`; the whole log is beside the dump"
    return IncompleteError(Diagnostic("PF6325", message, help=cure, notes=_tail(log), path=str(log)))


def _limit(job: ModelJob) -> str:
    """Return that the process may have met the limit of its memory, if it has one."""
    if job.memory_bytes is None:
        return ""
    return f"`memory_limit` lets it take {job.memory_bytes / 2**20:.0f} MiB, maybe too little; "


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _said(pattern: str, log: Path) -> list[str]:
    """Return what a framework said in the log, each once: native code speaks past Python's warnings."""
    wanted = re.compile(pattern.encode())
    with open_bytes(log) as file:
        found = (wanted.search(part) for part in iter(partial(file.readline, _LINE_BYTES), b""))
        return list(dict.fromkeys(each[1].decode("utf-8", "replace") for each in found if each))


def _tail(log: Path) -> tuple[str, ...]:
    """Return the last lines of the log."""
    return _lines(log)[-_TAIL_LINES:]


def _without_own_traceback(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines up to a traceback that the user's code has no part in: the failure says it in words."""
    for number, line in enumerate(lines):
        if line.startswith(_TRACEBACK) and all(map(_is_foreign, _FRAME.findall("\n".join(lines[number:])))):
            return lines[:number]
    return lines


def _is_foreign(path: str) -> bool:
    """Return True if a file is ours or of a library."""
    return path.startswith((_PACKAGE, "<", sysconfig.get_path("stdlib"))) or "-packages/" in path


def _lines(log: Path) -> tuple[str, ...]:
    """Return the lines at the end of the log."""
    try:
        with open_bytes(log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    return tuple(line for line in lines if line.strip())
