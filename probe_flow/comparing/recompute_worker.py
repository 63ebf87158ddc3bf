"""Compute one call again, in a worker process: what a dump holds may ask for more memory or time than there is."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from probe_flow.apis.calls import Call, Gradients, TensorSpec, UnusableError, with_leaves
from probe_flow.apis.calls import Path as Place
from probe_flow.apis.numpy_core.names import DEVICE, ONNX
from probe_flow.elements.blocks import array_of
from probe_flow.errors import Diagnostic, FormatError, NotComparableError
from probe_flow.files.machine import at_most
from probe_flow.records import TensorKind, TensorRef
from probe_flow.records.row import Recomputed

if TYPE_CHECKING:
    from probe_flow.apis.numpy_core.fused import Fused
    from probe_flow.apis.own_error import OwnError


Function: TypeAlias = "Callable[..., Any]"
End: TypeAlias = "Callable[[Function], Function]"


class SideCall(Struct, frozen=True):
    """A call of one side, with its tensors.

    Args:
        call: as the dump records it; its kind is empty for an operator that is known by its type alone.
        is_mindspore: whether it is of MindSpore.
        inputs, results: its tensors, by their places; with gradients, results are those of the arguments.
        gradients: what the dump records of its backward pass, where that is asked about.
        incoming: the gradients that reach it, by their places.
        stored: the results of the forward call that they are the gradients of.
        is_mixed: whether some of the inputs are those of the other side, for this one does not show them.
        has_hidden: whether some of its inputs, weights mostly, were compared with nothing and are what nothing gave.
        is_fused: whether it is an operator of a device that does more than its type says.
        parts: what its graph has for a fused operator; its type then says nothing.
        before: variables that it writes, as others that read them before show them, by their places.
    """

    call: Call
    is_mindspore: bool
    inputs: Mapping[Place, TensorRef]
    results: Mapping[Place, TensorRef]
    gradients: Gradients | None = None
    incoming: Mapping[Place, TensorRef] = {}
    stored: Mapping[Place, TensorRef] = {}
    is_mixed: bool = False
    has_hidden: bool = False
    is_fused: bool = False
    parts: Fused | None = None
    before: Mapping[Place, TensorRef] = {}

    @property
    def elements(self) -> int:
        """How many elements it reads and gives."""
        return sum(each.numel or 0 for part in (self.inputs, self.results) for each in part.values())


class Job(Struct, frozen=True):
    """A call of the target to compute again, and the same of the golden, which is asked where the target's is wrong.

    Args:
        target, golden: the calls.
        is_suspect: ask the golden's in any case: one of both must have made the difference.
        units: element type -> relative error that storing in it explains.
        limit_bytes: of memory.
        has_slices: whether all its channels and rows are made alike, as those of a product: then each has to be right.
            A row of a softmax, or what a norm makes of a channel, may be off by more than the others.
    """

    target: SideCall
    golden: SideCall | None
    is_suspect: bool
    units: Mapping[str, float]
    limit_bytes: int
    has_slices: bool = False


class Outcome(Struct, frozen=True):
    """What came of a job: of each result the fields of `Row.recomputed`, or why nothing was computed.

    ``cpu_s`` is what computing took, ``import_s`` what importing a framework took before it. ``states`` are those of
    an optimizer before its step, held against the golden's.
    """

    results: Mapping[Place, Mapping[str, Any]] = {}
    states: Mapping[Place, Mapping[str, Any]] = {}
    reason: str = ""
    cpu_s: float = 0.0
    import_s: float = 0.0


def is_of_framework(side: SideCall) -> bool:
    """Return whether a framework that is installed may compute what the numpy core lacks of a call."""
    if side.call.kind in ("", DEVICE, ONNX):
        return False  # operators of graphs
    from probe_flow.comparing.recompute_framework import framework_of

    try:
        framework_of(side.call, is_mindspore=side.is_mindspore)
    except UnusableError:
        return False
    return True


def can_be_computed(side: SideCall) -> None:
    """Return where a call can be computed, as far as that shows without a framework.

    Raises:
        UnusableError: nothing computes it.
    """
    try:
        function_of(side)
    except UnusableError as error:
        if not error.is_expected or not is_of_framework(side):
            raise


def function_of(side: SideCall) -> Any:
    """Return what the numpy core computes a call with.

    Raises:
        UnusableError: nothing.
    """
    from probe_flow.apis.numpy_core.names import find

    if side.parts is not None:
        return side.parts
    call = side.call
    found = find(call.kind, call.api, is_mindspore=side.is_mindspore)
    if side.gradients is not None:
        from probe_flow.apis.numpy_core.gradients.rules import rule_of

        rule_of(found)
    return found


def recompute_call(job: Job) -> Outcome:
    """Compute a call again in a process of its own, and say what that cost."""
    import_s = _imported(job)
    return structs.replace(_timed(job, is_here=False), import_s=import_s)


def recompute_here(job: Job) -> Outcome:
    """Compute a call again in this process, for it is one that surely takes little (`surely_bytes`)."""
    return _timed(job, is_here=True)


def _imported(job: Job) -> float:
    """Import the framework that a job needs, and return what that took."""
    began = time.thread_time()
    for side in (job.target, job.golden):
        if side is not None:
            with suppress(UnusableError):
                _function(side, is_here=False)
    return time.thread_time() - began


def _function(side: SideCall, *, is_here: bool) -> Any:
    """Return what computes a call: the numpy core or, in a process of its own, the framework."""
    try:
        return function_of(side)
    except UnusableError as error:
        if is_here or not error.is_expected:
            raise
        from probe_flow.comparing.recompute_framework import framework_function

        return framework_function(side.call, is_mindspore=side.is_mindspore)


def _timed(job: Job, *, is_here: bool) -> Outcome:
    began = time.thread_time()
    return structs.replace(_outcome(job, is_here=is_here), cpu_s=time.thread_time() - began)


def _outcome(job: Job, *, is_here: bool) -> Outcome:
    """Compute a call; one that is fused also with what may come last, until the golden's inputs make its result."""
    first = _outcome_with(None, job, is_here=is_here)
    if not job.target.is_fused or _is_understood(first):
        return first
    from probe_flow.apis.numpy_core.elementwise import fused_ends

    try:
        ends = fused_ends(_function(job.target, is_here=is_here), len(job.target.call.args))
    except UnusableError:
        return first
    tried = (_outcome_with(end, job, is_here=is_here) for end in ends)
    return next((each for each in tried if _is_understood(each)), first)


