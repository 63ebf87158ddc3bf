"""Runs that get a signal at each step: what a run left then is resumed, and begun anew, to the same bytes.

The victim is a process that sends itself the signal right before its n-th change of the file system: a file opened for
writing, renamed or removed, a folder made or removed. Counting them needs no hook in the code that is tested, and the
same n is the same place in every run of one thread. Victims, like the runs after them, are forked from one process that
has loaded everything, so that a point costs a second and not five.

By hand, all points of a scheduler with each signal, or so many spread over the run with the signals in turn::

    python tests/e2e/kill_points.py sync
    python tests/e2e/kill_points.py processes 20
"""

from __future__ import annotations

import atexit
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"
SAMPLE = ROOT / "examples" / "torchair" / "faulty"
SCHEDULERS = ("sync", "threads", "processes", "distributed")

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

TASKS_PER_BATCH = 40
END_S = 120.0
"""Seconds that a run gets, and all of its processes to end."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
_TIME = re.compile(r"\d{14}")
_FOUND = 1
"""Exit code of the run when it comes to its end: the sample has a fault."""


@dataclass(frozen=True)
class Point:
    """Where a run gets which signal: before its n-th change of the file system."""

    scheduler: str
    signal: int
    number: int


class Sandbox:
    """A folder with all that a run may write: its own folder, tables elsewhere, cache, scratch."""

    def __init__(self, root: Path, scheduler: str) -> None:
        self.root, self.scheduler = root, scheduler
        for name in ("cache", "scratch"):
            (root / name).mkdir(parents=True)

    def run(self, *more: str, before: Point | None = None) -> tuple[int, int, str]:
        """Run the workflow in a forked process; return its wait status, how many changes it made, what it said."""
        said, counted = self.root.parent / "said.txt", self.root.parent / "changes.txt"
        child = os.fork()
        if child == 0:
            code = 99
            atexit._clear()  # what the parent wants done at its end
            try:
                code = self._run(more, before, said, counted)
                threading._shutdown()  # type: ignore[attr-defined]
                atexit._run_exitfuncs()
            except BaseException:
                traceback.print_exc()
            finally:  # not through the end of the process that this one was forked from
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        status = _waited(child)
        text = said.read_text()
        return status, int(counted.read_text() or 0), text

    def _run(self, more: Sequence[str], before: Point | None, said: Path, counted: Path) -> int:
        os.setsid()
        log = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        count = os.open(counted, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(self.root)
        os.environ.update(PROBE_FLOW_CACHE=str(self.root / "cache"), TMPDIR=str(self.root / "scratch"))
        tempfile.tempdir = None
        _count_changes(str(self.root), count, before)
        name = self.scheduler
        from probe_flow.cli.main import main

        sets = ["--set", f"target={SAMPLE / 'msprobe_ge_dump'}", "--set", f"golden={SAMPLE / 'msprobe_fx_dump'}"]
        given = ["run", str(WORKFLOW), *sets, "--output", "out", "--no-cache" if name == "threads" else "--quiet"]
        return main([*given, "--scheduler", name, "--workers", "2", *more])

    def files(self) -> Mapping[str, bytes]:
        """Return all files and folders by name, times in names left out, with the bytes of those that are compared."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = _TIME.sub("TIME", str(path.relative_to(self.root)))
            if name.startswith("cache/"):
                continue  # kept between runs; see `strays`
            found[name] = path.read_bytes() if name.endswith((".csv", "on.jsonl", "nodes.jsonl", "ls.jsonl")) else b""
        return found

    def strays(self) -> list[str]:
        """Return what of the cache is no entry of it."""
        found = (self.root / "cache").rglob("*")
        return [str(path) for path in found if path.is_file() and path.suffix not in (".h5", ".msgpack")]

    def record(self) -> dict[str, Any] | None:
        path = self.root / "out" / "run.json"
        return json.loads(path.read_text()) if path.exists() else None

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "out" / "events.jsonl").read_text().splitlines()]


def _count_changes(root: str, counter: int, before: Point | None) -> None:
    """Count what this process changes below a folder; send it the signal before the chosen change."""
    here, seen = os.getpid(), 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        is_opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
        if not (is_opened or event in _CHANGES) or os.getpid() != here:
            return
        named = isinstance(arguments[0], str | bytes | os.PathLike)
        if named and str(Path(os.fsdecode(arguments[0])).absolute()).startswith(root):
            seen += 1
            os.pwrite(counter, b"%d" % seen, 0)
            if before is not None and seen == before.number:
                os.kill(here, before.signal)

    sys.addaudithook(hook)


