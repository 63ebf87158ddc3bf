"""Stop on a signal: the files in work are finished, no further one is begun."""

from __future__ import annotations

import os
import secrets
import select
import signal
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Listens for SIGTERM and SIGINT while it is open; outside the main thread it hears none.

    A second signal ends at once, as it would without this. Workers hear of it by a file that appears then, `path`,
    wherever they run; a process that is killed leaves none.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.path = str(Path(_temporary_folder(), f"probe_flow_reduce_{secrets.token_hex(16)}"))
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._former: dict[int, Any] = {}

    @property
    def is_requested(self) -> bool:
        return self.signal is not None

    def wait(self, seconds: float) -> bool:
        """Wait, without using the processor; return whether a stop was asked for."""
        if not self.is_requested:
            select.select([self._woken], [], [], seconds)
        return self.is_requested

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._heard) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        if self.is_requested:
            with suppress(OSError):
                Path(self.path).unlink()
        os.close(self._woken)
        os.close(self._wake)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if self.is_requested:
            raise KeyboardInterrupt
        self.signal = number
        with suppress(OSError):
            os.write(self._wake, b"x")
        with suppress(OSError):  # on a full disk workers finish their batches
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:  # none can be written, e.g. because the disk is full
        return "/tmp"  # noqa: S108 - the name that is made there cannot be guessed
