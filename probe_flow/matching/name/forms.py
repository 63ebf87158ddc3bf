"""Which MindSpore primitives do the work of one PyTorch API, tensor by tensor.

Cells of MindSpore call primitives where modules of PyTorch call functions: a `Dense` runs MatMul and BiasAdd, a
`Linear` runs `linear`. The tables of LINEAR, LAYER_NORM and of ReLU were checked by value on dumps of both frameworks
(MindSpore 2.10, torch 2.13); gradients come in the order of the last autograd node, hence the numbers. The gradient of
a matmul's weight is absent: the frameworks record it transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Slots = Mapping[str, str]
"""Slot of the primitive -> slot of the API, as text: ``input.1`` -> ``input.2``."""

_SAME: Slots = {"input.0": "input.0", "output.0": "output.0"}


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive: its class, and which of its tensors the API has too."""

    primitive: str
    forward: Slots = field(default_factory=dict, hash=False)
    backward: Slots = field(default_factory=dict, hash=False)


LINEAR = (
    Step("MatMul", {"input.0": "input.0", "input.1": "input.1"}, {"output.1": "output.1"}),
    Step("BiasAdd", {"input.1": "input.2", "output.0": "output.0"}, {"input.0": "input.0", "output.0": "output.0"}),
)
PRODUCT = (
    Step("MatMul", {"input.0": "input.0", "input.1": "input.1", "output.0": "output.0"}, {"input.0": "input.0"}),
)
LAYER_NORM = (
    Step(
        "LayerNorm",
        {"input.0": "input.0", "input.1": "input.2", "input.2": "input.3", "output.0": "output.0"},
        {"input.0": "input.0", "output.0": "output.2", "output.1": "output.1", "output.2": "output.0"},
    ),
)
_ELEMENTWISE = {
    "relu": "ReLU",
    "gelu": "GeLU",
    "silu": "SiLU",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
}

FORMS: Mapping[str, tuple[tuple[Step, ...], ...]] = {
    "linear": (LINEAR, PRODUCT),
    "matmul": (PRODUCT,),
    "mm": (PRODUCT,),
    "layer_norm": (LAYER_NORM,),
    **{api: ((Step(primitive, _SAME, _SAME),),) for api, primitive in _ELEMENTWISE.items()},
}
"""API (last segment of the name) -> the ways in which primitives make it up, the longest first."""
