"""What a graph compiler makes of a network: fused, split and inserted operators, storage layouts, int8 products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from generate.offline_layers import EPSILON, INPUT, Array, Layer, Network, edge

FUSED_KINDS = (
    ("conv", "bn", "add", "relu"),
    ("conv", "bn", "relu"),
    ("conv", "bn"),
    ("conv", "relu"),
    ("conv", "sigmoid"),
    ("matmul", "bias", "relu"),
    ("matmul", "bias", "gelu"),
    ("matmul", "bias"),
    ("sigmoid", "mul"),
    ("scale", "mask"),
)
"""Layers that the device runs as one operator, the longest first; the last but one as two operators of both."""

FOLDED_KINDS = ("bn", "bias")
"""Layers that become part of the int8 product before them."""

OP_TYPES = {
    "conv": "Conv2D", "bn": "BNInference", "pool": "MaxPool", "relu": "Relu", "sigmoid": "Sigmoid", "mul": "Mul",
    "add": "Add", "gap": "ReduceMeanD", "flatten": "Reshape", "upsample": "ResizeNearestNeighborV2D",
    "concat": "ConcatD", "split": "SplitD", "matmul": "MatMulV2", "bias": "BiasAdd", "gelu": "Gelu",
    "norm": "LayerNorm", "scale": "Muls", "mask": "Add", "softmax": "SoftmaxV2", "heads": "ConfusionTransposeD",
    "transpose": "TransposeD", "merge": "ConfusionTransposeD",
}  # fmt: skip

Step = Callable[[list[Array]], list[Array]]


@dataclass(frozen=True)
class Int8:
    """How a product runs in int8.

    Args:
        scale: of the activations.
        weight_scale: of the weights, one for each output channel.
        codes: the weights.
        bias: what is added behind, one for each output channel.
        folded: how many layers of the operator this stands for.
    """

    scale: float
    weight_scale: Array
    codes: Array
    bias: Array
    folded: int


@dataclass(frozen=True)
class DeviceOp:
    """One operator of the device.

    Args:
        name, op_type: in the compiled graph.
        inputs: the device outputs it reads, ``name:index``.
        reads: the original outputs that these stand for.
        layers: the layers that it computes.
        gives: original output behind each of its own, None where there is none.
        originals: names before fusion.
        layout, dtype: of its outputs.
        is_inner: one of several operators for the same originals, not the one that gives what they give.
        step: what it computes where that is not its layers.
        int8: how its first layers run in int8.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    gives: tuple[str | None, ...] = (None,)
    originals: tuple[str, ...] = ()
    layout: str = "ND"
    dtype: str = "float16"
    is_inner: bool = False
    step: Step | None = field(default=None, compare=False)
    int8: Int8 | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Build:
    """How a network is compiled.

    Args:
        storage: element type of the device.
        is_fused: fuse neighbours and split some layers into several operators.
        int8: names of the products that run in int8.
        clip: largest int8 activation, in the largest value that is there.
        is_per_channel: each output channel has a scale of its own for its int8 weights.
        is_rough: elementwise operators keep their intermediate results in the storage type.
    """

    storage: str = "float16"
    is_fused: bool = True
    int8: frozenset[str] = frozenset()
    clip: float = 0.95
    is_per_channel: bool = True
    is_rough: bool = False


def compile_network(network: Network, build: Build, golden: Mapping[str, Array]) -> list[DeviceOp]:
    """Return the device's operators in the order in which they run; ``golden`` calibrates the int8 scales."""
    return _Compiler(network, build, golden).run()


