"""The comparison: every pair with its measurement and verdict, and what the analysis concludes over all of them."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from probe_flow.errors import Diagnostic
from probe_flow.records.baseline import BaselineUse
from probe_flow.records.node import NodeKey
from probe_flow.records.pairs import Pairs
from probe_flow.records.row import Row
from probe_flow.records.tensor_traits import Slot
from probe_flow.records.verdict import Excuse


class ErrorMap(Struct, frozen=True, gc=False):
    """The largest error in every part of a tensor; axes in neither `down` nor `across` are not told apart.

    Args:
        shape: of the tensor, as its indices count.
        down: axes that are folded into rows, in C order; none = one row.
        across: axes that are folded into columns.
        cell: rows and columns that a cell holds; the last ones of either may hold fewer.
        errors: largest absolute error of each cell, row by row, among the elements that are finite on both sides; None
            where there is no such element. Rounded to 4 significant digits.
        alike: numbers of the cells with NaN or infinities that both sides have, ascending.
        mismatch: numbers of the cells where such a value is on one side only, or another one on the other.
    """

    shape: tuple[int, ...]
    down: tuple[int, ...]
    across: tuple[int, ...]
    cell: tuple[int, int]
    errors: tuple[float | None, ...]
    alike: tuple[int, ...] = ()
    mismatch: tuple[int, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """How many rows and columns the axes give."""
        return math.prod(self.shape[axis] for axis in self.down), math.prod(self.shape[axis] for axis in self.across)

    @property
    def cells(self) -> tuple[int, int]:
        """How many cells there are down and across."""
        (rows, columns), (tall, wide) = self.size, self.cell
        return -(-rows // tall), -(-columns // wide)


class Coverage(Struct, frozen=True, gc=False):
    """Tensors of one side, by what became of them.

    Args:
        tensors: all of them; each is one of the next four.
        compared: those with a verdict on their values.
        expected: those that have no counterpart by nature.
        outside: those that were not asked for.
        missing: those that should have been compared and were not, unreadable ones included.
        unreadable: those of the missing ones that cannot be read.
        outputs: tensors that a node wrote.
        outputs_compared, outputs_missing: of these.
        outputs_nonfinite: compared outputs without any position that is finite on both sides.
        outputs_zero: compared outputs that are zero everywhere on both sides.
        outputs_silent: outputs that the dump lacks of operators that ran, so that no tensor here stands for them.
    """

    tensors: int = 0
    compared: int = 0
    expected: int = 0
    outside: int = 0
    missing: int = 0
    unreadable: int = 0
    outputs: int = 0
    outputs_compared: int = 0
    outputs_missing: int = 0
    outputs_nonfinite: int = 0
    outputs_zero: int = 0
    outputs_silent: int = 0

    @property
    def asked(self) -> int:
        """Tensors that were to be compared."""
        return self.compared + self.missing

    @property
    def ratio(self) -> float | None:
        """Compared / (compared + missing) in [0, 1], of outputs where the side has some; None: nothing to compare.

        Silent outputs count as missing.
        """
        if self.outputs:
            compared = self.outputs_compared
            total = compared + self.outputs_missing + self.outputs_silent
        else:
            compared, total = self.compared, self.asked
        return compared / total if total else None


class FindingKind(enum.Enum):
    """What a finding concludes.

    ``golden_error``: the sides differ, but the reference says it is not the target. ``not_deterministic``: repeated
    runs of one side differ. ``suspect``: what comes near to being an origin, or what extremes do not clear before one;
    it fails nothing. ``random_state``: a random operator drew otherwise than the golden's. ``failure``: a node that
    fails by itself, where the dump tells of no path that an error could have come along. ``overflow``: a unit of the
    device reported an overflow. ``remark``: what another file says of the run; it fails nothing.
    """

    ORIGIN = "origin"
    NONFINITE_ORIGIN = "nonfinite_origin"
    CHECKSUM_ORIGIN = "checksum_origin"
    DRIFT = "drift"
    COVERAGE = "coverage"
    GOLDEN_ERROR = "golden_error"
    NOT_DETERMINISTIC = "not_deterministic"
    SUSPECT = "suspect"
    FAILURE = "failure"
    OVERFLOW = "overflow"
    REMARK = "remark"
    RANDOM_STATE = "random_state"

    __hash__ = object.__hash__  # Enum's own is a call of Python, made five times a finding


class ErrorShape(enum.Enum):
    """What an error looks like, which says more about its cause than its size does.

    ``factor``: all elements are off by one ratio. ``offset``: by one amount. ``part``: few elements hold it, one or a
    row. ``choice``: other elements were picked. ``noise``: none of these, as rounding leaves it. Where more was read of
    the elements: ``zeros``: the target wrote nothing else. ``order``: the golden's values in other places.
    ``saturated``: the target stops at a value. ``channel``, ``tail``: few neighbouring indices of one axis hold it, or
    its last ones.
    """

    FACTOR = "factor"
    OFFSET = "offset"
    PART = "part"
    CHOICE = "choice"
    ZEROS = "zeros"
    ORDER = "order"
    SATURATED = "saturated"
    CHANNEL = "channel"
    TAIL = "tail"
    NOISE = "noise"

    __hash__ = object.__hash__


class Finding(Struct, frozen=True, gc=False):
    """One conclusion of the analysis.

    Args:
        kind: what it is.
        node: node concerned (target name space), None for findings about the whole run.
        slot: tensor of the node.
        evidence: the claim in words with its figures.
        size: how large the error is that nothing explains, in a few words, e.g. ``25.5 x rounding, scale +2.15%``.
        severity: how strong the evidence is, comparable between findings of one kind (excess over what rounding
            and the inputs explain; 1.0 = exactly explained).
        fails: whether the gate ``findings`` fails on it.
        row: `Row.order` of the row that shows it.
        metrics: the figures behind the evidence.
        excuse: why a finding that would fail the gate does not; the evidence ends with its text.
        shape: what the error looks like, where it has finite elements.
        shape_at: where that shows, e.g. ``index 3 of axis 1``, or the value at which the target stops.
        undecided: why nothing in the dumps decides whether what it tells of is wrong. ``part``: they do not hold the
            calls that made it; where nothing fails the run is incomplete. ``near tie``: decisions before it may have
            fallen otherwise, and statistics show no more of it; the verdict says so.
        others: rows of which the same is told.
    """

    kind: FindingKind
    node: NodeKey | None
    slot: Slot | None
    evidence: str
    severity: float
    fails: bool = True
    row: int | None = None
    metrics: Mapping[str, float | int | bool | None] = field(default_factory=dict)
    excuse: Excuse | None = None
    size: str = ""
    shape: ErrorShape | None = None
    shape_at: str = ""
    undecided: Literal["part", "near tie"] | None = None
    others: tuple[int, ...] = ()

    @classmethod
    def at(cls, number: int, row: Row, kind: FindingKind, evidence: str, *, severity: float, **more: Any) -> Finding:
        """Return a finding about a row and its number, with its metrics; ``more`` are other fields."""
        more.setdefault("metrics", row.measurement.metrics if row.measurement is not None else {})
        return cls(kind, row.node, row.pair.shown.slot, evidence, severity, row=number, **more)


class WaiverState(enum.Enum):
    """What became of a waiver: it covered failures, had none to cover, did not hold any more, or not so far."""

    USED = "used"
    UNUSED = "unused"
    EXPIRED = "expired"
    EXCEEDED = "exceeded"


class WaiverUse(Struct, frozen=True, gc=False):
    """One waiver of the workflow, and what it did.

    Args:
        where: its patterns, as text.
        reason, owner, expires: as written.
        bound: its bounds, as text.
        state: what became of it.
        rows: failing rows that it covers.
        findings: findings that it covers.
        exceeded: failing rows and findings that fit its patterns but not its bound.
    """

    where: str
    reason: str
    owner: str
    expires: str
    bound: str
    state: WaiverState
    rows: int = 0
    findings: int = 0
    exceeded: int = 0


class TensorDetail(Struct, frozen=True, gc=False):
    """A closer look at one row: the values around the largest error, and how the errors are distributed.

    Args:
        start: flat logical index of the first value shown.
        target, golden: the values from there on (the same number on both sides).
        edges: bounds of the classes of absolute error, ascending; ``len(counts) + 1`` of them.
        counts: elements per class; errors of exactly 0 are counted in ``equal``.
        equal: elements without error.
        maps: where in the tensor the errors are; for the rows that people will ask about first.
    """

    start: int
    target: tuple[float, ...]
    golden: tuple[float, ...]
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    equal: int
    maps: tuple[ErrorMap, ...] = ()


ALL_PASS = "all_pass"
"""The gate that any failing row fails; ``findings`` looks at findings."""


class Comparison(Struct, frozen=True, gc=False):
    """The result of `compare`.

    Args:
        pairs: what was compared, with both catalogs.
        rows: one per pair, in execution order: rank, graph, step, node order, inputs before outputs, numeric index.
        findings: ranked, the most important first.
        coverage: per side, ``target`` and ``golden``.
        gate: name of the gate that judged (``findings`` or ``all_pass``); empty where a dump is shown and not judged.
        gate_passed: its answer.
        incomplete: why the run counts as incomplete; empty when it is complete.
        caveats: what whoever reads the verdict has to know beside it, a few words each: that a part was compared only,
            that both sides are the same dump, that values say nothing.
        policy: name of the policy.
        problems: diagnostics of compare itself.
        details: `Row.order` -> a closer look, for the rows that people will ask about.
        waivers: what became of each waiver, as written.
        baseline: what became of the baseline; None when the stage has none.
    """

    pairs: Pairs
    rows: Sequence[Row]
    findings: tuple[Finding, ...]
    coverage: Mapping[str, Coverage]
    gate: str
    gate_passed: bool
    incomplete: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    policy: str = ""
    problems: tuple[Diagnostic, ...] = ()
    details: Mapping[int, TensorDetail] = field(default_factory=dict)
    waivers: tuple[WaiverUse, ...] = ()
    baseline: BaselineUse | None = None

    @property
    def judges_rows(self) -> bool:
        """Whether any failing row fails the gate, not a finding."""
        return self.gate == ALL_PASS
