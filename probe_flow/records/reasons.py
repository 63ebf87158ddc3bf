"""Why a pair is what it is: the rule that made it, and the reason why a tensor is not compared, or not as it stands.

A matcher family declares its own rules and kinds of reasons in its wing (classes named ``...Rule`` and ``...Reason``).
Nobody else compares their names: what other floors need to know is a property here.
"""

from __future__ import annotations

import enum

from msgspec import Struct

from probe_flow.records.verdict import Status


class Rule(Struct, frozen=True, gc=False):
    """How a pair was made.

    Args:
        name: as published.
        is_self: both tensors are of the target: what an operator wrote is compared with what it read, and nothing is
            learned of the golden.
        is_inner: the target's tensor is of an operator that carries none of the tensors of the originals that it is a
            part of.
        is_judged: whoever made the pair has judged it too: it passes unless its reason has another verdict.
        is_of_overflow: it was asked whether both sides overflow, so that having nothing finite is an answer.
    """

    name: str
    is_self: bool = False
    is_inner: bool = False
    is_judged: bool = False
    is_of_overflow: bool = False


SELF = Rule("self", is_self=True)


class Expectation(enum.Enum):
    """Whether a tensor that was not compared had to be.

    ``expected``: it has no counterpart by nature (an intermediate value of a fused operator, an argument that is no
    tensor). ``outside``: it is not asked for (left out by a selection, or not named by the rules or the mapping that
    state what is compared); the run is told to be partial. ``missing``: a gap, which lowers the coverage.
    """

    EXPECTED = "expected"
    OUTSIDE = "outside"
    MISSING = "missing"


class ReasonKind(Struct, frozen=True, gc=False):
    """What reasons of one code have in common.

    Args:
        code: as published: a short stable word, e.g. ``no_golden_op``, ``internal``, ``not_tensor``.
        is_guess: the pair rests on likeness, order or place, so that values that differ may refute it.
        is_quantised: one side computes quantised values, which the other does not have.
        is_mismatch: the two tensors do not lie alike, though they may have as many elements.
        is_unselected: the operator is not among those that were chosen.
        is_inner: the operator gives no tensor of the originals that it is a part of.
        lacks_rule: no rule says what it is to be compared with.
        narrows: a mapping, or the selection of the other side, leaves the tensor out; whether that names more than it
            has is unknown.
        is_reshaped: the two have the same elements in the same order, under different shapes.
        verdict: what whoever made the pair found, of a pair that is judged already.
    """

    code: str
    is_guess: bool = False
    is_quantised: bool = False
    is_mismatch: bool = False
    is_unselected: bool = False
    is_inner: bool = False
    lacks_rule: bool = False
    narrows: bool = False
    is_reshaped: bool = False
    verdict: Status | None = None

    def expected(self, text: str, *facts: object) -> Reason:
        """Return the reason of a tensor that had not to be compared; ``facts`` as text."""
        return Reason(self, text, Expectation.EXPECTED, tuple(map(str, facts)))

    def outside(self, text: str, *facts: object) -> Reason:
        """Return the reason of a tensor that was not asked for."""
        return Reason(self, text, Expectation.OUTSIDE, tuple(map(str, facts)))

    def missing(self, text: str, *facts: object) -> Reason:
        """Return the reason of a tensor that lacks its partner: a gap of the comparison."""
        return Reason(self, text, Expectation.MISSING, tuple(map(str, facts)))

    def of(self, text: str, *, is_gap: bool) -> Reason:
        """Return the reason of a tensor that is missing or expected to be alone."""
        return self.missing(text) if is_gap else self.expected(text)


class Reason(Struct, frozen=True, gc=False):
    """Why a tensor was not compared, or not as it stands.

    Args:
        kind: what sort of reason.
        text: the same for people, with names.
        expectation: whether this is a gap.
        facts: names and figures of the text, for tables that have words of their own for the code.
    """

    kind: ReasonKind
    text: str
    expectation: Expectation
    facts: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The published word."""
        return self.kind.code

    @property
    def is_gap(self) -> bool:
        """Whether the tensor had to be compared."""
        return self.expectation is Expectation.MISSING
