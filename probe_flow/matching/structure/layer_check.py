"""A suggested layer mapping, applied to the dumps it was made from: no entry stays that their values contradict.

Values that differ contradict nothing, for behind a fault they do. An entry is contradicted where it pairs a tensor with
one that differs although the golden has the same values at another place, which the mapping gives to a tensor that
differs from it as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Span
from probe_flow.mappings.mapping_file import ClassEntries, Entry
from probe_flow.matching.alike.values import CLOSE, EQUAL, likeness
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.matching.structure.confidence import RIVAL
from probe_flow.matching.structure.layer_mapping import SuggestedEntry, Suggestion
from probe_flow.records import Catalog, Pairs, SlotRole, TensorRef

MAX_CANDIDATES = 64
"""Tensors of one shape among which the same values are looked for."""

_FILE = "suggestion"


class _Votes(Struct):
    """What values say of one entry: pairs that agree, and those that belong elsewhere, in words."""

    agreeing: int = 0
    against: list[str] = field(default_factory=list)


def without_contradictions(suggestion: Suggestion, target: Catalog, golden: Catalog) -> Suggestion:
    """Return the suggestion without the entries that the values of the two dumps contradict more than they confirm.

    Entries that values contradict in some places stay, marked for a look; those left out are in ``rejected``.
    """
    while suggestion.entries:
        numbered = [(owner, entry) for owner, entries in suggestion.classes.items() for entry in entries]
        votes = _votes(match_layer_mapping(target, golden, entries=_as_file(numbered)))
        wrong = [n for n, each in votes.items() if len(each.against) > each.agreeing]
        if not wrong:
            return _marked(suggestion, numbered, votes)
        rejected = tuple((numbered[n][0], replace(numbered[n][1], note=_words(votes[n]))) for n in wrong)
        left = [each for n, each in enumerate(numbered) if n not in wrong]
        suggestion = replace(suggestion, classes=_by_owner(left), rejected=(*suggestion.rejected, *rejected))
    return suggestion


def _as_file(numbered: Sequence[tuple[str, SuggestedEntry]]) -> list[ClassEntries]:
    """Return the entries as a mapping file would give them, each with its number as line."""
    return [
        ClassEntries(owner, span, (Entry(".".join(entry.child), ".".join(entry.partner), span),))
        for number, (owner, entry) in enumerate(numbered)
        for span in (Span(_FILE, number + 1, 1),)
    ]


def _by_owner(numbered: Sequence[tuple[str, SuggestedEntry]]) -> dict[str, tuple[SuggestedEntry, ...]]:
    found: dict[str, tuple[SuggestedEntry, ...]] = {}
    for owner, entry in numbered:
        found[owner] = (*found.get(owner, ()), entry)
    return found


def _votes(pairs: Pairs) -> dict[int, _Votes]:
    """Return what values say, by the number of the entry that led to a pair."""
    known = [(pair.target, pair.golden) for pair in pairs.pairs if pair.target is not None and pair.golden is not None]
    partner_of = {id(other): one for one, other in known}
    places = _Places(pairs.golden)
    votes: dict[int, _Votes] = defaultdict(_Votes)
    for pair in pairs.pairs:
        one, other, span = pair.target, pair.golden, pair.rule_span
        if one is None or other is None or span is None:
            continue
        alike = likeness(one, other)
        if alike is None:
            continue
        if alike >= CLOSE:
            votes[span.line - 1].agreeing += 1
            continue
        home = next((ref for ref in places.of(one, other) if _is_lost(ref, partner_of.get(id(ref)))), None)
        if home is not None:
            text = f"`{_text(one)}` differs from `{_text(other)}` and has the values of `{_text(home)}`"
            votes[span.line - 1].against.append(text)
    return votes


def _is_lost(ref: TensorRef, partner: TensorRef | None) -> bool:
    """Say whether a golden tensor has no partner, or one that differs from it."""
    alike = likeness(partner, ref) if partner is not None else 0.0
    return alike is not None and alike < CLOSE


def _is_same(one: TensorRef, other: TensorRef) -> bool:
    """Say whether two tensors have the same values, constants included."""
    alike = likeness(one, other)
    if alike is not None or one.recorded is None or other.recorded is None:
        return alike is not None and alike >= EQUAL
    return one.recorded.max is not None and one.recorded.max == other.recorded.max


class _Places:
    """The golden tensors that a target tensor could belong to: parameters anywhere, others within the paired call."""

    def __init__(self, golden: Catalog) -> None:
        self._alike: dict[Hashable, list[TensorRef]] = {}
        for ref in golden.tensors:
            self._alike.setdefault(self._key(ref, ref), []).append(ref)

    def of(self, one: TensorRef, other: TensorRef) -> Iterator[TensorRef]:
        """Yield the golden tensors with the values of a target tensor that is paired with another one."""
        candidates = self._alike.get(self._key(one, other), [])
        for ref in candidates[:MAX_CANDIDATES]:
            if ref is not other and _is_same(one, ref):
                yield ref

    def _key(self, ref: TensorRef, golden: TensorRef) -> Hashable:
        is_parameter = ref.slot.role is SlotRole.PARAMETER
        return ref.logical_shape, ref.slot.role, golden.slot if is_parameter else golden.node


def _marked(
    suggestion: Suggestion, numbered: Sequence[tuple[str, SuggestedEntry]], votes: Mapping[int, _Votes]
) -> Suggestion:
    """Return the suggestion with the entries that values contradict in places marked for a look."""
    marked = [
        (owner, replace(entry, confidence=min(entry.confidence, RIVAL), note=_words(votes[number])))
        if number in votes and votes[number].against
        else (owner, entry)
        for number, (owner, entry) in enumerate(numbered)
    ]
    return replace(suggestion, classes=_by_owner(marked))


def _words(votes: _Votes) -> str:
    more = f", and {len(votes.against) - 1} more" if len(votes.against) > 1 else ""
    return f"{votes.against[0]}{more}; {votes.agreeing} pairs agree"


def _text(ref: TensorRef) -> str:
    return str(ref.item or f"{ref.node.name}.{ref.slot}")
