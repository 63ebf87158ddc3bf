"""How sure a pair made by structure is, in figures and in words."""

from __future__ import annotations

from probe_flow.matching.alike.values import CLOSE, EQUAL
from probe_flow.matching.name.reasons import entry_of
from probe_flow.matching.name.side import Side
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.matching.structure.align import COMPOSITE_LIKENESS, Link
from probe_flow.matching.structure.likeness import STRONG, value_likeness, words
from probe_flow.matching.structure.nodes import NodeLinks
from probe_flow.matching.structure.phase_tree import PhaseTree, Traits
from probe_flow.records import GUESS, Reason
from probe_flow.relations.call_tree import ROOT

RIVAL = 0.5
"""Confidence of a pair where others fit as well."""

_WEAK, _MOVED = 0.6, 0.7
_BY_STRUCTURE, _CLOSE_VALUES, _EQUAL_VALUES, _SAME_NAME = 0.85, 0.9, 0.95, 0.99


class Confidence:
    """Confidence of the links of two executions."""

    def __init__(self, target: Side, golden: Side, links: NodeLinks) -> None:
        self._target = target
        self._golden = golden
        self._links = links
        self._known: dict[Link, float] = {}

    def of(self, link: Link) -> float:
        """Return a link's confidence: below 1, for a link is a guess from evidence."""
        basis = link.through or link
        if basis not in self._known:
            own = self._weighed(basis)
            self._known[basis] = own if self._doubtful_caller(basis) is None else min(own, RIVAL)
        return self._known[basis]

    def is_guess(self, link: Link) -> bool:
        """Say whether a link is so weak that people should look at it."""
        return self.of(link) <= GUESS

    def note(self, link: Link) -> Reason | None:
        """Return what a guess rests on, in words; None for a link that is none."""
        if not self.is_guess(link):
            return None
        parts = [self._words(link)]
        if link.rival is not None:
            side, number = (self._golden, link.rival) if link.rival >= 0 else (self._target, -1 - link.rival)
            word = "golden" if link.rival >= 0 else "target"
            what = "what it follows from" if link.through is not None else "it"
            parts.append(f"`{entry_of(side.nodes[number])}` of the {word} fits {what} as well: the order decided")
        doubtful = self._doubtful_caller(link.through or link)
        if doubtful is not None:
            parts.append(f"it lies within `{entry_of(self._target.nodes[doubtful])}`, whose partner is a guess")
        if link.is_moved:
            parts.append("it stands in another order or under another caller")
        text = f"paired by structure, confidence {self.of(link):g}: " + "; ".join(part for part in parts if part)
        return CommonReason.GUESSED.expected(text)

    def evidence(self, link: Link) -> str:
        """Return what speaks for a link, in words."""
        return self._words(link)

    def _weighed(self, link: Link) -> float:
        one, other = self._target.nodes[link.target[0]], self._golden.nodes[link.golden[0]]
        if link.rival is not None:
            return RIVAL
        if len(link.target) != len(link.golden):
            return COMPOSITE_LIKENESS
        if entry_of(one) == entry_of(other) and link.likeness >= STRONG:
            return _SAME_NAME
        if link.is_moved:
            return _MOVED
        if link.likeness < STRONG:
            return _WEAK
        traits = self._traits(link)
        values = value_likeness(*traits) if traits is not None else None
        if values is None or values < CLOSE:
            return _BY_STRUCTURE
        return _EQUAL_VALUES if values >= EQUAL else _CLOSE_VALUES

    def _doubtful_caller(self, link: Link) -> int | None:
        """Return the nearest target module around a link whose partner another one could be."""
        phase = self._target.nodes[link.target[0]].key.phase
        tree = self._links.trees[phase][0] if phase in self._links.trees else None
        number = ROOT if tree is None else tree.parent.get(link.target[0], ROOT)
        while tree is not None and number != ROOT:
            around = self._links.of_target.get(number)
            if around is not None and around.rival is not None:
                return number
            number = tree.parent[number]
        return None

    def _words(self, link: Link) -> str:
        if len(link.target) != len(link.golden):
            return "several calls in a row do the work of one"
        basis = link.through or link
        traits = self._traits(basis)
        known = words(*traits) if traits is not None else "they have one name"
        return f"one class and one path below the outermost part, {known}" if basis.is_same_place else known

    def _traits(self, link: Link) -> tuple[Traits, Traits] | None:
        for trees in self._links.trees.values():
            pair = _of(trees[0], link.target[0]), _of(trees[1], link.golden[0])
            if pair[0] is not None and pair[1] is not None:
                return pair[0], pair[1]
        return None


def _of(tree: PhaseTree, number: int) -> Traits | None:
    return tree.traits.get(number)
