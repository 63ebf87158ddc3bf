"""Compute a call again in float64 from the inputs that it had, and say how far its dumped results are from that.

What remains is the error of the operator itself, whatever came in. What rounding explains of it is measured too: the
call is computed once more with inputs that are off by one rounding of their element type, in a random direction each
(Higham, Accuracy and Stability of Numerical Algorithms, chapter 1: what a stable algorithm gives is right for inputs
that are off by little).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import (
    Call,
    DeviceArgument,
    DtypeName,
    Path,
    Plain,
    TensorSpec,
    UnusableError,
    argument_leaves,
    leaves,
    shown_path,
    with_leaves,
)
from probe_flow.apis.numpy_core import convolution, elementwise, moves, products, reductions
from probe_flow.apis.numpy_core.binding import bound
from probe_flow.apis.numpy_core.names import Function, is_rounded_once
from probe_flow.apis.own_error import OwnError, computed_in, moved_by, own_error, with_hf32, with_moved
from probe_flow.apis.side import flat_results

Array = NDArray[Any]

WIDE = 8
"""Bytes of an element while it is computed with."""

COPIES = 6
"""Tensors of the size of a result, and half as many of that of an input, that computing may hold at once."""

_PICKED = frozenset({
    "arg_max", "arg_max_d", "arg_max_v2", "arg_max_with_value", "arg_min", "arg_min_d", "argmax", "argmin", "argsort",
    "sort", "top_k", "top_k_v2", "topk",
})  # fmt: skip
"""Names of the functions here that give places in their first input."""

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
_STEPS = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}
"""Distance of neighbours near zero, where values are so small that relative errors say nothing."""


def needed_bytes(function: Function, call: Call) -> int:
    """Return how much memory computing a call takes at most, by the shapes that the dump records."""
    inputs = [leaf.numel for _, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)]
    results = [leaf.numel for _, leaf in leaves(call.results) if isinstance(leaf, TensorSpec)]
    return WIDE * (COPIES // 2 * sum(inputs) + COPIES * sum(results) + _workspace(function, call))


def _workspace(function: Function, call: Call) -> int:
    """Return how many elements an operator lays out beside its inputs and results."""
    shapes = [leaf.shape for _, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)]
    results = [leaf.numel for _, leaf in leaves(call.results) if isinstance(leaf, TensorSpec)]
    if function.__module__ == convolution.__name__ and results:
        window = math.prod(shapes[1][1:]) if len(shapes) > 1 else 16
        return max(results) * window // max(1, shapes[1][0] if len(shapes) > 1 else 1) + max(results)
    if function is products.attention and len(shapes) > 1:
        return 3 * math.prod(shapes[0][:-1]) * (shapes[1][-2] if len(shapes[1]) > 1 else 1)
    if function is products.einsum and len(shapes) > 2:
        raise UnusableError("what a sum over more than two tensors takes is not known beforehand")
    return 0


def is_exact(function: Function) -> bool:
    """Return True for operators that only move elements, whose results are rounded by a cast at most."""
    return function.__module__ == moves.__name__


def arrays_of(call: Call, read: Callable[[Path, TensorSpec], Array]) -> dict[Path, Array]:
    """Return the tensors among the arguments, as float64, int64, bool or complex128."""
    return {place: wide(read(place, leaf)) for place, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)}


def wide(values: Array) -> Array:
    """Return elements in the widest type of their kind."""
    if values.dtype == np.bool_:
        return values
    if values.dtype.kind in "iu":
        return values.astype(np.int64, copy=False)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64, copy=False)


def computed(function: Function, call: Call, arrays: Mapping[Path, Array]) -> list[tuple[Path, Array]]:
    """Return the results of a call, one behind the other, with their places.

    Raises:
        UnusableError: its arguments are none that are computed, or contradict each other.
    """
    taken = as_taken(function, call, arrays)
    try:
        with np.errstate(all="ignore"):
            found = function(*taken.args, **taken.kwargs)
    except (ValueError, TypeError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as error:
        shapes = ", ".join(" x ".join(map(str, each.shape)) or "scalar" for each in arrays.values())
        raise UnusableError(f"its arguments do not fit each other: tensors of shape {shapes}") from error
    return [(place, call.as_dumped(place, np.asarray(each))) for place, each in flat_results(found)]


def as_taken(function: Function, call: Call, arrays: Mapping[Path, Array]) -> Any:
    """Return the arguments of a call as the function takes them, tensors as arrays."""

    def value(place: Path, leaf: object) -> Any:
        if isinstance(leaf, TensorSpec):
            return leaf.in_order(arrays[place])
        return None if isinstance(leaf, DeviceArgument) else leaf if isinstance(leaf, DtypeName) else _plain(leaf)

    taken = bound(function, with_leaves(call.args, value), with_leaves(dict(call.kwargs), value))
    if taken.arguments.get(IN_PLACE):
        taken.arguments[IN_PLACE] = False
    return taken


IN_PLACE = "inplace"
"""The argument by which functions of torch work in place."""


def works_in_place(function: Function, call: Call) -> bool:
    """Return whether a call writes its result into its first argument, by its name or by an argument."""
    if call.is_in_place:
        return True
    at = list(inspect.signature(function).parameters).index(IN_PLACE) if _takes_in_place(function) else None
    given = call.kwargs.get(IN_PLACE, call.args[at] if at is not None and at < len(call.args) else None)
    return isinstance(given, Plain) and bool(given.value)


@lru_cache(maxsize=512)
def _takes_in_place(function: Function) -> bool:
    return IN_PLACE in inspect.signature(function).parameters


def _check_before(arrays: Mapping[Path, Array], known: Mapping[Path, Array]) -> None:
    """Raise where a dump may hold what the input of a call in place became, not what it was.

    Collectors differ in that. An input that is not the result was recorded before.
    """
    before, after = next(iter(arrays.values())), wide(next(iter(known.values())))
    if before.shape == after.shape and np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
        raise UnusableError("it works in place, and the dump has of its input what it became, or it changed nothing")


def _plain(leaf: object) -> object:
    assert isinstance(leaf, Plain)
    return leaf.value


def perturbed(
    call: Call, arrays: Mapping[Path, Array], units: Mapping[str, float], *, least: float = 0.0
) -> dict[Path, Array]:
    """Return the tensors with each float element off by one rounding of its type, upwards or downwards at random.

    Args:
        call: names their types.
        arrays: the tensors.
        units: element type -> relative rounding.
        least: of the result, to which automatic casts may have rounded the inputs first.
    """
    found = dict(arrays)
    for number, (place, leaf) in enumerate(argument_leaves(call)):
        if isinstance(leaf, TensorSpec) and arrays[place].dtype.kind == "f":
            found[place] = moved_by(max(computed_in(leaf.dtype, units), least), arrays[place], number)
    return found


def own_errors(
    function: Function,
    call: Call,
    read: Callable[[Path, TensorSpec], Array],
    read_result: Callable[[Path, TensorSpec], Array],
    units: Mapping[str, float],
    *,
    limit_bytes: int,
) -> list[OwnError]:
    """Return the own error of every result of a call that the dump has.

    Args:
        function: that computes it (`names.find`).
        call: as the dump records it.
        read, read_result: return the elements of an argument, of a result.
        units: element type -> relative error that storing in it explains.
        limit_bytes: of memory.

    Raises:
        UnusableError: why it is not computed.
    """
    results, arrays = prepared(function, call, read, limit_bytes)
    if hasattr(function, RULE):
        results = _decided(results, arrays)
    truth = dict(_matched(results, computed(function, call, arrays)))
    known = {place: read_result(place, leaf) for place, leaf in results}
    if works_in_place(function, call):
        _check_before(arrays, known)
    if function is elementwise.dropout:
        truth = {place: _kept(known[place], values, arrays, call) for place, values in truth.items()}
    if getattr(function, "__name__", "") in _PICKED:
        return _of_picks(function, call, arrays, results, truth, known)

    rounded = getattr(function, ROUNDED, None)
    dtypes = {leaf.dtype for _, leaf in (*argument_leaves(call), *results) if isinstance(leaf, TensorSpec)}
    is_fixed = is_exact(function) or function is elementwise.dropout or is_rounded_once(function, dtypes)

    def errors(truth: Mapping[Path, Array], arrays: Mapping[Path, Array], units: Mapping[str, float]) -> list[OwnError]:
        def moved(least: float) -> Mapping[Path, Array]:
            inexact = rounded(max(least, coarsest(call, units))) if rounded is not None else function
            return dict(_matched(results, computed(inexact, call, perturbed(call, arrays, units, least=least))))

        return weighed(call, results, known, truth, units, None if is_fixed else moved, exact=is_exact(function))

    def errors_in(change: Callable[[Array], Array], units: Mapping[str, float]) -> list[OwnError]:
        changed = {place: change(values) for place, values in arrays.items()}
        return errors(dict(_matched(results, computed(function, call, changed))), changed, units)

    found = errors(truth, arrays, units)
    return found if is_fixed else with_hf32(found, call, [*arrays.values()], units, errors_in)


RULE = "rule"
"""What a function of a framework has beside: its gradients."""

ROUNDED = "rounded"
"""What the function of a fused operator has beside: itself with rounded values between its parts."""


def coarsest(call: Call, units: Mapping[str, float]) -> float:
    """Return the largest rounding of the types that a call computes in."""
    return max(computed_in(leaf.dtype, units) for _, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec))


def _decided(results: list[tuple[Path, TensorSpec]], arrays: Mapping[Path, Array]) -> list[tuple[Path, TensorSpec]]:
    """Return the results but for whole numbers made of floats: places, of which kernels break ties as they like."""
    if not any(each.dtype.kind == "f" for each in arrays.values()):
        return results
    kept = [(place, leaf) for place, leaf in results if "int" not in leaf.dtype]
    if not kept:
        raise UnusableError("it gives places, and which of equal ones is up to the kernel")
    return kept


def prepared(
    function: Function, call: Call, read: Callable[[Path, TensorSpec], Array], limit_bytes: int
) -> tuple[list[tuple[Path, TensorSpec]], dict[Path, Array]]:
    """Return the results that a dump has of a call, and the tensors of its arguments, if they fit into memory."""
    needed = needed_bytes(function, call)
    if needed > limit_bytes:
        raise UnusableError(
            f"computing it takes {needed / 2**20:,.0f} MiB, and {limit_bytes / 2**20:,.0f} MiB are allowed"
        )
    results = [(place, leaf) for place, leaf in leaves(call.results) if isinstance(leaf, TensorSpec)]
    if not results:
        raise UnusableError("the dump has no tensor among its results")
    arrays = arrays_of(call, read)
    if not arrays:
        raise UnusableError("it has no tensor among its arguments")
    return results, arrays


def weighed(
    call: Call,
    results: Sequence[tuple[Path, TensorSpec]],
    known: Mapping[Path, Array],
    truth: Mapping[Path, Array],
    units: Mapping[str, float],
    moved: Callable[[float], Mapping[Path, Array]] | None,
    *,
    exact: bool,
) -> list[OwnError]:
    """Return how far results are from what was computed; ``moved`` computes again where storage explains too little."""
    coarse = coarsest(call, units)
    found = [
        own_error(
            place, known[place], truth[place],
            unit=_unit(leaf.dtype, units, coarse, exact=exact),
            step=_STEPS.get(leaf.dtype, 0.0), largest=_LARGEST.get(leaf.dtype, math.inf),
        )
        for place, leaf in results
    ]  # fmt: skip
    is_float = any(each.dtype.kind == "f" for each in truth.values())
    if moved is None or not is_float or all(each.worst[3] <= 1.0 for each in found):
        return found
    others = moved(max(computed_in(leaf.dtype, units) for _, leaf in results))
    return [
        with_moved(own, known[place], truth[place], others[place], step=_STEPS.get(leaf.dtype, 0.0))
        for own, (place, leaf) in zip(found, results, strict=True)
    ]


def _unit(dtype: str, units: Mapping[str, float], coarse: float, *, exact: bool) -> float:
    """Return the rounding of a result: its own, or that of the inputs it was computed in, and then widened."""
    own = units.get(dtype, 0.0)
    return own if exact or not own else max(own, coarse)


def _matched(
    results: Sequence[tuple[Path, TensorSpec]], found: Sequence[tuple[Path, Array]]
) -> list[tuple[Path, Array]]:
    """Return what was computed for each dumped result, by place.

    Raises:
        UnusableError: it gives no result there, or one of another shape.
    """
    known = dict(found)
    pairs = []
    for place, leaf in results:
        values = known.get(place, found[0][1] if len(found) == len(results) == 1 else None)
        if values is not None and values.size == leaf.numel == 1:
            values = values.reshape(leaf.shape)  # devices hold a number as one element along an axis
        if values is None or values.shape != leaf.shape:
            shown = "none" if values is None else f"one of shape {list(values.shape)}"
            raise UnusableError(
                f"result {shown_path(place)} has shape {list(leaf.shape)} in the dump, and its arguments make {shown}"
            )
        pairs.append((place, values))
    return pairs


DROPPED_SIGMAS = 6.0
"""By how many standard deviations the number of dropped elements may be off from what the probability says."""


def _kept(dumped: Array, scaled: Array, arrays: Mapping[Path, Array], call: Call) -> Array:
    """Return what dropout makes with the mask that the dumped result shows: each element is 0, or as scaled.

    Where more are dropped than the probability explains, none may be; where fewer are, what is kept may not be scaled.
    """
    source = arrays.get((0,), arrays.get(("input",)))
    if source is None or scaled is source:
        return scaled
    named = call.kwargs.get("p", call.args[1] if len(call.args) > 1 else Plain(0.5))
    share = float(named.value) if isinstance(named, Plain) and isinstance(named.value, float | int) else math.nan
    alive = source != 0
    count, dropped = int(np.count_nonzero(alive)), int(np.count_nonzero(alive & (dumped == 0)))
    if not abs(dropped - share * count) <= DROPPED_SIGMAS * math.sqrt(count * share * (1 - share)) + 1:
        return scaled if dropped > share * count else source
    return np.where(dumped == 0, 0.0, scaled)


def _of_picks(
    function: Function,
    call: Call,
    arrays: Mapping[Path, Array],
    results: Sequence[tuple[Path, TensorSpec]],
    truth: Mapping[Path, Array],
    known: Mapping[Path, Array],
) -> list[OwnError]:
    """Return the errors of picks: of places, how far the values that they name are from those that are due.

    Equal values may stand in any order, each of them once: a place that is picked again is off by more than its value.
    """
    taken = as_taken(function, call, arrays)
    taken.apply_defaults()
    source = next(iter(arrays.values()))
    axis = next(taken.arguments[name] for name in ("dim", "axis", "dimension") if name in taken.arguments)
    is_flat = axis is None and function in (reductions.argmax, reductions.argmin)
    flat = source.reshape(-1) if is_flat else source
    axis = 0 if is_flat else int(-1 if axis is None else axis) % max(1, source.ndim)
    found = []
    for place, spec in results:
        dumped, due = wide(known[place]), truth[place]
        if spec.dtype.lstrip("u").startswith("int"):
            if dumped.size and (dumped.min() < 0 or dumped.max() >= flat.shape[axis]):
                raise UnusableError("a place that it picked lies outside its input")
            again = _again(dumped, axis) if dumped.ndim == flat.ndim else np.zeros(dumped.shape, bool)
            dumped, due = (_taken(flat, each, axis) for each in (dumped, due))
            dumped = np.where(again, due + 1.0 + np.abs(due), dumped)
        found.append(own_error(place, dumped, due, unit=0.0, step=0.0))
    return found


def _again(places: Array, axis: int) -> NDArray[np.bool_]:
    """Return where a place stands that stands before it along the axis, too."""
    order = np.argsort(places, axis=axis, kind="stable")
    in_order = np.take_along_axis(places, order, axis=axis)
    found = np.zeros(places.shape, dtype=bool)
    if places.size:
        np.put_along_axis(found, order, np.diff(in_order, axis=axis, prepend=-1) == 0, axis=axis)
    return found


def _taken(source: Array, places: Array, axis: int) -> Array:
    if places.ndim == source.ndim:
        return np.take_along_axis(source, places.astype(np.int64), axis=axis)
    return np.take_along_axis(source, np.expand_dims(places.astype(np.int64), axis), axis=axis).reshape(places.shape)
