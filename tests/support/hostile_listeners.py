"""Listeners on the loopback that are no Dask scheduler: some do harm, some do nothing sensible."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from processes_seen import wait_until

if TYPE_CHECKING:
    from dask_clusters import Certificates


@dataclass
class Listener:
    """A port, and how many connected to it."""

    port: int
    connections: int = 0


@contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[Listener]:
    """Listen, and treat each connection as told; it is closed afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Listener(server.getsockname()[1])
        ends = threading.Event()
        server.settimeout(0.05)

        def serve() -> None:
            held = []
            while not ends.is_set():
                with suppress(OSError):
                    connection, _ = server.accept()
                    found.connections += 1
                    connection.settimeout(0.5)
                    held.append(connection)
                    answer(connection)
            for connection in held:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield found
        finally:
            ends.set()
            thread.join(30)


def say_nothing(_connection: socket.socket) -> None:
    """Accept, and leave it at that."""


def close_at_once(connection: socket.socket) -> None:
    connection.close()


def speak_another_language(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def announce_much(connection: socket.socket) -> None:
    """Announce one frame of an exabyte, as Dask's protocol says it, and send none."""
    connection.sendall(struct.pack("<QQQ", 2**60, 1, 2**60 - 16))


class _MakesAFolder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.makedirs, (str(self._path), 0o700, True)


@contextmanager
def scheduler_with_payload(mark: Path, certificates: Certificates | None = None) -> Iterator[str]:
    """Run what answers like a Dask scheduler, with a pickle that makes a folder where it is loaded."""
    from distributed.core import Server
    from distributed.security import Security

    started: list[str] = []
    ends = threading.Event()

    async def serve() -> None:
        server = Server(handlers={"identity": lambda **_: _MakesAFolder(mark)}, needs_workdir=False)
        arguments = {}
        if certificates is not None:
            security = Security(
                tls_ca_file=str(certificates.authority),
                tls_scheduler_cert=str(certificates.member),
                tls_scheduler_key=str(certificates.key),
            )
            arguments = security.get_listen_args("scheduler")
            arguments["ssl_context"].verify_mode = ssl.CERT_NONE  # whoever means harm takes every client
        await server.listen("tls://127.0.0.1:0" if certificates else "tcp://127.0.0.1:0", **arguments)
        started.append(server.address)
        while not ends.is_set():
            await asyncio.sleep(0.02)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        wait_until(lambda: bool(started))
        yield started[0]
    finally:
        ends.set()
        thread.join(30)
