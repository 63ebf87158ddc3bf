"""The text of a Caffe network: its layers as they run in a test, each with tops of its own.

Layers that are computed in place (their top is their bottom) get a top of their own, so that what each of them gives
stays; layers of the training phase are left out, and so are those that read what nobody gives then (labels). Both
forms are read: ``layer { type: "ReLU" }``, and the older ``layers { type: RELU }``. Source: caffe.proto of BVLC Caffe.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.files.opening import open_bytes
from probe_flow.files.text_format import TextFields, unquote

Entry: TypeAlias = "tuple[str, bytes | list[Entry]]"
"""A field: its key, and its value as written or the fields of a block."""

_MAX_BYTES = 64 << 20
_MAX_DEPTH = 50
"""Blocks inside of each other; those of Caffe's own messages are at most 5 deep."""
_LAYERS = ("layer", "layers")
_INPUT_TYPES = frozenset({"Input", "Data", "ImageData", "MemoryData", "HDF5Data", "DummyData", "WindowData"})
_TRAIN_ONLY = frozenset(
    {
        "Accuracy", "ContrastiveLoss", "EuclideanLoss", "HDF5Output", "HingeLoss", "InfogainLoss",
        "MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "Silence",
    }
)  # fmt: skip
_OLD_NAMES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "CONCAT": "Concat", "CONVOLUTION": "Convolution",
    "DATA": "Data", "DECONVOLUTION": "Deconvolution", "DROPOUT": "Dropout", "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise", "EXP": "Exp", "FLATTEN": "Flatten", "HDF5_DATA": "HDF5Data", "HINGE_LOSS": "HingeLoss",
    "IMAGE_DATA": "ImageData", "INNER_PRODUCT": "InnerProduct", "LRN": "LRN", "MEMORY_DATA": "MemoryData", "MVN": "MVN",
    "POOLING": "Pooling", "POWER": "Power", "RELU": "ReLU", "SIGMOID": "Sigmoid", "SLICE": "Slice",
    "SOFTMAX": "Softmax", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPLIT": "Split", "TANH": "TanH", "ACCURACY": "Accuracy",
    "EUCLIDEAN_LOSS": "EuclideanLoss", "SILENCE": "Silence", "WINDOW_DATA": "WindowData",
}  # fmt: skip
"""Types of the older form -> those of the newer one."""

_WEIGHTED = frozenset({"BatchNorm", "Convolution", "Deconvolution", "Embed", "InnerProduct", "PReLU"})


class NetworkError(ValueError):
    """The text says why a network cannot be run."""


