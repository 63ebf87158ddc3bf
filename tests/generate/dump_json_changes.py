"""Faults of the model instead of a kernel: wrong parameters, inputs, arguments and calls, on the target only."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from generate.dump_json_models import Attention, Mlp, Model


def _picked(items: list, random: np.random.Generator):
    return items[random.integers(len(items))]


def _parameter(model: Model, random: np.random.Generator, least: int = 2) -> torch.Tensor:
    return _picked([p for p in model.parameters() if p.dim() >= least and p.numel() > 16], random).data


def _scaled(model: Model, strength: float, random: np.random.Generator) -> None:
    _parameter(model, random).mul_(1 + strength)


def _one_weight(model: Model, strength: float, random: np.random.Generator) -> None:
    weight = _parameter(model, random)
    flat = weight.view(-1)
    flat[int(random.integers(flat.numel()))] += strength * float(weight.double().pow(2).mean().sqrt())


def _transposed(model: Model, _strength: float, random: np.random.Generator) -> None:
    square = [p.data for p in model.parameters() if p.dim() == 2 and p.shape[0] == p.shape[1]]
    weight = _picked(square, random)
    weight.copy_(weight.T.clone())


def _bias_zero(model: Model, _strength: float, random: np.random.Generator) -> None:
    _picked([p for n, p in model.named_parameters() if n.endswith("bias") and p.numel() > 4], random).data.zero_()


def _eps(model: Model, strength: float, random: np.random.Generator) -> None:
    _picked(
        [m for m in model.modules() if isinstance(m, (nn.LayerNorm, nn.BatchNorm2d, nn.GroupNorm))], random
    ).eps = strength


def _attention_scale(model: Model, strength: float, random: np.random.Generator) -> None:
    _picked([m for m in model.modules() if isinstance(m, Attention)], random).scale *= 1 + strength


def _swapped(model: Model, _strength: float, random: np.random.Generator) -> None:
    _picked([m for m in model.modules() if isinstance(m, Attention)], random).order = (1, 0, 2)


def _extra_call(model: Model, strength: float, random: np.random.Generator) -> None:
    _picked([m for m in model.modules() if isinstance(m, Mlp)], random).factor = 1 + strength


def _dropped_call(model: Model, _strength: float, random: np.random.Generator) -> None:
    _picked([m for m in model.modules() if isinstance(m, Mlp)], random).activates = False


def _wrong_input(model: Model, strength: float, _random: np.random.Generator) -> None:
    name = "x" if "x" in model.batch else "ids"
    tensor = model.batch[name] = model.batch[name].contiguous()
    if tensor.is_floating_point():
        tensor.view(-1)[7] += strength
    else:
        tensor.view(-1)[7] = (tensor.view(-1)[7] + 1) % 11


CHANGES = {
    "param_scale": _scaled,
    "param_element": _one_weight,
    "param_transpose": _transposed,
    "param_zero": _bias_zero,
    "eps_argument": _eps,
    "scale_argument": _attention_scale,
    "undumped_swap": _swapped,
    "extra_call": _extra_call,
    "dropped_call": _dropped_call,
    "wrong_input": _wrong_input,
}
"""Kind -> what it does to the model before the first step. ``late_parameter`` is done between steps instead."""


def late_parameter(model: Model, strength: float, seed: int) -> None:
    """Spoil one parameter after the optimizer's step."""
    _parameter(model, np.random.default_rng(seed)).mul_(1 + strength)


def change(model: Model, kind: str, strength: float, seed: int) -> None:
    """Apply a change to a model in place."""
    with torch.no_grad():
        CHANGES[kind](model, strength, np.random.default_rng(seed))
