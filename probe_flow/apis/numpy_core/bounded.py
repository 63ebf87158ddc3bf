"""Calls that surely take little memory and time, whatever their arguments say: these need no process of their own.

What an operator lays out is bounded by the shapes of its tensors where no plain argument can ask for more, as the sizes
of a padding or the number of copies can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from probe_flow.apis.calls import Call, TensorSpec, argument_leaves, leaves
from probe_flow.apis.numpy_core import elementwise, losses, moves, normalising, products, reductions
from probe_flow.apis.numpy_core.compute import WIDE
from probe_flow.apis.numpy_core.forms.device import BOUNDED_DEVICE_FORMS
from probe_flow.apis.numpy_core.names import DEVICE, Function

COPIES = 12
"""Tensors of the size of the largest one that computing, its gradient and the perturbed inputs may hold at once."""

PARTS = "functions"
"""What the function of a fused operator has beside: those of its parts."""

_MODULES = frozenset(each.__name__ for each in (elementwise, normalising, reductions))
_PRODUCTS = frozenset((products.matmul, products.mm, products.mv, products.linear, products.addmm, products.baddbmm))
_LOSSES = frozenset((
    losses.mse_loss, losses.l1_loss, losses.smooth_l1_loss, losses.bce_with_logits, losses.binary_cross_entropy,
    losses.kl_div, losses.huber_loss, losses.pairwise_distance, losses.triplet_margin_loss,
))  # fmt: skip


def surely_bytes(function: Function, call: Call) -> int | None:
    """Return what computing a call takes at most; None where its shapes do not bound that."""
    tensors = [leaf for _, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)]
    # A vector of whole numbers names axes or places.
    shapes = [each.shape for each in tensors if len(each.shape) > 1 or "int" not in each.dtype]
    results = [leaf.numel for _, leaf in leaves(call.results) if isinstance(leaf, TensorSpec)]
    if not shapes or not results:
        return None
    parts = getattr(function, PARTS, None)
    if parts is not None:
        largest = _of_parts(parts, call.api, shapes)
    elif function in _PRODUCTS or (call.kind == DEVICE and "MatMul" in call.api):
        largest = _of_product(shapes)
    elif function.__module__ in _MODULES or function in _LOSSES or _is_bounded(call):
        largest = _of_all(shapes)
    elif function in (moves.added, moves.joined):
        largest = 0  # its parts are no larger than all that it takes
    else:
        return None
    return None if largest is None else WIDE * COPIES * max(largest, sum(map(math.prod, shapes)), sum(results))


def _of_parts(parts: Sequence[Function], types: str, shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Return how many elements the parts of a fused operator make at most, beyond its inputs and results.

    A product with elementwise parts behind it gives no more than the last of them. ``types`` are theirs, joined.
    """
    begins = "MatMul" in types.partition("+")[0]
    if begins and all(each.__module__ == elementwise.__name__ for each in parts[1:]):
        return 0
    return _of_all(shapes) if all(each.__module__ in _MODULES for each in parts) else None


def _is_bounded(call: Call) -> bool:
    return call.kind == DEVICE and call.api in BOUNDED_DEVICE_FORMS


def _of_all(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Return how many elements there are where all tensors are repeated to one shape; None where they cannot be."""
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return None


def _of_product(shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Return how many elements a product has at most, either factor turned or not."""
    several = [shape for shape in shapes if len(shape) > 1]
    if len(several) < 2:
        return sum(map(math.prod, shapes)) if several else None
    left, right = several[-2:]  # before them what is added
    batch = _of_all([left[:-2], right[:-2]])
    return None if batch is None else batch * max(left[-2:]) * max(right[-2:])
