"""Caffe networks as they run in a test, read without OpenCV: own tops, phases, the older form."""

from __future__ import annotations

from pathlib import Path

import pytest
from caffe_models import NETWORK, OLD_NETWORK

from probe_flow.dumpers.caffe.network import Network, NetworkError, read_network
from probe_flow.errors import FormatError


def network(tmp_path: Path, text: str) -> Network:
    (tmp_path / "net.prototxt").write_text(text, encoding="utf-8")
    return read_network(tmp_path / "net.prototxt")


def test_layers_in_place_get_tops_of_their_own(tmp_path: Path) -> None:
    found = network(tmp_path, NETWORK)

    assert [(layer.name, layer.bottoms, layer.tops) for layer in found.layers] == [
        ("conv1/a.b", ("data",), ("conv1/a.b",)),
        ("bn1", ("conv1/a.b",), ("bn1",)),
        ("scale1", ("bn1",), ("scale1",)),
        ("relu1", ("scale1",), ("relu1",)),
        ("drop1", ("relu1",), ("drop1",)),
        ("cut", ("drop1",), ("cut.0", "cut.1")),
        ("pool", ("cut.1",), ("pool",)),
        ("fc", ("pool",), ("fc",)),
        ("loss", ("fc",), ("loss",)),
    ]


def test_what_only_training_has_is_left_out_with_the_reason(tmp_path: Path) -> None:
    found = network(tmp_path, NETWORK)

    assert dict(found.left_out) == {
        "label": "a layer of the training phase",
        "accuracy": "`Accuracy` computes nothing for the result",
    }
    assert found.layers[-1].op_type == "Softmax"


def test_text_that_is_written_is_read_as_the_same(tmp_path: Path) -> None:
    first = network(tmp_path, NETWORK)
    again = network(tmp_path, first.text().decode())

    assert [(layer.name, layer.op_type, layer.bottoms, layer.tops) for layer in again.layers] == [
        (layer.name, layer.op_type, layer.bottoms, layer.tops) for layer in first.layers
    ]
    assert again.inputs == first.inputs
    assert again.left_out == []


def test_older_form_is_read(tmp_path: Path) -> None:
    found = network(tmp_path, OLD_NETWORK)

    assert [(layer.name, layer.op_type, layer.tops) for layer in found.layers] == [
        ("conv", "Convolution", ("conv",)),
        ("relu", "ReLU", ("relu",)),
        ("prob", "Softmax", ("prob",)),
    ]
    assert found.inputs[0].shape == (1, 2, 4, 4)


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ('layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }', (2, 3)),
        ('layer { name: "in" type: "Data" top: "data" top: "label" }', None),
        ('input: "data" input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5', (2, 3, 4, 5)),
        ('input: "data"', None),
    ],
)
def test_inputs_of_every_form(tmp_path: Path, given: str, shape: tuple[int, ...] | None) -> None:
    found = network(tmp_path, given + ' layer { name: "r" type: "ReLU" bottom: "data" top: "data" }')

    assert [(each.name, each.shape) for each in found.inputs] == [("data", shape)]
    assert found.layers[0].tops == ("r",)


def test_two_layers_of_one_name_keep_apart(tmp_path: Path) -> None:
    found = network(tmp_path, 'input: "x"' + 2 * ' layer { name: "r" type: "ReLU" bottom: "x" top: "x" }')

    assert [layer.tops for layer in found.layers] == [("r",), ("r__2",)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no layers"),
        ('name: "x"', "has no layers"),
        ('layer { name: "a" type: "ReLU" bottom: "nobody" }', "no layers that run in a test"),
        ('layer { name: "a" } }', "closes a block"),
        ("layer {" * 5000, "blocks in more than"),
        ('input: "x" input_dim: many layer { type: "ReLU" bottom: "x" }', "no number"),
    ],
)
def test_networks_that_cannot_run_are_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        network(tmp_path, text)


def test_text_that_was_cut_off_is_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        network(tmp_path, NETWORK[:400])
