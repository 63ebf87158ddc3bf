"""The graph of a model as its dump tells it: which operator gives a tensor, which ones read it, what it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from probe_flow.dumps.manifest import MODEL_GRAPH, ManifestNode
from probe_flow.records import Catalog

_PASS = frozenset({"Cast", "Identity", "QuantizeLinear", "DequantizeLinear"})
"""Operators that give what they read in another form."""

_QUANTISE = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})
_MOVE = frozenset(
    {
        "AveragePool", "Concat", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Resize",
        "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that give codes where they read codes."""


class ModelGraph:
    """The operators of one side.

    Args:
        nodes: all of them, in an order in which they can run.
    """

    def __init__(self, nodes: Iterable[ManifestNode]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.producer = {value: node for node in self.nodes.values() for value in node.outputs if value}
        self._readers: dict[str, list[ManifestNode]] = {}
        for node in self.nodes.values():
            for value in dict.fromkeys(node.inputs):
                self._readers.setdefault(value, []).append(node)
        self.codes = frozenset(self._codes())

    @classmethod
    def of(cls, catalog: Catalog) -> ModelGraph:
        """Return the graph of a dump, without operators where the dump tells none."""
        found = catalog.attrs.get(MODEL_GRAPH, ())
        return cls(found if isinstance(found, tuple) else ())

    def _codes(self) -> set[str]:
        """Return the tensors that hold the codes of quantised values."""
        found: set[str] = set()
        for node in self.nodes.values():
            moves = node.op_type in _MOVE and any(value in found for value in node.inputs)
            if node.op_type in _QUANTISE or node.op_type.startswith("QLinear") or moves:
                found.update(value for value in node.outputs if value)
        return found

    def value(self, node: str, output: int) -> str:
        """Return the name of a tensor; empty where the graph does not have it."""
        found = self.nodes.get(node)
        return found.outputs[output] if found is not None and output < len(found.outputs) else ""

    def passed_on(self, value: str) -> Iterator[str]:
        """Yield the tensors that a tensor is another form of, nearest first: before a cast, before quantisation."""
        node = self.producer.get(value)
        while node is not None and node.op_type in _PASS and node.inputs:
            value = node.inputs[0]
            yield value
            node = self.producer.get(value)

    def read_by(self, value: str) -> Sequence[ManifestNode]:
        """Return the operators that read a tensor."""
        return self._readers.get(value, ())

    def is_constant(self, value: str) -> bool:
        """Return True if no operator but those that pass on gives a tensor: it is a weight, or made of one."""
        *_, last = value, *self.passed_on(value)
        return last not in self.producer

    def leads_to(self, value: str, wanted: Iterable[str]) -> bool:
        """Return True if a tensor, by way of others that are not wanted, is read for one that is."""
        found = set(wanted)
        seen: set[str] = set()
        ahead = [value]
        while ahead:
            each = ahead.pop()
            for node in self._readers.get(each, ()):
                for output in node.outputs:
                    if output in found:
                        return True
                    if output and output not in seen:
                        seen.add(output)
                        ahead.append(output)
        return False
