"""Calls of many ranks, made when they are asked for: each is as it is where all are there at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest
from comparison_rows import IN, OUT, PARAM, RUN, pairs_of, row, target_only, tensor
from msgspec.structs import replace

from probe_flow.analysis.flow import many_calls
from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import calls_of
from probe_flow.analysis.flow.many_calls import ManyCalls
from probe_flow.analysis.flow.ordering import in_time
from probe_flow.records import Execution, NodeKey, Pairs, Phase, SlotRole, Verdict
from probe_flow.records.row import ManyRows, Row

FIRST, SECOND, THIRD = (replace(RUN, rank=rank) for rank in range(3))
OTHER_DEVICE = replace(SECOND, device=4)


class Listed(ManyRows):
    """Rows of a list."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [*rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place):
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __setitem__(self, number: int, row: Row) -> None:
        self._rows[number] = row

    def some(self, numbers: Iterable[int]) -> Sequence[Row]:
        return [self._rows[number] for number in numbers]

    @property
    def verdicts(self) -> Sequence[Verdict]:
        return [row.verdict for row in self._rows]

    def judged(self, verdicts: Sequence[Verdict]) -> Listed:
        return self

    def numbers_of_pairs(self, begin: int, end: int) -> Sequence[int]:
        return range(begin, end)


def training(run: Execution, *, has_weight: bool = True) -> list[Row]:
    """A layer with an activation, forward and backward, with the gradients of its parameters."""
    layer, relu = NodeKey(run, "Module.fc.Linear"), NodeKey(run, "Torch.relu")
    back = [replace(each, phase=Phase.BACKWARD) for each in (relu, layer)]
    gradients = NodeKey(run, "Module.fc.Linear.parameters_grad", 0, Phase.NONE)
    return [
        row(layer, IN), *([row(layer, PARAM, "weight")] if has_weight else ()), row(layer, OUT), row(relu, IN),
        target_only(tensor(relu, OUT)), row(gradients, SlotRole.PARAMETER_GRAD, "weight"), row(back[0], IN),
        row(back[0], OUT), row(back[1], IN), row(back[1], OUT),
    ]  # fmt: skip


def compared(*parts: Sequence[Row]) -> tuple[Calls, ManyCalls, Pairs]:
    rows = [each for part in parts for each in part]
    pairs = pairs_of(rows)
    many = calls_of(Listed(rows), pairs)
    assert isinstance(many, ManyCalls)
    return Calls(rows, pairs), many, pairs


CASES = {
    "alike": [training(FIRST), training(SECOND), training(THIRD)],
    "one differs": [training(FIRST), training(SECOND, has_weight=False), training(THIRD)],
    "devices": [
        training(FIRST), [each for two in zip(training(SECOND), training(OTHER_DEVICE), strict=True) for each in two],
    ],
}  # fmt: skip


@pytest.mark.parametrize("held", [2, 1 << 15])
@pytest.mark.parametrize("case", CASES)
def test_each_call_is_as_it_is_among_all(case, held, monkeypatch):
    monkeypatch.setattr(many_calls, "HELD", held)
    calls, many, _ = compared(*CASES[case])

    def facts(call):
        return call and (call.key, call.reads, call.writes, call.forward, call.incoming, call.is_gradient)

    assert [facts(each) for each in many] == [facts(each) for each in calls]
    assert [facts(each) for each in many.of] == [facts(each) for each in calls.of]
    assert [many.place(each) for each in many] == [calls.place(each) for each in calls] == [*range(len(many))]
    assert [*many.by_key] == [*calls.by_key]
    for key, call in calls.by_key.items():
        assert facts(many.by_key[key]) == facts(many.by_key.get(key)) == facts(call)
        assert facts(many.gradients_of(many.by_key[key])) == facts(calls.gradients_of(call))
    assert many.by_key.get(NodeKey(FIRST, "Torch.add")) is None
    assert many.by_key.get(NodeKey(Execution(rank=9), "Torch.relu")) is None
    assert (many.executions, many.derivatives) == (calls.executions, calls.derivatives)
    assert [*in_time(many)] == [*in_time(calls)]


def test_executions_that_run_the_same_share_how_their_calls_are_connected():
    _, many, _ = compared(*CASES["one differs"])
    one, other, third = (placed.known for placed in many._placed)
    assert one is third
    assert one is not other


def test_the_same_call_made_twice_is_one(monkeypatch):
    monkeypatch.setattr(many_calls, "HELD", 1)
    _, many, _ = compared(training(FIRST))
    first, *_, last = many
    again = many.made(0)
    assert again is not first
    assert (again, hash(again)) == (first, hash(first))
    assert again != last
