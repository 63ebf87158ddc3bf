"""The axes of a tensor in another order: what is read is what numpy's transpose gives, however the bytes lie."""

from __future__ import annotations

import math

import numpy as np
import pytest

from probe_flow.elements.axis_order import channels_first
from probe_flow.elements.blocks import open_tensor
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

SHAPES = {
    "NHWC": (2, 3, 4, 5),
    "HWCN": (3, 4, 5, 2),
    "CHWN": (5, 3, 4, 2),
    "NDHWC": (2, 6, 3, 4, 5),
    "NCHW": (2, 5, 3, 4),
}


def plain(path, encoding: str, shape, **more) -> TensorRef:
    return TensorRef.of(
        NodeKey(Execution(), "op"),
        Slot(SlotRole.OUTPUT),
        TensorKind.TENSOR,
        dtype="float32",
        shape=shape,
        logical_shape=shape,
        extents=(Extent(str(path), 0, math.prod(shape) * 4, encoding),),
        **more,
    )


def read(ref: TensorRef) -> np.ndarray:
    with open_tensor(ref) as blocks:
        return blocks.read(0, blocks.numel).reshape(ref.logical_shape)


@pytest.mark.parametrize("given", SHAPES)
@pytest.mark.parametrize("encoding", ["raw", "raw-big", "raw-fortran", "strided"])
def test_the_axes_come_channels_first(tmp_path, given, encoding):
    shape = SHAPES[given]
    data = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    if encoding == "strided":  # the last axis lies first in the file
        np.moveaxis(data, -1, 0).tofile(tmp_path / "t")
        rest = shape[:-1]
        strides = [math.prod(rest[place + 1 :]) for place in range(len(rest))] + [math.prod(rest)]
        encoding = f"raw-strided:{','.join(map(str, strides))}"
    else:
        stored = {"raw": data, "raw-big": data.astype(">f4"), "raw-fortran": data.T}[encoding]
        np.ascontiguousarray(stored).tofile(tmp_path / "t")
    ref = plain(tmp_path / "t", encoding, shape)
    np.testing.assert_array_equal(read(ref), data)
    wanted = "NCDHW" if len(shape) == 5 else "NCHW"
    turned = channels_first(ref, given)
    expected = data.transpose([given.index(letter) for letter in wanted])
    assert turned.logical_shape == expected.shape
    np.testing.assert_array_equal(read(turned), expected)


def test_parts_of_a_tensor_come_channels_first(tmp_path):
    data = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    extents = []
    for part in range(2):
        data[part : part + 1].tofile(tmp_path / f"t{part}")
        extents.append(Extent(str(tmp_path / f"t{part}"), 0, 240, "raw", (0, part)))
    ref = plain(tmp_path / "t0", "raw", data.shape).changed(extents=tuple(extents))
    np.testing.assert_array_equal(read(channels_first(ref, "NHWC")), data.transpose(0, 3, 1, 2))


def test_of_a_private_layout_only_the_logical_shape_is_turned(tmp_path):
    data = np.arange(2 * 5 * 3 * 4, dtype=np.float32).reshape(2, 5, 3, 4)
    stored = np.zeros((2, 1, 3, 4, 16), np.float32)
    stored[:, 0, :, :, :5] = data.transpose(0, 2, 3, 1)
    stored.tofile(tmp_path / "t")
    ref = plain(tmp_path / "t", "raw", stored.shape, layout="NC1HWC0")
    ref = ref.changed(logical_shape=(2, 3, 4, 5))  # as a framework with channels last gives it
    np.testing.assert_array_equal(read(channels_first(ref, "NHWC")), data)


@pytest.mark.parametrize(("given", "shape"), [("NHWC", (2, 3, 4)), ("NHWX", (2, 3, 4, 5)), ("ND", (2, 3))])
def test_an_order_that_does_not_fit_is_refused(tmp_path, given, shape):
    with pytest.raises(ValueError, match=r"is not in the order"):
        channels_first(plain(tmp_path / "t", "raw", shape), given)
