"""Bring the axes of a pair into one order: what the matcher found out about them, applied where tensors are read."""

from __future__ import annotations

from probe_flow.records import Pair, TensorRef


def aligned_sides(pair: Pair) -> tuple[TensorRef, TensorRef]:
    """Return target and golden of a two-sided pair as they are to be read, element by element alike.

    Raises:
        ValueError: when a word of its transform does not fit: a fault of the matcher, which knows the shapes.
    """
    assert pair.target is not None
    assert pair.golden is not None
    if not pair.transform:
        return pair.target, pair.golden
    from probe_flow.elements.axis_order import aligned

    sides = aligned({"target": pair.target, "golden": pair.golden}, pair.transform)
    return sides["target"], sides["golden"]
