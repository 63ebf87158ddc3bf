"""Narrow a comparison to some operators by the ids that the rule file gives them.

A fused group is compared as a whole: it is selected with all of its operators where one of them has a selected id, as
`-r` and `-s` of msprobe do. The operator with the result of the group may be another one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.matching.rules.merge import FusionRules

_RANGE = re.compile(r"\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*")
_SHOWN = 5


class Selection(Struct, frozen=True):
    """Ids to compare, those of whole groups, and what was wrong with the wish."""

    ids: frozenset[int]
    problems: tuple[Diagnostic, ...] = ()


def selected_by_range(rules: FusionRules, text: str) -> Selection:
    """Return the ids of ``start,end,step``: both ends and every ``step``-th in between; an end of -1 is the last id.

    The ids of all operators that are fused with one of these come with them.

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
    return Selection(_with_groups(rules, {each for each in ids if (each - start) % step == 0 or each in (start, end)}))


def selected_by_ids(rules: FusionRules, ids: Sequence[int]) -> Selection:
    """Return the ids that there are, with those of all operators that are fused with one of them.

    Raises:
        UsageError: PF4404 if the rules have none of them.
    """
    known = {op.id for op in rules.ops}
    unknown = [each for each in dict.fromkeys(ids) if each not in known]
    found = known.intersection(ids)
    if not found:
        raise _wrong("no operator has one of the ids to select", f"ids go from 1 to {_last(rules)}")
    if not unknown:
        return Selection(_with_groups(rules, found))
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    message = f"no operator has the id {', '.join(map(str, unknown[:_SHOWN]))}{more}"
    problem = Diagnostic(
        "PF4405", message, severity=Severity.WARNING, help=f"ids of these rules go from 1 to {_last(rules)}"
    )
    return Selection(_with_groups(rules, found), (problem,))


def _with_groups(rules: FusionRules, ids: AbstractSet[int]) -> frozenset[int]:
    """Return the ids of the groups that hold one of some ids."""
    held = ([op.id for op in group.ops] for group in rules.groups)
    return frozenset(each for members in held if not ids.isdisjoint(members) for each in members)


def _last(rules: FusionRules) -> int:
    return max((op.id for op in rules.ops), default=0)


def _wrong(message: str, hint: str) -> UsageError:
    return UsageError(Diagnostic("PF4404", f"`select` of `match.fusion_rule`: {message}", help=hint))
