"""The process that tries scripts: it imports their framework once, and gives each script a fork of itself.

It runs under the interpreter that has the framework, where nothing of ours need be installed: the standard library is
all it uses. A script that crashes, hangs or wants more memory than it may have ends its own fork.

From standard input one JSON object: ``modules`` to import, ``scripts`` (each ``script`` and ``result``), ``seconds``
and ``memory_bytes`` of each. To standard output a line of JSON each: ``failed`` where a module cannot be imported, else
for every script its number and its ``code``, or ``why`` it has none, and the last line of its error output.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from typing import Any

LAST_BYTES = 16 << 10
"""Of what a script wrote to its error output, where its last line is looked for."""

_PAUSE_S = 0.005


def main() -> None:
    """Try every script that standard input names."""
    sys.path.pop(0)  # the folder of this file, whose neighbours are not meant to be imported
    job = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a framework prints when it is imported is no answer
    try:
        for name in job["modules"]:
            import_module(name)
    except Exception as error:
        _answer(answers, {"failed": f"{type(error).__name__}: {error}"})
        return
    for number, each in enumerate(job["scripts"]):
        _answer(answers, {"number": number, **_try(each, job["seconds"], job["memory_bytes"])})


def _answer(stream: Any, fields: dict[str, Any]) -> None:
    stream.write(json.dumps(fields) + "\n")
    stream.flush()


def _try(each: dict[str, str], seconds: float, memory_bytes: int) -> dict[str, Any]:
    """Run a script in a fork; return its exit code, or why it has none."""
    with tempfile.TemporaryFile() as said:
        fork = os.fork()
        if fork == 0:
            os._exit(_run(each, memory_bytes, said.fileno()))
        code, why = _wait(fork, seconds)
        said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_BYTES))
        lines = said.read().decode(errors="replace").strip().splitlines()
    return {"code": code, "why": why, "last": lines[-1] if lines else ""}


def _run(each: dict[str, str], memory_bytes: int, said: int) -> int:
    """Be the script; return its exit code."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(said, 2)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = [each["script"], "--json", each["result"]]
    code: object = 0
    try:
        runpy.run_path(each["script"], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    return code if isinstance(code, int) else 0 if code is None else 1


def _wait(fork: int, seconds: float) -> tuple[int | None, str]:
    """Return the exit code of a fork, or why it has none; end it when its time is over, or nobody waits any more."""
    parent, end, pause = os.getppid(), time.monotonic() + seconds, _PAUSE_S
    while True:
        ended, status = os.waitpid(fork, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > end or os.getppid() != parent:
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)
            if os.getppid() != parent:
                sys.exit(1)
            return None, f"it took more than {seconds:g} s"
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    code = os.waitstatus_to_exitcode(status)
    return (code, "") if code >= 0 else (None, f"it ended its process with {signal.Signals(-code).name}")


if __name__ == "__main__":
    main()
