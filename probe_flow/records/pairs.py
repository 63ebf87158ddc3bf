"""Pairs: which target tensor is compared with which golden tensor, and why; what has no partner, and why not."""

from __future__ import annotations

import enum
from abc import abstractmethod
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span
from probe_flow.records.catalog import Catalog
from probe_flow.records.figures import shared_numbers
from probe_flow.records.frameworks import NO_FRAMEWORK
from probe_flow.records.node import NodeKey, entry_name
from probe_flow.records.reasons import Reason, Rule
from probe_flow.records.tensor import TensorRef
from probe_flow.records.tensor_traits import TensorKind

if TYPE_CHECKING:
    from probe_flow.records.figures import Integers

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


class Relation(enum.Enum):
    """How many nodes of each side a group holds. ``self``: both tensors of each pair come from the target."""

    ONE_TO_ONE = "1:1"
    MANY_TO_ONE = "n:1"
    ONE_TO_MANY = "1:n"
    MANY_TO_MANY = "n:m"
    L1 = "l1"
    SELF = "self"


class Group(Struct, frozen=True, gc=False):
    """Nodes that belong together. Several groups may share nodes (a golden output can feed many inputs).

    Args:
        id: names it.
        relation: how many nodes of each side it holds.
        targets, goldens: its nodes; of most groups one a side, without a tuple around it.
    """

    id: str
    relation: Relation
    targets: NodeKey | tuple[NodeKey, ...]
    goldens: NodeKey | tuple[NodeKey, ...]

    @property
    def target_nodes(self) -> tuple[NodeKey, ...]:
        """Its nodes of the target."""
        return self.targets if isinstance(self.targets, tuple) else (self.targets,)

    @property
    def golden_nodes(self) -> tuple[NodeKey, ...]:
        """Its nodes of the golden."""
        return self.goldens if isinstance(self.goldens, tuple) else (self.goldens,)


class OfEntry(Struct, frozen=True, gc=False):
    """Groups of one node of the target each, by the name of its entry; the same object for all of them.

    A text for each node would take a tenth of the memory of a run's rows.

    Args:
        label: what stands before the name.
    """

    label: str

    def id_of(self, target: TensorRef) -> str:
        """Return the id of the group of a node, of which this is a tensor."""
        kind = target.traits.facts.named_by
        assert kind is not None
        return f"{self.label}: {entry_name(target.node, kind)}"


_of_entry = lru_cache(maxsize=1 << 10)(OfEntry)


def _one_or_all(nodes: Iterable[NodeKey]) -> NodeKey | tuple[NodeKey, ...]:
    """Return nodes as groups have them."""
    found = tuple(nodes)
    return found[0] if len(found) == 1 else found


GUESS = 0.7
"""Confidence up to which a pair with a reason that is a guess rests on likeness, order or place alone."""


class Terms(Struct, frozen=True, gc=False):
    """On what terms two tensors are compared; the same object for nearly all pairs.

    Args:
        rule_span: the line of the mapping file behind it.
        confidence: 1.0 for identity, less for guesses.
        transform: names of the steps that make the two comparable, e.g. ``golden:nhwc_to_nchw``.
        reference: the tensor that judges both.
    """

    rule_span: Span | None = None
    confidence: float = 1.0
    transform: tuple[str, ...] = ()
    reference: TensorRef | None = None


_shared_terms = lru_cache(maxsize=1 << 12)(Terms)
_USUAL = _shared_terms()


class Pair(Struct, frozen=True, gc=False):
    """One decision to compare; a missing side is None and then ``reason`` says why.

    Args:
        target, golden: the tensors.
        grouping: id of the group; where that is by the target's entry, how it is made.
        rule: how the pair was made.
        reason: for one-sided pairs why; for others what was noted (e.g. aligned by shape).
        terms: on what terms the two are compared.
    """

    target: TensorRef | None
    golden: TensorRef | None
    grouping: str | OfEntry
    rule: Rule
    reason: Reason | None = None
    terms: Terms = _USUAL

    @classmethod
    def on_terms(
        cls,
        target: TensorRef | None,
        golden: TensorRef | None,
        group: str,
        rule: Rule,
        reason: Reason | None = None,
        *,
        rule_span: Span | None = None,
        confidence: float = 1.0,
        transform: tuple[str, ...] = (),
        label: str | None = None,
    ) -> Pair:
        """Make a pair on other terms than the usual ones.

        Args:
            target, golden, group, rule, reason, rule_span, confidence, transform: as they are.
            label: what stands in ``group`` before the name of the target's entry, where the key says that.
        """
        is_named = label is not None and target is not None and target.traits.facts.named_by is not None
        grouping = _of_entry(label) if is_named else group
        return cls(target, golden, grouping, rule, reason, _shared_terms(rule_span, confidence, transform))

    @staticmethod
    def groups_of(pairs: Iterable[Pair]) -> Iterator[str]:
        """Yield the groups of pairs; the text is made once for neighbours of one group."""
        node: NodeKey | None = None
        grouping: str | OfEntry = ""
        name = ""
        for pair in pairs:
            tensor = pair.target or pair.golden
            assert tensor is not None
            if tensor.node is not node or pair.grouping is not grouping:
                node, grouping, name = tensor.node, pair.grouping, pair.group
            yield name

    def judged_by(self, reference: TensorRef | None) -> Pair:
        """Return the pair with the tensor that judges both sides."""
        return replace(self, terms=replace(self.terms, reference=reference))

    @property
    def group(self) -> str:
        """Id of the group."""
        return self.grouping if isinstance(self.grouping, str) else self.grouping.id_of(self.shown)

    @property
    def reference(self) -> TensorRef | None:
        """The tensor that judges both sides."""
        return self.terms.reference

    @property
    def rule_span(self) -> Span | None:
        """The line of the mapping file behind it."""
        return self.terms.rule_span

    @property
    def confidence(self) -> float:
        """1.0 for identity, less for guesses."""
        return self.terms.confidence

    @property
    def transform(self) -> tuple[str, ...]:
        """Names of the steps that make the two comparable, e.g. ``golden:nhwc_to_nchw``."""
        return self.terms.transform

    @property
    def shown(self) -> TensorRef:
        """The side that names the row: the target if there is one."""
        tensor = self.target or self.golden
        assert tensor is not None, "a pair has at least one side"
        return tensor

    @property
    def is_opaque(self) -> bool:
        """Whether neither side is a tensor, so that there are no values to compare."""
        return (
            self.target is not None
            and self.golden is not None
            and self.target.kind is self.golden.kind is TensorKind.OPAQUE
        )

    @property
    def is_guess(self) -> bool:
        """Whether the matcher guessed, and says so in the reason: values that differ may refute the pair."""
        return self.confidence <= GUESS and self.reason is not None and self.reason.kind.is_guess


