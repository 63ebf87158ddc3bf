from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from report_builders import (
    GOLDEN_ROOT,
    TARGET_ROOT,
    catalog,
    comparison,
    good_row,
    key,
    measurement,
    missing_golden,
    missing_target,
    row,
    stats,
    tensor,
)
from work_done import growth

from probe_flow.record.json_values import json_value
from probe_flow.record.jsonl import write_comparison_jsonl, write_details_jsonl, write_nodes_jsonl
from probe_flow.record.schemas import published, schema
from probe_flow.record.types.nodes import ArgumentRecord, EdgeRecord, NodeRecord
from probe_flow.record.types.rows import RowRecord, SideRecord
from probe_flow.records import (
    CallFacts,
    Catalog,
    DeviceFacts,
    Edge,
    ErrorMap,
    Excuse,
    ExcuseKind,
    Group,
    Mode,
    Node,
    NodeKind,
    Pair,
    Pairs,
    Relation,
    RuleFacts,
    SlotRole,
    Statistics,
    Status,
    TensorDetail,
    TensorKind,
)
from probe_flow.testing import builders

COMPARISON = Draft202012Validator(schema("comparison"))
NODES = Draft202012Validator(schema("nodes"))


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not strict JSON")


def lines(path: Path, validator: Draft202012Validator) -> list[dict[str, Any]]:
    records = [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]
    for record in records:
        validator.validate(record)
    return records


def written(tmp_path: Path, *rows: Any, **more: Any) -> list[dict[str, Any]]:
    path = tmp_path / "comparison.jsonl"
    write_comparison_jsonl(comparison(*rows, **more), path)
    return lines(path, COMPARISON)


def nodes_written(tmp_path: Path, *rows: Any, **more: Any) -> list[dict[str, Any]]:
    path = tmp_path / "nodes.jsonl"
    write_nodes_jsonl(comparison(*rows, **more), path)
    return lines(path, NODES)


def on_axes(pair: Pair, *transform: str) -> Pair:
    return Pair.on_terms(pair.target, pair.golden, pair.group, pair.rule, transform=transform)


def test_a_pair_says_in_which_order_its_sides_give_their_axes(tmp_path: Path) -> None:
    plain = good_row()
    turned = replace(plain, order=1, pair=on_axes(plain.pair, "target:nhwc_to_nchw", "golden:nhwc_to_nchw"))
    first, second = written(tmp_path, plain, turned)
    assert "transform" not in first
    assert second == {**first, "order": 1, "transform": ["target:nhwc_to_nchw", "golden:nhwc_to_nchw"]}


def test_a_pair_says_that_it_should_have_been_compared(tmp_path: Path) -> None:
    rows = good_row(0), missing_golden(1), missing_golden(2, "Mul_8", expected=True), missing_target(3)
    assert [record.get("missing") for record in written(tmp_path, *rows)] == [None, True, None, None]


@pytest.mark.parametrize(("excess", "text"), [(0.25, 0.25), (None, None), (math.inf, "inf")])
def test_a_pair_says_how_much_of_its_error_is_unexplained(tmp_path: Path, excess: float | None, text: object) -> None:
    found = good_row()
    (record,) = written(tmp_path, replace(found, verdict=replace(found.verdict, excess=excess)))
    assert record["excess"] == text


def test_a_pair_has_exactly_the_keys_of_the_contract_in_their_order(tmp_path: Path) -> None:
    (record,) = written(tmp_path, good_row())
    assert " ".join(record) == (
        "order rank graph step node name call phase op_type group direction index kind target golden reference rule "
        "confidence metrics verdict reason role excess"
    )
    assert " ".join(record["target"]) == (
        "name file dtype shape layout value requires_grad checksum min max mean l2norm nan inf"
    )


