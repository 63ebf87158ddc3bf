"""Healthy folders: small ones that the writers of the tests make, and stored ones of other software."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from bundled_samples import EXAMPLES, unpack_samples
from mindspore_graph_builders import turn_into_statistics, unpack
from model_file_writer import om_bytes
from om_writer import (
    GoldenFolder,
    OmFolder,
    device_bytes,
    hash_name,
    om_tree,
    op_debug_record,
    op_debug_table,
    tensor,
)
from rule_builders import attr, desc, model, op, texts
from structure_builders import layers
from torch_writer import HOOKS, call, mark, named, torch_file
from torchair_builders import (
    FIRST_US,
    GeDump,
    fx_token,
    mul_add_relu,
    write_fx_node,
    write_mul_add_relu,
)

from fuzz.tree import Tree, tree_of
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice, ReducedTensor

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
_NAMES = ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32")
_FIGURES = (-1.0, 2.0, 0.5, 3.0, 6.0, 0.0, 1.0, 12345.0)
X = np.arange(6, dtype=np.float32).reshape(2, 3)


unpack_samples()


def written(*writers: Callable[[Path], object]) -> Sequence[Tree]:
    """Return what each writer writes into a folder of its own."""
    trees = []
    for write in writers:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            trees.append(tree_of(Path(folder)))
    return trees


def _npy(values: object) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.npy")
        np.save(path, np.asarray(values))
        return path.read_bytes()


def arrays() -> Sequence[Tree]:
    values = [X, X.astype(np.float16), np.asfortranarray(X), np.array(3), np.zeros((0, 4)), np.array([True, False]),
              X.astype(">f8"), X.astype(np.complex64), np.array(["a", "bc"]),
              np.arange(70_000, dtype=np.int32)]  # fmt: skip
    return [{"a.npy": _npy(each)} for each in values]


def _blocked(dtype: str, layout: str, shape: tuple[int, ...]) -> bytes:
    data = np.arange(np.prod(shape)).reshape(shape).astype(np.float32)
    return device_bytes("op", [tensor(data.astype(np.float16), "float16")], [tensor(data, dtype, layout)])


@cache
def device_contents() -> Sequence[bytes]:
    """Return device files of all forms."""
    parts = {"buffers": [b"abcd"], "spaces": [b"xyz"], "attrs": [("FFTS", "{}"), ("k", "v")]}
    forms = [
        device_bytes("layer/op", [X, X], [tensor(X, "float16"), tensor(X.astype(np.int8), "int8")], form=form)
        for form in ("container", "bare", "nano")
    ]
    return (
        *forms,
        device_bytes("op", [X], [X], **parts),  # type: ignore[arg-type]
        _blocked("float16", "FRACTAL_NZ", (20, 33)),
        _blocked("float16", "NC1HWC0", (1, 20, 3, 3)),
        _blocked("float32", "FRACTAL_Z", (20, 3, 2, 2)),
        device_bytes("op", [], [tensor(X, "bfloat16", surplus=9), tensor(X, "float8_e4m3fn")]),
        device_bytes("op", [], [tensor(X.astype(np.int32), "int4"), tensor(X, "complex64", original_shape=None)]),
        device_bytes("op", [tensor(X, "float32", shape=None)], [tensor(X, "float16", origin=("conv", 1))], form="nano"),
    )


DEVICE_NAME = f"Add.Add_2.44.7.{FIRST_US}"


def device_files() -> Sequence[Tree]:
    named_ = [{DEVICE_NAME: content} for content in device_contents()]

    def sliced(folder: Path) -> None:
        OmFolder(folder).slices("Add", "op", at=0, parts=[X, X], axis=0)

    (slices,) = written(sliced)
    return [*named_, *({name: content} for name, content in slices.items())]


def op_debug_files() -> Sequence[Tree]:
    core = {"model_id": 1, "stream_id": 2, "task_id": 3, "pc_start": 2**40}
    contents = [
        op_debug_record("AIC", core, status=(1, 2, 3, 4), version=1),
        op_debug_record("SDMA", core),
        op_debug_record("AICPU", core),
        op_debug_table({"ai_core": core, "l2": core}, ai_core_status=(1, 2, 3)),
    ]
    return written(*(lambda folder, each=each: OmFolder(folder).op_debug(each, at=1) for each in contents))


def torch_files() -> Sequence[Tree]:
    payload = X.tobytes()
    parameter = named("torch._utils", "_rebuild_parameter") + mark(call("float32", (2, 3)), b"\x88", HOOKS) + b"R"
    contents = [
        torch_file(call("float32", (2, 3)), payload),
        torch_file(call("bfloat16", (2, 3)), payload[:12]),
        torch_file(call("float32", (3, 2), strides=(1, 3), count=6), payload),
        torch_file(call("float8_e4m3fn", (2, 3)), payload[:6]),
        torch_file(call("float32", (2,), offset=3, count=6), payload, wide=True),
        torch_file(call("float32", (6,)), payload, order=b"big"),
        torch_file(parameter, payload),
    ]
    found = [{"a.pt": content} for content in contents]
    return [*found, *({"a.pt": content} for content in _values(DATA / "dump_json" / "twin_tensor", "*.pt")[:4])]


def _values(folder: Path, pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob(pattern))]


def reduced_arrays() -> Sequence[Tree]:
    tensors = [ReducedTensor(_FIGURES[:2], None, None), ReducedTensor(_FIGURES, "float16", (2, 3))]
    found = [ReducedArray(_NAMES[: len(each.figures)], each).to_bytes() for each in tensors]
    return [{"a.npy": content} for content in (*found, _npy(np.array([1, 2], np.int8)), _npy(X[0, :2]))]


def reduced_devices() -> Sequence[Tree]:
    one = ReducedTensor(_FIGURES, "float16", (2, 3))
    two = ReducedTensor(_FIGURES[:2], None, None)
    contents = [ReducedDevice(_NAMES, (one, one), (one,), "op", "Add", 7), ReducedDevice(_NAMES[:2], (two,), ())]
    found = [{"a.npz": each.to_bytes()} for each in contents]

    def plain(folder: Path) -> None:
        np.savez_compressed(folder / "a.npz", inputs=np.zeros((1, 2)), outputs=np.ones((2, 2)))

    return [*found, *written(plain)]


STATISTICS_TABLE = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,"
    "Negative Inf Count,Positive Inf Count,L2Norm\n"
    "Input,0,12,DT_FLOAT16,ND,2x3,3.5,-1.5,0.25,6,0,0,0,4.5\nOutput,0,24,DT_FLOAT,NC1HWC0,1x1x2x3x16,nan,inf,-inf,6,1,2,3,0\n"
)


def statistics_tables() -> Sequence[Tree]:
    return [{"a.csv": STATISTICS_TABLE.encode()}]


def checked_details() -> Sequence[Tree]:
    folder = Path(__file__).parents[1] / "data" / "precheck"
    tables = (folder / f"precision_{kind}_npu.csv" for kind in ("newest", "older"))
    return [{"a.csv": path.read_bytes()} for path in tables]


def graph_texts() -> Sequence[Tree]:
    return [{"a.txt": content} for content in _graph_texts()]


def _graph_texts() -> list[bytes]:
    (made,) = written(lambda folder: GeDump(folder).graph(mul_add_relu()))
    real = _values(EXAMPLES / "torchair" / "healthy", "dynamo_original_graph_*.txt")
    return [content for content in (*made.values(), *real) if isinstance(content, bytes)][:3]


SOURCE_TEXT = b"""# File "model.py", line 24, in forward    x = self.linear(x)
## FX Code: t: torch.float32[128, 64] = torch.ops.aten.t.default(primals_1: torch.float32[64, 128])
## FX Code: addmm: torch.float32[100, 64] = torch.ops.aten.addmm.default(primals_2: torch.float32[64])
MatMulV2_0 = ge.MatMulV2(primals_3_0, Transpose_0, None, None, node_name="MatMulV2")
Add_0 = ge.Add(MatMulV2_0, primals_3_0, node_name="Add_2")
"""


def source_texts() -> Sequence[Tree]:
    return [{"a.py": SOURCE_TEXT}]


def _rule_trees() -> list[dict[str, object]]:
    outputs = (desc("relu1", 2, layout="NC1HWC0", shape=(1, 1, 4, 4, 16), origin_shape=(1, 8, 4, 4)),)
    fused = op("a/conv", number=7, inputs=("x:0", "w:1", ""), originals=("conv", "relu1"), outputs=outputs)
    fused["attr"] += [
        attr("_datadump_is_multiop", b=True),
        attr("_L1_fusion_sub_graph_no", s="3"),
        attr("t", list=texts("a")),
    ]
    data = op("x", "Data", outputs=(desc("x", 0),))
    return [
        model(fused, data),
        model(data, op("b", "Relu", inputs=("x:0",), outputs=(desc(),)), attrs=[attr("v", i=3)]),
    ]


def rule_files() -> Sequence[Tree]:
    trees = _rule_trees()
    texts_ = [{"net.json": json.dumps(tree).encode()} for tree in trees]
    real = [{"net.json": path.read_bytes()} for path in sorted((EXAMPLES / "offline").rglob("*fusion_rule.json"))[:2]]
    forms = ({}, {"is_wide": True}, {"is_packed": False}, {"version": 0x10000000})
    models = [{"net.om": om_bytes(tree, **form)} for tree in trees for form in forms]  # type: ignore[arg-type]
    return [*texts_, *real, *models]


def rule_folders() -> Sequence[Tree]:
    """Return all rule files in one folder, as a training run has them."""
    return [{f"{number}.{name}": content for number, tree in enumerate(rule_files()) for name, content in tree.items()}]


def mapping_files() -> Sequence[Tree]:
    paths = [
        *sorted((DATA / "dump_json" / "mappings").glob("*.yaml")),
        *sorted((EXAMPLES / "dump_json").glob("*.yaml")),
    ]
    paths.append(DATA / "dump_json" / "attention_mapping.yaml")
    return [{"map.yaml": path.read_bytes()} for path in paths if path.stat().st_size < 9000]


BASELINE = b"""format: probe_flow.baseline/1
workflow: "ge-vs-fx"
run: "ge-vs-fx-20260131-101500"
comparisons:
  "result":
    gate: findings
    policy: "torchair"
    compared: {"target": 96, "golden": 90}
    nodes:
      - {"drift": {"": null}}
      - {"node": "Add_2", "graph": 1, "op_type": "AddV2", "drift": {"output.1": 3.0}, "origin": {"output.0": 0.01235}}
      - {"node": "b", "graph": "main", "call": 2, "phase": "backward", "fail": {"weight": "inf"}}
