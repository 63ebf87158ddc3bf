"""APIs of dump.json dumps whose recorded values say nothing of whether a program is right."""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.records import Phase, SlotRole, TensorRef

UNDEFINED = frozenset(
    (
        "empty",
        "empty_like",
        "numpy",
        "to",
        "__setitem__",
        "empty_with_format",
        "new_empty_strided",
        "new_empty",
        "empty_strided",
    )
)
"""Second part of an entry's name: results are undefined memory or mere copies."""

WITH_BUFFERS = frozenset(("_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv"))
"""Collectives whose inputs hold buffers yet to be filled."""

UNDEFINED_OUTPUTS: Mapping[tuple[str, str], frozenset[int]] = {
    ("NPU", "npu_fusion_attention"): frozenset((4, 5)),
    ("Primitive", "BatchNorm"): frozenset((1, 2)),
}
"""First and last part of an entry's name -> outputs that hold undefined memory. MindSpore's kernel for CPUs writes mean
and variance of the batch into outputs 3 and 4 alone, and nothing reads 1 and 2."""


def undefined_outputs(name: str) -> frozenset[int]:
    """Return the outputs of a call that hold undefined memory; a kernel is named by its scope and its primitive."""
    if "." not in name:
        return UNDEFINED_OUTPUTS.get(("Primitive", name.rpartition("_")[2]), frozenset())
    first, _, rest = name.partition(".")
    return UNDEFINED_OUTPUTS.get((first, rest.rpartition(".")[2]), frozenset())


def is_undefined(tensor: TensorRef) -> bool:
    """Return True for an output that holds undefined memory, of a forward call: a backward one gives gradients."""
    undefined = undefined_outputs(tensor.node.name)
    is_result = tensor.slot.role is SlotRole.OUTPUT and tensor.node.phase is not Phase.BACKWARD
    return bool(undefined) and is_result and tensor.slot.path[0] in undefined
