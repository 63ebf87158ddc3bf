"""The cases of offline models: a device dump in a private layout against what the framework gave on the host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.figures import Row, Settings, probe_flow, ratio_rows, usage_row, usage_rows
from benchmarks.offline_dumps import OfflinePair, OfflinePlan, write_offline
from benchmarks.timing import Usage, interleave, run_command

PLANS = {
    "offline": OfflinePlan(300, 128),
    "offline-inputs": OfflinePlan(300, 128, inputs=1),
    "offline-tf": OfflinePlan(300, 128, order="NHWC"),
}
"""Of 300 operators with 1,048,576 elements each; in the second case their inputs are dumped too, in the third the
golden side is TensorFlow's."""

QUICK_OPERATORS = 10
GOALS = (">= 10", "", "")
"""How many times more the peer shall take: wall time, CPU time, peak memory."""

OURS, PEER = "probe-flow", "peer"


def offline_case(case: str) -> Callable[[Settings], list[Row]]:
    """Return the case that compares one chain."""

    def run(settings: Settings) -> list[Row]:
        whole = PLANS[case]
        plan = replace(whole, operators=QUICK_OPERATORS) if settings.is_quick else whole
        pair = write_offline(settings.folder(case, plan.dump_bytes), plan)
        try:
            found = interleave(_tools(case, settings, pair), settings.runs)
        finally:
            shutil.rmtree(settings.scratch / case, ignore_errors=True)
        rows = []
        for name, usages in found.items():
            size = f"{name}, {plan.pairs} pairs x {plan.elements} elements"
            rows += usage_rows(case, size, usages, memory_goal="<= 400" if name == OURS else "")
            rows.append(usage_row(case, f"{name}, a pair", "us", usages, lambda usage: usage.wall_s / plan.pairs * 1e6))
        if PEER in found:
            rows += ratio_rows(case, f"{PEER} to {OURS}", found[OURS], found[PEER], goals=GOALS)
        return rows

    run.__doc__ = f"Compare the dump of an offline model with its golden, {PLANS[case].pairs} pairs: the whole command."
    return run


def _tools(case: str, settings: Settings, pair: OfflinePair) -> dict[str, Callable[[], Usage]]:
    """Return the whole command of each tool; ours with an empty cache."""
    tools = {OURS: lambda: _compare(probe_flow(), case, settings, pair)}
    if settings.peer:
        tools[PEER] = lambda: _compare(settings.peer, case, settings, pair)
    return tools


def _compare(tool: Sequence[str], case: str, settings: Settings, pair: OfflinePair) -> Usage:
    folder = settings.folder(f"{case}_output")
    paths = ("-tp", str(pair.target), "-gp", str(pair.golden), "-fr", str(pair.rule), "-o", str(folder))
    variables = {"PROBE_FLOW_CACHE": str(settings.folder(f"{case}_cache"))}
    return run_command([*tool, "compare", "-m", "offline_data", *paths], cwd=folder, variables=variables)
