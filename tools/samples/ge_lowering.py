"""Lower a captured aten graph to GE operators, as TorchAir's converters do.

One aten node may become several GE operators (``addmm`` is MatMulV2 then Add); only what a converter returns carries
the FX tensor name, so the operators inside have none. Views become Reshape, Split and Identity, which never run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from fx_writer import Argument, Array, FxNode, Ref, Trace
from ge_kernels import Arithmetic, gather, gelu, layer_norm, softmax

Result = Array | tuple[Array, ...]
Kernel = Callable[..., Result]
"""Called with the Arithmetic, then the inputs."""


@dataclass(slots=True)
class GeOp:
    """One operator of the lowered graph.

    Args:
        name: unique in the graph, the type with a counter (``Add_2``).
        inputs: edges, ``producer:index``.
        fx_names: for each output ``{node}-{target}.OUTPUT.{k}``, or None inside an expansion.
        is_executed: views, constants and placeholders are not.
        fx_node: aten node that it came from; "" for placeholders.
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    kernel: Kernel
    fx_names: list[str | None]
    is_executed: bool = True
    fx_node: str = ""
    value: Array | None = None


@dataclass(slots=True)
class Lowered:
    """The GE graph in execution order, and where each FX tensor lives in it."""

    ops: list[GeOp] = field(default_factory=list)
    edges: dict[Ref, str] = field(default_factory=dict)
    types: Counter[str] = field(default_factory=Counter)

    def emit(
        self,
        op_type: str,
        inputs: Sequence[str],
        kernel: Kernel,
        *,
        node: FxNode,
        outputs: int = 1,
        is_executed: bool = True,
    ) -> GeOp:
        """Append an operator that carries no FX name yet."""
        op = GeOp(self._name(op_type), op_type, tuple(inputs), kernel, [None] * outputs, is_executed, node.name)
        self.ops.append(op)
        return op

    def constant(self, value: Argument, dtype: type[np.generic] = np.float32) -> str:
        """Append a Const and return its edge."""
        array = np.asarray(value, dtype)
        op = GeOp(self._name("Const"), "Const", (), _nothing, [None], is_executed=False, value=array)
        self.ops.append(op)
        return f"{op.name}:0"

    def placeholder(self, name: str) -> None:
        self.ops.append(GeOp(name, "Data", (), _nothing, [None], is_executed=False))
        self.edges[Ref(name)] = f"{name}:0"

    def edge(self, argument: Argument) -> str:
        """Return the edge of a tensor argument, or of a new Const for a number."""
        return self.edges[argument] if isinstance(argument, Ref) else self.constant(argument)

    def returns(self, node: FxNode, op: GeOp) -> None:
        """Name the outputs of ``op`` after ``node``."""
        for index in range(node.outputs):
            op.fx_names[index] = f"{node.key}.OUTPUT.{index}"
            self.edges[Ref(node.name, index)] = f"{op.name}:{index}"

    def _name(self, op_type: str) -> str:
        count = self.types[op_type]
        self.types[op_type] += 1
        return f"{op_type}_{count}" if count else op_type


Converter = Callable[[Lowered, FxNode], None]


def lower(trace: Trace, converters: dict[str, Converter] | None = None) -> Lowered:
    """Return the GE graph of a trace. ``converters`` adds targets to the built-in ones; unknown ones are a KeyError."""
    known = {**CONVERTERS, **(converters or {})}
    lowered = Lowered()
    for name in trace.placeholders:
        lowered.placeholder(name)
    for node in trace.nodes:
        known[node.target](lowered, node)
    return lowered


def elementwise(op_type: str, function: Callable[..., Array]) -> Converter:
    """Return a converter to one operator that takes all arguments as tensors; numbers become scalar constants."""

    def convert(lowered: Lowered, node: FxNode) -> None:
        inputs = [lowered.edge(argument) for argument in node.args]
        lowered.returns(node, lowered.emit(op_type, inputs, partial(_apply, function), node=node))

    return convert


def view(op_type: str, rearrange: Callable[..., Result]) -> Converter:
    """Return a converter to an operator that never runs. ``rearrange`` takes the array, then the other arguments."""

    def convert(lowered: Lowered, node: FxNode) -> None:
        inputs = [lowered.edge(node.args[0])]
        kernel = partial(_rearranged, rearrange, node.args[1:])
        op = lowered.emit(op_type, inputs, kernel, node=node, outputs=node.outputs, is_executed=False)
        lowered.returns(node, op)

    return convert