class _Compiler:
    def __init__(self, network: Network, build: Build, golden: Mapping[str, Array]) -> None:
        self.network = network
        self.build = build
        self.golden = golden
        self.ops: list[DeviceOp] = []
        self.made: dict[str, str] = {}
        self.layouts: dict[str, str] = {}
        self.inserted = 0

    def run(self) -> list[DeviceOp]:
        is_image, storage = self.network.is_image, self.build.storage
        data = DeviceOp(
            INPUT, "Data", gives=(f"{INPUT}:0",), originals=(INPUT,), layout="NCHW" if is_image else "ND",
            dtype="float32",
        )  # fmt: skip
        self._add(data)
        self._insert(f"{INPUT}:0", "TransData" if is_image else "Cast", "NC1HWC0" if is_image else "ND", storage)
        for chain in _chains(self.network.layers, self.build):
            self._emit(chain)
        last = edge(self.network.layers[-1].name)
        self._add(DeviceOp("Node_Output", "NetOutput", (self.made[last],), (last,), layout=self.layouts[last]))
        return self.ops

    def _add(self, op: DeviceOp) -> None:
        self.ops.append(op)
        for number, given in enumerate(op.gives):
            if given is not None:
                self.made[given], self.layouts[given] = f"{op.name}:{number}", op.layout

    def _insert(self, original: str, op_type: str, layout: str, dtype: str) -> None:
        """Add a cast or change of layout, which later readers of the value read."""
        name = f"trans_{op_type}_{self.inserted}"
        self.inserted += 1
        self.ops.append(DeviceOp(name, op_type, (self.made[original],), (original,), layout=layout, dtype=dtype))
        self.made[original], self.layouts[original] = f"{name}:0", layout

    def _emit(self, chain: tuple[Layer, ...]) -> None:
        kinds = tuple(layer.kind for layer in chain)
        first, last = chain[0], chain[-1]
        self._convert_inputs(chain)
        if self.build.is_fused and kinds == ("gap",):
            self._split_mean(first)
        elif self.build.is_fused and kinds == ("norm",):
            self._split_norm(first)
        elif kinds == ("sigmoid", "mul"):
            self._two_for_two(first, last)
        elif first.name in self.build.int8:
            self._int8(chain)
        else:
            name = first.name if len(chain) == 1 else first.name + last.name
            reads = _reads(chain)
            self._add(
                DeviceOp(
                    name, _op_type(first), tuple(self.made[read] for read in reads), reads, chain,
                    gives=tuple(f"{last.name}:{n}" for n in range(_outputs(last))),
                    originals=tuple(layer.name for layer in chain), layout=self._layout(chain),
                    dtype="float32" if self._is_last_softmax(last) else self.build.storage,
                )
            )  # fmt: skip

    def _is_last_softmax(self, layer: Layer) -> bool:
        return layer.kind == "softmax" and layer is self.network.layers[-1]

    def _convert_inputs(self, chain: Sequence[Layer]) -> None:
        first = chain[0]
        if first.kind not in ("norm", "softmax", "flatten"):
            return
        read = edge(first.inputs[0])
        if self.layouts[read] not in ("ND", "NCHW"):
            self._insert(read, "TransData", "NCHW" if first.kind == "flatten" else "ND", self.build.storage)
        if self._is_last_softmax(first):
            self._insert(read, "Cast", "ND", "float32")

    def _layout(self, chain: Sequence[Layer]) -> str:
        if any(layer.kind == "flatten" for layer in chain) or not self.network.is_image:
            return "FRACTAL_NZ" if chain[0].kind == "matmul" else "ND"
        behind = {layer.name for layer in self.network.layers if layer.kind in ("matmul", "bias", "softmax")}
        if chain[-1].name in behind:
            return "FRACTAL_NZ" if chain[0].kind == "matmul" else "ND"
        return "NC1HWC0"

    def _split_mean(self, layer: Layer) -> None:
        read = edge(layer.inputs[0])
        inner = f"{layer.name}_sum"
        pixels = self.golden[read].shape[2] * self.golden[read].shape[3]
        layout, dtype = "NC1HWC0", self.build.storage
        self._add(
            DeviceOp(
                inner, "ReduceSumD", (self.made[read],), (read,), originals=(layer.name,), layout=layout, dtype=dtype,
                is_inner=True, step=lambda x: [x[0].sum(axis=(2, 3), keepdims=True)],
            )
        )  # fmt: skip
        self._add(
            DeviceOp(
                layer.name, "RealDiv", (f"{inner}:0",), (inner,), gives=(f"{layer.name}:0",), originals=(layer.name,),
                layout=layout, dtype=dtype, step=lambda x: [x[0] / np.float32(pixels)],
            )
        )  # fmt: skip

    def _split_norm(self, layer: Layer) -> None:
        read = edge(layer.inputs[0])
        mean, centred = f"{layer.name}_mean", f"{layer.name}_centred"
        source, storage, originals = self.made[read], self.build.storage, (layer.name,)
        kept = np.float32 if storage == "float32" else np.float16
        gamma, beta = (weight.astype(kept).astype(np.float32) for weight in layer.weights)
        common = {"originals": originals, "dtype": storage}

        def normed(x: list[Array]) -> list[Array]:
            variance = np.square(x[0]).mean(axis=-1, keepdims=True)
            return [x[0] / np.sqrt(variance + np.float32(EPSILON)) * gamma + beta]

        self._add(
            DeviceOp(mean, "ReduceMeanD", (source,), (read,), is_inner=True, **common,
                     step=lambda x: [x[0].mean(axis=-1, keepdims=True)])
        )  # fmt: skip
        self._add(
            DeviceOp(centred, "Sub", (source, f"{mean}:0"), (read, mean), is_inner=True, **common,
                     step=lambda x: [x[0] - x[1]])
        )  # fmt: skip
        self._add(
            DeviceOp(layer.name, "LayerNormScale", (f"{centred}:0",), (centred,), (layer,), (f"{layer.name}:0",),
                     **common, step=normed)
        )  # fmt: skip

    def _two_for_two(self, sigmoid: Layer, product: Layer) -> None:
        read, other = edge(sigmoid.inputs[0]), next(edge(n) for n in product.inputs if n != sigmoid.name)
        inner, originals = f"{product.name}_exp", (sigmoid.name, product.name)
        common = {"originals": originals, "layout": self.layouts[read], "dtype": self.build.storage}
        self._add(
            DeviceOp(inner, "Exp", (self.made[read],), (read,), is_inner=True, **common,
                     step=lambda x: [np.exp(-x[0])])
        )  # fmt: skip
        self._add(
            DeviceOp(product.name, "SwishPart", (self.made[other], f"{inner}:0"), (other, inner), **common,
                     gives=(f"{product.name}:0",), step=lambda x: [x[0] / (1 + x[1])])
        )  # fmt: skip

    def _int8(self, chain: tuple[Layer, ...]) -> None:
        first, read = chain[0], edge(chain[0].inputs[0])
        scale = self.build.clip * float(np.abs(self.golden[read]).max()) / 127
        quant = f"{first.name}_quant_layer"
        layout = "NC1HWC0" if self.golden[read].ndim == 4 else "FRACTAL_NZ"
        self._add(
            DeviceOp(quant, "AscendQuant", (self.made[read],), (read,), originals=(quant,), layout=layout,
                     dtype="int8", step=lambda x: [np.clip(np.rint(x[0] / np.float32(scale)), -128, 127)])
        )  # fmt: skip
        kernel, bias, folded = _folded(chain)
        axes = tuple(range(1, kernel.ndim)) if kernel.ndim == 4 else (0,)
        largest = np.abs(kernel).max(axis=axes if self.build.is_per_channel else None, keepdims=True)
        weight_scale = np.maximum(largest, 1e-6) / 127
        int8 = Int8(scale, weight_scale.reshape(-1), np.rint(kernel / weight_scale), bias, folded)
        rest = chain[folded:]
        dequant = f"{first.name}_dequant_layer"
        others = _reads(chain)[1:]
        gives = edge(rest[-1].name) if rest else edge(chain[folded - 1].name)
        self._add(
            DeviceOp(
                first.name + dequant + "".join(layer.name for layer in rest), _op_type(first),
                (f"{quant}:0", *(self.made[name] for name in others)), (read, *others), chain, gives=(gives,),
                originals=(first.name, dequant, *(layer.name for layer in rest)), layout=self._layout(chain),
                dtype=self.build.storage, int8=int8,
            )
        )  # fmt: skip


