"""Steps of optimizers computed again: with the variable and states before them, or with what a device left of these."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ge_writer import DumpTensor
from offline_builders import Case
from om_writer import OmTensor
from rule_builders import attr, desc, op

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANDOM = np.random.default_rng(24)
WEIGHT, STATE, GRADIENT, X = (RANDOM.standard_normal((16, 16)).astype(np.float32) for _ in range(4))
RATE, MOMENTUM = np.float32(1e-3), np.float32(0.9)


def by_workers(function, batches, **_):
    """Do jobs as workers do, from which all that comes back is bytes."""
    return iter([(number, pickle.loads(pickle.dumps(function(batch)))) for number, batch in enumerate(batches)])


def stepped(state, gradient, factor=1.0):
    """The variable and its state one step later; a wrong step is off by a factor."""
    left = MOMENTUM * state + gradient
    return (WEIGHT - np.float32(factor) * RATE * left).astype(np.float32), left


def trained(folder, *, factor=1.0, state=STATE, is_left=False, is_read=True, wrong_state=1.0):
    """Write a step as a device made it: of its inputs it shows what they were, or what it left of them."""
    half = GRADIENT.astype(np.float16)
    case, gradient = Case(folder), half.astype(np.float32)
    variable, left = stepped(state, gradient, factor)
    shown = (variable, left) if is_left else (WEIGHT, state)

    def of(values):
        return OmTensor(DumpTensor(np.asarray(values), str(values.dtype), "ND"), original_shape=np.shape(values))

    if is_read:
        case.device("Mul", "use", inputs=[of(WEIGHT), of(X)], outputs=[of(WEIGHT * X)])
    case.device("Cast", "g", inputs=[of(half)], outputs=[of(gradient)])
    read = [*map(of, shown), of(RATE), of(gradient), of(MOMENTUM)]
    case.device("ApplyMomentumD", "update", inputs=read, outputs=[of(variable), of(left * np.float32(wrong_state))])
    arrays = {"w": WEIGHT, "m": STATE, "x": X, "half": GRADIENT, "g": GRADIENT, "update": stepped(STATE, GRADIENT)[0]}
    for name, values in (arrays | {"use": WEIGHT * X}).items():
        case.golden.output(name, 0, values)
    square = {"shape": WEIGHT.shape, "origin_shape": WEIGHT.shape, "layout": "ND", "dtype": "DT_FLOAT"}
    given = [
        op(name, kind, number=number, originals=[name], outputs=[desc(name, 0, **square)])
        for number, (name, kind) in enumerate([("w", "Variable"), ("m", "Variable"), ("x", "Data"), ("half", "Data")])
    ]
    numbers = [op(name, "Const", number=5, outputs=[desc(shape=())]) for name in ("rate", "momentum")]
    cast = op(
        "g", "Cast", number=6, inputs=["half:0"], originals=["g"], outputs=[desc("g", 0, **square)],
        attrs=[attr("dst_type", i="0")],
    )  # fmt: skip
    use = op("use", "Mul", number=7, inputs=["w:0", "x:0"], originals=["use"], outputs=[desc("use", 0, **square)])
    update = op(
        "update", "ApplyMomentumD", number=8, inputs=["w:0", "m:0", "rate:0", "g:0", "momentum:0"],
        originals=["update"], outputs=[desc("update", 0, **square), desc(**square)],
    )  # fmt: skip
    rule = case.rule(*given, *numbers, cast, *([use] if is_read else []), update)
    context = Context(
        stage="compare", output=folder, map=by_workers, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: by_workers,
    )  # fmt: skip
    return compare_pairs(case.match(rule=rule), Asked(recompute=Recompute("auto")), context, None)


def named(comparison):
    return [(each.node.name, str(each.slot)) for each in comparison.findings if each.fails]


def told_of_the_state(comparison):
    return next(
        "; ".join(row.verdict.reasons)
        for row in comparison.rows
        if row.pair.target is not None and (row.node.name, str(row.pair.target.slot)) == ("update", "input.1")
    )


@pytest.mark.parametrize("is_left", [False, True])
def test_a_step_that_is_a_twentieth_too_large_is_wrong_though_the_variable_hardly_differs(tmp_path, is_left):
    found = trained(tmp_path, factor=1.05, is_left=is_left)
    assert named(found) == [("update", "output.0")]
    assert "given its own inputs, the output is off by" in found.findings[0].evidence
    assert "computed by" not in found.findings[0].evidence  # which is for frameworks


@pytest.mark.parametrize("is_left", [False, True])
def test_a_right_step_of_a_gradient_that_was_rounded_is_accused_of_nothing(tmp_path, is_left):
    assert named(trained(tmp_path, is_left=is_left)) == []


@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_nothing_is_concluded_where_nothing_shows_the_variable_before(tmp_path, factor):
    assert named(trained(tmp_path, factor=factor, is_left=True, is_read=False)) == []


@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("state", [STATE * 2, RANDOM.standard_normal((16, 16)).astype(np.float32)])
def test_a_state_that_was_not_restored_is_where_it_begins(tmp_path, state, is_left):
    found = trained(tmp_path, state=state, is_left=is_left)
    assert named(found) == [("update", "input.1")]
    assert "before its step it was another state than the golden's" in found.findings[0].evidence
    assert "; 1 later tensor inherits it" in found.findings[0].evidence


def test_what_a_step_left_of_a_state_is_said_to_be_that(tmp_path):
    assert "before the step it was the golden's" in told_of_the_state(trained(tmp_path / "left", is_left=True))
    assert told_of_the_state(trained(tmp_path / "read")) == ""
    told = told_of_the_state(trained(tmp_path / "alone", is_left=True, is_read=False, state=STATE * 2))
    assert "not judged, so that another state before the step shows in the variable alone" in told
