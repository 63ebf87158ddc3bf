"""Just enough of the language server protocol to ask an editor's YAML server what it says of a file."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any

WAIT_S = 120


class LanguageServer:
    """A server in a process of its own, which ends with the block.

    Args:
        command: program and arguments; it talks over its standard streams.
        folder: where it runs.
    """

    def __init__(self, command: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._heard: Queue[dict[str, Any] | None] = Queue()
        self._number = 0
        self._diagnostics: dict[str, list[dict[str, Any]]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> LanguageServer:  # noqa: PYI034 (typing has `Self` from Python 3.11 on)
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        self.tell("initialized", {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while head := stream.readline():
            if head.lower().startswith(b"content-length:"):
                length = int(head.split(b":")[1])
                while stream.readline().strip():
                    pass
                self._heard.put(json.loads(stream.read(length)))
        self._heard.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def tell(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, params: object) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._until(lambda message: message.get("id") == self._number and "method" not in message)["result"]

    def open(self, path: Path) -> list[dict[str, Any]]:
        """Open a file as an editor does; return the problems that the server marks in it."""
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": path.read_text(encoding="utf-8")}
        self.tell("textDocument/didOpen", {"textDocument": document})
        self._until(lambda _: path.as_uri() in self._diagnostics)
        return self._diagnostics[path.as_uri()]

    def complete(self, path: Path, line: int, column: int) -> list[str]:
        """Return what the server offers at a place, both counted from 0."""
        place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        found = self.ask("textDocument/completion", place)
        return [each["label"] for each in (found["items"] if isinstance(found, dict) else found)]

    def _until(self, is_wanted: Any) -> dict[str, Any]:
        """Answer what the server asks until a message comes that is wanted."""
        while True:
            try:
                message = self._heard.get(timeout=WAIT_S)
            except Empty:
                raise AssertionError("the language server says nothing") from None
            assert message is not None, "the language server has ended"
            if message.get("method") == "textDocument/publishDiagnostics":
                self._diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
            elif "method" in message and "id" in message:
                is_settings = message["method"] == "workspace/configuration"
                answer = [None] * len(message["params"]["items"]) if is_settings else None
                self._send({"id": message["id"], "result": answer})
            if is_wanted(message):
                return message
