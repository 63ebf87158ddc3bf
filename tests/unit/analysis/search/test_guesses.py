"""Guessed pairs whose values speak against the guess accuse nobody, and do not pass for agreement."""

from __future__ import annotations

import pytest
from comparison_rows import IN, edge, pairs_of, passes, row
from msgspec.structs import replace

from probe_flow.analysis.coverage import Required, cover, incompleteness
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Expectation, Pair, Reason, Role, Status, Verdict
from probe_flow.records.row import Row
from tests.support.rules import kind_of

U = 2.0**-11


def guessed(found: Row, confidence: float = 0.6) -> Row:
    reason = Reason(kind_of("guessed"), "a guess", Expectation.EXPECTED)
    pair = found.pair
    pair = Pair.on_terms(pair.target, pair.golden, pair.group, pair.rule, reason, confidence=confidence)
    return replace(found, pair=pair)


def judged(rows, edges=()):
    pairs = pairs_of(rows, edges=edges)
    verdicts = [Verdict(Status.FAIL) if each.measurement.metrics["cosine"] < 1 else v
                for each, v in zip(rows, passes(rows), strict=True)]  # fmt: skip
    findings, roles = conclude(rows, pairs, verdicts)
    return findings, roles, incompleteness(rows, roles, cover(pairs, rows, roles), required=Required())


@pytest.mark.parametrize("figures", [{"relative": 1.3}, {"relative": 0.15}, {"relative": U, "nonfinite": 2}])
def test_values_that_have_nothing_in_common_are_a_wrong_guess(figures):
    rows = [row("a", IN), row("a"), row("b", IN), guessed(row("b", cosine=0.2, **figures)), row("c")]
    findings, roles, causes = judged(rows)
    assert findings == ()
    assert roles[3].role is Role.UNKNOWN
    assert roles[3].excess is None
    assert causes == ("1 pair was guessed and differs: the guess or the target is wrong",)


def test_a_guess_that_fits_may_accuse():
    rows = [row("a", IN), row("a"), row("b", IN), guessed(row("b", relative=0.1, cosine=0.995))]
    (found,), _, causes = judged(rows)
    assert found.node.name == "b"
    assert causes == ()


def test_a_guessed_input_is_not_accused_of_differing_from_what_feeds_it():
    rows = [row("a", IN), row("a"), guessed(row("b", IN, relative=0.1, cosine=0.995)), row("b", relative=U)]
    findings, _, causes = judged(rows, [edge("a", "b")])
    assert findings == ()
    assert causes == ("1 pair was guessed and differs: the guess or the target is wrong",)


def test_more_certain_pairs_are_no_guesses():
    rows = [row("a", IN), row("a"), row("b", IN), guessed(row("b", relative=1.3, cosine=0.2), confidence=0.9)]
    (found,), _, _ = judged(rows)
    assert found.node.name == "b"


def test_a_wrong_guess_beside_a_fault_leaves_the_run_complete():
    rows = [
        row("a", IN), row("a", relative=0.1, cosine=0.995), row("b", IN),
        guessed(row("b", relative=1.3, cosine=0.2)), guessed(row("c", relative=1.3, cosine=0.2)),
    ]  # fmt: skip
    findings, _, causes = judged(rows)
    assert [found.node.name for found in findings] == ["a"]
    assert causes == ()
    assert judged(rows[2:])[2] == ("2 pairs were guessed and differ: the guess or the target is wrong",)
