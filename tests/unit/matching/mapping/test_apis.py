"""API mappings: renamed APIs, their arguments, wildcards, and entries without use."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from name_builders import ONLY, assert_complete, catalog, entry_pairs, ref_of

from probe_flow.errors import Span
from probe_flow.mappings.api_mapping_file import ApiEntry
from probe_flow.matching.mapping.match_mapping import match_api_mapping
from probe_flow.records import Catalog, Expectation, NodeKey, Pairs, Phase, Slot, SlotRole

IN, OUT = SlotRole.INPUT, SlotRole.OUTPUT


def entry(mindspore: str, pytorch: str, line: int = 1, **maps: Mapping[str, str]) -> ApiEntry:
    return ApiEntry(mindspore, pytorch, Span("api.yaml", line, 1), maps)


def call(name: str, phase: Phase = Phase.FORWARD, *, slots: list[Slot], framework: str = "pytorch") -> Catalog:
    """One call of an API with tensors in these slots."""
    key = NodeKey(ONLY, name, 0, phase)
    return catalog([f"{name}.0.{phase.value}"], tensors=[ref_of(key, slot) for slot in slots], framework=framework)


def slot_pairs(pairs: Pairs) -> list[tuple[str | None, str | None]]:
    return [
        (str(pair.target.slot) if pair.target else None, str(pair.golden.slot) if pair.golden else None)
        for pair in pairs.pairs
    ]


def numbered(role: SlotRole, count: int) -> list[Slot]:
    return [Slot(role, (number,)) for number in range(count)]


def test_listed_arguments_meet_by_place_and_the_others_are_left_out() -> None:
    target = call("Functional.a", slots=[*numbered(IN, 3), *numbered(OUT, 1)], framework="mindspore")
    golden = call("Torch.b", slots=[*numbered(IN, 2), Slot(IN, ("dim",)), *numbered(OUT, 2)])
    maps = {"args": {"0": "1", "2": "dim"}, "outputs": {"0": "1"}}

    pairs = match_api_mapping(target, golden, entries=[entry("Functional.a", "Torch.b", **maps)])
    assert_complete(pairs)
    assert slot_pairs(pairs) == [
        ("input.0", "input.1"),
        ("input.1", None),
        ("input.2", "input.dim"),
        ("output.0", "output.1"),
        (None, "input.0"),
        (None, "output.0"),
    ]
    reasons = [pair.reason for pair in pairs.pairs if pair.reason]
    assert {(reason.code, reason.expectation) for reason in reasons} == {("not_mapped", Expectation.OUTSIDE)}
    assert reasons[0].text == f"the API mapping of {Span('api.yaml', 1, 1).brief} leaves out `input.1`"
    assert {pair.rule.name for pair in pairs.pairs} == {"api_mapping"}
    assert {str(pair.rule_span) for pair in pairs.pairs} == {"api.yaml:1:1"}


def test_a_list_that_is_not_given_keeps_every_place() -> None:
    target = call("Functional.a", slots=[*numbered(IN, 2), *numbered(OUT, 1)], framework="mindspore")
    golden = call("Torch.b", slots=[*numbered(IN, 2), *numbered(OUT, 1)])

    pairs = match_api_mapping(target, golden, entries=[entry("Functional.a", "Torch.b")])
    assert slot_pairs(pairs) == [(name, name) for name in ("input.0", "input.1", "output.0")]


def test_parts_of_a_listed_argument_follow_it() -> None:
    slots = [Slot(IN, (0, 0)), Slot(IN, (0, 1))]
    golden = call("Torch.b", slots=[Slot(IN, ("tensors", 0)), Slot(IN, ("tensors", 1))])
    listed = [entry("Mint.a", "Torch.b", args={"0": "tensors"})]

    pairs = match_api_mapping(call("Mint.a", slots=slots, framework="mindspore"), golden, entries=listed)
    assert slot_pairs(pairs) == [("input.0.0", "input.tensors.0"), ("input.0.1", "input.tensors.1")]


def test_one_part_of_an_argument_can_be_listed() -> None:
    target = call("Mint.a", slots=[Slot(IN, (0, 1))], framework="mindspore")
    listed = [entry("Mint.a", "Torch.b", args={"0.1": "2"})]

    pairs = match_api_mapping(target, call("Torch.b", slots=numbered(IN, 3)[2:]), entries=listed)
    assert slot_pairs(pairs) == [("input.0.1", "input.2")]


def test_gradients_of_a_backward_follow_the_outputs() -> None:
    maps = {"args": {"1": "2"}, "outputs": {"0": "1"}}
    slots = [*numbered(IN, 1), *numbered(OUT, 2)]
    target = call("Mint.a", Phase.BACKWARD, slots=slots, framework="mindspore")
    golden = call("Torch.b", Phase.BACKWARD, slots=[Slot(IN, (1,)), Slot(OUT, (1,))])

    pairs = match_api_mapping(target, golden, entries=[entry("Mint.a", "Torch.b", **maps)])
    assert slot_pairs(pairs) == [("input.0", "input.1"), ("output.0", "output.1"), ("output.1", None)]


@pytest.mark.parametrize(
    ("pattern", "found"), [("Primitive.*.MatMul", []), ("Primitive.MatMul", ["PF4216"]), ("*", ["PF4216"])]
)
def test_a_star_stands_for_one_segment(pattern: str, found: list[str]) -> None:
    target = call("Primitive.matmul.MatMul", slots=numbered(OUT, 1), framework="mindspore")

    pairs = match_api_mapping(
        target, call("Torch.matmul", slots=numbered(OUT, 1)), entries=[entry(pattern, "Torch.matmul")]
    )
    assert [problem.code for problem in pairs.unused] == found
    assert len(pairs.pairs) == len(found) + 1


def test_an_entry_without_star_goes_first() -> None:
    target = call("Primitive.a.MatMul", slots=numbered(OUT, 1), framework="mindspore")
    listed = [entry("Primitive.*.MatMul", "Torch.mm"), entry("Primitive.a.MatMul", "Torch.bmm", 2)]

    pairs = match_api_mapping(target, call("Torch.bmm", slots=numbered(OUT, 1)), entries=listed)
    assert pairs.pairs[0].rule_span == Span("api.yaml", 2, 1)
    assert [(problem.code, str(problem.span)) for problem in pairs.unused] == [("PF4216", "api.yaml:1:1")]


def test_without_a_file_the_built_in_table_counts() -> None:
    target = call("Mint.add", slots=numbered(OUT, 1), framework="mindspore")

    pairs = match_api_mapping(target, call("Torch.add", slots=numbered(OUT, 1)))
    assert [(pair.rule.name, pair.confidence) for pair in pairs.pairs] == [("api_mapping", 0.95)]


@pytest.mark.parametrize(
    ("mindspore", "pytorch", "found"),
    [
        ("Functional.mean", ["Torch.mean"], "Torch.mean"),  # not in the table
        ("Functional.sigmoid", ["Torch.sigmoid"], "Torch.sigmoid"),  # the table says `Functional.sigmoid`
        ("Functional.sigmoid", ["Torch.sigmoid", "Functional.sigmoid"], "Functional.sigmoid"),
        ("Functional.relu", ["Torch.relu", "Functional.relu"], "Functional.relu"),
        ("Functional.softmax", ["Torch.softmax", "Functional.softmax"], "Functional.softmax"),
        ("Mint.softmax", ["Functional.softmax"], "Functional.softmax"),
        ("Functional.gather", ["Torch.gather"], None),  # that of MindSpore is `index_select`
        ("Primitive.mean", ["Torch.mean"], None),
    ],
)
def test_what_the_table_lacks_meets_its_only_namesake(mindspore: str, pytorch: list[str], found: str | None) -> None:
    golden = catalog([f"{name}.0.forward" for name in pytorch])

    pairs = match_api_mapping(call(mindspore, slots=numbered(OUT, 1), framework="mindspore"), golden)
    assert dict(entry_pairs(pairs))[f"{mindspore}.0.forward"] == (found and f"{found}.0.forward")


@pytest.mark.parametrize(
    ("mindspore", "pytorch", "is_met"),
    [
        ("Mint.mul", "Tensor.__mul__", True),
        ("Mint.add", "Tensor.add_", True),
        ("Functional.true_divide", "Tensor.__truediv__", True),
        ("Tensor.__add__", "Torch.add", True),
        ("Tensor.mean", "Torch.mean", True),
        ("Mint.mean", "Tensor.mean", True),
        ("Mint.sub", "Tensor.__rsub__", False),  # the other way round
        ("Mint.mul", "Tensor.__add__", False),
        ("Primitive.mul.Mul", "Tensor.__mul__", False),
    ],
)
def test_an_operator_is_the_function_that_it_spells(mindspore: str, pytorch: str, is_met: bool) -> None:
    target = call(mindspore, slots=numbered(OUT, 1), framework="mindspore")

    pairs = match_api_mapping(target, call(pytorch, slots=numbered(OUT, 1)))
    (partner,) = [golden for mine, golden in entry_pairs(pairs) if mine]
    assert bool(partner) is is_met


def test_calls_of_several_spellings_meet_in_the_order_of_the_program() -> None:
    ours = ["Mint.mul.0.forward", "Mint.mul.1.forward", "Tensor.__mul__.0.forward"]
    theirs = ["Tensor.__mul__.0.forward", "Torch.mul.0.forward", "Tensor.__mul__.1.forward"]

    pairs = match_api_mapping(catalog(ours, framework="mindspore"), catalog(theirs))
    assert [pair for pair in entry_pairs(pairs) if pair[0]] == list(zip(ours, theirs, strict=True))


def test_an_entry_of_the_file_goes_before_the_spelling() -> None:
    target = catalog(["Mint.mul.0.forward", "Tensor.__mul__.0.forward"], framework="mindspore")
    golden = catalog(["Tensor.__mul__.0.forward", "Torch.mul.0.forward"])

    pairs = match_api_mapping(target, golden, entries=[entry("Mint.mul", "Tensor.__mul__")])
    assert dict(entry_pairs(pairs))["Mint.mul.0.forward"] == "Tensor.__mul__.0.forward"


def test_a_file_goes_before_the_built_in_table() -> None:
    target = call("Mint.add", slots=numbered(OUT, 1), framework="mindspore")

    pairs = match_api_mapping(
        target, call("Torch.other", slots=numbered(OUT, 1)), entries=[entry("Mint.add", "Torch.other")]
    )
    assert [(pair.rule.name, pair.confidence) for pair in pairs.pairs] == [("api_mapping", 1.0)]


def test_a_mindspore_golden_is_renamed_instead() -> None:
    golden = call("Mint.add", slots=[*numbered(IN, 1), *numbered(OUT, 1)], framework="mindspore")
    target = call("Torch.add", slots=[Slot(IN, (1,)), *numbered(OUT, 1)])

    pairs = match_api_mapping(target, golden, entries=[entry("Mint.add", "Torch.add", args={"0": "1"})])
    assert slot_pairs(pairs) == [("input.1", "input.0"), ("output.0", "output.0")]
    assert not pairs.problems
    assert not pairs.unused


def test_two_apis_of_one_name_pair_in_the_order_of_the_dump() -> None:
    target = catalog(["Mint.mm.0.forward", "Functional.matmul.0.forward", "Mint.mm.1.forward"], framework="mindspore")
    golden = [f"Torch.matmul.{number}.forward" for number in range(3)]

    pairs = match_api_mapping(target, catalog(golden), entries=[entry("Mint.mm", "Torch.matmul")])
    assert [other for _, other in entry_pairs(pairs)] == golden


def test_useless_entries_name_the_nearest() -> None:
    target = call("Functional.dense", slots=numbered(OUT, 1), framework="mindspore")
    listed = [entry("Functional.dens", "Torch.a"), entry("Functional.dense", "Functional.liner", 2)]

    pairs = match_api_mapping(target, call("Functional.linear", slots=numbered(OUT, 1)), entries=listed)
    assert [(problem.code, str(problem.span), problem.help) for problem in pairs.unused] == [
        ("PF4216", "api.yaml:1:1", "nearest: `Functional.dense`"),
        ("PF4217", "api.yaml:2:1", "nearest: `Functional.linear`"),
    ]


def test_calls_that_only_move_elements_are_no_gap_where_the_other_side_records_none() -> None:
    ours = ["Mint.cat.0.forward", "Functional.repeat_interleave.0.forward", "Mint.exp.0.forward"]

    def alone(*theirs: str) -> dict[str, Expectation]:
        pairs = match_api_mapping(catalog(ours, framework="mindspore"), catalog(["Torch.sin.0.forward", *theirs]))
        return {pair.target.node.name: pair.reason.expectation for pair in pairs.pairs if pair.target and pair.reason}

    missing, expected = Expectation.MISSING, Expectation.EXPECTED
    assert alone() == {"Mint.cat": expected, "Functional.repeat_interleave": expected, "Mint.exp": missing}
    assert set(alone("Torch.stack.0.forward", "Torch.tile.0.forward").values()) == {missing}, "it records such calls"
