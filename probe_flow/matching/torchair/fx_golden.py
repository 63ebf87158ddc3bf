"""Index one execution of an FX dump by the names that graph texts use, and the arguments of its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from probe_flow.dumps.file_names import FxOutput, parse_output_name
from probe_flow.records import Catalog, Execution, NodeKey, SlotRole, TensorRef


class GoldenIndex:
    """The tensors of one golden execution.

    Args:
        tensors: of this execution, in catalog order.
        op_types: target per node key, to build the names that graph texts use.
    """

    def __init__(self, tensors: Sequence[TensorRef], catalog: Catalog) -> None:
        self.tensors = tensors
        self.outputs: dict[FxOutput, TensorRef] = {}
        self.inputs: dict[str, list[TensorRef]] = defaultdict(list)
        self.keys: dict[NodeKey, str] = {}
        self.nodes: dict[str, NodeKey] = {}
        for tensor in tensors:
            key = self.keys.get(tensor.node)
            if key is None:
                key = self.keys[tensor.node] = f"{tensor.node.name}-{catalog.nodes[tensor.node].op_type}"
                self.nodes.setdefault(key, tensor.node)
            if tensor.node is not self.nodes[key] and tensor.node != self.nodes[key]:
                continue
            if tensor.slot.role is SlotRole.INPUT:
                self.inputs[key].append(tensor)
            elif len(tensor.slot.path) == 1 and isinstance(tensor.slot.path[0], int):
                self.outputs[(key, tensor.slot.path[0])] = tensor
        self.has_inputs = bool(self.inputs)
        self.has_outputs = bool(self.outputs)

    def arguments(self, key: str) -> list[TensorRef]:
        """Return the tensor arguments of a node in order: numbers (0-d) and things that are no tensors left out."""
        return [ref for ref in self.inputs.get(key, ()) if ref.has_numbers and ref.shape != ()]

    def places(self, key: str) -> list[tuple[int, TensorRef]]:
        """Return all arguments of a node with their places; each element of a list of tensors takes one."""
        found: list[tuple[int, TensorRef]] = []
        surplus, top = 0, -1
        for ref in self.inputs.get(key, ()):
            path = [number for number in ref.slot.path if isinstance(number, int)]
            if path[0] == top:
                surplus += 1
            top = path[0]
            found.append((top + surplus, ref))
        return found

    def numbers(self, key: str) -> list[TensorRef]:
        """Return the floating-point numbers (0-d) among the arguments of a node."""
        return [ref for ref in self.inputs.get(key, ()) if ref.shape == () and dtype_class(ref.dtype) == "float"]


def tensors_by_execution(catalog: Catalog) -> dict[Execution, list[TensorRef]]:
    """Return the tensors of a catalog per execution, in catalog order."""
    found: dict[Execution, list[TensorRef]] = {execution: [] for execution in catalog.executions}
    execution: Execution | None = None
    members: list[TensorRef] = []
    for tensor in catalog.tensors:
        # Neighbours mostly share the object; hashing an execution per tensor would cost more than all the rest.
        if tensor.node.execution is not execution:
            execution = tensor.node.execution
            members = found.setdefault(execution, [])
        members.append(tensor)
    return found


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