def test_the_written_keys_are_those_of_the_declared_types_in_their_order(tmp_path: Path) -> None:
    good = good_row()
    excuse = Excuse(ExcuseKind.WAIVED, "waived until 2026-12-31")
    accepted = Excuse(ExcuseKind.ACCEPTED, "accepted")
    pair = on_axes(good.pair, "golden:nhwc_to_nchw")
    rows = [replace(good, pair=pair, verdict=replace(good.verdict, excuse=each)) for each in (excuse, accepted)]
    missing, waived, allowed = written(tmp_path, missing_golden(), *rows)
    assert tuple({**missing, **waived, **allowed}) == published(RowRecord)
    assert tuple(waived["target"]) == published(SideRecord)
    node, other = key("Mul_1"), key("Add_1")
    nodes = {node: Node(node, "Mul"), other: Node(other, "Add", order=1)}
    side = catalog("target", [tensor()], nodes=nodes, edges=(Edge(node, 0, other, 1),))
    records = nodes_written(tmp_path, good, target=side)
    assert all(tuple(record) == published(NodeRecord) for record in records)
    assert tuple(records[1]["edges"][0]) == published(EdgeRecord)
    assert tuple(records[1]["arguments"][0]) == published(ArgumentRecord)


def test_a_node_and_its_rows_have_the_name_of_its_entry_in_the_dump(tmp_path: Path) -> None:
    conv = replace(key("Functional.conv2d"), call=2)
    ref = tensor(node=conv)
    entry = Node(conv, "conv2d", facts=CallFacts(NodeKind.API))
    side = catalog("target", [ref], nodes={conv: entry})
    given = row(0, target=ref, golden=tensor("add_1", side="golden"), measured=measurement())
    (record,) = written(tmp_path, given, target=side)
    assert (record["node"], record["name"]) == ("Functional.conv2d", "Functional.conv2d.2.forward")
    target, golden = nodes_written(tmp_path, given, target=side)
    assert (target["node"], target["name"]) == ("Functional.conv2d", "Functional.conv2d.2.forward")
    assert (golden["node"], golden["name"]) == ("add_1", "add_1")


def test_a_pair_says_what_was_measured_with_names_relative_to_the_dumps(tmp_path: Path) -> None:
    (record,) = written(tmp_path, good_row(3, reasons=("MaxRelativeErr is 0.5",), status=Status.FAIL))
    assert record["order"] == 3
    assert (record["rank"], record["graph"], record["step"]) == (0, 1, 0)
    assert (record["node"], record["op_type"], record["direction"], record["index"]) == (
        "Add_1",
        "AddV2",
        "output",
        "0",
    )
    assert record["target"] == {
        "name": "Add_1.output.0",
        "file": "AddV2.Add_1.1.2.1706596912161941",
        "dtype": "float16",
        "shape": [2, 2],
        "layout": "ND",
        "value": None,
        "requires_grad": None,
        "checksum": None,
        "min": -1.0,
        "max": 2.5,
        "mean": 0.5,
        "l2norm": 3.0,
        "nan": 0,
        "inf": 0,
    }
    assert record["golden"]["file"] == "add_1.OUTPUT.0.npy"
    assert record["reference"] is None
    assert record["metrics"]["max_abs_err"] == 0.0999999046325684
    assert (record["verdict"], record["role"]) == ("fail", "clean")
    assert record["reason"] == "MaxRelativeErr is 0.5"


def test_special_values_are_words_and_missing_ones_null(tmp_path: Path) -> None:
    metrics = {"b": math.nan, "a": math.inf, "c": -math.inf, "d": None, "e": 2**60 + 1, "f": True}
    measured = measurement(metrics, target=stats(max=math.nan, min=-math.inf, mean=None))
    (record,) = written(tmp_path, good_row(measured=measured))
    assert record["metrics"] == {"a": "inf", "b": "nan", "c": "-inf", "d": None, "e": 1152921504606846977, "f": True}
    assert list(record["metrics"]) == ["a", "b", "c", "d", "e", "f"]
    assert (record["target"]["max"], record["target"]["min"], record["target"]["mean"]) == ("nan", "-inf", None)


