"""Shapes of weights in a caffemodel, and those that each type of layer needs by Caffe's `LayerSetUp`."""

from __future__ import annotations

from pathlib import Path

import pytest
from caffe_models import OLD_NETWORK, caffemodel, old_shaped_blob, weights, write_model

from probe_flow.dumpers.caffe.network import Layer, read_network
from probe_flow.dumpers.caffe.weights import first_misfit, misfit, needed_shapes, read_shapes
from probe_flow.errors import FormatError


def layer(tmp_path: Path, kind: str, settings: str) -> Layer:
    text = f'input: "x" input_shape {{ dim: 1 }} layer {{ name: "it" type: "{kind}" bottom: "x" top: "y" {settings} }}'
    (tmp_path / "one.prototxt").write_text(text, encoding="utf-8")
    return read_network(tmp_path / "one.prototxt").layers[0]


@pytest.mark.parametrize("is_old", [False, True])
def test_shapes_of_weights_are_read(tmp_path: Path, is_old: bool) -> None:
    path = tmp_path / "net.caffemodel"
    path.write_bytes(caffemodel({**weights(), "relu1": []}, is_old=is_old))

    assert read_shapes(path) == {
        "conv1/a.b": [(4, 3, 3, 3), (4,)],
        "bn1": [(4,), (4,), (1,)],
        "scale1": [(4,), (4,)],
        "fc": [(5, 27), (5,)],
    }


def test_shapes_of_four_sizes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "net.caffemodel"
    path.write_bytes(old_shaped_blob("fc", (1, 1, 5, 27)))

    assert read_shapes(path) == {"fc": [(1, 1, 5, 27)]}


def test_weights_that_were_cut_off_are_told(tmp_path: Path) -> None:
    _, path = write_model(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(FormatError) as told:
        read_shapes(path)
    assert told.value.diagnostic.message.startswith("the caffemodel is malformed: field ")
    assert "was cut off" in str(told.value.diagnostic.help)


@pytest.mark.parametrize(
    ("kind", "settings", "bottom", "shapes"),
    [
        ("Convolution", "convolution_param { num_output: 8 kernel_size: 3 }", (1, 6, 9, 9), [(8, 6, 3, 3), (8,)]),
        (
            "Convolution",
            "convolution_param { num_output: 8 kernel_h: 1 kernel_w: 5 group: 2 bias_term: false }",
            (1, 6, 9, 9),
            [(8, 3, 1, 5)],
        ),
        ("Convolution", "convolution_param { num_output: 8 kernel_size: 3 }", (1, 6, 9), [(8, 6, 3), (8,)]),
        (
            "Deconvolution",
            "convolution_param { num_output: 8 kernel_size: 3 kernel_size: 4 group: 2 }",
            (1, 6, 9, 9),
            [(6, 4, 3, 4), (8,)],
        ),
        ("InnerProduct", "inner_product_param { num_output: 5 }", (1, 2, 3, 4), [(5, 24), (5,)]),
        ("InnerProduct", "inner_product_param { num_output: 5 axis: 2 transpose: true }", (1, 2, 3), [(3, 5), (5,)]),
        ("Scale", "", (1, 7, 2, 2), [(7,)]),
        ("Scale", "scale_param { axis: 1 num_axes: -1 bias_term: true }", (1, 7, 2, 2), [(7, 2, 2), (7, 2, 2)]),
        ("PReLU", "", (1, 7, 2, 2), [(7,)]),
        ("PReLU", "prelu_param { channel_shared: true }", (1, 7, 2, 2), [(1,)]),
        ("BatchNorm", "", (1, 7, 2, 2), [(7,), (7,), (1,)]),
        ("Embed", "embed_param { num_output: 4 input_dim: 9 }", (1, 7), []),
    ],
)  # fmt: skip
def test_needed_shapes(
    tmp_path: Path, kind: str, settings: str, bottom: tuple[int, ...], shapes: list[tuple[int, ...]]
) -> None:
    assert needed_shapes(layer(tmp_path, kind, settings), bottom) == shapes


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([(5, 24), (5,)], ""),
        ([(1, 1, 5, 24), (1, 1, 1, 5)], ""),
        ([None, None], ""),
        ([(5, 23), (5,)], "weights of shape (5, 23), and the network needs (5, 24)"),
        ([(5, 24), (6,)], "bias of shape (6,), and the network needs (5,)"),
        ([(5, 24)], "1 blob, and the network needs 2: weights and bias"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, found: list[tuple[int, ...] | None], words: str) -> None:
    product = layer(tmp_path, "InnerProduct", "inner_product_param { num_output: 5 }")

    assert misfit(product, found, (1, 2, 3, 4)) == words


def test_the_first_layer_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "old.prototxt").write_text(OLD_NETWORK, encoding="utf-8")
    layers = read_network(tmp_path / "old.prototxt").layers
    blobs = {"data": (1, 2, 4, 4), "conv": (1, 2, 4, 4)}

    assert first_misfit(layers, {"conv": [(2, 2, 1, 1), (2,)]}, blobs) is None
    found = first_misfit(layers, {"conv": [(2, 3, 1, 1), (2,)]}, blobs)
    assert found is not None
    assert (found[0].name, found[1]) == ("conv", "weights of shape (2, 3, 1, 1), and the network needs (2, 2, 1, 1)")
    assert first_misfit(layers, {"conv": [(9,)]}, {}) is None
