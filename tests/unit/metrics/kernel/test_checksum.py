"""Checksums: CRC-32 of the elements' own little-endian bytes."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from probe_flow.measure.results import checksum_equal, crc32
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.testing.builders import ArrayBlocks


def test_crc32_is_that_of_the_little_endian_bytes() -> None:
    raw = struct.pack("<3f", 1.0, -2.5, 3.0)
    assert crc32(ArrayBlocks([1.0, -2.5, 3.0], "float32")) == f"{zlib.crc32(raw):08x}"
    assert crc32(ArrayBlocks(np.array([1.0, -2.5, 3.0], dtype=">f4"), ">f4")) == f"{zlib.crc32(raw):08x}"


def test_the_check_value_of_the_polynomial() -> None:
    assert crc32(ArrayBlocks(list(b"123456789"), "uint8")) == "cbf43926"


def test_crc32_runs_over_block_edges_and_pads_to_8_digits() -> None:
    values = np.arange(2 * BLOCK + 3, dtype=np.int32)
    assert crc32(ArrayBlocks(values, "int32")) == f"{zlib.crc32(values.tobytes()):08x}"
    assert crc32(ArrayBlocks([], "int32")) == "00000000"


def test_a_bfloat16_tensor_can_be_checked_against_its_float32_copy() -> None:
    narrow = ArrayBlocks([1.5, -3.0, 0.1], "bfloat16")
    wide = ArrayBlocks(narrow.array.astype(np.float32), "float32")
    assert crc32(narrow) != crc32(wide)
    assert crc32(narrow, as_float32=True) == crc32(wide) == crc32(wide, as_float32=True)


@pytest.mark.parametrize(
    ("target", "golden", "equal"),
    [
        ("00ff12ab", "00FF12AB", True), ("00ff12ab", "00ff12ac", False), (None, "00ff12ab", None),
        ("00ff12ab", None, None), ("", "00ff12ab", None), (None, None, None),
    ],
)  # fmt: skip
def test_checksum_equal(target: str | None, golden: str | None, equal: bool | None) -> None:
    assert checksum_equal(target, golden) is equal
