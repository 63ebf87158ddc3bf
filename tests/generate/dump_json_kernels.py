"""Kernels that go wrong on request: torch functions wrapped so that one call of one of them gives a wrong result.

Imported before the collector, which then takes the wrapped functions for torch's own: a wrong result looks like a
device's. Results are changed in place, so that the graph of the backward pass stays as it was; gradients by a hook on
the call's own autograd node. Nothing here may call a function that the collector watches while gradients flow, hence
the copies of the few methods needed, taken before it wraps them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

_to, _numpy, _copy, _detach = torch.Tensor.to, torch.Tensor.numpy, torch.Tensor.copy_, torch.Tensor.detach
_from_numpy, _empty_like = torch.from_numpy, torch.empty_like


def array(tensor: torch.Tensor) -> np.ndarray:
    """Return a float64 copy."""
    return _numpy(_to(_detach(tensor), torch.float64)).copy()


def like(values: np.ndarray, tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as a tensor of the same dtype and layout."""
    result = _empty_like(_detach(tensor))
    return _copy(result, _from_numpy(np.ascontiguousarray(values)))


@dataclass
class Call:
    """One call as a fault sees it: arguments, right result and the result of the previous call of equal shape."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    right: np.ndarray
    previous: np.ndarray | None
    strength: float
    random: np.random.Generator
    again: Callable[..., torch.Tensor]


@dataclass
class Plan:
    """What is to happen: noise in products, and one fault."""

    noise: float = 0.0
    kind: str = ""
    label: str = ""
    call: int = -1
    strength: float = 0.0
    step: int = 0
    now: int = 0
    depth: int = 0
    counts: Counter = field(default_factory=Counter)
    previous: dict = field(default_factory=dict)
    census: list = field(default_factory=list)
    hit: bool = False


PLAN = Plan()

PLACES = {
    "Functional": (
        F,
        "linear conv2d conv_transpose2d layer_norm batch_norm group_norm gelu relu silu leaky_relu softmax embedding "
        "cross_entropy mse_loss smooth_l1_loss scaled_dot_product_attention max_pool2d avg_pool2d",
    ),
    "Torch": (torch, "softmax matmul sigmoid tanh rsqrt cat stack gather topk"),
    "Tensor": (
        torch.Tensor,
        "__add__ __mul__ __matmul__ __rsub__ __sub__ __truediv__ masked_fill mean pow sum",
    ),
}
PRODUCTS = frozenset({"linear", "conv2d", "conv_transpose2d", "matmul", "__matmul__", "scaled_dot_product_attention"})


def _axis(x: np.ndarray) -> int:
    return 1 if x.ndim == 4 else x.ndim - 1


def _rms(x: np.ndarray) -> float:
    finite = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


def _scale(call: Call) -> np.ndarray:
    return call.right * (1 + call.strength)


def _channel(call: Call) -> np.ndarray:
    wrong = call.right.copy()
    axis = _axis(wrong)
    np.moveaxis(wrong, axis, 0)[call.random.integers(wrong.shape[axis])] *= 1 + call.strength
    return wrong


def _element(call: Call) -> np.ndarray:
    wrong = call.right.copy()
    wrong.reshape(-1)[call.random.integers(wrong.size)] += call.strength * _rms(wrong)
    return wrong


def _nan(call: Call) -> np.ndarray:
    wrong = call.right.copy()
    wrong.reshape(-1)[call.random.integers(wrong.size)] = np.nan
    return wrong


def _overflow(call: Call) -> np.ndarray:
    wrong = call.right.copy()
    flat = wrong.reshape(-1)
    flat[np.argmax(np.where(np.isfinite(flat), flat, -np.inf))] = np.inf
    return wrong


def _stale(call: Call) -> np.ndarray:
    assert call.previous is not None
    return call.previous.copy()


def _roll(call: Call) -> np.ndarray:
    """Rows one place off: statistics mode cannot see it here, only behind the next mixing operation."""
    return np.roll(call.right, 1, axis=-2)


def _shift(call: Call) -> np.ndarray:
    return call.right + call.strength * _rms(call.right)


def _rows_zero(call: Call) -> np.ndarray:
    wrong = call.right.copy()
    wrong.reshape(-1, wrong.shape[-1])[-max(1, wrong.size // wrong.shape[-1] // 4) :] = 0
    return wrong


def _coarse(call: Call) -> np.ndarray:
    """Results that lost their low bits: what accumulation in a type of ``strength`` mantissa bits leaves."""
    mantissa, exponent = np.frexp(call.right)
    step = 2.0**call.strength
    return np.ldexp(np.floor(mantissa * step) / step, exponent)


def _no_bias(call: Call) -> np.ndarray:
    args = list(call.args)
    args[2] = None
    return array(call.again(*args, **call.kwargs))


def _transposed(call: Call) -> np.ndarray:
    args = list(call.args)
    args[1] = args[1].detach().transpose(0, 1).contiguous()
    return array(call.again(*args, **call.kwargs))


def _eps(call: Call) -> np.ndarray:
    args = list(call.args)
    if "eps" in call.kwargs:
        return array(call.again(*args, **{**call.kwargs, "eps": call.strength}))
    args[-1] = call.strength
    return array(call.again(*args, **call.kwargs))


def _softmax_axis(call: Call) -> np.ndarray:
    return array(call.again(call.args[0], dim=-2))


def _quick_gelu(call: Call) -> np.ndarray:
    x = array(call.args[0])
    return x / (1 + np.exp(-1.702 * x))


def _unmasked(call: Call) -> np.ndarray:
    wrong, hidden = call.right.copy(), np.argwhere(np.isneginf(call.right))
    wrong[tuple(hidden[call.random.integers(len(hidden))])] = 1.0
    return wrong


def _index(call: Call) -> np.ndarray:
    wrong, table = call.right.copy(), array(call.args[1])
    rows, ids = wrong.reshape(-1, wrong.shape[-1]), array(call.args[0]).reshape(-1).astype(int)
    row = call.random.integers(len(rows))
    rows[row] = table[(ids[row] + 1) % len(table)]
    return wrong


FORWARD: dict[str, tuple[Callable[[Call], np.ndarray], str]] = {
    "scale": (_scale, ""),
    "channel": (_channel, ""),
    "element": (_element, ""),
    "shift": (_shift, ""),
    "nan": (_nan, ""),
    "overflow": (_overflow, ""),
    "stale": (_stale, ""),
    "roll": (_roll, ""),
    "rows_zero": (_rows_zero, ""),
    "coarse": (_coarse, "linear conv2d matmul __matmul__ conv_transpose2d scaled_dot_product_attention"),
    "no_bias": (_no_bias, "linear conv2d conv_transpose2d"),
    "transposed": (_transposed, "linear conv2d"),
    "eps": (_eps, "layer_norm group_norm batch_norm"),
    "softmax_axis": (_softmax_axis, "softmax"),
    "quick_gelu": (_quick_gelu, "gelu"),
    "unmasked": (_unmasked, "masked_fill"),
    "index": (_index, "embedding"),
}
"""Kind of fault -> what it does to the result of a call, and the functions it applies to (empty: all)."""

BACKWARD = ("grad_scale", "grad_channel", "grad_element", "grad_zero", "grad_nan", "grad_weight", "grad_shift")


def fits(kind: str, name: str, shape: tuple[int, ...], grad: bool, has_bias: bool, previous: bool) -> bool:
    """Say whether a kind of fault can happen in a call of a function with a result of this shape."""
    size = int(np.prod(shape))
    if kind in BACKWARD:
        return grad and size > 8 and (kind != "grad_weight" or name in ("linear", "conv2d", "layer_norm"))
    wanted = FORWARD[kind][1].split()
    if wanted and name not in wanted:
        return False
    if size <= 8 or name in ("topk", "gather"):
        return False
    if kind == "no_bias":
        return has_bias
    if kind == "transposed":
        return has_bias and name == "linear"
    if kind == "stale":
        return previous
    return kind not in ("roll", "rows_zero") or len(shape) > 1


def _hook(kind: str, strength: float, seed: str) -> Callable[..., Any]:
    random = np.random.default_rng(zlib.crc32(seed.encode()))

    def wrong(grad: torch.Tensor) -> torch.Tensor:
        values = array(grad)
        call = Call((), {}, values, None, strength, random, lambda: grad)
        change = {
            "grad_scale": _scale,
            "grad_weight": _scale,
            "grad_channel": _channel,
            "grad_element": _element,
            "grad_shift": _shift,
            "grad_nan": _nan,
            "grad_zero": lambda call: call.right * 0,
        }[kind]
        return like(change(call), grad)

    def hook(inputs: tuple[torch.Tensor | None, ...], _outputs: object) -> tuple[torch.Tensor | None, ...]:
        if kind == "grad_weight":
            smallest = [g.numel() if g is not None else 1 << 60 for g in inputs]
            order = sorted(range(len(inputs)), key=lambda n: smallest[n])
            picked = next(n for n in order if inputs[n] is not None and inputs[n].dim() >= 1)
            return tuple(wrong(g) if n == picked else g for n, g in enumerate(inputs))
        return tuple(None if g is None else wrong(g) for g in inputs)

    return hook


def _node_of(tensor: torch.Tensor, kind: str) -> Any:
    node = tensor.grad_fn
    if kind != "grad_weight":
        return node
    while node is not None and sum(follower is not None for follower, _ in node.next_functions) < 2:
        node = next((follower for follower, _ in node.next_functions if follower is not None), None)
    return node or tensor.grad_fn


def _noisy(out: torch.Tensor, label: str, call: int) -> None:
    random = np.random.default_rng(zlib.crc32(f"{label} {call} {PLAN.now}".encode()))
    values = array(out)
    finite = values[np.isfinite(values)]
    size = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    _copy(out.data, like(values + PLAN.noise * size * random.standard_normal(values.shape), out))


def _wrapped(space: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    label = f"{space}.{name}"

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if PLAN.depth:
            return original(*args, **kwargs)
        PLAN.depth += 1
        try:
            out = original(*args, **kwargs)
            if isinstance(out, torch.Tensor) and out.is_floating_point():
                _act(out, args, kwargs)
            return out
        finally:
            PLAN.depth -= 1

    def _act(out: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = PLAN.counts[PLAN.now, label]
        PLAN.counts[PLAN.now, label] += 1
        if PLAN.noise and name in PRODUCTS:
            _noisy(out, label, call)
        shape = tuple(out.shape)
        has_bias = name in ("linear", "conv2d", "conv_transpose2d") and len(args) > 2 and args[2] is not None
        square = name != "linear" or args[1].shape[0] == args[1].shape[1]
        PLAN.census.append(
            (
                PLAN.now,
                label,
                call,
                shape,
                out.requires_grad,
                has_bias and square,
                has_bias,
                (label, shape) in PLAN.previous,
            )
        )
        if PLAN.label == label and PLAN.call == call and PLAN.step == PLAN.now:
            _go_wrong(out, args, kwargs)
        PLAN.previous[label, shape] = array(out)

    def _go_wrong(out: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        PLAN.hit = True
        seed = f"{PLAN.kind} {label} {PLAN.call}"
        if PLAN.kind in BACKWARD:
            _node_of(out, PLAN.kind).register_hook(_hook(PLAN.kind, PLAN.strength, seed))
            return
        random = np.random.default_rng(zlib.crc32(seed.encode()))
        previous = PLAN.previous.get((label, tuple(out.shape)))
        seen = Call(args, kwargs, array(out), previous, PLAN.strength, random, original)
        _copy(out.data, like(FORWARD[PLAN.kind][0](seen), out))

    kernel.__name__ = name
    return kernel


def wrap_all() -> None:
    """Replace the functions of `PLACES`; once, before the collector is imported."""
    for space, (owner, names) in PLACES.items():
        for name in names.split():
            setattr(owner, name, _wrapped(space, name, getattr(owner, name)))
