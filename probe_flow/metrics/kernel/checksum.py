"""Checksums of tensors: CRC-32 with the polynomial of zlib, as dump tools record it."""

from __future__ import annotations

import zlib

import numpy as np

from probe_flow.metrics.kernel.compare import BLOCK, Blocks


def crc32(values: Blocks, *, as_float32: bool = False) -> str:
    """Return the CRC-32 of a tensor's logical elements, little endian, in C order, as 8 lower-case hex digits.

    The bytes are those of the elements as they are read: in the tensor's own dtype, except for types that numpy lacks
    (8-bit floats and complex32 count as float32, int4 and uint1 as bytes). No elements give ``00000000``.

    Args:
        values: the tensor.
        as_float32: widen every element first, to compare a bfloat16 tensor with one that was saved as float32.
    """
    crc = 0
    for start in range(0, values.numel, BLOCK):
        block = values.read(start, min(values.numel, start + BLOCK))
        if as_float32:
            with np.errstate(all="ignore"):
                block = block.astype(np.float32)
        if block.dtype.byteorder == ">":
            block = block.astype(block.dtype.newbyteorder("<"))
        crc = zlib.crc32(block.tobytes(), crc)
    return f"{crc:08x}"


def checksum_equal(target: str | None, golden: str | None) -> bool | None:
    """Return whether two checksums are the same, ignoring case; None when a side has none."""
    if not target or not golden:
        return None
    return target.lower() == golden.lower()
