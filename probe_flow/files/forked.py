"""Work that a fork of this process does while the process goes on: files that are views of one finished result.

The fork sees all that is in memory, so nothing is sent to it. What it returns is sent back; whatever else becomes of it
(an error, a signal, no memory, no progress), the work is done here, which then raises what is to be raised. It takes
no lock that a thread may hold, writes to no file that was open, and ends with the process that made it.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Generic, NoReturn, TypeVar

from probe_flow.files.leftovers import remove_leftovers
from probe_flow.files.machine import KILL_S, memory_of_machine, usable_cpus
from probe_flow.files.opening import INHERITED, read_text

IDLE_S = 30.0
"""Seconds in which a fork that is waited for computes nothing and waits for no disk, until it counts as stuck."""

LEAST_TIMES_MEMORY = 4
"""A fork copies what it looks at, at most all that this process holds; so many times that must be there."""

MOST_BYTES = 512 * 2**20
"""A process that holds more makes no fork: time matters less than memory there."""

END_S = 2.0
"""Seconds that a fork gets to remove what it has not finished, once it is told to end."""

_LOOK_MS = 500
_PAUSE_S = 0.005
_DIES_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of ``linux/prctl.h``."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")


def can_fork(memory_bytes: int | None = None) -> bool:
    """Whether a fork has a processor and memory of its own.

    Args:
        memory_bytes: that may be used; None = that of the machine.
    """
    if not sys.platform.startswith("linux") or usable_cpus() < 2:  # elsewhere libraries do not bear it
        return False
    held, limit = _resident_bytes(), memory_bytes or memory_of_machine()
    return held <= MOST_BYTES and (limit is None or LEAST_TIMES_MEMORY * held <= limit)


class Forked(Generic[Result]):
    """Work that a fork has begun.

    Args:
        work: what is done; doing it twice gives the same. Its result can be pickled.
        folders: where it writes; what a fork that was killed left unfinished there is removed.
        lost: is told why the fork did not do it.
    """

    def __init__(
        self,
        work: Callable[[], Result],
        *,
        folders: Iterable[Path] = (),
        lost: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._work, self._folders, self._lost = work, tuple(folders), lost
        self._process, self._why = 0, ""
        self._done: tuple[Result] | None = None
        self._freezes = not gc.get_freeze_count()
        if self._freezes:
            gc.freeze()  # the collector writes to all objects, which would copy them
        self._answer, told = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            try:
                self._process = _fork(work, told)
            except OSError as error:  # no memory, or too many processes
                self._why = f"there is no fork: {error.strerror or error}"
            finally:
                os.close(told)
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            self.stop()
            raise

    @property
    def is_done(self) -> bool:
        """Whether its result is known here."""
        return self._done is not None

    def result(self) -> Result:
        """Wait for the fork and return what it found; do the work here if it has not done it."""
        if self._done is None:
            try:
                found = self._read()
            finally:
                self.stop()
            if found is None:
                self._lost(self._why)
            self._done = (self._work() if found is None else pickle.loads(found),)  # noqa: S301 - of our own fork
        return self._done[0]

    def stop(self) -> None:
        """End the fork if it is still at work, and remove what it then leaves; once it has ended nothing happens."""
        process, self._process = self._process, 0
        if self._answer >= 0:
            os.close(self._answer)
            self._answer = -1
            if self._freezes:
                gc.unfreeze()
        if process:
            for number, seconds in ((signal.SIGTERM, END_S), (signal.SIGKILL, KILL_S)):
                with suppress(ProcessLookupError):
                    os.kill(process, number)
                if _ended(process, seconds) is not None:
                    break
            for folder in self._folders:
                remove_leftovers(folder)

    def _read(self) -> bytes | None:
        """Return what the fork sent, None if that is not all."""
        if not self._process:
            return None
        found, heard = bytearray(), select.poll()
        heard.register(self._answer, select.POLLIN)
        before, since = "", time.monotonic()
        while True:
            if heard.poll(_LOOK_MS):
                piece = os.read(self._answer, 1 << 16)
                if not piece:
                    break
                found += piece
            work = _work_of(self._process)
            if work != before or not work:
                before, since = work, time.monotonic()
            elif time.monotonic() - since > IDLE_S:
                self._why = f"it did nothing for {IDLE_S:.0f} s"
                return None
        status = _ended(self._process, KILL_S)
        if status == 0 and found:
            self._process = 0
            return bytes(found)
        self._why = f"it was ended by {signal.Signals(-status).name}" if status and status < 0 else "it failed"
        return None


def _fork(work: Callable[[], object], told: int) -> int:
    """Return the process that does the work, which itself never comes back from here."""
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, by Python 3.12 and libraries: none of their locks is taken
        process = os.fork()
    if not process:
        _be_the_fork(work, told, parent)
    return process


def _be_the_fork(work: Callable[[], object], told: int, parent: int) -> NoReturn:
    code = 1
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:  # what a terminal sends to all is for the parent to decide
            signal.signal(number, _end if number == signal.SIGTERM else signal.SIG_IGN)
        _die_with(parent)
        # Others wait for the end of what is written to pipes, and what is buffered for files is the parent's.
        begin = 3
        for needed in sorted({told, *INHERITED}):
            os.closerange(begin, needed)
            begin = needed + 1
        os.closerange(begin, os.sysconf("SC_OPEN_MAX"))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        answer = memoryview(pickle.dumps(work()))
        while answer:
            answer = answer[os.write(told, answer) :]
        code = 0
    finally:
        os._exit(code)  # nothing is flushed, and nobody told of an end


class _EndedError(BaseException):
    """The parent wants the fork to end; files half written are removed on the way."""


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _EndedError


def _die_with(parent: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, int(signal.SIGKILL))
    if os.getppid() != parent:  # before that was said
        os._exit(1)


def _ended(process: int, seconds: float) -> int | None:
    """Return the exit code of a child, negative for a signal; None if it did not end in that time, or nobody knows."""
    end = time.monotonic() + seconds
    while True:
        try:
            ended, status = os.waitpid(process, os.WNOHANG)
        except ChildProcessError:  # somebody else has asked
            return 1
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(_PAUSE_S)


def _work_of(process: int) -> str:
    """Return what changes while a process computes; empty while it waits for a processor or a disk."""
    state, *fields = _facts(f"/proc/{process}/stat").rpartition(")")[2].split() or [""]
    return "" if state in ("", "R", "D") else " ".join([state, *fields[10:12]])


def _resident_bytes() -> int:
    pages = _facts("/proc/self/statm").split()[1:2]
    return int(pages[0] if pages else 0) * os.sysconf("SC_PAGE_SIZE")


def _facts(path: str) -> str:
    with suppress(OSError):
        return read_text(path, encoding="ascii", errors="replace")
    return ""
