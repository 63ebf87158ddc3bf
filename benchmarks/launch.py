"""Run one command and print what it took, as JSON: `python -S launch.py TIMEOUT_S COMMAND...`.

The peak memory that the system reports for a child starts at that of the process that started it. This one stays
small, so that the figure is the child's own.
"""

import json
import os
import signal
import sys
import tempfile
import time

TAIL_BYTES = 2000
"""Of what the command printed, this much is passed on."""


def main() -> None:
    timeout_s, command = int(sys.argv[1]), sys.argv[2:]
    printed = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with this process
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        *((os.POSIX_SPAWN_DUP2, printed.fileno(), number) for number in (1, 2)),
    ]
    started = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=streams, setpgroup=0)

    def stop(*_: object) -> None:
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(timeout_s)
    _, status, usage = os.wait4(child, 0)
    wall_s = time.perf_counter() - started
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - TAIL_BYTES))
    result = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,
        "printed": printed.read().decode("utf-8", "replace"),
    }
    json.dump(result, sys.stdout)


main()
