"""Graphs of one step: what one is fed and another gives are one tensor of the user's graph, whatever the golden is."""

from __future__ import annotations

import numpy as np
import pytest
import rule_builders as rules
from offline_builders import match_offline
from om_writer import GoldenFolder, OmFolder, om_tree

from probe_flow.analysis.silent_operators import silent_operators
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.matching.offline.models import RuleBook

X = np.arange(12, dtype="f4").reshape(3, 4)


def op(name, op_type, number, origin, inputs=(), index=0):
    desc = rules.desc(origin, index, shape=X.shape, layout="ND", origin_layout="ND")
    more = {"originals": [origin]} if origin else {}
    return rules.op(name, op_type, number=number, inputs=list(inputs), outputs=[desc], **more)


def books(path, *, index: int = 0, prefix: str = ""):
    """Return the rules of a graph that gives `grad` and of one that is fed it, through a cast; names begin as said."""
    first = rules.model(op(f"{prefix}mul", "Mul", 0, "grad", index=index), name="a")
    second = rules.model(
        op(f"{prefix}fed", "Data", 0, "grad"),
        op(f"{prefix}cast", "Cast", 1, "", [f"{prefix}fed:0"]),
        op(f"{prefix}apply", "Apply", 2, "apply", [f"{prefix}cast:0"]),
        name="b",
    )
    found = ((f"{prefix}a{index}", first), (f"{prefix}b", second))
    return [read_rule_file(rules.write(path / f"{name}.json", model)) for name, model in found]


def device(path, *, prefix: str = "", steps=(0,)):
    for step in steps:
        folder = OmFolder(om_tree(path, model="a", model_id=1, step=step))
        folder.op("Mul", f"{prefix}mul", at=1, outputs=[X])
        folder = OmFolder(om_tree(path, model="b", model_id=2, step=step))
        folder.op("Apply", f"{prefix}apply", at=2, inputs=[X], outputs=[X])
    return path


def flow(pairs):
    return [
        (edge.producer.name, edge.producer.execution.step, edge.consumer.name, edge.consumer.execution.step)
        for edge in pairs.target.edges
        if edge.producer.execution != edge.consumer.execution
    ]


@pytest.fixture
def target(tmp_path):
    return device(tmp_path / "npu")


def test_what_one_graph_gives_feeds_the_other_where_the_golden_is_arrays(tmp_path, target):
    GoldenFolder(tmp_path / "golden").output("grad", 0, X)
    golden = read_npy_folder(tmp_path / "golden", side="golden")
    book = RuleBook(books(tmp_path), by_model=True)
    pairs = match_offline(read_om(target, side="target"), golden, book)
    assert flow(pairs) == [("mul", 0, "cast", 0)]
    assert ("cast", "apply") in {(edge.producer.name, edge.consumer.name) for edge in pairs.target.edges}


@pytest.mark.parametrize("prefix", ["", "other_"])
def test_what_one_graph_gives_feeds_the_other_where_the_golden_is_a_device(tmp_path, target, prefix):
    golden = read_om(device(tmp_path / "off", prefix=prefix), side="golden")
    (tmp_path / "close").mkdir()
    book = RuleBook(books(tmp_path), close=books(tmp_path / "close", prefix=prefix), by_model=True)
    assert flow(match_offline(read_om(target, side="target"), golden, book)) == [("mul", 0, "cast", 0)]


def test_each_step_is_fed_by_its_own(tmp_path):
    target = read_om(device(tmp_path / "steps", steps=(0, 1)), side="target")
    golden = read_om(device(tmp_path / "off", steps=(0, 1)), side="golden")
    book = RuleBook(books(tmp_path), close=books(tmp_path), by_model=True)
    assert sorted(flow(match_offline(target, golden, book))) == [("mul", 0, "cast", 0), ("mul", 1, "cast", 1)]


