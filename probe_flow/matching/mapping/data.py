"""Matching under a data mapping: tensor by tensor as the file says, the others by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.mappings.mapping_file import Entry
from probe_flow.matching.mapping.use import capped, leads_nowhere, useless
from probe_flow.matching.mapping.vocabulary import MappingReason, MappingRule
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.name.name_space import NameSpace, is_cross_framework
from probe_flow.matching.name.reasons import entry_of
from probe_flow.matching.name.slots import Decision, pair_twosome
from probe_flow.matching.shared.executions import pair_executions
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.records import (
    Catalog,
    Execution,
    Group,
    Pair,
    Pairs,
    Reason,
    Relation,
    TensorRef,
)


def match_data_mapping(
    target: Catalog,
    golden: Catalog,
    *,
    entries: Sequence[Entry],
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair the items that a data mapping names as it says, and the others by name.

    Dtypes are not checked: the file is the user's word. An item of the golden that the file claims is compared with
    nothing else.

    Args:
        target, golden: the dumps.
        entries: of the mapping file: item of the target, item of the golden or None.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
    """
    target, golden = target.in_full(), golden.in_full()
    space = NameSpace(checks_dtypes=False)
    named = match_name(target, golden, space=space, pair_ranks=pair_ranks, step_offset=step_offset)
    runs = pair_executions(target.executions, golden.executions, pair_ranks=pair_ranks, step_offset=step_offset)
    mapping = _Mapping(target, golden, {entry.target: entry for entry in entries}, runs.golden_of)
    pairs = tuple(pair for each in named.pairs for pair in mapping.pairs(each))
    rest = tuple(mapping.left_over({id(pair.golden) for pair in pairs}))
    return replace(
        named,
        pairs=tuple(mapping.scoped((*pairs, *rest))),
        groups=(*named.groups, *mapping.groups.values()),
        problems=(*named.problems, *mapping.shared(entries)),
        unused=(*named.unused, *mapping.unused(entries)),
    )


def item_of(tensor: TensorRef) -> str:
    """Return the full item name of a tensor."""
    return tensor.id if tensor.item is None else tensor.item


