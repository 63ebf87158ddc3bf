"""The benchmark cases: each returns rows of figures, ready for the table, the JSON file and the page."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.dumps import DumpPair, write_ge_fx
from benchmarks.timing import MIB, Spread, Usage, interleave, ratios, run_command

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = "workflows/torchair_ge_vs_fx.yaml"
HEAVY = ("numpy", "dask", "distributed", "h5py", "ml_dtypes", "numba", "pandas", "rich", "torch", "onnx", "mindspore")
OURS, AGAIN, PEER = "probe-flow", "probe-flow again", "peer"
ROOM = 4
"""Free space that a case asks for, in multiples of what it writes."""


@dataclass(frozen=True)
class Row:
    """One figure; ``goal`` is what the project aims at, in words."""

    case: str
    what: str
    unit: str
    value: Spread
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


def startup(settings: Settings) -> list[Row]:
    """Measure the commands that must answer at once, and name the heavy modules that they load."""
    commands = {"--help": ["--help"], "version": ["version"], "validate": ["validate", WORKFLOW]}
    subjects = {name: _subject([*_probe_flow(), *words], ROOT) for name, words in commands.items()}
    if settings.peer:
        subjects["peer -h"] = _subject([*settings.peer, "-h"], ROOT)
    rows = []
    for name, usages in interleave(subjects, settings.runs).items():
        is_ours = name in commands
        rows.append(_row("startup", f"{name}, wall", "s", usages, _wall, goal="<= 0.3" if is_ours else ""))
        rows.append(_row("startup", f"{name}, peak memory", "MiB", usages, _memory, goal="<= 60" if is_ours else ""))
        if is_ours:
            loaded = len(_heavy_modules(commands[name], settings.scratch))
            rows.append(Row("startup", f"{name}, heavy modules", "count", Spread(loaded, loaded, loaded), "0"))
    return rows


def kernel(settings: Settings) -> list[Row]:
    """Measure the metric kernel in memory, by dtype, beside memcpy."""
    from benchmarks.kernel import kernel_figures

    elements = 2**20 if settings.is_quick else 2**24
    figures = kernel_figures(elements, settings.runs)
    rows = [Row("kernel", "memcpy", "GB/s", figures.memcpy)]
    for name, speed in figures.speeds.items():
        goal = ">= 0.08" if name == "float32" else ""
        rows.append(Row("kernel", name, "Melem/s", speed))
        rows.append(Row("kernel", f"{name}, pair bytes to memcpy", "ratio", figures.shares[name], goal))
    rows.append(Row("kernel", "float16 to float32, elements a second", "ratio", figures.half_to_single, ">= 0.8"))
    return rows


def ge_fx(settings: Settings) -> list[Row]:
    """Compare a device dump of large tensors with an FX dump: the whole command."""
    operators = 20 if settings.is_quick else 300
    return _compare("ge_fx", settings, operators=operators, elements=1_000_000, memory_goal="<= 400", speed_goal=">= 5")


def small(settings: Settings) -> list[Row]:
    """Compare 10,000 pairs of tiny tensors: what a pair costs besides its numbers."""
    return _compare("small", settings, operators=500 if settings.is_quick else 5000, elements=64, wall_goal="<= 15")


CASES: Mapping[str, Callable[[Settings], list[Row]]] = MappingProxyType(
    {"startup": startup, "kernel": kernel, "ge_fx": ge_fx, "small": small}
)


def _compare(
    case: str,
    settings: Settings,
    *,
    operators: int,
    elements: int,
    wall_goal: str = "",
    memory_goal: str = "",
    speed_goal: str = "",
) -> list[Row]:
    pair_bytes = operators * 2 * elements * (2 + 4)
    dumps = write_ge_fx(settings.folder(case, pair_bytes), operators=operators, elements=elements)
    try:
        found = interleave(_tools(case, settings, dumps), settings.runs)
    finally:
        shutil.rmtree(settings.scratch / case, ignore_errors=True)
    size = f"{dumps.pairs} pairs x {elements} elements"
    rows = []
    for name, usages in found.items():
        is_ours = name == OURS
        rows.append(_row(case, f"{name}, {size}, wall", "s", usages, _wall, goal=wall_goal if is_ours else ""))
        rows.append(_row(case, f"{name}, CPU", "s", usages, _cpu))
        rows.append(_row(case, f"{name}, peak memory", "MiB", usages, _memory, goal=memory_goal if is_ours else ""))
        rows.append(_row(case, f"{name}, a pair", "us", usages, lambda usage: usage.wall_s / dumps.pairs * 1e6))
    again = ratios(found[OURS], found[AGAIN], _cpu)
    rows.append(Row(case, "probe-flow again to probe-flow, CPU", "ratio", again))
    if settings.peer:
        ours, peer = found[OURS], found[PEER]
        rows.append(Row(case, "peer to probe-flow, wall", "ratio", ratios(ours, peer, _wall), speed_goal))
        rows.append(Row(case, "peer to probe-flow, CPU", "ratio", ratios(ours, peer, _cpu)))
        rows.append(Row(case, "peer to probe-flow, peak memory", "ratio", ratios(ours, peer, _memory)))
    return rows


def _tools(case: str, settings: Settings, dumps: DumpPair) -> dict[str, Callable[[], Usage]]:
    """Return the whole command of each tool; ours with an empty cache, and again with what the first run kept."""
    cache, output = f"{case}_cache", f"{case}_output"

    def run(tool: Sequence[str]) -> Usage:
        folder = settings.folder(output)
        paths = ("-tp", str(dumps.target), "-gp", str(dumps.golden), "-o", str(folder))
        variables = {"PROBE_FLOW_CACHE": str(settings.scratch / cache)}
        return run_command([*tool, "compare", "-m", "torchair", *paths], cwd=folder, variables=variables)

    def first() -> Usage:
        settings.folder(cache)
        return run(_probe_flow())

    tools = {OURS: first, AGAIN: lambda: run(_probe_flow())}
    if settings.peer:
        tools[PEER] = lambda: run(settings.peer)
    return tools


def _probe_flow() -> list[str]:
    return [str(Path(sys.executable).with_name("probe-flow"))]


def _subject(command: Sequence[str], cwd: Path) -> Callable[[], Usage]:
    return lambda: run_command(command, cwd=cwd)


def _heavy_modules(words: Sequence[str], scratch: Path) -> list[str]:
    """Run a command in a fresh interpreter and return which heavy modules it has loaded at its end."""
    found = scratch / "modules.txt"
    script = (
        "import atexit, pathlib, sys\n"
        f"atexit.register(lambda: pathlib.Path({str(found)!r}).write_text("
        f"' '.join(name for name in {HEAVY!r} if name in sys.modules)))\n"
        f"sys.argv = ['probe-flow', *{list(words)!r}]\n"
        "from probe_flow.cli.main import main\n"
        "sys.exit(main())\n"
    )
    run_command([sys.executable, "-c", script], cwd=ROOT)
    return found.read_text(encoding="utf-8").split()


def _row(
    case: str, what: str, unit: str, usages: Sequence[Usage], figure: Callable[[Usage], float], *, goal: str = ""
) -> Row:
    return Row(case, what, unit, Spread.of([figure(usage) for usage in usages]), goal)


def _wall(usage: Usage) -> float:
    return usage.wall_s


def _cpu(usage: Usage) -> float:
    return usage.cpu_s


def _memory(usage: Usage) -> float:
    return usage.peak_rss_bytes / MIB


def peer_command(text: str | None) -> tuple[str, ...]:
    """Return the words of the other tool's command."""
    return tuple(shlex.split(text)) if text else ()
