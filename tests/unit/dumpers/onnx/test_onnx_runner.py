"""Every tensor of an ONNX model, bit by bit what ONNX Runtime gives when asked directly, however the run is cut."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.base.child import run_job
from probe_flow.dumpers.base.job import ModelJob, read_run
from probe_flow.dumps.manifest import DumpManifest, read_manifest
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.errors import ProbeFlowError, UsageError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_models import asked_directly, convolutions, info, model  # noqa: E402

from probe_flow.dumpers.onnx import runner  # noqa: E402

OnnxRunner = runner.OnnxRunner
pytestmark = pytest.mark.frameworks

FLOAT = TensorProto.FLOAT


class Dumped:
    """A finished dump: its manifest, and its arrays by the names of the tensors, of sequences by name and number."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.folder, self.record = folder, record
        manifest = read_manifest(folder)
        assert manifest is not None
        self.manifest: DumpManifest = manifest
        self.arrays = {
            each.value if each.item is None else f"{each.value}[{each.item}]": np.load(folder / each.file)
            for each in manifest.tensors
        }

    @property
    def skipped(self) -> dict[str, str]:
        return {each.name: each.reason for each in self.manifest.skipped}


def dump(made: Any, folder: Path, inputs: dict[str, Any] | None = None, **options: Any) -> Dumped:
    """Return the dump of a model or a file of one; arrays are its inputs."""
    path = made if isinstance(made, Path) else folder / "model.onnx"
    if not isinstance(made, Path):
        onnx.save(made, path)
    files = {}
    for name, value in (inputs or {}).items():
        files[name] = str(folder / f"{name}.npy")
        np.save(files[name], value)
    output = folder / "out"
    output.mkdir()
    job = ModelJob("onnx", str(path), {"named": files} if files else {}, str(output), dump=options, threads=1)
    return Dumped(output / "onnx_dump", run_job(job, OnnxRunner(job, output / "onnx_dump")))


