"""Where tensors come from: by the edges of a graph, or by equal golden values where there is none."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from comparison_rows import (
    IN,
    OUT,
    PARAM,
    edge,
    key,
    measured,
    pairs_of,
    row,
    statistics_measured,
    target_only,
    tensor,
)
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.equal_values import Producers
from probe_flow.analysis.flow.links import MAX_PASSED, Links, link
from probe_flow.records import (
    CallFacts,
    Graph,
    GraphOp,
    Group,
    NodeKind,
    Pair,
    Pairs,
    Relation,
    Rule,
    SlotRole,
    Statistics,
)
from probe_flow.records.row import Row


def linked(rows: list[Row], pairs: Pairs) -> Links:
    return link(rows, pairs, Calls(rows, pairs))


def test_an_input_comes_from_the_output_that_feeds_it():
    rows = [row("a"), row("b", IN), row("b")]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "b")]))
    assert found.producers == {1: (0,)}
    assert found.reaching[key("b")] == (1,)
    assert found.through[key("b")] == ()


def test_an_input_without_producer_is_a_source():
    rows = [row("a", IN), row("a", PARAM, "weight"), row("a"), row("b", IN)]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "b")]))
    assert found.producers[0] == ()
    assert found.producers[1] == ()
    assert found.producers[3] == (2,)


def test_a_node_that_the_graph_does_not_have_is_no_source():
    graph = Graph(1, 0, (GraphOp("a", "Relu", 0), GraphOp("b", "Relu", 1), GraphOp("c", "Relu", 2)), "graph.txt")
    rows = [row("a"), row("b", IN), row("trans_Cast_9", IN), row("trans_Cast_9"), row("c", IN)]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "b")], graphs=(graph,)))
    assert found.producers == {1: (0,), 4: ()}
    assert found.reaching[key("trans_Cast_9")] == (2,)


def test_edges_tell_outputs_and_inputs_of_a_node_apart():
    rows = [row("a", OUT, 0), row("a", OUT, 1), row("b", IN, 0), row("b", IN, 1)]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "b", 0, output=1), edge("a", "b", 1, output=0)]))
    assert found.producers == {2: (1,), 3: (0,)}


def test_nodes_that_were_not_compared_are_passed():
    # a -> x -> y -> b, where x and y have no partner; y also reads the compared input row of its own.
    rows = [row("a"), target_only(tensor("x")), row("y", IN, 1), row("b", IN), row("b")]
    edges = [edge("a", "x"), edge("x", "y"), edge("y", "b")]
    found = linked(rows, pairs_of(rows, edges=edges))
    assert found.producers[3] == (0, 2)
    assert found.reaching[key("b")] == (3,)


def test_inputs_that_were_not_dumped_are_reached_behind_the_node():
    # b has no input rows at all: what feeds its output is a, through x.
    rows = [row("a"), row("b")]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "x"), edge("x", "b")]))
    assert found.reaching[key("b")] == (0,)
    assert found.through[key("b")] == (key("x"),)


def test_a_row_that_feeds_twice_counts_once():
    rows = [row("a"), row("b")]
    found = linked(rows, pairs_of(rows, edges=[edge("a", "b", 0), edge("a", "b", 1)]))
    assert found.reaching[key("b")] == (0,)


def test_an_input_fed_by_nothing_that_was_compared_has_unknown_ancestry():
    rows = [row("b", IN), row("b"), row("c")]
    found = linked(rows, pairs_of(rows, edges=[edge("x", "b"), edge("x", "c")]))
    assert 0 not in found.producers
    assert found.reaching[key("b")] == (0,)
    assert key("c") not in found.reaching


def test_a_node_without_edges_that_reads_something_is_no_source_where_no_graph_says_so():
    # Edges by address end where an operator left no file: nobody knows who wrote what b reads.
    rows = [target_only(tensor("b", IN)), row("b"), row("c", IN)]
    found = linked(rows, pairs_of(rows, edges=[edge("b", "c")]))
    assert key("b") not in found.reaching
    graph = Graph(1, 0, (GraphOp("b", "Relu", 0), GraphOp("c", "Relu", 1)), "graph.txt")
    assert linked(rows, pairs_of(rows, edges=[edge("b", "c")], graphs=(graph,))).reaching[key("b")] == ()


def test_a_node_that_reads_nothing_is_a_source():
    rows = [row("constant"), row("b", IN)]
    found = linked(rows, pairs_of(rows, edges=[edge("constant", "b")]))
    assert found.reaching[key("constant")] == ()


def test_loops_end():
    rows = [row("a"), row("b", IN)]
    found = linked(rows, pairs_of(rows, edges=[edge("x", "y"), edge("y", "x"), edge("a", "y"), edge("x", "b")]))
    assert found.producers[1] == (0,)


def test_what_lies_behind_a_long_uncompared_chain_is_unknown():
    def chain(length):
        names = ["a", *(f"x{n}" for n in range(length)), "b"]
        rows = [row("a"), row("b", IN), row("b")]
        return linked(rows, pairs_of(rows, edges=[edge(*two) for two in itertools.pairwise(names)]))

    assert chain(MAX_PASSED).producers[1] == (0,)
    assert 1 not in chain(MAX_PASSED + 1).producers


def test_executions_do_not_mix():
    first, second = key("b", step=0), key("b", step=1)
    rows = [row(key("a", step=0)), row(key("a", step=1)), row(first, IN), row(second, IN)]
    edges = [edge(key("a", step=0), first), edge(key("a", step=1), second)]
    found = linked(rows, pairs_of(rows, edges=edges))
    assert found.producers == {2: (0,), 3: (1,)}


def test_without_a_graph_equal_golden_values_are_one_tensor():
    rows = [row("a", mark=1.0), row("b", IN, mark=1.0), row("b", mark=2.0), row("c", IN, mark=1.0), row("c", mark=3.0)]
    found = linked(rows, pairs_of(rows))
    # The nearest one before: an in-place operator may have touched the first.
    assert found.producers == {1: (0,), 3: (1,)}
    assert found.reaching == {key("b"): (1,), key("c"): (3,)}


def test_without_a_graph_a_parameter_is_a_source_and_new_values_are_unknown():
    rows = [row("a", PARAM, "weight", mark=1.0), row("a", IN, mark=2.0), row("a", mark=3.0)]
    found = linked(rows, pairs_of(rows))
    assert found.producers == {0: ()}
    assert found.reaching[key("a")] == (0, 1)


THIRD = 0.3333333432674408
"""In float32."""


def number(node: str, value: float, *more) -> Row:
    known = Statistics(min=value, max=value, mean=value, l2norm=abs(value))
    return row(node, *more, measurement=statistics_measured(known, known, count=1))


def test_without_a_graph_constants_and_plain_numbers_identify_nothing():
    ones = {"size": 0.0, "mark": 0.0}
    rows = [row("a", **ones), row("b", IN, **ones), number("c", 0.625), number("d", 0.625, IN)]
    assert linked(rows, pairs_of(rows)).producers == {}


def test_without_a_graph_a_number_of_many_digits_is_the_one_before():
    """As the gradient of a scale that many elements were divided by, handed on."""
    rows = [
        number("a", 1.0),
        number("b", 0.3333333432674408),
        number("c", 0.3333333432674408, IN),
        number("d", 1.0, IN),
    ]
    assert linked(rows, pairs_of(rows)).producers == {2: (1,)}


def test_without_a_graph_integers_are_told_by_what_was_measured_where_no_norm_is_recorded():
    known = row("top", dtype="int64", mark=1.0)
    recorded = Statistics(min=known.measurement.golden_statistics.min, max=3.0)
    rows = [
        replace(each, pair=replace(each.pair, golden=each.pair.golden.changed(recorded=recorded)))
        for each in (known, row("equal", IN, dtype="int64", mark=1.0))
    ]
    assert linked(rows, pairs_of(rows)).producers == {1: (0,)}


def test_without_a_graph_what_a_step_kept_is_found_in_the_next_one():
    """An optimizer keeps a moment of each gradient: the result in place is what the same call reads a step later."""
    rows = [row(key("a", step=0), mark=1.0), row(key("b", step=1), IN, mark=1.0)]
    assert linked(rows, pairs_of(rows)).producers == {1: (0,)}


def test_without_a_graph_a_value_of_the_own_step_comes_first():
    rows = [row(key("a", step=0), mark=1.0), row(key("b", step=1), mark=1.0), row(key("c", step=1), IN, mark=1.0)]
    assert linked(rows, pairs_of(rows)).producers[2] == (1,)


def test_without_a_graph_a_result_is_no_copy_of_an_earlier_steps():
    """The gradient of a mean over the batch has the same values in each step."""
    rows = [row(key("a", step=0), mark=1.0), row(key("a", step=1), mark=1.0)]
    assert 1 not in linked(rows, pairs_of(rows)).producers


def test_without_a_graph_a_parameter_of_a_later_step_is_a_source_again():
    """Its error is that of the step before and that of the change: see `Updates`."""
    rows = [row(key("a", step=step), PARAM, "weight", mark=1.0) for step in (0, 1)]
    assert linked(rows, pairs_of(rows)).producers == {0: (), 1: ()}


def test_without_a_graph_what_a_call_of_the_step_before_wrote_of_a_parameter_is_known():
    """An optimizer whose calls are in the dump (`add_`): what they made of it is read by the next step."""
    rows = [row(key("a", step=step), PARAM, "weight", mark=1.0 + step) for step in (0, 1)]
    rows.insert(1, row(key("add_", step=0), mark=2.0))
    found = linked(rows, pairs_of(rows))
    assert (found.producers, found.wrote) == ({0: (), 2: ()}, {2: 1})


def test_without_a_graph_ranks_do_not_mix():
    rows = [row(key("a", step=0, rank=0), mark=1.0), row(key("b", step=1, rank=1), IN, mark=1.0)]
    assert linked(rows, pairs_of(rows)).producers == {}


def held_meanwhile(ranks: int) -> int:
    """Return the bytes that looking for equal values takes beyond what it finds: 200 outputs a rank, none alike."""
    runs = [key(rank=rank) for rank in range(ranks)]
    found, now, peak = weighed([row(replace(run, name=f"n{n}"), mark=n + 1.5) for run in runs for n in range(200)])
    assert found.producers == {}
    return peak - now


def weighed(rows):
    """Return the links of rows, the bytes that they take, and the most that was taken meanwhile."""
    pairs = pairs_of(rows)
    calls = Calls(rows, pairs)
    link(rows, pairs, calls)
    tracemalloc.start()
    try:
        return link(rows, pairs, calls), *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_without_a_graph_values_of_one_rank_at_a_time_are_held():
    assert held_meanwhile(8) < 2 * held_meanwhile(1)


def test_a_row_that_came_from_one_takes_four_bytes():
    rows = [row(f"n{n}", IN if n % 2 else OUT, mark=n // 2 + 1.5) for n in range(2000)]
    found, now, _ = weighed(rows)
    assert found.producers == {n: (n - 1,) for n in range(1, 2000, 2)}
    assert now < 8 * len(rows)


@pytest.mark.parametrize("rows", [(), (3,), (0, 4)])
def test_producers_are_a_mapping(rows):
    found = Producers(6, {1: rows})
    assert dict(found) == {1: rows}
    assert (1 in found, 0 in found, len(found), found.get(0)) == (True, False, 1, None)
    found[1] = found[5] = (2,)
    found.forget(1)
    found.forget(1)
    assert found == {5: (2,)}


def product_and_bias(*, relation=Relation.MANY_TO_ONE):
    """A product and the addition of its bias, which together are one node of the golden; the product is inside."""
    rows = [
        row("mm", IN, 0), row("mm", IN, 1), target_only(tensor("mm")),
        target_only(tensor("bias", IN, 0)), row("bias", IN, 1), row("bias"),
    ]  # fmt: skip
    group = Group("g", relation, (key("mm"), key("bias")), (key("linear"),))
    return rows, replace(pairs_of(rows, {"mm": "MatMul", "bias": "BiasAdd"}), groups=(group,))


def test_an_input_inside_a_group_comes_from_the_inputs_of_the_nodes_before():
    found = linked(*product_and_bias())
    assert found.reaching[key("bias")] == (4, 0, 1)
    assert found.through[key("bias")] == (key("mm"),)
    assert found.reaching[key("mm")] == (0, 1)


def test_a_node_of_which_an_input_was_not_compared_has_unknown_ancestry():
    found = linked(*product_and_bias(relation=Relation.ONE_TO_ONE))
    assert key("bias") not in found.reaching
    assert found.reaching[key("mm")] == (0, 1)


@pytest.mark.parametrize(("target", "producers"), [(3.0, {2: (0,)}), (3.25, {})])
def test_a_result_that_equals_what_was_read_on_the_golden_alone_is_no_copy(target, producers):
    """What the golden added was lost in rounding; what the target added was not."""

    def shown(role: SlotRole, place: int, largest: float, mine: float) -> Row:
        sides = [
            tensor("add_", role, place, recorded=Statistics(min=-3.0, max=value, mean=0.0, l2norm=10.0))
            for value in (mine, largest)
        ]
        return Row(Pair(sides[0], sides[1], "g", Rule("exact")), measured(mark=1.0))

    rows = [shown(IN, 0, 3.0, 3.0), shown(IN, 1, 5.0, 6.0), shown(OUT, 0, 3.0, target)]
    found = linked(rows, pairs_of(rows, {"add_": "add_"}))
    assert found.producers == producers
    assert found.reaching[key("add_")] == (0, 1)


@pytest.mark.parametrize(
    ("kind", "target", "producers"),
    [(NodeKind.API, 3.0, {1: (0,)}), (NodeKind.API, 3.001, {}), (NodeKind.MODULE, 3.001, {1: (0,)})],
)
def test_two_sums_of_the_same_terms_are_no_copies_where_the_target_tells_them_apart(kind, target, producers):
    """The gradients of two biases, one of which mixed precision adds up in 16 bits; a module hands on what it has."""
    golden = Statistics(min=-3.0, max=3.0, mean=0.1, l2norm=10.0)
    rows = []
    for name, largest in (("first", 3.0), ("second", target)):
        mine = Statistics(min=-3.0, max=largest, mean=0.1, l2norm=10.0)
        sides = [tensor(name, recorded=known) for known in (mine, golden)]
        rows.append(Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(mine, golden)))
    pairs = pairs_of(rows)
    nodes = {known: replace(node, facts=CallFacts(kind)) for known, node in pairs.target.nodes.items()}
    found = linked(rows, replace(pairs, target=replace(pairs.target, nodes=nodes)))
    assert found.producers == producers


def test_what_is_zero_on_the_golden_is_known_by_what_rounding_left_on_the_target():
    """A difference of two equal tensors, read by the next call."""

    def shown(node: str, role: SlotRole, target: Statistics) -> Row:
        zeros = Statistics(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
        sides = [tensor(node, role, recorded=known) for known in (target, zeros)]
        return Row(Pair(sides[0], sides[1], "g", Rule("exact")), statistics_measured(target, zeros))

    left, other = Statistics(min=-1e-7, max=2e-7, l2norm=3e-7), Statistics(min=0.0, max=0.0, l2norm=0.0)
    rows = [shown("sub", OUT, left), shown("mul", IN, left), shown("add", IN, other), shown("relu", IN, other)]
    assert linked(rows, pairs_of(rows)).producers == {1: (0,)}


@pytest.mark.parametrize(("target", "producers"), [(0.0029094815254211426, {1: (0,)}), (2.0**-9, {})])
def test_one_number_that_is_plain_on_the_golden_is_known_by_the_targets(target, producers):
    """The logarithm of the determinant of an orthogonal matrix: 2^-23 of rounding, and what 16 bits leave."""

    def shown(node: str, role: SlotRole) -> Row:
        sides = [Statistics(min=known, max=known, mean=known, l2norm=known) for known in (target, 2.0**-23)]
        pair = Pair(*(tensor(node, role, recorded=known) for known in sides), "g", Rule("exact"))
        return Row(pair, statistics_measured(*sides, count=1))

    rows = [shown("slogdet", OUT), shown("add", IN)]
    assert linked(rows, pairs_of(rows)).producers == producers


@pytest.mark.parametrize(("read", "producers"), [(9.0, {1: (0,), 2: (0,)}), (10.0, {1: (0,), 2: (1,)})])
def test_arguments_that_are_equal_on_the_golden_by_accident_are_told_by_the_target(read, producers):
    """A norm is divided by a parameter that begins as that norm."""

    def shown(node: str, role: SlotRole, place: int, norm: float) -> Row:
        sides = [
            tensor(node, role, place, recorded=Statistics(min=-3.0, max=3.0, mean=0.0, l2norm=value))
            for value in (norm, 10.0)
        ]
        return Row(Pair(sides[0], sides[1], "g", Rule("exact")), measured())

    rows = [shown("norm", OUT, 0, 9.0), shown("div", IN, 0, 10.0), shown("div", IN, 1, read)]
    assert linked(rows, pairs_of(rows)).producers == producers


@pytest.mark.parametrize(
    ("mean", "producers"), [(0.0, {1: (0,)}), (1e-9, {1: (0,)}), (0.02, {}), (float("inf"), {1: (0,)})]
)
def test_a_tensor_with_half_of_its_elements_negated_is_told_by_its_mean(mean, producers):
    """As rotary embeddings read; the mean of one tensor differs by what the order of its sum leaves."""
    known = [Statistics(min=-3.0, max=3.0, mean=each, l2norm=10.0) for each in (0.0, mean)]
    rows = [
        Row(replace(row(node, IN).pair, golden=tensor(node, IN, recorded=each)), measured())
        for node, each in zip(("cos", "sin"), known, strict=True)
    ]
    assert linked(rows, pairs_of(rows)).producers == producers
