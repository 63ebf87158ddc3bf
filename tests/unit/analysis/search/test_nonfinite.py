"""Where NaN and infinity begin in one dump: which tensor is named, what inherits it, what was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from comparison_rows import IN, OUT, PARAM, edge, key, tensor
from examined_rows import INF, MINUS, NAN, argument, concluded, row
from work_done import growth

from probe_flow.analysis.search.states import State, state_of
from probe_flow.comparing.examine import EXAMINED
from probe_flow.records import (
    CallFacts,
    Execution,
    Finding,
    FindingKind,
    Flow,
    Measurement,
    Mode,
    Node,
    NodeKey,
    NodeKind,
    Pair,
    Phase,
    Role,
    Row,
    Statistics,
    Status,
    TensorKind,
    Verdict,
)


def begins(findings: list[Finding]) -> list[int | None]:
    return [each.row for each in findings if each.kind is FindingKind.NONFINITE_ORIGIN and each.fails]


def roles(verdicts: list[Verdict]) -> list[Role]:
    return [each.role for each in verdicts]


ORIGIN, HEIR, CLEAN = Role.ORIGIN, Role.INHERITED, Role.CLEAN


def test_an_output_that_is_not_finite_while_its_inputs_are_is_where_it_begins() -> None:
    rows = [row("a"), row("b", IN, size=6e4), row("b", OUT, 0, INF), row("c", IN, 0, INF), row("c", OUT, 0, NAN)]

    (found,), verdicts = concluded(rows)

    assert found.row == 2
    assert (
        found.evidence == "3 inf of 100 elements; its input is finite, up to 6e+04 in size; 2 later tensors inherit it"
    )
    assert found.size == "3 inf of 100 elements"
    assert found.severity == 2
    assert roles(verdicts) == [CLEAN, CLEAN, ORIGIN, HEIR, HEIR]
    assert [each.status for each in verdicts] == [Status.PASS, Status.PASS, *[Status.FAIL] * 3]


def test_by_the_graph_only_what_is_fed_inherits_and_two_places_are_two_findings() -> None:
    rows = [row("a", OUT, 0, NAN), row("b", OUT, 0, NAN), row("c", IN), row("c", OUT, 0, NAN)]
    edges = (edge("a", "b"), edge("x", "c"))

    findings, verdicts = concluded(rows, flow=Flow.GRAPH, edges=edges)

    assert begins(findings) == [0, 3]
    assert roles(verdicts) == [ORIGIN, HEIR, CLEAN, ORIGIN]


def test_without_any_input_in_the_dump_the_first_in_order_is_blamed_and_later_ones_inherit() -> None:
    findings, verdicts = concluded([row("a"), row("b", OUT, 0, NAN), row("c", OUT, 0, NAN)])
    assert begins(findings) == [1]
    assert "nothing before it in the dump is NaN or infinite" in findings[0].evidence
    assert roles(verdicts) == [CLEAN, ORIGIN, HEIR]


def test_an_input_that_nothing_wrote_is_where_it_begins_and_is_one_finding_however_often_it_is_read() -> None:
    rows = [row("a", IN, 0, NAN), row("a"), row("b", IN, 0, NAN), row("b", OUT, 0, NAN), row("c", IN, 0, NAN, count=7)]

    findings, verdicts = concluded(rows)

    assert begins(findings) == [0]
    assert findings[0].evidence.startswith("3 NaN of 100 elements; nothing in the dump wrote it")
    assert roles(verdicts) == [ORIGIN, CLEAN, HEIR, HEIR, HEIR]


def test_a_weight_that_is_nan_is_found_though_nan_was_there_before_it() -> None:
    rows = [
        row("a", OUT, 0, NAN),
        row("fc", IN),
        row("fc", PARAM, "weight", NAN),
        row("fc", OUT, 0, NAN),
        row(key("fc", call=1), PARAM, "weight", NAN),
    ]

    findings, verdicts = concluded(rows)

    assert begins(findings) == [0, 2]
    assert roles(verdicts) == [ORIGIN, CLEAN, ORIGIN, HEIR, HEIR]


@pytest.mark.parametrize(
    "rows",
    [
        [argument("masked_fill", -math.inf), row("masked_fill", OUT, 0, MINUS), row("softmax", IN, 0, MINUS)],
        [argument("clamp", math.inf), row("clamp")],
        [row("add", IN, 0, MINUS), row("add", OUT, 0, MINUS)],
    ],
    ids=["argument", "limit", "mask"],
)
def test_infinity_that_was_asked_for_fails_nothing_and_is_named_once(rows: list[Row]) -> None:
    findings, verdicts = concluded([*rows, row("softmax")])
    (found,) = findings
    assert (found.kind, found.fails, found.row) == (FindingKind.SUSPECT, False, 0)
    assert Status.FAIL not in {each.status for each in verdicts}
    assert roles(verdicts) == [CLEAN] * len(verdicts)


@pytest.mark.parametrize("op_type", ["aten.full.default", "Fill", "MaskedFill", "masked_fill_", "empty_like"])
def test_operators_that_fill_or_leave_memory_as_it_is_may_give_infinities(op_type: str) -> None:
    findings, _ = concluded([row("a", OUT, 0, MINUS, INF)], op_type=op_type)
    assert begins(findings) == []


@pytest.mark.parametrize("op_type", ["MatMul", "aten.exp.default", "Fillet", "Log"])
def test_other_operators_may_not(op_type: str) -> None:
    assert begins(concluded([row("a", OUT, 0, MINUS)], op_type=op_type)[0]) == [0]


def test_memory_that_was_not_initialised_may_hold_nan_and_nothing_else_may() -> None:
    assert begins(concluded([row("a", OUT, 0, NAN)], op_type="empty")[0]) == []
    assert begins(concluded([row("a", OUT, 0, NAN)], op_type="full")[0]) == [0]


def test_nan_out_of_infinities_that_were_asked_for_begins_there() -> None:
    rows = [
        argument("masked_fill", -math.inf), row("masked_fill", OUT, 0, MINUS), row("softmax", IN, 0, MINUS),
        row("softmax", OUT, 0, NAN), row("matmul", IN, 0, NAN), row("matmul", OUT, 0, NAN),
    ]  # fmt: skip

    findings, verdicts = concluded(rows)

    assert begins(findings) == [3]
    assert (
        "out of infinity in `softmax.input.0`, which was asked for; 2 later tensors inherit it" in findings[0].evidence
    )
    assert roles(verdicts) == [CLEAN, CLEAN, CLEAN, ORIGIN, HEIR, HEIR]


def test_positive_infinity_from_outside_is_no_mask() -> None:
    assert begins(concluded([row("add", IN, 0, INF), row("add")])[0]) == [0]


MASKED = [row("add", IN, 0, MINUS), row("add", OUT, 0, MINUS), row("softmax", IN, 0, MINUS), row("softmax")]
"""A mask that nothing in the dump wrote, and what becomes of it."""


def gradient(name: str) -> NodeKey:
    return NodeKey(Execution(0, 0, 1), name, 0, Phase.BACKWARD)


@pytest.mark.parametrize("holds", [MINUS, INF])
def test_infinity_of_a_gradient_does_not_come_from_a_mask(holds: str) -> None:
    rows = [*MASKED, row(gradient("mul"), IN, 0, holds), row(gradient("mul"), OUT, 0, holds)]

    findings, verdicts = concluded(rows)

    assert begins(findings) == [4]
    assert roles(verdicts) == [CLEAN, CLEAN, CLEAN, CLEAN, ORIGIN, HEIR]


def test_infinity_that_the_gradient_of_a_mask_makes_is_its_own() -> None:
    rows = [*MASKED, row(gradient("softmax"), IN), row(gradient("softmax"), OUT, 0, INF)]
    assert begins(concluded(rows)[0]) == [5]


def test_nan_that_nothing_wrote_may_be_the_sum_of_infinities_before_it() -> None:
    rows = [row("exp", IN), row("exp", OUT, 0, INF, MINUS), row("mul", IN, 0, NAN), row("mul", OUT, 0, NAN)]

    findings, verdicts = concluded(rows)

    assert begins(findings) == [1]
    assert roles(verdicts) == [CLEAN, ORIGIN, HEIR, HEIR]


def test_positive_infinity_that_nothing_wrote_does_not_come_from_a_mask() -> None:
    findings, _ = concluded([*MASKED, row("mul", IN, 0, INF), row("mul", OUT, 0, INF)])
    assert begins(findings) == [4]


def test_negative_infinity_that_nothing_wrote_may_be_the_mask() -> None:
    findings, _ = concluded([*MASKED, row("add_2", IN, 1, MINUS), row("add_2", OUT, 0, MINUS)])
    assert begins(findings) == []


def test_a_module_inherits_from_the_call_inside_it() -> None:
    inner = NodeKey(Execution(0, 0, 1), "Torch.exp", 0, Phase.FORWARD)
    outer = NodeKey(Execution(0, 0, 1), "Module.fc.Linear", 0, Phase.FORWARD)
    rows = [row(outer, IN), row(outer, OUT, 0, INF), row(inner, IN), row(inner, OUT, 0, INF)]
    nodes = {
        outer: Node(outer, "Linear", order=0, facts=CallFacts(NodeKind.MODULE)),
        inner: Node(inner, "exp", order=1, facts=CallFacts(NodeKind.API, caller="Module.fc.Linear.forward.0")),
    }

    findings, verdicts = concluded(rows, nodes=nodes)

    assert begins(findings) == [3]
    assert roles(verdicts) == [CLEAN, HEIR, CLEAN, ORIGIN]


def test_a_gradient_inherits_from_its_forward_pass() -> None:
    forward, backward = (
        NodeKey(Execution(0, 0, 1), "Torch.exp", 0, phase) for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    rows = [row(forward, IN), row(forward, OUT, 0, INF), row(backward, IN), row(backward, OUT, 0, NAN)]
    findings, verdicts = concluded(rows)
    assert begins(findings) == [1]
    assert roles(verdicts) == [CLEAN, ORIGIN, CLEAN, HEIR]


def test_a_collective_inherits_from_the_input_of_another_rank() -> None:
    def call(name: str, rank: int) -> NodeKey:
        return key(name, rank=rank)

    rows = [
        row(call("Distributed.all_reduce", 0), IN), row(call("Distributed.all_reduce", 0), OUT, 0, NAN),
        row(call("exp", 1), IN), row(call("exp", 1), OUT, 0, NAN),
        row(call("Distributed.all_reduce", 1), IN, 0, NAN), row(call("Distributed.all_reduce", 1), OUT, 0, NAN),
    ]  # fmt: skip

    findings, verdicts = concluded(rows)

    assert begins(findings) == [3]
    assert roles(verdicts) == [CLEAN, HEIR, CLEAN, ORIGIN, HEIR, HEIR]


def test_what_lies_in_a_buffer_before_it_is_written_explains_nothing() -> None:
    rows = [row("Distributed.recv", IN, 0, MINUS), row("Distributed.recv", OUT, 0, NAN)]
    findings, verdicts = concluded(rows)
    assert begins(findings) == [1]
    assert roles(verdicts) == [CLEAN, ORIGIN]


@pytest.mark.parametrize(
    ("name", "is_memory"),
    [
        ("Tensor.copy_", True), ("aten.copy.default", True), ("Tensor.zero_", True), ("Tensor.normal_", True),
        ("Tensor.__setitem__", True),
        ("Torch.normal", False), ("Tensor.masked_fill_", False), ("aten._to_copy.default", False),
    ],
)  # fmt: skip
def test_the_first_input_of_calls_that_overwrite_it_is_memory(name: str, is_memory: bool) -> None:
    findings, verdicts = concluded([row(name, IN, 0, NAN), row(name)])
    assert begins(findings) == ([] if is_memory else [0])
    assert (verdicts[0].rule_ids == ("unread",)) is is_memory


@pytest.mark.parametrize(("reader", "accused"), [("Tensor.view", []), ("Functional.linear", [0])])
def test_nan_that_no_call_computes_with_is_memory(reader: str, accused: list[int]) -> None:
    """FSDP hands out buffers with `new_empty`, and views of them, before shards are copied into them."""
    rows = [row("Tensor.narrow", IN, 0, NAN), row("Tensor.narrow", OUT, 0, NAN), row(reader, IN, 0, NAN), row(reader)]
    findings, verdicts = concluded(rows, op_types={each.node.name: each.node.name.rpartition(".")[2] for each in rows})
    assert begins(findings) == accused
    assert [each.rule_ids for each in verdicts[:3]] == [("nonfinite",) if accused else ("unread",)] * 3


def test_where_nothing_depends_on_anything_each_node_is_a_finding() -> None:
    findings, verdicts = concluded([row("a", OUT, 0, NAN), row("b", OUT, 0, INF), row("c")], flow=Flow.NONE)
    assert begins(findings) == [0, 1]
    assert roles(verdicts) == [ORIGIN, ORIGIN, CLEAN]


def test_in_time_a_node_inherits_from_itself_alone() -> None:
    names = [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    rows = [row(key(name, step=step), OUT, 0, *([NAN] if (name, step) != ("a", 0) else [])) for name, step in names]
    findings, verdicts = concluded(rows, flow=Flow.TIME)
    assert begins(findings) == [1, 2]
    assert roles(verdicts) == [CLEAN, ORIGIN, ORIGIN, HEIR]


def test_several_outputs_of_one_node_are_one_finding() -> None:
    findings, verdicts = concluded([row("split", OUT, 0, NAN), row("split", OUT, 1, NAN)])
    (found,) = findings
    assert found.evidence.endswith("; 1 more tensor of it alike")
    assert roles(verdicts) == [ORIGIN, ORIGIN]


def recorded(**figures: Any) -> Row:
    ref = tensor("a", kind=TensorKind.STATISTICS, recorded=Statistics(**figures))
    return Row(Pair(ref, None, "", EXAMINED), Measurement.of(Mode.STATISTICS, {}, ref, count=4))


@pytest.mark.parametrize(
    ("figures", "state"),
    [
        ({"min": 0.0, "max": 1.0}, None),
        ({"min": 0.0, "max": 3e38, "mean": math.inf, "l2norm": math.inf}, None),
        ({"min": math.nan, "max": math.nan}, State(nan=True, positive=False, negative=False)),
        ({"min": -math.inf, "max": 1.0}, State(nan=False, positive=False, negative=True)),
        ({"min": 1.0, "max": math.inf}, State(nan=False, positive=True, negative=False)),
        ({"min": 0.0, "max": 1.0, "nan": 2}, State(nan=True, positive=False, negative=False)),
        ({"min": 0.0, "max": 1.0, "inf": 2}, State(nan=False, positive=True, negative=False)),
        ({"mean": math.nan}, State(nan=True, positive=False, negative=False)),
        ({"min": -(10**400), "max": 10**400}, None),
        ({}, None),
    ],
)
def test_what_recorded_statistics_say(figures: dict[str, Any], state: State | None) -> None:
    assert state_of(recorded(**figures)) == state


@pytest.mark.parametrize("flow", Flow)
def test_the_search_is_linear(flow: Flow) -> None:
    """Each call reads what nothing wrote, and every tensor is NaN."""

    def work(count: int) -> Callable[[], object]:
        rows = [each for n in range(count) for each in (row(f"n{n}", IN, 0, NAN, count=n), row(f"n{n}", OUT, 0, NAN))]
        edges = (edge("n0", "n1"),) if flow is Flow.GRAPH else ()
        return lambda: concluded(rows, flow=flow, edges=edges)

    assert growth(work, 300) < 2.1
