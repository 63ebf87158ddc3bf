"""What a framework adds: find an API by its name, make tensors, call, differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from probe_flow.apis.calls import Call, Path, TensorSpec, UnusableError, argument_leaves
from probe_flow.apis.values import Values


@dataclass(frozen=True)
class Held:
    """Elements of a tensor outside any framework.

    Args:
        values: in a type of numpy that holds each of them (float32 for bfloat16 and eight-bit floats).
        dtype: canonical element type.
    """

    values: Values
    dtype: str


@dataclass(frozen=True)
class Result:
    """One result of a call: a tensor's elements, or a plain value.

    Args:
        place: where in what the call returned, or for which argument it is the gradient.
        value: `Held`, or the plain value.
    """

    place: Path
    value: object

    @property
    def dtype(self) -> str:
        """Element type of a tensor; name of the Python type of anything else."""
        return self.value.dtype if isinstance(self.value, Held) else type(self.value).__name__


class Side(Protocol):
    """A framework that calls APIs. Whatever its functions raise is the reason why a call is not checked."""

    @property
    def name(self) -> str:
        """Name for people, with where it runs: ``torch (CPU)``."""

    @property
    def device(self) -> object:
        """The device that calls run on, as an argument of theirs."""

    def find(self, kind: str, api: str) -> tuple[Callable[..., Any], str]:
        """Return the function of an API, and what it is called: ``torch.nn.functional.relu``.

        Raises:
            UnusableError: there is none.
        """

    def tensor(self, held: Held) -> Any:
        """Return a tensor of these values, rounded to its element type."""

    def dtype(self, name: str) -> Any:
        """Return an element type as an argument.

        Raises:
            UnusableError: the framework has none of that name.
        """

    def hold(self, tensor: Any) -> Held | None:
        """Return the elements of a tensor; None for what is no tensor."""

    def call(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function and wait until it is done."""

    def autocast(self, function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
        """Return a function that does the same with automatic casts to an element type."""

    def gradients(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        incoming: Sequence[Any],
        *,
        copies: bool,
    ) -> list[tuple[Path, Any]]:
        """Return the gradient of each float tensor of the arguments, by its place; None where there is none.

        Args:
            function: to differentiate.
            args, kwargs: its arguments.
            incoming: gradient of each result, as they are returned one behind the other; None where there is none.
            copies: whether the function gets copies of the tensors, for it may change them.
        """


def flat_results(value: Any) -> list[tuple[Path, Any]]:
    """Return what a call returned, one behind the other, with places: tuples and lists, at any depth, are several."""
    found: list[tuple[Path, Any]] = []

    def walk(each: Any, place: Path) -> None:
        if isinstance(each, tuple | list) and not is_shape(each):
            for number, part in enumerate(each):
                walk(part, (*place, number))
        else:
            found.append((place or (0,), each))

    walk(value, ())
    return found


def is_shape(value: Any) -> bool:
    """Return True for sequences that are one value: a shape, which holds nothing but integers."""
    return bool(value) and all(type(each) is int for each in value)


def tensors_of(
    args: Sequence[Any], kwargs: Mapping[str, Any], is_wanted: Callable[[Any], bool]
) -> list[tuple[Path, Any]]:
    """Return the tensors among arguments that are wanted, with their places, in order."""
    found: list[tuple[Path, Any]] = []

    def walk(each: Any, place: Path) -> None:
        if isinstance(each, tuple | list):
            for number, part in enumerate(each):
                walk(part, (*place, number))
        elif isinstance(each, dict):
            for name, part in each.items():
                walk(part, (*place, name))
        elif is_wanted(each):
            found.append((place, each))

    walk(tuple(args), ())
    walk(dict(kwargs), ())
    return found


def replaced(
    args: Sequence[Any], kwargs: Mapping[str, Any], others: Mapping[Path, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with others in some places."""

    def walk(each: Any, place: Path) -> Any:
        if place in others:
            return others[place]
        if isinstance(each, tuple | list):
            return tuple([walk(part, (*place, number)) for number, part in enumerate(each)])
        if isinstance(each, dict):
            return {name: walk(part, (*place, name)) for name, part in each.items()}
        return each

    return walk(tuple(args), ()), walk(dict(kwargs), ())


def of_what_has_gradients(
    function: Callable[..., Any], call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return a function of the tensors that the framework computed gradients of, and its arguments.

    The others, such as the running mean of a normalisation, may have none.
    """
    given = dict(tensors_of(args, kwargs, lambda _: True))
    leafs = [(place, leaf) for place, leaf in argument_leaves(call) if isinstance(leaf, TensorSpec)]
    fixed = {place: given[place] for place, leaf in leafs if not leaf.has_gradient and place in given}
    if not fixed or all(not leaf.has_gradient for _, leaf in leafs):
        return function, args, kwargs

    def of_the_rest(*some: Any, **named: Any) -> Any:
        all_args, all_kwargs = replaced(some, named, fixed)
        return function(*all_args, **all_kwargs)

    return of_the_rest, *replaced(args, kwargs, dict.fromkeys(fixed))


def plain(value: object) -> object:
    """Return a value that a framework gave as one of Python's own, where it is a number of numpy."""
    return value.item() if isinstance(value, np.generic) else value


def paired(tested: list[Result], benchmark: list[Result], *, by_place: bool) -> list[tuple[Result, Result]]:
    """Return which result is compared with which: by place, or one behind the other.

    Raises:
        UnusableError: one side has more of them.
    """
    if by_place:
        known = {each.place: each for each in benchmark}
        pairs = [(each, known[each.place]) for each in tested if each.place in known]
        if len(pairs) == len(tested) == len(benchmark):
            return pairs
    elif len(tested) == len(benchmark):
        return list(zip(tested, benchmark, strict=True))
    raise UnusableError(f"the tested side gives {len(tested)} results, the benchmark {len(benchmark)}")