def _folded(chain: Sequence[Layer]) -> tuple[Array, Array, int]:
    """Return kernel and bias of a product with what is folded into it, and how many layers that are."""
    kernel = chain[0].weights[0]
    count = len(kernel) if kernel.ndim == 4 else kernel.shape[1]
    bias = chain[0].weights[1] if len(chain[0].weights) > 1 else np.zeros(count, np.float32)
    if len(chain) == 1 or chain[1].kind not in FOLDED_KINDS:
        return kernel, bias, 1
    if chain[1].kind == "bias":
        return kernel, bias + chain[1].weights[0], 2
    scale, shift, mean, variance = chain[1].weights
    factor = scale / np.sqrt(variance + np.float32(EPSILON))
    return kernel * factor.reshape(-1, 1, 1, 1), shift + (bias - mean) * factor, 2


def _chains(layers: Sequence[Layer], build: Build) -> list[tuple[Layer, ...]]:
    """Return the layers that run together, by the place of the last of them."""
    readers: dict[str, list[Layer]] = {}
    for layer in layers:
        for name in dict.fromkeys(layer.inputs):
            readers.setdefault(name, []).append(layer)
    taken: set[str] = set()
    found: list[tuple[Layer, ...]] = []
    for layer in layers:
        if layer.name in taken:
            continue
        chain = (layer,)
        folded = [(layer.kind, kind) for kind in FOLDED_KINDS] if layer.name in build.int8 else []
        for kinds in FUSED_KINDS if build.is_fused else folded:
            grown = _grow(layer, kinds, readers)
            if len(grown) > len(chain) and not any(part.name in taken for part in grown):
                chain = grown
        taken.update(part.name for part in chain)
        found.append(chain)
    places = {layer.name: place for place, layer in enumerate(layers)}
    return sorted(found, key=lambda chain: places[chain[-1].name])