@pytest.fixture(params=[1, 3, 256])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many operators a segment has at most."""
    monkeypatch.setattr(runner, "SEGMENT_OPERATORS", request.param)
    return int(request.param)


def check(found: Dumped, expected: dict[str, Any]) -> None:
    """Compare all tensors bit by bit."""
    for name, array in expected.items():
        got = found.arrays[name]
        assert (got.dtype, got.shape, got.tobytes()) == (array.dtype, array.shape, array.tobytes()), name


def test_every_tensor_is_what_the_runtime_gives(tmp_path: Path, cut: int) -> None:
    made = convolutions()
    x = np.random.default_rng(1).random((2, 3, 8, 8), np.float32)

    found = dump(made, tmp_path, {"x": x})

    expected = asked_directly(made, {"x": x})
    check(found, expected)
    assert found.arrays.keys() == {*expected, "x"}
    assert found.record["segments"] == (10 if cut == 1 else 4 if cut == 3 else 1)
    assert (found.manifest.expected, found.manifest.written) == (11, 11)


def test_names_files_and_edges_are_those_of_the_model(tmp_path: Path) -> None:
    found = dump(convolutions(1), tmp_path, {"x": np.ones((1, 3, 8, 8), np.float32)})

    catalog = read_npy_folder(found.folder, side="golden")

    assert [(key.name, node.op_type) for key, node in catalog.nodes.items()] == [
        ("x", "Input"), ("/block.0/conv", "Conv"), ("/block.0/add", "Add"), ("/block.0/relu", "Relu"),
        ("/pool", "GlobalAveragePool"),
    ]  # fmt: skip
    assert {path.name.split(".")[0] for path in found.folder.glob("*.npy")} == {
        "x", "_block_0_conv", "_block_0_add", "_block_0_relu", "_pool",
    }  # fmt: skip
    assert [(edge.producer.name, edge.consumer.name, edge.input) for edge in catalog.edges] == [
        ("x", "/block.0/conv", 0),
        ("/block.0/conv", "/block.0/add", 0),
        ("/block.0/add", "/block.0/relu", 0),
        ("/block.0/relu", "/pool", 0),
    ]


def test_nodes_without_names_are_called_by_type_and_place(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="Relu_2"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Neg", ["c"], ["d"], name="twice"),
        helper.make_node("Neg", ["d"], ["e"], name="twice"),
    ]
    found = dump(model(nodes, [info("x", shape=[2])], ["e"]), tmp_path)

    names = [each.name for each in found.manifest.nodes]
    assert names == ["x", "Relu_0", "Relu_2", "Relu_2__2", "twice", "twice__2"]


def test_types_that_numpy_lacks_are_widened_without_loss(tmp_path: Path, cut: int) -> None:
    import ml_dtypes

    kinds = {
        "bfloat16": TensorProto.BFLOAT16, "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
        "float8_e5m2": TensorProto.FLOAT8E5M2, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4,
    }  # fmt: skip
    x = np.array([0.0, 1.3, -2.7, 5.5, 7.0], np.float32)
    nodes = [helper.make_node("Cast", ["x"], [name], to=kind) for name, kind in kinds.items()]
    nodes.append(helper.make_node("Cast", ["bfloat16"], ["again"], to=FLOAT))
    found = dump(model(nodes, [info("x", shape=[5])], ["again"]), tmp_path, {"x": x})

    true = {each.value: each.dtype for each in found.manifest.tensors}
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        narrow = x.astype(getattr(ml_dtypes, name))
        assert found.arrays[name].dtype == np.float32
        assert np.array_equal(found.arrays[name], narrow.astype(np.float32))
        assert true[name] == name
    assert found.arrays["int4"].tolist() == [0, 1, -3, 6, 7]
    assert found.arrays["uint4"].tolist()[3:] == [6, 7]
    assert np.array_equal(found.arrays["again"], found.arrays["bfloat16"])


def test_sequences_are_written_item_by_item(tmp_path: Path, cut: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], name="split", axis=0),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], name="join", axis=0),
    ]
    found = dump(model(nodes, [info("x", shape=[3, 2])], ["y"]), tmp_path, {"x": x})

    assert [found.arrays[f"parts[{item}]"].tolist() for item in range(3)] == [[row] for row in x.tolist()]
    assert found.arrays["y"].tolist() == x.tolist()
    assert not found.skipped
    catalog = read_npy_folder(found.folder, side="golden")
    assert len(catalog.tensors) == 6
    assert catalog.problems == ()


def test_optional_outputs_that_are_not_made_are_named(tmp_path: Path, cut: int) -> None:
    kind = helper.make_tensor_type_proto(FLOAT, [2])
    nodes = [
        helper.make_node("Optional", [], ["none"], name="nothing", type=kind),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("OptionalHasElement", ["none"], ["has"], name="asks"),
        helper.make_node("Dropout", ["r"], ["d", ""], name="drop"),
    ]
    found = dump(model(nodes, [info("x", shape=[2])], ["has", "d"]), tmp_path)

    assert found.skipped == {"none": "an optional output that was not made"}
    assert found.arrays["has"].tolist() is False
    assert found.manifest.expected == found.manifest.written + 1


def test_texts_are_named_and_left_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["text"], to=TensorProto.STRING),
        helper.make_node("Cast", ["text"], ["y"], to=FLOAT),
    ]
    found = dump(model(nodes, [info("x", shape=[2])], ["y"]), tmp_path)

    assert found.skipped == {"text": "its elements are of type string, which are no numbers"}
    assert np.allclose(found.arrays["y"], found.arrays["x"], atol=1e-6)


def branches() -> Any:
    """A branch and a loop whose bodies read tensors from outside."""
    then = helper.make_graph(
        [helper.make_node("Mul", ["a", "a"], ["t"], name="square")], "then", [], [info("t", shape=["N"])]
    )
    other = helper.make_graph([helper.make_node("Neg", ["a"], ["o"])], "other", [], [info("o", shape=["N"])])
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "b"], ["state_out"], name="grow"),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("state", shape=["N"])],
        [info("go_out", TensorProto.BOOL, []), info("state_out", shape=["N"])],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Neg", ["x"], ["b"], name="second"),
        helper.make_node("ReduceSum", ["x"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["is_positive"], name="greater"),
        helper.make_node("If", ["is_positive"], ["branch"], name="if", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["trips", "", "branch"], ["looped"], name="loop", body=body),
    ]
    weights = {"zero": np.float32(0), "trips": np.int64(3)}
    return model(nodes, [info("x", shape=["N"])], ["looped"], weights)


def test_bodies_of_branches_and_loops_read_from_outside(tmp_path: Path, cut: int) -> None:
    x = np.array([3.0, -1.0, 2.0], np.float32)

    found = dump(branches(), tmp_path, {"x": x})

    check(found, asked_directly(branches(), {"x": x}))
    assert found.arrays["branch"].tolist() == [9.0, 0.0, 4.0]
    assert found.arrays["looped"].tolist() == [0.0, 3.0, -2.0]
    assert found.skipped.keys() == {"if/square:t", "if/Neg_0:o", "loop/grow:state_out", "loop/Identity_1:go_out"}
    assert "inside the body of `loop`" in found.skipped["loop/grow:state_out"]
    read = {each.name: each.inputs for each in found.manifest.nodes}
    assert read["if"] == ("is_positive", "a")
    assert read["loop"] == ("trips", "", "branch", "b")


def test_functions_of_the_model_are_run(tmp_path: Path, cut: int) -> None:
    domains = [helper.make_opsetid("", 21)]
    twice = helper.make_function("mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], domains)
    nodes = [
        helper.make_node("Twice", ["x"], ["y"], domain="mine", name="f"),
        helper.make_node("Twice", ["y"], ["z"], domain="mine", name="g"),
    ]
    made = model(nodes, [info("x", shape=[2])], ["z"], domains=["mine"], functions=[twice])

    found = dump(made, tmp_path, {"x": np.array([1.0, 2.0], np.float32)})

    assert found.arrays["z"].tolist() == [4.0, 8.0]


def test_nodes_in_any_order_are_run_in_theirs(tmp_path: Path, cut: int) -> None:
    made = convolutions(2)
    nodes = list(reversed(made.graph.node))
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    x = np.ones((1, 3, 8, 8), np.float32)

    check(dump(made, tmp_path, {"x": x}), asked_directly(convolutions(2), {"x": x}))


def test_weights_in_other_files_are_read_where_they_lie(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "models" / "model.onnx"
    path.parent.mkdir()
    made = convolutions()
    onnx.save_model(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = np.ones((1, 3, 8, 8), np.float32)

    found = dump(path, tmp_path, {"x": x})

    check(found, asked_directly(onnx.load(path), {"x": x}))
    assert [Path(each["path"]).name for each in found.record["files"]] == ["x.npy", "weights.bin"]


def test_inputs_with_a_default_need_not_be_given(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "shift"], ["y"])]
    made = model(nodes, [info("x", shape=[2]), info("shift", shape=[2])], ["y"], {"shift": np.ones(2, np.float32)})
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    without = dump(made, tmp_path / "a", {"x": np.zeros(2, np.float32)})
    given = dump(made, tmp_path / "b", {"x": np.zeros(2, np.float32), "shift": np.full(2, 5, np.float32)})

    assert without.arrays["y"].tolist() == [1.0, 1.0]
    assert given.arrays["y"].tolist() == [5.0, 5.0]


def test_old_models_whose_weights_are_inputs(tmp_path: Path, cut: int) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Mul", ["y", "w"], ["z"])]
    inputs = [info("x", shape=[2]), info("w", shape=[2])]
    made = model(nodes, inputs, ["z"], {"w": np.array([2.0, 3.0], np.float32)}, ir_version=3)

    found = dump(made, tmp_path, {"x": np.ones(2, np.float32)})

    assert found.arrays["z"].tolist() == [6.0, 12.0]


def test_inputs_are_drawn_from_the_seed_and_kept(tmp_path: Path) -> None:
    made = model([helper.make_node("Cast", ["x"], ["y"], to=FLOAT)], [info("x", TensorProto.BFLOAT16, ["N", 2])], ["y"])

    found = dump(made, tmp_path, input_shape={"x": [3, 2]})

    (facts,) = found.record["inputs"][0]
    kept = tmp_path / "out" / "input" / "0"
    assert (facts["dtype"], facts["shape"]) == ("bfloat16", [3, 2])
    assert (kept / "x.bin").stat().st_size == 12
    assert np.load(kept / "x.npy").dtype == np.float32
    assert np.array_equal(found.arrays["x"], np.load(kept / "x.npy"))


def test_filter_narrows_what_is_written(tmp_path: Path) -> None:
    found = dump(convolutions(), tmp_path, {"x": np.ones((1, 3, 8, 8), np.float32)}, types=["Conv"])

    assert found.arrays.keys() == {"c0", "c1", "c2"}
    assert [(each.producer.name, each.consumer.name) for each in read_npy_folder(found.folder, side="g").edges] == [
        ("/block.0/conv", "/block.1/conv"),
        ("/block.1/conv", "/block.2/conv"),
    ]


def test_optimised_runs_are_not_cut(tmp_path: Path, cut: int) -> None:
    x = np.ones((1, 3, 8, 8), np.float32)

    found = dump(convolutions(), tmp_path, {"x": x}, optimizations="all")

    assert found.record["segments"] == 1
    expected = asked_directly(convolutions(), {"x": x})
    assert all(np.allclose(found.arrays[name], array, atol=1e-5) for name, array in expected.items())


def test_random_operators_without_a_seed_are_named_and_repeat(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["a"], name="noise", shape=[4]),
        helper.make_node("RandomNormal", [], ["b"], name="seeded", shape=[4], seed=1.0),
        helper.make_node("Add", ["a", "b"], ["c"]),
    ]
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    made = model(nodes, [], ["c"])

    first, second = dump(made, tmp_path / "1"), dump(made, tmp_path / "2")

    assert first.record["unseeded"] == ["noise"]
    assert np.array_equal(first.arrays["c"], second.arrays["c"])


def refused(made: Any, folder: Path, inputs: dict[str, Any] | None = None, **options: Any) -> tuple[str, str, str]:
    with pytest.raises(ProbeFlowError) as found:
        dump(made, folder, inputs, **options)
    first = found.value.diagnostic
    return first.code, first.message, first.help or ""


def one(op_type: str, domain: str = "", **more: Any) -> Any:
    domains = [domain] if domain else []
    node = helper.make_node(op_type, ["x"], ["y"], name="odd", domain=domain)
    return model([node], [info("x", shape=[2])], ["y"], domains=domains, **more)


def test_newer_versions_are_refused_with_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    code, message, cure = refused(one("Relu", ir_version=99), tmp_path / "a")
    assert code == "PF6322"
    assert "is of IR version 99, and the installed onnxruntime reads up to " in message
    assert "onnxruntime" in cure

    newer = one("Relu")
    newer.opset_import[0].version = 99
    (tmp_path / "b").mkdir()
    code, message, _ = refused(newer, tmp_path / "b")
    assert code == "PF6322"
    assert "99" in message


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (one("Fancy"), ["the operator `Fancy`", "node `odd`", "opset 21"]),
        (one("Fancy", "acme"), ["domain `acme`", "Fancy"]),
    ],
)
def test_unknown_operators_are_named(tmp_path: Path, made: Any, words: list[str]) -> None:
    code, message, cure = refused(made, tmp_path)

    assert code == "PF6322"
    assert all(word in message for word in words), message
    assert "custom_ops_library" in cure


@pytest.mark.parametrize("keep", [0, 10, 500])
def test_file_that_was_cut_off_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(convolutions().SerializeToString()[:keep])

    code, message, _ = refused(path, tmp_path)

    assert code == "PF6322"
    assert "cut off" in message or "holds no graph" in message


def test_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(np.random.default_rng(0).bytes(4096))

    assert "is no ONNX model" in refused(path, tmp_path)[1]


def test_model_without_operators_is_refused(tmp_path: Path) -> None:
    assert "has no operators" in refused(model([], [info("x", shape=[2])], ["x"]), tmp_path)[1]


@pytest.mark.parametrize(("size", "words"), [(None, "which is not there"), (10, "and the file has 10")])
def test_weights_that_are_missing_or_cut_are_named(tmp_path: Path, size: int | None, words: str) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(convolutions(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    if size is None:
        (tmp_path / "weights.bin").unlink()
    else:
        (tmp_path / "weights.bin").write_bytes(bytes(size))

    code, message, _ = refused(path, tmp_path)

    assert code == "PF6322"
    assert "`weights.bin`" in message
    assert words in message


def test_weights_outside_of_the_models_folder_are_not_read(tmp_path: Path) -> None:
    made = convolutions()
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../secret"), ("offset", "0"), ("length", "864")):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value

    assert "outside its own folder" in refused(made, tmp_path)[1]


def test_circle_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="two"),
    ]
    assert "a circle through node" in refused(model(nodes, [info("x", shape=[2])], ["b"]), tmp_path)[1]


def test_what_fails_while_it_runs_is_a_failure_of_the_model(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="fine"),
        helper.make_node("Reshape", ["r", "shape"], ["y"], name="odd"),
    ]
    made = model(nodes, [info("x", shape=[2])], ["y"], {"shape": np.array([3], np.int64)})

    code, message, _ = refused(made, tmp_path)

    assert code == "PF6324"
    assert "odd" in message
    manifest = read_manifest(tmp_path / "out" / "onnx_dump")
    assert manifest is not None
    assert not manifest.is_complete


@pytest.mark.parametrize("name", ["inf", "nan"])
def test_values_that_are_no_numbers_are_kept(tmp_path: Path, name: str) -> None:
    x = np.array([1.0, float(name), -0.0], np.float32)
    found = dump(model([helper.make_node("Identity", ["x"], ["y"])], [info("x", shape=[3])], ["y"]), tmp_path, {"x": x})

    assert found.arrays["y"].tobytes() == x.tobytes()


def test_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "ops.so").write_bytes(b"no library")

    with pytest.raises(UsageError, match=r"`custom_ops_library`: `.*ops\.so` cannot be loaded"):
        dump(convolutions(), tmp_path, custom_ops_library=[str(tmp_path / "ops.so")])


def test_inputs_of_the_wheels_own_form_are_read(tmp_path: Path) -> None:
    made = model([helper.make_node("Identity", ["x"], ["y"])], [info("x", TensorProto.STRING, [2])], ["y"])
    onnx.save(made, tmp_path / "model.onnx")
    tensor = numpy_helper.from_array(np.array(["a", "b"], object), "x")
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    job = ModelJob("onnx", str(tmp_path / "model.onnx"), {"files": [str(tmp_path / "x.pb")]}, str(tmp_path))

    with pytest.raises(ProbeFlowError, match="nothing was dumped"):
        run_job(job, OnnxRunner(job, tmp_path / "onnx_dump"))


def test_disk_that_fills_up_leaves_whole_files_and_an_incomplete_manifest(tmp_path: Path) -> None:
    """The limit of file sizes stands for the disk: what no longer fits is not written, not even in part."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Relu", ["x"], ["small"], name="small"),
        helper.make_node("Concat", ["small"] * 64, ["large"], name="large", axis=0),
        helper.make_node("Neg", ["small"], ["y"], name="after"),
    ]
    onnx.save(model(nodes, [info("x", shape=[1024])], ["y", "large"]), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", random.random(1024, np.float32))
    output = tmp_path / "out"
    output.mkdir()
    job = ModelJob("onnx", str(tmp_path / "model.onnx"), {"files": [str(tmp_path / "x.npy")]}, str(output))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10)); "
        "from probe_flow.dumpers.base.child import main; "
        "sys.exit(main(sys.argv[1], 'probe_flow.dumpers.onnx.runner:OnnxRunner', 'onnx_dump'))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(job.write())],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    assert read_run(output)["failure"]["code"] == "PF6326"
    manifest = read_manifest(output / "onnx_dump")
    assert manifest is not None
    assert not manifest.is_complete
    names = sorted(path.name.split(".")[0] for path in (output / "onnx_dump").iterdir())
    assert names == ["dump_manifest", "small", "x"]
    assert read_npy_folder(output / "onnx_dump", side="golden").problems[0].code == "PF6340"
