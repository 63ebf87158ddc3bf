"""What fused operators of the NPU compute, in functions of torch: the benchmark of calls that torch has no name for.

Formulas: the benchmark functions of msprobe 26.2.0 (pre-check of PyTorch APIs), and where they depart from it the
operators' own documents: the weight and bias of `npu_layer_norm_eval` count, the epsilon of `npu_rms_norm` is 1e-6,
the scale of an attention is 1 unless it is given, and `sparse_mode` 0 and 1 mask what the mask says and nothing else.
Gradients are those that torch finds of these functions. Tensors come in the precision of the benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

from probe_flow.apis.calls import UnusableError

MASKED = -40000.0
"""Added to the score of a place that a mask excludes; msprobe's."""

COMPRESSED = 2048
"""Rows and columns of a mask that says only that sequences are causal, or a band; the sparse mode says which."""

BAND_MODES = frozenset({2, 3, 4})
"""Sparse modes of compressed masks: causal from the upper left, from the lower right, a band."""

_ALL_TOKENS = 2**31 - 1


def _torch() -> Any:
    return import_module("torch")


# -- attention


def npu_fusion_attention(
    query: Any,
    key: Any,
    value: Any,
    head_num: int,
    input_layout: str,
    pse: Any = None,
    padding_mask: Any = None,  # noqa: ARG001 (reserved by the operator)
    atten_mask: Any = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _ALL_TOKENS,
    next_tockens: int = _ALL_TOKENS,
    inner_precise: int = 0,  # noqa: ARG001
    prefix: Any = None,  # noqa: ARG001 (the mask of that mode holds it)
    actual_seq_qlen: Any = None,  # noqa: ARG001
    actual_seq_kvlen: Any = None,  # noqa: ARG001
    sparse_mode: int = 0,
    **_others: Any,
) -> Any:
    """Return the attention of the NPU's operator, the first of its results."""
    tokens = pre_tockens, next_tockens
    return _attention(
        (query, key, value), head_num, input_layout, pse, atten_mask, scale, keep_prob, tokens, sparse_mode
    )


def flash_attention_score(
    query: Any,
    key: Any,
    value: Any,
    head_num: int,
    real_shift: Any = None,
    drop_mask: Any = None,
    padding_mask: Any = None,  # noqa: ARG001
    attn_mask: Any = None,
    prefix: Any = None,  # noqa: ARG001
    actual_seq_qlen: Any = None,  # noqa: ARG001
    actual_seq_kvlen: Any = None,  # noqa: ARG001
    keep_prob: float = 1.0,
    scalar_value: float = 1.0,
    pre_tokens: int = _ALL_TOKENS,
    next_tokens: int = _ALL_TOKENS,
    inner_precise: int = 0,  # noqa: ARG001
    input_layout: str = "BSH",
    sparse_mode: int = 0,
) -> Any:
    """Return the attention of `mindspore.ops.flash_attention_score`."""
    if drop_mask is not None:
        raise UnusableError("an attention with a dropout mask has no benchmark", is_expected=True)
    tokens = pre_tokens, next_tokens
    sides = query, key, value
    return _attention(
        sides, head_num, input_layout, real_shift, attn_mask, scalar_value, keep_prob, tokens, sparse_mode
    )


