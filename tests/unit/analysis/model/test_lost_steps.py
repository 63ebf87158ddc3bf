"""What lasts of earlier rounding, by hand."""

from __future__ import annotations

import pytest
from comparison_rows import OUT, row, statistics, statistics_measured

from probe_flow.analysis.model.deviation import WITHIN_FRAMEWORK, Deviations
from probe_flow.analysis.model.lost_steps import LostSteps

HALF_STEP = 2.0**-11 / 2.0  # of float16: what it may hide


def made(dtype, count=100, l2norm=10.0, top=3.1):
    side = statistics(max=top, l2norm=l2norm)
    return row(dtype=dtype, measurement=statistics_measured(side, side, count=count))


def followed(*steps):
    """Return rows, their deviations and what they lost; each step is a row and the numbers it was made of."""
    rows = [step for step, _ in steps]
    deviations = Deviations(rows, WITHIN_FRAMEWORK)
    lost = LostSteps(rows, deviations)
    for number, (_, sources) in enumerate(steps):
        lost.add(number, deviations[number], {number: sources}.get)
    return rows, deviations, lost


def test_a_float32_result_of_float16_values_hides_steps_of_float16():
    _, deviations, lost = followed((made("float16"), ()), (made("float32"), (0,)), (made("float32"), (1,)))
    for number in range(3):
        assert lost.hidden_in(number, deviations[number], deviations[2]) == HALF_STEP
        assert lost.hidden_in(number, deviations[number], deviations[0]) == 0.0  # its own rounding covers that


def test_a_small_term_loses_little_and_a_sum_the_root_of_its_length():
    _, deviations, lost = followed(
        (made("float16"), ()),
        (made("float32", l2norm=40.0), (0,)),  # four times as large
        (made("float32", count=4, l2norm=100.0), (0,)),  # 25 terms of size 1 in each element of size 50
    )
    assert lost.hidden_in(1, deviations[1], deviations[1]) == pytest.approx(HALF_STEP / 4.0)
    assert lost.hidden_in(2, deviations[2], deviations[2]) == pytest.approx(HALF_STEP * 5.0 / 50.0)


def test_float32_alone_loses_nothing():
    rows, deviations, lost = followed((made("float32"), ()), (made("float32"), (0,)))
    assert lost.hidden_in(1, deviations[1], deviations[1]) == 0.0
    assert lost.around(rows[1].node.execution, deviations[1]) == deviations[1].unit / 2.0


def test_gradients_are_judged_by_the_coarsest_type_of_late():
    rows, deviations, lost = followed((made("bfloat16"), ()), (made("float32"), None))
    assert rows[0].pair.target.slot.role is OUT
    assert lost.around(rows[1].node.execution, deviations[1]) == 2.0**-8 / 2.0
