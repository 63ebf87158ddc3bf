"""Compute a recorded call, forward or backward, on one side, and find which result is which recorded one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from probe_flow.apis.calls import (
    FLOATS,
    Call,
    DeviceArgument,
    DtypeName,
    Gradients,
    Path,
    Plain,
    TensorSpec,
    UnusableError,
    leaves,
    shown_path,
    with_leaves,
)
from probe_flow.apis.side import Held, Side, flat_results, of_what_has_gradients
from probe_flow.apis.values import Source

NODE = "node"
"""In the place of a gradient that the last node of a call gives, and that is none of an argument's."""

UNDEFINED = frozenset(["empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"])


def check_is_defined(call: Call) -> None:
    """Refuse a call whose result is not decided by what the dump has of it.

    Raises:
        UnusableError: it is random, undefined, or changes its inputs.
    """
    if call.is_random:
        raise UnusableError("its result is random")
    if call.word in UNDEFINED:
        raise UnusableError("it gives memory that nobody wrote")
    if call.is_in_place:
        raise UnusableError("it changes its inputs in place, and what they were before is not known")


def recorded_results(call: Call, gradients: Gradients | None) -> list[tuple[Path, TensorSpec]]:
    """Return the tensors that a dump has as results, or as gradients of the arguments.

    Raises:
        UnusableError: there is none.
    """
    trees = call.results if gradients is None else gradients.results
    found = [(place, leaf) for place, leaf in leaves(tuple(trees)) if isinstance(leaf, TensorSpec)]
    if not found:
        raise UnusableError("the dump has no tensor among its results")
    return found


def widened(dtype: str) -> str:
    """Return the element type that an argument has in float64."""
    return "float64" if dtype in FLOATS else dtype


def computed(
    side: Side, call: Call, gradients: Gradients | None, source: Source, dtype: Callable[[str], str]
) -> list[tuple[Path, Held | None]]:
    """Return what a side makes of the call, or the gradients of its arguments and what its last node gives."""

    def value(place: Path, leaf: object) -> Any:
        if isinstance(leaf, TensorSpec):
            return side.tensor(Held(source(leaf, f"input.{shown_path(place)}"), dtype(leaf.dtype)))
        if isinstance(leaf, DeviceArgument):
            return side.device
        if isinstance(leaf, DtypeName):
            return side.dtype(dtype(leaf.dtype))
        assert isinstance(leaf, Plain)
        return leaf.value

    function, _ = side.find(call.kind, call.api)
    args, kwargs = with_leaves(call.args, value), with_leaves(dict(call.kwargs), value)
    if gradients is None:
        results = flat_results(side.call(function, args, kwargs))
    else:
        incoming = [value(("gradient", number), leaf) for number, leaf in enumerate(gradients.incoming)]
        of_node: list[Any] = []
        watched = _watched(function, of_node)
        results = side.gradients(*of_what_has_gradients(watched, call, args, kwargs), incoming, copies=False)
        results += [((NODE, number), each) for number, each in enumerate(of_node)]
    return [(place, side.hold(each)) for place, each in results]


def _watched(function: Callable[..., Any], caught: list[Any]) -> Callable[..., Any]:
    """Return a function that has what the node of its first result gives put into a list, in a backward pass.

    That is what collectors of torch record. Where a call consists of several nodes, as a linear of three axes or a
    cross entropy do, it is no gradient of an argument.
    """

    def watched(*args: Any, **kwargs: Any) -> Any:
        results = function(*args, **kwargs)
        nodes = (getattr(each, "grad_fn", None) for _, each in flat_results(results))
        first: Any = next((each for each in nodes if each is not None), None)
        if hasattr(first, "register_hook"):
            first.register_hook(
                lambda given, _: caught.extend(None if each is None else each.clone() for each in given)
            )
        return results

    return watched


def fitting(wanted: Sequence[int], found: Sequence[tuple[Path, Held | None]]) -> Iterator[int]:
    """Yield the numbers of the results that may be one of a shape.

    A node of a framework gives a gradient as its kernel has it: of the shape of its argument, transposed, flattened, or
    with axes of length 1 more or fewer, as that of the weight of a prelu.
    """
    for number, (_, other) in enumerate(found):
        if other is None:
            continue
        shape = other.values.shape
        is_flat = len(wanted) == 1 and wanted[0] == other.values.size
        is_turned = len(shape) == 2 and shape[::-1] == tuple(wanted)
        if is_turned or is_flat or _without_ones(shape) == _without_ones(wanted):
            yield number


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [length for length in shape if length != 1]