"""


def baselines() -> Sequence[Tree]:
    return [{"baseline.yaml": BASELINE}]


# Dumps


def _eager(name: str, *, keeps: int = 40) -> Tree:
    """Return a stored dump with at most so many entries, which makes it a quick one to read."""
    found: dict[str, object] = dict(tree_of(DATA / "dump_json" / name))
    for path, content in list(found.items()):
        if path.endswith("stack.json") and isinstance(content, bytes):
            found[path] = json.dumps(dict(list(json.loads(content).items())[:5]), indent=1).encode()
        if not path.endswith("dump.json") or not isinstance(content, bytes):
            continue
        document = json.loads(content)
        document["data"] = dict(list(document["data"].items())[:keeps])
        text = json.dumps(document, indent=1)
        found[path] = text.encode()
        for other in list(found):
            if "dump_tensor_data" in other and other.rpartition("/")[2] not in text:
                del found[other]
    return found  # type: ignore[return-value]


def eager_dumps() -> Sequence[Tree]:
    (made,) = written(lambda folder: layers([1, 2]).write(folder))
    checksums = {
        path: re.sub(rb'"Max": [^,}]*', b'"md5": "0a1b2c3d"', content) if isinstance(content, bytes) else content
        for path, content in made.items()
    }
    twin = _eager("twin_tensor", keeps=8)
    block = "Module.a.A.forward.0"
    calls = {"Torch.abs.0.forward": block, block: None, "Torch.abs.0.backward": ["Module.a.A.backward.0", 1]}
    structure = {"task": "structure", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": {}}
    return [
        _eager("pt_types"),
        _eager("pt_stat_base"),
        _eager("pt_debug"),
        _eager("ms_tensor_base", keeps=12),
        twin,
        made,
        checksums,
        {"dump.json": json.dumps(structure).encode(), "construct.json": json.dumps(calls).encode()},
    ]


def mindspore_graphs() -> Sequence[Tree]:
    def statistics(folder: Path) -> None:
        turn_into_statistics(unpack("loop", folder), keep_tensors=True)

    def only_statistics(folder: Path) -> None:
        turn_into_statistics(unpack("loop", folder))

    def some(folder: Path) -> None:
        unpack("base", folder)
        for path in sorted(folder.rglob("*.npy"))[30:]:
            path.unlink()

    def of(name: str) -> Callable[[Path], object]:
        return lambda folder: unpack(name, folder)

    return written(of("loop"), of("long"), statistics, only_statistics, some)


def device_dumps() -> Sequence[Tree]:
    """TorchAir's device side: plain, fused, in the old layout, sliced, hashed, reduced."""

    def plain(root: Path) -> None:
        dump = GeDump(root)
        dump.graph(mul_add_relu())
        write_mul_add_relu(dump.token(0), None)
        (root / f"dynamo_1_rank_0_pid_7_ts_{FIRST_US}.py").write_bytes(SOURCE_TEXT)

    def fused(root: Path) -> None:
        dump = GeDump(root)
        dump.graph(mul_add_relu())
        write_mul_add_relu(dump.token(0), None, fused=True)
        write_mul_add_relu(dump.token(1), None, fused=True)

    def old(root: Path) -> None:
        dump = GeDump(root, None)
        dump.graph(mul_add_relu(), old=True)
        folder = dump.token(0)
        write_mul_add_relu(folder, None)
        om = OmFolder(folder)
        om.slices("Add", "op", at=9, parts=[X, X], axis=0)
        hash_name(om.op("Sub", "s", at=20, outputs=[X]), "123456789012345")
        om.op_debug(op_debug_record("AIC", {"task_id": 7, "stream_id": 3}), at=30)
        (folder / f"{DEVICE_NAME}.csv").write_text(STATISTICS_TABLE)

    def reduced(root: Path) -> None:
        dump = GeDump(root)
        dump.graph(mul_add_relu())
        write_mul_add_relu(dump.token(0), None)
        one = ReducedTensor(_FIGURES, "float32", (2, 3))
        content = ReducedDevice(_NAMES, (one, one), (one,), "Mul", "Mul", 7).to_bytes()
        for path in [path for path in dump.token(0).iterdir() if path.is_file()][:2]:
            path.with_name(f"{path.name}_statistics.npz").write_bytes(content)
            path.unlink()

    return written(plain, fused, old, reduced)


