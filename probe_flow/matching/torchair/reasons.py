"""Word the reasons of one-sided pairs of the TorchAir matcher, and notes on the others before anything is read.

Where something is missing, the nearest names are in its reason. A pair is noted when a side is unusable, or has another
size or order of axes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Reason, ReasonKind, Rule, SlotRole, TensorKind, TensorRef

MAX_HINTS = 50
"""Nearest names are searched for this many missing names of a run; more would only repeat the story."""
_MAX_CANDIDATES = 64
_NUMBER = re.compile(r"[_\d]+$")


class TorchairRule:
    FUSED = Rule("fused")
    EDGE = Rule("edge")


class TorchairReason:
    ALIGNED = ReasonKind("aligned")
    ARGUMENT = ReasonKind("argument")
    BROADCAST = ReasonKind("broadcast")
    CONSTANT = ReasonKind("constant")
    COUNT_MISMATCH = ReasonKind("count_mismatch")
    DEVICE_NO_DUMP = ReasonKind("device_no_dump")
    NO_FX_NAME = ReasonKind("no_fx_name")
    NO_GOLDEN_OP = ReasonKind("no_golden_op")
    NO_GRAPH = ReasonKind("no_graph")
    NO_GRAPH_OP = ReasonKind("no_graph_op")
    NO_TARGET_OP = ReasonKind("no_target_op")
    THROUGH = ReasonKind("through")


class NearestNames:
    """Finds the names most like a missing one, among those that differ in their number or share their beginning.

    Args:
        names: gives the known names, called at most once.
        budget: hints left, shared by all searches of one run as a single-item list.
    """

    def __init__(self, names: Callable[[], Iterable[str]], budget: list[int]) -> None:
        self._names = names
        self._budget = budget
        self._buckets: dict[str, list[str]] | None = None

    def hint(self, name: str) -> str:
        """Return ``; nearest: `x`, `y``` or nothing."""
        if self._budget[0] <= 0:
            return ""
        self._budget[0] -= 1
        if self._buckets is None:
            self._buckets = defaultdict(list)
            for known in self._names():
                for bucket in {_NUMBER.sub("", known), known[:3]}:
                    self._buckets[bucket].append(known)
        base = self._buckets.get(_NUMBER.sub("", name)) or self._buckets.get(name[:3]) or []
        import difflib

        near = difflib.get_close_matches(name, base[:_MAX_CANDIDATES], n=3, cutoff=0.6)
        return "; nearest: " + ", ".join(f"`{known}`" for known in near) if near else ""


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
