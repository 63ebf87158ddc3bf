"""The call tree of a catalog: callers by entry and by name, and trees that a damaged dump makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probe_flow.records import CallFacts, Execution, Node, NodeKey, NodeKind, Phase
from probe_flow.relations.call_tree import CallTree, without_circles

RUN = Execution(rank=0)
OTHER_RANK = Execution(rank=1)


def key_of(name: str, call: int = 0, phase: Phase = Phase.FORWARD, run: Execution = RUN) -> NodeKey:
    return NodeKey(run, name, call, phase)


def node_of(key: NodeKey, *, entry: str | None = None, caller: str | None = None, parent: str | None = None) -> Node:
    return Node(key, "op", parent=parent, facts=CallFacts(NodeKind.API, caller, entry=entry))


def tree_of(*nodes: Node) -> CallTree:
    return CallTree({node.key: node for node in nodes})


BLOCK_0, BLOCK_1 = key_of("Module.block.Block", 0), key_of("Module.block.Block", 1)
RELU = key_of("Functional.relu", 1)


def test_the_entry_tells_the_call_of_a_module_that_runs_twice() -> None:
    blocks = [node_of(key, entry=f"Module.block.Block.forward.{key.call}") for key in (BLOCK_0, BLOCK_1)]
    relu = node_of(RELU, entry="Functional.relu.1.forward", caller="Module.block.Block.forward.1", parent="block")
    tree = tree_of(relu, *blocks)
    assert tree.recorded(RELU, relu) == tree.caller(RELU, relu) == BLOCK_1
    assert tree.has_entries


def test_an_entry_means_a_node_of_the_same_execution() -> None:
    elsewhere = key_of("Module.block.Block", run=OTHER_RANK)
    here = node_of(BLOCK_0, entry="block.0")
    there = node_of(elsewhere, entry="block.0")
    calls = [node_of(key_of("abs", run=run), caller="block.0") for run in (RUN, OTHER_RANK)]
    tree = tree_of(here, there, *calls)
    assert [tree.recorded(call.key, call) for call in calls] == [BLOCK_0, elsewhere]


def test_a_micro_step_is_an_execution_of_its_own() -> None:
    steps = [Execution(rank=0, step=0, micro_step=number) for number in (0, 1)]
    nodes = [node_of(key_of("block", run=step), entry="block.0") for step in steps]
    call = node_of(key_of("abs", run=steps[1]), caller="block.0")
    assert tree_of(*nodes, call).recorded(call.key, call) == nodes[1].key


def test_a_caller_that_was_not_dumped_is_named_and_not_recorded() -> None:
    relu = node_of(RELU, caller="Module.gone.Gone.forward.3")
    tree = tree_of(relu)
    assert tree.recorded(RELU, relu) is None
    assert tree.caller(RELU, relu) == key_of("Module.gone.Gone.forward.3", 3)


def test_by_name_alone_the_first_call_of_the_phase_is_meant() -> None:
    relu = node_of(RELU, parent="Module.block.Block")
    tree = tree_of(node_of(BLOCK_1), node_of(BLOCK_0), relu)
    assert tree.caller(RELU, relu) == BLOCK_0
    assert tree.recorded(RELU, relu) is None
    assert not tree.has_entries


def test_gradients_of_parameters_belong_to_the_backward_call() -> None:
    backward = key_of("Module.block.Block", phase=Phase.BACKWARD)
    gradients = node_of(key_of("Module.block.Block.parameters_grad", phase=Phase.NONE), parent="Module.block.Block")
    assert tree_of(node_of(BLOCK_0), node_of(backward), gradients).caller(gradients.key, gradients) == backward
    assert tree_of(node_of(BLOCK_0), gradients).caller(gradients.key, gradients) == BLOCK_0


def test_what_names_no_caller_has_none() -> None:
    relu = node_of(RELU, entry="Functional.relu.1.forward")
    assert tree_of(relu).caller(RELU, relu) is None


def test_a_caller_that_closes_a_circle_is_left_out() -> None:
    assert without_circles([1, 2, 0, 0]) == [1, 2, None, 0]
    assert without_circles([0]) == [None]


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.none() | st.integers(0, n - 1), min_size=n, max_size=n)))
def test_without_circles_every_way_up_ends_and_trees_stay_as_they_are(above: list[int | None]) -> None:
    found = without_circles(above)
    for start in range(len(found)):
        way, at = set[int](), found[start]
        while at is not None:
            assert at not in way
            way.add(at)
            at = found[at]
    assert all(new is None or new == old for old, new in zip(above, found, strict=True))
    if found == above:
        return
    # Something was cut, so there was a circle: from some start the old way never ends.
    assert any(_comes_again(above, start) for start in range(len(above)))


def _comes_again(above: list[int | None], start: int) -> bool:
    at: int | None = start
    for _ in above:
        at = above[at] if at is not None else None
    return at is not None