def test_numpy_numbers_that_slip_into_a_record_become_plain(tmp_path: Path) -> None:
    measured = measurement({"a": np.float64(0.5), "b": np.int64(7), "c": np.float64("nan")})
    (record,) = written(tmp_path, good_row(measured=measured))
    assert record["metrics"] == {"a": 0.5, "b": 7, "c": "nan"}


def test_a_missing_side_is_null_and_the_reason_says_why(tmp_path: Path) -> None:
    no_golden, no_target = written(tmp_path, missing_golden(0), missing_target(1))
    assert no_golden["golden"] is None
    assert no_golden["metrics"] == {}
    assert no_golden["verdict"] == "unmatched_target"
    assert no_golden["reason"] == "no golden operator corresponds to `Mul_9`"
    assert no_target["target"] is None
    assert (no_target["node"], no_target["op_type"]) == ("sub_3", "aten.add.Tensor")


def test_reasons_of_policy_matcher_and_measurement_stand_once_each(tmp_path: Path) -> None:
    measured = measurement(notes=("shape differs", "cosine is low"))
    (record,) = written(tmp_path, good_row(reasons=("cosine is low",), measured=measured))
    assert record["reason"] == "cosine is low; shape differs"


def test_a_reason_that_another_one_holds_is_not_said_again(tmp_path: Path) -> None:
    broken = tensor(kind=TensorKind.UNREADABLE, reason="header ends early", shape=None, dtype="")
    verdict = ("the target is unreadable: header ends early",)
    (record,) = written(tmp_path, row(target=broken, golden=tensor(), status=Status.ERROR, reasons=verdict))
    assert record["reason"] == "the target is unreadable: header ends early"


def test_an_unreadable_tensor_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    broken = tensor(kind=TensorKind.UNREADABLE, reason="header ends early", shape=None, dtype="")
    (record,) = written(tmp_path, row(target=broken, status=Status.ERROR))
    assert (record["kind"], record["verdict"], record["reason"]) == ("unreadable", "error", "header ends early")
    assert record["target"]["shape"] is None


def test_recorded_statistics_and_checksums_stand_in_for_measured_ones(tmp_path: Path) -> None:
    left = tensor(kind=TensorKind.STATISTICS, recorded=Statistics(min=1, max=4), checksum="a1b2c3d4")
    (record,) = written(tmp_path, row(target=left, status=Status.UNMATCHED_TARGET))
    assert (record["target"]["min"], record["target"]["max"], record["target"]["nan"]) == (1, 4, None)
    assert record["target"]["checksum"] == "a1b2c3d4"


def test_scalars_keep_their_value_and_slots_their_path(tmp_path: Path) -> None:
    scalar = tensor(
        kind=TensorKind.SCALAR,
        role=SlotRole.INPUT,
        path=(1, "eps"),
        value=math.nan,
        shape=(),
        requires_grad=False,
        source=None,
    )
    (record,) = written(tmp_path, row(target=scalar, measured=measurement({}, mode=Mode.VALUE)))
    assert (record["index"], record["target"]["value"], record["target"]["shape"]) == ("1.eps", "nan", [])
    assert record["target"]["requires_grad"] is False
    assert record["target"]["file"] is None


def test_both_tensors_of_a_self_pair_are_relative_to_the_target(tmp_path: Path) -> None:
    pair = row(target=tensor(), golden=tensor(role=SlotRole.INPUT), rule="self", group="s", measured=measurement())
    (record,) = written(tmp_path, pair, groups=(Group("s", Relation.SELF, (), ()),))
    assert record["golden"]["file"] == "AddV2.Add_1.1.2.1706596912161941"


def test_a_path_outside_both_dumps_is_only_named(tmp_path: Path) -> None:
    outside = tensor(extents=(), source="/home/someone/secret/add.bin")
    (record,) = written(tmp_path, row(target=outside, status=Status.SKIPPED))
    assert record["target"]["file"] == "add.bin"


