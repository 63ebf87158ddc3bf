"""First differences: which entry of each rank is the first that differs, and whether its inputs already did."""

from __future__ import annotations

import enum

from msgspec import Struct

from probe_flow.records.node import Execution, NodeKey


class DifferenceKind(enum.Enum):
    """How an entry differs; `UNREADABLE` = nobody can tell, because what it wrote could not be compared."""

    VALUE = "value"
    CHECKSUM = "checksum"
    NONFINITE = "nonfinite"
    SHAPE = "shape"
    UNMATCHED = "unmatched"
    UNREADABLE = "unreadable"


class EntryDifference(Struct, frozen=True, gc=False):
    """One call of an API or module, and how it differs.

    Args:
        node: the call; of the golden when only the golden has it.
        is_golden_only: whether that is so.
        rows: positions in `Comparison.rows`, in order.
        kind: how what it wrote differs; None = it does not.
        inputs_differ: whether what it read differs, scalar arguments aside: those are its own doing.
    """

    node: NodeKey
    is_golden_only: bool
    rows: tuple[int, ...]
    kind: DifferenceKind | None = None
    inputs_differ: bool = False


class FirstDifference(Struct, frozen=True, gc=False):
    """The first entry of an execution that differs.

    Args:
        entry: it.
        received: whether the wrong data came from outside: it read wrong data that no entry before it explains.
        explanation: what points at it, for people.
    """

    entry: EntryDifference
    received: bool
    explanation: str


class ExecutionDifferences(Struct, frozen=True, gc=False):
    """The entries of one execution in execution order (those that only the golden has come last)."""

    execution: Execution
    entries: tuple[EntryDifference, ...]
    first: FirstDifference | None = None


Differences = tuple[ExecutionDifferences, ...]
"""Of a comparison: one per execution, in its order."""
