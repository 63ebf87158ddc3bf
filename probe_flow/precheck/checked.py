"""Which API calls of a dump are checked, and why others are not. By kind, as the documentation of `acc_check` lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

from probe_flow.records import Framework, NodeKey
from probe_flow.records.frameworks import MINDTORCH, Kernels

TENSOR_METHODS = frozenset(
    re.findall(
        r"\w+",
        """
        add add_ addmm_ all allclose any bool byte ceil clamp clamp_ clone contiguous copy_ cos cumprod expand_as fill_
        flatten float floor_ half int is_contiguous isnan item log log2 long masked_fill max mean min numel numpy
        repeat repeat_interleave reshape round select sin size split sqrt square sub swapaxes t to tolist topk
        transpose trunc type type_as unsqueeze view view_as zero_
        """,
    )
)
"""Methods of MindSpore's tensors that are checked: the list in the documentation of `acc_check`."""

FUNCTIONALS = frozenset({"flash_attention_score"})
"""Functions of `mindspore.ops` that are checked."""

_LISTED: Mapping[str, frozenset[str] | None] = MappingProxyType(
    {"Mint": None, "MintFunctional": None, "Tensor": TENSOR_METHODS, "Functional": FUNCTIONALS}
)
_TORCH_KINDS = frozenset({"Functional", "Tensor", "Torch", "Aten", "NPU"})
_ADAPTED_KINDS = frozenset({"Functional", "Tensor", "Torch"})
"""Of MSAdapter."""
_NOTHING_COMPUTED = frozenset(
    ["to", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_with_format"]
)
"""What msprobe never runs: moving a tensor, and results that are not initialised."""


def why_not(framework: Framework, kind: str, api: str) -> str | None:
    """Return why calls of an API are not checked; None if they are.

    Args:
        framework: that wrote the dump.
        kind: first part of the call's name, e.g. ``Mint``.
        api: the rest without the number, e.g. ``where``.
    """
    if framework.kernels is Kernels.PYTORCH or framework.name == MINDTORCH.name:
        if kind not in (_ADAPTED_KINDS if framework.name == MINDTORCH.name else _TORCH_KINDS):
            return f"calls of kind `{kind}` are not checked"
        return f"`{api}` computes nothing" if api in _NOTHING_COMPUTED else None
    if kind not in _LISTED:
        return f"calls of kind `{kind}` are not checked"
    listed = _LISTED[kind]
    return None if listed is None or api in listed else f"`{kind}.{api}` is not among the APIs that are checked"


UNSUSPECTED = "the comparison before does not suspect it"
"""Why calls are left out that `only` does not choose."""


class Choice(Struct, frozen=True):
    """Which calls are checked, of those that can be.

    Args:
        only: identities of executions with the names of nodes; other calls are left out. None = none is.
        listed: names of APIs, without kind and number; others are left out. Empty = none is.
        unlisted: names of APIs that are left out.
        once: whether of calls that are alike but for their values only the first is checked.
        overflowing: whether only calls are checked whose recorded results may not all be finite.
    """

    only: Collection[tuple[object, str]] | None = None
    listed: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()
    once: bool = False
    overflowing: bool = False

    def why_not(self, key: NodeKey, api: str) -> str | None:
        """Return why a call is left out; None if it is not."""
        if self.only is not None and (key.execution.identity, key.name) not in self.only:
            return UNSUSPECTED
        if api in self.unlisted:
            return f"`{api}` is on the black list"
        return f"`{api}` is not on the white list" if self.listed and api not in self.listed else None


EVERY_CALL = Choice()