def test_another_output_of_the_same_original_feeds_nobody(tmp_path, target):
    golden = read_om(device(tmp_path / "off"), side="golden")
    book = RuleBook(books(tmp_path, index=1), close=books(tmp_path), by_model=True)
    assert flow(match_offline(read_om(target, side="target"), golden, book)) == []


@pytest.mark.parametrize(("caller", "inputs"), [("While", {}), ("PartitionedCall", {"step": "before"})])
def test_a_subgraph_with_files_of_its_own_goes_on_from_the_graph_around_it(tmp_path, caller, inputs):
    """What a loop's body reads is another value in each turn: the flow is known, and no golden tensor is."""
    folder = OmFolder(om_tree(tmp_path / "npu", model="main", model_id=1, step=0))
    folder.op("Relu", "before", at=1, outputs=[X])
    folder.op("Relu", "after", at=9, inputs=[X], outputs=[X])
    body = OmFolder(om_tree(tmp_path / "npu", model="body", model_id=1, step=0))
    body.op("Tanh", "step", at=2, inputs=[2 * X], outputs=[X])
    golden = GoldenFolder(tmp_path / "golden")
    for name in ("before", "step", "after"):
        golden.output(name, 0, X)
    calls = rules.op(
        "loop", caller, number=1, inputs=["before:0"], originals=["loop"], outputs=[rules.desc("loop", 0)],
        subgraphs=["body"],
    )  # fmt: skip
    main = rules.model(op("before", "Relu", 0, "before"), calls, op("after", "Relu", 2, "after", ["loop:0"]), name="m")
    main["graph"][0]["name"] = "main"
    argument = rules.op("arg", "Data", attrs=[rules.attr("_parent_node_index", i=0)], outputs=[rules.desc()])
    main["graph"].append({"name": "body", "op": [argument, op("step", "Tanh", 1, "step", ["arg:0"])]})
    book = RuleBook([read_rule_file(rules.write(tmp_path / "main.json", main))], by_model=True)
    pairs = match_offline(
        read_om(tmp_path / "npu", side="target"), read_npy_folder(tmp_path / "golden", side="golden"), book
    )
    found = {pair.target.id: pair for pair in pairs.pairs if pair.target is not None}
    partners = {
        name.partition(".")[0]: pair.golden.node.name
        for name, pair in found.items()
        if "input" in name and pair.golden is not None
    }
    assert partners == inputs
    assert flow(pairs) == [("before", 0, "step", 0)]
    assert {pair.reason.expectation.value for pair in found.values() if pair.golden is None} == {"expected"}
    assert not silent_operators(pairs.target), "a caller leaves no file of its own"


def test_operators_of_a_subgraph_with_files_of_its_own_are_told_once(tmp_path):
    """A device may number both folders alike, so that only the name of the model tells their executions apart."""
    for model, name in (("main", "before"), ("body", "step")):
        OmFolder(om_tree(tmp_path / "npu", model=model, model_id=1, step=0)).op("Relu", name, at=1, outputs=[X])
        GoldenFolder(tmp_path / "golden").output(name, 0, X)
    main = rules.model(
        op("before", "Relu", 0, "before"),
        rules.op("call", "PartitionedCall", number=1, inputs=["before:0"], originals=["call"], subgraphs=["body"]),
        name="m",
    )
    main["graph"][0]["name"] = "main"
    main["graph"].append({"name": "body", "op": [op("step", "Relu", 1, "step", ["before:0"])]})
    book = RuleBook([read_rule_file(rules.write(tmp_path / "main.json", main))], by_model=True)
    pairs = match_offline(
        read_om(tmp_path / "npu", side="target"), read_npy_folder(tmp_path / "golden", side="golden"), book
    )
    assert sorted(key.name for key in pairs.target.nodes) == ["before", "call", "step"]
    assert [(edge.producer.name, edge.consumer.name) for edge in pairs.target.edges] == [
        ("before", "call"),
        ("before", "step"),
    ]
