"""The viewer of graphs that users of msprobe have: TensorBoard with the plugin tb-graph-ascend, in a process.

Its answers are taken as they are; the addresses are those of its page (plugin 8.3.2).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("PROBE_FLOW_VIEWER", ROOT / ".venv-viewer" / "bin" / "tensorboard"))
"""What starts the viewer; `make test-viewer` installs it."""

START_S, ANSWER_S, LOAD_S, END_S = 120, 60, 300, 10
"""Seconds until the server must listen, answer, have loaded a file, have ended; the machine may be busy with others."""

NOBODY = 65534
"""A user that is not root: for root the plugin skips the checks of owners and modes."""

_LOCAL = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class Viewer:
    """A running server."""

    address: str

    @property
    def page(self) -> str:
        """The page that draws the first run."""
        return f"{self.address}/index.html"

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return what it found: folder -> `type` (`json` or `db`) and `tags`, the files without their suffix."""
        answer = json.loads(self._ask("load_meta_dir"))
        assert answer["error"] == [], answer["error"]
        found: dict[str, dict[str, Any]] = answer["data"]
        return found

    def open(self, run: str, *, rank: int = 0, step: int = 0) -> ShownGraph:
        """Load the only graph of a folder, as the page does."""
        found = self.listed()[run]
        (tag,), kind = found["tags"], found["type"]
        text = self._ask(f"loadGraphData?{urlencode({'run': run, 'tag': tag, 'type': kind, 'lang': 'en'})}")
        assert '"done": true' in text or "success" in text, text[-500:]
        meta = {"run": run, "tag": tag, "type": kind, "microStep": -1, "lang": "en"}
        shown = ShownGraph(self, {**meta, "rank": rank, "step": step} if kind == "db" else meta)
        assert shown.config
        return shown

    def _ask(self, words: str, body: Mapping[str, Any] | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.address}/{words}", data, {"Content-Type": "application/json"})
        with _LOCAL.open(request, timeout=LOAD_S if words.startswith("loadGraphData") else ANSWER_S) as answer:
            text: str = answer.read().decode()
        return text

    def post(self, words: str, body: Mapping[str, Any]) -> Any:
        """Return the data of an answer that says it succeeded."""
        answer = json.loads(self._ask(words, body))
        assert answer["success"], answer
        return answer["data"]


@dataclass(frozen=True)
class ShownGraph:
    """A graph that the server has loaded; it keeps one at a time."""

    viewer: Viewer
    meta: Mapping[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """Colours, task, micro steps, ranks and steps."""
        found: dict[str, Any] = self._post("loadGraphConfigInfo")
        return found

    def names(self) -> dict[str, Any]:
        """Return the nodes of both sides, and which are matched."""
        found: dict[str, Any] = self._post("loadGraphAllNodeList")
        return found

    def expanded(self, *names: str, side: str = "NPU") -> dict[str, dict[str, Any]]:
        """Return what is drawn after the root was opened, then these nodes in turn."""
        drawn: dict[str, dict[str, Any]] = {}
        for name in ("root", *names):
            drawn = self._post("changeNodeExpandState", nodeInfo={"nodeName": name, "nodeType": side})
        return drawn

    def node(self, name: str, *, side: str = "NPU") -> dict[str, Any]:
        """Return a node as its panel shows it: `npu`, and `bench` where it has a partner."""
        found: dict[str, Any] = self._post("getNodeInfo", nodeInfo={"nodeName": name, "nodeType": side})
        return found

    def in_bands(self, *bands: Sequence[float] | int) -> list[str]:
        """Return the leaves whose score is in one of the bands; -1 is a band for those without a partner."""
        found: list[str] = self._post("screen", type="precision", values=list(bands))
        return found

    def overflowing(self, *levels: str) -> list[str]:
        """Return the leaves of these levels."""
        found: list[str] = self._post("screen", type="overflow", values=list(levels))
        return found

    def _post(self, words: str, **body: Any) -> Any:
        return self.viewer.post(words, {"metaData": self.meta, **body})


@contextlib.contextmanager
def viewer_of(folder: Path, log: Path) -> Iterator[Viewer]:
    """Serve a folder of folders of graphs while the context lasts.

    The server is never root's: files then belong to nobody, who may read everything and own nothing else.
    """
    command = [str(COMMAND), "--logdir", str(folder), "--host", "127.0.0.1", "--load_fast", "false"]
    if os.geteuid() == 0:
        assert shutil.which("setpriv"), "the checks of the viewer need a user that is not root; install util-linux"
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, NOBODY, NOBODY)
        rights = "+dac_override,+dac_read_search"  # the environment may lie in root's home
        user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        command = ["setpriv", *user, f"--inh-caps={rights}", f"--ambient-caps={rights}", *command]
    port = _free_port()
    with log.open("wb") as output:
        server = subprocess.Popen([*command, "--port", str(port)], stdout=output, stderr=output, start_new_session=True)
        try:
            _wait(f"http://127.0.0.1:{port}/data/plugins_listing", server, log)
            yield Viewer(f"http://127.0.0.1:{port}/data/plugin/graph_ascend")
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(URLError, OSError), _LOCAL.open(address, timeout=ANSWER_S):
            return
        time.sleep(0.2)
    raise AssertionError(f"the viewer does not answer:\n{log.read_text(errors='replace')[-2000:]}")
