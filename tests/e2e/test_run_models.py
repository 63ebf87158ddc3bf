"""Packaged workflows that run models by their frameworks: a healthy pair is green, one spoiled part is named."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_records import first_divergence

from e2e.projects import ROOT, WORKFLOWS, Command

pytestmark = pytest.mark.frameworks


@pytest.fixture(scope="module")
def onnx_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of models made of one: `float`, `half`, `fused`, `quantised`, `qlinear`, and `x.npy`."""
    onnx = pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("models")
    script = ROOT / "tools" / "samples" / "make_models.py"
    code = f"import sys, types; sys.path.insert(0, {str(script.parent)!r}); "
    # What makes the other samples imports OpenCV and TensorFlow.
    code += "sys.modules |= {name: types.ModuleType(name) for name in ('caffe_golden', 'tensorflow_golden')}; "
    code += "import make_models as m, pathlib; "
    code += "f = pathlib.Path(sys.argv[1]); m.onnx.save(m.network(), f / 'float.onnx'); "
    code += "m.quantised(f / 'float.onnx', f / 'quantised.onnx'); "
    # Weights without sign: those with one overflow kernels on processors without VNNI, which is an error of its own.
    code += "kinds = dict(activation_type=m.QuantType.QUInt8, weight_type=m.QuantType.QUInt8); "
    code += "form = m.QuantFormat.QOperator; source = f / 'float.onnx'; "
    code += "m.quantize_static(source, f / 'qlinear.onnx', m.Calibration(), quant_format=form, **kinds)"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, timeout=900)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "fused.onnx")
    ort.InferenceSession(folder / "float.onnx", options, providers=["CPUExecutionProvider"])
    onnx.save(halved(onnx.load(folder / "float.onnx")), folder / "half.onnx")
    np.save(folder / "x.npy", np.random.default_rng(5).random((1, 3, 8, 8), np.float32))
    return folder


def halved(model: Any) -> Any:
    """Return a model that computes in float16 between a cast of its input and one of its result."""
    from onnx import TensorProto, helper, numpy_helper

    for weight in model.graph.initializer:
        value = numpy_helper.to_array(weight)
        weight.CopyFrom(numpy_helper.from_array(value.astype(np.float16), weight.name))
    model.graph.node[0].input[0] = "x_half"
    model.graph.node[-1].output[0] = "y_half"
    model.graph.node.insert(0, helper.make_node("Cast", ["x"], ["x_half"], "in", to=TensorProto.FLOAT16))
    model.graph.node.append(helper.make_node("Cast", ["y_half"], ["y"], "out", to=TensorProto.FLOAT))
    return model


