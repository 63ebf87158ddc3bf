"""Case graphs: build the graph of a deep model, and compare two, into the database that the viewer opens."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from benchmarks.eager_dumps import EagerPair
from benchmarks.figures import Row, Settings, probe_flow, ratio_rows, usage_rows
from benchmarks.graph_dumps import NODES_OF_BLOCK, write_graphs
from benchmarks.timing import Usage, interleave, run_command

BLOCKS, QUICK_BLOCKS = 1470, 30
GOALS = {"build": ("", ">= 3", ">= 2"), "compare": ("", ">= 2", ">= 1.43")}
"""How many times more the peer shall take: wall time, CPU time, peak memory."""

OURS, PEER = "probe-flow", "peer"
BLOCK_FOUND = 1
"""Exit code of a comparison that finds the block that is wrong."""


def graphs(settings: Settings) -> list[Row]:
    """Build the graph of 50,000 calls with graph_visualize, and compare two of them: the whole command."""
    blocks = QUICK_BLOCKS if settings.is_quick else BLOCKS
    pair = write_graphs(settings.folder("graphs"), blocks=blocks)
    rows = []
    try:
        for what, goals in GOALS.items():
            found = interleave(_tools(settings, pair, is_compare=what == "compare"), settings.runs)
            for name, usages in found.items():
                rows += usage_rows("graphs", f"{name}, {what} of {blocks * NODES_OF_BLOCK + 1} nodes a side", usages)
            if PEER in found:
                rows += ratio_rows("graphs", f"{what}, {PEER} to {OURS}", found[OURS], found[PEER], goals=goals)
    finally:
        shutil.rmtree(settings.scratch / "graphs", ignore_errors=True)
    return rows


def _tools(settings: Settings, pair: EagerPair, *, is_compare: bool) -> dict[str, Callable[[], Usage]]:
    """Return the whole command of each tool; ours with an empty cache."""
    words = ["graph_visualize", "-tp", str(pair.target.parent)]
    if is_compare:
        words += ["-gp", str(pair.golden.parent)]

    def run(tool: Sequence[str]) -> Usage:
        folder, cache = settings.folder("graphs_output"), settings.folder("graphs_cache")
        variables = {"PROBE_FLOW_CACHE": str(cache)}
        return run_command(
            [*tool, *words, "-o", str(folder)], cwd=folder, variables=variables, accepted=(0, BLOCK_FOUND)
        )

    tools = {OURS: lambda: run(probe_flow())}
    if settings.peer:
        tools[PEER] = lambda: run(settings.peer)
    return tools
