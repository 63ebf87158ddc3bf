"""Rules that do not say which original an output is of, and outputs that the device left empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from offline_builders import Case, by_golden, by_target, check_complete, codes, partners
from rule_builders import desc, op

X = np.array([[1.0, -2.0, 3.0]], np.float32)
NONE = np.zeros((0,), np.float32)


@pytest.fixture
def case(tmp_path) -> Case:
    return Case(tmp_path)


def golden(case: Case, *names: str) -> None:
    for at, name in enumerate(names):
        case.golden.output(name, 0, X + at, at=10 + at)


@pytest.mark.parametrize("originals", [["conv", "bn", "relu"], ["relu", "conv", "bn"]])
def test_the_result_of_several_originals_is_that_of_the_one_that_ran_last(case: Case, originals: Sequence[str]) -> None:
    golden(case, "conv", "bn", "relu")
    case.device("Conv2D", "conv", inputs=[X], outputs=[X + 2])
    case.device("Abs", "abs", inputs=[X + 2], outputs=[X + 3])
    case.golden.output("abs", 0, X + 3, at=20)
    rule = case.rule(
        op("conv", "Conv2D", number=1, inputs=["x:0"], originals=originals, outputs=[desc()]),
        op("abs", "Abs", number=2, inputs=["conv:0"], originals=["abs"], outputs=[desc("abs")]),
        op("x", "Data", number=0, originals=["x"], outputs=[desc("x")]),
    )
    pairs = case.match(rule=rule)
    assert partners(pairs) == {
        "conv.output.0": "relu.output.0",
        "abs.input.0": "relu.output.0",
        "abs.output.0": "abs.output.0",
    }
    assert codes(by_golden(pairs)) == {"conv.output.0": "internal expected", "bn.output.0": "internal expected"}
    check_complete(pairs)


def test_where_the_golden_lacks_one_of_them_nobody_knows_which_was_last(case: Case) -> None:
    golden(case, "conv", "bn")
    case.device("Conv2D", "conv", outputs=[X])
    rule = case.rule(op("conv", "Conv2D", number=1, originals=["conv", "bn", "relu"], outputs=[desc()]))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {}
    assert codes(by_target(pairs)) == {"conv.output.0": "no_golden_dump missing"}


def test_what_the_device_lacks_stays_missing(case: Case) -> None:
    golden(case, "conv", "relu")
    case.device("Abs", "abs", outputs=[X])
    case.golden.output("abs", 0, X, at=20)
    rule = case.rule(
        op("conv", "Conv2D", number=1, originals=["conv", "relu"], outputs=[desc()]),
        op("abs", "Abs", number=2, inputs=["conv:0"], originals=["abs"], outputs=[desc("abs")]),
    )
    missing = "no_target_dump missing"
    assert codes(by_golden(case.match(rule=rule))) == {"conv.output.0": missing, "relu.output.0": missing}


@pytest.mark.parametrize("described", [desc(), desc("norm", 1)])
def test_an_empty_output_that_nobody_reads_is_expected_on_both_sides(case: Case, described) -> None:
    case.golden.output("norm", 0, X, at=1)
    case.golden.output("norm", 1, X, at=1)
    case.device("LayerNorm", "norm", outputs=[X, NONE])
    rule = case.rule(op("norm", "LayerNorm", number=1, originals=["norm"], outputs=[desc("norm"), described]))
    pairs = case.match(rule=rule)
    assert partners(pairs) == {"norm.output.0": "norm.output.0"}
    assert codes(by_target(pairs)) == {"norm.output.1": "no_target_dump expected"}
    assert codes(by_golden(pairs)) == {"norm.output.1": "no_target_dump expected"}


def test_one_that_is_read_is_not(case: Case) -> None:
    case.golden.output("norm", 0, X, at=1)
    case.golden.output("norm", 1, X, at=1)
    case.device("LayerNorm", "norm", outputs=[X, NONE])
    rule = case.rule(
        op("norm", "LayerNorm", number=1, originals=["norm"], outputs=[desc("norm"), desc("norm", 1)]),
        op("end", "NetOutput", number=2, inputs=["norm:1"], originals=[], outputs=[]),
    )
    pairs = case.match(rule=rule)
    assert codes(by_target(pairs)) == {"norm.output.1": "shape_mismatch missing"}


def test_what_a_view_gives_that_no_device_runs_is_compared_before_it(case: Case) -> None:
    case.golden.output("relu", 0, X, at=1)
    case.golden.output("abs", 0, abs(X), at=2)
    case.device("Relu", "relu", outputs=[X])
    case.device("Abs", "abs", inputs=[X.reshape(3)], outputs=[abs(X)])
    rule = case.rule(
        op("relu", "Relu", number=1, originals=["relu"], outputs=[desc("relu")]),
        op("view", "Reshape", number=2, inputs=["relu:0"], originals=["view"], outputs=[desc("view")]),
        op("abs", "Abs", number=3, inputs=["view:0"], originals=["abs"], outputs=[desc("abs")]),
    )
    assert partners(case.match(rule=rule))["abs.input.0"] == "relu.output.0"


@pytest.mark.parametrize(("runs_views", "left"), [(False, "expected"), (True, "missing")])
def test_what_a_view_gives_is_a_gap_where_the_device_runs_views(case: Case, runs_views: bool, left: str) -> None:
    """A gradient is often only reshaped, and every model of TensorFlow has hundreds of such operators."""
    names = ["seen", "view"] if runs_views else ["view"]
    case.golden.output("relu", 0, X, at=1)
    case.device("Relu", "relu", outputs=[X])
    for name in names:
        case.golden.output(name, 0, X.reshape(3), at=2)
    if runs_views:
        case.device("Reshape", "seen", outputs=[X.reshape(3)])
    rule = case.rule(
        op("relu", "Relu", number=1, originals=["relu"], outputs=[desc("relu")]),
        *(
            op(name, "Reshape", number=2, inputs=["relu:0"], originals=[name], outputs=[desc(name, shape=(3,))])
            for name in names
        ),
    )
    assert codes(by_golden(case.match(rule=rule)))["view.output.0"] == f"no_target_dump {left}"
