"""Compare two tensors element by element, whatever run or file they come from: for `cp` at the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.catalogue.derive import derive
from probe_flow.metrics.kernel.compare import measure
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.record.places import figure
from probe_flow.record.text_table import text_table
from probe_flow.records import TensorRef
from probe_flow.reports.tensor_values import absolute_errors, magnitudes

METRICS = ("cosine", "max_abs_err", "mean_abs_err", "relative_euclidean_distance", "max_rel_err")

Line = tuple[int, float, float, float]
"""Index, value of the first tensor, value of the second, absolute error."""


class TwoTensors(Struct, frozen=True):
    """What the comparison of two tensors gave.

    Args:
        numel: elements.
        beyond: elements whose error is greater than ``absolute + relative * |second|``.
        metrics: the second tensor as the golden one.
        errors: the first elements beyond the tolerance.
        values: the first elements.
    """

    numel: int
    beyond: int
    metrics: Mapping[str, float | int | bool | None]
    errors: tuple[Line, ...]
    values: tuple[Line, ...]

    @property
    def is_close(self) -> bool:
        """Whether every element is within the tolerance."""
        return not self.beyond

    def lines(self) -> Iterator[str]:
        """Yield the result for a person."""
        share = 100 * self.beyond / self.numel if self.numel else 0.0
        word = "all" if self.is_close else "not all"
        yield f"{word} of {self.numel} elements are close; {self.beyond} are not ({share:.4g} %)"
        yield "  " + "  ".join(
            f"{name} {'-' if value is None else figure(value)}" for name, value in self.metrics.items()
        )
        for title, lines in (
            ("the first elements beyond the tolerance", self.errors),
            ("the first elements", self.values),
        ):
            if lines:
                yield f"  {title}"
                rows = [(str(at), figure(one), figure(other), f"{error:.4g}") for at, one, other, error in lines]
                header = ("at", "first", "second", "error")
                yield from text_table(header, rows, right=header, indent=4)


def compare_two(first: TensorRef, second: TensorRef, *, absolute: float, relative: float, limit: int) -> TwoTensors:
    """Return how two tensors differ; two NaN agree, and so do infinities of one sign.

    Args:
        first, second: tensors with elements, of equally many.
        absolute, relative: tolerance, the relative part of the second tensor.
        limit: elements listed.

    Raises:
        UsageError: PF7208 when they have different numbers of elements.
        FormatError, NotComparableError: as `open_tensor`.
    """
    beyond = 0
    errors: list[Line] = []
    values: list[Line] = []
    with open_tensor(first) as left, open_tensor(second) as right:
        if left.numel != right.numel:
            raise UsageError(
                Diagnostic(
                    "PF7208",
                    f"`{first.id}` has {left.numel} elements and `{second.id}` has {right.numel}",
                    help="compare tensors of the same shape",
                )
            )
        for start in range(0, left.numel, BLOCK):
            stop = min(left.numel, start + BLOCK)
            one, other = (magnitudes(blocks.read(start, stop)) for blocks in (left, right))
            found = absolute_errors(one, other)
            with np.errstate(invalid="ignore"):
                wrong = (found > 0) & ~(found <= absolute + relative * np.abs(other))
            beyond += int(np.count_nonzero(wrong))
            for places, lines in ((np.flatnonzero(wrong), errors), (np.arange(len(one)), values)):
                lines += [
                    (start + int(at), float(one[at]), float(other[at]), float(found[at]))
                    for at in places[: limit - len(lines)]
                ]
        metrics = derive(measure(left, right), METRICS)
        return TwoTensors(left.numel, beyond, metrics, tuple(errors), tuple(values))
