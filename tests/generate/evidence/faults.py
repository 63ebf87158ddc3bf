"""What goes wrong in one call of a torch model: in its result, in an index it picked, or in the gradient it gets."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Fault:
    """One fault.

    Args:
        entry: of the forward call, ``Functional.linear.3.forward``.
        kind: a key of `KINDS`.
        strength: what it means is the kind's own business.
        is_gradient: whether the gradient that reaches the call's result is spoilt in place of the result.
        step: in which it happens; None: in every one.
        token: first place along the second axis (the sequence) that it spoils, for kind ``token``.
    """

    entry: str
    kind: str
    strength: float
    is_gradient: bool = False
    step: int | None = None
    token: int = 0


def _rms(x: torch.Tensor) -> float:
    finite = x[torch.isfinite(x)]
    return float(finite.double().pow(2).mean().sqrt()) if finite.numel() else 0.0


def _scale(x: torch.Tensor, fault: Fault, _chance: random.Random) -> torch.Tensor:
    return x * (1 + fault.strength)


def _channel(x: torch.Tensor, fault: Fault, chance: random.Random) -> torch.Tensor:
    wrong = x.clone()
    axis = 1 if x.dim() == 4 else x.dim() - 1
    place = [slice(None)] * x.dim()
    place[axis] = chance.randrange(x.shape[axis])
    wrong[tuple(place)] *= 1 + fault.strength
    return wrong


def _element(x: torch.Tensor, fault: Fault, chance: random.Random) -> torch.Tensor:
    wrong = x.clone()
    wrong.reshape(-1)[chance.randrange(x.numel())] += fault.strength * _rms(x)
    return wrong


def _offset(x: torch.Tensor, fault: Fault, _chance: random.Random) -> torch.Tensor:
    return x + fault.strength * _rms(x)


def _token(x: torch.Tensor, fault: Fault, chance: random.Random) -> torch.Tensor:
    """One row of one sequence, as wrong cache or position make it."""
    wrong = x.clone()
    at = (
        (chance.randrange(x.shape[0]), min(fault.token, x.shape[1] - 1)) if x.dim() > 2 else (fault.token % x.shape[0],)
    )
    wrong[at] = wrong[at] * (1 + fault.strength)
    return wrong


def _coarse(x: torch.Tensor, fault: Fault, _chance: random.Random) -> torch.Tensor:
    """Results that keep ``strength`` bits of mantissa."""
    mantissa, exponent = np.frexp(x.double().numpy())
    steps = 2.0**fault.strength
    return torch.from_numpy(np.asarray(np.ldexp(np.round(mantissa * steps) / steps, exponent)))


def _rows_zero(x: torch.Tensor, _fault: Fault, _chance: random.Random) -> torch.Tensor:
    wrong = x.clone()
    wrong[-max(1, x.shape[0] // 4) :] = 0
    return wrong


def _one_more(x: torch.Tensor, fault: Fault, chance: random.Random) -> torch.Tensor:
    """Whole numbers that were rounded twice too far in some places."""
    wrong = x.clone()
    flat = wrong.reshape(-1)
    for _ in range(max(1, int(fault.strength * x.numel()))):
        flat[chance.randrange(x.numel())] += 2.0
    return wrong


def _index(x: torch.Tensor, _fault: Fault, chance: random.Random) -> torch.Tensor:
    wrong = x.clone()
    flat = wrong.reshape(-1)
    place = chance.randrange(flat.numel())
    flat[place] = (flat[place] + 1 + chance.randrange(max(1, int(x.max()) - 1))) % (int(x.max()) + 1)
    return wrong


def _turned(x: torch.Tensor, _fault: Fault, chance: random.Random) -> torch.Tensor:
    wrong = x.clone()
    flat = wrong.reshape(-1)
    place = chance.randrange(flat.numel())
    flat[place] = ~flat[place]
    return wrong


KINDS: dict[str, Callable[[torch.Tensor, Fault, random.Random], torch.Tensor]] = {
    "scale": _scale,
    "channel": _channel,
    "element": _element,
    "offset": _offset,
    "token": _token,
    "coarse": _coarse,
    "rows zero": _rows_zero,
    "one more": _one_more,
    "index": _index,
    "turned": _turned,
}
STRENGTHS = {
    "scale": (0.02, 0.05, -0.1, 0.3),
    "channel": (0.5, -1.0, -0.3),
    "element": (6.0, 15.0),
    "offset": (0.05, 0.2),
    "token": (0.3, -1.0, -2.0),
    "coarse": (3.0, 4.0),
    "rows zero": (0.0,),
}
"""Faults of fractions, and how strong they are drawn."""


def spoiler(faults: list[Fault], step: int) -> Callable[[str, object], Callable | None]:
    """Return what a `torch_collector.Collector` calls with every result: it spoils that, or the gradient that comes."""
    here = {fault.entry: fault for fault in faults if fault.step in (None, step)}

    def change(entry: str, out: object) -> Callable | None:
        fault = here.get(entry)
        if fault is None:
            return None
        tensor = out if isinstance(out, torch.Tensor) else _picked(out)
        if fault.is_gradient:
            return lambda grad: _wrong(grad, fault)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            tensor.data.copy_(_wrong(tensor.data, fault))
        return None

    return change


def _picked(out: object) -> torch.Tensor:
    """Return the indices of what returns values and indices, else the first result."""
    tensors = [each for each in out if isinstance(each, torch.Tensor)] if isinstance(out, (tuple, list)) else []
    whole = [each for each in tensors if not each.is_floating_point()]
    return (whole or tensors)[0]


def _wrong(right: torch.Tensor, fault: Fault) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        chance = random.Random(zlib.crc32(f"{fault.entry} {fault.kind}".encode()))
        wide = (right.double() if right.is_floating_point() else right).contiguous()  # kinds write to flat views
        return KINDS[fault.kind](wide, fault, chance).to(right.dtype)