def _is_understood(outcome: Outcome) -> bool:
    """Whether a call computes what it seems to, as far as the golden was asked."""
    scores = [each["golden"] for each in outcome.results.values()]
    return bool(scores) and all(score is None or score <= 1.0 for score in scores)


def _outcome_with(end: End | None, job: Job, *, is_here: bool) -> Outcome:
    try:
        found, by = _own_errors(job.target, job, end, is_here=is_here)
    except UnusableError as error:
        return Outcome(reason=error.reason)
    golden: dict[Place, float] = {}
    hides = job.target.has_hidden
    has_slices = job.has_slices
    is_asked = job.is_suspect or hides or any(_worst(each, has_slices)[3] > 1.0 or each.nonfinite for each in found)
    if job.golden is not None and is_asked:
        try:
            of_golden = _own_errors(_as_stored(job.golden), job, end, is_here=is_here)[0]
            # A weight that is off by a rounding of the target's shifts a whole channel: only all of them average out.
            is_shifted = job.golden.is_mixed
            if end is not None and any(each.relative > MADE for each in of_golden):
                return Outcome(reason=NOT_MADE)
            golden = {each.place: _worst(each, has_slices and not is_shifted)[3] for each in of_golden}
            if is_shifted and any(score > 1.0 for score in golden.values()):
                golden = {} if hides else _scores_of_mixed(found, of_golden, has_slices=has_slices)
        except UnusableError:  # then nothing says that the call is understood
            golden = {}
    if hides and not golden:
        return Outcome(reason=HIDDEN)
    told = {each.place: (each, _worst(each, has_slices), golden.get(each.place)) for each in found}
    function = _function(job.target, is_here=is_here)
    states = _states(job, function) if getattr(function, "written", 0) > 1 else {}
    return Outcome({place: _recomputed(*each, by) for place, each in told.items()}, states=states)


