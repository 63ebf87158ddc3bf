"""The inside of a worker process of the `processes` scheduler: take a batch, run it, send the result back.

The process is started with the numeric libraries' thread counts already in its environment, imports nothing but what
the batches need, and ends as soon as the process that started it is gone.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

READY = "ready"


class WorkerTracebackError(Exception):
    """The traceback of an error in a worker, as text; chained below the error that arrives."""


def serve(descriptor: int, memory_bytes: int, modules: Iterable[str] = ()) -> None:
    """Run batches until the other end of the connection is closed; never returns.

    Args:
        descriptor: of the socket to the process that started this one.
        memory_bytes: what may be allocated here (mapped files do not count); 0 = no limit.
        modules: what the batches will need, loaded before the first of them is there.
    """
    # Ctrl-C in a terminal reaches every process of the group; the one that started this one decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    connection: Connection = Connection(descriptor)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    with suppress(Exception):  # the batch that needs the module says what is wrong with it
        for module in modules:
            import_module(module)
    connection.send(READY)
    while True:
        connection.send_bytes(_answer(inbox.get()))


def _listen(connection: Connection, inbox: queue.SimpleQueue[bytes]) -> None:
    """Receive while batches run, so that the end of the other process is noticed at once."""
    try:
        while True:
            inbox.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(0)


def _answer(message: bytes) -> memoryview:
    """Return, pickled: whether the batch ended well, its result or its error, and the traceback of the error."""
    try:
        function, batch = ForkingPickler.loads(message)
        return _pickled(function(batch), is_result=True)
    except Exception as exc:  # of any origin: it is raised again where the batch was handed out
        text = traceback.format_exc()
        try:
            answer = _pickled(exc, text)
            ForkingPickler.loads(answer)
        except Exception:  # an error that cannot travel is replaced by its words
            return _pickled(RuntimeError(f"{type(exc).__name__}: {exc}"), text)
        return answer


def _pickled(result: object, text: str = "", *, is_result: bool = False) -> memoryview:
    pickled: memoryview = ForkingPickler.dumps((is_result, result, text))
    return pickled
