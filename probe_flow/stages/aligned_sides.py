"""Bring the axes of a pair into one order: what the matcher found out about them, applied where tensors are read."""

from __future__ import annotations

from dataclasses import replace

from probe_flow.records import Pair, TensorRef

GOLDEN_IS_CHANNELS_LAST = "golden:nhwc_to_nchw"
TARGET_IS_CHANNELS_LAST = "target:nhwc_to_nchw"


def aligned_sides(pair: Pair) -> tuple[TensorRef, TensorRef]:
    """Return target and golden of a two-sided pair as they are to be read, element by element alike.

    A plain golden in the order NHWC is read as a tensor stored in that layout. A device tensor whose recorded logical
    shape is in the order NHWC has the golden's shape instead, since its layout counts axes as NCHW.
    """
    target, golden = pair.target, pair.golden
    assert target is not None
    assert golden is not None
    if GOLDEN_IS_CHANNELS_LAST in pair.transform:
        return target, replace(golden, layout="NHWC", logical_shape=target.logical_shape)
    if TARGET_IS_CHANNELS_LAST in pair.transform:
        return replace(target, logical_shape=golden.logical_shape), golden
    return target, golden
