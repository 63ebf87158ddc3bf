"""What one pass over a pair leaves: sums, extremes and counts of a block, a span or the whole tensor.

Records join associatively in form, but floating sums do not in value: the order is that of `metrics.sums.tree`.
Sums of float64 tensors whose values lie beyond about 1e144 or below 1e-144 are kept divided by a power of two, so that
their squares neither overflow nor vanish. Counts and the extremes of integers are exact.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from probe_flow.metrics.sums.tree import Node, fold_nodes

if TYPE_CHECKING:
    from typing_extensions import Self

Value = float | int | bool | None
"""Of a metric; None where it cannot be computed."""

BLOCK = 65_536
"""Elements of a block; blocks are aligned at element 0, whatever the split, chunking or backend."""

EPS32 = 1.1920929e-07
"""Machine epsilon of float32."""

EPS64 = 2.220446049250313e-16
"""Machine epsilon of float64."""

SCALE = 600
"""Power of two by which very large or very small values are scaled."""

_HUGE = 2.0**480
_TINY = 2.0**-480


def exponent_of(largest: float) -> int:
    """Return the power of two to divide values by before squaring; zeros take any, so they take the least."""
    if largest > _HUGE:
        return SCALE
    return 0 if largest >= _TINY else -SCALE


class Side(NamedTuple):
    """One tensor: sums over its finite elements, the others counted.

    ``values`` counts the real numbers behind the sums: as many as ``finite``, or twice that for complex tensors, whose
    real and imaginary parts count alike. ``total`` is the sum divided by 2**exponent, ``squares`` the sum of squares
    divided by 4**exponent. Without values ``low`` is inf and ``high`` -inf.
    """

    finite: int = 0
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    values: int = 0
    exponent: int = -SCALE
    total: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf


class Errors(NamedTuple):
    """Both tensors, over the positions where both are finite.

    Args:
        compared: those positions.
        mismatched: positions where NaN or infinities disagree in kind or sign, masks left out (`masks`).
        unequal: positions with different values, the mismatched ones and masks included.
        target_exponent, golden_exponent, error_exponent: scales of the sums: ``dot`` is divided by 2 to the sum of the
            first two, squares by 4 to their own, ``golden_abs`` and ``error_abs`` by 2 to their own.
        max_abs: largest absolute error (an exact int between integers), first at ``max_abs_index``.
        rel_sum, max_rel: of the error relative to a non-zero golden value, the largest first at ``max_rel_index``.
        within_1e3, within_5e3: positions with a relative error below 0.001 and 0.005; 0/0 is no error.
        zero_misses: positions with a zero golden and another target, the first at ``zero_miss_index``.
        zero_rel_sum, zero_rel_max: of |target| / eps there.
        zero_within_1e3, zero_within_5e3: those of them where |target| / eps is below 0.001 and 0.005.
    """

    compared: int = 0
    mismatched: int = 0
    unequal: int = 0
    target_exponent: int = -SCALE
    golden_exponent: int = -SCALE
    error_exponent: int = -SCALE
    dot: float = 0.0
    target_squares: float = 0.0
    golden_squares: float = 0.0
    golden_abs: float = 0.0
    error_abs: float = 0.0
    error_squares: float = 0.0
    max_abs: float = -math.inf
    max_abs_index: int = -1
    rel_sum: float = 0.0
    max_rel: float = -math.inf
    max_rel_index: int = -1
    within_1e3: int = 0
    within_5e3: int = 0
    zero_misses: int = 0
    zero_miss_index: int = -1
    zero_rel_sum: float = 0.0
    zero_rel_max: float = 0.0
    zero_within_1e3: int = 0
    zero_within_5e3: int = 0


class Accumulator(Struct, frozen=True, gc=False):
    """What some metrics need beyond the figures of every record: an instance holds what was found in some elements.

    It is found in each block by itself and merged by the fixed tree, so ``merge`` need not be associative to the last
    bit. What a block shows, and when, is said by the three kinds of `metrics.accumulators.base`.
    """

    name: ClassVar[str]
    """As metrics name it, and as records are stored with it."""

    version: ClassVar[int] = 1
    """To be raised when what it finds changes, so that stored results with it are measured again, and only those."""

    @classmethod
    def init(cls) -> Self:
        """Return what is found in no elements."""
        return cls()

    def merge(self, right: Self) -> Self:
        """Return what is found in two neighbours, this one with the lower indices."""
        raise NotImplementedError

    def finish(self, record: Record) -> Mapping[str, Value]:
        """Return the values of metrics, by id, for the whole pair, whose record this is part of."""
        raise NotImplementedError

    def to_text(self) -> str:
        """Return text of which `from_text` makes an equal instance; that here fits numbers, also beyond 64 bits."""
        return json.dumps(astuple(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return what a text was made of; ValueError or TypeError for another text."""
        return cls(*json.loads(text))


