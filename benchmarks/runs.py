"""Run the device-dump workflow as a command, and read what it left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.dumps import DumpPair
from benchmarks.figures import ROOT, WORKFLOW, probe_flow
from benchmarks.timing import Usage, run_command


def run_words(dumps: DumpPair, output: Path, *more: str) -> list[str]:
    """Return the words after ``probe-flow``."""
    sets = ("--set", f"target={dumps.target}", "--set", f"golden={dumps.golden}")
    return ["run", str(ROOT / WORKFLOW), *sets, "--output", str(output), "--quiet", *more]


def run_workflow(dumps: DumpPair, output: Path, *more: str, cache: Path) -> Usage:
    """Run to the end; further options in ``more``.

    Raises:
        RuntimeError: the run did not pass.
    """
    return run_command([*probe_flow(), *run_words(dumps, output, *more)], cwd=ROOT, variables=cache_in(cache))


def cache_in(folder: Path) -> dict[str, str]:
    """Return the environment variables that put the cache into a folder."""
    return {"PROBE_FLOW_CACHE": str(folder)}


def cache_counts(output: Path) -> tuple[int, int]:
    """Return how many results a run took from the cache and how many it measured."""
    found: dict[str, Any] = json.loads((output / "run.json").read_text(encoding="utf-8"))
    return found["cache"]["hits"], found["cache"]["misses"]


def demand_equal(outputs: Sequence[Path]) -> None:
    """Check that all runs wrote the same `comparison.jsonl`.

    Raises:
        RuntimeError: two of them differ.
    """
    first, *others = (output / "comparison.jsonl" for output in outputs)
    expected = first.read_bytes()
    for other in others:
        if other.read_bytes() != expected:
            raise RuntimeError(f"{other} differs from {first}")