def _waited(child: int) -> int:
    """Return how a run ended (`os.waitpid`), once none of its processes is left."""
    end_s = time.monotonic() + END_S
    status = None
    while status is None or list(_session(child)):
        if status is None:
            ended, found = os.waitpid(child, os.WNOHANG)
            status = found if ended else None
        if time.monotonic() > end_s:
            left = list(_session(child))
            for number in left:
                os.kill(number, signal.SIGKILL)
            raise TimeoutError(f"processes of the run did not end: {left}, status {status}")
        time.sleep(0.005)
    return status


def _session(leader: int) -> Iterator[int]:
    """Yield the living processes of a session."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] not in "ZX":
                yield int(entry.name)


class Sweep:
    """The points of one scheduler, each checked against a run that nothing disturbed."""

    def __init__(self, root: Path, scheduler: str) -> None:
        self._root, self._scheduler = root, scheduler
        whole = Sandbox(root / "whole", scheduler)
        status, self.changes, said = whole.run()
        assert os.waitstatus_to_exitcode(status) == _FOUND, said
        self._expected = whole.files()
        assert whole.strays() == []

    def check(self, number: int, at: int) -> None:
        """Send a run a signal at a point, then resume it, then begin anew in its folder; raise AssertionError."""
        point = Point(self._scheduler, number, at)
        sandbox = Sandbox(self._root / f"point-{number}-{at}", self._scheduler)
        status, _, said = sandbox.run(before=point)
        code = os.waitstatus_to_exitcode(status)
        record = sandbox.record()
        ended = record is not None and record["status"] == "ended"
        if number == signal.SIGKILL:
            assert code == -number or (ended and code == _FOUND), said
        elif code == _FOUND:
            assert ended, said  # it came when all was done
        else:
            assert code == 128 + number, (code, said)
            assert record is not None
            assert (record["status"], record["exit_code"]) == ("interrupted", code)
            last = sandbox.events()[-1]
            assert (last["event"], last["status"]) == ("run.ended", "interrupted")
            assert "PF6014" in {problem["code"] for problem in record["problems"]}
            assert "Traceback" not in said, said
            left = [name for name in sandbox.files() if name.endswith(".tmp") or name.startswith("scratch/")]
            assert not left, left
        assert record is None or ended or record["verdict"] == "incomplete", "a killed run never looks finished"
        is_there = (sandbox.root / "out").exists()
        for more, expected in ((("--resume",), _FOUND if is_there else 2), ((), _FOUND)):
            status, _, said = sandbox.run(*more)
            assert os.waitstatus_to_exitcode(status) == expected, said
            if expected == _FOUND:
                found = sandbox.files()
                assert found.keys() == self._expected.keys(), sorted(found.keys() ^ self._expected.keys())
                assert found == self._expected, "other bytes"
                assert sandbox.strays() == []
        shutil.rmtree(sandbox.root)

    def problem(self, number: int, at: int) -> str:
        """Check a point; return what is wrong, nothing where all is right."""
        try:
            self.check(number, at)
        except (AssertionError, TimeoutError) as exc:
            return str(exc) or "-"
        return ""


def load() -> None:
    """Load what runs need, so that forked ones begin at once; start no thread."""
    sys.path.insert(0, str(ROOT))  # this tree, whatever is installed
    import dask.threaded
    import h5py

    import probe_flow.engine.run.execute
    import probe_flow.measure.batches as measuring
    import probe_flow.stages.report.report
    from probe_flow.cli.main import COMMANDS

    del dask, h5py, probe_flow
    assert COMMANDS
    measuring.MAX_TASKS_PER_BATCH = TASKS_PER_BATCH


def points(changes: int, sample: int | None) -> list[tuple[int, int]]:
    """Return signals and numbers of changes: all, or a sample that is spread evenly."""
    if sample is None:
        return [(number, at) for number in SIGNALS for at in range(1, changes + 1)]
    return [(SIGNALS[n % len(SIGNALS)], 1 + (2 * n + 1) * changes // (2 * sample)) for n in range(sample)]


def main(scheduler: str, sample: int | None = None) -> int:
    """Check the points of a scheduler; return how many failed."""
    load()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="kill_points_") as folder:
        sweep = Sweep(Path(folder), scheduler)
        chosen = points(sweep.changes, sample)
        for number, at in chosen:
            problem = sweep.problem(number, at)
            if problem:
                failed += 1
                sys.stdout.write(f"FAILED {scheduler} {signal.Signals(number).name} at {at}: {problem}\n")
                sys.stdout.flush()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stdout.write(
        f"{scheduler}: {sweep.changes} changes, {len(chosen)} points checked, {failed} failed, "
        f"{used.ru_utime + used.ru_stime:.0f} s of processor time\n"
    )
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1], *map(int, sys.argv[2:]))))