def spoiled(folder: Path, name: str, weight: str, tmp_path: Path) -> Path:
    """Return the file of a model of which one constant, or the fourth filter of one, is half as large again."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(folder / f"{name}.onnx")
    (tensor,) = (each for each in model.graph.initializer if each.name == weight)
    value = numpy_helper.to_array(tensor).copy()
    if value.ndim:
        value[3] = value[3] * 1.5
    else:
        value = (value * 0.5).astype(value.dtype)
    tensor.CopyFrom(numpy_helper.from_array(value, weight))
    onnx.save(model, tmp_path / "spoiled.onnx")
    return tmp_path / "spoiled.onnx"


def run_pair(probe_flow: Command, target: Path, folder: Path) -> Any:
    sets = [f"--set={name}={path}" for name, path in (("target", target), ("golden", folder / "float.onnx"))]
    return probe_flow("run", WORKFLOWS / "onnx_vs_onnx.yaml", *sets, f"--set=inputs={folder / 'x.npy'}")


@pytest.mark.parametrize("name", ["float", "half", "fused", "quantised", "qlinear"])
def test_healthy_pair_of_onnx_models_is_green(probe_flow: Command, onnx_models: Path, name: str) -> None:
    done = run_pair(probe_flow, onnx_models / f"{name}.onnx", onnx_models)

    assert done.code == 0, done.out + done.err
    assert first_divergence(done.record) is None
    coverage = done.record["coverage"]
    assert coverage["target"]["missing"] == coverage["golden"]["missing"] == 0
    assert coverage["target"]["compared"] >= 5


@pytest.mark.parametrize(
    ("name", "weight", "origin"),
    [
        ("float", "w1", "/block.1/conv"),
        ("half", "w2", "/block.2/conv"),
        ("fused", "w0", "/block.0/conv"),
        ("quantised", "w1_scale", "/block.1/conv"),
        ("quantised", "c1_scale", "c1_DequantizeLinear"),
        ("qlinear", "c1_scale", "/block.1/conv_quant__dequantised"),
        ("qlinear", "w1_scale", "/block.1/conv_quant__dequantised"),
        ("qlinear", "a1_scale", "/block.1/add_quant__dequantised"),
    ],
)
def test_one_spoiled_filter_or_scale_is_named(
    probe_flow: Command, onnx_models: Path, tmp_path: Path, name: str, weight: str, origin: str
) -> None:
    done = run_pair(probe_flow, spoiled(onnx_models, name, weight, tmp_path), onnx_models)

    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record)["node"] == origin


def test_values_of_codes_are_compared_and_codes_are_kept(probe_flow: Command, onnx_models: Path) -> None:
    done = run_pair(probe_flow, onnx_models / "qlinear.onnx", onnx_models)

    onnx = pytest.importorskip("onnx")
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(
        onnx_models / "qlinear.onnx").graph.initializer}  # fmt: skip
    dump = done.folder / "dumps" / "target" / "onnx_dump"
    (codes,), (values,) = (
        [np.load(file) for file in dump.glob(f"_block_1_conv_quant{end}.0.*.npy")] for end in ("", "__dequantised")
    )
    assert (codes.dtype, values.dtype) == (np.uint8, np.float32)
    expected = (codes.astype(np.float32) - np.float32(constants["c1_zero_point"])) * constants["c1_scale"]
    assert (values == expected).all()
    pairs = {row["node"]: row["golden"]["name"] for row in done.rows if row["target"] and row["golden"]}
    assert pairs["/block.1/conv_quant__dequantised"] == "/block.1/conv.output.0"
    # The tool leaves out the rectifier: codes cannot be negative.
    assert pairs["/block.1/add_quant__dequantised"] == "/block.1/relu.output.0"


REFERENCE = """
version: 1
name: reference
stages:
  target:    {{uses: dump.onnx, model: {folder}/half.onnx, inputs: {folder}/x.npy}}
  golden:    {{uses: dump.onnx, model: {folder}/float.onnx, inputs: {folder}/x.npy}}
  reference: {{uses: dump.onnx, model: {folder}/float.onnx, inputs: {folder}/x.npy, precision: float64}}
  pairs:     {{uses: match.model_graph, target: target, golden: golden, reference: reference}}
  result:    {{uses: compare, pairs: pairs, policy: offline, metrics: offline}}
