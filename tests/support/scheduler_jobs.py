"""Batches for schedulers whose workers are other processes: importable there, and able to die."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class TalkativeError(Exception):
    """Cannot be made again from its message alone, as many foreign errors."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def square(number: int) -> int:
    return number * number


def origin(_batch: object) -> tuple[int, bool]:
    """Return the process that started this one, and whether it has what measuring needs."""
    return os.getppid(), "probe_flow.measure.batches" in sys.modules


def process(_: object) -> int:
    return os.getpid()


def surroundings(_: object) -> dict[str, Any]:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "pid": os.getpid(),
        "threads": [os.environ.get(name) for name in names],
        "modules": [*sys.modules],
        "has_numpy": "numpy" in sys.modules,
        "data_limit": resource.getrlimit(resource.RLIMIT_DATA)[0],
    }


def fail_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def talk(_: object) -> None:
    raise TalkativeError("one", "two")


def unpicklable(_: object) -> object:
    return lambda: None


def die_once(marker: Path | None) -> str:
    """Kill the own process, unless that was done before."""
    if marker is not None and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def die_on_three(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def measure_or_die(batch: Any) -> object:
    """Measure a batch, or kill the own process when the node `Add` is in it."""
    from probe_flow.measure.batches import measure_batch

    if any(task.target.node.name == "Add" for task in batch.tasks):
        os.kill(os.getpid(), signal.SIGKILL)
    return measure_batch(batch)


def write_pid_and_wait(folder: Path) -> None:
    (folder / f"worker-{os.getpid()}").touch()
    time.sleep(600)
    (folder / f"ended-{os.getpid()}").touch()


def write_pid_or_square(batch: Path | int) -> int:
    if isinstance(batch, int):
        return batch * batch
    write_pid_and_wait(batch)
    return 0


def write_pid_here_and_wait(_: object) -> float:
    write_pid_and_wait(Path.cwd())
    return 0.0


def die_and_leave_an_heir(folder: Path) -> None:
    """Kill the own process, but leave one that holds its connection open until the folder has a file `end`."""
    if os.fork() == 0:
        (folder / f"heir-{os.getpid()}").touch()
        deadline = time.monotonic() + 120
        while not (folder / "end").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


def allocate(count: int) -> int:
    return len(bytearray(count))


def square_but_die_before_handing_over(number: int) -> int:
    """Square, in a worker of Dask that kills itself when its scheduler asks for a result."""
    from distributed import get_worker

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    get_worker().handlers["get_data"] = die
    return number * number


def measure_but_die_before_handing_add_over(batch: Any) -> object:
    """Measure a batch; a worker of Dask that did so with the node `Add` dies when its scheduler asks for a result."""
    from probe_flow.measure.batches import measure_batch

    if any(task.target.node.name == "Add" for task in batch.tasks):
        square_but_die_before_handing_over(0)
    return measure_batch(batch)


def square_then_wait(batch: tuple[int, Path | None]) -> int:
    """Square a number; with a folder, say there that the batch has begun, and wait."""
    number, folder = batch
    if folder is not None:
        (folder / "begun").touch()
        time.sleep(600)
    return number * number


def shown(_: object) -> tuple[int, dict[str, str], str]:
    """Return what a worker shows of itself: its process, its environment and its command line."""
    return os.getpid(), dict(os.environ), Path("/proc/self/cmdline").read_text()


def own_sockets(_: object) -> dict[str, str]:
    """Return the sockets of this process: by number its name among those of Unix, or the kind that it is."""
    links = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    numbers = {link[8:-1] for link in links if link.startswith("socket:[")}
    named = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    names = {cells[6]: " ".join(cells[7:]) for cells in named}
    return {number: names.get(number, "not of Unix") for number in numbers}


def hang_with_a_child(marker: Path) -> None:
    """Start a process that sleeps, write down its number, and never end."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    marker.write_text(str(child.pid))
    time.sleep(3600)
