"""What products of two tensors add up to: terms that do not cancel, and errors that all terms share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from probe_flow.analysis.model.deviation import Deviation, mean_of
from probe_flow.analysis.number_types import UNIT

UNCANCELLED = 2.0
"""What the terms of a product would add up to without cancelling, in sizes of the output, where that is not known."""


def typical_of(output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return the size that a product of unrelated factors has, of all that an operator reads: two at least."""
    first, second, *others = sorted(inputs, key=lambda tensor: -tensor.count)
    return typical_product(output, first, second) * _scale(output, first, second, others)


def coherent_of(output: Deviation, inputs: Sequence[Deviation]) -> float:
    """Return what differences of the operands' means add up to, of all that an operator reads: two at least."""
    first, second, *others = sorted(inputs, key=lambda tensor: -tensor.count)
    return coherent_product(output, first, second) * _scale(output, first, second, others)


def _scale(output: Deviation, first: Deviation, second: Deviation, others: Sequence[Deviation]) -> float:
    """Return what makes fractions of a product of quantised operands (whole numbers, eight bits); 1.0 of others.

    Scales are positive fractions. Where the operator shows none of them, its result tells how small they are.
    """
    is_quantised = any(not operand.unit or operand.unit > UNIT["bfloat16"] for operand in (first, second))
    if not (is_quantised and output.unit):
        return 1.0
    scales = [tensor.size for tensor in others if tensor.unit and tensor.least > 0.0]
    if scales:
        return math.prod(scales)
    unscaled = typical_product(output, first, second)
    return UNCANCELLED * output.size / unscaled if unscaled else 1.0


def typical_product(output: Deviation, first: Deviation, second: Deviation) -> float:
    """Return the size that a product of unrelated factors has: s_a * s_b * sqrt(length of the sum)."""
    return first.size * second.size * math.sqrt(product_length(output, first, second))


def product_length(output: Deviation, first: Deviation, second: Deviation) -> float:
    """Return how many terms each element of a product sums up."""
    return math.sqrt(max(1.0, first.count * second.count / max(1, output.count)))


def coherent_product(output: Deviation, first: Deviation, second: Deviation) -> float:
    """Return the same for a product of two tensors."""
    return product_length(output, first, second) * (
        abs(first.offset) * mean_of(second) + abs(second.offset) * mean_of(first)
    )
