"""Pairs: which target tensor is compared with which golden tensor, and why; what has no partner, and why not."""

from __future__ import annotations

import enum

from msgspec import Struct

from probe_flow.errors import Diagnostic, Span
from probe_flow.records.catalog import Catalog
from probe_flow.records.node import NodeKey
from probe_flow.records.reasons import Rule
from probe_flow.records.tensor import TensorRef


class Relation(enum.Enum):
    """How many nodes of each side a group holds. ``self``: both tensors of each pair come from the target."""

    ONE_TO_ONE = "1:1"
    MANY_TO_ONE = "n:1"
    ONE_TO_MANY = "1:n"
    MANY_TO_MANY = "n:m"
    L1 = "l1"
    SELF = "self"


class Group(Struct, frozen=True, gc=False):
    """Nodes that belong together. Several groups may share nodes (a golden output can feed many inputs)."""

    id: str
    relation: Relation
    target_nodes: tuple[NodeKey, ...]
    golden_nodes: tuple[NodeKey, ...]


class Expectation(enum.Enum):
    """Whether a tensor that was not compared had to be.

    ``expected``: it has no counterpart by nature (an intermediate value of a fused operator, an argument that is no
    tensor). ``outside``: it is not asked for (left out by a selection, or not named by the rules or the mapping that
    state what is compared); the run is told to be partial. ``missing``: a gap, which lowers the coverage.
    """

    EXPECTED = "expected"
    OUTSIDE = "outside"
    MISSING = "missing"


class ReasonCode(enum.Enum):
    """The codes of reasons that stages, analysis and tables ask for. Other codes are words for people only."""

    GUESSED = "guessed"
    QUANTISED = "quantised"
    SHAPE_MISMATCH = "shape_mismatch"
    BLOCKS_MISMATCH = "blocks_mismatch"
    BLOCKS_CONTRADICT = "blocks_contradict"
    NOT_SELECTED = "not_selected"
    FILTERED = "filtered"
    OUTSIDE_MAPPING = "outside_mapping"


GUESS = 0.7
"""Confidence up to which a pair with the reason `ReasonCode.GUESSED` rests on likeness, order or place alone."""


class Reason(Struct, frozen=True, gc=False):
    """Why a tensor was not compared, or not as it stands.

    Args:
        code: a short stable word, e.g. ``no_golden_op``, ``internal``, ``not_tensor``.
        text: the same for people, with names.
        expectation: whether this is a gap.
        facts: names and figures of the text, for tables that have words of their own for the code.
    """

    code: str
    text: str
    expectation: Expectation
    facts: tuple[str, ...] = ()

    def is_any(self, *codes: ReasonCode) -> bool:
        """Return whether the code is one of these."""
        return any(self.code == code.value for code in codes)


class Pair(Struct, frozen=True, gc=False):
    """One decision to compare; a missing side is None and then ``reason`` says why.

    Args:
        target, golden, reference: the tensors.
        group: id of the group.
        rule: how the pair was made.
        rule_span: the line of the mapping file behind it.
        confidence: 1.0 for identity, less for guesses.
        reason: for one-sided pairs why; for others what was noted (e.g. aligned by shape).
        transform: names of the steps that make the two comparable, e.g. ``golden:nhwc_to_nchw``.
    """

    target: TensorRef | None
    golden: TensorRef | None
    group: str
    rule: Rule
    reference: TensorRef | None = None
    rule_span: Span | None = None
    confidence: float = 1.0
    reason: Reason | None = None
    transform: tuple[str, ...] = ()

    @property
    def shown(self) -> TensorRef:
        """The side that names the row: the target if there is one."""
        tensor = self.target or self.golden
        assert tensor is not None, "a pair has at least one side"
        return tensor

    @property
    def is_guess(self) -> bool:
        """Whether the matcher guessed, and says so in the reason: values that differ may refute the pair."""
        return self.confidence <= GUESS and self.reason is not None and self.reason.is_any(ReasonCode.GUESSED)


class Pairs(Struct, frozen=True, gc=False):
    """Everything a matcher decided. Every tensor of both catalogs occurs in at least one pair.

    Args:
        target, golden, reference: the dumps.
        pairs: the decisions.
        groups: nodes that belong together.
        problems: what is worth saying about the decisions.
        unused: warnings of what was to pair something and matched nothing: entries of mapping files, of `pair_ranks`.
    """

    target: Catalog
    golden: Catalog
    pairs: tuple[Pair, ...]
    groups: tuple[Group, ...] = ()
    reference: Catalog | None = None
    problems: tuple[Diagnostic, ...] = ()
    unused: tuple[Diagnostic, ...] = ()

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """The dumps of all sides that there are: target, golden, reference."""
        return tuple(side for side in (self.target, self.golden, self.reference) if side is not None)
