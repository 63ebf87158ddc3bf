"""Rounding of operators that left no file: one step each, independent of each other."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, golden_only, pairs_of, row, tensor
from msgspec.structs import replace

from probe_flow.analysis.model.unseen_inputs import UnshownSteps
from probe_flow.records import Flow

U = 2.0**-11  # float16


def network(*names: str, dumped: str, flow: Flow = Flow.GRAPH, **dtypes: str):
    """Return rows of operators that ran one after the other, and the pairs; only those in ``dumped`` left a file."""
    rows = [
        row(name, dtype=dtypes.get(name, "float16")) if name in dumped else golden_only(tensor(name)) for name in names
    ]
    pairs = pairs_of(rows)
    return {each.pair.shown.node.name: each for each in rows}, replace(pairs, target=replace(pairs.target, flow=flow))


def test_each_operator_since_the_start_rounds_once():
    rows, pairs = network(*"abcde", dumped="de")
    unshown = UnshownSteps(pairs)
    assert unshown.error(rows["d"]) == pytest.approx(math.sqrt(3) * U)
    assert unshown.error(rows["e"]) == pytest.approx(2 * U)  # d has not been judged


def test_those_before_a_judged_output_are_in_its_own_error():
    rows, pairs = network(*"abcdef", dumped="bef")
    unshown = UnshownSteps(pairs)
    unshown.add(rows["b"])
    assert unshown.error(rows["e"]) == pytest.approx(math.sqrt(2) * U)
    unshown.add(rows["e"])
    assert unshown.error(rows["f"]) == 0.0


def test_a_value_that_is_read_late_was_made_early():
    rows, pairs = network(*"abcdef", dumped="acf")
    unshown = UnshownSteps(pairs)
    unshown.add(rows["a"])
    unshown.add(rows["f"])
    assert unshown.error(rows["c"]) == pytest.approx(U)


def test_the_coarsest_type_of_the_device_counts():
    rows, pairs = network("a", "b", "c", dumped="bc", b="bfloat16", c="float32")
    assert UnshownSteps(pairs).error(rows["c"]) == pytest.approx(math.sqrt(2) * 2.0**-8)


def test_calls_of_a_program_hide_nothing():
    rows, pairs = network(*"abc", dumped="c", flow=Flow.ORDER)
    assert UnshownSteps(pairs).error(rows["c"]) == 0.0


def test_what_only_the_target_has_is_not_counted():
    rows, pairs = network(*"abc", dumped="c")
    alone = replace(rows["c"], pair=replace(rows["c"].pair, golden=None))
    assert UnshownSteps(pairs).error(alone) == 0.0


def test_an_input_that_nothing_wrote_was_made_by_what_left_no_file():
    rows, pairs = network(*"abcd", dumped="d")
    read = row("d", IN)
    made = replace(read, pair=replace(read.pair, golden=tensor("c")))
    unshown = UnshownSteps(pairs)
    assert unshown.of_input(made) == pytest.approx(math.sqrt(2) * U)
    assert unshown.of_input(read) == 0.0  # the golden read it, too: a weight
    assert unshown.of_input(rows["d"]) == 0.0
