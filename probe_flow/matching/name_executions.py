"""Which executions of two dumps correspond: by rank and step, where these are known and vary."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import Execution

_WAYS_OF_RUNNING = {"graph", "pynative"}


@dataclass(frozen=True, slots=True)
class ExecutionPairs:
    """Target execution -> golden execution, and what is worth saying about it."""

    golden_of: Mapping[Execution, Execution]
    problems: tuple[Diagnostic, ...]


def pair_executions(
    target: Sequence[Execution],
    golden: Sequence[Execution],
    *,
    pair_ranks: Mapping[int, int] | None,
    step_offset: int,
) -> ExecutionPairs:
    """Pair executions of equal rank, graph, step and micro step.

    A part that has one value only on each side (a single process on one side, rank 0 on the other) pairs whatever the
    values are, unless an option states the relation. What MindSpore ran as a graph is never compared with what it ran
    step by step.

    Args:
        target, golden: the executions of both sides.
        pair_ranks: target rank -> golden rank; ranks not named keep their number.
        step_offset: golden step minus target step.
    """
    problems: list[Diagnostic] = []
    ignored: set[str] = set()
    for part, is_stated in (("rank", bool(pair_ranks)), ("step", step_offset != 0), ("graph", False)):
        values = [{getattr(run, part) for run in side} for side in (target, golden)]
        is_single = len(values[0]) == len(values[1]) == 1
        if not is_stated and is_single and values[0] | values[1] != _WAYS_OF_RUNNING:
            ignored.add(part)
            problems += _differing(part, next(iter(values[0])), next(iter(values[1])))
    by_identity = {_identity(run, ignored): run for run in golden}
    found: dict[Execution, Execution] = {}
    for run in target:
        rank = run.rank if run.rank is None else (pair_ranks or {}).get(run.rank, run.rank)
        step = run.step if run.step is None else run.step + step_offset
        partner = by_identity.get(_identity(run, ignored, rank=rank, step=step))
        if partner is not None:
            found[run] = partner
    problems += _unused_ranks(pair_ranks or {}, target, golden)
    problems += [_alone(run, "target", "golden") for run in target if run not in found]
    partners = set(found.values())
    problems += [_alone(run, "golden", "target") for run in golden if run not in partners]
    return ExecutionPairs(found, tuple(problems))


def _identity(run: Execution, ignored: Collection[str], **changed: int | None) -> tuple[object, ...]:
    parts = {"rank": run.rank, "graph": run.graph, "step": run.step, **changed}
    return (*(None if part in ignored else value for part, value in parts.items()), run.micro_step)


def _differing(part: str, target: object, golden: object) -> list[Diagnostic]:
    if None in (target, golden) or target == golden:
        return []
    message = f"target {part} {target} is compared with golden {part} {golden}: neither side has another"
    return [Diagnostic("PF4202", message, severity=Severity.WARNING)]


def _unused_ranks(
    pair_ranks: Mapping[int, int], target: Sequence[Execution], golden: Sequence[Execution]
) -> list[Diagnostic]:
    ours, theirs = {run.rank for run in target}, {run.rank for run in golden}
    problems = []
    for one, other in pair_ranks.items():
        missing = [f"target rank {one}"] * (one not in ours) + [f"golden rank {other}"] * (other not in theirs)
        if missing:
            message = f"`pair_ranks` entry {one}: {other} matches nothing: there is no {' and no '.join(missing)}"
            problems.append(Diagnostic("PF4204", message, severity=Severity.WARNING))
    return problems


def _alone(run: Execution, side: str, other: str) -> Diagnostic:
    return Diagnostic(
        "PF4203",
        f"{run} of the {side} has no counterpart in the {other}",
        severity=Severity.WARNING,
        help="state `pair_ranks` or `step_offset`, or narrow the dump with `select`",
    )
