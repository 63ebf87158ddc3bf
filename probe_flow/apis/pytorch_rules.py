"""What is done with calls of PyTorch before they run: types and values that devices give them, or torch insists on.

Source: `data_generate.py` and `acc_check_utils.py` of msprobe 26.2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from probe_flow.apis.calls import FLOATS, Call, Leaf, Plain, TensorSpec, argument_leaves, with_leaves
from probe_flow.apis.fused import ATTENTIONS, BAND_MODES, COMPRESSED
from probe_flow.apis.values import Values, hf32

_CONVOLUTIONS = frozenset({"conv1d", "conv2d"})
"""Their float32 is HF32 on an NPU, with 11 bits of fraction, so that their inputs are rounded to it and their benchmark
is float32."""

_KEEPING = frozenset({"type_as"})
"""Calls whose result has the type of an argument, so that none is raised."""

_RAISED_BY_OTHERS = ("float16", "bfloat16", "float32")

_OF_CLASSES, _CLASSES = frozenset({"cross_entropy", "nll_loss"}), frozenset({"int32", "int64"})
"""Losses, and the types of their classes: a class to ignore (-100) makes a range in which most are none."""

_MASKS = frozenset({"atten_mask", "attn_mask"})


def as_torch_takes(call: Call) -> Call:
    """Return a call with the element types that torch takes on the processor."""
    taken = {"int32": class_type(call, "int32")} | ({"int64": "float32"} if call.api == "histc" else {})
    return _changed(of_known_classes(call), lambda spec: replace(spec, dtype=taken.get(spec.dtype, spec.dtype)))


def of_known_classes(call: Call) -> Call:
    """Return a call of a loss without classes to ignore; any other as it is."""
    if call.api not in _OF_CLASSES:
        return call

    def change(spec: TensorSpec) -> TensorSpec:
        low, high = (max(end, 0) if isinstance(end, int | float) else end for end in (spec.low, spec.high))
        return replace(spec, low=low, high=high) if spec.dtype in _CLASSES else spec

    return _changed(call, change)


def class_type(call: Call, dtype: str) -> str:
    """Return the element type in which torch takes an argument: classes of a loss in int64 alone."""
    return "int64" if call.api in _OF_CLASSES and dtype in _CLASSES else dtype


def _changed(call: Call, change: Callable[[TensorSpec], TensorSpec]) -> Call:
    def leaf(_place: object, each: Leaf) -> Leaf:
        return change(each) if isinstance(each, TensorSpec) else each

    return replace(call, args=with_leaves(call.args, leaf), kwargs=with_leaves(dict(call.kwargs), leaf))


def rounded_input(call: Call, spec: TensorSpec, values: Values) -> Values:
    """Return the values of an argument as the device rounds them."""
    return hf32(values) if call.api in _CONVOLUTIONS and spec.dtype == "float32" else values


def with_known_mask(call: Call, name: int | str, spec: TensorSpec, values: Values) -> Values:
    """Return the values that were made for an argument, or the ones of a compressed mask, which are always the same.

    Args:
        call: that it is an argument of.
        name: of the argument, or its position.
        spec: what is recorded of it.
        values: of it.
    """
    is_mask = call.api in ATTENTIONS and name in _MASKS and spec.shape == (COMPRESSED, COMPRESSED)
    if is_mask and spec.file is None and _number(call.kwargs.get("sparse_mode")) in BAND_MODES:
        return np.triu(np.ones(spec.shape, bool), 1)
    return values


def float_types(call: Call) -> frozenset[str]:
    """Return the element types of a call's tensors that are raised for the benchmark."""
    found = {leaf.dtype for _, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)}
    return frozenset(found.intersection(_RAISED_BY_OTHERS))


def raised(call: Call, dtype: str, known: str) -> str:
    """Return the element type of the benchmark for one of a call.

    Args:
        call: that is run.
        dtype: recorded.
        known: the one that is usual for it.
    """
    if dtype not in FLOATS:
        return known
    if call.api in _KEEPING or (call.api in _CONVOLUTIONS and dtype == "float32"):
        return dtype
    return "float32" if dtype in _RAISED_BY_OTHERS and len(float_types(call)) > 1 else known


def autocast_type(call: Call) -> str | None:
    """Return the type that a call was cast to automatically when it was recorded; None where nothing tells of it.

    Tensors of several float types do, and results narrower than the one type of all arguments.
    """
    types = float_types(call)
    if len(types) > 1:
        return sorted(types - {"float32"})[0]
    first = next((each for each in call.results if isinstance(each, TensorSpec)), None)
    narrow: Collection[str] = _RAISED_BY_OTHERS[:2]
    is_narrower = types == {"float32"} and first is not None and first.dtype in narrow
    return first.dtype if is_narrower and first is not None else None


def _number(leaf: object) -> object:
    return leaf.value if isinstance(leaf, Plain) else 0
