"""Coverage: what became of every tensor of each side, and whether that makes the run incomplete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from probe_flow.analysis.guesses import doubtful_rows
from probe_flow.analysis.measured import PRODUCED, MeasuredPair
from probe_flow.records import (
    Catalog,
    Coverage,
    Execution,
    Expectation,
    Pairs,
    Role,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)

COMPARED = frozenset({Status.PASS, Status.WARNING, Status.FAIL})


def cover(pairs: Pairs, rows: Sequence[MeasuredPair], verdicts: Sequence[Verdict]) -> Mapping[str, Coverage]:
    """Count the tensors of both sides by the best that happened to each (compared beats expected beats missing).

    Tensors are told apart by identity: a pair holds its catalogs' own objects.
    """
    best: dict[int, str] = {}
    for row, verdict in zip(rows, verdicts, strict=True):
        target, golden = row.pair.target, row.pair.golden
        if target is not None and golden is not None and verdict.status in COMPARED:
            best[id(target)] = best[id(golden)] = "compared"  # nothing better can happen
            continue
        for tensor in (target, golden):
            if tensor is None:
                continue
            fate = _fate(tensor, row, verdict)
            known = best.get(id(tensor))
            if known is None or _RANK[fate] > _RANK[known]:
                best[id(tensor)] = fate
    return {"target": _cover_side(pairs.target, best), "golden": _cover_side(pairs.golden, best)}


_RANK = {"missing": 0, "unreadable": 1, "expected": 2, "compared": 3}


def _cover_side(catalog: Catalog, best: Mapping[int, str]) -> Coverage:
    counts = Counter([best.get(id(tensor), "missing") for tensor in catalog.tensors])
    outputs = Counter([best.get(id(tensor), "missing") for tensor in catalog.tensors if tensor.slot.role in PRODUCED])
    return Coverage(
        tensors=len(catalog.tensors),
        compared=counts["compared"],
        expected=counts["expected"],
        missing=counts["missing"] + counts["unreadable"],
        unreadable=counts["unreadable"],
        outputs_compared=outputs["compared"],
        outputs_missing=outputs["missing"] + outputs["unreadable"],
    )


def _fate(tensor: TensorRef, row: MeasuredPair, verdict: Verdict) -> str:
    if verdict.status in COMPARED:
        return "compared"
    if tensor.kind is TensorKind.UNREADABLE or verdict.status is Status.ERROR:
        return "unreadable"
    if row.pair.target is None or row.pair.golden is None:
        reason = row.pair.reason
        return "expected" if reason is not None and reason.expectation is Expectation.EXPECTED else "missing"
    # A pair without a verdict on its values (quantised side, no rule of the policy) was paired and looked at; what is
    # no tensor on either side has no values.
    is_opaque = row.pair.target.kind is row.pair.golden.kind is TensorKind.OPAQUE
    looked_at = verdict.status is Status.SKIPPED or row.measurement is not None
    return "expected" if looked_at or is_opaque else "missing"


def incompleteness(
    rows: Sequence[MeasuredPair],
    verdicts: Sequence[Verdict],
    coverage: Mapping[str, Coverage],
    *,
    required: float,
) -> tuple[str, ...]:
    """Return why the run counts as incomplete, one sentence each; nothing when it is complete.

    The verdicts are those with the roles that the search for the origin gave.
    """
    causes = []
    unreadable = sum(1 for verdict in verdicts if verdict.status is Status.ERROR)
    if unreadable:
        causes.append(f"{unreadable} selected tensor{'s' if unreadable > 1 else ''} could not be read")
    if not any(verdict.status in COMPARED for verdict in verdicts):
        paired = any(row.pair.target is not None and row.pair.golden is not None for row in rows)
        why = "no pair could be measured and judged" if paired else "no target tensor has a golden partner"
        causes.append(f"nothing was compared: {why}")
    causes.extend(_executions_without_pair(rows, verdicts))
    doubtful = doubtful_rows(rows, verdicts)
    if doubtful and not any(verdict.role is Role.ORIGIN for verdict in verdicts):
        pairs = f"{doubtful} pairs were" if doubtful > 1 else "1 pair was"
        causes.append(f"{pairs} guessed and differ{'' if doubtful > 1 else 's'}: the guess or the target is wrong")
    for side, found in coverage.items():
        ratio = found.outputs_ratio
        if ratio is not None and ratio < required:
            causes.append(
                f"only {ratio:.0%} of the {side}'s outputs were compared ({found.outputs_compared} of "
                f"{found.outputs_compared + found.outputs_missing}, required {required:.0%})"
            )
    return tuple(causes)


def _executions_without_pair(rows: Sequence[MeasuredPair], verdicts: Sequence[Verdict]) -> list[str]:
    """Name executions that both sides have but of which nothing was compared, though it was to be."""
    targets: dict[int, Execution] = {}  # by the object, since hashing a run is slow
    goldens: dict[int, Execution] = {}
    done: dict[int, Execution] = {}
    for row, verdict in zip(rows, verdicts, strict=True):
        status = verdict.status
        if status is Status.SKIPPED:
            continue
        is_compared = status in COMPARED
        for tensor, runs in ((row.pair.target, targets), (row.pair.golden, goldens)):
            if tensor is not None and (place := id(run := tensor.node.execution)) not in done:
                runs[place] = run
                if is_compared:
                    done[place] = run
    golden, compared = ({run.identity for run in runs.values()} for runs in (goldens, done))
    empty = {run.identity: run for run in targets.values() if run.identity in golden - compared}
    return [f"nothing of {run} was compared, though both sides have it" for run in empty.values()]
