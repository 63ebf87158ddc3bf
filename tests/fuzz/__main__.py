"""`make fuzz`: every target on all cores for a time, a table at the end, and what crashed kept for `make test`.

Each target is read by a process of its own, a few seconds at a time. ``FUZZ_SECONDS`` and ``FUZZ_EXECUTIONS`` say when
to stop, ``FUZZ_JOBS`` how many processes run, ``FUZZ_FROM`` which input is the first, and words which targets.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from fuzz.limits import Crash, Reader, bounded
from fuzz.target import Target
from fuzz.tree import digest, packed

TARGETS: Mapping[str, Target] = import_module(os.environ.get("FUZZ_TARGETS") or "fuzz.targets").TARGETS
REGRESSIONS = Path(__file__).parent / "regressions"
TURN_S = 20.0
"""Seconds that a process reads one target before another has its turn."""
SILENT_S = 600.0
"""Time after which a process that reads the same input still is killed: not even its alarm came."""
_WORD = struct.Struct("<q")


@dataclass
class Tally:
    """What became of the inputs of one target."""

    name: str
    next: int
    executions: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    slowest: int = 0
    peak_bytes: int = 0
    crashes: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """Return the line of the table."""
        peak = f"{self.peak_bytes / 2**20:.0f} MiB"
        numbers = f"{self.executions:>11,}{self.accepted:>11,}{self.refused:>11,}{len(self.crashes):>9}"
        return f"{self.name:<18}{numbers}{self.slowest_s:>9.2f} s{peak:>11}"


HEADER = f"{'target':<18}{'executions':>11}{'accepted':>11}{'refused':>11}{'crashes':>9}{'slowest':>11}{'peak':>11}"


def turn(target: Target, first: int, seconds: float, place: mmap.mmap) -> dict[str, object]:
    """Read inputs from ``first`` on; the number of the current one stands in ``place``."""
    for seed in target.seeds:
        assert seed is not None
    crashes: dict[str, tuple[int, str, str]] = {}
    counts = [0, 0]
    slowest, number = (0.0, first), first
    with bounded(), Reader(target) as reader:
        for tree in target.seeds:
            reader.read(tree)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            _WORD.pack_into(place, 0, number)
            worked = time.process_time()
            tree = target.input(number)
            found = reader.read(tree)
            slowest = max(slowest, (time.process_time() - worked, number))
            if not isinstance(found, Crash):
                counts[found] += 1
            elif found.kind not in crashes:
                content = b64encode(packed(reader.smaller(tree, found.kind))).decode()
                crashes[found.kind] = (number, found.trace, content)
            number += 1
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return {"next": number, "accepted": counts[1], "refused": counts[0], "slowest": slowest, "peak": peak,
            "crashes": crashes}  # fmt: skip


def _child(name: str, first: int, seconds: float, file: str) -> None:
    with Path(file).open("r+b") as opened:
        print(json.dumps(turn(TARGETS[name], first, seconds, mmap.mmap(opened.fileno(), _WORD.size))))


def take_turn(tally: Tally, seconds: float) -> None:
    """Have a process read a target for some seconds, and note what came of it."""
    with tempfile.NamedTemporaryFile() as place:
        place.write(_WORD.pack(tally.next))
        place.flush()
        order = [sys.executable, "-m", "fuzz", "--child", tally.name, str(tally.next), str(seconds), place.name]
        process = subprocess.Popen(order, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = errors = ""
        last, since = -1, time.monotonic()
        while True:
            try:
                said, errors = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                (now,) = _WORD.unpack(Path(place.name).read_bytes())
                if now != last:
                    last, since = now, time.monotonic()
                elif time.monotonic() - since > SILENT_S:
                    process.kill()
        (at,) = _WORD.unpack(Path(place.name).read_bytes())
    if process.returncode:
        tally.executions += at - tally.next
        tally.next = at + 1
        content = packed(TARGETS[tally.name].input(at))
        _keep(tally, at, f"the process ended with {process.returncode}", errors, content)
        return
    found = json.loads(said)
    tally.executions += found["next"] - tally.next
    tally.next = found["next"]
    tally.accepted += found["accepted"]
    tally.refused += found["refused"]
    tally.slowest_s, tally.slowest = max((tally.slowest_s, tally.slowest), tuple(found["slowest"]))
    tally.peak_bytes = max(tally.peak_bytes, found["peak"])
    for kind, (number, trace, content) in found["crashes"].items():
        _keep(tally, number, kind, trace, b64decode(content))


def _keep(tally: Tally, number: int, kind: str, trace: str, content: bytes) -> None:
    """Keep the first input of each kind of crash."""
    if kind in tally.crashes:
        return
    tally.crashes[kind] = number
    folder = REGRESSIONS / tally.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{digest(content)}.zip"
    path.write_bytes(content)
    print(f"CRASH {tally.name} {number}: {kind}\n  kept as {path}\n{trace}", flush=True)


def main(words: list[str]) -> int:
    """Fuzz until the time is up, there are enough executions, or Ctrl-C; return 1 when something crashed."""
    if words[:1] == ["--child"]:
        _child(words[1], int(words[2]), float(words[3]), words[4])
        return 0
    environ = os.environ
    seconds = float(environ.get("FUZZ_SECONDS") or "inf")
    executions = float(environ.get("FUZZ_EXECUTIONS") or "inf")
    if seconds == executions == float("inf"):
        seconds = 3600.0
    jobs = int(environ.get("FUZZ_JOBS") or len(os.sched_getaffinity(0)))
    first = int(environ.get("FUZZ_FROM") or int(time.time()) * 10**6)
    tallies = [Tally(name, first) for name in (words or TARGETS)]
    ends = time.monotonic() + seconds
    print(
        f"{len(tallies)} targets in {jobs} processes, from input {first} on (FUZZ_FROM={first} repeats them)",
        flush=True,
    )

    def is_over() -> bool:
        return time.monotonic() >= ends or sum(tally.executions for tally in tallies) >= executions

    def one(tally: Tally) -> None:
        if not is_over():
            take_turn(tally, min(TURN_S, max(1.0, ends - time.monotonic())))

    with suppress(KeyboardInterrupt), ThreadPoolExecutor(jobs) as pool:
        while not is_over():
            list(pool.map(one, tallies))
            print(f"{sum(tally.executions for tally in tallies):,} executions", flush=True)
    print(HEADER)
    for tally in tallies:
        print(tally.line())
    total = sum(tally.executions for tally in tallies)
    crashes = sum(len(tally.crashes) for tally in tallies)
    accepted, refused = (sum(getattr(tally, word) for tally in tallies) for word in ("accepted", "refused"))
    print(f"{'all':<18}{total:>11,}{accepted:>11,}{refused:>11,}{crashes:>9}")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
