"""What every benchmark case shares: its figures as rows, what the command line asks for, and how commands are named."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import MIB, Spread, Usage, ratios, run_command

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = "workflows/torchair_ge_vs_fx.yaml"
ROOM = 4
"""Free space that a case asks for, in multiples of what it writes."""


@dataclass(frozen=True)
class Row:
    """One figure; ``goal`` is what the project aims at, in words. Without a value there is nothing to measure yet."""

    case: str
    what: str
    unit: str
    value: Spread | None
    goal: str = ""


@dataclass(frozen=True)
class Settings:
    """What the command line asks for; ``peer`` is the command of the tool to compare with, if any."""

    runs: int
    is_quick: bool
    peer: tuple[str, ...]
    scratch: Path

    def folder(self, name: str, needed_bytes: int = 0) -> Path:
        """Return a fresh private folder.

        Raises:
            RuntimeError: the disk has not enough room.
        """
        free = shutil.disk_usage(self.scratch).free
        if free < ROOM * needed_bytes:
            raise RuntimeError(f"{name}: {needed_bytes >> 20} MiB are written and {free >> 20} MiB are free")
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700)
        return path


def probe_flow() -> list[str]:
    return [str(Path(sys.executable).with_name("probe-flow"))]


def loaded_modules(words: Sequence[str], scratch: Path, *, accepted: Container[int] = (0,)) -> frozenset[str]:
    """Run a command of ours in a fresh interpreter, with an empty cache, and return what it has loaded at its end."""
    found, cache = scratch / "modules.txt", scratch / "modules_cache"
    shutil.rmtree(cache, ignore_errors=True)
    script = (
        "import atexit, pathlib, sys\n"
        f"atexit.register(lambda: pathlib.Path({str(found)!r}).write_text(' '.join(sys.modules)))\n"
        f"sys.argv = ['probe-flow', *{list(words)!r}]\n"
        "from probe_flow.cli.main import main\n"
        "sys.exit(main())\n"
    )
    variables = {"PROBE_FLOW_CACHE": str(cache)}
    run_command([sys.executable, "-c", script], cwd=ROOT, variables=variables, accepted=accepted)
    return frozenset(found.read_text(encoding="utf-8").split())


def usage_row(
    case: str, what: str, unit: str, usages: Sequence[Usage], figure: Callable[[Usage], float], *, goal: str = ""
) -> Row:
    return Row(case, what, unit, Spread.of([figure(usage) for usage in usages]), goal)


def usage_rows(
    case: str, name: str, usages: Sequence[Usage], *, wall_goal: str = "", memory_goal: str = ""
) -> list[Row]:
    """Return wall time, CPU time and peak memory of the runs of one subject."""
    return [
        usage_row(case, f"{name}, wall", "s", usages, wall, goal=wall_goal),
        usage_row(case, f"{name}, CPU", "s", usages, cpu),
        usage_row(case, f"{name}, peak memory", "MiB", usages, memory, goal=memory_goal),
    ]


def ratio_rows(case: str, what: str, of: Sequence[Usage], to: Sequence[Usage], *, goals: Sequence[str]) -> list[Row]:
    """Return how many times more the second took: wall time, CPU time and peak memory, with a goal for each."""
    figures = (("wall", wall), ("CPU", cpu), ("peak memory", memory))
    return [
        Row(case, f"{what}, {name}", "ratio", ratios(of, to, figure), goal)
        for (name, figure), goal in zip(figures, goals, strict=True)
    ]


def one(value: float) -> Spread:
    """Return a figure that does not vary."""
    return Spread(value, value, value)


def wall(usage: Usage) -> float:
    return usage.wall_s


def cpu(usage: Usage) -> float:
    return usage.cpu_s


def memory(usage: Usage) -> float:
    return usage.peak_rss_bytes / MIB
