"""Second origins by statistics: what stands out of all that inherits, and what divides by a spread that was lost."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, RUN, deviation, row, statistics_measured
from msgspec.structs import replace

from probe_flow.analysis.model.deviation import ErrorFigure
from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect
from probe_flow.analysis.search.standing_out import divides_by_wrong_spread, standing_out
from probe_flow.records import NodeKey, Phase, Statistics

SHOWN = statistics_measured(*[Statistics(min=-1.0, max=1.0, mean=0.0, l2norm=5.0)] * 2, count=100)


def found(scores, *, phases=(), tainted=(), proven=(), names=None, bare=(), roles=None):
    """Rows of the forward pass with these scores, of which those above 1 are suspects."""
    rows = [
        row(NodeKey(RUN, names[n] if names else f"n{n}", 0, dict(phases).get(n, Phase.FORWARD)),
            roles[n] if roles else OUT, measurement=SHOWN)
        for n in range(len(scores))
    ]  # fmt: skip
    suspects = tuple(
        Suspect(n, score, ErrorFigure.GAIN, deviation(is_bare=n in bare), None, (), n > 0, is_proven=n in proven)
        for n, score in enumerate(scores)
        if score > 1.0
    )
    order = list(range(len(rows)))
    return Diagnosis(suspects, dict.fromkeys(tainted, 0), [], order, {}, dict(enumerate(scores))), rows


def chosen(scores, **more):
    diagnosis, rows = found(scores, **more)
    return sorted(standing_out(diagnosis.suspects[0], diagnosis, rows))


def test_a_result_that_is_further_off_than_any_other_behind_an_origin_stands_out():
    assert chosen([300.0, 0.4, 1.3, 0.2, 0.5]) == [2]
    assert chosen([300.0, 0.5, 7.0, 0.2, 1.6]) == [2, 4]  # two of them


def test_what_is_off_in_many_places_does_not():
    """First order explains too little of what they inherit, and so of each of them."""
    assert chosen([300.0, 0.4, 1.3, 0.9, 0.5]) == []
    assert chosen([300.0, 1.9, 1.8, 1.6, 1.2]) == []
    assert chosen([300.0, 0.1, 1.2, 0.1]) == []  # a little more than explained
    assert chosen([300.0]) == []


def test_gradients_and_what_is_proven_or_was_before_are_no_others():
    assert chosen([300.0, 0.4, 1.3, 1.2], phases={3: Phase.BACKWARD}.items()) == [2]
    assert chosen([300.0, 0.4, 1.3, 1.2], proven=[3]) == [2]
    diagnosis, rows = found([0.9, 300.0, 0.4, 1.3])
    assert standing_out(diagnosis.suspects[0], diagnosis, rows) == {3}


def test_extremes_alone_do_not_say_how_far():
    assert chosen([300.0, 0.4, 1.3], bare=[2]) == []


@pytest.mark.parametrize(("tainted", "name", "due"), [((1,), "layer_norm", True), ((), "layer_norm", False),
                                                     ((1,), "linear", False)])  # fmt: skip
def test_the_gradient_of_a_norm_is_divided_by_a_spread_that_may_be_lost(tainted, name, due):
    given = {"names": ["first", name, name], "roles": [OUT, IN, OUT], "phases": {2: Phase.BACKWARD}.items()}
    diagnosis, rows = found([300.0, 0.5, 40.0], tainted=tainted, **given)
    assert divides_by_wrong_spread(2, diagnosis, rows) is due
    whole = [replace(each, measurement=None) for each in rows]
    assert not divides_by_wrong_spread(2, diagnosis, whole)
