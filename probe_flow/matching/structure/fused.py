"""One call on one side, several in a row on the other: which tensors meet at the border of the row.

What the row takes from outside corresponds to the inputs of the one call, what leaves it to the outputs. What passes
between the calls of the row has no counterpart, and needs none.
"""

from __future__ import annotations

from collections.abc import Sequence

from probe_flow.matching.shared.slots_by_shape import Twosome, pair_slots
from probe_flow.matching.shared.values import EQUAL, likeness
from probe_flow.records import SlotRole, TensorRef


def pair_fused(
    row: Sequence[Sequence[TensorRef]], single: Sequence[TensorRef]
) -> tuple[list[Twosome], list[TensorRef]]:
    """Pair the border of a row of calls with the tensors of one call.

    Args:
        row: tensors of each call of the row, in order of execution.
        single: tensors of the one call.

    Returns:
        Twosomes (tensor of the row, tensor of the one call), and the tensors that pass within the row.
    """
    border: list[TensorRef] = []
    internal: list[TensorRef] = []
    produced: list[TensorRef] = []
    for refs in row:
        for ref in refs:
            if ref.slot.role is SlotRole.INPUT:
                maker = next((made for made in reversed(produced) if _is_same(made, ref)), None)
                if maker is not None:
                    produced.remove(maker)
                    internal += [maker, ref]
                    continue
                border.append(ref)
        produced += [ref for ref in refs if ref.slot.role is SlotRole.OUTPUT]
    return pair_slots([*border, *produced], single, is_cross_framework=True, knows_slots=False), internal


def _is_same(made: TensorRef, used: TensorRef) -> bool:
    """Say whether an output is what a later call takes."""
    if made.logical_shape is None or made.logical_shape != used.logical_shape or made.dtype != used.dtype:
        return False
    alike = likeness(made, used)
    return alike is None or alike >= EQUAL
