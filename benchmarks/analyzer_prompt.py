"""Drive TensorFlow's analyzer as precision_tool does: ``python analyzer_prompt.py PROMPT RUN``.

PROMPT is a file of commands, one a line. precision_tool's `tf_dump` waits a second before each run folder, starts the
analyzer in a pseudo-terminal by pexpect, and sends each command when the prompt is there; pexpect itself waits 0.05 s
before it sends a line (its `delaybeforesend`). The same is done here, by the standard library alone.
"""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

FOLDER_S = 1.0
LINE_S = 0.05
PROMPT = b"tfdbg>"
MOST_S = 360.0
"""For each answer, as precision_tool has it."""


def await_prompt(terminal: int) -> None:
    """Read what the analyzer writes up to its next prompt."""
    seen = b""
    end_s = time.monotonic() + MOST_S
    while PROMPT not in seen:
        if not select.select([terminal], [], [], end_s - time.monotonic())[0]:
            raise TimeoutError(f"no prompt within {MOST_S:.0f} s")
        seen = seen[-len(PROMPT) :] + os.read(terminal, 1 << 16)


def main(prompt: str, run: str) -> int:
    time.sleep(FOLDER_S)
    analyzer = "tensorflow.python.debug.cli.offline_analyzer"
    command = [sys.executable, "-m", analyzer, "--ui_type", "readline", "--dump_dir", run]
    child, terminal = pty.fork()
    if not child:
        os.execv(sys.executable, command)
    for line in Path(prompt).read_text(encoding="utf-8").splitlines():
        await_prompt(terminal)
        time.sleep(LINE_S)
        os.write(terminal, f"{line}\n".encode())
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:  # the other end is closed
        pass
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