class Many(Sequence[_T]):
    """So many records that they are made when they are asked for, some at a time (`records.tables`).

    Those of one slice are there together; otherwise nothing may tell records apart by identity.
    """

    @abstractmethod
    def some(self, numbers: Iterable[int]) -> Sequence[_T]:
        """Return some of them, in this order."""


def numbers_for(things: Sequence[object], count: int) -> Sequence[int]:
    """Return the numbers from 0 to at least ``count`` - 1 for who numbers things: the same objects for all who do.

    Things that are made when they are asked for are numbered in columns, and their numbers are no objects.
    """
    return range(count) if isinstance(things, Many) else shared_numbers(count)


def some_of(things: Sequence[_T], numbers: Iterable[int]) -> Sequence[_T]:
    """Return some records, in this order."""
    return things.some(numbers) if isinstance(things, Many) else [*map(things.__getitem__, numbers)]


def grouped(things: Sequence[_T], keys: Iterable[_K]) -> dict[_K, Sequence[_T]]:
    """Return the things of each key, in order of first appearance; `keys` has one for each of them."""
    found: dict[_K, Integers] = {}
    for number, key in enumerate(keys):
        numbers = found.get(key)
        if numbers is None:
            numbers = found[key] = array("I")
        numbers.append(number)
    return {key: some_of(things, numbers) for key, numbers in found.items()}


class Pairs(Struct, frozen=True, gc=False):
    """Everything a matcher decided. Every tensor of both catalogs occurs in at least one pair.

    Args:
        target, golden, reference: the dumps.
        pairs: the decisions.
        groups: nodes that belong together; those that the pairs tell, of one node a side, may be left out.
        problems: what is worth saying about the decisions.
        unused: warnings of what was to pair something and matched nothing: entries of mapping files, of `pair_ranks`.
        measured: number of a pair -> what was measured of it where its values were (`metrics.brought`); its
            tensors need not lie in any file. A comparison takes it as it takes what an earlier run kept.
        files: result files that whoever made the pairs wrote.
    """

    target: Catalog
    golden: Catalog
    pairs: Sequence[Pair]
    groups: tuple[Group, ...] = ()
    reference: Catalog | None = None
    problems: tuple[Diagnostic, ...] = ()
    unused: tuple[Diagnostic, ...] = ()
    measured: Mapping[int, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @classmethod
    def alone(cls, dump: Catalog, pairs: tuple[Pair, ...] = ()) -> Pairs:
        """Return pairs of one dump by itself, which counts as the target."""
        return cls(dump, Catalog("golden", NO_FRAMEWORK, dump.task, "", {}, (), flow=dump.flow), pairs)

    @property
    def is_examination(self) -> bool:
        """Whether one dump is examined by itself: the golden is a catalog of no dump, which has no path."""
        return not self.golden.root

    def all_groups(self) -> tuple[Group, ...]:
        """Return `groups`, and before them those that the pairs alone tell, in their order."""
        known = {group.id for group in self.groups}
        told: dict[str, tuple[dict[NodeKey, None], dict[NodeKey, None]]] = {}
        for pair in self.pairs:
            name = pair.group
            if name not in known:
                nodes = told.setdefault(name, ({}, {}))
                for of_side, tensor in zip(nodes, (pair.target, pair.golden), strict=True):
                    if tensor is not None:
                        of_side[tensor.node] = None
        return *(
            Group(name, Relation.ONE_TO_ONE, *map(_one_or_all, nodes)) for name, nodes in told.items()
        ), *self.groups

    @property
    def catalogs(self) -> tuple[Catalog, ...]:
        """The dumps of all sides that there are: target, golden, reference."""
        sides = self.target, None if self.is_examination else self.golden, self.reference
        return tuple(side for side in sides if side is not None)
