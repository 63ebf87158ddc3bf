"""The ways in which the device of a generated offline pair goes wrong.

A fault sits in an operator (what it gives is changed), in a layer (its arithmetic is another one) or in weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from generate.offline_layers import Array, Layer, compute, conv


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        kind: a key of `OPERATOR_KINDS`, `LAYER_KINDS` or `WEIGHT_KINDS`.
        place: name of the device operator, or of the layer.
        strength: what it means is the kind's own business.
    """

    kind: str
    place: str
    strength: float = 0.0


@dataclass(frozen=True)
class Scene:
    """What the fault of an operator may use: its inputs, its right output, and that for another input."""

    inputs: Sequence[Array]
    right: Array
    stale: Array
    strength: float
    random: np.random.Generator


def random_for(fault: Fault) -> np.random.Generator:
    """Return the stream that picks channels, rows and elements."""
    return np.random.default_rng(zlib.crc32(f"{fault.kind} {fault.place}".encode()))


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def _channels(x: Array) -> Array:
    return np.moveaxis(x, 1 if x.ndim == 4 else -1, 0)


def _scale(scene: Scene) -> Array:
    return scene.right * np.float32(1 + scene.strength)


def _channel(scene: Scene) -> Array:
    """Scale the channel that holds most."""
    wrong = scene.right.copy()
    channels = _channels(wrong)
    channels[np.argmax([_rms(part) for part in channels])] *= np.float32(1 + scene.strength)
    return wrong


def _second_block(scene: Scene) -> Array:
    """Add to the channels behind the first block of 16: what padding left there."""
    wrong = scene.right.copy()
    _channels(wrong)[16:] += np.float32(scene.strength * _rms(wrong))
    return wrong


def _swapped_blocks(scene: Scene) -> Array:
    wrong = scene.right.copy()
    channels = _channels(wrong)
    count = len(channels) - 16
    channels[:count], channels[16:] = channels[16:].copy(), channels[:count].copy()
    return wrong


