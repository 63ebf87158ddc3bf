"""A line of comparison.jsonl, one pair of tensors, and one of details.jsonl, a row looked at more closely."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from probe_flow.record.types.values import Anything, Count, Figure, Graph, Record, Shape
from probe_flow.records import Phase, Role, SlotRole, Status, TensorKind


class SideRecord(Record, frozen=True):
    """A tensor of one side.

    Args:
        name: Tensor id within its execution.
        file: Relative to the dump of its side.
        dtype: Numeric type; for opaque things the format's own word.
        shape: Logical shape; [] is a scalar.
        layout: Storage layout, e.g. ND, FRACTAL_NZ.
        value: Value of a scalar, text of an opaque thing, else null.
        requires_grad: Whether it takes part in the backward pass, as far as the dump says.
        checksum: As recorded in the dump, or measured.
        min: Smallest finite element.
        max: Largest finite element.
        mean: Mean of the finite elements.
        l2norm: Euclidean norm of the finite elements.
        nan: Elements that are NaN.
        inf: Elements that are infinite.
    """

    name: str
    file: str | None
    dtype: str
    shape: Shape
    layout: str
    value: Anything
    requires_grad: bool | str | None
    checksum: str | None
    min: Figure
    max: Figure
    mean: Figure
    l2norm: Figure
    nan: Count | None
    inf: Count | None


class RowRecord(Record, frozen=True, kw_only=True):
    """One line of comparison.jsonl: a pair of tensors.

    Args:
        comparison: Stage, where rows of several comparisons are read together; in no file.
        order: Number of the record, from 0, in execution order.
        rank: Rank of the execution.
        graph: Graph id; null when the dump names none.
        step: Step of the execution: token, iteration.
        node: True name, in the target's name space unless golden-only.
        name: Name of the node's entry in its dump; the same as `node` where the format has no other.
        call: Number of the call, from 0.
        phase: Direction of the call.
        op_type: The framework's type of the node, empty when unknown.
        group: Pairs of one operator have the same group.
        direction: Which tensors of the node.
        index: Path of the slot, e.g. 0, 1.0, weight.
        kind: What the slot holds.
        target: The tensor under test, null without one.
        golden: What it is compared with, null without one.
        reference: The third side, null without one.
        rule: Matching rule that made the pair.
        confidence: 1 for certain, less for a guess.
        metrics: Value of each metric by its id.
        verdict: What the policy says.
        reason: What there is to say about the row.
        role: What the analysis says.
        excess: The error over the limit of what rounding and the inputs explain: 1 is the limit, null where nothing \
was judged.
        missing: It should have been compared and was not, which counts against coverage.
        transform: In which order a side gives its axes where the two differ, e.g. golden:nhwc_to_nchw: its elements \
are read in the second order.
        waived: Why the row, or a finding at it, does not count: a waiver.
        accepted: Why the row, or a finding at it, does not count: the baseline.
    """

    comparison: str | None = None
    order: Count
    rank: int | None
    graph: Graph
    step: int | None
    node: str
    name: str
    call: Count
    phase: Phase
    op_type: str
    group: str
    direction: SlotRole
    index: str
    kind: TensorKind
    target: SideRecord | None
    golden: SideRecord | None
    reference: SideRecord | None
    rule: str
    confidence: Annotated[float, Meta(ge=0, le=1)]
    metrics: dict[str, Figure]
    verdict: Status
    reason: str | None
    role: Role
    excess: Figure
    missing: bool = False
    transform: tuple[str, ...] = ()
    waived: str | None = None
    accepted: str | None = None

    @property
    def sides(self) -> tuple[tuple[str, SideRecord], ...]:
        """The sides that there are, with their names."""
        named = (("target", self.target), ("golden", self.golden), ("reference", self.reference))
        return tuple((name, side) for name, side in named if side is not None)


class MapRecord(Record, frozen=True):
    """Where in a tensor the errors are.

    Args:
        shape: Of the tensor, as its indices count.
        down: Axes that are folded into rows, in C order.
        across: Axes that are folded into columns.
        cell: Rows and columns that a cell holds; the last ones may hold fewer.
        errors: Largest absolute error of each cell, row by row, in 4 significant digits; null where no element is \
finite on both sides or none was compared.
        alike: Cells with NaN or infinities that both sides have.
        mismatch: Cells where the sides disagree about NaN or infinities.
    """

    shape: tuple[Count, ...]
    down: tuple[Count, ...]
    across: tuple[Count, ...]
    cell: Annotated[tuple[Count, ...], Meta(min_length=2, max_length=2)]
    errors: tuple[Figure, ...]
    alike: tuple[Count, ...]
    mismatch: tuple[Count, ...]


class DetailRecord(Record, frozen=True):
    """One line of details.jsonl: a row looked at more closely.

    Args:
        order: `order` of the row in comparison.jsonl.
        start: Flat index of the first value of `target` and `golden`.
        target: Values around the largest error.
        golden: Values at the same places.
        edges: Bounds of the classes of absolute error, rising; the first is 0.
        counts: Elements in each class.
        equal: Elements without an error, in no class.
        maps: Where in the tensor the errors are, for the rows that are asked about first.
    """

    order: Count
    start: Count
    target: tuple[Figure, ...]
    golden: tuple[Figure, ...]
    edges: tuple[Figure, ...]
    counts: tuple[Count, ...]
    equal: Count
    maps: tuple[MapRecord, ...]
