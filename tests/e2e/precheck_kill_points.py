"""Pre-checks that are killed at any byte of their files: each is continued, and must end as one that nobody killed.

The victim kills itself: what it appends to the record and to each of the two tables is counted byte by byte, and the
write that reaches the n-th byte is cut there. Other points are right before each of these files is replaced by one in
the order of the dump. So a point is the same place in every run. Victims are forked from one process that has
loaded everything; their frameworks are stand-ins, and one worker makes the order of calls the same.

By hand, so many points, spread over the three files, and others with another seed::

    python tests/e2e/precheck_kill_points.py 200 --seed 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support" / "stand_in_frameworks"), str(ROOT), str(ROOT / "tests" / "support")]

from precheck_dumps import backward, forward, tensor, write_dump  # noqa: E402 (found by the path above)

END_S = 120.0
"""Seconds that a command gets."""

_PREFIX = "accuracy_checking_"
_FILES = ("record", "details", "result")
_FOUND_CODE = 3
"""Exit code of a whole run: some of the calls are wrong, some cannot be checked."""


def write_calls(folder: Path) -> Path:
    """Write a dump of calls that pass, fail and are not checked, with several results and directions."""
    x, wide = tensor(16), tensor(8, 8)
    entries: dict[str, Any] = {}
    for number in range(6):
        entries |= {
            f"Mint.add.{number}.forward": forward(x, x),
            f"Mint.wrong.{number}.forward": forward(x),
            f"Tensor.__mul__.{number}.forward": forward(x, x),
            f"Mint.add.{number}.backward": backward([x], [x, x]),
            f"Mint.refuses.{number}.forward": forward(x),
            f"Mint.matmul.{number}.forward": forward(wide, wide, outputs=[wide]),
            f"Mint.matmul.{number}.backward": backward([wide], [wide, wide]),
            f"Mint.cat.{number}.forward": forward([x, x, x]),
            f"Mint.cat.{number}.backward": backward([tensor(48)], [x, x, x]),
        }
    return write_dump(folder, entries)


@dataclass(frozen=True)
class Point:
    """Where a check is killed: when it has appended so many bytes to a file, or before it replaces it."""

    file: str
    bytes: int | None


class _Counting:
    """A file whose bytes are counted; the one that is aimed at ends the process."""

    def __init__(self, file: Any, end: int) -> None:
        self._file, self._left = file, end

    def write(self, text: bytes) -> int:
        if self._left < len(text):
            self._file.write(text[: self._left])
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= len(text)
        return int(self._file.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _arm(point: Point) -> None:
    """Make this process kill itself at a point."""
    plain_open = Path.open

    def is_aimed_at(path: Path) -> bool:
        return path.name.startswith(_PREFIX + point.file)

    def counting_open(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        file = plain_open(path, mode, *more, **named)
        return _Counting(file, point.bytes) if mode == "ab" and is_aimed_at(path) else file

    def before_replacing(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and is_aimed_at(Path(os.fspath(arguments[1]))):
            os.kill(os.getpid(), signal.SIGKILL)

    if point.bytes is None:
        sys.addaudithook(before_replacing)
    else:
        Path.open = counting_open  # type: ignore[method-assign, assignment]


def _in_child(work: Callable[[], int]) -> int:
    """Run something in a forked process, silently; return its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nowhere, number)
            code = work()
        finally:
            os._exit(code)
    end_s = time.monotonic() + END_S
    while time.monotonic() < end_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"a command took longer than {END_S:.0f} s")


def _check(dump: Path, out: Path, *more: str, point: Point | None = None) -> int:
    def work() -> int:
        from probe_flow.cli.main import main

        if point is not None:
            _arm(point)
        return main(["acc_check", "-api_info", str(dump), "-o", str(out), *more])

    return _in_child(work)


def _files(folder: Path) -> dict[str, bytes]:
    return {name: next(folder.glob(f"{_PREFIX}{name}_*")).read_bytes() for name in _FILES}


def _points(count: int, seed: int, whole: dict[str, bytes]) -> Iterator[Point]:
    """Yield so many points: before each file is replaced, then of each file in turn, its bytes drawn at random."""
    draw = random.Random(seed)
    for number in range(count):
        file = _FILES[number % len(_FILES)]
        appended = len(whole[file]) - whole[file].index(b"\n") - 1
        yield Point(file, None if number < len(_FILES) else draw.randrange(appended))


def try_points(count: int, seed: int, folder: Path) -> Counter[str]:
    """Kill so many checks, continue each, and return what became of them: counts by words.

    Raises:
        AssertionError: one does not end as the check that nobody killed, or does not say the same.
    """
    import probe_flow.cli.peer.acc_check
    import probe_flow.engine.run.plan  # noqa: F401 (forked processes begin with all of it)

    dump = write_calls(folder / "dump")
    assert _check(dump, folder / "whole") == _FOUND_CODE
    whole = _files(folder / "whole")
    found: Counter[str] = Counter()
    for number, point in enumerate(_points(count, seed, whole)):
        out = folder / f"point{number}"
        code = _check(dump, out, point=point)
        assert code == -signal.SIGKILL, f"{point}: it ended by itself, with {code}"
        found[_place(point, _files(out))] += 1
        (table,) = out.glob(f"{_PREFIX}result_*.csv")
        code = _check(dump, out, "-csv_path", str(table))
        assert code == _FOUND_CODE, f"{point}: continued, it ended with {code}"
        assert _files(out) == whole, f"{point}: continued, its files differ"
    return found


def _place(point: Point, left: dict[str, bytes]) -> str:
    """Return where a kill left the files."""
    if point.bytes is None:
        return f"before the {point.file} is replaced"
    return f"{'between lines' if left[point.file].endswith(bytes([10])) else 'in a line'} of the {point.file}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=19)
    given = parser.parse_args()
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROBE_FLOW_CACHE"] = str(Path(folder) / "cache")
        found = try_points(given.points, given.seed, Path(folder))
    took_s = time.monotonic() - start_s
    lines = [f"{given.points} checks killed and continued, all as one that nobody killed, in {took_s:.0f} s"]
    lines += [f"  {count:4} {place}" for place, count in sorted(found.items())]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
