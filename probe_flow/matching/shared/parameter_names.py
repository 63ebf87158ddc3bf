"""Parameters and arguments that MindSpore and PyTorch call by different names, or give in another order."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PARAMETER_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
        "embedding_table": "weight",
        "w": "weight",
    }
)
"""Other name -> the name that both sides understand; it counts only where the other side lacks the own name."""

_RUNNING_FIRST = ("input", "running_mean", "running_var", "weight", "bias")
_RUNNING_LAST = ("input", "weight", "bias", "running_mean", "running_var")
_SHAPE_FIRST = ("input", None, "weight", "bias")
_ARGUMENTS: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "Functional.batch_norm": _RUNNING_FIRST,
        "Functional.instance_norm": _RUNNING_FIRST,
        "MintFunctional.batch_norm": _RUNNING_FIRST,
        "Torch.batch_norm": _RUNNING_LAST,
        "Torch.instance_norm": _RUNNING_LAST,
        "Aten.native_batch_norm": _RUNNING_LAST,
        "Primitive.BatchNorm": _RUNNING_LAST,
        "Primitive.InstanceNorm": _RUNNING_LAST,
        "Functional.group_norm": _SHAPE_FIRST,
        "Functional.layer_norm": _SHAPE_FIRST,
        "MintFunctional.group_norm": _SHAPE_FIRST,
        "MintFunctional.layer_norm": _SHAPE_FIRST,
        "Torch.group_norm": _SHAPE_FIRST,
        "Torch.layer_norm": _SHAPE_FIRST,
        "Primitive.LayerNorm": ("input", "weight", "bias"),
    }
)
"""APIs that take several tensors of one shape -> their positional arguments, by the names of PyTorch's modules.

Source: the signatures in the documents of torch 2.13 and MindSpore 2.10. Where shapes tell arguments apart, no names
are needed.
"""


def argument_name(api: str, place: int | str) -> str | None:
    """Return what an argument of an API is called in both frameworks; None where only its place and shape are known.

    Args:
        api: name of the API without call number.
        place: position, or keyword.

    >>> argument_name("Primitive.layer_norm.LayerNorm", 2), argument_name("Functional.layer_norm", 3)
    ('bias', 'bias')
    """
    if isinstance(place, str):
        return PARAMETER_ALIASES.get(place, place)
    kind, _, own = api.partition(".")
    names = _ARGUMENTS.get(f"{kind}.{own.rpartition('.')[2]}", ())
    return names[place] if place < len(names) else None
