"""The calls of one side as they are computed again: what a dump records of an API, or an operator of a graph."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import structs

from probe_flow.apis.calls import (
    Call,
    Plain,
    TensorSpec,
    Tree,
    UnusableError,
    argument_leaves,
    leaves,
    read_call,
    read_gradients,
)
from probe_flow.apis.calls import Path as Place
from probe_flow.apis.numpy_core.names import DEVICE, attributes_of, needs_attributes
from probe_flow.comparing.recompute_worker import SideCall
from probe_flow.errors import ProbeFlowError
from probe_flow.records import Catalog, Execution, Node, NodeKey, NodeKind, Phase, SlotRole, TensorKind, TensorRef
from probe_flow.records.frameworks import MINDSPORE, NPY, OM, TORCHAIR_GE

if TYPE_CHECKING:
    from probe_flow.apis.numpy_core.fused import Fused
    from probe_flow.comparing.graph_attributes import GraphAttributes
    from probe_flow.comparing.onnx_calls import OnnxCalls

DUMP_JSON = "dump_json"


class Side:
    """The calls of one catalog: their entries, and their tensors by place.

    Args:
        catalog: of the side.
        nodes: those that are asked about.
    """

    def __init__(self, catalog: Catalog, nodes: Any) -> None:
        self._catalog = catalog
        self._is_mindspore = catalog.framework == MINDSPORE
        nodes = {*nodes, *(_forward(key) for key in nodes if key.phase is Phase.BACKWARD)}
        self._tensors: dict[NodeKey, list[TensorRef]] = defaultdict(list)
        for tensor in catalog.tensors:
            if tensor.node in nodes:
                self._tensors[tensor.node].append(tensor)
        self._has_entries = catalog.attrs.get("format") == DUMP_JSON
        self._entries = self._read(nodes) if self._has_entries else {}
        self._onnx = _onnx_calls(catalog)

    @cached_property
    def _graph(self) -> GraphAttributes:
        from probe_flow.comparing.graph_attributes import GraphAttributes

        return GraphAttributes(self._catalog)

    def _read(self, nodes: Any) -> dict[tuple[Execution, str], object]:
        """Return the entries of the calls whose tensors have elements."""
        wanted: dict[Execution, set[str]] = defaultdict(set)
        for key in nodes:
            node = self._catalog.nodes.get(key)
            has_elements = any(tensor.kind is TensorKind.TENSOR for tensor in self._tensors[key])
            if node is not None and node.kind is NodeKind.API and node.entry and has_elements:
                wanted[key.execution].add(node.entry)
        if not wanted:
            return {}
        from probe_flow.dumps.dump_json.raw_entries import raw_entries

        found: dict[tuple[Execution, str], object] = {}
        for execution, names in wanted.items():
            left = set(names)
            try:
                for entry, value in raw_entries(self._catalog, execution):
                    if entry in left:
                        found[execution, entry] = value
                        left.remove(entry)
                        if not left:
                            break
            except ProbeFlowError:  # it was readable a moment ago: the dump is changing
                continue
        return found

    def call(self, key: NodeKey) -> SideCall:
        """Return a call with its tensors.

        Raises:
            UnusableError: it cannot be computed again, and why.
        """
        node = self._catalog.nodes.get(key)
        if node is None:
            raise UnusableError("it is no node of the dump", is_expected=True)
        if key.phase is Phase.BACKWARD:
            return self._backward(key)
        if self._onnx is not None:
            return self._onnx.call(key)
        tensors = {tensor.slot: tensor for tensor in self._tensors[key]}
        if not any(each.kind is TensorKind.TENSOR for each in tensors.values()):
            raise UnusableError("the dump has no elements of its tensors", is_expected=True)
        fused = None if self._has_entries else self._fused(node, tensors)
        call = self._of_entry(key, node.entry or "") if self._has_entries else self._of_type(node, tensors, fused)
        by_place = {(slot.role, slot.path): tensor for slot, tensor in tensors.items()}
        inputs = _tensors_of(argument_leaves(call), SlotRole.INPUT, by_place)
        if not inputs:
            raise UnusableError("it has no tensor among its arguments", is_expected=True)
        results = _tensors_of(leaves(call.results), SlotRole.OUTPUT, by_place)
        is_open = len(node.originals) > 1 and fused is None
        before = {} if self._has_entries else self._before(node, tensors)
        return SideCall(call, self._is_mindspore, inputs, results, is_fused=is_open, parts=fused, before=before)

    def _before(self, node: Node, tensors: Mapping[Any, TensorRef]) -> Mapping[Place, TensorRef]:
        """Return the variable that an optimizer writes as the first operator that reads it before shows it."""
        from probe_flow.comparing.graph_attributes import writes_variable

        own = next((each for slot, each in tensors.items() if (slot.role, slot.path) == (SlotRole.INPUT, (0,))), None)
        if own is None or not writes_variable(node.op_type):
            return {}
        for name, place in self._graph.readers(node):
            reader = self._by_rule.get((node.key.execution, name))
            if reader is None or reader.order >= node.order:
                continue
            for each in self._inputs_of.get(reader.key, ()):
                if each.slot.path == (place,) and (each.dtype, each.numel) == (own.dtype, own.numel):
                    return {(0,): each}
        return {}

    @cached_property
    def _by_rule(self) -> Mapping[tuple[Execution, str], Node]:
        """The operators of a graph by the name that the graph has for them."""
        nodes = self._catalog.nodes.values()
        return {(each.key.execution, each.rules.op if each.rules else each.key.name): each for each in nodes}

    @cached_property
    def _inputs_of(self) -> Mapping[NodeKey, list[TensorRef]]:
        found: dict[NodeKey, list[TensorRef]] = defaultdict(list)
        for tensor in self._catalog.tensors:
            if tensor.slot.role is SlotRole.INPUT and tensor.kind is TensorKind.TENSOR:
                found[tensor.node].append(tensor)
        return found

    @staticmethod
    def weights(call: SideCall) -> frozenset[Place]:
        """Return the inputs of an operator of ONNX that lie in the file of its model."""
        return frozenset(place for place, ref in call.inputs.items() if ref.slot.role is SlotRole.INPUT)

    def fed(self, key: NodeKey) -> frozenset[int]:
        """Return the inputs of an operator that others give, by the identity of their tensors."""
        places = self._fed.get(key, ())
        inputs = (each for each in self._tensors[key] if each.slot.role is SlotRole.INPUT)
        return frozenset(id(each) for each in inputs if each.slot.path in places)

    @cached_property
    def _fed(self) -> Mapping[NodeKey, list[Place]]:
        found: dict[NodeKey, list[Place]] = defaultdict(list)
        for edge in self._catalog.edges:
            if edge.consumer in self._tensors:
                found[edge.consumer].append((edge.input,))
        return found

    def _backward(self, key: NodeKey) -> SideCall:
        """Return a call with its gradients in place of its results."""
        forward = self.call(_forward(key))
        value = self._entries.get((key.execution, self._catalog.nodes[key].entry or ""))
        if value is None:
            raise UnusableError("it is no call of an API", is_expected=True)
        gradients = read_gradients(value)
        tensors = {(tensor.slot.role, tensor.slot.path): tensor for tensor in self._tensors[key]}
        incoming = _tensors_of(leaves(gradients.incoming), SlotRole.INPUT, tensors)
        results = _tensors_of(leaves(gradients.results), SlotRole.OUTPUT, tensors)
        return structs.replace(forward, results=results, gradients=gradients, incoming=incoming, stored=forward.results)

    def _of_entry(self, key: NodeKey, entry: str) -> Call:
        value = self._entries.get((key.execution, entry))
        if value is None:
            raise UnusableError("it is no call of an API", is_expected=True)
        from probe_flow.dumps.dump_json.names import parse_entry_name

        parts = parse_entry_name(entry)
        assert parts is not None, "the catalog's own names"
        kind, _, api = parts.name.partition(".")
        return read_call(kind, api, value)

    def _fused(self, node: Node, tensors: Mapping[Any, TensorRef]) -> Fused | None:
        """Return what the graph has for a fused operator; None for one that is a single one.

        Raises:
            UnusableError: it cannot be computed, and why.
        """
        if self._catalog.framework != TORCHAIR_GE or not self._catalog.graphs:
            return None
        read = {tensor.slot.path: tensor.numel for slot, tensor in tensors.items() if slot.role is SlotRole.INPUT}
        given = sum(slot.role is SlotRole.OUTPUT for slot in tensors)
        return self._graph.fused(node, [read.get((number,)) for number in range(len(read))], given)

    def _of_type(self, node: Node, tensors: Mapping[Any, TensorRef], fused: Fused | None) -> Call:
        """Return a call of an operator that is known by its type and by what its graph says of it."""
        call = _of_tensors(node.op_type, tensors)
        if fused is not None:
            return dataclasses.replace(call, kind=DEVICE, api="+".join(part.op_type for part in fused.parts))
        if self._catalog.framework not in (TORCHAIR_GE, OM) or not needs_attributes(node.op_type):
            return call
        from probe_flow.comparing.graph_attributes import ORDER

        known = self._graph.of(node)
        call = _in_order(call, known.get("data_format", known.get(ORDER)), tensors)
        wanted = attributes_of(DEVICE, node.op_type)
        kwargs = {name: Plain(value) for name, value in known.items() if name in wanted.all}
        lacking = sorted(wanted.required - kwargs.keys())
        if lacking:
            raise UnusableError(f"its graph does not give its attribute `{lacking[0]}`")
        return Call(DEVICE, call.api, call.args, kwargs, call.results)


_WEIGHTS = frozenset({"HWCN", "FRACTAL_Z", "FRACTAL_Z_C04"})
"""Layouts of filters; where images have channels last, the user's model has them in the order ``HWCN``."""


