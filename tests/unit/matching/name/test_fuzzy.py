"""Fuzzy matching: leftovers by order, type and shapes; and long alignments in little memory."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from name_builders import assert_complete, catalog, entry_pairs, read

from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.shared import alignment
from probe_flow.matching.shared.alignment import common_subsequence
from probe_flow.matching.shared.nearest_names import MAX_SEARCHES, NearestNames


def test_renamed_networks_pair_completely_without_a_mapping() -> None:
    pairs = match_name(read("pt_stat_rename"), read("pt_stat_base", "golden"), fuzzy=True)

    assert_complete(pairs)
    assert Counter(pair.rule.name for pair in pairs.pairs) == {"exact": 163, "fuzzy": 24}
    assert {pair.confidence for pair in pairs.pairs if pair.rule.name == "fuzzy"} == {0.6}


def test_fuzzy_pairs_are_made_only_when_asked_for() -> None:
    pairs = match_name(read("pt_stat_rename"), read("pt_stat_base", "golden"))

    assert Counter(pair.rule.name for pair in pairs.pairs) == {"exact": 163, "none": 48}


def test_a_module_of_another_class_at_the_same_path_goes_first() -> None:
    target = ["Module.a.New.forward.0", "Module.b.Old.forward.0"]
    golden = ["Module.x.New.forward.0", "Module.a.Old.forward.0"]

    found = entry_pairs(match_name(catalog(target), catalog(golden), fuzzy=True))
    assert ("Module.a.New.forward.0", "Module.a.Old.forward.0") in found


def test_other_shapes_and_types_stay_alone() -> None:
    shapes = {"Module.a.A.forward.0": (7,)}
    pairs = match_name(catalog(["Module.a.A.forward.0"], shapes=shapes), catalog(["Module.b.A.forward.0"]), fuzzy=True)
    assert {pair.rule.name for pair in pairs.pairs} == {"none"}

    pairs = match_name(catalog(["Torch.a.0.forward"]), catalog(["Torch.b.0.forward"]), fuzzy=True)
    assert {pair.rule.name for pair in pairs.pairs} == {"none"}


def test_a_name_that_holds_a_direction_is_no_trap() -> None:
    target = ["Module.feedforward.A.forward.0", "Module.feedforward.A.backward.0"]
    golden = ["Module.ff.A.forward.0", "Module.ff.A.backward.0"]

    pairs = match_name(catalog(target), catalog(golden), fuzzy=True)
    assert entry_pairs(pairs) == list(zip(target, golden, strict=True))


def test_backward_calls_follow_fuzzy_forwards() -> None:
    names = [f"Module.{name}.A" for name in ("p", "q")]
    others = [f"Module.{name}.A" for name in ("x", "y")]
    sides = [
        catalog([f"{a}.forward.0", f"{b}.forward.0", f"{b}.backward.0", f"{a}.backward.0"]) for a, b in (names, others)
    ]

    found = entry_pairs(match_name(*sides, fuzzy=True))
    assert ("Module.p.A.backward.0", "Module.x.A.backward.0") in found
    assert ("Module.q.A.backward.0", "Module.y.A.backward.0") in found


def test_gradients_of_parameters_follow_fuzzy_forwards() -> None:
    """Whose order, and number, is that of the backward passes, which two runs need not share."""
    sides = [
        catalog(
            [
                *(f"Module.{name}.A.forward.0" for name in names),
                *(f"Module.{name}.A.parameters_grad.0" for name in last),
            ]
        )
        for names, last in (("pq", "qp"), ("xy", "xy"))
    ]

    found = entry_pairs(match_name(*sides, fuzzy=True))
    assert ("Module.p.A.parameters_grad.0", "Module.x.A.parameters_grad.0") in found
    assert ("Module.q.A.parameters_grad.0", "Module.y.A.parameters_grad.0") in found


def test_fuzzy_pairs_do_not_cross_exact_ones() -> None:
    target = ["Module.p.A.forward.0", "Module.same.S.forward.0"]
    golden = ["Module.same.S.forward.0", "Module.x.A.forward.0"]

    pairs = match_name(catalog(target), catalog(golden), fuzzy=True)
    assert ("Module.p.A.forward.0", None) in entry_pairs(pairs)


# --- long alignments -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40))
def test_halving_finds_a_subsequence_as_long_as_the_whole_table(first: list[int], second: list[int]) -> None:
    whole = common_subsequence(first, second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MAX_TABLE_BITS", 16)
        halved = common_subsequence(first, second)

    assert len(halved) == len(whole)
    assert all(first[row] == second[column] for row, column in halved)
    assert halved == sorted(set(halved))
    assert len({row for row, _ in halved}) == len({column for _, column in halved}) == len(halved)


def test_beyond_all_bounds_only_the_ends_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MAX_WORK_BITS", 1)

    assert common_subsequence("axyb", "ayxb") == [(0, 0), (3, 3)]


# --- nearest names ---------------------------------------------------------------------------------------------------


def test_only_names_of_one_kind_are_near() -> None:
    names = NearestNames([("api", "Torch.add"), ("module", "Torch.adds")])

    assert names.of("api", "Torch.adds") == ("Torch.add",)
    assert names.clause("debug", "Torch.add") == ""


def test_searches_are_bounded_on_dumps_of_any_size() -> None:
    names = NearestNames(("api", f"Torch.op{number}") for number in range(10_000))

    found = [names.of("api", f"Torch.po{number}") for number in range(MAX_SEARCHES + 100)]
    assert all(found)
    assert max(map(len, found)) == 3
