"""Levels of calls, means and norms, and sudden growth in one dump."""

from __future__ import annotations

import math
from typing import Any

import pytest
from comparison_rows import IN, OUT, PARAM
from examined_rows import INF, MINUS, NAN, argument, overflowing, recorded, row

from probe_flow.records import Execution, FindingKind, Node, NodeKey, Phase, Role, Row, SlotRole, Status


def rules(rows: list[Row], **more: Any) -> list[tuple[str, ...]]:
    return [each.rule_ids for each in overflowing(rows, **more)[1]]


def test_each_call_has_the_level_of_what_it_did() -> None:
    rows = [
        row("exp", IN), row("exp", OUT, 0, INF), row("sub", IN, 0, INF), row("sub", OUT, 0, NAN),
        row("isnan", IN, 0, NAN), row("isnan"), row("add", IN), row("add"),
    ]  # fmt: skip
    assert rules(rows) == [
        (), ("nonfinite", "critical"), ("nonfinite", "high"), ("nonfinite", "high"),
        ("nonfinite", "medium"), (), (), (),
    ]  # fmt: skip
    (found,), verdicts = overflowing(rows)
    assert (found.kind, found.row) == (FindingKind.NONFINITE_ORIGIN, 1)
    assert found.evidence.startswith("critical: 3 inf of 100 elements; its input is finite")
    assert [each.role for each in verdicts] == [
        Role.CLEAN, Role.ORIGIN, *[Role.INHERITED] * 3, Role.CLEAN, Role.CLEAN, Role.CLEAN,
    ]  # fmt: skip


def test_a_weight_and_its_gradient_count() -> None:
    rows = [row("fc", IN), row("fc", PARAM, "weight", NAN), row("fc", OUT, 0, NAN)]
    assert rules(rows) == [(), ("nonfinite", "high"), ("nonfinite", "high")]
    key = NodeKey(Execution(0, 0, 1), "Module.fc.Linear.parameters_grad", 0, Phase.NONE)
    assert rules([row(key, SlotRole.PARAMETER_GRAD, "weight", NAN)]) == [("nonfinite", "critical")]


@pytest.mark.parametrize("known", [{"norm": math.nan}, {"mean": math.nan}, {"norm": math.inf}])
def test_mean_and_norm_count(known: dict[str, float]) -> None:
    rows = [recorded("exp", IN), recorded("exp", OUT, **known)]
    (found,), _ = overflowing(rows)
    assert (found.kind, found.row) == (FindingKind.NONFINITE_ORIGIN, 1)
    assert "minimum and maximum finite" in found.evidence
    assert rules(rows)[1] == ("nonfinite", "critical")


def test_a_norm_that_healthy_values_overflow_shows_nothing() -> None:
    rows = [recorded("exp", IN), recorded("exp", OUT, high=300.0, norm=math.inf, dtype="float16", count=1 << 20)]
    assert overflowing(rows)[0] == []


def test_infinity_that_was_asked_for_gives_no_level_and_fails_nothing() -> None:
    rows = [
        row("masked_fill", IN), argument("masked_fill", -math.inf), row("masked_fill", OUT, 0, MINUS),
        row("softmax", IN, 0, MINUS), row("softmax"),
    ]  # fmt: skip
    findings, verdicts = overflowing(rows)
    assert [(each.kind, each.fails) for each in findings] == [(FindingKind.SUSPECT, False)]
    assert {each.status for each in verdicts} == {Status.PASS, Status.WARNING}
    assert {rule for each in verdicts for rule in each.rule_ids} == {"infinite"}


def test_memory_that_a_call_only_writes_gives_no_level() -> None:
    rows = [row("Tensor.copy_", IN, 0, NAN), row("Tensor.copy_", IN, 1), row("Tensor.copy_")]
    findings, verdicts = overflowing(rows)
    assert findings == []
    assert [each.rule_ids for each in verdicts] == [("unread",), (), ()]


def test_sudden_growth_is_named_once_and_fails_nothing() -> None:
    rows = [
        recorded("exp", IN, norm=2.0), recorded("exp", OUT, norm=900.0),
        recorded("pow", IN, norm=900.0), recorded("pow", OUT, norm=9e6),
    ]  # fmt: skip
    (found,), verdicts = overflowing(rows)
    assert (found.kind, found.fails, found.row, found.severity) == (FindingKind.SUSPECT, False, 1, 450.0)
    assert found.evidence == ("high: sudden growth, its size is 900, that of the largest input 2; 1 more call alike")
    assert [(each.status, each.rule_ids) for each in verdicts] == [
        (Status.PASS, ()), (Status.WARNING, ("growth", "high")),
        (Status.PASS, ()), (Status.WARNING, ("growth", "high")),
    ]  # fmt: skip
    assert overflowing(rows, growth=1e6)[0] == []


