"""Groups of pairs: by id, or by the entry of the target's node."""

from msgspec.structs import replace
from name_builders import catalog, ref_of

from probe_flow.matching.name.match_name import match_name
from probe_flow.records import CallFacts, Group, Node, NodeKind, Pair, Relation, Rule
from probe_flow.records.pairs import OfEntry
from probe_flow.testing.builders import pairs_of, tensor

EXACT = Rule("exact")


def test_a_group_of_one_call_is_named_by_its_entry():
    target = catalog(["Functional.linear.3.forward", "Module.fc.Linear.forward.0"])
    named = [ref_of(key, named_by=node.kind) for key, node in target.nodes.items()]
    pairs = match_name(replace(target, tensors=tuple(named)), target).pairs
    assert [pair.group for pair in pairs] == [
        "step 0: Functional.linear.3.forward",
        "step 0: Module.fc.Linear.forward.0",
    ]
    assert [pair.grouping for pair in pairs] == [OfEntry("step 0")] * 2


def test_an_entry_that_is_named_otherwise_is_named_as_it_is():
    target = catalog(["Torch.add.1.forward"])
    (key,) = target.nodes
    node = Node(key, "add", facts=CallFacts(NodeKind.API, entry="its own"))
    target = replace(target, nodes={key: node}, tensors=(ref_of(key, named_by=NodeKind.API),))
    assert [pair.grouping for pair in match_name(target, target).pairs] == ["step 0: its own"]


def test_what_only_the_golden_has_is_in_a_group_of_its_own():
    pairs = match_name(catalog([]), catalog(["Functional.relu.0.forward"]))
    assert [pair.group for pair in pairs.pairs] == ["step 0: golden Functional.relu.0.forward"]


def test_names_of_neighbours_are_those_of_each():
    target = catalog(["Functional.linear.0.forward", "Functional.linear.1.forward", "Functional.relu.0.forward"])
    found = list(match_name(target, catalog(["Functional.linear.0.forward", "Functional.tanh.0.forward"])).pairs)
    for pairs in (found, [*found[::-1], *found]):
        assert [*Pair.groups_of(pairs)] == [pair.group for pair in pairs]


def test_groups_that_pairs_tell_are_told_before_the_others():
    one, other, alone = tensor("a"), tensor("b"), tensor("c")
    declared = Group("x", Relation.MANY_TO_ONE, (alone.node, one.node), other.node)
    pairs = [Pair(one, other, "1", EXACT), Pair(one, None, "1", EXACT), Pair(alone, other, "x", EXACT)]
    pairs += [Pair(None, other, "2", EXACT)]
    found = replace(pairs_of(pairs), groups=(declared,)).all_groups()
    assert found == (
        Group("1", Relation.ONE_TO_ONE, one.node, other.node),
        Group("2", Relation.ONE_TO_ONE, (), other.node),
        declared,
    )
