"""The operators of an ONNX graph under unique names, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class GraphOperator(Protocol):
    """An operator: its name, and the names of the tensors that it reads and gives."""

    @property
    def name(self) -> str: ...
    @property
    def reads(self) -> Sequence[str]: ...
    @property
    def gives(self) -> Sequence[str]: ...


Operator = TypeVar("Operator", bound=GraphOperator)


def unique_names(nodes: Iterable[tuple[str, str]]) -> list[str]:
    """Return a name for each node of a graph that no other has.

    A node without name is called ``{type}_{place in the graph}``; of several of one name the later ones get a suffix.

    Args:
        nodes: name, maybe empty, and type of each.
    """
    all_nodes = list(nodes)
    taken = {name for name, _ in all_nodes if name}
    seen: dict[str, None] = {}
    for place, (own, op_type) in enumerate(all_nodes):
        plain = own or f"{op_type}_{place}"
        name, number = plain, 1
        while name in seen or (name in taken and name != own):
            number += 1
            name = f"{plain}__{number}"
        seen[name] = None
    return list(seen)


def in_running_order(found: Sequence[Operator]) -> list[Operator]:
    """Return operators behind those that they read, in their own order where that is one already.

    Raises:
        ValueError: the graph has a circle.
    """
    producer = {name: place for place, operator in enumerate(found) for name in operator.gives}
    done: set[int] = set()
    order: list[Operator] = []
    for start in range(len(found)):
        ahead = [start]
        waiting: set[int] = set()
        while ahead:
            place = ahead[-1]
            needed = (producer.get(name, place) for name in found[place].reads)
            missing = [each for each in needed if each != place and each not in done]
            if place in done:
                ahead.pop()
            elif missing:
                if place in waiting:
                    raise ValueError(f"the graph has a circle through node `{found[place].name}`")
                waiting.add(place)
                ahead += reversed(missing)
            else:
                done.add(place)
                order.append(found[place])
                ahead.pop()
    return order