@pytest.mark.parametrize(
    "name", ["a\nb", 'q"uote', "sep\u2028\u2029\x85", "emoji \U0001f600", "surrogate \udc80", "[red]x"]
)
def test_odd_names_stay_one_line_and_come_back(tmp_path: Path, name: str) -> None:
    (record,) = written(tmp_path, good_row(name=name))
    assert record["node"] == name


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = [good_row(0), missing_golden(1), missing_target(2)]
    texts = []
    for number in range(2):
        write_comparison_jsonl(comparison(*rows), tmp_path / f"{number}.jsonl")
        texts.append((tmp_path / f"{number}.jsonl").read_bytes())
    assert texts[0] == texts[1]
    assert texts[0].endswith(b"\n")


def test_nodes_of_both_sides_stand_with_stack_edges_and_arguments(tmp_path: Path) -> None:
    first, second = key("Mul_1"), key("Add_1")
    nodes = {
        first: Node(first, "Mul", order=0),
        second: Node(
            second,
            "AddV2",
            parent="layers.0",
            originals=("add", "cast"),
            stack_id="s",
            order=1,
            facts=DeviceFacts("dump/Add", 7, slices=("a", "b")),
            rules=RuleFacts("add", 4, ("fuse",), (("b", "2"),)),
        ),
    }
    arguments = [
        tensor(role=SlotRole.INPUT, path=(0,), shape=(4,)),
        tensor(role=SlotRole.INPUT, path=(1, "eps"), kind=TensorKind.SCALAR, value=1e-5, shape=()),
    ]
    side = catalog(
        "target", arguments, nodes=nodes, edges=(Edge(first, 0, second, 1),), stacks={"s": ("model.py:7", "main.py:1")}
    )
    records = nodes_written(tmp_path, good_row(), target=side)
    assert [(record["side"], record["node"]) for record in records] == [
        ("target", "Mul_1"),
        ("target", "Add_1"),
        ("golden", "add_1"),
    ]
    record = records[1]
    assert " ".join(record) == (
        "side order rank graph step node name call phase op_type parent edges stack originals passes attributes "
        "arguments"
    )
    assert record["edges"] == [{"input": 1, "producer": "Mul_1", "call": 0, "phase": "forward", "output": 0}]
    assert record["stack"] == ["model.py:7", "main.py:1"]
    assert (record["parent"], record["originals"], record["passes"]) == ("layers.0", ["add", "cast"], ["fuse"])
    assert record["attributes"] == {
        "b": "2", "file": "dump/Add", "op": "add", "op_id": "4", "slices": ["a", "b"], "task_id": 7
    }  # fmt: skip
    assert record["arguments"][1] == {
        "direction": "input",
        "index": "1.eps",
        "path": [1, "eps"],
        "kind": "scalar",
        "dtype": "float16",
        "shape": [],
        "value": 1e-5,
    }


def test_tensors_of_a_node_come_together_wherever_the_catalog_has_them(tmp_path: Path) -> None:
    names = ("a", "b", "a", "c", "b")
    tensors = [tensor(name, path=(place,)) for place, name in enumerate(names)]
    nodes = {key(name): Node(key(name), "op") for name in "dabc"}
    records = nodes_written(tmp_path, good_row(), target=catalog("target", tensors, nodes=nodes))
    found = {
        each["node"]: [leaf["index"] for leaf in each["arguments"]] for each in records if each["side"] == "target"
    }
    assert found == {"d": [], "a": ["0", "2"], "b": ["1", "4"], "c": ["3"]}


def test_a_stack_stands_once_for_each_side(tmp_path: Path) -> None:
    def side_of(names: str, stacks: dict[str, tuple[str, ...]], which: str) -> Catalog:
        nodes = {key(name): Node(key(name), "Add", stack_id=stack, order=place)
                 for place, (name, stack) in enumerate(zip(names, "stsxyt", strict=False))}  # fmt: skip
        return catalog(which, [], nodes=nodes, stacks=stacks)

    stacks = {"s": ("a.py:1", "main.py:1"), "t": ("b.py:2",), "x": (), "y": ("a.py:1", "main.py:1")}
    given = comparison(target=side_of("ABCDEF", stacks, "target"), golden=side_of("GHI", {"s": ("b.py:2",)}, "golden"))
    write_nodes_jsonl(given, tmp_path / "nodes.jsonl")
    found = [record["stack"] for record in lines(tmp_path / "nodes.jsonl", NODES)]
    assert found == [["a.py:1", "main.py:1"], ["b.py:2"], 1, [], 1, 2, ["b.py:2"], [], 7]


