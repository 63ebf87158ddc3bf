"""The call tree of a catalog: callers by entry and by name, calls without entry, trees that a damaged dump makes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from probe_flow.records import CallFacts, Catalog, Execution, Node, NodeKey, NodeKind, Phase
from probe_flow.records.frameworks import PYTORCH
from probe_flow.relations.call_tree import (
    ROOT,
    call_tree,
    call_trees,
    completion_order,
    enclosing,
    module_path,
    without_circles,
)

RUN = Execution(rank=0)
OTHER_RANK = Execution(rank=1)


def key_of(name: str, call: int = 0, phase: Phase = Phase.FORWARD, run: Execution = RUN) -> NodeKey:
    return NodeKey(run, name, call, phase)


def node_of(
    key: NodeKey,
    *,
    entry: str | None = None,
    caller: str | None = None,
    parent: str | None = None,
    kind: NodeKind = NodeKind.API,
) -> Node:
    return Node(key, "op", parent=parent, facts=CallFacts(kind, caller, entry=entry))


def callers(nodes: Sequence[Node], undumped: Sequence[Node] = ()) -> list[NodeKey | None]:
    """Return the key of each node's caller, of the undumped calls' too."""
    tree = call_tree(nodes, undumped)
    assert list(tree.calls[: len(nodes) + len(undumped)]) == [*nodes, *undumped]
    assert tree.dumped == len(nodes)
    known = tree.callers[: len(nodes) + len(undumped)]
    return [None if number == ROOT else tree.calls[number].key for number in known]


BLOCK_0, BLOCK_1 = key_of("Module.block.Block", 0), key_of("Module.block.Block", 1)
RELU = key_of("Functional.relu", 1)


def test_the_entry_tells_the_call_of_a_module_that_runs_twice() -> None:
    blocks = [node_of(key, entry=f"Module.block.Block.forward.{key.call}") for key in (BLOCK_0, BLOCK_1)]
    relu = node_of(RELU, entry="Functional.relu.1.forward", caller="Module.block.Block.forward.1", parent="block")
    assert callers([relu, *blocks]) == [BLOCK_1, None, None]


def test_an_entry_means_a_node_of_the_same_execution_wherever_the_executions_lie() -> None:
    runs = RUN, OTHER_RANK, Execution(rank=0, micro_step=1)
    blocks = [node_of(key_of("Module.block.Block", run=run), entry="block.0") for run in runs]
    calls = [node_of(key_of("abs", run=run), caller="block.0") for run in runs]
    nodes = {node.key: node for node in (*blocks, *calls)}
    trees = call_trees(Catalog("target", PYTORCH, "tensor", "/", nodes, ()))
    assert list(trees) == list(runs)
    for run, tree in trees.items():
        assert [call.key.execution for call in tree.calls] == [run, run]
        assert list(tree.callers) == [ROOT, 0]


def test_of_two_nodes_with_one_entry_the_last_counts() -> None:
    twins = [node_of(key_of("Module.block.Block", number), entry="block.0") for number in range(2)]
    assert callers([*twins, node_of(RELU, caller="block.0")])[-1] == twins[1].key


def test_a_caller_of_which_only_the_entry_is_known_becomes_a_call_without_a_node() -> None:
    nodes = [node_of(key_of("abs", number), caller="Module.gone.Gone.forward.3") for number in range(2)]
    tree = call_tree(nodes)
    assert tree.dumped == 2
    assert list(tree.callers) == [2, 2, ROOT]
    assert tree.calls[2].key == key_of("Module.gone.Gone.forward.3", 3)
    assert tree.calls[2].entry == "Module.gone.Gone.forward.3"


def test_calls_that_construct_json_alone_names_join_those_inside_them_to_those_around_them() -> None:
    relu = node_of(RELU, caller="inner.0")
    outer = node_of(BLOCK_0, entry="outer.0")
    inner = node_of(key_of("Module.inner.Inner"), entry="inner.0", caller="outer.0")
    tree = call_tree([relu, outer], [inner])
    assert list(tree.around(0)) == [2, 1]
    assert tree.nearest([0, 1]) == {0: 1, 1: ROOT}
    assert tree.numbers == {relu.key: 0, outer.key: 1, inner.key: 2}


def test_a_node_of_the_catalog_counts_more_than_a_call_without_entry_of_its_name() -> None:
    block = node_of(BLOCK_0, entry="block.0")
    relu = node_of(RELU, caller="block.0")
    tree = call_tree([block, relu], [node_of(BLOCK_0, entry="block.0")])
    assert tree.callers[1] == 0
    assert tree.numbers[BLOCK_0] == 0


def test_a_backward_call_that_never_ended_lies_where_its_forward_call_lay() -> None:
    """As in-place modules are recorded: the backward of what ran before them seems to be inside."""
    forward = [
        node_of(key_of("Module.a.A"), entry="a.f"),
        node_of(key_of("Module.b.gate.ReLU"), entry="gate.f", caller="b.f"),
        node_of(key_of("Module.b.B"), entry="b.f"),
        node_of(key_of("Module.c.ReLU"), entry="c.f"),
    ]
    back = Phase.BACKWARD
    backward = [
        node_of(key_of("Module.b.B", phase=back), entry="b.b", caller="c.b"),
        node_of(key_of("Module.a.A", phase=back), entry="a.b", caller="gate.b"),
    ]
    lost = [
        node_of(key_of("Module.c.ReLU", phase=back), entry="c.b", caller="b.b"),
        node_of(key_of("Module.b.gate.ReLU", phase=back), entry="gate.b", caller="c.b"),
    ]
    found = callers([*forward, *backward], lost)
    assert found[4:] == [lost[0].key, lost[1].key, None, backward[0].key]


def test_by_name_alone_the_first_call_of_the_phase_is_meant() -> None:
    relu = node_of(RELU, parent="Module.block.Block")
    assert callers([node_of(BLOCK_1), node_of(BLOCK_0), relu])[-1] == BLOCK_1
    backward = node_of(key_of("Functional.relu", phase=Phase.BACKWARD), parent="Module.block.Block")
    assert callers([node_of(BLOCK_0), backward])[-1] == key_of("Module.block.Block", phase=Phase.BACKWARD)


def test_gradients_of_parameters_belong_to_the_backward_call() -> None:
    backward = node_of(key_of("Module.block.Block", phase=Phase.BACKWARD))
    gradients = node_of(key_of("Module.block.Block.parameters_grad", phase=Phase.NONE), parent="Module.block.Block")
    assert callers([node_of(BLOCK_0), backward, gradients])[-1] == backward.key
    assert callers([node_of(BLOCK_0), gradients])[-1] == BLOCK_0
    assert not call_tree([node_of(BLOCK_0), backward, gradients]).has_callers


def test_what_names_no_caller_has_none() -> None:
    tree = call_tree([node_of(RELU, entry="Functional.relu.1.forward")])
    assert list(tree.callers) == [ROOT]
    assert not tree.has_callers
    assert call_tree([node_of(RELU, parent="Module.block.Block")]).has_callers


def test_paths_of_modules_say_what_encloses_what() -> None:
    names = ["Module.a.b.c.C", "Functional.relu", "Module.a.A", "Module.a.b.c.C", "Module.a.A", "Module.a.b.c.C"]
    calls = [
        node_of(key_of(name, number), kind=NodeKind.API if "relu" in name else NodeKind.MODULE)
        for number, name in enumerate(names)
    ]
    assert enclosing(calls, range(6)) == {0: 2, 1: ROOT, 2: ROOT, 3: 4, 4: ROOT, 5: ROOT}
    assert module_path("Module.layers.0.attn.Attn") == "layers.0.attn"


def test_calls_end_after_what_they_made_and_siblings_keep_their_order() -> None:
    # As construct.json lists a block: layer_norm, block, norm, linear, fc.
    assert completion_order([2, ROOT, 1, 4, 1]) == [0, 2, 3, 4, 1]
    assert completion_order([]) == []


def test_a_caller_that_closes_a_circle_is_left_out() -> None:
    assert without_circles([1, 2, 0, 0]) == [1, 2, ROOT, 0]
    assert without_circles([0]) == [ROOT]


TREES = st.integers(1, 12).flatmap(lambda n: st.lists(st.integers(ROOT, n - 1), min_size=n, max_size=n))


@given(TREES)
def test_without_circles_every_way_up_ends_and_trees_stay_as_they_are(above: list[int]) -> None:
    found = without_circles(above)
    for start in range(len(found)):
        way, at = set[int](), found[start]
        while at != ROOT:
            assert at not in way
            way.add(at)
            at = found[at]
    assert all(new in (ROOT, old) for old, new in zip(above, found, strict=True))
    if found == above:
        return
    # Something was cut, so there was a circle: from some start the old way never ends.
    assert any(_comes_again(above, start) for start in range(len(above)))


def _comes_again(above: list[int], start: int) -> bool:
    at = start
    for _ in above:
        at = above[at] if at != ROOT else ROOT
    return at != ROOT


@given(TREES)
def test_the_order_in_which_calls_end_holds_each_once_callers_last_siblings_in_order(above: list[int]) -> None:
    tree = without_circles(above)
    order = completion_order(tree)
    assert sorted(order) == list(range(len(tree)))
    place = {number: at for at, number in enumerate(order)}
    for number, caller in enumerate(tree):
        assert caller == ROOT or place[number] < place[caller]
        for sibling in range(number):
            assert tree[sibling] != caller or place[sibling] < place[number]


@given(TREES, st.integers(0, 12), st.integers(1, 3))
def test_a_dump_with_any_callers_gives_trees_of_each_execution_alone(above: list[int], dumped: int, ranks: int) -> None:
    """Against the callers taken straight from the numbers, circles aside, for any split into dumped and undumped."""
    nodes: dict[NodeKey, Node] = {}
    undumped: list[Node] = []
    for number, caller in enumerate(above):
        for rank in range(ranks):
            key = key_of(f"Module.m{number}.M", run=Execution(rank=rank))
            node = node_of(key, entry=f"e{number}", caller=None if caller == ROOT else f"e{caller}")
            if number < max(1, dumped):
                nodes[key] = node
            else:
                undumped.append(node)
    trees = call_trees(Catalog("target", PYTORCH, "tensor", "/", nodes, (), undumped=tuple(undumped)))
    assert [run.rank for run in trees] == list(range(ranks))
    for tree in trees.values():
        assert [call.key.name for call in tree.calls] == [f"Module.m{number}.M" for number in range(len(above))]
        assert list(tree.callers) == without_circles(above)
