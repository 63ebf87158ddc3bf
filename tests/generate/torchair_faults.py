"""The ways in which a simulated device goes wrong: each kind turns one operator's right result into a wrong one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from fx_writer import Array
from ge_device import Outputs, stored
from ge_kernels import HOST, gelu_tanh, layer_norm, softmax


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Args:
        kind: a key of `OPERATOR_KINDS` or `PLACEHOLDER_KINDS`.
        place: name of the GE operator that goes wrong; for placeholder kinds that of a Data or Const operator.
        strength: what it means is the kind's own business.
        token: step in which it happens; None means every step.
        rank: process on whose device it happens.
        is_undumped: the operator leaves no file, so its consumer is the first that shows the fault.
    """

    kind: str
    place: str
    strength: float = 0.0
    token: int | None = None
    rank: int = 0
    is_undumped: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """What a kind of fault may use: the operator's inputs and right output, and its output in the step before."""

    inputs: Sequence[Array]
    right: Array
    previous: Array | None
    strength: float
    storage: str
    random: np.random.Generator


Kind = Callable[[Scene], "Array | Outputs"]


def random_for(fault: Fault) -> np.random.Generator:
    """Return the stream that picks channels, rows and elements; the same for every run of a fault."""
    return np.random.default_rng(zlib.crc32(f"{fault.kind} {fault.place}".encode()))


def _rms(x: Array) -> float:
    finite = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(np.square(finite, dtype=np.float64))))


def _channel_axis(x: Array) -> int:
    return 1 if x.ndim == 4 else x.ndim - 1


def _wrong_gelu(scene: Scene) -> Array:
    return gelu_tanh(scene.inputs[0], coefficient=scene.strength)


def _hard_sigmoid(scene: Scene) -> Array:
    return np.clip(scene.inputs[0] / 6 + np.float32(0.5), 0, 1).astype(np.float32)


def _softmax_axis(scene: Scene) -> Array:
    return softmax(HOST, scene.inputs[0], axis=-2)


def _norm_eps(scene: Scene) -> Outputs:
    x, _, gamma, beta = scene.inputs
    return layer_norm(HOST, x, gamma, beta, eps=scene.strength)


def _scale(scene: Scene) -> Array:
    return scene.right * np.float32(1 + scene.strength)


def _zero_channel(scene: Scene) -> Array:
    wrong, axis = scene.right.copy(), _channel_axis(scene.right)
    np.moveaxis(wrong, axis, 0)[scene.random.integers(wrong.shape[axis])] = 0
    return wrong


def _scale_channel(scene: Scene) -> Array:
    wrong, axis = scene.right.copy(), _channel_axis(scene.right)
    np.moveaxis(wrong, axis, 0)[scene.random.integers(wrong.shape[axis])] *= np.float32(1 + scene.strength)
    return wrong


def _one_element(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong.reshape(-1)[scene.random.integers(wrong.size)] += np.float32(scene.strength * _rms(wrong))
    return wrong


def _first_operand(scene: Scene) -> Array:
    return np.broadcast_to(scene.inputs[0], scene.right.shape).copy()


def _without_filter_bias(scene: Scene) -> Array:
    return scene.right - scene.inputs[2][:, None, None]


def _second_operand(scene: Scene) -> Array:
    return np.broadcast_to(scene.inputs[1], scene.right.shape).copy()


def _unmasked_entry(scene: Scene) -> Array:
    wrong = scene.right.copy()
    hidden = np.argwhere(np.isneginf(wrong))
    entry = tuple(hidden[scene.random.integers(len(hidden))])
    wrong[entry] = scene.inputs[0][entry]
    return wrong


def _masked_entry(scene: Scene) -> Array:
    wrong = scene.right.copy()
    visible = np.argwhere(np.isfinite(wrong) & (np.arange(wrong.shape[-1]) > 0))
    wrong[tuple(visible[scene.random.integers(len(visible))])] = -np.inf
    return wrong


def _stale(scene: Scene) -> Array:
    assert scene.previous is not None, "a stale buffer needs an earlier token"
    return scene.previous


def _narrow_accumulation(scene: Scene) -> Array:
    a, b = scene.inputs[:2]
    total = np.zeros(scene.right.shape, np.float32)
    for k in range(a.shape[-1]):
        total = stored(total + a[..., k, None] * b[..., k, None, :], scene.storage)
    return total


def _nan(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong.reshape(-1)[scene.random.integers(wrong.size)] = np.nan
    return wrong


def _overflow(scene: Scene) -> Array:
    """Saturate what a half-precision intermediate, ``strength`` times the result, could not hold."""
    with np.errstate(over="ignore"):
        return stored(scene.right * np.float32(scene.strength), "float16") / np.float32(scene.strength)


def _untransposed(scene: Scene) -> Array:
    return scene.inputs[0].reshape(scene.right.shape)


def _next_index(scene: Scene) -> Array:
    table, indices = scene.inputs
    wrong = scene.right.copy()
    row = scene.random.integers(len(indices))
    wrong[row] = table[(indices[row] + 1) % len(table)]
    return wrong


def _shift(scene: Scene) -> Array:
    return np.roll(scene.right, 1, axis=-2)


def _flip_row(scene: Scene) -> Array:
    wrong = scene.right.copy()
    rows = wrong.reshape(-1, wrong.shape[-1])
    rows[scene.random.integers(len(rows))] *= -1
    return wrong


def _repeat_row(scene: Scene) -> Array:
    wrong = scene.right.copy()
    rows = wrong.reshape(-1, wrong.shape[-1])
    row = scene.random.integers(1, len(rows))
    rows[row] = rows[row - 1]
    return wrong


def _zero_tail(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong.reshape(-1)[-int(scene.strength) :] = 0
    return wrong


def _coarse(scene: Scene) -> Array:
    """Keep only ``strength`` bits of each mantissa."""
    mantissa, exponent = np.frexp(scene.right)
    steps = np.float32(2**scene.strength)
    return np.ldexp(np.round(mantissa * steps) / steps, exponent).astype(np.float32)


OPERATOR_KINDS: dict[str, Kind] = {
    "wrong_gelu": _wrong_gelu,
    "hard_sigmoid": _hard_sigmoid,
    "softmax_axis": _softmax_axis,
    "norm_eps": _norm_eps,
    "scale": _scale,
    "zero_channel": _zero_channel,
    "scale_channel": _scale_channel,
    "one_element": _one_element,
    "dropped_bias": _first_operand,
    "dropped_filter_bias": _without_filter_bias,
    "lost_first_operand": _second_operand,
    "lost_second_operand": _first_operand,
    "unmasked_entry": _unmasked_entry,
    "masked_entry": _masked_entry,
    "stale_buffer": _stale,
    "narrow_accumulation": _narrow_accumulation,
    "nan": _nan,
    "overflow": _overflow,
    "untransposed": _untransposed,
    "next_index": _next_index,
    "shift": _shift,
    "flip_row": _flip_row,
    "repeat_row": _repeat_row,
    "zero_tail": _zero_tail,
    "coarse": _coarse,
}
"""Faults of an operator: what it returns instead of its first output, or of all of them."""


PLACEHOLDER_KINDS: dict[str, Callable[[Scene], Array]] = {
    "wrong_scalar": _scale,
    "wrong_parameter": _scale_channel,
    "wrong_weight_element": _one_element,
    "wrong_input": _flip_row,
}
"""Faults of a parameter, a network input or a scalar constant, before the graph runs."""