MADE = 0.25
"""Error of the golden's result, relative to it, from which what may come last in a fused operator does not make it.
What divides by a product that comes near zero is so far off by a rounding that it explains whatever is there."""

NOT_MADE = "what may come last in it does not make the golden's result"

WHOLE_SHARE = 0.5
"""Results in float32 of which more elements than this are whole numbers are those of any type."""


def _as_stored(side: SideCall) -> SideCall:
    """Return a call of the golden with the types in which its tensors were made: dumps hold bfloat16 as float32."""

    def spec(leaf: object, ref: TensorRef | None) -> object:
        if ref is None or not isinstance(leaf, TensorSpec) or leaf.dtype != "float32":
            return leaf
        return dataclasses.replace(leaf, dtype="bfloat16") if _is_bfloat16(_elements(ref)) else leaf

    results = with_leaves(side.call.results, lambda place, leaf: spec(leaf, side.results.get(place)))
    if results == side.call.results or side.gradients is not None:
        return side
    args = with_leaves(side.call.args, lambda place, leaf: spec(leaf, side.inputs.get(place)))
    return structs.replace(side, call=dataclasses.replace(side.call, args=args, results=results))


def _elements(ref: TensorRef) -> NDArray[Any]:
    """Return the elements of a tensor; one side may have been reduced to statistics."""
    if ref.kind is not TensorKind.TENSOR:
        raise UnusableError("the dump has no elements of a tensor of it")
    return array_of(ref)