class Layer(Struct, frozen=True):
    """One layer.

    Args:
        name: its name.
        op_type: its type, by its newer name.
        bottoms: blobs that it reads.
        tops: blobs that it gives, none of which another layer gives.
        fields: all of it, as written.
        key: ``layer``, or ``layers`` of the older form.
    """

    name: str
    op_type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    fields: list[Entry]
    key: str = "layer"

    @property
    def has_weights(self) -> bool:
        """Whether it needs weights from the other file."""
        return self.op_type in _WEIGHTED or (self.op_type == "Scale" and len(self.bottoms) == 1)

    def numbers(self, key: str) -> list[int]:
        """Return the numbers of a setting, e.g. ``kernel_size``; none where it is not given."""
        return [int(word) for word in self._settings(key) if word.lstrip("-").isdecimal()]

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a setting that is true or false."""
        words = self._settings(key)
        return words[-1] in ("true", "1") if words else default

    def _settings(self, key: str) -> list[str]:
        blocks = (value for name, value in self.fields if name.endswith("_param") and isinstance(value, list))
        return [word for block in blocks for word in _words(block, key)]


class Network(Struct, frozen=True):
    """A network as it runs in a test.

    Args:
        layers: those that run, in their order.
        inputs: what it is fed with.
        left_out: names of layers that only training has, with the reason.
        head: fields of the network beside its layers and inputs.
    """

    layers: Sequence[Layer]
    inputs: Sequence[DeclaredInput]
    left_out: Sequence[tuple[str, str]]
    head: Sequence[Entry]

    def text(self) -> bytes:
        """Return the network in the text format, with the tops that `layers` have."""
        lines = [b"\n".join(_written(self.head))]
        for given in self.inputs:
            dims = " ".join(f"dim: {size}" for size in given.shape or ())
            lines.append(f'input: "{given.name}" input_shape {{ {dims} }}'.encode())
        for layer in self.layers:
            others = [entry for entry in layer.fields if entry[0] not in ("bottom", "top", "include", "exclude")]
            blobs = [("bottom", _quoted(name)) for name in layer.bottoms]
            blobs += [("top", _quoted(name)) for name in layer.tops]
            lines.append(b"%s {\n%s\n}" % (layer.key.encode(), b"\n".join(_written([*others, *blobs]))))
        return b"\n".join(lines) + b"\n"


def read_network(path: Path) -> Network:
    """Read a network.

    Raises:
        NetworkError: it cannot be run, with the reason.
        FormatError: PF3220, PF3221 it is not of the text format.
        OSError: it cannot be read.
    """
    with open_bytes(path) as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise NetworkError(f"is larger than {_MAX_BYTES >> 20} MiB")
    fields = list(_tree(TextFields(io.BytesIO(content), path.name)))
    written = [_layer(key, value) for key, value in fields if key in _LAYERS and isinstance(value, list)]
    if not written:
        raise NetworkError("has no layers")
    head = [entry for entry in fields if entry[0] not in (*_LAYERS, "input", "input_dim", "input_shape", "state")]
    return _as_tested(written, _inputs(fields), head)


def _tree(fields: TextFields, depth: int = 0) -> Iterator[Entry]:
    """Yield the fields of a block, those of blocks in it as lists; at depth 0 those of the file."""
    if depth > _MAX_DEPTH:
        raise NetworkError(f"has blocks in more than {_MAX_DEPTH} blocks")
    for key, kind, raw in fields.block() if depth else iter(fields.next, None):
        if kind == "close":
            raise NetworkError("closes a block that it did not open")
        name = key.decode("utf-8", "replace")
        yield (name, list(_tree(fields, depth + 1))) if kind == "open" else (name, raw)


def _texts(fields: Sequence[Entry], key: str) -> list[str]:
    return [unquote(value) for name, value in fields if name == key and isinstance(value, bytes)]


def _words(fields: Sequence[Entry], key: str) -> list[str]:
    return [value.decode("utf-8", "replace") for name, value in fields if name == key and isinstance(value, bytes)]


def _blocks(fields: Sequence[Entry], key: str) -> list[list[Entry]]:
    return [value for name, value in fields if name == key and isinstance(value, list)]


def _layer(key: str, fields: list[Entry]) -> Layer:
    kinds = _words(fields, "type") or ["?"]
    kind = unquote(kinds[0].encode()) if kinds[0][:1] in "\"'" else _OLD_NAMES.get(kinds[0], kinds[0])
    tops = tuple(_texts(fields, "top"))
    name = (_texts(fields, "name") or list(tops) or [kind])[0]
    return Layer(name, kind, tuple(_texts(fields, "bottom")), tops, fields, key)


def _inputs(fields: Sequence[Entry]) -> list[DeclaredInput]:
    """Return the inputs that the network itself names: ``input``, with ``input_shape`` or four ``input_dim`` each."""
    names = _texts(fields, "input")
    shapes = [_sizes(block, "dim") for block in _blocks(fields, "input_shape")]
    dims = _sizes(fields, "input_dim")
    if not shapes and dims:
        shapes = [dims[start : start + 4] for start in range(0, len(dims), 4)]
    return [
        DeclaredInput(name, "float32", shapes[number] if number < len(shapes) else None)
        for number, name in enumerate(names)
    ]


def _sizes(fields: Sequence[Entry], key: str) -> tuple[int, ...]:
    try:
        return tuple(int(word, 0) for word in _words(fields, key))
    except ValueError as error:
        raise NetworkError(f"has a size that is no number: {error}") from error


def _as_tested(written: Sequence[Layer], inputs: list[DeclaredInput], head: Sequence[Entry]) -> Network:
    """Return the network of the test phase, each layer with tops of its own."""
    blobs = {given.name: given.name for given in inputs}
    taken = set(blobs)
    left_out: list[tuple[str, str]] = []
    layers: list[Layer] = []
    for layer in written:
        if _is_of_training(layer.fields):
            left_out.append((layer.name, "a layer of the training phase"))
        elif layer.op_type in _INPUT_TYPES and not layer.bottoms:
            for given in _given_by(layer):
                if given.name not in blobs and layer.op_type != "DummyData":
                    inputs.append(given)
                blobs.setdefault(given.name, given.name)
                taken.add(given.name)
        elif layer.op_type in _TRAIN_ONLY:
            left_out.append((layer.name, f"`{layer.op_type}` computes nothing for the result"))
        elif lacking := [name for name in _read(layer) if name not in blobs]:
            left_out.append((layer.name, f"nothing gives `{lacking[0]}` outside of training"))
        else:
            layers.append(_with_own_tops(layer, blobs, taken))
    if not layers:
        raise NetworkError("has no layers that run in a test")
    # Labels come from the data layers of a training, and nothing reads them here.
    read = {name for layer in layers for name in layer.bottoms}
    return Network(layers, [given for given in inputs if given.name in read], left_out, head)


def _read(layer: Layer) -> Sequence[str]:
    """Return the blobs that a layer needs in a test: a loss over classes gives probabilities without labels."""
    return layer.bottoms[:1] if layer.op_type == "SoftmaxWithLoss" else layer.bottoms


def _with_own_tops(layer: Layer, blobs: dict[str, str], taken: set[str]) -> Layer:
    """Return a layer that reads what layers before it really give, and gives blobs that no other one gives."""
    bottoms = tuple(blobs[name] for name in _read(layer))
    tops = []
    for number, top in enumerate(layer.tops or (layer.name,)):
        plain = layer.name if len(layer.tops) < 2 else f"{layer.name}.{number}"
        own, count = plain, 1
        while own in taken:
            count += 1
            own = f"{plain}__{count}"
        taken.add(own)
        blobs[top] = own
        tops.append(own)
    changed = replace(layer, bottoms=bottoms, tops=tuple(tops))
    if layer.op_type != "SoftmaxWithLoss":
        return changed
    kind = ("type", b"SOFTMAX" if layer.key == "layers" else b'"Softmax"')
    others = [entry for entry in layer.fields if entry[0] not in ("type", "loss_weight", "loss_param")]
    return replace(changed, op_type="Softmax", tops=tuple(tops[:1]), fields=[*others, kind])


def _is_of_training(fields: Sequence[Entry]) -> bool:
    included = [_words(block, "phase") for block in _blocks(fields, "include")]
    excluded = [_words(block, "phase") for block in _blocks(fields, "exclude")]
    is_included = not included or any(phases != ["TRAIN"] for phases in included)
    return not is_included or any(phases == ["TEST"] for phases in excluded)


def _given_by(layer: Layer) -> Iterator[DeclaredInput]:
    """Yield what a layer feeds the network with; its shapes, where it tells them."""
    shapes = [
        _sizes(shape, "dim") for block in _blocks(layer.fields, "input_param") for shape in _blocks(block, "shape")
    ]
    for number, top in enumerate(layer.tops):
        shape = shapes[min(number, len(shapes) - 1)] if shapes else None
        yield DeclaredInput(top, "float32", shape)


def _quoted(name: str) -> bytes:
    return b'"' + name.replace("\\", "\\\\").replace('"', '\\"').encode() + b'"'


def _written(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Yield the lines of fields."""
    for key, value in entries:
        if isinstance(value, bytes):
            yield f"{key}: ".encode() + value
        else:
            yield f"{key} {{".encode()
            yield from _written(value)
            yield b"}"
