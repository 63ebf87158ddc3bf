"""Write long files in two processes: a forked child makes the second half while the first is made here.

The child sees what the parent has and gives back bytes in a file without a name, so nothing is copied or pickled. The
file is the same as if it had been made here: should anything go wrong with the child, its half is made here after all,
and what is wrong with the half itself shows then.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from probe_flow.formats.machine import free_memory, own_memory, usable_cpus

MIN_PARTS: Final = 20_000
"""Rows below which a child hardly pays: it copies whatever memory both touch, a tenth of a second for 50,000 rows."""

MAX_SHARE: Final = 0.25
"""Most of the memory that is left that the parent may fill: a child copies what it touches of it."""

Texts = Callable[[int, int], Iterable[str]]
"""Makes the text of some parts, from the first up to the last (not included), independent of what was made before."""


def write_parts(file: IO[str], texts: Texts, count: int, *, folder: Path) -> None:
    """Write the text of ``count`` parts, in order.

    Args:
        file: UTF-8 text, open for writing.
        texts: makes the texts.
        count: how many parts there are.
        folder: where the child's half lies meanwhile.
    """
    if count < MIN_PARTS or not _may_fork():
        file.writelines(texts(0, count))
        return
    middle = count // 2
    with _made_beside(lambda: texts(middle, count), folder) as made:
        file.writelines(texts(0, middle))
        half = made()
        if half is None:
            file.writelines(texts(middle, count))
        else:
            file.flush()
            shutil.copyfileobj(half, file.buffer, 1 << 20)  # type: ignore[attr-defined]


@contextmanager
def _made_beside(texts: Callable[[], Iterable[str]], folder: Path) -> Iterator[Callable[[], IO[bytes] | None]]:
    """Make texts in a child; yield what waits for it and returns their bytes, or None when it did not come to its end.

    A child that is not waited for is ended.
    """
    try:
        scratch = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed below, in both processes
    except OSError:
        yield lambda: None
        return
    with scratch:
        child = _fork()
        if child == 0:
            _end_with(_is_written(texts, scratch))
        waited = False

        def made() -> IO[bytes] | None:
            nonlocal waited
            if child is None:
                return None
            _, status = os.waitpid(child, 0)
            waited = True
            scratch.seek(0)
            return scratch if status == 0 else None

        try:
            yield made
        finally:
            if child is not None and not waited:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(child, 0)


def _fork() -> int | None:
    """Return the child's number in the parent, 0 in the child, None where there is no child."""
    with warnings.catch_warnings():
        # Python warns of any thread of a library. The child calls none of those: it makes text and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError:
            return None


def _is_written(texts: Callable[[], Iterable[str]], scratch: IO[bytes]) -> bool:
    """Write texts in the child; whatever goes wrong there is found again by the parent."""
    try:
        gc.disable()  # a collection would touch, and so copy, all that the parent has
        with open(
            scratch.fileno(), "w", encoding="utf-8", errors="backslashreplace", newline="", closefd=False
        ) as file:
            file.writelines(texts())
    except BaseException:  # an interrupt too: the parent gets one of its own
        return False
    return True


def _end_with(succeeded: bool) -> None:  # noqa: FBT001
    """End the child without any of the parent's clean-up: its files and locks are not the child's."""
    os._exit(0 if succeeded else 1)


def _may_fork() -> bool:
    """Whether a child is safe, has a processor of its own, and memory enough."""
    if not sys.platform.startswith("linux") or threading.active_count() > 1 or usable_cpus() < 2:
        return False
    return own_memory() < MAX_SHARE * free_memory()
