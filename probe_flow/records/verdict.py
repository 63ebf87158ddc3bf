"""What is said of one row: the verdict of the policy, and the role that the analysis gives it."""

from __future__ import annotations

import enum

from msgspec import Struct


class Status(enum.Enum):
    PASS = "pass"
    WARNING = "warning"
    FAIL = "fail"
    UNMATCHED_TARGET = "unmatched_target"
    UNMATCHED_GOLDEN = "unmatched_golden"
    NOT_COMPARABLE = "not_comparable"
    ERROR = "error"
    SKIPPED = "skipped"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class Role(enum.Enum):
    ORIGIN = "origin"
    INHERITED = "inherited"
    CLEAN = "clean"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made for every look-up of a node or slot


class ExcuseKind(enum.Enum):
    """What takes a failure out of the gate: a waiver of the workflow, or the accepted baseline."""

    WAIVED = "waived"
    ACCEPTED = "accepted"


class Excuse(Struct, frozen=True, gc=False):
    """Why a failure stays visible but does not fail the gate.

    Args:
        kind: what excuses it.
        text: until when, who and why; begins with the word of the kind.
    """

    kind: ExcuseKind
    text: str


class Verdict(Struct, frozen=True, gc=False):
    """What the policy says of one row.

    Args:
        status: the verdict; report layouts translate it.
        rule_ids: the policy's rules that decided, e.g. ``cosine<0.99``.
        reasons: one sentence each; why a row is one-sided is said by its pair (`Row.reasons`).
        role: set by the analysis, not by the policy.
        excess: set by the analysis too: the error over the largest that rounding and the errors of the inputs explain;
            1 is the limit, None where nothing was judged.
        excuse: why the row, or a finding at it, does not count for the gate; its text is also one of the reasons.
    """

    status: Status
    rule_ids: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    role: Role = Role.UNKNOWN
    excess: float | None = None
    excuse: Excuse | None = None
