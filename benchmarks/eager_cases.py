"""Cases A, B, C and C-found: dumps that a dump.json describes, with tensors and with statistics alone."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.eager_dumps import EagerPair, TensorPlan, write_statistics, write_tensors
from benchmarks.figures import Row, Settings, one, probe_flow, ratio_rows, usage_rows, wall
from benchmarks.timing import Usage, evict, interleave, ratios, run_command

PLANS = {
    "A": TensorPlan(1000, 200_000, "float32", 0xB9AE2E91),
    "A-small": TensorPlan(50, 200_000, "float32", 0x86EAB443),
    "B": TensorPlan(20, 20_000_000, "float32", 0x2F840667),
    "B-small": TensorPlan(2, 20_000_000, "float32", 0xD3975A58),
    "B-bf16": TensorPlan(20, 20_000_000, "bfloat16", 0x77FF2AA7),
    "B-fp16": TensorPlan(20, 20_000_000, "float16", 0x9A83B903),
}
QUICK_PLANS = {
    "float32": TensorPlan(4, 200_000, "float32", 0x896E7C3F),
    "bfloat16": TensorPlan(4, 200_000, "bfloat16", 0x0C412A62),
    "float16": TensorPlan(4, 200_000, "float16", 0x1A11EBE9),
}
WALL_GOAL = ">= 10" if find_spec("numba") else ">= 6"
GOALS = {"A": (WALL_GOAL, "", ">= 1.67"), "B": (WALL_GOAL, "", ">= 4")}
"""How many times more the peer shall take: wall time, CPU time, peak memory."""

DRIFTS = {"C": 3e-8, "C-found": 1e-4}
"""How far results of statistics are apart: within rounding, and far beyond it, so that each is a finding."""

STATISTICS_ROWS, QUICK_STATISTICS_ROWS = 50_000, 5_000
NOISE_FOUND = 1
"""Exit code of a comparison that finds the noise of the target, which is more than rounding explains."""

OURS, ITSELF, AGAIN, COLD, PEER = (
    "probe-flow",
    "probe-flow once more",
    "probe-flow again",
    "probe-flow, cold files",
    "peer",
)
"""``once more`` is the same for the noise of the machine, ``again`` has what the run before it kept."""


def tensor_case(case: str) -> Callable[[Settings], list[Row]]:
    """Return the case that compares tensors in torch files."""

    def run(settings: Settings) -> list[Row]:
        plan = QUICK_PLANS[PLANS[case].dtype] if settings.is_quick else PLANS[case]
        started = time.perf_counter()
        pair = write_tensors(settings.folder(case, plan.dump_bytes), plan)
        written_s = time.perf_counter() - started
        try:
            found = interleave(_tools(case, settings, pair), settings.runs)
        finally:
            shutil.rmtree(settings.scratch / case, ignore_errors=True)
        size = f"{plan.tensors} pairs x {plan.elements} {plan.dtype}"
        rows = [Row(case, f"{size} written, CRC-32 {pair.crc:08x}", "s", one(written_s))]
        return rows + _rows(case, size, found, goals=GOALS[case[0]])

    run.__doc__ = f"Compare two dumps of {PLANS[case].tensors} tensors in torch files: the whole command."
    return run


def statistics_case(case: str) -> Callable[[Settings], list[Row]]:
    """Return the case that compares statistics without tensors."""
    drift = DRIFTS[case]

    def run(settings: Settings) -> list[Row]:
        wanted = QUICK_STATISTICS_ROWS if settings.is_quick else STATISTICS_ROWS
        pair = write_statistics(settings.folder(case), rows=wanted, drift=drift)
        try:
            found = interleave(_tools(case, settings, pair), settings.runs)
        finally:
            shutil.rmtree(settings.scratch / case, ignore_errors=True)
        return _rows(case, f"{wanted} rows", found, goals=(">= 5.9", "", ">= 1.67"))

    run.__doc__ = f"Compare two dump.json without tensors, results {drift:g} apart: reading, matching and reporting."
    return run


def _rows(case: str, size: str, found: Mapping[str, Sequence[Usage]], *, goals: Sequence[str]) -> list[Row]:
    rows = []
    for name, usages in found.items():
        rows += usage_rows(case, f"{name}, {size}", usages)
    rows.append(Row(case, f"{OURS} to itself, wall", "ratio", ratios(found[OURS], found[ITSELF], wall)))
    if AGAIN in found:
        rows.append(Row(case, f"{AGAIN} to {OURS}, wall", "ratio", ratios(found[OURS], found[AGAIN], wall), "<= 0.25"))
    if PEER in found:
        rows += ratio_rows(case, f"{PEER} to {OURS}", found[OURS], found[PEER], goals=goals)
    return rows


def _tools(case: str, settings: Settings, pair: EagerPair) -> dict[str, Callable[[], Usage]]:
    """Return the whole command of each tool; ours with an empty cache, unless it is named otherwise."""

    cache = f"{case}_cache"

    def again() -> Usage:
        return _compare(probe_flow(), case, settings, pair, settings.scratch / cache)

    def ours() -> Usage:
        settings.folder(cache)
        return again()

    def cold() -> Usage:
        evict(pair.target.parent, pair.golden.parent)
        return ours()

    tools = {OURS: ours, ITSELF: ours}
    if case in PLANS:  # statistics are measured where they are read, and nothing is kept
        tools = {OURS: ours, AGAIN: again, ITSELF: ours, COLD: cold}
    if settings.peer:
        tools[PEER] = lambda: _compare(settings.peer, case, settings, pair, settings.scratch / cache)
    return tools


def _compare(tool: Sequence[str], case: str, settings: Settings, pair: EagerPair, cache: Path) -> Usage:
    folder = settings.folder(f"{case}_output")
    variables = {"PROBE_FLOW_CACHE": str(cache)}
    words = compare_words(pair, folder)
    return run_command([*tool, *words], cwd=folder, variables=variables, accepted=(0, NOISE_FOUND))


def compare_words(pair: EagerPair, output: Path) -> list[str]:
    """Return the words after the name of either tool."""
    return ["compare", "-tp", str(pair.target), "-gp", str(pair.golden), "-o", str(output)]
