"""Index one execution of an FX dump by the names that graph texts use, and the arguments of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from probe_flow.dumps.file_names import FxOutput, parse_output_name
from probe_flow.records import Catalog, NodeKey, SlotRole, TensorRef, shared_numbers


class GoldenIndex:
    """The tensors of one golden execution by the names that graph texts use, ``{node}-{target}``.

    Of nodes that share a name the first counts. Only where a node's tensors begin is noted: they follow each other.

    Args:
        tensors: of this execution, in catalog order.
        catalog: that they belong to.
    """

    def __init__(self, tensors: Sequence[TensorRef], catalog: Catalog) -> None:
        self.tensors = tensors
        self._nodes = catalog.nodes
        self._places: dict[str, int] = {}
        self.has_inputs = self.has_outputs = False
        for node, numbers in groupby(shared_numbers(len(tensors))[: len(tensors)], lambda number: tensors[number].node):
            place = next(numbers)
            if self._places.setdefault(self.key(node), place) == place:
                owned = self._owned(place)
                self.has_inputs |= any(tensor.slot.role is SlotRole.INPUT for tensor in owned)
                self.has_outputs |= any(map(_output_number, owned))

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def key(self, node: NodeKey) -> str:
        """Return the name that graph texts use for a node."""
        return f"{node.name}-{self._nodes[node].op_type}"

    def place(self, key: str) -> int:
        """Return where the tensors of a node begin."""
        return self._places[key]

    def _owned(self, place: int) -> Sequence[TensorRef]:
        node, end = self.tensors[place].node, place + 1
        while end < len(self.tensors) and self.tensors[end].node == node:
            end += 1
        return self.tensors[place:end]

    def output(self, name: FxOutput) -> TensorRef | None:
        """Return the dumped output that a graph text names."""
        place = self._places.get(name[0])
        found: Sequence[TensorRef] = () if place is None else self._owned(place)
        return next((tensor for tensor in found if _output_number(tensor) == (name[1],)), None)

    def inputs(self, key: str) -> list[TensorRef]:
        """Return what a node read, as the dump has it."""
        place = self._places.get(key)
        return [] if place is None else [ref for ref in self._owned(place) if ref.slot.role is SlotRole.INPUT]

    def arguments(self, key: str) -> list[TensorRef]:
        """Return the tensor arguments of a node in order: numbers (0-d) and things that are no tensors left out."""
        return [ref for ref in self.inputs(key) if ref.has_numbers and ref.shape != ()]

    def places(self, key: str) -> list[tuple[int, TensorRef]]:
        """Return all arguments of a node with their places; each element of a list of tensors takes one."""
        found: list[tuple[int, TensorRef]] = []
        surplus, top = 0, -1
        for ref in self.inputs(key):
            path = [number for number in ref.slot.path if isinstance(number, int)]
            if path[0] == top:
                surplus += 1
            top = path[0]
            found.append((top + surplus, ref))
        return found

    def numbers(self, key: str) -> list[TensorRef]:
        """Return the floating-point numbers (0-d) among the arguments of a node."""
        return [ref for ref in self.inputs(key) if ref.shape == () and dtype_class(ref.dtype) == "float"]


def _output_number(tensor: TensorRef) -> tuple[int | str, ...] | None:
    """Return the path of an output that graph texts can name, a number; None of other tensors."""
    path = tensor.slot.path
    return path if tensor.slot.role is not SlotRole.INPUT and len(path) == 1 and isinstance(path[0], int) else None


def output_keys(names: Iterable[str | None]) -> set[str]:
    """Return the FX keys among some ``_fx_tensor_name`` values."""
    parsed = (parse_output_name(name) for name in names if name)
    return {output[0] for output in parsed if output is not None}


@lru_cache(maxsize=256)
def dtype_class(dtype: str) -> str:
    """Return ``float``, ``int`` (booleans too), ``complex`` or the name itself; device and numpy spellings alike."""
    text = dtype.lower().removeprefix("dt_")
    if "complex" in text:
        return "complex"
    if text.startswith(("int", "uint", "bool", "qint", "quint")):
        return "int"
    if text.startswith(("float", "bf", "bfloat", "double", "half", "hifloat")):
        return "float"
    return text