def fx_dumps() -> Sequence[Tree]:
    def of(layout: str) -> Callable[[Path], None]:
        def write(root: Path) -> None:
            folder = fx_token(root, 0, layout=layout)
            write_mul_add_relu(None, folder)
            write_fx_node(folder, "split-aten.split.Tensor", at=5, inputs={"0.10": X, "1": X}, outputs=[X, X])
            content = ReducedArray(_NAMES, ReducedTensor(_FIGURES, "float32", (2, 3))).to_bytes()
            (folder / "neg-aten.neg.default.OUTPUT.0.20260101000000000009_statistics.npy").write_bytes(content)

        return write

    return written(of("new"), of("7.1.0"), of("old"))


def _om(root: Path) -> None:
    folder = OmFolder(om_tree(root, time="20260101000000"))
    folder.op("Conv2D", "conv/1", at=1, inputs=[X], outputs=[tensor(X, "float16", "ND")])
    folder.op("Relu", "relu", at=2, inputs=[X], outputs=[X], tail=(0, 1, 2, 0))
    folder.slices("Add", "op", at=3, parts=[X, X], axis=0)
    folder.slices("Add", "hand", at=8, parts=[X, X], axis=0, is_automatic=False)
    folder.op_debug(op_debug_record("AIC", {"task_id": 7, "stream_id": 3}), at=12)
    folder.hashed(folder.op("Sub", "sub", at=14, outputs=[X]), "98765432101234567")


def offline_dumps() -> Sequence[Tree]:
    def flat(root: Path) -> None:
        folder = OmFolder(root)
        for number, content in enumerate(device_contents()):
            folder.file(f"Add.op{number}.{number}.7.{FIRST_US + number}", content)

    return written(_om, flat)


def golden_folders() -> Sequence[Tree]:
    def plain(root: Path) -> None:
        folder = GoldenFolder(root)
        folder.input("conv/1", 0, X)
        folder.output("conv/1", 0, X)
        folder.output("relu", 0, X.astype(np.float16))
        folder.hashed(folder.output("sub", 0, X), "98765432101234567")

    def containers(root: Path) -> None:
        folder = GoldenFolder(root)
        folder.container("conv", 0, tensor(X, "float16"), ".pb")
        folder.container("conv", 1, X, ".pb")

    return written(plain, containers)
