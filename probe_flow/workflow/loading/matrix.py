"""Matrix: a stage with variants, and the stages that follow it in lockstep.

A consumer has one variant for every combination of what it consumes; entries of equal name go together. A report
collects all variants instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from probe_flow.errors import Diagnostic
from probe_flow.files.yaml.places import HOLE
from probe_flow.stages.base import Kind
from probe_flow.workflow.loading.raw_stages import MAX_VARIANTS, Draft, Variant, Wire

MAX_INSTANCES = 10_000
"""Variants of all stages together."""

_PLAIN = re.compile(r"[A-Za-z0-9._+-]{1,40}")


class Instance(Struct, frozen=True):
    """One variant of a stage.

    Args:
        name: ``stage`` or ``stage[m=a,n=1]``.
        variant: value of every matrix entry, own and inherited.
        inputs: names of the consumed instances by option.
    """

    name: str
    draft: Draft
    variant: Variant
    inputs: Mapping[str, tuple[str, ...]]


def expand(drafts: Sequence[Draft]) -> tuple[list[Instance], list[Diagnostic]]:
    """Return every variant of every stage, in order, with what is wrong.

    Args:
        drafts: in topological order; wires to stages that are not among them are left out.
    """
    instances: dict[str, list[Instance]] = {}
    problems: list[Diagnostic] = []
    count = 0
    for draft in drafts:
        joined = _join(draft, instances)
        if len(joined) > MAX_VARIANTS:
            message = f"stage `{draft.name}` has more than {MAX_VARIANTS:,} variants"
            problems.append(Diagnostic("PF2007", message, span=draft.place.name_span, stage=draft.name))
            joined = joined[:1]
        count += len(joined)
        if count > MAX_INSTANCES >= count - len(joined):
            message = f"stages have more than {MAX_INSTANCES:,} variants in all"
            cure = "give `matrix` fewer values, or split the workflow"
            problems.append(Diagnostic("PF1313", message, span=draft.place.name_span, stage=draft.name, help=cure))
        if count > MAX_INSTANCES:
            joined = joined[:1]
        problems += _left_out(draft, [variant for variant, _ in joined], instances)
        names = _names(draft.name, [variant for variant, _ in joined])
        instances[draft.name] = [
            Instance(name, draft, variant, _inputs(variant, wires, instances))
            for name, (variant, wires) in zip(names, joined, strict=True)
        ]
    return [instance for each in instances.values() for instance in each], problems


def _collects(draft: Draft) -> bool:
    return draft.type is not None and draft.type.produces is Kind.REPORT


def _join(draft: Draft, instances: Mapping[str, Sequence[Instance]]) -> list[tuple[Variant, tuple[Wire, ...]]]:
    """Return the combinations of a stage's own variants with those that it consumes."""
    joined: list[tuple[Variant, tuple[Wire, ...]]] = []
    for own, wires in draft.variants:
        variants = [own]
        for wire in () if _collects(draft) else wires:
            consumed = instances.get(wire.stage)
            if consumed is not None:
                merged = [
                    {**variant, **other.variant} for variant in variants for other in consumed if _fit(variant, other)
                ]
                variants = _unique(merged)[: MAX_VARIANTS + 1]
        inherited = [{key: value for key, value in variant.items() if key not in own} for variant in variants]
        joined += [({**variant, **own}, wires) for variant in inherited]
    return joined


def _fit(variant: Variant, other: Instance) -> bool:
    both = [(value, other.variant[key]) for key, value in variant.items() if key in other.variant]
    return all(own == consumed or HOLE in (own, consumed) for own, consumed in both)


def _unique(variants: Sequence[Variant]) -> list[Variant]:
    # By what is written: values may be lists and mappings.
    return list({repr(sorted(variant.items(), key=lambda item: item[0])): variant for variant in variants}.values())


def _left_out(
    draft: Draft, variants: Sequence[Variant], instances: Mapping[str, Sequence[Instance]]
) -> list[Diagnostic]:
    """Return consumed variants that no variant of this stage goes with: they would be lost without a word."""
    if _collects(draft):
        return []
    problems = []
    for wire in draft.wires:
        lost = [
            other.name
            for other in instances.get(wire.stage, ())
            if not any(_fit(variant, other) for variant in variants)
        ]
        if lost:
            named = ", ".join(f"`{name}`" for name in lost[:3]) + (", ..." if len(lost) > 3 else "")
            problems.append(
                Diagnostic(
                    "PF2006",
                    f"stage `{draft.name}` leaves out variants of `{wire.stage}`: {named}",
                    span=wire.span,
                    label="matrix entries of one name go together",
                    help="give the entries the same values, or different names for every combination",
                    stage=draft.name,
                )
            )
    return problems[:1]


def _inputs(
    variant: Variant, wires: Sequence[Wire], instances: Mapping[str, Sequence[Instance]]
) -> dict[str, tuple[str, ...]]:
    inputs: dict[str, tuple[str, ...]] = {}
    for wire in wires:
        names = tuple(other.name for other in instances.get(wire.stage, ()) if _fit(variant, other))
        inputs[wire.option] = inputs.get(wire.option, ()) + names
    return inputs


def _names(stage: str, variants: Sequence[Variant]) -> list[str]:
    """Return the names of a stage's variants; a value that would not be readable in a name is shown by its position."""
    seen: dict[str, list[object]] = {}
    names = []
    for variant in variants:
        parts = []
        for key, value in variant.items():
            values = seen.setdefault(key, [])
            if value not in values:
                values.append(value)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            parts.append(f"{key}={text if _PLAIN.fullmatch(text) else f'#{values.index(value)}'}")
        names.append(f"{stage}[{','.join(parts)}]" if parts else stage)
    return names
