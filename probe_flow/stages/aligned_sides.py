"""Bring the axes of a pair into one order: what the matcher found out about them, applied where tensors are read."""

from __future__ import annotations

from probe_flow.formats.axis_order import channels_first
from probe_flow.records import Pair, TensorRef


def aligned_sides(pair: Pair) -> tuple[TensorRef, TensorRef]:
    """Return target and golden of a two-sided pair as they are to be read, element by element alike.

    A word of `Pair.transform` such as ``golden:nhwc_to_nchw`` says in which order a side gives its logical axes.

    Raises:
        ValueError: when a word does not fit its tensor: a fault of the matcher, which knows the shapes.
    """
    sides = {"target": pair.target, "golden": pair.golden}
    for word in pair.transform:
        side, _, orders = word.partition(":")
        tensor = sides[side]
        assert tensor is not None
        sides[side] = channels_first(tensor, orders.upper().partition("_TO_")[0])
    target, golden = sides["target"], sides["golden"]
    assert target is not None
    assert golden is not None
    return target, golden
