"""Why a node or a tensor has no partner by structure."""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.matching.alike.operations import is_bookkeeping, is_layer
from probe_flow.matching.name.calls import CallPairs
from probe_flow.matching.name.reasons import Reasons, entry_of
from probe_flow.matching.name.side import Side
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.matching.structure.align import Link
from probe_flow.matching.structure.likeness import node_likeness, words
from probe_flow.matching.structure.nodes import NodeLinks
from probe_flow.matching.structure.phase_tree import PhaseTree
from probe_flow.records import Phase, Reason, TensorRef
from probe_flow.relations.call_tree import ROOT

MAX_SEARCHED = 64
"""Siblings among which the nearest candidates are looked for."""

MAX_NAMED = 3
_FROM_NAMES = (CommonReason.RECOMPUTED, CommonReason.NOT_DUMPED)
_ONE_KIND = frozenset({"L0", "L1"})
"""Levels of a dump that record modules only, or APIs only."""


class StructureReasons:
    """Says why nodes of one execution stay alone."""

    def __init__(
        self, label: str, sides: tuple[Side | None, Side | None], links: NodeLinks, *, is_foreign: bool
    ) -> None:
        self._sides = sides
        self._links = links
        self._is_foreign = is_foreign
        self._word = ("golden", "target")
        paired = CallPairs()
        paired.add((link.target[0], link.golden[0]) for link in links.links)
        self._looked_through: dict[int, set[int]] = {}
        self._plain = [
            Reasons(label, mine, other, word, paired, is_foreign=is_foreign) if mine is not None else None
            for mine, other, word in zip(sides, sides[::-1], self._word, strict=True)
        ]

    def of(self, number: int, *, is_target: bool) -> Reason:
        """Return the reason of one node."""
        which = 0 if is_target else 1
        side, plain = self._sides[which], self._plain[which]
        assert side is not None
        assert plain is not None
        other = self._sides[1 - which]
        if other is None or number in side.repeats or other.level in _ONE_KIND:
            found = plain.of(number)
            if other is None or found.kind in _FROM_NAMES:
                return found
        if (update := plain.lone_update(number)) is not None:
            return update
        word, node = self._word[which], side.nodes[number]
        entry = entry_of(node)
        tree = self._tree(node.key.phase, which)
        forward = self._forward(side, number, which)
        if forward is not None:
            text = f"the forward of `{entry}` has no counterpart in the {word}"
            expectation = self.of(forward, is_target=is_target).expectation
            return Reason(CommonReason.NO_FORWARD[word], text, expectation)
        if tree is None or number not in tree.traits:
            return CommonReason.NO_NODE[word].missing(f"nothing in the {word} corresponds to `{entry}`")
        if tree.is_module(number) and number in self._dissolved(tree, which):
            text = f"`{entry}` is a level of modules that the {word} does not have; what it holds is paired"
            return CommonReason.WRAPPER.expected(text)
        if self._is_foreign and is_bookkeeping(tree.traits[number].family):
            text = f"`{entry}` changes shape, view or dtype only, which the {word}'s framework does otherwise"
            return CommonReason.FRAMEWORK_INTERNAL.expected(text)
        if self._is_foreign and not tree.is_module(number) and (moved := plain.left_out_move(number)) is not None:
            return moved
        layer = self._layer(tree, number, which) if self._is_foreign else None
        if layer is not None:
            text = f"`{entry}` is a step of `{layer}`, which the {word}'s framework makes of other calls"
            return CommonReason.FRAMEWORK_INTERNAL.expected(text)
        text = f"nothing in the {word} fits `{entry}` by structure{self._nearest(tree, number, which)}"
        return CommonReason.NO_NODE[word].missing(text)

    def _tree(self, phase: Phase, which: int) -> PhaseTree | None:
        trees = self._links.trees.get(phase)
        return trees[which] if trees is not None else None

    def _forward(self, side: Side, number: int, which: int) -> int | None:
        """Return the forward of a backward call, where that is alone as well."""
        forward = side.forward_of(number)
        return None if forward is None or forward in self._linked(which) else forward

    def _linked(self, which: int) -> Mapping[int, Link]:
        return self._links.of_golden if which else self._links.of_target

    def _dissolved(self, tree: PhaseTree, which: int) -> set[int]:
        """Return the modules without partner of which all that they hold is paired, or such a module."""
        if id(tree) not in self._looked_through:
            found: set[int] = set()
            linked = self._linked(which)
            for number in tree.bottom_up:
                below = tree.children.get(number)
                if below and number not in linked and all(child in linked or child in found for child in below):
                    found.add(number)
            self._looked_through[id(tree)] = found
        return self._looked_through[id(tree)]

    def _layer(self, tree: PhaseTree, number: int, which: int) -> str | None:
        """Return the entry of a layer of the framework around a node that is paired with the same layer."""
        trees = self._links.trees[tree.side.nodes[number].key.phase]
        linked = self._linked(which)
        caller = tree.parent[number]
        while caller != ROOT:
            link = linked.get(caller)
            if link is not None and is_layer(tree.traits[caller].family):
                partner = (link.target if which else link.golden)[0]
                same = trees[1 - which].traits[partner].family == tree.traits[caller].family
                return entry_of(tree.side.nodes[caller]) if same else None
            caller = tree.parent[caller]
        return None

    def _nearest(self, tree: PhaseTree, number: int, which: int) -> str:
        """Return the nearest nodes under the caller's counterpart, with what is unlike."""
        trees = self._links.trees[tree.side.nodes[number].key.phase]
        other = trees[1 - which]
        linked = self._linked(which)
        caller = tree.parent[number]
        while caller != ROOT and caller not in linked:
            caller = tree.parent[caller]
        link = linked.get(caller)
        counterpart = ROOT if link is None else (link.golden if which == 0 else link.target)[0]
        mine = tree.traits[number]
        candidates = sorted(
            ((node_likeness(mine, other.traits[n]), -n) for n in other.children.get(counterpart, [])[:MAX_SEARCHED]),
            reverse=True,
        )
        named = []
        taken = self._linked(1 - which)
        for likeness, minus in candidates[:MAX_NAMED]:
            if likeness <= 0:
                break
            why = "it has a partner already" if -minus in taken else words(mine, other.traits[-minus])
            named.append(f"`{entry_of(other.side.nodes[-minus])}` ({why})")
        return f"; nearest: {', '.join(named)}" if named else ""


def within_row(ref: TensorRef) -> Reason:
    """Say why a tensor that passes between the calls of a row has no partner."""
    text = f"`{ref.slot}` passes between calls that together are one call on the other side"
    return CommonReason.INTERNAL.expected(text)


def within_call(ref: TensorRef) -> Reason:
    """Say why a gradient of a step within a call has no partner."""
    text = f"`{ref.slot}` is the gradient of a step within the call: no argument of the call has its shape"
    return CommonReason.INTERNAL.expected(text)
