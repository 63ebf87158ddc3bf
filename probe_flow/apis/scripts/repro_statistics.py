"""Reproduce a call of a dump of statistics: random inputs in the recorded ranges, and how large the results become.

Such values differ from those of the dump, so that results are told apart by their size alone: a result counts as wrong
where it is far larger or smaller than what the processor makes of such inputs, or not finite, while the golden's, of
inputs with the same statistics, is not. Anything less is not decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from probe_flow.apis.calls import (
    Call,
    Gradients,
    Plain,
    TensorSpec,
    UnusableError,
    argument_leaves,
    leaves,
    read_call,
    read_gradients,
    shown_path,
)
from probe_flow.apis.scripts.repro_call import check_is_defined, computed, fitting, recorded_results, widened
from probe_flow.apis.side import Side
from probe_flow.apis.torch_side import TorchSide
from probe_flow.apis.values import per_slot

DRAWS = 8
"""Sets of random inputs: what differs between them is the spread of the result's size."""

GROSS = 10.0
"""Factor from which a size is wrong. Recorded values are more alike than random ones: a sum of n that all have one sign
is sqrt(n) times that of random signs, which the golden shows too, for its inputs have the same statistics."""

ALIKE = 0.01
"""Relative difference of recorded statistics up to which inputs of both sides count as the same."""


def gross_error(frozen: Mapping[str, Any], side: Side) -> str:
    """Return what is grossly wrong with the results that the target recorded; empty where nothing can be told.

    Args:
        frozen: as the script has it.
        side: a framework on this processor.

    Raises:
        UnusableError: there is no golden to calibrate by, or the two sides were given other inputs.
    """
    sides = frozen["sides"]
    calls = {name: read_call(frozen["kind"], frozen["api"], entries["forward"]) for name, entries in sides.items()}
    check_is_defined(calls["target"])
    if "golden" not in calls:
        raise UnusableError("the dump has statistics only, and without a golden they do not show what is usual")
    is_backward = frozen["direction"] == "backward"
    gradients = {name: read_gradients(entries["backward"]) if is_backward else None for name, entries in sides.items()}
    other = _other_input(_inputs(calls["target"], gradients["target"]), _inputs(calls["golden"], gradients["golden"]))
    if other:
        raise UnusableError(f"the dump has statistics only, and {other}")
    drawn = _drawn_sizes(side, calls["golden"], gradients["golden"])
    recorded = [recorded_results(calls[name], gradients[name]) for name in ("target", "golden")]
    for number, (found, usual) in enumerate(zip(*recorded, strict=False)):
        size, golden = _size(found[1]), _size(usual[1])
        if number >= len(drawn) or size is None or golden is None or not math.isfinite(golden):
            continue
        low, high = drawn[number]
        if not (math.isfinite(high) and low / GROSS <= golden <= high * GROSS):
            continue  # what is usual here is not what random values make
        where = f"{'gradient' if is_backward else 'output'} {shown_path(found[0])}"
        if not math.isfinite(size):
            return f"{where} is not finite in the dump, and no random values in the recorded ranges make it so"
        if _is_far(size, golden) and (size > high * GROSS or size * GROSS < low):
            usual_size = f"{low:.2g} to {high:.2g}"
            return (
                f"{where} reaches {size:.2g} in the dump; random values in the recorded ranges give {usual_size}, the "
                f"golden has {golden:.2g}"
            )
    return ""


def _is_far(size: float, golden: float) -> bool:
    return size > golden * GROSS or size * GROSS < golden


def _inputs(call: Call, gradients: Gradients | None) -> dict[str, object]:
    """Return what a call was given, by place."""
    found: dict[str, object] = {shown_path(place): leaf for place, leaf in argument_leaves(call)}
    if gradients is not None:
        found |= {f"gradient {shown_path(place)}": leaf for place, leaf in leaves(tuple(gradients.incoming))}
    return found


def _other_input(target: Mapping[str, object], golden: Mapping[str, object]) -> str:
    """Return which input differs between the sides by what is recorded of it; empty where none does."""
    for name in {**target, **golden}:
        one, other = target.get(name), golden.get(name)
        if isinstance(one, TensorSpec) and isinstance(other, TensorSpec):
            bounds = ((one.low, other.low), (one.high, other.high))
            numbers = [float(bound) for pair in bounds for bound in pair if isinstance(bound, bool | int | float)]
            scale = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
            if one.shape != other.shape or any(not _is_alike(*pair, scale) for pair in bounds):
                return f"input {name} has other statistics than the golden's"
        elif isinstance(one, Plain) and isinstance(other, Plain):
            if one.value != other.value:
                return f"argument {name} is {one.value!r}, in the golden {other.value!r}"
        elif type(one) is not type(other):
            return f"argument {name} is there on one side only"
    return ""


def _is_alike(one: object, other: object, scale: float) -> bool:
    numbers = [float(each) for each in (one, other) if isinstance(each, bool | int | float) and math.isfinite(each)]
    return abs(numbers[0] - numbers[1]) <= ALIKE * scale if len(numbers) == 2 else str(one) == str(other)


def _size(spec: TensorSpec) -> float | None:
    """Return the largest recorded size of an element, NaN and infinities as infinity; None where none is recorded."""
    bounds = [bound for bound in (spec.low, spec.high) if isinstance(bound, bool | int | float)]
    if len(bounds) < 2:
        return None
    return max(abs(bound) if math.isfinite(bound) else math.inf for bound in bounds)


def _drawn_sizes(side: Side, call: Call, gradients: Gradients | None) -> list[tuple[float, float]]:
    """Return for each recorded result the smallest and the largest size that random inputs give it."""
    wanted = recorded_results(call, gradients)
    sizes: list[list[float]] = [[] for _ in wanted]
    for draw in range(DRAWS):
        source = per_slot(f"{call.api}\0{draw}")
        try:
            found = computed(TorchSide(), call, gradients, source, widened)
        except UnusableError:  # an API of MindSpore alone
            found = computed(side, call, gradients, source, str)
        taken: set[int] = set()
        for number, (_, spec) in enumerate(wanted):
            fits = [each for each in fitting(spec.shape, found) if each not in taken]
            if not fits:
                raise UnusableError(f"the call gives no result of shape {list(spec.shape)}, as the dump has")
            taken.add(fits[0])
            held = found[fits[0]][1]
            assert held is not None
            sizes[number].append(_largest_size(held.values))
    return [(min(each), max(each)) for each in sizes]


def _largest_size(values: Any) -> float:
    if not values.size:
        return 0.0
    largest = float(np.abs(values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)).max())
    return largest if math.isfinite(largest) else math.inf
