"""Which computed result is which dumped one, and how far the two differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from probe_flow.apis.calls import Path, UnusableError, shown_path
from probe_flow.apis.scripts.repro_call import NODE, fitting
from probe_flow.apis.side import Held
from probe_flow.apis.values import Values

LAST_STEP = " of the last step"
"""Behind the name of a gradient that the last node of a call gives, and that is none of an argument's."""

Found = Sequence[tuple[Path, "Held | None"]]


def result_pairs(dumped: Sequence[tuple[Path, Held]], found: Found) -> Iterator[tuple[str, Held, int]]:
    """Yield the name of a dumped result of a call, itself, and the number of the computed one that it is.

    Raises:
        UnusableError: none is.
    """
    known = {place: number for number, (place, held) in enumerate(found) if held is not None}
    for place, held in dumped:
        number = known.get(place, known.get((0,)) if len(known) == len(dumped) == 1 else None)
        if number is None:
            raise _missing(place, held)
        yield shown_path(place), held, number


def gradient_pairs(
    dumped: Sequence[tuple[Path, Held]], found: Found, passed: Sequence[Held]
) -> Iterator[tuple[str, Held, int | None]]:
    """Yield the name of a dumped gradient, itself, and the number of the computed one that it is.

    Gradients stand in the order of the framework's own node, some transposed or flattened: they are found by shape, of
    several of one shape the nearest. A node that changes only the shape, as the last one of a linear of three axes
    does, gives the gradient that came in: None in place of the number.

    Args:
        dumped: what the dump has.
        found: the gradients of the arguments, then what the last node gives.
        passed: the gradients that came in.

    Raises:
        UnusableError: none is, or all of them only came in.
    """
    chosen = _nearest(dumped, _apart(found))
    pairs: list[tuple[str, Held, int | None]] = []
    for place, held in dumped:
        number = chosen.get(place)
        is_of_node = number is not None and found[number][0][0] == NODE
        if (number is None or is_of_node) and any(_is_reshaped(held, each) for each in passed):
            number = None
        elif number is None:
            raise _missing(place, held)
        pairs.append((f"{shown_path(place)}{LAST_STEP if is_of_node else ''}", held, number))
    if all(number is None for *_, number in pairs):
        raise UnusableError(
            "of its backward pass the dump holds nothing but the gradient that came in, in another shape; entries of "
            "its module may hold what it computes from that"
        )
    yield from pairs


def _missing(place: Path, held: Held) -> UnusableError:
    return UnusableError(
        f"the call gives no result of shape {list(held.values.shape)}, as {shown_path(place)} has in the dump"
    )


def _apart(found: Found) -> Found:
    """Return results without those of the last node that are gradients of arguments, each of which is there once."""
    own = [held for place, held in found if held is not None and place[0] != NODE]

    def is_there(place: Path, held: Held | None) -> bool:
        return held is not None and place[0] == NODE and any(_is_reshaped(held, each) for each in own)

    return [(place, None if is_there(place, held) else held) for place, held in found]


def _nearest(dumped: Sequence[tuple[Path, Held]], found: Found) -> dict[Path, int]:
    """Return which computed gradient a dumped one is, those that are nearest to each other first."""
    gaps: list[tuple[bool, float, int, int]] = []
    for order, (_, held) in enumerate(dumped):
        for number in fitting(held.values.shape, found):
            other = found[number][1]
            assert other is not None
            is_other_shape = other.values.shape != held.values.shape
            gaps.append(
                (is_other_shape, relative_error(held.values.reshape(-1), as_dumped(other, held)), order, number)
            )
    chosen: dict[Path, int] = {}
    for _, _, order, number in sorted(gaps):
        if dumped[order][0] not in chosen and number not in chosen.values():
            chosen[dumped[order][0]] = number
    return chosen


def as_dumped(held: Held, dumped: Held) -> Values:
    """Return elements in the order of the dumped ones: a transposed gradient of a matrix is turned."""
    values = held.values
    if values.shape != dumped.values.shape and values.ndim == 2 and values.T.shape == dumped.values.shape:
        values = values.T
    return values.reshape(-1)


def _is_reshaped(one: Held, other: Held) -> bool:
    a, b = one.values.reshape(-1), other.values.reshape(-1)
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def relative_error(one: Values, other: Values) -> float:
    """Return the L2 norm of a difference over that of the second; infinite where NaN or infinities disagree.

    Elements that are the same infinity, or NaN, on both sides do not count. Integers and booleans count as numbers.
    """
    with np.errstate(all="ignore"):
        a, b = (
            np.asarray(each).reshape(-1).astype(np.complex128 if np.iscomplexobj(each) else np.float64)
            for each in (one, other)
        )
        if a.shape != b.shape:
            return math.inf
        alike = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        if not (finite | alike).all():
            return math.inf
        size = float(np.linalg.norm(b[finite]))
        gap = float(np.linalg.norm(a[finite] - b[finite]))
    return 0.0 if gap == 0 else gap / size if size else math.inf


def worst_element(one: Values, other: Values, shape: Sequence[int]) -> tuple[str, int]:
    """Return the index of the element that is furthest off, and how many are not finite on one side alone.

    Args:
        one, other: elements in one order.
        shape: of the first.
    """
    a, b = (each.reshape(-1).astype(np.complex128 if np.iscomplexobj(each) else np.float64) for each in (one, other))
    if a.size != b.size or not a.size:
        return "", 0
    with np.errstate(all="ignore"):
        alike = (a == b) | (np.isnan(a) & np.isnan(b))
        stray = ~(alike | (np.isfinite(a) & np.isfinite(b)))
        gap = np.where(alike, 0.0, np.where(stray, np.inf, np.abs(a - b)))
    if alike.all():
        return "", 0
    place = [int(each) for each in np.unravel_index(int(np.argmax(gap)), tuple(shape))]
    return str(place) if place else "", int(stray.sum())
