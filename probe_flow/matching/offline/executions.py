"""Pair the executions of two offline dumps: every one with the only golden, else by device, model and step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from probe_flow.matching.shared.executions import ExecutionPairs, other_leaves_out, pair_executions
from probe_flow.records import Catalog, Execution


def pair_offline(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None, step_offset: int
) -> ExecutionPairs:
    """Return target execution -> golden execution.

    A golden folder that tells neither rank, model nor step is compared with all that ran on the device. Models are told
    apart by name, since a device numbers them anew each time that they are loaded; by number where one model was loaded
    twice.
    """
    if golden.executions == (Execution(),) and not pair_ranks and not step_offset:
        return ExecutionPairs(dict.fromkeys(target.executions, Execution()))
    sides = [{_named(run): run for run in catalog.executions} for catalog in (target, golden)]
    if any(len(side) < len(catalog.executions) for side, catalog in zip(sides, (target, golden), strict=True)):
        sides = [{run: run for run in catalog.executions} for catalog in (target, golden)]
    found = pair_executions(
        list(sides[0]),
        list(sides[1]),
        pair_ranks=pair_ranks,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    golden_of = {sides[0][one]: sides[1][other] for one, other in found.golden_of.items()}
    return replace(found, golden_of=golden_of)


def _named(run: Execution) -> Execution:
    return replace(run, graph=run.model) if run.model is not None else run


def group_prefixes(target: Catalog) -> dict[Execution, str]:
    """Return what stands before the group ids of each execution: nothing where there is one execution only."""
    runs = target.executions
    if len(runs) == 1:
        return {runs[0]: ""}
    return {run: f"{number}/" for number, run in enumerate(runs)}
