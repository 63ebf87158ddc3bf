"""What result files and the terminal say of waivers and of the baseline, in the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from probe_flow.record.facts import figure, printable
from probe_flow.record.json_values import json_number
from probe_flow.records import BaselineUse, Change, Deviant, WaiverUse

MAX_CHANGES = 100
"""Changes against the baseline that the record lists; it counts all of them."""

MAX_TOLD = 5


def waiver_facts(waivers: Sequence[WaiverUse]) -> list[dict[str, Any]]:
    """Return what the record says of each waiver, in the order of the workflow file."""
    return [
        {
            "where": use.where,
            "reason": use.reason,
            "owner": use.owner,
            "expires": use.expires,
            "bound": use.bound or None,
            "state": use.state.value,
            "rows": use.rows,
            "findings": use.findings,
            "exceeded": use.exceeded,
        }
        for use in waivers
    ]


def baseline_facts(use: BaselineUse) -> dict[str, Any]:
    """Return what the record says of the baseline: counts, and the first changes of each kind."""
    groups = {"worse": use.worse, "better": use.better, "absent": use.absent}
    return {
        "file": use.path,
        "tolerance": use.tolerance,
        "accepted": use.accepted,
        "counts": {name: len(changes) for name, changes in groups.items()},
        **{name: [_change(change) for change in changes[:MAX_CHANGES]] for name, changes in groups.items()},
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        **deviant_facts(change.deviant),
        "accepted": json_number(change.accepted),
        "now": json_number(change.now),
        "new": change.is_new,
    }


def deviant_facts(each: Deviant) -> dict[str, Any]:
    """Return where a deviation is and what it is, without its size."""
    return {
        "node": each.node,
        "op_type": each.op_type,
        "graph": each.graph,
        "call": each.call,
        "phase": each.phase,
        "slot": each.slot,
        "kind": each.kind,
    }


def baseline_lines(baseline: Mapping[str, Any]) -> list[str]:
    """Return what is to say of one baseline, from `baseline_facts`."""
    return list(_baseline(baseline))


def excuses_text(run: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the lines about waivers and those about baselines of a run, or of one comparison; empty without any."""
    waivers: list[str] = []
    baselines: list[str] = []
    for part in _parts(run):
        waivers += list(_waivers(part.get("waivers") or ()))
        if part.get("baseline"):
            baselines += list(_baseline(part["baseline"]))
    return waivers, baselines


def excuses_any(run: Mapping[str, Any]) -> bool:
    """Say whether something that would fail the gate does not because of a waiver or the baseline."""
    return any(
        (part.get("baseline") or {}).get("accepted")
        or any(use["rows"] or use["findings"] for use in part.get("waivers") or ())
        for part in _parts(run)
    )


def _parts(run: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the comparisons of a record; it is one itself where it lists none."""
    comparisons = run.get("comparisons")
    return list(comparisons.values()) if isinstance(comparisons, Mapping) and comparisons else [run]


def _waivers(waivers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for use in waivers:
        covered = f"covers {_counted(use['rows'], 'failing tensor')} and {_counted(use['findings'], 'finding')}"
        done = {"used": covered, "exceeded": f"is exceeded by {_counted(use['exceeded'], 'failure')}, {covered}"}
        state = done.get(use["state"], f"is {use['state']}")
        yield printable(f"{use['where']}, until {use['expires']} by {use['owner']}, {state}: {use['reason']}")


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _baseline(baseline: Mapping[str, Any]) -> Iterator[str]:
    counts = Counter(baseline["counts"])
    yield printable(
        f"{baseline['file']}: {baseline['accepted']} as accepted, {counts['worse']} worse, {counts['better']} better, "
        f"{counts['absent']} at nodes that are gone"
    )
    for name in ("worse", "better"):
        for change in baseline[name][:MAX_TOLD]:
            yield printable(f"{name}: {change_text(change)}")
        if counts[name] > MAX_TOLD:
            yield f"{name}: and {counts[name] - MAX_TOLD} more, in run.json"


def change_text(change: Mapping[str, Any]) -> str:
    """Return a change in words: ``Add_2.output.0 (AddV2), origin: 0.0123 -> 0.05``."""
    call = f"#{change['call']}" if change["call"] else ""
    phase = ".backward" if change["phase"] == "backward" else ""
    tensor = f".{change['slot']}" if change["slot"] else ""
    op_type = f" ({change['op_type']})" if change["op_type"] else ""
    sizes = (
        "new" if change["new"] else _size(change["accepted"]),
        _size(change["now"]) if change["now"] is not None else "gone",
    )
    name = f"{change['node'] or 'the whole run'}{call}{phase}{tensor}{op_type}"
    return f"{name}, {change['kind'].replace('_', ' ')}: {sizes[0]} -> {sizes[1]}"


def _size(value: object) -> str:
    return "no number" if value is None else figure(value)