"""


def test_a_reference_in_float64_judges_both_sides(probe_flow: Command, onnx_models: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(REFERENCE.format(folder=onnx_models), encoding="utf-8")

    done = probe_flow("run", tmp_path / "w.yaml")

    assert done.code == 0, done.out + done.err
    rows = [row for row in done.rows if row["reference"] is not None]
    exact = {row["golden"]["name"].removesuffix(".output.0"): row for row in rows}
    assert len(exact) == 11
    assert {row["reference"]["dtype"] for row in exact.values()} == {"float64"}
    half, single = (
        exact["/block.2/conv"]["metrics"][f"{name}relative_euclidean_distance"] for name in ("reference.", "")
    )
    assert 1e-5 < half < 1e-2
    assert half == pytest.approx(single, rel=0.01)
    folder = done.folder / "dumps"
    for node, row in exact.items():
        wide, narrow = (
            np.load(next((folder / side / "onnx_dump").glob(f"{node.replace('/', '_').replace('.', '_')}.0.*.npy")))
            for side in ("reference", "golden")
        )
        assert (wide.dtype, narrow.dtype) == (np.float64, np.float32), row
        assert np.linalg.norm(wide - narrow) <= 1e-6 * np.linalg.norm(wide)
    assert (wide != narrow).any()  # the mean, which float32 rounds


def test_what_is_not_computed_in_float64_is_refused_by_name(
    probe_flow: Command, onnx_models: Path, tmp_path: Path
) -> None:
    stage = f"{{uses: dump.onnx, model: {onnx_models / 'qlinear.onnx'}, precision: float64}}"
    (tmp_path / "w.yaml").write_text(f"version: 1\nname: w\nstages:\n  dump: {stage}\n", encoding="utf-8")

    done = probe_flow("run", tmp_path / "w.yaml")

    assert done.code == 2 or "PF6322" in done.err, done.out + done.err
    assert "cannot be computed in float64: node `" in done.err


def test_onnx_workflow_names_what_is_wrong_in_its_sample(probe_flow: Command) -> None:
    pytest.importorskip("onnxruntime")
    assert probe_flow("plan", WORKFLOWS / "onnx_vs_onnx.yaml", output=None).code == 0
    done = probe_flow("run", WORKFLOWS / "onnx_vs_onnx.yaml")

    assert done.code == 1, done.out + done.err
    assert first_divergence(done.record)["node"] == "c1_DequantizeLinear"


def test_finished_dumps_are_taken_over_when_a_run_goes_on(
    probe_flow: Command, onnx_models: Path, tmp_path: Path
) -> None:
    workflow = tmp_path / "w.yaml"
    stage = f"golden: {{uses: dump.onnx, model: {onnx_models / 'float.onnx'}, repeat: 2}}"
    workflow.write_text(f"version: 1\nname: w\nstages:\n  {stage}\n", encoding="utf-8")
    first = probe_flow("run", workflow)
    assert first.code == 0, first.out + first.err
    record = first.folder / "dumps" / "golden" / "model_run.json"
    written = record.stat().st_mtime_ns

    again = probe_flow("run", workflow, "--resume", output=first.folder)

    assert again.code == 0, again.out + again.err
    assert record.stat().st_mtime_ns == written


MODULES = {"onnx": "onnxruntime", "caffe": "cv2", "tensorflow": "tensorflow"}
MODELS = {"onnx": "sample.onnx", "caffe": "sample.prototxt", "tensorflow": "sample.pb"}
ORIGINS = {"onnx": "fc", "caffe": "pool1", "tensorflow": "block/conv2relu2"}


@pytest.fixture
def offline_sample(tmp_path: Path) -> Path:
    """Return a folder of OM dumps by framework, and in `models` of the models that they were made of."""
    with zipfile.ZipFile(ROOT / "examples" / "offline" / "samples.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


@pytest.mark.parametrize("framework", MODULES)
@pytest.mark.parametrize("dump", ["healthy", "target"])
def test_om_dump_is_compared_with_its_model_in_one_run(
    probe_flow: Command, offline_sample: Path, framework: str, dump: str
) -> None:
    pytest.importorskip(MODULES[framework])
    paths = {
        "target": offline_sample / framework / dump,
        "golden": offline_sample / "models" / MODELS[framework],
        "fusion_rule": offline_sample / framework / "fusion_rule.json",
    }
    if framework == "caffe":
        paths["weights"] = offline_sample / "models" / "sample.caffemodel"
    workflow = WORKFLOWS / f"offline_{framework}_oneclick.yaml"
    done = probe_flow("run", workflow, *(f"--set={name}={path}" for name, path in paths.items()))

    assert done.code == (1 if dump == "target" else 0), done.out + done.err
    found = first_divergence(done.record)
    assert (found["node"] if found is not None else None) == (ORIGINS[framework] if dump == "target" else None)
    (table,) = done.folder.glob("*.csv")
    assert "IsNpuOps,IsOutputNode,IsPrecisionError" in table.read_text("utf-8").splitlines()[0]


@pytest.mark.parametrize("framework", MODULES)
def test_compare_runs_the_golden_model(probe_flow: Command, offline_sample: Path, framework: str) -> None:
    pytest.importorskip(MODULES[framework])
    rule = offline_sample / framework / "fusion_rule.json"
    model = offline_sample / "models" / MODELS[framework]
    sides = ("-tp", offline_sample / framework / "target", "-gp", model, "-fr", rule)

    done = probe_flow("compare", "-m", "offline_model", *sides, "-o", "out", output=None)

    assert done.code == 1, done.out + done.err
    assert f"The target first goes wrong at {ORIGINS[framework]}" in done.out
    (table,) = Path("out").glob("result_*.csv")
    assert "IsPrecisionError" in table.read_text("utf-8")
    dump = Path("out") / "probe_flow" / "dumps" / "golden" / f"{framework}_dump"
    assert (dump / "dump_manifest.json").is_file()


@pytest.mark.parametrize("framework", MODULES)
def test_a_plan_says_how_many_bytes_a_dump_will_have(
    probe_flow: Command, offline_sample: Path, tmp_path: Path, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(MODULES[framework])
    monkeypatch.setattr("probe_flow.dumpers.requirements._LOOK_S", 900.0)  # the import of a framework, on any machine
    more = f", weights: {offline_sample / 'models' / 'sample.caffemodel'}" if framework == "caffe" else ""
    stage = f"{{uses: dump.{framework}, model: {offline_sample / 'models' / MODELS[framework]}{more}}}"
    (tmp_path / "w.yaml").write_text(f"version: 1\nname: w\nstages:\n  dump: {stage}\n", encoding="utf-8")

    said = probe_flow("plan", tmp_path / "w.yaml", output=None).out
    done = probe_flow("run", tmp_path / "w.yaml")

    size = sum(path.stat().st_size for path in done.folder.glob(f"dumps/dump/{framework}_dump/*.npy"))
    if framework == "tensorflow":  # two tensors that only a GPU fills have no shape
        found = re.search(r"writes at least ([\d,]+) bytes: of 2 of \d+ tensors, such as `bn1:5`", said)
        assert found is not None, said
        assert int(found[1].replace(",", "")) == pytest.approx(size, rel=0.05)
    else:
        assert f"writes about {size / 1000:.1f} kB" in said, said


def test_a_plan_takes_sizes_from_the_stage_and_says_what_stays_open(probe_flow: Command, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx_models import convolutions

    onnx.save(convolutions(), tmp_path / "open.onnx")
    text = "version: 1\nname: w\nstages:\n  dump: {{uses: dump.onnx, model: {model}{more}}}\n"
    plans = {}
    for name, more in (("open", ""), ("given", ', input_shape: "x:2,3,8,8"')):
        (tmp_path / "w.yaml").write_text(text.format(model=tmp_path / "open.onnx", more=more), encoding="utf-8")
        plans[name] = probe_flow("plan", tmp_path / "w.yaml", output=None).out

    assert (
        "writes at least 0 bytes: of 11 of 11 tensors, such as `x`, `c0`, `a0`, the model leaves sizes open"
        in (plans["open"])
    )
    elements = 2 * 3 * 64 + 9 * 2 * 8 * 64 + 2 * 8  # the input, nine of eight channels, a mean
    assert f"writes about {(4 * elements + 11 * 128) / 1000:.1f} kB" in plans["given"]


def test_offline_dump_runs_one_side_for_each_shape(probe_flow: Command, onnx_models: Path) -> None:
    arguments = ("--model_path", onnx_models / "float.onnx", "--dym_shape_range", "x:1,3,8,8~8", "-o", "out")

    done = probe_flow("offline_dump", *arguments, output=None)

    assert done.code == 0, done.out + done.err
    (folder,) = Path("out").glob("*/x-1_3_8_8/dump_data")
    assert len(list((folder / "onnx_dump").glob("*.npy"))) == 11
    assert (folder / "input" / "0" / "x.bin").stat().st_size == 4 * 3 * 8 * 8