def _is_bfloat16(values: NDArray[Any]) -> bool:
    """Return whether elements of float32 are numbers of bfloat16, and not because most of them are whole."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    if not bits.size or np.any(bits & 0xFFFF):
        return False
    return bool(np.count_nonzero(values == np.trunc(values)) <= WHOLE_SHARE * values.size)


MIXED = 2.0
"""How many times as far from what its own inputs make a target's result has to be as the golden's is from what a tensor
of the target makes in the golden's place. That tensor is off itself, so the golden's result is not what it makes. But
what is not understood of a call leaves both as far off. With weights it need not: int8 ones are for int8 inputs."""


def _scores_of_mixed(
    found: Sequence[OwnError], of_golden: Sequence[OwnError], *, has_slices: bool
) -> dict[Place, float]:
    """Return the golden's errors as shares of what the target's leave them; none where one is too large for its."""
    others = {each.place: each.sizes for each in of_golden}
    scores = {}
    for own in found:
        figure = _worst(own, has_slices)[0]
        size = own.sizes[figure]
        if own.place in others and size > 0.0:
            scores[own.place] = MIXED * others[own.place][figure] / size
    return scores if all(score <= 1.0 for score in scores.values()) else {}


HIDDEN = "its weights were compared with nothing, and with them the golden's inputs do not make the golden's result"
"""The weights are wrong, or the operator computes something else than it seems to: which of both is open."""


def lost(job: Job, reason: Diagnostic) -> Outcome:  # noqa: ARG001
    """Return what became of a job that hangs, or ended its worker each time."""
    return Outcome(reason=f"its worker {reason.message.rpartition(': ')[2]}")


def _worst(own: OwnError, has_slices: bool) -> tuple[str, float, float, float]:  # noqa: FBT001
    return own.worst if has_slices else own.worst_of_all


def _recomputed(
    own: OwnError, worst: tuple[str, float, float, float], golden: float | None, by: str
) -> Mapping[str, Any]:
    names = "figure", "found", "explained", "score"
    return {
        **dict(zip(names, worst, strict=True)),
        "nonfinite": own.nonfinite,
        "golden": golden,
        "by": Recomputed.HF32 if own.is_in_hf32 else by,
    }


def _read(side: SideCall, tensors: Mapping[Place, TensorRef], place: Place, spec: TensorSpec) -> NDArray[Any]:
    ref = tensors.get(place)
    if ref is None:
        raise UnusableError("the dump lacks a tensor of it")
    values = _elements(ref)
    if side.call.kind == DEVICE and values.size == spec.numel:  # matched whatever axes of length 1 there are
        return values.reshape(spec.shape)
    if values.shape != spec.shape:
        raise UnusableError(f"a tensor has shape {list(values.shape)}, the dump says {list(spec.shape)}")
    return values


def _shown(function: Any, side: SideCall) -> Any:
    """Return the step of an optimizer as a dump shows it."""
    return function.as_shown(
        side.call,
        lambda place, spec: _read(side, side.inputs, place, spec),
        lambda place, spec: _read(side, side.results, place, spec),
        (lambda spec: _read(side, side.before, (0,), spec)) if side.before else None,
    )


def _states(job: Job, function: Any) -> Mapping[Place, Mapping[str, Any]]:
    """Return how far the states of an optimizer were from the golden's before its step; none where nothing tells."""
    if job.golden is None or any((number,) not in job.golden.inputs for number in range(1, function.written)):
        return {}
    try:
        found = _shown(function, job.target).state_errors(_shown(function, job.golden), job.units)
    except UnusableError:
        return {}
    told = {}
    for each in found:
        # Of a state that is zero on the golden nothing is relative: then it is of its own size.
        size = each.relative if each.size else 1.0
        worst = Recomputed.BEGAN, size, each.explained_relative, each.worst_of_all[3]
        told[each.place] = _recomputed(each, worst, 0.0, "")
    return told


def _own_errors(side: SideCall, job: Job, end: End | None, *, is_here: bool) -> tuple[list[OwnError], str]:
    """Return the own errors of the results of a call, and the framework that computed it; empty for the numpy core.

    ``end`` makes of the function of a call what a fused one does.
    """
    from probe_flow.apis.numpy_core.compute import own_errors

    def argument(place: Place, spec: TensorSpec) -> NDArray[Any]:
        return _read(side, side.inputs, place, spec)

    def gradient(end: str, place: Place, spec: TensorSpec) -> NDArray[Any]:
        return _read(side, {"input": side.incoming, "output": side.results, "result": side.stored}[end], place, spec)

    try:
        function, most = _function(side, is_here=is_here), job.limit_bytes
        given: Callable[[Place, TensorSpec], NDArray[Any]] = argument
        if hasattr(function, "written"):
            function, given = _shown(function, side).step()
        if end is not None:
            function = end(function)
        with nullcontext() if is_here else at_most(most):
            if side.gradients is not None:
                from probe_flow.apis.numpy_core.gradients.errors import own_gradient_errors

                found = own_gradient_errors(
                    function, side.call, side.gradients, given, gradient, job.units, limit_bytes=most
                )
            else:
                result = partial(_read, side, side.results)
                found = own_errors(function, side.call, given, result, job.units, limit_bytes=most)
        return found, getattr(function, "shown", "")
    except MemoryError:
        raise UnusableError(f"computing it takes more than {job.limit_bytes / 2**20:,.0f} MiB") from None
    except (FormatError, NotComparableError) as error:  # it was readable a moment ago: the dump is changing
        raise UnusableError(error.diagnostic.message) from error
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise UnusableError(f"{type(error).__name__}: {error}") from error
