"""`events.jsonl`: what happened when, one JSON object a line, for people who look into a run and for log systems.

Time is a parameter: the wall clock for names and records, a monotonic one for durations.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct

from probe_flow.errors import Diagnostic, UsageError


def _local_now() -> datetime:
    return datetime.now().astimezone()


class Clock(Struct, frozen=True):
    """Two clocks.

    Args:
        now: current time with its zone.
        monotonic: seconds from any origin, never going back.
    """

    now: Callable[[], datetime] = _local_now
    monotonic: Callable[[], float] = time.monotonic


FILE_BEGUN = "file.begun"
"""Written before a result file is: a run that is killed then leaves files that its record does not name."""


class EventLog:
    """Writes events with the bound context of the run; structlog is configured for this object only.

    Args:
        file: open text file; every event is flushed, so that a killed run leaves its trace.
        run_id: bound to every event.
        clock: source of the ``timestamp`` field.
    """

    def __init__(self, file: TextIO, *, run_id: str, clock: Clock) -> None:
        import structlog

        def stamp(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            event["timestamp"] = clock.now().isoformat(timespec="milliseconds")
            return event

        self._log = structlog.wrap_logger(
            structlog.WriteLogger(file),
            processors=[
                structlog.processors.add_log_level,
                stamp,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
            wrapper_class=structlog.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
            run_id=run_id,
        )

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event: a constant name with fields, e.g. ``stage.started`` with ``stage="pairs"``."""
        self._log.info(event, **fields)


@contextmanager
def open_events(path: Path, *, run_id: str, clock: Clock) -> Iterator[EventLog]:
    """Begin a new event file at `path`; what an earlier run left there is replaced, and no link of it followed.

    Raises:
        UsageError: PF6011 when something else than a file is in its place, or it cannot be written.
    """
    try:
        path.unlink(missing_ok=True)
        file = path.open("x", encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as error:
        message = f"`{path.name}` of the output folder cannot be written: {error.strerror or error}"
        cure = "remove what is in its place, or name another folder with `--output`"
        raise UsageError(Diagnostic("PF6011", message, path=str(path), help=cure)) from error
    with file:
        yield EventLog(file, run_id=run_id, clock=clock)


def _to_json(event: object, **_options: object) -> str:
    return json.dumps(event, ensure_ascii=False, default=str)
