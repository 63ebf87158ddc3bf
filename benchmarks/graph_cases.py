"""Cases graphs and ranks: the graph of a deep model, or two compared, as the database that the viewer opens.

The second one is about memory: what each further rank takes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from benchmarks.eager_dumps import EagerPair
from benchmarks.figures import ROOT, Row, Settings, one, probe_flow, ratio_rows, usage_rows
from benchmarks.graph_dumps import NODES_OF_BLOCK, write_graphs
from benchmarks.runs import cache_in
from benchmarks.timing import MIB, Usage, interleave, run_command
from benchmarks.tree_memory import TreeMemory, tree_memory

BLOCKS, QUICK_BLOCKS = 1470, 30
GOALS = {"build": ("", ">= 3", ">= 2"), "compare": ("", ">= 2", ">= 1.43")}
"""How many times more the peer shall take: wall time, CPU time, peak memory."""

RANK_COMMANDS = "graph_visualize", "compare"
RANK_BLOCKS, QUICK_RANK_BLOCKS = 184, 6
QUICK_RANKS = 1, 3
RANK_GOAL = "<= 2"
"""What a further rank may take of the largest process, in MiB."""

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


def ranks_of(few: int, many: int) -> Callable[[Settings], list[Row]]:
    """Return the case that compares the dumps of so many ranks, and says what each of the further ones takes."""

    def ranks(settings: Settings) -> list[Row]:
        """Compare the dumps of few and of many ranks: what each further rank takes of memory."""
        blocks, numbers = (QUICK_RANK_BLOCKS, QUICK_RANKS) if settings.is_quick else (RANK_BLOCKS, (few, many))
        rows = []
        for what in RANK_COMMANDS:
            found = {count: _of_ranks(settings, what, blocks, count) for count in numbers}
            about = f"{what} of {{}} ranks, {blocks * NODES_OF_BLOCK} nodes each"
            for count, memory in found.items():
                rows += [
                    Row("ranks", f"{about.format(count)}, largest process", "MiB", one(memory.largest_bytes / MIB)),
                    Row("ranks", f"{about.format(count)}, all processes", "MiB", one(memory.total_bytes / MIB)),
                    Row("ranks", f"{about.format(count)}, CPU", "s", one(memory.cpu_s)),
                ]
            first, last = found.values()
            for name, grown, goal in (
                ("largest process", last.largest_bytes - first.largest_bytes, RANK_GOAL),
                ("all processes", last.total_bytes - first.total_bytes, ""),
            ):
                further = f"{what}, each rank from {numbers[0]} to {numbers[1]}, {name}"
                rows.append(Row("ranks", further, "MiB", one(grown / (numbers[1] - numbers[0]) / MIB), goal))
        return rows

    return ranks


def _of_ranks(settings: Settings, what: str, blocks: int, ranks: int) -> TreeMemory:
    root, output = settings.folder("ranks"), settings.folder("ranks_output")
    try:
        pair = write_graphs(root, blocks=blocks, ranks=ranks)
        target, golden = (str(side.parents[1]) for side in (pair.target, pair.golden))
        command = [*probe_flow(), what, "-tp", target, "-gp", golden, "-o", str(output)]
        return tree_memory(command, cwd=ROOT, variables=cache_in(output / "cache"), accepted=(0, BLOCK_FOUND))
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(output, ignore_errors=True)


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
