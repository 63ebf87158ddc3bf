"""The dump writer of the examples against vectors that were computed by hand."""

from __future__ import annotations

import ge_writer
import numpy as np
import pytest
from ge_writer import DumpTensor

ADD_1 = bytes.fromhex(
    "3e000000000000000a03322e30108080f9c0c1c482031a12080110021a040a02010230083a040a0201022213080210021a030a01022804"
    "32030a010240802032054164645f31003c00c10000404000008040"
)


def test_writer_reproduces_the_published_container(tmp_path):
    path = ge_writer.write_dump(
        tmp_path / "Add.Add_1",
        op_name="Add_1",
        inputs=[DumpTensor(np.array([1.0, -2.5]), "float16", address=4096)],
        outputs=[DumpTensor(np.array([[3.0, 4.0]]), "float32")],
        dump_time=1_700_000_000_000_000,
    )
    assert path.read_bytes() == ADD_1


@pytest.mark.parametrize(
    ("layout", "shape", "stored_shape", "flat"),
    [
        ("FRACTAL_NZ", (3, 18), (2, 1, 16, 16), {16: 18, 32: 36, 256: 16, 257: 17, 258: 0, 272: 34}),
        ("NC1HWC0", (1, 3, 2, 2), (1, 1, 2, 2, 16), {1: 4, 2: 8, 16: 1, 17: 5, 32: 2}),
        ("FRACTAL_Z", (2, 3, 1, 2), (2, 1, 16, 16), {1: 2, 2: 4, 16: 6, 256: 1, 257: 3, 272: 7}),
        ("NHWC", (1, 3, 2, 2), (1, 2, 2, 3), {0: 0, 1: 4, 2: 8, 3: 1}),
    ],
)
def test_writer_places_elements_where_the_layout_says(layout, shape, stored_shape, flat):
    stored = ge_writer.to_layout(np.arange(np.prod(shape)).reshape(shape), layout)
    assert stored.shape == stored_shape
    assert {index: int(stored.reshape(-1)[index]) for index in flat} == flat


def test_writer_packs_grouped_weights_diagonally():
    # 2 groups of 8 filters with 8 channels share one 16 x 16 block: group 1 sits at (8.., 8..).
    data = np.arange(1, 2 * 8 * 8 + 1).reshape(16, 8, 1, 1)
    stored = ge_writer.to_layout(data, "FRACTAL_Z", groups=2)
    assert stored.shape == (1, 1, 16, 16)
    np.testing.assert_array_equal(stored[0, 0, :8, :8], data[:8, :, 0, 0])
    np.testing.assert_array_equal(stored[0, 0, 8:, 8:], data[8:, :, 0, 0])
    assert not stored[0, 0, :8, 8:].any()
    assert not stored[0, 0, 8:, :8].any()


def test_writer_packs_low_nibble_first_and_high_bit_first():
    assert ge_writer.encode(np.array([1, -1, 7]), "int4") == b"\xf1\x07"
    assert ge_writer.encode(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1]), "uint1") == b"\x81\x80"


def test_file_names_are_cleaned():
    assert ge_writer.file_name("Add", "a/b.c", 44, 6, 1706596912161941) == "Add.a_b_c.44.6.1706596912161941"
    name = ge_writer.file_name("Relu", "r", 1, None, 1706596912161941, tail=(0, 1, 2, 3))
    assert name == "Relu.r.1.1706596912161941.0.1.2.3"
