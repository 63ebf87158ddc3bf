"""The operators of an ONNX graph: under unique names, in an order in which they can run, with all that they read."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from msgspec import Struct

from probe_flow.dumps.manifest import ManifestNode
from probe_flow.dumps.onnx.order import in_running_order, unique_names


class Operator(Struct, frozen=True):
    """One node of the graph.

    Args:
        proto: as the model has it, with the unique name.
        reads: names of all tensors that it needs, those that its bodies take from outside among them.
    """

    proto: onnx.NodeProto
    reads: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its unique name."""
        return str(self.proto.name)

    @property
    def gives(self) -> list[str]:
        """Names of its outputs; those that are left out have none."""
        return [name for name in self.proto.output if name]

    def described(self) -> ManifestNode:
        """Return what the manifest says of it."""
        explicit = tuple(self.proto.input)
        captured = tuple(name for name in self.reads if name not in explicit)
        return ManifestNode(self.name, str(self.proto.op_type), (*explicit, *captured), tuple(self.proto.output))


def operators(graph: onnx.GraphProto) -> list[Operator]:
    """Return the operators of a graph, each behind those that it reads; in the graph too they get unique names.

    Raises:
        ValueError: the graph has a circle.
    """
    for node, name in zip(graph.node, unique_names((each.name, each.op_type) for each in graph.node), strict=True):
        node.name = name
    return in_running_order([Operator(node, tuple(reads(node))) for node in graph.node])


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of all tensors that a node needs, each once."""
    names = [name for name in node.input if name]
    for body in bodies(node):
        names += _captured(body)
    yield from dict.fromkeys(names)


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs inside of a node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _captured(body: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the tensors that a body takes from outside."""
    own = {each.name for each in (*body.input, *body.initializer)} | {
        each.values.name for each in body.sparse_initializer
    }
    for node in body.node:
        yield from (name for name in reads(node) if name not in own)
        own.update(node.output)
    yield from (each.name for each in body.output if each.name and each.name not in own)


def inside(node: onnx.NodeProto, prefix: str = "") -> Iterator[str]:
    """Yield names for the tensors inside the bodies of a node, which no dump can hold."""
    path = f"{prefix}{node.name}"
    for body in bodies(node):
        for place, inner in enumerate(body.node):
            name = inner.name or f"{inner.op_type}_{place}"
            yield from (f"{path}/{name}:{output}" for output in inner.output if output)
            yield from inside(inner, f"{path}/")
