"""The runner of Caffe models: the network as it runs in a test, computed by OpenCV without fusion, layer by layer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumpers.base.runner import DeclaredInput, Runner
from probe_flow.dumpers.caffe.network import Layer, Network, NetworkError, read_network
from probe_flow.dumpers.caffe.weights import WHOLE_FILE, first_misfit, read_shapes
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.errors import Diagnostic, FormatError, UsageError
from probe_flow.files.opening import open_bytes

CHUNK_BYTES = 256 << 20
"""Bytes of blobs that are asked for at once; the layers before them are computed again for the next ones."""

INPUT_TYPE = "Input"
_SHARE = 4
_UNKNOWN_LAYER = re.compile(r'Can\'t create layer "([^"]*)" of type "([^"]*)"')
_FIRST_LINE = 300


class CaffeRunner(Runner):
    """All layers of a network are asked for, in as few runs as the memory allows."""

    framework = "OpenCV"
    libraries = ("opencv-python-headless", "opencv-python", "numpy")
    model_word = "a Caffe network"
    model_files = (".prototxt", ".pt", ".txt")
    takes_code = False
    input_help = "give `.npy` arrays of float32, or raw bytes"

    def seed(self) -> None:
        cv2.setRNGSeed(self.job.seed)

    def is_model(self, found: object) -> bool:
        return isinstance(found, Network)

    def read_model(self, path: Path) -> Any:
        try:
            return read_network(path)
        except (NetworkError, FormatError) as error:
            why = error.diagnostic.message if isinstance(error, FormatError) else str(error)
            why = why.removeprefix(f"`{path.name}` ")
            raise self._no_model(why, "give the deploy form of the prototxt") from error

    def open(self, model: Any) -> None:
        if not hasattr(cv2.dnn, "readNetFromCaffe"):
            what = f"OpenCV {cv2.__version__} reads no Caffe models; the last one that does is 4.x"
            raise UsageError(Diagnostic("PF6320", what, help="install it with `pip install 'probe-flow[caffe]'`"))
        self._model: Network = model
        if self.job.threads is not None:
            cv2.setNumThreads(self.job.threads)
        weights = self.job.dump.get("weights")
        if weights is None:
            raise self._no_model("has no weights", "name the caffemodel with `weights`")
        self._weights = Path(weights)
        self._check_weights()
        self._folder = ArrayFolder(self.folder, ArrayOptions.of(self.job.dump))

    def _check_weights(self) -> None:
        """Refuse weights of another network: OpenCV would fail at the first layer without them, in words of its own."""
        try:
            self._shapes = read_shapes(self._weights)
        except FormatError as error:
            what = f"`weights: {self._weights.name}` cannot be read: {error.diagnostic.message}"
            raise UsageError(Diagnostic("PF6322", what, help=WHOLE_FILE, path=str(self._weights))) from error
        lacking = [layer.name for layer in self._model.layers if layer.has_weights and layer.name not in self._shapes]
        if lacking:
            what = f"`weights: {self._weights.name}` has none for {len(lacking)} layers, such as `{lacking[0]}`"
            cure = "name the caffemodel that was trained with this network: layers are found by their names"
            raise UsageError(Diagnostic("PF6322", what, help=cure, path=str(self._weights)))

    def _no_model(self, why: str, cure: str) -> UsageError:
        return UsageError(Diagnostic("PF6322", f"`model: {self.job.model}` {why}", help=cure))

    def model_parts(self) -> Sequence[Path]:
        return (self._weights,)

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput]:
        return self._model.inputs

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        return "float" if dtype == "float32" else None

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        return array if dtype is None else array.astype(dtype)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        return tensor, np.ascontiguousarray(tensor).tobytes()

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002 (they come by name)
        net = self._net(kwargs)
        for name, value in kwargs.items():
            if self._folder.takes(self._input_name(name), INPUT_TYPE):
                self._folder.write(self._input_name(name), INPUT_TYPE, 0, value, value=name)
        chosen = [
            (layer, found)
            for layer, found in zip(self._model.layers, net.getLayerNames(), strict=True)
            if self._folder.takes(layer.name, layer.op_type)
        ]
        self._runs = 0
        for part in self._chunks(net, chosen, kwargs):
            self._runs += 1
            for (layer, _), blobs in zip(part, self._computed(net, [found for _, found in part]), strict=True):
                for index, (top, blob) in enumerate(zip(layer.tops, blobs, strict=False)):
                    self._folder.write(layer.name, layer.op_type, index, np.asarray(blob), value=top)
        for name, reason in self._model.left_out:
            self._folder.skip(name, reason)

    def _computed(self, net: Any, names: Sequence[str]) -> Sequence[Sequence[Any]]:
        """Return the blobs of some layers."""
        try:
            found: Sequence[Sequence[Any]] = net.forwardAndRetrieve([*names])
        except cv2.error as error:
            if _UNKNOWN_LAYER.search(str(error)) is not None:  # layers are made when they first run
                raise self._not_read(error) from error
            raise
        return found

    def _net(self, inputs: Mapping[str, Any]) -> Any:
        """Return the network with its inputs set."""
        try:
            net = self._loaded(inputs, len(self._model.layers))
        except cv2.error as error:
            self._check_fit(self._shapes_ahead(inputs))
            raise self._not_read(error) from error
        found = net.getLayerNames()
        if len(found) != len(self._model.layers):
            what = f"has {len(self._model.layers)} layers, and OpenCV makes {len(found)} of them"
            raise self._no_model(what, "report it with the prototxt: results could not be told apart")
        self._check_fit(_blob_shapes(net, self._model.layers, inputs) or self._shapes_ahead(inputs))
        for name, value in inputs.items():
            net.setInput(value, name)
        return net

    def _loaded(self, inputs: Mapping[str, Any], count: int) -> Any:
        """Return the first layers of the network, for inputs of these shapes."""
        shapes = {each.name: inputs[each.name].shape for each in self._model.inputs}
        given = [DeclaredInput(each.name, each.dtype, shapes[each.name]) for each in self._model.inputs]
        text = Network(self._model.layers[:count], given, (), self._model.head).text()
        with open_bytes(self._weights) as file:
            weights = np.frombuffer(file.read(), np.uint8)
        net = cv2.dnn.readNetFromCaffe(np.frombuffer(text, np.uint8), weights)
        net.enableFusion(False)  # noqa: FBT003 (it takes no keywords); folded layers give other values
        net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        return net

    def _check_fit(self, blobs: Mapping[str, Sequence[int]]) -> None:
        """Refuse weights of other shapes than the network needs: OpenCV says so in words of its source, if at all."""
        shapes = {name: tuple(shape) for name, shape in blobs.items()}
        found = first_misfit(self._model.layers, self._shapes, shapes)
        if found is None:
            return
        layer, words = found
        bottom = layer.bottoms[0]
        what = f"`weights: {self._weights.name}`: the layer `{layer.name}` ({layer.op_type}) has {words}"
        cure = f"it reads `{bottom}` of shape {shapes[bottom]}: name the caffemodel that was trained with this network"
        raise UsageError(
            Diagnostic("PF6322", what, help=f"{cure}, or correct the prototxt or the input", path=str(self._weights))
        )

    def _shapes_ahead(self, inputs: Mapping[str, Any]) -> Mapping[str, Sequence[int]]:
        """Return the shapes of all blobs before the layer at which OpenCV fails."""
        fits, fails = 0, len(self._model.layers) + 1
        known: Mapping[str, Sequence[int]] = {}
        while fails - fits > 1:
            count = (fits + fails) // 2
            try:
                found = _blob_shapes(self._loaded(inputs, count), self._model.layers[:count], inputs)
            except cv2.error:
                found = {}
            if found:
                fits, known = count, found
            else:
                fails = count
        return known or {name: value.shape for name, value in inputs.items()}

    def _not_read(self, error: Exception) -> UsageError:
        found = _UNKNOWN_LAYER.search(str(error))
        if found is not None:
            what = f"has the layer `{found[1]}` of type `{found[2]}`, which OpenCV does not have"
            return self._no_model(what, "dump this network with Caffe itself, and adopt the arrays with `path`")
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        return self._no_model(
            f"cannot be loaded by OpenCV: {lines[0][:_FIRST_LINE]}", "the traceback stands in the log"
        )

    def _chunks(
        self, net: Any, chosen: Sequence[tuple[Layer, str]], inputs: Mapping[str, Any]
    ) -> Iterator[list[tuple[Layer, str]]]:
        """Yield the layers in parts whose blobs fit the memory together."""
        limit = CHUNK_BYTES
        if self.job.memory_bytes is not None:
            limit = min(limit, self.job.memory_bytes // _SHARE)
        sizes = _sizes(net, [found for _, found in chosen], [value.shape for value in inputs.values()])
        part: list[tuple[Layer, str]] = []
        held = 0
        for each, size in zip(chosen, sizes, strict=True):
            # OpenCV keeps only the first top of a layer for the one who asks, and computes later layers into the
            # others: what gives several has to be the last to run.
            is_alone = len(each[0].tops) > 1
            if part and (held + size > limit or is_alone):
                yield part
                part, held = [], 0
            part.append(each)
            held += limit if is_alone else size
        if part:
            yield part

    def _input_name(self, name: str) -> str:
        """Return the name of the node that stands for an input: its own, unless a layer is called so."""
        taken = {layer.name for layer in self._model.layers}
        while name in taken:
            name += "__input"
        return name

    def words(self, error: BaseException) -> str:
        """Return what OpenCV says, without its own place in its source."""
        text = " ".join(str(error).split())
        return re.sub(r"^OpenCV\([^)]*\) \S+ error: ", "", text)[:_FIRST_LINE]

    def finish(self) -> Mapping[str, Any]:
        if not self._folder.written:
            raise self._folder.nothing_dumped()
        return {"tensors": self._folder.written, "runs": self._runs, "threads": cv2.getNumThreads()}

    def conclude(self, record: Mapping[str, Any]) -> None:
        inputs = [
            ManifestNode(self._input_name(each.name), INPUT_TYPE, (), (each.name,)) for each in self._model.inputs
        ]
        layers = [ManifestNode(layer.name, layer.op_type, layer.bottoms, layer.tops) for layer in self._model.layers]
        self._folder.finish(self.job.facts(record, f"{self.framework} {cv2.__version__}"), [*inputs, *layers])


def _blob_shapes(net: Any, layers: Sequence[Layer], inputs: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """Return the shapes of the inputs and of what each layer gives; nothing where OpenCV cannot tell them."""
    given = {name: value.shape for name, value in inputs.items()}
    tops = top_shapes(net, net.getLayerNames(), [*given.values()])
    if not any(tops):
        return {}
    named = ((layer.tops, shapes) for layer, shapes in zip(layers, tops, strict=True))
    return {**given, **{top: shape for names, shapes in named for top, shape in zip(names, shapes, strict=False)}}


def _sizes(net: Any, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> list[int]:
    """Return the bytes of what each layer gives, 0 where OpenCV does not tell it."""
    return [sum(4 * math.prod(shape) for shape in each) for each in top_shapes(net, names, shapes)]


def top_shapes(net: Any, names: Sequence[str], shapes: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
    """Return the shapes of what each layer gives, none where OpenCV does not tell them.

    Args:
        net: of OpenCV.
        names: of layers, as OpenCV has them.
        shapes: of the inputs.
    """
    try:
        numbers, _, given = net.getLayersShapes([[int(size) for size in shape] for shape in shapes])
    except (cv2.error, TypeError, ValueError):
        return [[] for _ in names]
    known = {
        int(number): [tuple(int(size) for size in shape) for shape in each]
        for number, each in zip(np.asarray(numbers).reshape(-1), given, strict=True)
    }
    return [known.get(net.getLayerId(name), []) for name in names]