def _one_element(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong.reshape(-1)[scene.random.integers(wrong.size)] += np.float32(scene.strength * _rms(wrong))
    return wrong


def _border_row(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong[..., -1, :] = wrong[..., 0, :]
    return wrong


def _later_rows(scene: Scene) -> Array:
    """Repeat the rows of the first fractal in the second one."""
    wrong = scene.right.copy()
    count = min(16, wrong.shape[-2] - 16)
    wrong[..., 16 : 16 + count, :] = wrong[..., :count, :]
    return wrong


def _second_image(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong[1] = wrong[0]
    return wrong


def _nan(scene: Scene) -> Array:
    wrong = scene.right.copy()
    wrong.reshape(-1)[scene.random.integers(wrong.size)] = np.nan
    return wrong


def _overflow(scene: Scene) -> Array:
    """Pass through a float16 ``strength`` times as large as the result, which overflows."""
    with np.errstate(over="ignore"):
        return (scene.right * np.float32(scene.strength)).astype(np.float16).astype(np.float32) / np.float32(
            scene.strength
        )


def _saturated(scene: Scene) -> Array:
    top = np.float32(scene.strength * np.abs(scene.right).max())
    return np.clip(scene.right, -top, top)


def _coarse(scene: Scene) -> Array:
    """Keep only ``strength`` bits of each mantissa."""
    mantissa, exponent = np.frexp(scene.right)
    steps = np.float32(2**scene.strength)
    return np.ldexp(np.round(mantissa * steps) / steps, exponent).astype(np.float32)


def _codes(scene: Scene) -> Array:
    return np.clip(np.rint(scene.right * np.float32(1 + scene.strength)), -128, 127)


OPERATOR_KINDS: Mapping[str, Callable[[Scene], Array]] = {
    "scale": _scale,
    "channel": _channel,
    "second_block": _second_block,
    "swapped_blocks": _swapped_blocks,
    "one_element": _one_element,
    "border_row": _border_row,
    "later_rows": _later_rows,
    "second_image": _second_image,
    "shift": lambda scene: np.roll(scene.right, 1, axis=-1),
    "stale": lambda scene: scene.stale,
    "nan": _nan,
    "overflow": _overflow,
    "saturated": _saturated,
    "coarse": _coarse,
    "int8_scale": _codes,
    "int8_offset": lambda scene: np.clip(scene.right + np.float32(scene.strength), -128, 127),
}

Computed = Callable[[Layer, Sequence[Array], Sequence[Array], float], list[Array]]


def _narrow(layer: Layer, inputs: Sequence[Array], weights: Sequence[Array], bits: float) -> list[Array]:
    """Accumulate a matrix product in a narrow type with so many bits of mantissa."""
    a, b = inputs[0], weights[0] if weights else inputs[1]
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for k in range(a.shape[-1]):
        mantissa, exponent = np.frexp(total + a[..., k, None] * b[..., k, None, :])
        steps = np.float32(2**bits)
        total = np.ldexp(np.round(mantissa * steps) / steps, exponent).astype(np.float32)
    return [total]


def _rotated_groups(layer: Layer, inputs: Sequence[Array], weights: Sequence[Array], _: float) -> list[Array]:
    count = inputs[0].shape[1] // int(layer.number)
    return compute(layer, [np.roll(inputs[0], count, axis=1)], weights)


LAYER_KINDS: Mapping[str, Computed] = {
    "dropped_bias": lambda layer, x, weights, _: (
        [x[0]] if layer.kind == "bias" else compute(layer, x, [weights[0], 0 * weights[1]])
    ),
    "edge_padding": lambda layer, x, weights, _: [conv(x[0], weights[0], groups=int(layer.number), mode="edge")],
    "rotated_groups": _rotated_groups,
    "narrow_accumulation": _narrow,
    "lost_operand": lambda layer, x, _, place: [x[1 - int(place)]],
    "doubled_operand": lambda layer, x, _, place: [x[0] + x[1] + x[int(place)]],
    "dropped": lambda layer, x, _, __: [x[0]],
    "hard_sigmoid": lambda layer, x, _, __: [np.clip(x[0] / 6 + np.float32(0.5), 0, 1)],
    "first_of_pool": lambda layer, x, _, __: [x[0][:, :, ::2, ::2]],
    "swapped_operands": lambda layer, x, weights, _: compute(layer, list(x)[::-1], weights),
    "swapped_outputs": lambda layer, x, weights, _: compute(layer, x, weights)[::-1],
    "transposed_weight": lambda layer, x, weights, _: compute(layer, x, [np.ascontiguousarray(weights[0].T)]),
    "other_axis": lambda layer, x, _, __: [compute(layer, [x[0].swapaxes(-1, -2)])[0].swapaxes(-1, -2)],
    "number": lambda layer, x, weights, number: compute(replace(layer, number=number), x, weights),
}


def _weight_column(weights: list[Array], scene: Scene) -> None:
    kernel = weights[0] if weights[0].ndim == 4 else weights[0].T
    kernel[scene.random.integers(len(kernel))] *= np.float32(1 + scene.strength)


def _weight_element(weights: list[Array], scene: Scene) -> None:
    flat = weights[0].reshape(-1)
    flat[scene.random.integers(flat.size)] += np.float32(scene.strength * _rms(flat))


def _other_statistics(weights: list[Array], scene: Scene) -> None:
    """Normalise with a mean of zero."""
    weights[2] = np.zeros_like(weights[2])


WEIGHT_KINDS: Mapping[str, Callable[[list[Array], Scene], None]] = {
    "weight_column": _weight_column,
    "weight_element": _weight_element,
    "bn_mean": _other_statistics,
}


def with_wrong_weights(layers: Sequence[Layer], fault: Fault) -> tuple[Layer, ...]:
    """Return the layers with the weights of one of them changed."""

    def wrong(layer: Layer) -> Layer:
        weights = [weight.copy() for weight in layer.weights]
        nothing = np.zeros(0, np.float32)
        WEIGHT_KINDS[fault.kind](weights, Scene((), nothing, nothing, fault.strength, random_for(fault)))
        return replace(layer, weights=tuple(weights))

    assert any(layer.name == fault.place for layer in layers), fault
    return tuple(wrong(layer) if layer.name == fault.place else layer for layer in layers)
