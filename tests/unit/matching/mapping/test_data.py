"""Data mappings: the file's word for what it names, names for the rest."""

from __future__ import annotations

import pytest
from name_builders import DATA, assert_complete, catalog, item_pairs, read, ref_of

from probe_flow.errors import Span
from probe_flow.mappings.mapping_file import Entry, read_flat_mapping
from probe_flow.matching.mapping.data import match_data_mapping
from probe_flow.records import Catalog, Execution, Expectation, NodeKey, Pairs, Slot, SlotRole

ONE, TWO = Execution(rank=0, step=0), Execution(rank=1, step=0)


def dump(*names: str, runs: tuple[Execution, ...] = (ONE,), dtype: str = "float32") -> Catalog:
    """One call per API name with one output each."""
    tensors = [
        ref_of(NodeKey(run, name), Slot(SlotRole.OUTPUT), item=f"{name}.0.forward.output.0", dtype=dtype)
        for run in runs
        for name in names
    ]
    return catalog([f"{name}.0.forward" for name in names], runs=runs, tensors=tensors)


def item(name: str) -> str:
    return f"{name}.0.forward.output.0"


def mapping(**names: str | None) -> list[Entry]:
    """Entries by API name, dots written as underscores."""
    pairs = [(one.replace("_", "."), other and other.replace("_", ".")) for one, other in names.items()]
    return [Entry(item(one), other and item(other), Span("d.yaml", at, 1)) for at, (one, other) in enumerate(pairs, 1)]


def codes(pairs: Pairs) -> list[str]:
    return [problem.code for problem in (*pairs.problems, *pairs.unused)]


def test_listed_items_meet_and_the_others_pair_by_name() -> None:
    pairs = match_data_mapping(
        dump("Torch.a", "Torch.c"), dump("Torch.b", "Torch.c"), entries=mapping(Torch_a="Torch_b")
    )

    assert_complete(pairs)
    assert not pairs.problems
    assert not pairs.unused
    assert item_pairs(pairs) == {item("Torch.a"): item("Torch.b"), item("Torch.c"): item("Torch.c")}
    assert [(pair.rule.name, str(pair.rule_span)) for pair in pairs.pairs] == [
        ("data_mapping", "d.yaml:1:1"),
        ("exact", "None"),
    ]


def test_n_a_leaves_an_item_and_its_namesake_alone() -> None:
    pairs = match_data_mapping(dump("Torch.a"), dump("Torch.a"), entries=mapping(Torch_a=None))

    assert_complete(pairs)
    reasons = [pair.reason for pair in pairs.pairs if pair.reason]
    assert [(reason.code, reason.expectation) for reason in reasons] == [
        ("not_mapped", Expectation.EXPECTED),
        ("mapped_away", Expectation.MISSING),
    ]


def test_a_claimed_item_is_not_compared_with_its_namesake() -> None:
    pairs = match_data_mapping(
        dump("Torch.a", "Torch.b"), dump("Torch.a", "Torch.b"), entries=mapping(Torch_a="Torch_b")
    )

    assert_complete(pairs)
    assert item_pairs(pairs) == {item("Torch.a"): item("Torch.b"), item("Torch.b"): None}


def test_entries_without_use_are_reported_with_their_lines() -> None:
    entries = mapping(Torch_aa="Torch_b", Torch_a="Torch_bb")
    pairs = match_data_mapping(dump("Torch.a"), dump("Torch.b"), entries=entries)

    assert_complete(pairs)
    assert [(problem.code, str(problem.span), problem.help) for problem in pairs.unused] == [
        ("PF4216", "d.yaml:1:1", f"nearest: `{item('Torch.a')}`"),
        ("PF4217", "d.yaml:2:1", f"nearest: `{item('Torch.b')}`"),
    ]
    assert item_pairs(pairs) == {item("Torch.a"): None}


def test_two_items_of_one_partner_are_both_compared_and_reported() -> None:
    pairs = match_data_mapping(
        dump("Torch.a", "Torch.c"), dump("Torch.b"), entries=mapping(Torch_a="Torch_b", Torch_c="Torch_b")
    )

    assert set(item_pairs(pairs).values()) == {item("Torch.b")}
    assert codes(pairs) == ["PF4218"]


def test_a_mapping_holds_within_each_pair_of_executions() -> None:
    sides = [dump(name, runs=(ONE, TWO)) for name in ("Torch.a", "Torch.b")]
    pairs = match_data_mapping(*sides, entries=mapping(Torch_a="Torch_b"))

    assert_complete(pairs)
    runs = [
        (pair.target.node.execution, pair.golden.node.execution) for pair in pairs.pairs if pair.target and pair.golden
    ]
    assert runs == [(ONE, ONE), (TWO, TWO)]


def test_an_item_of_a_lone_execution_stays_alone() -> None:
    pairs = match_data_mapping(
        dump("Torch.a", runs=(ONE, TWO)), dump("Torch.b"), entries=mapping(Torch_a="Torch_b"), pair_ranks={0: 0}
    )

    assert_complete(pairs)
    assert {pair.reason.code for pair in pairs.pairs if pair.reason} == {"no_golden_execution"}


def test_dtypes_are_not_checked() -> None:
    pairs = match_data_mapping(dump("Torch.a", dtype="int32"), dump("Torch.b"), entries=mapping(Torch_a="Torch_b"))

    assert [pair.reason.code for pair in pairs.pairs if pair.reason] == ["dtype_differs"]


def test_many_entries_without_use_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.matching.mapping.use.MAX_WARNINGS", 2)
    entries = mapping(**{f"Torch_x{number}": "Torch_a" for number in range(5)})
    pairs = match_data_mapping(dump("Torch.a"), dump("Torch.a"), entries=entries)

    assert codes(pairs) == ["PF4216"] * 3
    assert pairs.unused[-1].message == "the same holds for 3 more entries, from here to d.yaml:5:1"


def test_the_mapping_that_the_peer_wrote_is_followed_to_the_letter() -> None:
    entries = read_flat_mapping(DATA / "mappings" / "data_mapping.yaml", what="data mapping")
    pairs = match_data_mapping(read("ms_tensor_base"), read("twin_tensor", "golden"), entries=entries)
    last_node = "Functional.cross_entropy.0.backward.output.0"

    assert_complete(pairs)
    assert item_pairs(pairs) == {entry.target: entry.golden for entry in entries} | {last_node: None}
