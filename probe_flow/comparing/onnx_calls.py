"""The operators of a dumped ONNX model as they are computed again: what its file says, on the tensors that were dumped.

A dump of such a model holds what each operator gave. What an operator read is what others gave, inputs of the model,
and weights, which lie in the file of the model.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from probe_flow.apis.calls import Call, Plain, TensorSpec, UnusableError
from probe_flow.apis.calls import Path as Place
from probe_flow.apis.numpy_core.names import ONNX, attributes_of
from probe_flow.comparing.recompute_worker import SideCall
from probe_flow.dumps.manifest import MODEL_GRAPH
from probe_flow.dumps.onnx.model import (
    MODEL_FILE,
    OnnxModel,
    OnnxOperator,
    OnnxWeight,
    OtherModelError,
    read_onnx_model,
)
from probe_flow.errors import FormatError
from probe_flow.records import Catalog, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

_OPSET, _RESULT_DTYPE = "opset", "result_dtype"
"""Parameters of operators that are no attributes of theirs."""


class OnnxCalls:
    """The operators of one dump.

    Args:
        catalog: of the dump, with the path and the checksum of the model (`MODEL_FILE`).
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def call(self, key: NodeKey) -> SideCall:
        """Return an operator with its tensors.

        Raises:
            UnusableError: it cannot be computed again, and why.
        """
        results = {
            ref.slot.path: ref
            for (owner, _), ref in self._dumped.items()
            if owner == key.name and ref.kind is TensorKind.TENSOR
        }
        operator = self._operator(key.name)
        wanted = attributes_of(ONNX, operator.op_type)
        inputs: dict[Place, TensorRef] = {}
        args: list[Any] = []
        for number, name in enumerate(operator.inputs):
            args.append(self._argument(key, name, (number,), inputs))
        if not inputs or not results:
            raise UnusableError("the dump has no elements of its tensors", is_expected=True)
        known = {**operator.attributes, _OPSET: operator.opset, _RESULT_DTYPE: next(iter(results.values())).dtype}
        kwargs = {name: Plain(value) for name, value in known.items() if name in wanted.all}
        given = [_spec(results[number,]) if (number,) in results else Plain(None) for number in range(_count(results))]
        call = Call(ONNX, operator.op_type, tuple(args), kwargs, tuple(given))
        return SideCall(call, is_mindspore=False, inputs=inputs, results=results)

    def _operator(self, name: str) -> OnnxOperator:
        outputs = self._outputs.get(name, ())
        found = next((self._model.operators[each] for each in outputs if each in self._model.operators), None)
        if found is None:
            raise UnusableError("the file of its model has no such operator", is_expected=True)
        return found

    def _argument(self, key: NodeKey, name: str, place: Place, inputs: dict[Place, TensorRef]) -> Any:
        if not name:
            return Plain(None)
        dumped = self._dumped.get(self._given.get(name, ("", 0)))
        if dumped is not None and dumped.kind is TensorKind.TENSOR:
            inputs[place] = dumped
            return _spec(dumped)
        weight = self._model.weights.get(name)
        if weight is None:
            raise UnusableError(f"the dump has not the elements of `{name}`, which it reads")
        if weight.extent is None:
            numbers = weight.numbers or ()
            return Plain(numbers[0] if not weight.shape else numbers)
        inputs[place] = _weight(key, place, weight, weight.extent)
        return TensorSpec(weight.dtype, weight.shape)

    @cached_property
    def _model(self) -> OnnxModel:
        told = self._catalog.attrs[MODEL_FILE]
        assert isinstance(told, tuple)
        try:
            return read_onnx_model(*told)
        except FormatError as error:
            raise UnusableError(f"its attributes are not known: {error.diagnostic.message}") from error
        except OtherModelError as error:
            raise UnusableError(f"its attributes are not known: {error}") from error

    @cached_property
    def _outputs(self) -> dict[str, tuple[str, ...]]:
        nodes = self._catalog.attrs.get(MODEL_GRAPH, ())
        return {node.name: node.outputs for node in nodes} if isinstance(nodes, tuple) else {}

    @cached_property
    def _given(self) -> dict[str, tuple[str, int]]:
        """Name of a tensor -> the operator that gives it, and the number of the output."""
        return {
            value: (name, number) for name, outputs in self._outputs.items() for number, value in enumerate(outputs)
        }

    @cached_property
    def _dumped(self) -> dict[tuple[str, int], TensorRef]:
        return {
            (ref.node.name, int(ref.slot.path[0])): ref
            for ref in self._catalog.tensors
            if ref.slot.role is SlotRole.OUTPUT and isinstance(ref.slot.path[0], int)
        }


def _spec(ref: TensorRef) -> TensorSpec:
    shape = ref.shape if ref.logical_shape is None else ref.logical_shape
    if shape is None:
        raise UnusableError("the shape of one of its tensors is not known")
    return TensorSpec(ref.dtype, tuple(shape))


def _count(results: dict[Place, TensorRef]) -> int:
    return max(int(place[0]) for place in results) + 1


def _weight(key: NodeKey, place: Place, weight: OnnxWeight, extent: Extent) -> TensorRef:
    return TensorRef.of(
        key, Slot(SlotRole.INPUT, place), TensorKind.TENSOR, dtype=weight.dtype, shape=weight.shape, extents=(extent,)
    )
