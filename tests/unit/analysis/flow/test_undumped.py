"""Dumps that hold a part of the calls: the signs of one, and what such calls made."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, RUN, pairs_of, passes, row, statistics, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.undumped import Undumped
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.near_misses import left_open
from probe_flow.records import CallFacts, Execution, NodeKey, NodeKind, Pairs, Phase, Role
from probe_flow.records.row import Row


def call(name, number=0, phase=Phase.FORWARD, run=RUN):
    return NodeKey(run, name, number, phase)


def programs_of(rows):
    """Pairs whose nodes are recorded calls of a program."""
    pairs = pairs_of(rows)
    nodes = {key: replace(node, facts=CallFacts(NodeKind.API)) for key, node in pairs.target.nodes.items()}
    return replace(pairs, target=replace(pairs.target, nodes=nodes))


def undumped(rows, fed=()):
    pairs = programs_of(rows)
    return Undumped(rows, pairs, Calls(rows, pairs), lambda number: (0,) if number in fed else None)


def chain(*numbers, name="linear"):
    """Calls of one name: what each reads stands before what it writes."""
    return [row(call(name, number), role) for number in numbers for role in (IN, OUT)]


def test_numbers_that_no_call_has_are_of_calls_that_were_left_out():
    assert undumped(chain(0, 1, 3), fed=(2, 4)).is_any
    assert undumped(chain(2, 3), fed=(2,)).is_any
    assert not undumped(chain(0, 1, 2), fed=(2, 4)).is_any


def test_numbers_that_count_over_all_names_leave_none_out():
    rows = [part for number in range(8) for part in chain(number, name=("linear", "relu")[number % 2])]
    assert not undumped(rows, fed=range(2, 16, 2)).is_any
    assert undumped([*rows, *chain(9)], fed=range(2, 18, 2)).is_any


def test_a_number_of_another_step_counts():
    later = Execution(rank=0, step=1, graph=1)
    rows = [row(call("linear", number, run=run), role) for number, run in ((0, RUN), (1, later)) for role in (IN, OUT)]
    assert not undumped(rows, fed=(2,)).is_any


def test_where_nothing_recorded_wrote_one_in_three_inputs_calls_are_missing():
    rows = chain(*range(6))  # the first call reads what comes from outside, so five inputs count
    assert not undumped(rows, fed=(4, 6, 8, 10)).is_any
    assert undumped(rows, fed=(6, 8, 10)).is_any


def test_constants_which_nothing_tells_apart_count_as_nothing():
    same = statistics(min=2.0, max=2.0, mean=2.0, l2norm=20.0)
    rows = [replace(each, measurement=statistics_measured(same, same)) for each in chain(*range(6))]
    assert not undumped(rows).is_any
    assert undumped(chain(*range(6))).is_any


def test_what_the_first_call_reads_counts_where_a_gradient_reaches_it():
    rows = chain(0, 1)
    assert not undumped(rows, fed=(2,)).is_any
    pair = rows[0].pair
    rows[0] = replace(rows[0], pair=replace(pair, golden=tensor(call("linear"), IN, requires_grad=True)))
    assert undumped(rows, fed=(2,)).is_any


def test_an_input_of_a_size_that_no_result_has_comes_from_elsewhere():
    rows = chain(0, 1, 2)
    pair = rows[4].pair
    rows[4] = replace(rows[4], pair=replace(pair, target=tensor(call("linear", 2), IN, shape=(9, 10))))
    assert undumped(rows, fed=(2, 4)).is_any


def test_rows_that_a_recorded_index_names_are_of_this_dump():
    """A subscript is no recorded call: 9 rows of 10 numbers each for the 9 numbers of a result, 10 in the golden."""
    rows = chain(0, 1, 2)
    for place, key, role, shape in ((1, call("linear"), OUT, (9,)), (4, call("linear", 2), IN, (9, 10))):
        rows[place] = replace(rows[place], pair=replace(rows[place].pair, target=tensor(key, role, shape=shape)))
    assert not undumped(rows, fed=(2, 4)).is_any
    rows[4] = replace(rows[4], pair=replace(rows[4].pair, target=tensor(call("linear", 2), IN, shape=(10, 9))))
    assert undumped(rows, fed=(2, 4)).is_any


@pytest.mark.parametrize(
    ("shape", "decides", "is_part"),
    [
        ((10, 9), True, True),
        ((9, 10), True, False),
        ((9, 9), True, False),
        ((10, 11), True, True),
        ((9, 10), False, True),
        ((9, 9), False, True),
        ((9, 11), False, False),
    ],
)
def test_a_part_of_what_was_read_is_a_subscript_of_this_dump(shape, decides, is_part):
    """`x[:, :9]` of 10 x 10 numbers has the size of no result. A decision picks whole rows, where one is made."""
    rows = chain(0, 1, 2)
    other = tensor(call("linear", 2), IN, shape=(10, 10))
    rows[4] = replace(
        rows[4], pair=replace(rows[4].pair, target=tensor(call("linear", 2), IN, shape=shape), golden=other)
    )
    if decides:
        rows.insert(4, row(call("argmax"), OUT, dtype="int64", count=10))
    assert undumped(rows, fed=(2, 4, 5)).is_any is not is_part


def test_a_gradient_without_its_forward_call_is_made_of_what_is_not_there():
    rows = [*chain(1), row(call("linear", 0, Phase.BACKWARD), IN), row(call("linear", 0, Phase.BACKWARD), OUT)]
    found, calls = undumped(rows, fed=(2,)), Calls(rows, programs_of(rows))
    assert found.made(3, calls.of[3])
    assert not found.made(1, calls.of[1])


def named(rows):
    findings, verdicts = conclude(rows, programs_of(rows), passes(rows))
    roles = [verdict.role for verdict in verdicts]
    return [each for each in findings if each.fails], [each for each in findings if not each.fails], roles


def test_what_missing_calls_made_is_told_and_accuses_nobody():
    rows = [
        row(call("linear", number), role, relative=0.1 if number == 3 else 1e-4, mark=mark)
        for number in (1, 3)
        for role, mark in ((IN, number), (OUT, number + 0.5))
    ]
    failing, told, roles = named(rows)
    assert failing == []
    assert Role.ORIGIN not in roles
    assert [each.node.call for each in told] == [3]
    assert told[0].evidence.startswith("undecided: ")
    assert "a part of the calls only" in told[0].evidence
    assert left_open(told) == ("`linear` input.0, call 3, is off, and the dump does not hold the calls that made it",)
    assert left_open([*told, replace(told[0], fails=True)]) == ()


def test_what_a_call_makes_of_them_is_judged_by_what_it_read():
    rows = [
        row(call("linear", number), role, relative=0.9 if (number, role) == (3, OUT) else 1e-4, mark=mark)
        for number in (1, 3)
        for role, mark in ((IN, number), (OUT, number + 0.5))
    ]
    assert [(each.node.call, each.slot.role) for each in named(rows)[0]] == [(3, OUT)]


def test_in_a_whole_dump_the_same_input_is_an_origin():
    rows = [
        row(call("linear", number), role, relative=0.1 if number == 6 else 1e-4, mark=mark)
        for number in range(7)
        for role, mark in ((IN, 20 if number == 6 else number), (OUT, number + 1))
    ]
    assert [(each.node.call, each.slot.role) for each in named(rows)[0]] == [(6, IN)]


def layer(*, given: float, gave: float) -> tuple[list[Row], Pairs]:
    """A layer around calls of which the first two are not in the dump, and what follows it."""
    inner, around = call("add", 2), call("Cell.lstm")
    rows = [
        row(around, IN, relative=given, mark=1),
        row(inner, IN, relative=0.5, mark=2), row(inner, OUT, relative=0.5, mark=3),
        row(around, OUT, relative=gave, mark=3),
    ]  # fmt: skip
    pairs = programs_of(rows)
    nodes = dict(pairs.target.nodes)
    nodes[around] = replace(nodes[around], facts=CallFacts(NodeKind.MODULE))
    nodes[inner] = replace(nodes[inner], parent="Cell.lstm", facts=CallFacts(NodeKind.API, "Cell.lstm.forward.0"))
    return rows, replace(pairs, target=replace(pairs.target, nodes=nodes))


@pytest.mark.parametrize(
    ("given", "gave", "is_named"),
    [(1e-4, 0.5, True), (1e-4, 1e-4, False), (0.5, 0.5, False)],
    ids=["wrong inside", "healthy", "given wrong data"],
)
def test_a_layer_answers_for_what_calls_inside_it_made_that_are_not_there(given, gave, is_named):
    rows, pairs = layer(given=given, gave=gave)
    findings, _ = conclude(rows, pairs, passes(rows))
    named = [(each.node.name, each.slot.role) for each in findings if each.fails]
    assert (("Cell.lstm", OUT) in named) is is_named


@pytest.mark.parametrize(("relative", "is_named"), [(0.2, True), (1e-4, False)], ids=["wrong", "healthy"])
def test_what_is_made_of_a_subscript_of_another_size_is_judged(relative, is_named):
    """The mean of `x[:, :9]` in place of `x`: no other call shows it, and the result has the right shape."""
    rows = [row(call("linear", n), role, mark=n + at) for n in (0, 1) for role, at in ((IN, 0.0), (OUT, 1.0))]
    given = row(call("mean"), IN)
    sides = [tensor(call("mean"), IN, shape=shape) for shape in ((10, 9), (10, 10))]
    rows += [
        replace(given, pair=replace(given.pair, target=sides[0], golden=sides[1]), measurement=None),
        row(call("mean"), OUT, relative=relative, count=10, mark=9.0),
    ]
    failing = named(rows)[0]
    assert [each.node.name for each in failing] == ["mean"] * is_named
    assert all(
        "`input.0` has another shape than the golden's ([10, 9], golden [10, 10])" in x.evidence for x in failing
    )