def test_no_file_tells_where_the_dumps_lie(tmp_path: Path) -> None:
    given = comparison(good_row(0), missing_golden(1), missing_target(2))
    write_comparison_jsonl(given, tmp_path / "comparison.jsonl")
    write_nodes_jsonl(given, tmp_path / "nodes.jsonl")
    text = (tmp_path / "comparison.jsonl").read_text() + (tmp_path / "nodes.jsonl").read_text()
    assert TARGET_ROOT not in text
    assert GOLDEN_ROOT not in text


def test_values_of_any_kind_become_json() -> None:
    value = {"c": 1 + 2j, 3: {"x", "y"}, "n": np.float32(0.5), "t": (None, b"z"), "o": slice(1, 2)}
    expected = {
        "c": {"real": 1.0, "imag": 2.0},
        "3": ["x", "y"],
        "n": 0.5,
        "t": [None, "b'z'"],
        "o": "slice(1, 2, None)",
    }
    assert json_value(value) == expected


def test_values_nested_without_end_are_cut() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert json.dumps(json_value(value)).count("[") == 32


def test_a_closer_look_tells_where_the_errors_are(tmp_path: Path) -> None:
    found = ErrorMap((2, 3), (0,), (1,), (1, 1), (0.0, 0.5, None, math.inf, 0.0, None), alike=(2,), mismatch=(5,))
    detail = TensorDetail(0, (1.0,), (math.nan,), (0.0, 1.0), (2,), 4, (found,))
    write_details_jsonl(comparison(good_row(0), details={0: detail}), tmp_path / "details.jsonl")
    (record,) = lines(tmp_path / "details.jsonl", Draft202012Validator(schema("details")))
    assert record["maps"] == [
        {
            "shape": [2, 3],
            "down": [0],
            "across": [1],
            "cell": [1, 1],
            "errors": [0, 0.5, None, "inf", 0, None],
            "alike": [2],
            "mismatch": [5],
        }
    ]


def test_numbers_of_a_closer_look_are_written_as_python_does(tmp_path: Path) -> None:
    found = ErrorMap((3,), (), (0,), (1, 2), (1e-05, None))
    detail = TensorDetail(3, (1e-07, -0.0, 1e16), (math.nan, -math.inf, 0.1), (0.0, 2.5e-9), (7,), 2, (found,))
    write_details_jsonl(comparison(good_row(0), details={0: detail}), tmp_path / "details.jsonl")
    assert (tmp_path / "details.jsonl").read_text() == (
        '{"order": 0, "start": 3, "target": [1e-07, -0.0, 1e+16], "golden": ["nan", "-inf", 0.1], '
        '"edges": [0.0, 2.5e-09], "counts": [7], "equal": 2, "maps": [{"shape": [3], "down": [], "across": [0], '
        '"cell": [1, 2], "errors": [1e-05, null], "alike": [], "mismatch": []}]}\n'
    )


def test_nodes_are_written_in_linear_time(tmp_path: Path) -> None:
    """With stacks, edges and several tensors a node, in the order of the dump and out of it."""

    def work(count: int) -> Callable[[], None]:
        keys = [builders.key(f"n{number}") for number in range(count)]
        tensors = [builders.tensor(each, role) for role in (SlotRole.INPUT, SlotRole.OUTPUT) for each in keys]
        edges = tuple(Edge(one, 0, other, 0) for one, other in pairwise(keys))
        side = builders.catalog(tensors, edges=edges, stacks={"s": ("File a.py, line 1",)})
        pairs = Pairs(side, replace(side, side="golden"), ())
        return lambda: write_nodes_jsonl(builders.comparison(pairs=pairs), tmp_path / "nodes.jsonl")

    assert growth(work, 300) < 2.1