class _Mapping(Struct):
    target: Catalog
    golden: Catalog
    entries: Mapping[str, Entry]
    runs: Mapping[Execution, Execution]
    groups: dict[str, Group] = field(default_factory=dict)
    _items: dict[tuple[Execution, str], TensorRef] = field(default_factory=dict)
    _claimed: frozenset[str] = frozenset()
    _found: set[str] = field(default_factory=set)
    _is_foreign: bool = False

    def __post_init__(self) -> None:
        self._items = {(tensor.node.execution, item_of(tensor)): tensor for tensor in self.golden.tensors}
        self._claimed = frozenset(entry.golden for entry in self.entries.values() if entry.golden is not None)
        self._is_foreign = is_cross_framework(self.target, self.golden)

    def pairs(self, pair: Pair) -> Iterator[Pair]:
        """Yield what the mapping makes of one pair by name."""
        one, other = pair.target, pair.golden
        entry = self.entries.get(item_of(one)) if one is not None else None
        is_taken = other is not None and item_of(other) in self._claimed
        if one is not None and entry is not None:
            self._found.add(entry.target)
            yield from self._mapped(one, entry)
            if other is not None and not is_taken:
                yield Pair(None, other, pair.group, CommonRule.NONE, reason=_elsewhere(item_of(one), entry))
        elif one is not None and is_taken:
            text = f"the data mapping gives `{item_of(other) if other else ''}` to another item"
            yield replace(pair, golden=None, rule=CommonRule.NONE, reason=MappingReason.MAPPED_AWAY.missing(text))
        elif not is_taken:
            yield pair

    def scoped(self, pairs: Sequence[Pair]) -> Iterator[Pair]:
        """Yield the pairs, those that the file does not ask for with that reason.

        It lists what is compared, so of two dumps whose other names differ the rest is outside the comparison. Where
        only one side has something left, that is missing.
        """
        lone = [self._is_lone(pair) for pair in pairs]
        has_both = len({pair.target is None for pair, is_lone in zip(pairs, lone, strict=True) if is_lone}) > 1
        for pair, is_lone in zip(pairs, lone, strict=True):
            if is_lone and has_both:
                text = f"the data mapping does not name `{item_of(pair.shown)}`: outside the comparison"
                yield replace(pair, reason=CommonReason.OUTSIDE_MAPPING.outside(text))
            else:
                yield pair

    def _is_lone(self, pair: Pair) -> bool:
        """Whether a tensor lacks its partner although its execution has one, and the file does not name it."""
        tensor, reason = pair.shown, pair.reason
        if reason is None or not reason.is_gap:
            return False
        if pair.golden is None:
            return item_of(tensor) not in self.entries and tensor.node.execution in self.runs
        is_claimed = item_of(tensor) in self._claimed
        return pair.target is None and not is_claimed and tensor.node.execution in set(self.runs.values())

    def _mapped(self, tensor: TensorRef, entry: Entry) -> Iterator[Pair]:
        partner = None
        run = self.runs.get(tensor.node.execution)
        if entry.golden is None:
            reason = CommonReason.NOT_MAPPED.expected(f"{entry.span.brief} says that it has no partner")
        elif run is None:
            text = f"{tensor.node.execution} has no counterpart in the golden"
            reason = CommonReason.NO_EXECUTION["golden"].missing(text)
        else:
            partner = self._items.get((run, entry.golden))
            text = f"the golden has no `{entry.golden}`, which {entry.span.brief} names"
            reason = MappingReason.NO_GOLDEN_ITEM.missing(text)
        decision = Decision(
            self._group(tensor, partner), MappingRule.DATA, entry.span, 1.0, self._is_foreign, checks_dtypes=False
        )
        if partner is None:
            yield decision.pair(tensor, None, reason)
        else:
            yield from pair_twosome(tensor, partner, decision)

    def _group(self, tensor: TensorRef, partner: TensorRef | None) -> str:
        """Return the group of two nodes that the mapping brings together."""
        mine = self.target.nodes[tensor.node]
        theirs = self.golden.nodes[partner.node] if partner is not None else None
        name = f"{tensor.node.execution}: {entry_of(mine)} by mapping"
        if theirs is not None:
            name += f" with {entry_of(theirs)}"
        if name not in self.groups:
            others = (theirs.key,) if theirs is not None else ()
            self.groups[name] = Group(name, Relation.ONE_TO_ONE, (mine.key,), others)
        return name

    def left_over(self, seen: set[int]) -> Iterator[Pair]:
        """Yield the golden tensors that the mapping claims for items that the target does not have."""
        for tensor in self.golden.tensors:
            if id(tensor) not in seen:
                node = self.golden.nodes[tensor.node]
                group = f"{tensor.node.execution}: golden {entry_of(node)} by mapping"
                self.groups.setdefault(group, Group(group, Relation.ONE_TO_ONE, (), (node.key,)))
                text = "the data mapping gives it to an item that the target does not have"
                yield Pair(None, tensor, group, CommonRule.NONE, reason=MappingReason.NO_TARGET_ITEM.missing(text))

    def unused(self, entries: Sequence[Entry]) -> list[Diagnostic]:
        """Return warnings about entries that match nothing on one of the sides."""
        known = {item for _, item in self._items}
        idle = [entry for entry in entries if entry.target not in self._found]
        astray = [entry for entry in self._used(entries) if entry.golden not in known]
        mine = NearestNames(("", item_of(tensor)) for tensor in self.target.tensors) if idle else None
        theirs = NearestNames(("", item) for item in known) if astray else None
        return [
            *capped("PF4216", idle, lambda entry: useless("data mapping", entry, _near(mine, entry.target))),
            *capped("PF4217", astray, lambda entry: _astray(entry, theirs)),
        ]

    def shared(self, entries: Sequence[Entry]) -> list[Diagnostic]:
        """Return warnings about golden items with several partners."""
        partners: dict[str | None, list[Entry]] = {}
        for entry in self._used(entries):
            partners.setdefault(entry.golden, []).append(entry)
        shared = {each[-1]: each for each in partners.values() if len(each) > 1}
        return capped("PF4218", list(shared), lambda entry: _shared(shared[entry]))

    def _used(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Yield the entries that give an item of the target a partner."""
        return (entry for entry in entries if entry.target in self._found and entry.golden is not None)


def _elsewhere(item: str, entry: Entry) -> Reason:
    text = f"{entry.span.brief} gives `{item}` of the target another partner"
    return MappingReason.MAPPED_AWAY.missing(text)


def _near(names: NearestNames | None, name: str) -> tuple[str, ...]:
    return names.of("", name) if names is not None else ()


def _astray(entry: Entry, names: NearestNames | None) -> Diagnostic:
    item = entry.golden or ""
    return leads_nowhere("data mapping", entry, item, _near(names, item))


def _shared(entries: Sequence[Entry]) -> Diagnostic:
    return Diagnostic(
        "PF4218",
        f"`{entries[0].golden}` is the partner of {len(entries)} target items",
        severity=Severity.WARNING,
        span=entries[-1].span,
        related=tuple((entry.span, "also here") for entry in entries[:1]),
        help="correct the entry unless it is meant",
    )
