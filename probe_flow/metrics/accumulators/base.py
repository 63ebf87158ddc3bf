"""The three kinds of accumulators: what each sees of a block, and the machine code that it may bring.

A new one is a module with a subclass of one kind, named in `registry` or by an entry point of a package, and metrics
that name it. The numpy form works with every backend; the compiled form is for speed only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from msgspec import Struct

from probe_flow.metrics.sums.block_sums import Scratch, Values
from probe_flow.metrics.sums.figures import Figures
from probe_flow.metrics.sums.pair_errors import PairErrors, PairValues
from probe_flow.metrics.sums.record import Accumulator, Record

if TYPE_CHECKING:
    from typing_extensions import Self

LANES = 64
"""Sums that a pass of machine code keeps of each figure: element i goes to lane i modulo 64."""


class LanePass(Struct, frozen=True, eq=False):
    """A pass of machine code over a block, made from what one element adds to its lane.

    Args:
        name: for the file that keeps the code.
        add: ``add(lanes, lane, x, y, number)``, without ``y`` for a pass over one tensor; x, y and number are float64.
            It adds to ``lanes[figure * LANES + lane]`` of each sum and takes the larger one for maxima, which begin at
            0; choices are conditional expressions. Numba compiles it: plain arithmetic, constants, and `LANES` only,
            and all that it uses in its own file, by whose content the code is kept.
        sums: figures that are sums; they come first.
        maxima: figures that are maxima.
        tensors: 2, or 1.
    """

    name: str
    add: Callable[..., None]
    sums: int
    maxima: int = 0
    tensors: int = 2


class CompiledBlock(NamedTuple):
    """A block of ordinary numbers, as passes of machine code take them.

    Args:
        target, golden: for `run`; not float64.
        figures: what the pass over every block found.
        run: ``run(lane_pass, *tensors, number=0.0)`` returns the figures of a pass.
    """

    target: Values
    golden: Values
    figures: Figures
    run: Callable[..., list[float]]


class OfValues(Accumulator, frozen=True, gc=False):
    """Sees the values of both sides."""

    passes: ClassVar[tuple[LanePass, ...]] = ()
    """What `update_compiled` runs, so that it can be compiled ahead; empty where it has nothing compiled."""

    @classmethod
    def update(cls, block: PairValues) -> Self:
        """Return what is found in a block of at least one element."""
        raise NotImplementedError

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self | None:  # noqa: ARG003  # for those that have one
        """Return the same by machine code; None where there is none."""
        return None


class OfErrors(Accumulator, frozen=True, gc=False):
    """Sees the absolute and relative errors that every measurement finds anyway."""

    passes: ClassVar[tuple[LanePass, ...]] = ()
    """What `update_compiled` runs, so that it can be compiled ahead; empty where it has nothing compiled."""

    @classmethod
    def update(cls, block: PairErrors) -> Self:
        """Return what is found in a block with at least one place that is finite on both sides."""
        raise NotImplementedError

    @classmethod
    def update_compiled(cls, block: CompiledBlock) -> Self | None:  # noqa: ARG003  # for those that have one
        """Return the same by machine code; None where there is none."""
        return None


class SecondPass(Accumulator, frozen=True, gc=False):
    """Sees the values once more, knowing the record of the first pass; one worker reads the whole pair for it."""

    @classmethod
    def begin(cls, record: Record, blocks: Iterable[tuple[Values, Values]], scratch: Scratch) -> Any:
        """Return what `update` needs of the whole pair, or None where nothing can be found.

        Args:
            record: of the first pass.
            blocks: both sides block by block, read only if they are asked for.
            scratch: buffers; ``error`` is left alone until the pass ends.
        """
        raise NotImplementedError

    @classmethod
    def update(cls, target: Values, golden: Values, given: Any, scratch: Scratch) -> Self:
        """Return what is found in a block.

        Args:
            target, golden: values of any dtype, never written.
            given: from `begin`.
            scratch: buffers.
        """
        raise NotImplementedError


class Rules(NamedTuple):
    """What varies between pairs: what a zero golden value counts as, and the accumulators of the first pass."""

    eps: float
    of_values: tuple[type[OfValues], ...] = ()
    of_errors: tuple[type[OfErrors], ...] = ()

    def of_nothing(self) -> tuple[Accumulator, ...]:
        """Return what the accumulators find in no elements."""
        return tuple(kind.init() for kind in (*self.of_values, *self.of_errors))

    def found(self, values: PairValues, errors: PairErrors | None) -> tuple[Accumulator, ...]:
        """Return what the accumulators find in a block; ``errors`` is None if no place is finite on both sides."""
        of_values = (kind.update(values) for kind in self.of_values)
        of_errors = (kind.init() if errors is None else kind.update(errors) for kind in self.of_errors)
        return (*of_values, *of_errors)
