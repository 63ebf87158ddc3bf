"""What result files and the terminal say of waivers and of the baseline, in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probe_flow.record.json_values import json_number
from probe_flow.record.places import figure, printable
from probe_flow.record.types.conclusions import (
    BaselineRecord,
    ChangeCounts,
    ChangeRecord,
    ComparisonRecord,
    Conclusions,
    WaiverRecord,
)
from probe_flow.record.types.run import RunRecord
from probe_flow.records import BaselineUse, Change, Deviant, Phase, WaiverState, WaiverUse

MAX_CHANGES = 100
"""Changes against the baseline that the record lists; it counts all of them."""

MAX_TOLD = 5


def waiver_facts(waivers: Sequence[WaiverUse]) -> tuple[WaiverRecord, ...]:
    """Return what the record says of each waiver, in the order of the workflow file."""
    return tuple(
        WaiverRecord(
            use.where,
            use.reason,
            use.owner,
            use.expires,
            use.bound or None,
            use.state,
            use.rows,
            use.findings,
            use.exceeded,
        )
        for use in waivers
    )


def baseline_facts(use: BaselineUse) -> BaselineRecord:
    """Return what the record says of the baseline: counts, and the first changes of each kind."""
    return BaselineRecord(
        use.path,
        use.tolerance,
        use.accepted,
        ChangeCounts(len(use.worse), len(use.better), len(use.absent)),
        *(tuple(map(_change, changes[:MAX_CHANGES])) for changes in (use.worse, use.better, use.absent)),
    )


def _change(change: Change) -> ChangeRecord:
    each = change.deviant
    return ChangeRecord(
        each.node,
        each.op_type,
        each.graph,
        each.call,
        Phase(each.phase),
        each.slot,
        each.kind,
        json_number(change.accepted),
        json_number(change.now),
        change.is_new,
    )


def deviant_facts(each: Deviant) -> dict[str, object]:
    """Return where a deviation is and what it is, without its size."""
    names = ("node", "op_type", "graph", "call", "phase", "slot", "kind")
    return {name: getattr(each, name) for name in names}


def excuses_text(run: Conclusions) -> tuple[list[str], list[str]]:
    """Return the lines about waivers and those about baselines of a run, or of one comparison; empty without any."""
    waivers: list[str] = []
    baselines: list[str] = []
    for part in _parts(run):
        waivers += list(_waivers(part.waivers))
        if part.baseline is not None:
            baselines += list(baseline_lines(part.baseline))
    return waivers, baselines


def excuses_any(run: Conclusions) -> bool:
    """Return True if something that would fail the gate does not because of a waiver or the baseline."""
    return any(
        (part.baseline is not None and part.baseline.accepted) or any(use.rows or use.findings for use in part.waivers)
        for part in _parts(run)
    )


def _parts(run: Conclusions) -> Sequence[Conclusions]:
    """Return the comparisons of a record; it is one itself where it lists none."""
    comparisons: Sequence[ComparisonRecord] = list(run.comparisons.values()) if isinstance(run, RunRecord) else ()
    return comparisons or [run]


def _waivers(waivers: Sequence[WaiverRecord]) -> Iterator[str]:
    for use in waivers:
        covered = f"covers {_counted(use.rows, 'failing tensor')} and {_counted(use.findings, 'finding')}"
        done = {
            WaiverState.USED: covered,
            WaiverState.EXCEEDED: f"is exceeded by {_counted(use.exceeded, 'failure')}, {covered}",
        }
        state = done.get(use.state, f"is {use.state.value}")
        yield printable(f"{use.where}, until {use.expires} by {use.owner}, {state}: {use.reason}")


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def baseline_lines(baseline: BaselineRecord) -> Iterator[str]:
    """Yield what is to say of one baseline."""
    counts = baseline.counts
    yield printable(
        f"{baseline.file}: {baseline.accepted} as accepted, {counts.worse} worse, {counts.better} better, "
        f"{counts.absent} at nodes that are gone"
    )
    for name, count, changes in (("worse", counts.worse, baseline.worse), ("better", counts.better, baseline.better)):
        for change in changes[:MAX_TOLD]:
            yield printable(f"{name}: {change_text(change)}")
        if count > MAX_TOLD:
            yield f"{name}: and {count - MAX_TOLD} more, in run.json"


def change_text(change: ChangeRecord) -> str:
    """Return a change in words: ``Add_2.output.0 (AddV2), origin: 0.0123 -> 0.05``."""
    call = f"#{change.call}" if change.call else ""
    phase = ".backward" if change.phase is Phase.BACKWARD else ""
    tensor = f".{change.slot}" if change.slot else ""
    op_type = f" ({change.op_type})" if change.op_type else ""
    sizes = (
        "new" if change.new else _size(change.accepted),
        _size(change.now) if change.now is not None else "gone",
    )
    name = f"{change.node or 'the whole run'}{call}{phase}{tensor}{op_type}"
    return f"{name}, {change.kind.replace('_', ' ')}: {sizes[0]} -> {sizes[1]}"


def _size(value: object) -> str:
    return "no number" if value is None else figure(value)