@pytest.mark.parametrize(
    "rows",
    [
        [recorded("mul", IN, norm=2.0), argument("mul", 65536.0), recorded("mul", OUT, norm=131072.0)],
        [recorded("sum", IN, norm=1e3, count=1 << 20), recorded("sum", OUT, norm=1e6, count=1)],
        [recorded("expand", IN, norm=1.0, count=1), recorded("expand", OUT, norm=1e3, count=1 << 20)],
        [recorded("full", IN, norm=1.0), recorded("full", OUT, norm=1e6)],
        [recorded("arange", OUT, norm=1e6)],
    ],
    ids=["scale", "sum", "expand", "fill", "no input"],
)
def test_growth_that_healthy_steps_explain_is_none(rows: list[Row]) -> None:
    assert overflowing(rows)[0] == []


def test_a_gradient_may_grow_by_the_tensors_of_its_forward_call() -> None:
    forward, backward = (
        NodeKey(Execution(0, 0, 1), "Functional.linear", 0, phase) for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    behind = [recorded(backward, IN, norm=1e-3), recorded(backward, OUT, norm=0.5)]
    assert overflowing([recorded(forward, IN, norm=600.0), recorded(forward, norm=600.0), *behind])[0] == []
    assert len(overflowing([recorded(forward, IN, norm=2.0), recorded(forward, norm=2.0), *behind])[0]) == 1


def test_numbers_beyond_floats_are_no_mistake() -> None:
    rows = [recorded("exp", IN, norm=10**400, count=10**400), argument("exp", 10**400), recorded("exp", norm=10**400)]
    assert overflowing(rows)[0] == []


def test_elements_count_where_no_norm_was_recorded() -> None:
    rows = [row("exp", IN, size=2.0), row("exp", OUT, size=9e4)]
    (found,), _ = overflowing(rows)
    assert "its size is 9e+04, that of the largest input 2" in found.evidence


SIZES = {"sqrt": 1e-3, "rsqrt": 1e3, "reciprocal": 1e6}
"""What each makes of 1e-6."""


@pytest.mark.parametrize("name", list(SIZES))
def test_a_root_of_what_is_small_is_larger_by_its_nature(name: str) -> None:
    """Adam's second moments; the mean square of a small embedding. Of 100 elements the norm is 10 times the size."""
    given, *results = recorded(name, IN, norm=1e-5), *(recorded(name, norm=n * SIZES[name]) for n in (10.0, 2000.0))
    known = {"nodes": {given.node: Node(given.node, name)}, "growth": 100.0}
    assert overflowing([given, results[0]], **known)[0] == []
    assert [each.size for each in overflowing([given, results[1]], **known)[0]] == ["sudden growth"]


def test_the_slope_of_a_root_of_what_is_small_is_steep() -> None:
    """The gradient of the mean square of a small embedding, 1e-4: half of 1e6 times of what reaches it."""
    forward, backward = (
        NodeKey(Execution(0, 0, 1), "Torch.rsqrt", 0, phase) for phase in (Phase.FORWARD, Phase.BACKWARD)
    )
    rows = [
        recorded(forward, IN, norm=1e-3), recorded(forward, norm=1e3),
        recorded(backward, IN, norm=1e-4), recorded(backward, norm=50.0),
    ]  # fmt: skip
    nodes = {key: Node(key, "rsqrt") for key in (forward, backward)}
    assert overflowing(rows, nodes=nodes)[0] == []
    assert len(overflowing(rows)[0]) == 1


def test_a_small_divisor_explains_growth() -> None:
    """The bias correction of Adam's first step."""
    rows = [recorded("div", IN, norm=1e-3), argument("div", 0.001), recorded("div", OUT, norm=1.0)]
    assert overflowing(rows, growth=100.0)[0] == []


def of_step(step: int, name: str, *more: Any) -> Row:
    return row(NodeKey(Execution(0, step, 1), name, 0, Phase.FORWARD), *more)


@pytest.mark.parametrize(("holds", "named"), [(NAN, [1]), (INF, [1, 2])])
def test_weights_that_a_step_of_nan_leaves_are_its_heirs(holds: str, named: list[int]) -> None:
    """An optimizer makes NaN of a gradient that is NaN. What is infinite comes from elsewhere."""
    rows = [
        of_step(0, "layer_norm", PARAM, "weight"), of_step(0, "addcdiv_", OUT, 0, NAN),
        of_step(1, "layer_norm", PARAM, "weight", holds), of_step(1, "layer_norm", OUT, 0, holds),
    ]  # fmt: skip
    assert [each.row for each in overflowing(rows)[0]] == named


def test_nan_that_another_step_has_later_explains_nothing() -> None:
    rows = [of_step(0, "layer_norm", PARAM, "weight", NAN), of_step(1, "addcdiv_", OUT, 0, NAN)]
    assert [each.row for each in overflowing(rows)[0]] == [0, 1]
