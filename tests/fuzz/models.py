"""Files of networks and of programs: ONNX, Caffe, TensorFlow's debugger, MindSpore's IR, what op_generate is given."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from caffe_models import OLD_NETWORK, caffemodel, old_shaped_blob, weights, write_model
from ge_writer import field_bytes, field_varint
from ir_networks import unpack_networks
from msgspec.structs import replace
from tfdbg_writer import TfdbgRun, graph_record, tensor_message, trace_record, write_events

from fuzz import seeds
from fuzz.seeds import DATA, X
from fuzz.target import MAX_TENSORS, Target, catalog_target, file_target
from fuzz.tree import Tree, tree_of
from probe_flow.dumpers.caffe.network import NetworkError, read_network
from probe_flow.dumpers.caffe.weights import read_shapes
from probe_flow.dumps.mindspore_graph.ir import IrError, read_ir
from probe_flow.dumps.mindspore_graph.ir_code import IrIndex
from probe_flow.dumps.mindspore_graph.ir_files import read_ir_files
from probe_flow.dumps.onnx.constants import elements
from probe_flow.dumps.onnx.wire import WireNode, read_wire_model
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.scripts.op_generate import op_generate, read_config

MAX_BYTES = 1 << 22
"""More than any input has."""


def _onnx_models() -> Sequence[Tree]:
    """Return models: weights of every field, an attribute of every kind, a body, a function."""

    def tensor(kind: int, shape: tuple[int, ...], *content: bytes, name: str) -> bytes:
        dims = b"".join(field_varint(1, dim) or b"\x08\x00" for dim in shape)
        return dims + field_varint(2, kind) + field_bytes(8, name.encode()) + b"".join(content)

    def attribute(name: str, kind: int, content: bytes) -> bytes:
        return field_bytes(1, name.encode()) + content + field_varint(20, kind)

    def node(op: str, *attributes: bytes) -> bytes:
        ends = field_bytes(1, b"x") + field_bytes(1, b"w") + field_bytes(2, b"y") + field_bytes(3, b"n/" + op.encode())
        return ends + field_bytes(4, op.encode()) + b"".join(field_bytes(5, each) for each in attributes)

    given = (
        tensor(1, (2,), field_bytes(9, struct.pack("<2f", 1.5, -2)), name="w"),
        tensor(1, (2,), field_bytes(4, struct.pack("<2f", 1.5, -2)), name="f"),
        tensor(10, (2,), field_bytes(5, b"\x80\x78\x80\x80\x03"), name="h"),
        tensor(22, (3,), field_bytes(9, b"\x21\x03"), name="q"),
        tensor(7, (2,), field_bytes(7, b"\x01\x02"), name="i"),
    )
    outside = field_bytes(13, field_bytes(1, b"location") + field_bytes(2, b"a.bin")) + field_varint(14, 1)
    body = field_bytes(1, node("Add")) + field_bytes(2, b"body")
    attributes = (
        attribute("alpha", 1, b"\x15" + struct.pack("<f", 0.5)),
        attribute("axis", 2, field_varint(3, 2**64 - 1)),
        attribute("mode", 3, field_bytes(4, b"linear")),
        attribute("value", 4, field_bytes(5, given[0])),
        attribute("then_branch", 5, field_bytes(6, body)),
        attribute("pads", 7, field_varint(8, 1) + field_varint(8, 2)),
        attribute("scales", 6, field_bytes(7, struct.pack("<2f", 1, 2))),
    )
    plain = b"".join(field_bytes(1, node(op)) for op in ("Conv", "Relu", "Add"))
    rich = field_bytes(1, node("If", *attributes)) + plain
    graphs = [
        plain + b"".join(field_bytes(5, each) for each in given),
        rich + field_bytes(5, given[0]),
        plain + field_bytes(5, tensor(1, (4,), outside, name="far")),
    ]
    opset = field_bytes(8, field_varint(2, 17))
    return [{"model.bin": field_varint(1, 8) + opset + field_bytes(7, graph)} for graph in graphs]


def _onnx(path: Path) -> None:
    with BinaryFile(path) as file:
        found = read_wire_model(file)
    assert all(isinstance(node, WireNode) for node in found.nodes or ())
    for tensor in found.weights[:MAX_TENSORS]:
        try:
            array = elements(str(path), tensor)
        except ValueError as error:
            raise FormatError(Diagnostic("PF7116", str(error))) from error
        assert array.nbytes <= MAX_BYTES


def _caffe_networks() -> Sequence[Tree]:
    def new(folder: Path) -> None:
        write_model(folder)
        for path in folder.iterdir():
            if path.suffix != ".prototxt":
                path.unlink()

    return [*seeds.written(new), {"net.prototxt": OLD_NETWORK.encode()}]


def _caffe_network(path: Path) -> None:
    try:
        assert read_network(path).layers is not None
    except (NetworkError, OSError) as error:
        raise FormatError(Diagnostic("PF7116", str(error))) from error


def _caffe_weights() -> Sequence[Tree]:
    return [
        {"net.bin": caffemodel({**weights(), "relu1": []})},
        {"net.bin": caffemodel(weights(), is_old=True)},
        {"net.bin": old_shaped_blob("fc", (1, 1, 5, 27))},
    ]


def _tfdbg_dumps() -> Sequence[Tree]:
    def runs(folder: Path) -> None:
        run = TfdbgRun(folder)
        run.add("layer/MatMul", X)
        run.add("layer/Relu", X, 1)
        run.graph(
            [("x", "Placeholder", []), ("layer/MatMul", "MatMul", ["x"]), ("layer/Relu", "Relu", ["layer/MatMul"])]
        )
        TfdbgRun(folder, 1).add("layer/MatMul", X)

    def events(folder: Path) -> None:
        traces = [trace_record(name, tensor_message(X)) for name in ("layer/MatMul", "layer/Relu")]
        graphs = [graph_record("layer/MatMul", "MatMul"), graph_record("layer/Relu", "Relu", ["layer/MatMul"])]
        write_events(folder, traces, graphs)

    return seeds.written(runs, events)


def _ir_texts() -> Sequence[Tree]:
    with TemporaryDirectory() as folder:
        texts = tree_of(unpack_networks(Path(folder)))
    kept = [content for name, content in texts.items() if name.endswith(".ir") and isinstance(content, bytes)]
    return [{"net.txt": b"\n".join(content.splitlines()[:150])} for content in kept[:3]]


def _ir(path: Path) -> None:
    try:
        read_ir(path)
    except (IrError, OSError) as error:
        raise FormatError(Diagnostic("PF7116", str(error))) from error
    files, problems = read_ir_files([path])
    for problem in problems:
        assert problem.message
    IrIndex(files)


def _api_configs() -> Sequence[Tree]:
    found = []
    for path in sorted((DATA / "op_generate").glob("extracted_*.json")):
        name = ".".join(path.stem.removeprefix("extracted_").split(".")[:3])
        config = {
            "dump_json_path": "",
            "api_name": name,
            "extract_api_path": "api.json",
            "propagation": "backward" if "backward" in path.stem else "forward",
            "data_mode": "random_data",
            "random_seed": 1234,
            "iter_times": 1,
        }
        found.append({"config.json": json.dumps(config).encode(), "api.json": path.read_bytes()})
    return found


def _op_generate(folder: Path) -> None:
    config = replace(read_config(folder / "config.json"), extract_api_path=str(folder / "api.json"), dump_json_path="")
    with TemporaryDirectory() as out:
        for path in op_generate(config, Path(out)):
            compile(path.read_text(), str(path), "exec")


TARGETS: tuple[Target, ...] = (
    file_target("onnx_model", _onnx_models, _onnx),
    file_target("caffe_network", _caffe_networks, _caffe_network),
    file_target("caffe_weights", _caffe_weights, read_shapes),
    catalog_target("tfdbg", _tfdbg_dumps, read_tfdbg),
    file_target("mindspore_ir", _ir_texts, _ir),
    Target("op_generate", _api_configs, _op_generate, renames=False),
)
