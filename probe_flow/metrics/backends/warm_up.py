"""Compiling every pass before a run needs it: by `doctor --warm-up`, or in a process that no run waits for.

All passes take 40 s of CPU and 290 MiB once for each source, version and processor (measured). A run that would make
better use of compiled code than of numpy, and finds none, measures by numpy and starts that process when it ends; a
later run finds what it left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.atomic import atomic_text
from probe_flow.files.lock_file import HeldError, Holder, LockFile, check_free
from probe_flow.files.machine import memory_of_machine
from probe_flow.files.opening import read_text
from probe_flow.metrics.accumulators.base import LanePass, OfErrors, OfValues
from probe_flow.metrics.accumulators.registry import ACCUMULATORS
from probe_flow.metrics.backends import code_files
from probe_flow.metrics.backends.choice import unusable_numba
from probe_flow.packages import BrokenPackageError

ENVIRONMENT = "PROBE_FLOW_WARM_UP"
"""``never``: runs start no compiler."""

LOCK_NAME = "compiling.lock"

END_S = 3600.0
"""Seconds after which a compiler in the background ends, however busy the machine is; the next one continues."""

START_S = 10.0
"""Seconds that a shell gets to start it."""

ROOM_BYTES = 2 * 2**30
"""Memory of the machine, and for a run, from which on there is room for a compiler beside the run."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from probe_flow.metrics.backends.warm_up import serve; serve()"
_SHELL = '"$@" </dev/null >/dev/null 2>&1 &'
"""The shell ends at once, so the compiler is nobody's child; what runs in its background ignores Ctrl-C."""

_LOWEST = 19

Task = tuple[str | LanePass, tuple[str, ...]]
"""A pass and the types of elements that it is compiled for."""


class State(Struct, frozen=True):
    """What there is of compiled code.

    Args:
        passes: how many there are to compile.
        missing: how many of them are not there for this source, version and processor.
        folder: where new ones go; None = no folder can be written.
        holder: who compiles at this moment.
        failure: why compiling in the background failed, which it is not tried again for.
    """

    passes: int
    missing: int
    folder: Path | None
    holder: Holder | None
    failure: str


def state() -> State:
    """Return what there is.

    Raises:
        ImportError: llvmlite does not load.
    """
    folder = code_files.writable_folder()
    holder = None
    if folder is not None:
        try:
            check_free(folder / LOCK_NAME)
        except HeldError as error:
            holder = error.holder
    failure = "" if folder is None else _text(_failure_file(folder))
    return State(len(_tasks()), len(_missing()), folder, holder, failure)


def compile_now(tell: Callable[[int, int], object]) -> None:
    """Compile what is missing, in this process.

    Args:
        tell: is given how many passes are compiled and how many there are to compile, before each.

    Raises:
        UsageError: PF5116 if numba is not installed or does not load.
        IncompleteError: PF5120 if another process compiles, no folder takes the code, or the compiler fails.
    """
    try:
        if not _missing():
            return
        import numba  # noqa: F401
    except ImportError as error:
        raise unusable_numba(error) from error
    folder = code_files.writable_folder()
    if folder is None:
        named = ", ".join(f"`{each}`" for each in code_files.folders())
        help_ = f"give yourself the right to write one of them, or name another with {code_files.ENVIRONMENT}"
        raise _failed(f"no folder for it can be written: {named}", help_)
    try:
        _compile_missing(folder, tell)
    except HeldError as error:
        raise _failed(f"{error.holder} is at it", "let that one finish: `probe-flow doctor` says when") from error
    except Exception as error:  # whatever a compiler finds wrong with its installation or with a package's pass
        help_ = "install numba and llvmlite again; runs do without, by numpy"
        raise _failed(f"{type(error).__name__}: {error}", help_) from error


def start(environ: Mapping[str, str], *, memory_bytes: int | None = None) -> bool:
    """Start to compile in a process of its own, of the lowest priority; at most one works at a time.

    Nothing is started where what it makes could not be kept, or where there may be no room for it.

    Args:
        environ: the environment; see `ENVIRONMENT`.
        memory_bytes: memory that the run may take; None = that of the machine.

    Returns:
        Whether it was started.
    """
    room = min(each for each in (memory_bytes, memory_of_machine(), ROOM_BYTES) if each is not None)
    if environ.get(ENVIRONMENT) == "never" or room < ROOM_BYTES or code_files.writable_folder() is None:
        return False
    # Nothing of the present folder: it is left at once, and what lies there is not imported.
    path = [str(Path(each).absolute()) for each in sys.path if each]
    command = ["/bin/sh", "-c", _SHELL, "sh", sys.executable, "-c", _START, *path]
    try:
        ended = subprocess.run(  # noqa: S603 (our own interpreter)
            command, stdin=subprocess.DEVNULL, timeout=START_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ended.returncode == 0


def serve() -> None:
    """Compile what is missing, unless another process does or the last one failed: the whole of the process."""
    signal.alarm(int(END_S))  # whose default action ends the process, also within the compiler
    os.nice(_LOWEST)
    with suppress(OSError):
        os.setpgid(0, 0)  # what ends the run's group is not meant for this process
    os.chdir("/")
    folder = code_files.writable_folder()
    if folder is None or _failure_file(folder).exists():
        return
    with suppress(HeldError, OSError):  # a full disk may have room another time
        try:
            _compile_missing(folder, lambda _done, _count: None)
        except (HeldError, OSError):
            raise
        except Exception as error:
            with atomic_text(_failure_file(folder)) as file:
                file.write(f"{type(error).__name__}: {error}")


def _compile_missing(folder: Path, tell: Callable[[int, int], object]) -> None:
    """Compile one pass after another; those that are compiled stay, wherever this ends.

    Raises:
        HeldError: another process compiles.
        OSError: code cannot be written and read back.
    """
    from probe_flow.metrics.backends.compiled_code import compile_ahead

    folder.mkdir(parents=True, exist_ok=True)
    lock = LockFile(folder / LOCK_NAME)
    try:
        missing = _missing()
        for done, task in enumerate(missing):
            tell(done, len(missing))
            lock.touch()
            if not compile_ahead(*task):
                raise OSError(f"what is written to `{folder}` does not read back")
        _failure_file(folder).unlink(missing_ok=True)
    finally:
        lock.release()


def _missing() -> list[Task]:
    from probe_flow.metrics.backends.compiled_code import is_kept

    return [task for task in _tasks() if not is_kept(*task)]


def _tasks() -> list[Task]:
    """Return every pass, with those that installed packages bring; packages that are broken bring none."""
    from probe_flow.metrics.backends.numba_backend import passes_with

    kinds: list[type[OfValues | OfErrors]] = []
    for name in ACCUMULATORS:
        with suppress(BrokenPackageError):
            kind = ACCUMULATORS.find(name)
            if issubclass(kind, (OfValues, OfErrors)):
                kinds.append(kind)
    return list(passes_with(kinds))


def _failure_file(folder: Path) -> Path:
    from probe_flow.metrics.backends.compiled_code import key

    return folder / f"failed-{key()}"


def _text(path: Path) -> str:
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def _failed(why: str, help_: str) -> IncompleteError:
    return IncompleteError(Diagnostic("PF5120", f"machine code cannot be compiled ahead: {why}", help=help_))
