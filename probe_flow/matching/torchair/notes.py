"""Judge a device tensor and its FX partner before anything is read: usable, same size, same axis order."""

from __future__ import annotations

from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.matching.torchair.reasons import TorchairReason
from probe_flow.records import Reason, SlotRole, TensorKind, TensorRef


def transform_of(target: TensorRef, golden: TensorRef) -> tuple[str, ...]:
    """Return the axis change that a pair needs: a 4-D device tensor in a convolution layout against channels last."""
    mine, theirs = target.logical_shape, golden.shape
    if target.layout == "ND" or mine is None or theirs is None or len(mine) != 4 or len(theirs) != 4 or mine == theirs:
        return ()
    n, c, h, w = mine
    if theirs == (n, h, w, c):
        return ("golden:nhwc_to_nchw",)
    n, c, h, w = theirs
    return ("target:nhwc_to_nchw",) if mine == (n, h, w, c) else ()


def shape_note(target: TensorRef, golden: TensorRef, *, is_argument: bool) -> Reason | None:
    """Return what a pair of different element counts deserves to have said.

    Args:
        target: the device tensor.
        golden: its partner.
        is_argument: whether it is a constant or graph input, which one side may keep as the single value that the
            other has spread. What an operator computed has the same count on both sides.
    """
    if target.numel is None or golden.numel is None or target.numel == golden.numel:
        return None
    shapes = f"{list(target.logical_shape or ())} against {list(golden.logical_shape or ())}"
    if is_argument and 1 in (target.numel, golden.numel):
        return TorchairReason.BROADCAST.expected(f"one side is a single element: {shapes}")
    return TorchairReason.COUNT_MISMATCH.missing(f"element counts differ: {shapes}")


def unusable(ref: TensorRef) -> Reason | None:
    """Return why a target tensor cannot be compared with anything."""
    if ref.has_numbers:
        return None
    if ref.kind is TensorKind.UNREADABLE:
        return CommonReason.UNREADABLE.missing(ref.reason or "the tensor cannot be read")
    if ref.kind is TensorKind.OPAQUE:
        return CommonReason.DTYPE_UNSUPPORTED.missing(ref.reason or f"`{ref.stored_dtype}` has no numeric meaning here")
    return CommonReason.NOT_TENSOR.expected(ref.reason or "the slot holds no tensor")


def unusable_golden(golden: TensorRef, key: str) -> Reason:
    """Return why a target tensor cannot be compared with the golden tensor of its name.

    The device computed numbers there, so an output that the golden dump holds as something else is a gap.
    """
    if golden.kind is TensorKind.UNREADABLE:
        return CommonReason.UNREADABLE.missing(f"{golden.slot} of `{key}` cannot be read: {golden.reason}")
    is_output = golden.slot.role is SlotRole.OUTPUT
    return CommonReason.NOT_TENSOR.of(f"{golden.slot} of `{key}` is no tensor: {golden.reason}", is_gap=is_output)
