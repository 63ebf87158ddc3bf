"""Read one input after another within bounds of time and memory, and tell how each ended."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.target import Target, check_diagnostics
from fuzz.tree import Place, Tree
from probe_flow.errors import ProbeFlowError, WorkflowError

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_BYTES = 1 << 30
"""Memory that an input may take beyond what the process has."""
MAX_S = 20.0
"""Time of a processor that an input may take, which is the same on a busy machine."""
MAX_WAIT_S = 300.0
"""Time until it counts as waiting for something that does not come."""


class TooSlowError(BaseException):
    """Time is up; no reader catches it by accident."""


@dataclass(frozen=True, slots=True)
class Crash:
    """An input that ended otherwise than it may.

    Args:
        kind: the exception and the innermost place in the package, which are the same for one mistake.
        trace: the whole of it.
    """

    kind: str
    trace: str


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bound the memory of this process, and make its alarms a `TooSlowError`; afterwards all is as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handlers = [(each, signal.signal(each, _too_slow)) for each in (signal.SIGALRM, signal.SIGPROF)]
    rest_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (has + MAX_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        _set_alarms(0, 0)
        for each, handler in handlers:
            signal.signal(each, handler)
        if rest_s:
            signal.setitimer(signal.ITIMER_REAL, max(0.01, rest_s - (time.monotonic() - began)))


def _set_alarms(work_s: float, wait_s: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, work_s)
    signal.setitimer(signal.ITIMER_REAL, wait_s)


def _too_slow(number: int, _frame: object) -> None:
    raise TooSlowError(f"{MAX_S:g} s of work are over" if number == signal.SIGPROF else f"{MAX_WAIT_S:g} s are over")


class Reader:
    """Reads the inputs of one target in a scratch folder; use it in ``with``, inside of `bounded`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self._places: dict[frozenset[str], Place] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def read(self, tree: Tree) -> bool | Crash:
        """Return whether an input was accepted, or how it crashed."""
        try:
            path = self._place(tree).put(tree)
        except OSError:  # no such name can be
            self._places.clear()
            return False
        _set_alarms(MAX_S, MAX_WAIT_S)
        try:
            self.target.read(path)
            is_accepted = True
        except ProbeFlowError as error:
            _set_alarms(MAX_S, MAX_WAIT_S)
            try:
                sources = error.sources if isinstance(error, WorkflowError) else None
                check_diagnostics(error.diagnostics, sources)
            except (Exception, TooSlowError) as unfit:
                return _crash(unfit)
            is_accepted = False
        except (Exception, TooSlowError) as error:
            return _crash(error)
        finally:
            _set_alarms(0, 0)
        return is_accepted

    def smaller(self, tree: Tree, kind: str) -> Tree:
        """Return a crashing input without the files that it does without."""
        for name in tree:
            rest = {each: content for each, content in tree.items() if each != name}
            found = self.read(rest)
            if isinstance(found, Crash) and found.kind == kind:
                tree = rest
        return tree

    def _place(self, tree: Tree) -> Place:
        """Return a folder that holds files of mostly the same names, so that few are written anew."""
        names = frozenset(name.rpartition("/")[0] for name in tree)
        if names not in self._places:
            if len(self._places) > 40:
                for place in self._places.values():
                    shutil.rmtree(place.folder, ignore_errors=True)
                self._places.clear()
            self._places[names] = Place(Path(tempfile.mkdtemp(dir=self._folder)))
        return self._places[names]


def _crash(error: BaseException) -> Crash:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/probe_flow/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    what = f"{type(error).__name__}"
    if isinstance(error, AssertionError):
        what += f" {str(error)[:60]}"
    return Crash(f"{what} in {place}", "".join(traceback.format_exception(error)))
