"""How much memory work takes at most, measured in an interpreter of its own that cannot eat the machine."""

from __future__ import annotations

import os
import subprocess
import sys

LIMIT_BYTES = 6 << 30
"""Address space of the child: what takes more ends with a MemoryError there."""

SECONDS = 300

_CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))

def memory(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

{setup}
before = memory("VmRSS")
{work}
print(memory("VmHWM") - before)
"""


def peak_bytes(setup: str, work: str, *arguments: object) -> int:
    """Return how much more memory the process held at most while ``work`` ran than after ``setup``.

    Args:
        setup: imports and what else is not to be counted.
        work: lines of Python; `sys.argv[1:]` are the ``arguments``.

    Raises:
        AssertionError: the work failed, with what the child wrote.
    """
    child = subprocess.run(
        [sys.executable, "-c", _CHILD.format(limit=LIMIT_BYTES, setup=setup, work=work), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 0, child.stderr[-2000:]
    return int(child.stdout.split()[-1])
