"""A fused operator of a device, computed as the operators that its graph has for it, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from probe_flow.apis.numpy_core.names import DEVICE, Function, find
from probe_flow.apis.own_error import moved_by
from probe_flow.apis.side import flat_results

Array = NDArray[Any]


class Part(Struct, frozen=True):
    """One operator inside a fused one.

    Args:
        op_type: of a device.
        reads: its inputs: the number of an input of the fused operator, or (number of a part before it, result).
        attributes: those that change what it computes.
    """

    op_type: str
    reads: tuple[int | tuple[int, int], ...]
    attributes: tuple[tuple[str, Any], ...] = ()


class Fused(Struct, frozen=True):
    """The function of a fused operator: it takes its inputs one behind the other.

    Args:
        parts: in the order in which they are computed.
        gives: its results: (number of a part, result).
        shown: what to say of who computed it, where that is not one operator of the dump.
        rounding: relative error of each value between two parts, at random; a kernel may keep them in any precision.
    """

    parts: tuple[Part, ...]
    gives: tuple[tuple[int, int], ...]
    shown: str = ""
    rounding: float = 0.0

    @property
    def functions(self) -> list[Function]:
        """What computes each part.

        Raises:
            UnusableError: nothing computes one.
        """
        return [find(DEVICE, part.op_type) for part in self.parts]

    def __call__(self, *inputs: Any) -> Any:
        made: list[Sequence[Any]] = []
        for number, (part, function) in enumerate(zip(self.parts, self.functions, strict=True)):
            read = (inputs[at] if isinstance(at, int) else made[at[0]][at[1]] for at in part.reads)
            results = [np.asarray(each) for _, each in flat_results(function(*read, **dict(part.attributes)))]
            is_inner = self.rounding > 0.0 and number < len(self.parts) - 1
            made.append([_rounded(each, self.rounding, number) for each in results] if is_inner else results)
        found = tuple(made[part][result] for part, result in self.gives)
        return found[0] if len(found) == 1 else found

    def rounded(self, unit: float) -> Fused:
        """Return the same function with values between its parts that are off by a rounding each."""
        return structs.replace(self, rounding=unit)


def _rounded(values: Array, unit: float, seed: int) -> Array:
    """Seeds follow those of the inputs, of which there are less than a hundred."""
    return moved_by(unit, values, 100 + seed) if values.dtype.kind == "f" else values
