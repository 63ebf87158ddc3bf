"""Case distributed: the same comparison by worker processes and by an own Dask cluster, small and large."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.dumps import DumpPair, write_ge_fx
from benchmarks.figures import Row, Settings, usage_rows
from benchmarks.runs import run_workflow
from benchmarks.timing import Spread, Usage, interleave

OPERATORS, QUICK_OPERATORS = 300, 20
ELEMENTS, FEW_ELEMENTS = 1_000_000, 256
PROCESSES, CLUSTER = "processes", "distributed"
LARGE, SMALL = "large", "small"


def distributed(settings: Settings) -> list[Row]:
    """Compare by processes and by a Dask cluster: what a cluster costs once, and what its work takes beyond that."""
    operators = QUICK_OPERATORS if settings.is_quick else OPERATORS
    folder = settings.folder("distributed", operators * ELEMENTS * 12)
    dumps = {
        LARGE: write_ge_fx(_below(folder, LARGE), operators=operators, elements=ELEMENTS),
        SMALL: write_ge_fx(_below(folder, SMALL), operators=operators, elements=FEW_ELEMENTS),
    }
    tools = {
        f"{way}, {size}": _tool(settings, pair, way) for size, pair in dumps.items() for way in (PROCESSES, CLUSTER)
    }
    try:
        found = interleave(tools, settings.runs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = []
    for name, usages in found.items():
        elements = ELEMENTS if LARGE in name else FEW_ELEMENTS
        rows += usage_rows("distributed", f"{name} ({dumps[LARGE].pairs} pairs x {elements} elements)", usages)
    small, large = ({way: _walls(found[f"{way}, {size}"]) for way in (PROCESSES, CLUSTER)} for size in (SMALL, LARGE))
    fixed = [its - other for its, other in zip(small[CLUSTER], small[PROCESSES], strict=True)]
    beyond = {way: [whole - start for whole, start in zip(large[way], small[way], strict=True)] for way in large}
    ratios = [its / other for its, other in zip(beyond[CLUSTER], beyond[PROCESSES], strict=True)]
    return [
        *rows,
        Row("distributed", "distributed less processes, small, wall", "s", Spread.of(fixed), "<= 1.5"),
        Row("distributed", "distributed to processes, large less small, wall", "ratio", Spread.of(ratios), "<= 1.1"),
    ]


def _tool(settings: Settings, dumps: DumpPair, way: str) -> Callable[[], Usage]:
    """Return a whole run with an empty cache."""

    def run() -> Usage:
        output = settings.folder("distributed_output") / "run"
        words = ("--scheduler", way, "--workers", "2")
        return run_workflow(dumps, output, *words, cache=settings.folder("distributed_cache"))

    return run


def _below(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _walls(usages: Sequence[Usage]) -> list[float]:
    return [usage.wall_s for usage in usages]
