"""Records with the fast ``__init__`` are what frozen dataclasses are."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from probe_flow.records import (
    Execution,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 5
    names: list[str] = field(default_factory=list)
    total: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


def test_fields_defaults_and_post_init_are_kept() -> None:
    point = Point(1)

    assert (point.x, point.y, point.names, point.total) == (1, 5, [], 6)
    assert Point(1, y=2, names=["a"]) == Point(1, 2, ["a"]) != Point(1, 2, ["b"])
    assert repr(point) == "Point(x=1, y=5, names=[], total=6)"


def test_every_object_gets_a_default_of_its_own() -> None:
    assert Point(1).names is not Point(1).names


def test_it_is_frozen_and_of_its_own_class() -> None:
    point = Point(1)

    assert type(point) is Point
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x


@pytest.mark.parametrize(
    "arguments", [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((1,), {"total": 2})]
)
def test_wrong_arguments_are_refused(arguments: tuple[tuple[object, ...], dict[str, object]]) -> None:
    with pytest.raises(TypeError):
        Point(*arguments[0], **arguments[1])  # type: ignore[arg-type]


NODE = NodeKey(Execution(0, 1), "Add", 2)
TENSOR = TensorRef(NODE, Slot(SlotRole.OUTPUT), TensorKind.TENSOR, "float16", shape=(2, 3))


@pytest.mark.parametrize(
    "record", [TENSOR, NODE, Pair(TENSOR, None, "g", "exact"), Measurement(Mode.TENSOR, {"cosine": 1.0})]
)
def test_records_are_copied_hashed_and_sent_to_other_processes(record: object) -> None:
    again = pickle.loads(pickle.dumps(record))

    assert again == record
    assert hash(again) == hash(record)
    assert replace(record) == record  # type: ignore[type-var]
    assert not hasattr(record, "__dict__")


@pytest.mark.parametrize("cls", [TensorRef, Pair, Measurement, Verdict, NodeKey])
def test_arguments_stand_in_the_order_of_the_fields(cls: type) -> None:
    names = [parameter.name for parameter in inspect.signature(cls).parameters.values()]
    assert names == [each.name for each in fields(cls) if each.init]
