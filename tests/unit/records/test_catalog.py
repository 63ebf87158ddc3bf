import pytest
from msgspec.structs import astuple, replace
from name_builders import ref_of

from probe_flow.records import Catalog, Execution, GraphOp, GraphTensor, Node, NodeKey
from probe_flow.records.frameworks import named

FIRST, SECOND = Execution(0, 0), Execution(1, 0)
KEYS = [NodeKey(FIRST, "a"), NodeKey(SECOND, "a"), NodeKey(FIRST, "b")]


def catalog(*owners):
    nodes = {key: Node(key, "Add") for key in KEYS}
    tensors = tuple(map(ref_of, owners))
    return Catalog(side="x", framework=named("pytorch"), task="statistics", root="", nodes=nodes, tensors=tensors)


def test_nodes_of_an_execution_are_in_order_of_the_catalog():
    found = catalog().nodes_by_execution()
    assert {execution: list(nodes) for execution, nodes in found.items()} == {
        FIRST: [KEYS[0], KEYS[2]],
        SECOND: [KEYS[1]],
    }


def test_tensors_of_an_execution_are_in_order_of_the_catalog_and_not_those_of_the_other():
    mixed = catalog(KEYS[2], KEYS[1], NodeKey(Execution(0, 0), "a"), KEYS[1])
    first, second, third, fourth = mixed.tensors
    assert mixed.tensors_by_execution() == {FIRST: [first, third], SECOND: [second, fourth]}


def test_an_execution_without_tensors_has_none():
    assert catalog(KEYS[0]).tensors_by_execution()[SECOND] == []


FLOAT, NAMED = GraphTensor("DT_FLOAT", "2,3"), GraphTensor("DT_FLOAT16", "4", "add_1-aten.add.Tensor.OUTPUT.0")


@pytest.mark.parametrize("outputs", [(), (NAMED,), (FLOAT, NAMED)])
@pytest.mark.parametrize(
    "inputs", [(), (("a", 0),), (("a", 1),), (None,), (("a", 0), None, ("b", 2)), (("a", 0), ("a", 0))]
)
def test_an_operator_of_a_graph_reads_and_gives_what_it_was_made_of(inputs, outputs):
    op = GraphOp.of("x", "Add", 7, list(inputs), list(outputs))
    assert (op.name, op.op_type, op.position, op.inputs, op.outputs) == ("x", "Add", 7, inputs, outputs)


def test_an_operator_of_a_graph_holds_no_tuples_of_one():
    op = GraphOp.of("x", "Relu", 0, [("a", 0)], [FLOAT])
    assert (op.fed, op.gives) == ("a", FLOAT)


def test_a_dump_takes_the_equal_nodes_of_another_and_says_the_same():
    first = catalog(*KEYS)
    own = [NodeKey(Execution(key.execution.rank, 0), key.name) for key in KEYS]
    other = replace(first, nodes={key: Node(key, "Add") for key in own}, tensors=tuple(map(ref_of, own)))
    found = other.with_nodes_of(first)
    assert found == other
    assert found.nodes is first.nodes
    assert all(tensor.node is key for tensor, key in zip(found.tensors, KEYS, strict=True))


def test_nodes_that_are_another_in_any_fact_stay_and_so_does_the_order():
    first = catalog(*KEYS)
    keys = [NodeKey(*astuple(key)) for key in reversed(KEYS)]
    nodes = {key: Node(key, "Mul" if key.name == "b" else "Add") for key in keys}
    other = replace(first, nodes=nodes, tensors=tuple(map(ref_of, keys)))
    found = other.with_nodes_of(first)
    assert found == other
    assert list(found.nodes) == keys
    assert [tensor.node is key for tensor, key in zip(found.tensors, reversed(KEYS), strict=True)] == [
        False,
        True,
        True,
    ]


def test_a_dump_of_other_nodes_stays_as_it_is():
    first, other = catalog(*KEYS), catalog()
    other = replace(other, nodes={key: Node(key, "Mul") for key in KEYS})
    assert other.with_nodes_of(first) is other
