"""Reduce a folder again and again, killed at random points: ``python reduce_until_killed.py FOLDER POINTS``.

Each child kills itself with SIGKILL at the N-th call of a C function, N random, and so anywhere between two steps of
reading, writing, flushing, renaming, reading back and deleting. After each kill every tensor must still be there: its
dumped file whole, or its reduced file whole. Then the work is repeated to its end. Prints what was seen.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

from reduce_dumps import FakeStop, reduction, write_fx, write_ge

from probe_flow.dumps.reduced.reduced_names import reduced_name

FILES = 3


def write_dump(root: Path) -> dict[str, bytes]:
    for number in range(FILES):
        write_fx(root / "fx", at=number)
        write_ge(root / "ge", at=number)
    return contents(root)


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def result_name(name: str) -> str:
    folder, _, last = name.rpartition("/")
    return f"{folder}/{reduced_name(last)}"


def work(root: Path, stop: Path) -> None:
    summary = reduction([root], FakeStop(str(stop)), deletes_source=True).run()
    assert not summary.failed, summary.problems()


def killed_after(calls: int, root: Path, stop: Path) -> bool:
    """Work in a child that dies at that call; return whether it did."""
    child = os.fork()
    if child == 0:
        left = calls

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal left
            if event == "c_call":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        work(root, stop)
        sys.setprofile(None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def main() -> None:
    base, points = Path(sys.argv[1]), int(sys.argv[2])
    whole, stop = base / "whole", base / "stop"
    sources = write_dump(whole)
    work(whole, stop)
    results = contents(whole)
    assert sorted(results) == sorted(result_name(name) for name in sources)
    chance = random.Random(7)
    most, seen = 64, Counter[str]()
    while killed_after(most, prepared(base / "probe", sources), stop):
        most *= 2
    for number in range(points):
        root = prepared(base / f"run{number}", sources)
        seen["killed"] += killed_after(chance.randint(1, most), root, stop)
        found = contents(root)
        for name, content in sources.items():
            is_whole = found.get(name) == content
            assert is_whole or found.get(result_name(name)) == results[result_name(name)], f"{name} is lost"
            seen["both" if is_whole and result_name(name) in found else "dumped" if is_whole else "reduced"] += 1
        seen["with remains"] += any("/." in name for name in found)
        work(root, stop)
        assert contents(root) == results, "the second run did not finish the work"
    sys.stdout.write(json.dumps(seen))


def prepared(root: Path, sources: dict[str, bytes]) -> Path:
    for old in sorted(root.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    for name, content in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


if __name__ == "__main__":
    main()
