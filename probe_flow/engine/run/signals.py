"""Stop a run on a signal: what is under way ends at once, the record says so, and the exit code names the signal."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from probe_flow.errors import Stopped

if TYPE_CHECKING:
    from typing_extensions import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the wish of a system or of `kill`, and the end of a terminal."""

AGAIN_S = 1.0
"""Seconds after a signal from which another one ends the process at once; one wish often arrives more than once."""


class Signals:
    """Listens for `SIGNALS` while it is open; outside the main thread it hears none. Use it in ``with``.

    Only `working` is interrupted: a record that is being written is written to its end. What the process was told to
    ignore (``nohup``) stays ignored.
    """

    def __init__(self) -> None:
        self.number = 0
        """The signal that stopped the run; 0 = none."""
        self._heard_s = 0.0
        self._may_raise = False
        self._process = os.getpid()
        self._former: dict[int, Any] = {}

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let a signal end what is done in the block.

        Raises:
            Stopped: a signal was heard, in the block or before it.
        """
        self._may_raise = True
        try:
            if self.number:
                raise Stopped(self.number)
            yield
        except KeyboardInterrupt as exc:  # a stage may hear signals itself
            self.number = self.number or (exc.number if isinstance(exc, Stopped) else signal.SIGINT)
            raise
        finally:
            self._may_raise = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
            self._former = {number: signal.signal(number, self._hear) for number in heard}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a child that was forked: its parent decides, and ends it
        if self.number and time.monotonic() - self._heard_s >= AGAIN_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(self._process, number)
        if not self.number:
            self.number, self._heard_s = number, time.monotonic()
        if self._may_raise:
            self._may_raise = False
            raise Stopped(number)
