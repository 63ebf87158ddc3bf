"""The rules of a baseline: what is accepted, worse, better, or gone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from probe_flow.records import Baseline, Deviant
from probe_flow.records.baseline import is_within, largest, plain_name, stand


def deviant(
    node: str | None = "a", figure: float | None = 0.1, *, kind: str = "origin", graph: int | None = 1
) -> Deviant:
    return Deviant(graph, node, 0, "forward", "Add", kind, "output.0", figure)


def baseline(*deviants: Deviant) -> Baseline:
    return Baseline("w", "result", "findings", "torchair", {}, tuple(largest(deviants)), "b.yaml")


def nodes(*names: str) -> set[tuple[int, str, int, str]]:
    return {(1, name, 0, "forward") for name in names}


def hold(before, now, *, tolerance=0.1, known=("a", "b"), waived=()):
    return stand(baseline(*before), now, tolerance=tolerance, nodes=nodes(*known), waived=waived)


@pytest.mark.parametrize(
    ("now", "accepted", "tolerance", "within"),
    [
        (0.1, 0.1, 0.0, True),
        (0.1 + 1e-9, 0.1, 0.0, False),
        (0.11, 0.1, 0.1, True),
        (0.111, 0.1, 0.1, False),
        (0.0, 0.0, 0.1, True),
        (1e-9, 0.0, 0.1, False),
        (math.inf, math.inf, 0.0, True),
        (math.inf, 5.0, 1.0, False),
        (5.0, math.inf, 0.0, True),
        (math.nan, math.nan, 0.0, True),
        (math.nan, math.inf, 1.0, False),
        (math.inf, math.nan, 0.0, True),
        (None, None, 0.0, True),
        (0.0, None, 1.0, False),
        (None, 0.5, 1.0, False),
    ],
)
def test_what_is_within_the_accepted(now, accepted, tolerance, within):
    assert is_within(now, accepted, tolerance=tolerance) is within


def test_a_new_place_and_a_grown_error_are_worse():
    use = hold([deviant("a", 0.1)], [deviant("a", 0.2), deviant("b", 0.01)])
    assert [(str(change.deviant), change.accepted, change.now, change.is_new) for change in use.worse] == [
        ("a.output.0", 0.1, 0.2, False), ("b.output.0", None, 0.01, True),
    ]  # fmt: skip
    assert (use.accepted, use.better, use.absent) == (0, (), ())


def test_another_kind_at_the_same_tensor_is_new():
    use = hold([deviant("a")], [deviant("a", kind="nonfinite_origin")])
    assert [change.is_new for change in use.worse] == [True]
    assert [change.deviant.kind for change in use.better] == ["origin"]


def test_the_same_name_in_another_graph_is_another_node():
    assert hold([deviant("a", graph=1)], [deviant("a", graph=2)]).worse[0].is_new


def test_what_does_not_occur_any_more_is_better_or_its_node_is_gone():
    use = hold([deviant("a"), deviant("b"), deviant(None, graph=None)], [], known=("a",))
    assert [str(change.deviant) for change in use.better] == ["the whole run.output.0", "a.output.0"]
    assert [str(change.deviant) for change in use.absent] == ["b.output.0"]
    assert not use.worse


def test_a_smaller_error_is_better_only_beyond_the_tolerance():
    assert not hold([deviant("a", 0.1)], [deviant("a", 0.095)]).better
    (change,) = hold([deviant("a", 0.1)], [deviant("a", 0.05)]).better
    assert (change.accepted, change.now) == (0.1, 0.05)


def test_what_is_waived_is_neither_worse_nor_gone():
    use = hold([deviant("a")], [], waived=[deviant("a", 9.0), deviant("b")])
    assert (use.worse, use.better, use.absent) == ((), (), ())


def test_ranks_and_steps_count_by_the_largest():
    assert [each.figure for each in largest([deviant("a", 0.1), deviant("a", 0.3), deviant("a", None)])] == [0.3]
    assert math.isnan(largest([deviant("a", math.nan), deviant("a", math.inf)])[0].figure)


def test_names_that_are_no_utf_8_become_escapes():
    assert plain_name("a\udc80\u6c49") == "a\\udc80\u6c49"


figures = st.none() | st.just(math.nan) | st.floats(min_value=0.0)
deviants = st.builds(
    Deviant, st.none() | st.integers(0, 3) | st.text(max_size=3), st.none() | st.text(max_size=5), st.integers(0, 2),
    st.sampled_from(["forward", "backward"]), st.just("Add"), st.sampled_from(["origin", "drift", "fail"]),
    st.sampled_from(["output.0", "input.1"]), figures,
)  # fmt: skip


@given(st.lists(deviants, max_size=8), st.floats(0.0, 1.0))
def test_a_run_is_never_worse_nor_better_than_itself(found, tolerance):
    use = stand(baseline(*found), found, tolerance=tolerance, nodes={each.at for each in found})
    assert (use.worse, use.better, use.absent) == ((), (), ())
    assert use.accepted == len(largest(found))


@given(st.lists(deviants, max_size=8), st.randoms())
def test_the_order_of_what_is_found_changes_nothing(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    assert [each.place for each in largest(shuffled)] == [each.place for each in largest(found)]
    assert [repr(each.figure) for each in largest(shuffled)] == [repr(each.figure) for each in largest(found)]


@given(st.lists(deviants, max_size=6), deviants)
def test_one_more_deviation_is_worse_unless_its_place_is_known(found, more):
    use = stand(baseline(*found), [*found, more], tolerance=0.0, nodes=set())
    known = {each.place: each.figure for each in largest(found)}
    is_new = more.place not in known
    is_larger = not is_new and largest([*found, more]) != largest(found) and not is_within(
        more.figure, known[more.place], tolerance=0.0
    )  # fmt: skip
    assert bool(use.worse) is (is_new or is_larger)


def test_a_deviant_is_named_with_call_and_phase():
    assert str(replace(deviant("conv"), call=2, phase="backward")) == "conv#2.backward.output.0"
