"""Hold the CPU time of this checkout against that of an earlier version, in turn: ``python -m benchmarks.guard [REF]``.

Each command is run by both versions one after the other; which is first alternates. It falls short where the 90 %
interval of the ratio lies above `LIMIT`: then it is slower, whatever else the machine did meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.dumps import write_ge_fx
from benchmarks.eager_cases import DRIFTS, NOISE_FOUND, PLANS, compare_words
from benchmarks.eager_dumps import write_statistics, write_tensors
from benchmarks.figures import ROOT, WORKFLOW
from benchmarks.page import aligned
from benchmarks.timing import Spread, run_command

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1.05
CONFIDENCE = 0.9
RUNS = 9
ROWS = 5000
OPERATORS = 1000

Words = Callable[[Path], list[str]]
"""The words of a command, given its output folder."""


@dataclass(frozen=True)
class Compared:
    """CPU time of one command: ratios of this version to the earlier one, run by run."""

    command: str
    ratios: tuple[float, ...]

    @property
    def interval(self) -> Spread:
        """The median ratio with the ends of its interval."""
        return interval(self.ratios)

    @property
    def falls_short(self) -> bool:
        """Whether this version is slower than the limit, beyond doubt."""
        return self.interval.least > LIMIT


def interval(values: Sequence[float]) -> Spread:
    """Return the median and the narrowest interval of order statistics that holds it with `CONFIDENCE`, by sign test.

    Of fewer than five values there is none: the ends are the extremes.
    """
    ordered, count = sorted(values), len(values)
    place = tail = 0
    while tail + comb(count, place) <= (1 - CONFIDENCE) / 2 * 2**count:
        tail += comb(count, place)
        place += 1
    place = max(1, place)
    middle = Spread.of(ordered).median
    return Spread(middle, ordered[place - 1], ordered[count - place])


def compared(command: str, words: Words, earlier: Path, scratch: Path, runs: int) -> Compared:
    """Run a command by both versions in turn, after one round that is not counted."""
    ratios = []
    for number in range(runs + 1):
        sources = (ROOT, earlier) if number % 2 else (earlier, ROOT)
        taken = {source: _cpu_of(source, words, scratch) for source in sources}
        if number:
            ratios.append(taken[ROOT] / taken[earlier])
    return Compared(command, tuple(ratios))


def _cpu_of(source: Path, words: Words, scratch: Path) -> float:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        variables = {"PYTHONPATH": str(source), "PROBE_FLOW_CACHE": f"{folder}/cache"}
        command = [sys.executable, "-m", "probe_flow", *words(Path(folder) / "out")]
        return run_command(command, cwd=source, variables=variables, accepted=(0, NOISE_FOUND)).cpu_s


def commands(scratch: Path) -> dict[str, Words]:
    """Write the dumps and return commands: start, tensors, many small ones, statistics without and with findings."""
    tensors = write_tensors(_private(scratch / "A-small"), PLANS["A-small"])
    small = write_ge_fx(_private(scratch / "D-small"), operators=OPERATORS, elements=256, dtype="float32")
    of_small = ["compare", "-m", "torchair", "-tp", str(small.target), "-gp", str(small.golden), "-o"]
    found: dict[str, Words] = {
        "bundled": lambda output: ["run", WORKFLOW, "--output", str(output)],
        "A-small": lambda output: compare_words(tensors, output),
        "D-small": lambda output: [*of_small, str(output)],
    }
    for name, drift in DRIFTS.items():
        pair = write_statistics(_private(scratch / name), rows=ROWS, drift=drift)
        found[name] = lambda output, pair=pair: compare_words(pair, output)  # type: ignore[misc]
    return found


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


@contextmanager
def checked_out(ref: str, folder: Path) -> Iterator[Path]:
    """Give a checkout of a revision."""
    _git("worktree", "add", "--quiet", "--detach", str(folder), ref)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ref", nargs="?", help="revision of git to hold this one against; default: the last tag")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"counted runs of each version ({RUNS})")
    options = parser.parse_args(arguments)
    ref = options.ref or _known("describe", "--tags", "--abbrev=0")
    if ref is None:
        parser.error("there is no tag of a release: name a revision, e.g. `python -m benchmarks.guard main~20`")
    if _known("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is None:
        parser.error(f"git knows no revision `{ref}`")
    with (
        tempfile.TemporaryDirectory(prefix="probe_flow_guard_") as name,
        checked_out(ref, Path(name) / "earlier") as earlier,
    ):
        scratch = Path(name)
        found = [
            compared(command, words, earlier, scratch, options.runs) for command, words in commands(scratch).items()
        ]
    print(f"CPU time of this checkout to that of {ref}, {options.runs} runs of each in turn:")
    print(table(found))
    return int(any(each.falls_short for each in found))


def _known(*words: str) -> str | None:
    """Return what git answers, None where it knows no such thing."""
    try:
        return _git(*words)
    except subprocess.CalledProcessError:
        return None


def table(found: Sequence[Compared]) -> str:
    """Return the ratios as text."""
    lines = [("command", "ratio", f"{CONFIDENCE:.0%} interval", "")]
    for each in found:
        spread = each.interval
        said = f"falls short: above {LIMIT}" if each.falls_short else "ok"
        lines.append((each.command, f"{spread.median:.3f}", f"{spread.least:.3f} to {spread.largest:.3f}", said))
    return aligned(lines)


if __name__ == "__main__":
    sys.exit(main())
