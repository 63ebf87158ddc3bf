"""Rows by their calls: what is inside what, what a gradient is made of, and the order of judging."""

from __future__ import annotations

from comparison_rows import IN, OUT, PARAM, RUN, pairs_of, row, target_only, tensor

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.search.origin import in_time
from probe_flow.records import NodeKey, Phase, SlotRole

FORWARD = NodeKey(RUN, "Module.fc.Linear")
BACKWARD = NodeKey(RUN, "Module.fc.Linear", 0, Phase.BACKWARD)
GRADIENTS = NodeKey(RUN, "Module.fc.Linear.parameters_grad", 0, Phase.NONE)


def training():
    return [
        row(FORWARD, IN), row(FORWARD, PARAM, "weight"), row(FORWARD, OUT),
        row(GRADIENTS, SlotRole.PARAMETER_GRAD, "weight"), row(BACKWARD, IN), row(BACKWARD, OUT),
    ]  # fmt: skip


def test_a_gradient_knows_the_forward_call_and_what_reaches_it():
    rows = training()
    calls = Calls(rows, pairs_of(rows))
    assert calls.by_key[BACKWARD].forward == (0, 1, 2)
    assert calls.by_key[GRADIENTS].forward == (0, 1, 2)
    assert calls.by_key[GRADIENTS].incoming == (4,)
    assert calls.gradients_of(calls.by_key[FORWARD]) is calls.by_key[GRADIENTS]


def test_gradients_of_parameters_are_judged_after_what_they_are_made_of():
    rows = training()
    assert [*in_time(Calls(rows, pairs_of(rows)))] == [0, 1, 2, 4, 3, 5]


def test_rows_without_measurement_belong_to_their_call_but_say_nothing():
    rows = [target_only(tensor("a")), row("a", IN)]
    calls = Calls(rows, pairs_of(rows))
    assert calls.of[0] is calls.of[1]
    assert (calls.of[1].read, calls.of[1].written) == ((1,), ())
