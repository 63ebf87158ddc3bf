"""Splitting the names of fused operators."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.dumps.graph.links import MAX_NAME_LENGTH, split_fused_name


def split(name, names, connected=()):
    links = set(connected)
    table = {text: [text] for text in names} if not isinstance(names, dict) else names
    return split_fused_name(name, table, lambda a, b: (a, b) in links or (b, a) in links)


def parts(name, names, connected=()):
    found = split(name, names, connected)
    return found.parts if found is not None else None


def test_two_and_three_parts():
    assert parts("Mul_1Add_2", ["Mul_1", "Add_2", "Add"]) == ("Mul_1", "Add_2")
    assert parts("MulAddRelu", ["Mul", "Add", "Relu"]) == ("Mul", "Add", "Relu")


def test_a_prefix_is_no_match():
    assert parts("Relu_12", ["Relu_1", "Relu"]) is None
    assert parts("Mul_1Ad", ["Mul_1", "Add_2"]) is None


def test_names_that_are_prefixes_of_each_other():
    names = ["Add_1", "Add_12", "Add", "2Mul"]
    assert parts("Add_1Add_12", names) == ("Add_1", "Add_12")
    assert parts("Add_12Mul", [*names, "Mul"], [("Add_12", "Mul")]) == ("Add_12", "Mul")
    assert parts("Add_12Mul", [*names, "Mul"], [("Add_1", "2Mul")]) == ("Add_1", "2Mul")


def test_backtracking_finds_what_a_longest_prefix_misses():
    # The longest first part, `Add_1A`, leaves `dd_2`, which is nothing.
    assert parts("Add_1Add_2", ["Add_1A", "Add_1", "Add_2"]) == ("Add_1", "Add_2")


def test_fewest_parts_win_when_the_graph_does_not_decide():
    links = [("a", "b"), ("b", "c"), ("ab", "c")]
    assert parts("abc", ["a", "b", "c", "ab"], links) == ("ab", "c")


def test_connected_neighbours_outrank_fewer_parts():
    assert parts("abc", ["a", "b", "c", "ab"], [("a", "b"), ("b", "c")]) == ("a", "b", "c")


def test_equal_ways_are_reported_as_ambiguous():
    found = split("abc", ["a", "bc", "ab", "c"], [("a", "bc"), ("ab", "c")])
    assert found is not None
    assert {found.parts, found.alternative} == {("a", "bc"), ("ab", "c")}


def test_operators_that_share_a_spelling_are_told_apart_by_the_graph():
    names = {"x_1": ["x/1", "x.1"], "Add": ["Add"]}
    found = split("x_1Add", names, [("x.1", "Add")])
    assert found is not None
    assert found.parts == ("x.1", "Add")
    assert found.alternative is None
    unclear = split("x_1Add", names)
    assert unclear is not None
    assert unclear.alternative is not None


def test_a_unique_way_is_not_ambiguous():
    found = split("Mul_1Add_2", ["Mul_1", "Add_2"])
    assert found is not None
    assert found.alternative is None


def test_absurd_names_end_quickly():
    assert parts("a" * (MAX_NAME_LENGTH + 1), ["a", "aa"]) is None
    assert parts("a" * 2000 + "b", ["a" * n for n in range(1, 60)]) is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_concatenation_is_consumed_completely(data):
    names = data.draw(st.lists(st.text(alphabet="ab_1", min_size=1, max_size=4), min_size=1, max_size=6, unique=True))
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=5))
    links = set(pairwise(chosen))
    found = split("".join(chosen), names, links)
    assert found is not None
    assert "".join(found.parts) == "".join(chosen)
    assert set(found.parts) <= set(names)
    gaps = sum((a, b) not in links and (b, a) not in links for a, b in pairwise(found.parts))
    assert gaps == 0
    assert len(found.parts) <= len(chosen)
