"""Narrow a comparison to some operators by the ids that the rule file gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.matching.fusion_rules import FusionRules

_RANGE = re.compile(r"\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """Ids to compare, and what was wrong with the wish."""

    ids: frozenset[int]
    problems: tuple[Diagnostic, ...] = ()


def selected_by_range(rules: FusionRules, text: str) -> Selection:
    """Return the ids of ``start,end,step``: both ends and every ``step``-th in between; an end of -1 is the last id.

    Raises:
        UsageError: PF4404 if it is no such range, or the rules have no such ids.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise _wrong(f"`{text}` is no range", "write `start,end,step`, e.g. `1,-1,10`; an end of -1 means the last id")
    start, end, step = map(int, found.groups())
    last = _last(rules)
    end = last if end == -1 else end
    if not 1 <= start <= last:
        raise _wrong(f"the range starts at {start}", f"ids go from 1 to {last}")
    if not start <= end <= last:
        raise _wrong(f"the range ends at {end}", f"an end lies between the start, {start}, and the last id, {last}")
    if not 1 <= step < max(last, 2):
        raise _wrong(f"the step of the range is {step}", f"a step lies between 1 and {max(last - 1, 1)}")
    ids = {op.id for op in rules.ops if start <= op.id <= end}
    return Selection(frozenset(each for each in ids if (each - start) % step == 0 or each in (start, end)))


def selected_by_ids(rules: FusionRules, ids: Sequence[int]) -> Selection:
    """Return the ids that there are.

    Raises:
        UsageError: PF4404 if the rules have none of them.
    """
    known = {op.id for op in rules.ops}
    unknown = [each for each in dict.fromkeys(ids) if each not in known]
    found = known.intersection(ids)
    if not found:
        raise _wrong("no operator has one of the ids to select", f"ids go from 1 to {_last(rules)}")
    if not unknown:
        return Selection(frozenset(found))
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    message = f"no operator has the id {', '.join(map(str, unknown[:_SHOWN]))}{more}"
    problem = Diagnostic(
        "PF4405", message, severity=Severity.WARNING, help=f"ids of these rules go from 1 to {_last(rules)}"
    )
    return Selection(frozenset(found), (problem,))


def _last(rules: FusionRules) -> int:
    return max((op.id for op in rules.ops), default=0)


def _wrong(message: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("PF4404", f"`select` of `match.fusion_rule`: {message}", help=hint))