def _in_order(call: Call, order: object, tensors: Mapping[Any, TensorRef]) -> Call:
    """Return a call whose arguments speak of images with channels last: the order of the user's model.

    What the device stores in that order or in blocks is read in its logical order, NCHW; all else as it is.
    """
    if order != "NHWC":
        return call
    layouts = {(slot.role, slot.path): each.layout for slot, each in tensors.items()}

    def ordered(leaves: Iterable[Tree], role: SlotRole) -> tuple[Tree, ...]:
        return tuple(
            dataclasses.replace(leaf, order=_order(layouts[role, (number,)]))
            if isinstance(leaf, TensorSpec) and len(leaf.shape) == 4
            else leaf
            for number, leaf in enumerate(leaves)
        )

    return dataclasses.replace(
        call, args=ordered(call.args, SlotRole.INPUT), results=ordered(call.results, SlotRole.OUTPUT)
    )


def _order(layout: str) -> str:
    if layout in _WEIGHTS:
        return "HWCN"
    return "NHWC" if layout == "NHWC" or layout.startswith("NC1HWC0") else ""


def _onnx_calls(catalog: Catalog) -> OnnxCalls | None:
    """Return what the model of a dump says of its operators, where the dump tells its file."""
    if catalog.framework != NPY:
        return None
    from probe_flow.comparing.onnx_calls import OnnxCalls
    from probe_flow.dumps.onnx.model import MODEL_FILE

    return OnnxCalls(catalog) if MODEL_FILE in catalog.attrs else None


