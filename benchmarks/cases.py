"""The benchmark cases: each returns rows of figures, ready for the table, the JSON file and the page."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from benchmarks.bundled import bundled
from benchmarks.clusters import distributed
from benchmarks.dumps import DumpPair, write_ge_fx
from benchmarks.eager_cases import DRIFTS, PLANS, statistics_case, tensor_case
from benchmarks.figures import (
    ROOT,
    WORKFLOW,
    Row,
    Settings,
    cpu,
    loaded_modules,
    memory,
    one,
    probe_flow,
    ratio_rows,
    usage_row,
    usage_rows,
    wall,
)
from benchmarks.graph_cases import graphs, ranks_of
from benchmarks.huge import huge
from benchmarks.killed import killed
from benchmarks.offline_cases import PLANS as OFFLINE
from benchmarks.offline_cases import offline_case
from benchmarks.prechecks import precheck
from benchmarks.reduce import reduce
from benchmarks.reduced_cases import reduced
from benchmarks.reruns import reruns
from benchmarks.row_memory import row_memory
from benchmarks.scripts_cases import SCRIPT_CASES
from benchmarks.timing import Usage, interleave, ratios, run_command
from benchmarks.training_cases import graph_text, tfdbg

HEAVY = ("numpy", "dask", "distributed", "h5py", "ml_dtypes", "numba", "pandas", "rich", "torch", "onnx", "mindspore")
OURS, AGAIN, PEER = "probe-flow", "probe-flow again", "peer"


def startup(settings: Settings) -> list[Row]:
    """Measure the commands that must answer at once, and name the heavy modules that they load."""
    commands = {"--help": ["--help"], "version": ["version"], "validate": ["validate", WORKFLOW]}
    subjects = {name: _subject([*probe_flow(), *words], ROOT) for name, words in commands.items()}
    if settings.peer:
        subjects["peer -h"] = _subject([*settings.peer, "-h"], ROOT)
    rows = []
    for name, usages in interleave(subjects, settings.runs).items():
        is_ours = name in commands
        rows.append(usage_row("startup", f"{name}, wall", "s", usages, wall, goal="<= 0.3" if is_ours else ""))
        rows.append(
            usage_row("startup", f"{name}, peak memory", "MiB", usages, memory, goal="<= 60" if is_ours else "")
        )
        if is_ours:
            loaded = len(loaded_modules(commands[name], settings.scratch).intersection(HEAVY))
            rows.append(Row("startup", f"{name}, heavy modules", "count", one(loaded), "0"))
    return rows


def kernel(settings: Settings) -> list[Row]:
    """Measure the metric kernel in memory, by dtype, beside memcpy."""
    from benchmarks.kernel import kernel_figures
    from benchmarks.kernel_threads import thread_rows

    elements = 2**20 if settings.is_quick else 2**24
    figures = kernel_figures(elements, settings.runs)
    rows = [Row("kernel", "memcpy", "GB/s", figures.memcpy)]
    for name, speed in figures.speeds.items():
        goal = ">= 0.08" if name == "float32" else ""
        rows.append(Row("kernel", name, "Melem/s", speed))
        rows.append(Row("kernel", f"{name}, pair bytes to memcpy", "ratio", figures.shares[name], goal))
    rows.append(Row("kernel", "float16 to float32, elements a second", "ratio", figures.half_to_single, ">= 0.8"))
    return rows + thread_rows(elements, settings.runs)


def ge_fx(settings: Settings) -> list[Row]:
    """Compare a device dump of large tensors with an FX dump: the whole command."""
    operators = 20 if settings.is_quick else 300
    return _compare("ge_fx", settings, operators=operators, elements=1_000_000, memory_goal="<= 400", speed_goal=">= 5")


def small(settings: Settings) -> list[Row]:
    """Compare 10,000 pairs of tiny tensors: what a pair costs besides its numbers."""
    return _compare("small", settings, operators=500 if settings.is_quick else 5000, elements=64, wall_goal="<= 15")


def many(settings: Settings) -> list[Row]:
    """Compare 100,000 pairs of 256 float32 elements, each in a file of its own."""
    operators = 1000 if settings.is_quick else 50_000
    return _compare("D", settings, operators=operators, elements=256, dtype="float32", wall_goal="<= 15")


CASES: Mapping[str, Callable[[Settings], list[Row]]] = MappingProxyType(
    {
        "startup": startup,
        "bundled": bundled,
        "kernel": kernel,
        "ge_fx": ge_fx,
        "small": small,
        **{name: tensor_case(name) for name in PLANS},
        **{name: statistics_case(name) for name in DRIFTS},
        "tfdbg": tfdbg,
        "graph_text": graph_text,
        "D": many,
        "E": huge,
        "F": reruns,
        "I": killed,
        "distributed": distributed,
        "reduce": reduce,
        "reduced": reduced,
        "rows": row_memory,
        "precheck": precheck,
        **SCRIPT_CASES,
        "graphs": graphs,
        "ranks": ranks_of(4, 16),
        "ranks-64": ranks_of(16, 64),
        **{name: offline_case(name) for name in OFFLINE},
    }
)
ALIASES: Mapping[str, str] = MappingProxyType({"G": "startup", "H": "kernel"})
ON_REQUEST = frozenset({"A", "B", "B-bf16", "B-fp16", "offline-inputs", "offline-tf", "ranks-64"})
"""Cases that write gigabytes and take minutes; they run when they are named."""


def _compare(
    case: str,
    settings: Settings,
    *,
    operators: int,
    elements: int,
    dtype: str = "float16",
    wall_goal: str = "",
    memory_goal: str = "",
    speed_goal: str = "",
) -> list[Row]:
    pair_bytes = operators * 2 * elements * (np.dtype(dtype).itemsize + 4)
    dumps = write_ge_fx(settings.folder(case, pair_bytes), operators=operators, elements=elements, dtype=dtype)
    try:
        found = interleave(_tools(case, settings, dumps), settings.runs)
    finally:
        shutil.rmtree(settings.scratch / case, ignore_errors=True)
    size = f"{dumps.pairs} pairs x {elements} elements"
    rows = []
    for name, usages in found.items():
        is_ours = name == OURS
        goals = (wall_goal, memory_goal) if is_ours else ("", "")
        rows += usage_rows(case, f"{name}, {size}", usages, wall_goal=goals[0], memory_goal=goals[1])
        rows.append(usage_row(case, f"{name}, a pair", "us", usages, lambda usage: usage.wall_s / dumps.pairs * 1e6))
    again = ratios(found[OURS], found[AGAIN], cpu)
    rows.append(Row(case, "probe-flow again to probe-flow, CPU", "ratio", again))
    if settings.peer:
        peer_goals = (speed_goal, "", "")
        rows += ratio_rows(case, "peer to probe-flow", found[OURS], found[PEER], goals=peer_goals)
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
        return run(probe_flow())

    tools = {OURS: first, AGAIN: lambda: run(probe_flow())}
    if settings.peer:
        tools[PEER] = lambda: run(settings.peer)
    return tools


def _subject(command: Sequence[str], cwd: Path) -> Callable[[], Usage]:
    return lambda: run_command(command, cwd=cwd)


def peer_command(text: str | None) -> tuple[str, ...]:
    """Return the words of msprobe's command."""
    return tuple(shlex.split(text)) if text else ()