def _attention(
    inputs: Sequence[Any],
    head_num: int,
    layout: str,
    shift: Any,
    mask: Any,
    scale: float,
    keep_prob: float,
    tokens: tuple[int, int],
    mode: int,
) -> Any:
    """Return softmax((q k^T + shift) * scale, less what is masked) v by way of float64, laid out as the inputs."""
    if keep_prob != 1:
        raise UnusableError("an attention with dropout is random", is_expected=True)
    torch = _torch()
    # Of keys and values there may be fewer heads; a head's size, which they share, tells how many.
    size = inputs[0].shape[-1] // (head_num if layout in ("BSH", "SBH") else 1)
    query, key, value = (_to_heads(each.double(), layout, each.shape[-1] // size) for each in inputs)
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.transpose(-1, -2)
    if shift is not None:
        scores = scores + shift
    scores = scores * scale
    excluded = _excluded(mask, query.shape[-2], key.shape[-2], tokens, mode)
    if excluded is not None:
        scores = scores + excluded.to(scores.dtype) * MASKED
    return _from_heads(torch.softmax(scores, dim=-1) @ value, layout).to(inputs[0].dtype)


def _to_heads(tensor: Any, layout: str, heads: int) -> Any:
    """Return a tensor as batch, heads, sequence, size."""
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).permute(0, 2, 1, 3)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    if layout == "BSND":
        return tensor.permute(0, 2, 1, 3)
    if layout == "BNSD":
        return tensor
    raise UnusableError(f"an attention of layout `{layout}` has no benchmark", is_expected=True)


def _from_heads(tensor: Any, layout: str) -> Any:
    if layout == "BSH":
        return tensor.permute(0, 2, 1, 3).flatten(-2)
    if layout == "SBH":
        return tensor.permute(2, 0, 1, 3).flatten(-2)
    return tensor.permute(0, 2, 1, 3) if layout == "BSND" else tensor


def _excluded(mask: Any, rows: int, columns: int, tokens: tuple[int, int], mode: int) -> Any:
    """Return which places are excluded, as booleans that fit the scores; None where none is.

    Diagonals of modes 3 and 4 begin at the lower right, as the operators' documents have it; msprobe begins the band of
    mode 4 at the upper left.
    """
    if mask is None:
        return None
    if mode not in BAND_MODES or tuple(mask.shape) != (COMPRESSED, COMPRESSED):
        return mask.bool()
    torch = _torch()
    every = torch.ones(rows, columns, dtype=torch.bool)
    if mode == 2:
        return every.triu(1)
    if mode == 3:
        return every.triu(columns - rows + 1)
    before, after = (min(each, _ALL_TOKENS - 1) for each in tokens)
    return every.triu(after + 1 + columns - rows) | every.tril(-before - 1 + columns - rows)


# -- norms and activations


def npu_rms_norm(x: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Any, Any]:
    """Return x / rms(x) * gamma over the dimensions of gamma, and 1 / rms(x)."""
    dims = tuple(range(-gamma.dim(), 0))
    rstd = (x.square().mean(dim=dims, keepdim=True) + epsilon).rsqrt()
    return x * rstd * gamma, rstd


def npu_layer_norm_eval(
    data: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Return a layer norm."""
    return _torch().nn.functional.layer_norm(data, tuple(normalized_shape), weight, bias, eps)


def npu_group_norm_silu(x: Any, weight: Any, bias: Any, group: int, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """Return silu of a group norm, with mean and 1 / deviation of each group."""
    batch, channels = x.shape[:2]
    normed, mean, rstd = _torch().ops.aten.native_group_norm(
        x, weight, bias, batch, channels, x[0, 0].numel(), group, eps
    )
    return _torch().nn.functional.silu(normed), mean, rstd


def npu_fast_gelu(x: Any) -> Any:
    """Return x * sigmoid(1.702 x)."""
    return x * (1.702 * x).sigmoid()


def npu_mish(x: Any) -> Any:
    """Return x * tanh(softplus(x))."""
    return _torch().nn.functional.mish(x)


def npu_swiglu(x: Any, dim: int = -1) -> Any:
    """Return silu of the first half times the second."""
    one, other = x.chunk(2, dim)
    return _torch().nn.functional.silu(one) * other


def npu_scaled_masked_softmax(x: Any, mask: Any, scale: float = 1.0, fixed_triu_mask: bool = False) -> Any:  # noqa: FBT001, FBT002 (the operator's)
    """Return softmax(x * scale), -10000 in the places of the mask, or above the diagonal."""
    torch = _torch()
    excluded = torch.ones(mask.shape, dtype=torch.bool).triu(1) if fixed_triu_mask else mask.bool()
    return (x * scale).masked_fill(excluded, -10000.0).softmax(-1)


# -- the rest


def npu_linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return x weight^T + bias."""
    return _torch().nn.functional.linear(x, weight, bias)


def npu_confusion_transpose(x: Any, perm: Sequence[int], shape: Sequence[int], transpose_first: bool) -> Any:  # noqa: FBT001
    """Return a tensor transposed and reshaped, in the one order or the other."""
    if transpose_first:
        return x.permute(*perm).reshape(tuple(shape))
    return x.reshape(tuple(shape)).permute(*perm)


def npu_rotary_mul(x: Any, r1: Any, r2: Any, rotary_mode: str = "half") -> Any:
    """Return r1 * x + r2 * (x turned by a quarter): halves of x, or its neighbours, are the two parts of a number."""
    torch = _torch()
    if rotary_mode == "half":
        one, other = x.chunk(2, -1)
        turned = torch.cat((-other, one), dim=-1)
    elif rotary_mode == "interleave":
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    else:
        raise UnusableError(f"`npu_rotary_mul` of mode `{rotary_mode}` has no benchmark", is_expected=True)
    return r1 * x + r2 * turned


def npu_sort_v2(x: Any, dim: int = -1, descending: bool = False, out: Any = None) -> Any:  # noqa: ARG001, FBT001, FBT002
    """Return the sorted values."""
    return x.sort(dim=dim, descending=descending).values


def npu_moe_gating_top_k_softmax(x: Any, finished: Any = None, k: int = 1) -> tuple[Any, Any, Any]:
    """Return the largest shares of each row's softmax, their experts, and the rows that they are of, column by column.

    A row that is finished has the number of all experts in place of each of its own.
    """
    torch = _torch()
    shares = x.softmax(-1)
    experts = (-shares).argsort(dim=-1, stable=True)[..., :k]
    largest = shares.gather(-1, experts)
    if finished is not None:
        experts = torch.where(finished.unsqueeze(-1).bool(), x.shape[-1], experts)
    rows = largest.numel() // k
    return largest, experts, torch.arange(rows * k).reshape(k, rows).t().reshape(largest.shape)


def npu_apply_adam(
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    use_locking: Any,  # noqa: ARG001
    use_nesterov: Any,
    out: Sequence[Any],
) -> tuple[Any, Any, Any]:
    """Return one step of Adam: the variable and both moments."""
    variable, first, second = out
    first = first + (1 - beta1) * (grad - first)
    second = second + (1 - beta2) * (grad.square() - second)
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    step = first * beta1 + (1 - beta1) * grad if use_nesterov else first
    return variable - rate * step / (epsilon + second.sqrt()), first, second


def npu_apply_adam_w(
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    max_grad_norm: Any,
    amsgrad: Any,
    maximize: Any,
    out: Sequence[Any],
) -> tuple[Any, Any, Any]:
    """Return one step of Adam with decoupled decay: the variable and both moments."""
    variable, first, second = out
    gradient = -grad if maximize else grad
    first = first * beta1 + (1 - beta1) * gradient
    second = second * beta2 + (1 - beta2) * gradient.square()
    largest = second
    if amsgrad:
        if max_grad_norm is None:
            raise UnusableError("`npu_apply_adam_w` with `amsgrad` lacks `max_grad_norm`")
        largest = _torch().maximum(max_grad_norm, second)
    remainders = [1 - beta1_power * beta1, 1 - beta2_power * beta2]
    spread = (largest / remainders[1]).sqrt() + epsilon
    return variable * (1 - lr * weight_decay) - lr * first / remainders[0] / spread, first, second


ATTENTIONS = frozenset({"npu_fusion_attention", "flash_attention_score"})

FUSED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            npu_fusion_attention, flash_attention_score, npu_rms_norm, npu_layer_norm_eval, npu_group_norm_silu,
            npu_fast_gelu, npu_mish, npu_swiglu, npu_scaled_masked_softmax, npu_linear, npu_confusion_transpose,
            npu_rotary_mul, npu_sort_v2, npu_moe_gating_top_k_softmax, npu_apply_adam, npu_apply_adam_w,
        )
    } | {"fast_gelu": npu_fast_gelu}
)  # fmt: skip
"""By the name of the operator."""