def with_partners(
    target: SideCall, partners: Mapping[Place, TensorRef], results: Mapping[Place, TensorRef]
) -> SideCall | None:
    """Return a call of the target on the golden's tensors; what the golden does not show stays the target's.

    Args:
        target: the call, which has no arguments in arguments.
        partners, results: place of an input, of a result -> what it was compared with.
    """
    if not results or not partners:
        return None
    inputs = {**target.inputs, **partners}
    args = tuple(
        dataclasses.replace(leaf, dtype=inputs[number,].dtype) if isinstance(leaf, TensorSpec) else leaf
        for number, leaf in enumerate(target.call.args)
    )
    given = tuple(
        dataclasses.replace(leaf, dtype=results[number,].dtype)
        if (number,) in results and isinstance(leaf, TensorSpec)
        else Plain(None)
        for number, leaf in enumerate(target.call.results)
    )
    call = dataclasses.replace(target.call, args=args, results=given)
    is_mixed = len(partners) < len(inputs)
    return SideCall(call, target.is_mindspore, inputs, results, is_mixed=is_mixed, parts=target.parts)


def _forward(key: NodeKey) -> NodeKey:
    return structs.replace(key, phase=Phase.FORWARD)


def _tensors_of(
    found: Any, role: SlotRole, tensors: Mapping[tuple[SlotRole, Place], TensorRef]
) -> dict[Place, TensorRef]:
    """Return the tensors at the leaves of a call, by place.

    Raises:
        UnusableError: the dump lacks the elements of one.
    """
    refs = {}
    for place, leaf in found:
        if isinstance(leaf, TensorSpec):
            ref = tensors.get((role, place))
            if ref is None or ref.kind is not TensorKind.TENSOR:
                raise UnusableError("the dump has not the elements of all its tensors", is_expected=True)
            refs[place] = ref
    return refs


def _of_tensors(op_type: str, tensors: Mapping[Any, TensorRef]) -> Call:
    """Return a call of an operator that is known by its type: its inputs one behind the other.

    Raises:
        UnusableError: the dump lacks one of them, or its results have another order of axes.
    """
    inputs: dict[int, TensorSpec] = {}
    results: dict[int, TensorSpec] = {}
    for slot, tensor in tensors.items():
        parts = inputs if slot.role is SlotRole.INPUT else results if slot.role is SlotRole.OUTPUT else None
        place = slot.path[0] if len(slot.path) == 1 else None
        if parts is None:
            continue
        shape = tensor.shape if tensor.logical_shape is None else tensor.logical_shape
        if tensor.kind is not TensorKind.TENSOR or not isinstance(place, int) or shape is None:
            raise UnusableError("the dump has not the elements of all its tensors", is_expected=True)
        parts[place] = TensorSpec(tensor.dtype, tuple(shape))
    if sorted(inputs) != list(range(len(inputs))) or sorted(results) != list(range(len(results))):
        raise UnusableError("the dump lacks some of its tensors", is_expected=True)
    args = tuple(inputs[place] for place in range(len(inputs)))
    return Call("", op_type, args, {}, tuple(results[place] for place in range(len(results))))
