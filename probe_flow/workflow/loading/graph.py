"""Check how stages are wired, before anything runs: names, kinds, cycles; and put them into an order that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from probe_flow.errors import Diagnostic, did_you_mean
from probe_flow.stages.base import Consumes, Kind, StageType
from probe_flow.workflow.loading.fields import KIND_WORDS, kind_words
from probe_flow.workflow.loading.raw_stages import Draft, Wire
from probe_flow.workflow.model import ResolvedStage


def check_wires(drafts: Mapping[str, Draft]) -> list[Diagnostic]:
    """Return every wire that names no stage, or one whose result is of another kind.

    Args:
        drafts: all stages of the file by name.
    """
    problems = []
    for draft in drafts.values():
        for wire in draft.wires:
            if wire.stage not in drafts:
                problems.append(_dangling(draft, wire, drafts))
            else:
                problems += _wrong_kind(draft, wire, drafts)
    return problems


def find_cycles(drafts: Mapping[str, Draft]) -> list[Diagnostic]:
    """Return one diagnostic for every cycle, with its path."""
    ordered = {draft.name for draft in topological(drafts)}
    left = {name: draft for name, draft in drafts.items() if name not in ordered}
    problems: list[Diagnostic] = []
    while True:
        cycle = _cycle(left)
        if not cycle:
            return problems
        problems.append(_cyclic(cycle))
        for draft, _ in cycle:
            del left[draft.name]


def check_endless(stages: Sequence[ResolvedStage]) -> list[Diagnostic]:
    """Return every stage that waits for one which never ends."""
    endless = {stage.name: stage for stage in stages if stage.options.is_endless}
    return [
        Diagnostic(
            "PF6307",
            f"stage `{stage.name}` consumes `{name}`, which watches its dump for ever",
            span=stage.span,
            label=f"`{stage.name}` would never run",
            related=((endless[name].span, f"`{name}` is defined here"),),
            help="give the watch `stop_when: idle` or `stop_when: file`",
            stage=stage.name,
        )
        for stage in stages
        for name in dict.fromkeys(name for names in stage.inputs.values() for name in names)
        if name in endless
    ]


def topological(drafts: Mapping[str, Draft]) -> list[Draft]:
    """Return the stages so that each comes after those that it consumes, otherwise as written; no stage of a cycle.

    Reports come last: what they say of the run holds whatever else fails.
    """
    ordered: list[Draft] = []
    done: set[str] = set()
    left = sorted(drafts.values(), key=lambda draft: draft.type is not None and draft.type.produces is Kind.REPORT)
    while True:
        ready = next(
            (draft for draft in left if all(w.stage in done or w.stage not in drafts for w in draft.wires)), None
        )
        if ready is None:
            return ordered
        left.remove(ready)
        done.add(ready.name)
        ordered.append(ready)


def _cycle(drafts: Mapping[str, Draft]) -> list[tuple[Draft, Wire]]:
    """Return the stages of one cycle, each with the wire to the next, or nothing."""
    for start in drafts.values():
        trail: list[tuple[Draft, Wire]] = []
        seen: list[str] = []
        draft: Draft | None = start
        while draft is not None and draft.name not in seen:
            wire = next((wire for wire in draft.wires if wire.stage in drafts), None)
            if wire is None:
                break
            seen.append(draft.name)
            trail.append((draft, wire))
            draft = drafts[wire.stage]
        else:
            return trail[seen.index(draft.name) :] if draft else []
    return []


def _cyclic(cycle: Sequence[tuple[Draft, Wire]]) -> Diagnostic:
    names = [draft.name for draft, _ in cycle]
    path = " -> ".join(f"`{name}`" for name in [*names, names[0]])
    (first, wire), *others = cycle
    return Diagnostic(
        "PF2005",
        f"stages wait for each other: {path}" if others else f"stage `{first.name}` consumes its own result",
        span=wire.span,
        label=f"`{first.name}` waits for `{wire.stage}`",
        related=tuple((other.span, f"`{draft.name}` waits for `{other.stage}`") for draft, other in others),
        help="remove the reference" if not others else "remove one of these references",
        stage=first.name,
    )


def _dangling(draft: Draft, wire: Wire, drafts: Mapping[str, Draft]) -> Diagnostic:
    fitting = [
        name
        for name, other in drafts.items()
        if name != draft.name and (other.type is None or _fits(other.type, wire.consumes))
    ]
    near = did_you_mean(wire.stage, fitting) or did_you_mean(wire.stage, drafts)
    kind = kind_words(wire.consumes)
    known = f"stages that give {kind}: {', '.join(fitting) or 'none'}"
    return Diagnostic(
        "PF2003",
        f"`{wire.option}` of stage `{draft.name}` names `{wire.stage}`, which is no stage of this workflow",
        span=wire.span,
        label="no such stage",
        help=f"{near}  {known}" if near else known,
        stage=draft.name,
    )


def _fits(type_: StageType, consumes: Consumes) -> bool:
    return type_.produces is consumes.kind and consumes.takes(type_.uses)


def _wrong_kind(draft: Draft, wire: Wire, drafts: Mapping[str, Draft]) -> list[Diagnostic]:
    other = drafts[wire.stage]
    if other.type is None or _fits(other.type, wire.consumes):
        return []
    wanted, given = kind_words(wire.consumes), KIND_WORDS[other.type.produces]
    if other.type.produces is wire.consumes.kind:
        given = f"that of `{other.type.uses}`"
    fitting = [name for name, each in drafts.items() if each.type and _fits(each.type, wire.consumes)]
    return [
        Diagnostic(
            "PF2004",
            f"`{wire.option}` of stage `{draft.name}` needs {wanted}, but stage `{wire.stage}` gives {given}",
            span=wire.span,
            label=f"`{other.type.uses}` gives {KIND_WORDS[other.type.produces]}",
            related=((other.place.name_span, f"`{wire.stage}` is defined here"),),
            help=f"stages that give {wanted}: {', '.join(fitting) or 'none'}",
            stage=draft.name,
        )
    ]