def transpose(lowered: Lowered, node: FxNode, axes: Sequence[int]) -> None:
    """Emit a Transpose with its permutation as a second, constant operand."""
    edges = [lowered.edge(node.args[0]), lowered.constant(list(axes), np.int64)]
    lowered.returns(node, lowered.emit("Transpose", edges, _permuted, node=node))


def _nothing(*_: object) -> Result:
    return ()


def _apply(function: Callable[..., Array], _: Arithmetic, *inputs: Array) -> Array:
    return np.asarray(function(*inputs))


def _rearranged(rearrange: Callable[..., Result], extra: Sequence[Argument], _: Arithmetic, x: Array) -> Result:
    return rearrange(x, *extra)


def _permuted(_: Arithmetic, x: Array, axes: Array) -> Array:
    return np.transpose(x, [int(axis) for axis in axes.tolist()])


def _matmul(arithmetic: Arithmetic, a: Array, b: Array) -> Array:
    return arithmetic.matmul(a, b)


def _swapped(rank: int, first: int, second: int) -> list[int]:
    axes = list(range(rank))
    axes[first], axes[second] = axes[second], axes[first]
    return axes


def _convert_t(lowered: Lowered, node: FxNode) -> None:
    transpose(lowered, node, (1, 0))


def _convert_transpose(lowered: Lowered, node: FxNode) -> None:
    _, first, second = node.args
    assert isinstance(first, int)
    assert isinstance(second, int)
    # The only rank in these graphs: attention works on (heads, rows, columns).
    transpose(lowered, node, _swapped(3, first, second))


def _convert_permute(lowered: Lowered, node: FxNode) -> None:
    axes = node.args[1]
    assert isinstance(axes, Sequence)
    transpose(lowered, node, [axis for axis in axes if isinstance(axis, int)])


def _convert_addmm(lowered: Lowered, node: FxNode) -> None:
    bias, a, b = (lowered.edge(argument) for argument in node.args)
    product = lowered.emit("MatMulV2", [a, b], _matmul, node=node)
    lowered.returns(node, lowered.emit("Add", [f"{product.name}:0", bias], partial(_apply, np.add), node=node))


def _convert_product(op_type: str) -> Converter:
    def convert(lowered: Lowered, node: FxNode) -> None:
        inputs = [lowered.edge(argument) for argument in node.args]
        lowered.returns(node, lowered.emit(op_type, inputs, _matmul, node=node))

    return convert


def _convert_softmax(lowered: Lowered, node: FxNode) -> None:
    axis = node.args[1]
    assert isinstance(axis, int)
    kernel = partial(softmax, axis=axis)
    lowered.returns(node, lowered.emit("SoftmaxV2", [lowered.edge(node.args[0])], kernel, node=node))


def _convert_layer_norm(lowered: Lowered, node: FxNode) -> None:
    x, shape, gamma, beta, eps = node.args
    inputs = [lowered.edge(x), lowered.constant(shape, np.int64), lowered.edge(gamma), lowered.edge(beta)]
    assert isinstance(eps, float)
    kernel = partial(_layer_norm, eps)
    lowered.returns(node, lowered.emit("LayerNormV4", inputs, kernel, node=node, outputs=3))


def _layer_norm(eps: float, arithmetic: Arithmetic, x: Array, _: Array, gamma: Array, beta: Array) -> Result:
    return layer_norm(arithmetic, x, gamma, beta, eps=eps)


def _unbound(x: Array, axis: int = 0) -> tuple[Array, ...]:
    return tuple(np.moveaxis(x, axis, 0))


CONVERTERS: dict[str, Converter] = {
    "aten.embedding.default": elementwise("GatherV2", gather),
    "aten.native_layer_norm.default": _convert_layer_norm,
    "aten.t.default": _convert_t,
    "aten.transpose.int": _convert_transpose,
    "aten.permute.default": _convert_permute,
    "aten.addmm.default": _convert_addmm,
    "aten.mm.default": _convert_product("MatMulV2"),
    "aten.bmm.default": _convert_product("BatchMatMul"),
    "aten._softmax.default": _convert_softmax,
    "aten.gelu.default": elementwise("Gelu", gelu),
    "aten.add.Tensor": elementwise("Add", np.add),
    "aten.mul.Tensor": elementwise("Mul", np.multiply),
    "aten.view.default": view("Reshape", np.reshape),
    "aten._unsafe_view.default": view("Reshape", np.reshape),
    "aten.clone.default": view("Identity", np.asarray),
    "aten.unbind.int": view("Split", _unbound),
}
"""Converters by printed aten target."""
