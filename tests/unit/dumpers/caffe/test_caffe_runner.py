"""Every layer of a Caffe model against Caffe's own formulas in float64, computed by OpenCV without fusion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caffe_models import NETWORK, OLD_NETWORK, expected, weights, write_model

from probe_flow.dumpers.base.child import run_job
from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumps.manifest import DumpManifest, read_manifest
from probe_flow.errors import ProbeFlowError

cv2 = pytest.importorskip("cv2")
if not hasattr(cv2.dnn, "readNetFromCaffe"):
    pytest.skip("this OpenCV reads no Caffe models", allow_module_level=True)

from probe_flow.dumpers.caffe import runner  # noqa: E402

pytestmark = pytest.mark.frameworks

X = np.random.default_rng(3).random((1, 3, 6, 6), np.float32)


def dump(
    folder: Path, text: str = NETWORK, blobs: Any = None, x: Any = X, **options: Any
) -> tuple[DumpManifest, Path, dict[str, Any]]:
    network, caffemodel = write_model(folder, text, blobs)
    inputs = {}
    if x is not None:
        np.save(folder / "data.npy", x)
        inputs = {"files": [str(folder / "data.npy")]}
    output = folder / "out"
    output.mkdir()
    job = ModelJob("caffe", str(network), inputs, str(output), dump={"weights": str(caffemodel), **options}, threads=1)
    record = run_job(job, runner.CaffeRunner(job, output / "caffe_dump"))
    manifest = read_manifest(output / "caffe_dump")
    assert manifest is not None
    return manifest, output / "caffe_dump", record


@pytest.mark.parametrize("limit", [1, 2000, 1 << 28])
def test_every_layer_is_what_the_formulas_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(runner, "CHUNK_BYTES", limit)

    manifest, folder, record = dump(tmp_path)

    found = {(each.node, each.index): np.load(folder / each.file) for each in manifest.tensors}
    assert np.array_equal(found.pop(("data", 0)), X)
    wanted = expected(X, weights())
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        assert found[key].shape == array.shape, key
        assert np.abs(found[key] - array).max() <= 2e-5 * max(1.0, np.abs(array).max()), key
    assert record["runs"] == {1: 9, 2000: 4, 1 << 28: 3}[limit]
    assert {each.name for each in manifest.skipped} == {"label", "accuracy"}
    assert manifest.expected == manifest.written + 2


def test_graph_and_names_are_those_of_the_network(tmp_path: Path) -> None:
    manifest, folder, record = dump(tmp_path)

    assert [node.op_type for node in manifest.nodes][:3] == ["Input", "Convolution", "BatchNorm"]
    assert manifest.nodes[7].inputs == ("cut.1",)
    assert any(path.name.startswith("conv1_a_b.0.") for path in folder.glob("*.npy"))
    assert [Path(each["path"]).name for each in record["files"]] == ["data.npy", "net.caffemodel"]


def test_older_form_is_run(tmp_path: Path) -> None:
    kernel = np.array([[[[2.0]], [[0.0]]], [[[0.0]], [[-1.0]]]])
    x = np.random.default_rng(0).random((1, 2, 4, 4), np.float32)

    manifest, folder, _ = dump(tmp_path, OLD_NETWORK, {"conv": [kernel, np.array([0.5, 0.25])]}, x)

    found = {each.node: np.load(folder / each.file) for each in manifest.tensors}
    conv = np.stack([2.0 * x[:, 0] + 0.5, -x[:, 1] + 0.25], axis=1)
    assert np.allclose(found["conv"], conv, atol=1e-6)
    assert np.allclose(found["relu"], np.maximum(conv, 0.0), atol=1e-6)
    assert np.allclose(found["prob"].sum(axis=1), 1.0, atol=1e-6)


def test_inputs_are_drawn_where_none_are_given(tmp_path: Path) -> None:
    manifest, folder, record = dump(tmp_path, x=None)

    (given,) = (each for each in manifest.tensors if each.op_type == "Input")
    assert np.load(folder / given.file).shape == (1, 3, 6, 6)
    assert record["inputs"][0][0]["sha256"]


def refused(folder: Path, *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(ProbeFlowError) as found:
        dump(folder, *arguments, **options)
    return found.value.diagnostic.code, found.value.diagnostic.message


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    other = {name: of for name, of in weights().items() if name != "scale1"}

    code, message = refused(tmp_path, NETWORK, other)

    assert code == "PF6322"
    assert "has none for 1 layers, such as `scale1`" in message


@pytest.mark.parametrize(
    ("layer", "blobs", "words"),
    [
        ("fc", [np.ones((5, 26)), np.ones(5)], "`fc` (InnerProduct) has weights of shape (5, 26), and the"),
        ("fc", [np.ones((4, 27)), np.ones(4)], "weights of shape (4, 27), and the network needs (5, 27)"),
        ("fc", [np.ones((5, 27))], "`fc` (InnerProduct) has 1 blob, and the network needs 2: weights and bias"),
        (
            "conv1/a.b",
            [np.ones((4, 2, 3, 3)), np.ones(4)],
            "`conv1/a.b` (Convolution) has weights of shape (4, 2, 3, 3), and the network needs (4, 3, 3, 3)",
        ),
        ("conv1/a.b", [np.ones((4, 3, 5, 5)), np.ones(4)], "weights of shape (4, 3, 5, 5)"),
        ("bn1", [np.ones(3), np.ones(3), np.ones(1)], "`bn1` (BatchNorm) has mean of shape (3,), and the"),
        ("scale1", [np.ones(5), np.ones(5)], "`scale1` (Scale) has factors of shape (5,), and the network needs (4,)"),
    ],
)  # fmt: skip
def test_weights_of_other_shapes_are_refused_with_the_layer(
    tmp_path: Path, layer: str, blobs: list[Any], words: str
) -> None:
    code, message = refused(tmp_path, NETWORK, {**weights(), layer: blobs})

    assert code == "PF6322"
    assert message.startswith("`weights: net.caffemodel`: the layer ")
    assert words in message


def test_missing_weights_are_asked_for(tmp_path: Path) -> None:
    assert refused(tmp_path, weights=None)[1].endswith("has no weights")


def test_unknown_layer_is_named(tmp_path: Path) -> None:
    text = NETWORK.replace('"ReLU"', '"MyLayer"')

    code, message = refused(tmp_path, text)

    assert code == "PF6322"
    assert "the layer `relu1` of type `MyLayer`" in message


@pytest.mark.parametrize(
    ("x", "words"),
    [(np.ones((1, 3, 6, 6)), "takes float32"), (np.ones((1, 3, 5, 6), np.float32), "has the shape (1, 3, 5, 6)")],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path, x: Any, words: str) -> None:
    code, message = refused(tmp_path, NETWORK, None, x)

    assert code == "PF6323"
    assert words in message


def test_prototxt_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    code, message = refused(tmp_path, NETWORK[:300])

    assert code == "PF6322"
    assert message.endswith("/net.prototxt` ends inside a block")
