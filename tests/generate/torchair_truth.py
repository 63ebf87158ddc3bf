"""Where a diagnosis has to point: the first tensor that a generated fault spoils and the dump shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fx_writer import FxNode, Ref
from ge_device import Task
from ge_lowering import GeOp, Lowered

from generate.torchair_faults import Fault
from generate.torchair_models import Model


@dataclass(frozen=True, slots=True)
class Truth:
    """The first tensor in execution order that is wrong although its inputs are right, and that the dump shows.

    Args:
        node: name of the dumped device operator.
        role: ``output``, or ``input`` where the producer leaves no file or is no operator.
        index: which of them.
        golden_node: FX node whose dump is the golden side of that tensor; an operator where the golden is a device.
        accept: device operators that are right answers too: the one that went wrong, if the dump names it.
    """

    node: str
    role: str
    index: int
    golden_node: str
    token: int
    rank: int
    accept: frozenset[str]


def truth_of(model: Model, lowered: Lowered, tasks: Sequence[Task], fault: Fault, *, golden: str) -> Truth:
    """Follow the graph from the fault to the first dumped tensor that has a golden side.

    Args:
        model: what was captured.
        lowered: its device graph.
        tasks: what the device dumped, in execution order.
        fault: what goes wrong.
        golden: ``fx``, or ``ge`` for a device that fuses nothing and dumps everything.
    """
    spoiled = _descendants(lowered, fault.place)
    names = fx_names(lowered) if golden == "fx" else ge_names(lowered)
    by_name = {op.name: op for op in lowered.ops}
    fx_nodes = {node.name: node for node in model.trace.nodes}
    for task in tasks:
        held = [("input", k, held.edge) for k, held in enumerate(task.inputs)]
        held += [("output", k, held.edge) for k, held in enumerate(task.outputs)]
        for role, index, edge in held if task.parts else ():
            name = names.get(edge)
            if edge in spoiled and name is None and role == "input":
                readers = [by_name[part] for part in task.parts if edge in by_name[part].inputs]
                name = _own_argument(readers[0], edge, fx_nodes)
            if edge in spoiled and name is not None:
                accept = frozenset({task.name, *([fault.place] if by_name[fault.place].is_executed else [])})
                return Truth(task.name, role, index, name.split("-aten.")[0], fault.token or 0, fault.rank, accept)
    raise AssertionError(f"no dumped tensor shows {fault}")


def fx_names(lowered: Lowered) -> dict[str, str]:
    """Return edge -> name of the FX tensor that it stands for, where it has one."""
    return {
        f"{op.name}:{index}": name for op in lowered.ops for index, name in enumerate(op.fx_names) if name is not None
    }


def ge_names(lowered: Lowered) -> dict[str, str]:
    """Return edge -> operator that makes it, for all edges: a device that fuses nothing dumps every one."""
    return {f"{op.name}:{index}": op.name for op in lowered.ops for index in range(len(op.fx_names))}


def _descendants(lowered: Lowered, place: str) -> frozenset[str]:
    assert any(op.name == place for op in lowered.ops), place
    spoiled = {f"{place}:0"}
    for op in lowered.ops:
        if not spoiled.isdisjoint(op.inputs):
            spoiled.update(f"{op.name}:{index}" for index in range(len(op.fx_names)))
    return frozenset(spoiled)


def _own_argument(reader: GeOp, edge: str, fx_nodes: Mapping[str, FxNode]) -> str | None:
    """Return the reader's own FX name if its dump holds this placeholder or scalar as an argument."""
    producer = edge.partition(":")[0]
    has_name = reader.fx_names[0] is not None and reader.fx_node in fx_nodes
    is_argument = producer.startswith("Const") or Ref(producer) in fx_nodes[reader.fx_node].args
    return reader.fx_names[0] if has_name and is_argument else None
