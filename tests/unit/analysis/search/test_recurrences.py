"""What nobody knows the arithmetic of is computed again where it is further off than all that it was made of."""

from __future__ import annotations

import pytest
from comparison_rows import IN, edge, pairs_of, row

from probe_flow.analysis.search.origin import diagnose


def recurrence(off: float, kind: str, *, read: float = 2e-3, weights: int = 8):
    """A call in bfloat16 whose input and weights are off by ``read`` each, and its result by ``off``."""
    rows = [row("before", IN, relative=0.0, dtype="bfloat16"), row("before", relative=read, dtype="bfloat16")]
    rows += [row("call", IN, place, relative=read, dtype="bfloat16") for place in range(1 + weights)]
    rows.append(row("call", relative=off, dtype="bfloat16"))
    return rows, pairs_of(
        rows, {"before": "linear", "call": kind}, [edge("nowhere", "before", 9), edge("before", "call")]
    )


@pytest.mark.parametrize(
    ("off", "kind", "is_asked"),
    [
        (0.02, "gru", True),
        (0.02, "lstm", True),
        (7e-3, "gru", False),  # two roundings, which a healthy recurrence reaches: nothing is loaded for it
        (7e-3, "linear", False),
    ],
)
def test_a_recurrence_is_computed_again_that_its_many_weights_explain_but_none_of_them_alone(off, kind, is_asked):
    rows, pairs = recurrence(off, kind)
    found = diagnose(rows, pairs)
    assert found.suspects == ()
    assert not found.asked
    assert (len(rows) - 1 in found.unjudged) is is_asked


def test_one_that_is_off_by_no_more_than_an_input_is_left_alone():
    rows, pairs = recurrence(0.0115, "gru", read=0.006, weights=3)
    assert diagnose(rows, pairs).unjudged == ()


@pytest.mark.parametrize(("off", "count", "is_asked"), [(0.03, 1, True), (7e-3, 1, False), (0.03, 100, False)])
def test_a_loss_is_computed_again_that_the_largest_error_of_its_scores_explains_but_not_their_size(
    off, count, is_asked
):
    """Scores of 1 that are off by 0.06 at most, and by 0.004 as a rule."""
    scores = {"relative": 4e-3, "size": 1.0, "peak": 0.06, "dtype": "bfloat16"}
    rows = [row("before", IN, relative=0.0, dtype="bfloat16"), row("before", **scores), row("call", IN, **scores)]
    rows.append(row("call", relative=off, dtype="bfloat16", count=count))
    edges = [edge("nowhere", "before", 9), edge("before", "call")]
    found = diagnose(rows, pairs_of(rows, {"before": "linear", "call": "cross_entropy"}, edges))
    assert found.suspects == ()
    assert len(rows) - 1 not in found.asked
    assert (len(rows) - 1 in found.unjudged) is is_asked


def test_what_leaps_the_most_beyond_what_it_read_is_asked_first():
    """So many calls are computed again and no more: of 48 blocks in 16 bits those that only carry on come last."""
    offs = (0.02, 0.05, 0.03)
    rows = [row("before", IN, relative=0.0, dtype="bfloat16"), row("before", relative=2e-3, dtype="bfloat16")]
    for place, off in enumerate(offs):
        rows += [row(f"call{place}", IN, each, relative=2e-3, dtype="bfloat16") for each in range(30)]
        rows.append(row(f"call{place}", relative=off, dtype="bfloat16"))
    kinds = {"before": "linear", **{f"call{place}": "gru" for place in range(3)}}
    edges = [edge("nowhere", "before", 9), *(edge("before", f"call{place}") for place in range(3))]
    found = diagnose(rows, pairs_of(rows, kinds, edges))
    assert [rows[each].node.name for each in found.unjudged] == ["call1", "call2", "call0"]
