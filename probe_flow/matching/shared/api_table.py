"""The built-in table of MindSpore APIs and the PyTorch APIs that they are.

It holds the pairs that the peer's table has, without its identities (names of `Tensor` that are equal on both sides),
and lets `Mint*` stand for what it copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FUNCTIONAL_TO_TORCH = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv angle arange arccos arccosh arcsinh arctan
    arctanh argmax asin asinh atan atan2 atanh baddbmm bartlett_window bincount bitwise_and bitwise_or
    bitwise_xor blackman_window ceil cholesky_solve clamp clip column_stack conj cosh cross cumprod diag_embed
    diagflat diagonal digamma dist div divide einsum erf erfc exp exp2 expm1 eye flip fliplr flipud floor_divide
    fmax fmod full full_like gcd geqrf greater greater_equal hamming_window hann_window heaviside histc hsplit
    hstack hypot i0 igamma igammac imag inner inverse is_nonzero is_tensor isinf isneginf isposinf isreal
    kaiser_window kron lcm lerp log1p logaddexp logaddexp2 logdet logical_and logical_not logical_or logical_xor
    logit logspace lt lu_solve lu_unpack masked_select matmul mm moveaxis movedim msort mul multiply nan_to_num
    nansum neg negative nextafter nonzero not_equal numel ones_like orgqr outer permute polar pow rand rand_like
    randn randn_like ravel real reciprocal remainder reshape roll rot90 round row_stack rsqrt searchsorted sgn
    sign signbit sin sinc sinh slogdet square subtract sum swapdims t tan topk trace trapz tril tril_indices
    triu_indices true_divide trunc unbind unsqueeze vander view_as_real vsplit where xlogy zeros_like
"""

_FUNCTIONAL_TO_FUNCTIONAL = """
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d affine_grid conv1d conv2d conv3d
    cosine_embedding_loss cosine_similarity cross_entropy ctc_loss gumbel_softmax hardsigmoid hardtanh
    hinge_embedding_loss l1_loss margin_ranking_loss max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss
    multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss pdist pixel_shuffle
    pixel_unshuffle relu sigmoid smooth_l1_loss soft_margin_loss tanh tanhshrink unfold
"""

_RENAMED = {
    "Functional.equal": "Torch.eq",
    "Functional.swapaxes": "Torch.transpose",
    "Functional.bidense": "Functional.bilinear",
    "Functional.dense": "Functional.linear",
    "Tensor.asnumpy": "Tensor.numpy",
    "Tensor.cauchy": "Tensor.cauchy_",
    "Tensor.equal": "Tensor.eq",
    "Tensor.fill_diagonal": "Tensor.fill_diagonal_",
    "Tensor.gather_elements": "Tensor.gather",
    "Tensor.swapaxes": "Tensor.transpose",
}

PYTORCH_OF: Mapping[str, str] = MappingProxyType(
    {
        **{f"Functional.{name}": f"Torch.{name}" for name in _FUNCTIONAL_TO_TORCH.split()},
        **{f"Functional.{name}": f"Functional.{name}" for name in _FUNCTIONAL_TO_FUNCTIONAL.split()},
        **_RENAMED,
    }
)
"""MindSpore API -> PyTorch API, names without call number."""

TYPES: Mapping[str, str] = MappingProxyType(
    {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}
)
"""Type prefix of MindSpore whose APIs are named as those of PyTorch -> the prefix of PyTorch."""


def pytorch_name(name: str) -> str | None:
    """Return the PyTorch API that a MindSpore API is, None where the table does not know it.

    >>> pytorch_name("Mint.add"), pytorch_name("Functional.dense"), pytorch_name("Primitive.matmul.MatMul")
    ('Torch.add', 'Functional.linear', None)
    """
    kind, _, api = name.partition(".")
    return f"{TYPES[kind]}.{api}" if kind in TYPES else PYTORCH_OF.get(name)
