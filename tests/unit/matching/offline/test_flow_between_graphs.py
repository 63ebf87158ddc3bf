"""Graphs of one step: what one is fed and another gives are one tensor of the user's graph, whatever the golden is."""

from __future__ import annotations

import numpy as np
import pytest
import rule_builders as rules
from offline_builders import match_offline
from om_writer import GoldenFolder, OmFolder, om_tree

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