class Record(NamedTuple):
    """A block, a span or a whole pair. One-sided statistics have neither golden nor errors.

    ``accumulators`` are those that the metrics of the run need, in one order in all records of a pair.
    """

    numel: int
    target: Side
    golden: Side | None = None
    errors: Errors | None = None
    accumulators: tuple[Accumulator, ...] = ()

    @property
    def worst_index(self) -> int | None:
        """Flat index of the largest absolute error, None when nothing could be compared."""
        return self.errors.max_abs_index if self.errors is not None and self.errors.compared else None


class SpanRecord(Struct, frozen=True):
    """Blocks ``[first_block, first_block + n_blocks)``, reduced to subtrees; what a worker sends back."""

    first_block: int
    n_blocks: int
    nodes: tuple[Node, ...]


def fold(spans: list[SpanRecord] | tuple[SpanRecord, ...]) -> Record:
    """Return the record of the whole pair from the spans that cover it, in any order and of any sizes.

    Raises:
        ValueError: if spans are missing or overlap.
    """
    return fold_nodes((node for span in spans for node in span.nodes), join)


def join(left: Record, right: Record) -> Record:
    """Merge two neighbours, the one with the lower indices first."""
    golden = None if left.golden is None or right.golden is None else _join_sides(left.golden, right.golden)
    errors = None if left.errors is None or right.errors is None else _join_errors(left.errors, right.errors)
    merged = tuple(own.merge(other) for own, other in zip(left.accumulators, right.accumulators, strict=True))
    return Record(left.numel + right.numel, _join_sides(left.target, right.target), golden, errors, merged)


def scaled_down(value: float, shift: int) -> float:
    """Return value / 2**shift."""
    return math.ldexp(value, -shift) if shift else value


def power(value: float, exponent: int) -> float:
    """Return value * 2**exponent, infinite where no float64 holds it."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def _join_sides(a: Side, b: Side) -> Side:
    exponent = max(a.exponent, b.exponent)
    up_a, up_b = exponent - a.exponent, exponent - b.exponent
    return Side(
        a.finite + b.finite,
        a.nan + b.nan,
        a.positive_inf + b.positive_inf,
        a.negative_inf + b.negative_inf,
        a.values + b.values,
        exponent,
        scaled_down(a.total, up_a) + scaled_down(b.total, up_b),
        scaled_down(a.squares, 2 * up_a) + scaled_down(b.squares, 2 * up_b),
        min(a.low, b.low),
        max(a.high, b.high),
    )


def _join_errors(a: Errors, b: Errors) -> Errors:
    target = max(a.target_exponent, b.target_exponent)
    golden = max(a.golden_exponent, b.golden_exponent)
    error = max(a.error_exponent, b.error_exponent)
    target_a, golden_a, error_a = target - a.target_exponent, golden - a.golden_exponent, error - a.error_exponent
    target_b, golden_b, error_b = target - b.target_exponent, golden - b.golden_exponent, error - b.error_exponent
    worst = b if b.max_abs > a.max_abs else a
    worst_rel = b if b.max_rel > a.max_rel else a
    return Errors(
        a.compared + b.compared,
        a.mismatched + b.mismatched,
        a.unequal + b.unequal,
        target,
        golden,
        error,
        scaled_down(a.dot, target_a + golden_a) + scaled_down(b.dot, target_b + golden_b),
        scaled_down(a.target_squares, 2 * target_a) + scaled_down(b.target_squares, 2 * target_b),
        scaled_down(a.golden_squares, 2 * golden_a) + scaled_down(b.golden_squares, 2 * golden_b),
        scaled_down(a.golden_abs, golden_a) + scaled_down(b.golden_abs, golden_b),
        scaled_down(a.error_abs, error_a) + scaled_down(b.error_abs, error_b),
        scaled_down(a.error_squares, 2 * error_a) + scaled_down(b.error_squares, 2 * error_b),
        worst.max_abs,
        worst.max_abs_index,
        a.rel_sum + b.rel_sum,
        worst_rel.max_rel,
        worst_rel.max_rel_index,
        a.within_1e3 + b.within_1e3,
        a.within_5e3 + b.within_5e3,
        a.zero_misses + b.zero_misses,
        a.zero_miss_index if a.zero_misses else b.zero_miss_index,
        a.zero_rel_sum + b.zero_rel_sum,
        max(a.zero_rel_max, b.zero_rel_max),
        a.zero_within_1e3 + b.zero_within_1e3,
        a.zero_within_5e3 + b.zero_within_5e3,
    )
