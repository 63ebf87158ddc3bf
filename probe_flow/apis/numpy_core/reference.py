"""The page of the operators that are computed again, made from the tables of names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from probe_flow.apis.numpy_core.forms.device import DEVICE_TYPES
from probe_flow.apis.numpy_core.forms.onnx import ONNX_FORMS
from probe_flow.apis.numpy_core.gradients.rules import has_gradient
from probe_flow.apis.numpy_core.names import (
    DEVICE,
    OF_MINDSPORE,
    ONNX,
    OPERATORS,
    PRIMITIVES,
    TORCH,
    Function,
    attributes_of,
    mindspore_names,
)

_CHAPTERS = {
    "products": "Products", "convolution": "Convolution and pooling", "elementwise": "Elementwise",
    "normalising": "Norms and softmax", "reductions": "Sums, means, extremes, picks",
    "moves": "Moves, look-ups, casts", "losses": "Losses",
}  # fmt: skip

_HEAD = """# Operators that are computed again

`compare` computes suspects again in float64, by numpy alone, from the target's own inputs
([how that is used](../explanation/evidence.md#results-computed-again)). These are the operators that it
knows; other functions of PyTorch, `mint` and MindSpore are computed by the framework itself, on the processor, where it
is installed. This page is made from the program; do not edit it.

What is not computed keeps its judgement: random operators, calls whose arguments the dump does not hold, calls in place
of which it holds only what their input became, and operators with attributes that no graph of the run gives.
"""

_DEVICES = """## Operators of devices (GE graphs, offline models)

With the attributes that the text of their graph gives (`dynamo_original_graph_*.txt` of TorchAir, the rule file of an
offline model: JSON, text or `.om`); where it gives none, the default of the operator's prototype counts. Tensors in
private layouts are read in their logical order, and turned into that of the user's model where its images have their
channels last. Such an operator is called wrong only where the same computation makes
the golden's result of the golden's tensors, so one that does more than its type says is accused of nothing. One that
is fused is computed as its parts, where the text of the graph has them. In brackets the attributes that count.
"""

_ONNX = """## Operators of ONNX

Of dumps that `dump.onnx` made: attributes and weights are read from the model file that the manifest names, as long as
it is the one that was run, without the library. In brackets the attributes that count.
"""

_NO_ATTRIBUTES = frozenset(["opset", "result_dtype"])
_NOT_OF_ONNX = frozenset({
    "AddV2", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "NotEqual", "ReLU", "RealDiv", "Rsqrt",
    "Select", "SelectV2", "SiLU", "Square",
})  # fmt: skip
"""Primitives that have other names in ONNX, or are none."""


def operators_page() -> str:
    """Return docs/reference/operators.md."""
    names = defaultdict(list)
    for name, function in TORCH.items():
        names[_chapter(function)].append(name)
    rows = [_row(title, names[word]) for word, title in _CHAPTERS.items()]
    sections = [
        _HEAD,
        "## PyTorch, and `mint` of MindSpore\n",
        "Functions of `torch` and `torch.nn.functional`, methods of tensors.\n",
        "\n".join(["| kind | names |", "|---|---|", *rows]),
        f"\nTheir gradients are computed for {_listed(name for name, each in TORCH.items() if has_gradient(each))}.",
        f"\nOperators of Python on tensors: {_listed(f'__{name}__' for name in OPERATORS)}.\n",
        f"## `mindspore.ops`\n\n{_listed(mindspore_names())}.\n",
        _DEVICES,
        f"{', '.join(_with_attributes(DEVICE, name) for name in sorted({*DEVICE_TYPES, *PRIMITIVES}))}.\n",
        _ONNX,
        f"{', '.join(_with_attributes(ONNX, name) for name in sorted({*ONNX_FORMS, *PRIMITIVES} - _NOT_OF_ONNX))}.\n",
        "## By type alone\n",
        "Primitives of MindSpore whose inputs are all there is to know:",
        f"{_listed([*PRIMITIVES, *OF_MINDSPORE])}.\n",
    ]
    return "\n".join(sections)


def _with_attributes(kind: str, name: str) -> str:
    attributes = sorted(attributes_of(kind, name).all - _NO_ATTRIBUTES)
    return f"`{name}` ({', '.join(attributes)})" if attributes else f"`{name}`"


def _chapter(function: Function) -> str:
    return function.__module__.rpartition(".")[2]


def _row(title: str, names: Iterable[str]) -> str:
    return f"| {title} | {_listed(names)} |"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))