def _grow(layer: Layer, kinds: Sequence[str], readers: Mapping[str, Sequence[Layer]]) -> tuple[Layer, ...]:
    if layer.kind != kinds[0]:
        return ()
    chain = [layer]
    for kind in kinds[1:]:
        following = readers.get(chain[-1].name, ())
        if len(following) != 1 or following[0].kind != kind:
            return ()
        chain.append(following[0])
    return tuple(chain)


def _reads(chain: Sequence[Layer]) -> tuple[str, ...]:
    inner = {layer.name for layer in chain}
    return tuple(dict.fromkeys(edge(name) for layer in chain for name in layer.inputs if name not in inner))


def _op_type(layer: Layer) -> str:
    return "BatchMatMulV2" if layer.kind == "matmul" and not layer.weights else OP_TYPES[layer.kind]


def _outputs(layer: Layer) -> int:
    return int(layer.number) if layer.kind == "split" else 1


def with_constants(ops: Sequence[DeviceOp], storage: str) -> list[DeviceOp]:
    """Return the operators with those of type Const before them that hold their weights, which they read."""
    found: list[DeviceOp] = []
    for op in ops:
        held: list[DeviceOp] = []
        for place, layer in enumerate(op.layers):
            if op.int8 is not None and place < op.int8.folded:
                if place == 0:
                    held.append(_held(layer, op.int8.codes, "int8", 0))
                continue
            held += [_held(layer, weight, storage, number) for number, weight in enumerate(layer.weights)]
        found += [*held, replace(op, inputs=(*op.inputs, *(f"{const.name}:0" for const in held)))]
    return found


def _held(layer: Layer, values: Array, dtype: str, number: int) -> DeviceOp:
    layout = "FRACTAL_Z" if layer.kind == "conv" and number == 0 else "ND"
    name = f"{layer.name}/weight{number or ''}"
    return DeviceOp(name, "Const", layers=(layer,), layout=layout, dtype=dtype, step=lambda _: [values])
