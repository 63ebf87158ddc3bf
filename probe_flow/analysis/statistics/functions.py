"""Activations of one number that `math` has not."""

from __future__ import annotations

import math


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value)) if value > -_LARGE else math.exp(value)


_LARGE = 700.0  # exp overflows behind


def gelu(value: float) -> float:
    return 0.5 * value * (1.0 + math.erf(value / math.sqrt(2.0)))


def mish(value: float) -> float:
    return value * math.tanh(softplus(value))


def hardswish(value: float) -> float:
    return value * min(max(value + 3.0, 0.0), 6.0) / 6.0


def softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0.0 else math.log1p(math.exp(value))
