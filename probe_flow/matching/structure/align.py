"""Alignment of two lists of siblings by likeness, order kept; one call may stand for several in a row.

Short lists are aligned by dynamic programming over all twosomes. Long ones are cut first at what is beyond doubt:
longest common subsequences of signatures, with all values, with the values of weights, with structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.matching.alike.operations import COMPOSITES
from probe_flow.matching.shared.alignment import common_subsequence
from probe_flow.matching.structure.likeness import LEAST, node_likeness
from probe_flow.matching.structure.phase_tree import PhaseTree, Traits

MAX_CELLS = 4_000
"""Twosomes that are weighed one by one; longer lists are cut at common subsequences first."""

MAX_CELLS_UNCUT = 40_000
"""The same for a stretch in which nothing is common; beyond it, equal kinds decide."""

BAND = 16
"""Places off the diagonal at which partners in a long list are looked for, beside the difference of the lengths."""

COMPOSITE_LIKENESS = 0.8
SAME = 0.02
"""Difference of likeness that decides nothing."""


class Link(Struct, frozen=True):
    """Nodes that correspond; one on each side, or one and the several calls that spell it.

    Args:
        target, golden: node numbers.
        likeness: how alike they are.
        rival: another node that would fit as well (number on the golden side, or -1 minus a target number).
        is_moved: the link crosses others, or leads out of the caller's counterpart.
        is_same_place: modules of one class at one path, the outermost part aside.
        through: the link that this one follows from: that of the forwards, or of the modules.
    """

    target: tuple[int, ...]
    golden: tuple[int, ...]
    likeness: float
    rival: int | None = None
    is_moved: bool = False
    is_same_place: bool = False
    through: Link | None = None


class Aligner:
    """Alignment within two trees, with the likeness of twosomes kept."""

    def __init__(self, target: PhaseTree, golden: PhaseTree) -> None:
        self.target = target
        self.golden = golden
        self._known: dict[tuple[int, int], float] = {}

    def likeness(self, one: int, other: int) -> float:
        """Return how alike two nodes are."""
        key = (one, other)
        if key not in self._known:
            self._known[key] = node_likeness(self.target.traits[one], self.golden.traits[other])
        return self._known[key]

    def gain(self, link: Link) -> float:
        """Return what a link adds to the value of an alignment: likeness times the nodes that it settles."""
        ours = sum(self.target.traits[number].weight for number in link.target)
        theirs = sum(self.golden.traits[number].weight for number in link.golden)
        return (link.likeness - LEAST) * (max(ours, theirs) if self._is_composite(link) else min(ours, theirs))

    def align(self, target: Sequence[int], golden: Sequence[int]) -> list[Link]:
        """Return the links of two lists of siblings, in order."""
        if not target or not golden:
            return []
        ours, theirs = self.target.traits, self.golden.traits
        if len(target) == len(golden) and all(
            ours[one].signature == theirs[other].signature for one, other in zip(target, golden, strict=True)
        ):
            return [self._link(one, other) for one, other in zip(target, golden, strict=True)]
        if len(target) * len(golden) <= MAX_CELLS:
            return self._marked(target, golden, self._weighed(target, golden))
        return self._marked(target, golden, self._cut(target, golden, _KEYS))

    def _cut(
        self, target: Sequence[int], golden: Sequence[int], keys: Sequence[Callable[[Traits], Hashable]]
    ) -> list[Link]:
        """Align between the elements of a longest common subsequence."""
        if not target or not golden:
            return []
        if len(target) * len(golden) <= MAX_CELLS:
            return self._weighed(target, golden)
        band = abs(len(target) - len(golden)) + BAND
        if len(keys) <= SURE_KEYS and band * 2 * len(target) <= MAX_CELLS_UNCUT:
            return self._weighed(target, golden, band)
        key = keys[0] if keys else _kind
        anchors = common_subsequence(
            [key(self.target.traits[number]) for number in target],
            [key(self.golden.traits[number]) for number in golden],
        )
        links: list[Link] = []
        row = column = 0
        for next_row, next_column in [*anchors, (len(target), len(golden))]:
            if keys:
                links += self._cut(target[row:next_row], golden[column:next_column], keys[1:])
            if next_row < len(target):
                links.append(self._link(target[next_row], golden[next_column]))
            row, column = next_row + 1, next_column + 1
        return links

    def _weighed(self, target: Sequence[int], golden: Sequence[int], band: int | None = None) -> list[Link]:
        """Align by dynamic programming: the links of the largest total gain; of equal ones the earliest.

        With a band, only so many places off the diagonal are looked at.
        """
        rows, columns = len(target), len(golden)
        best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
        taken: list[list[Link | None]] = [[None] * columns for _ in range(rows)]
        for row in range(rows - 1, -1, -1):
            middle = row * columns // rows
            low, high = (0, columns) if band is None else (max(0, middle - band), min(columns, middle + band))
            for column in range(high - 1, low - 1, -1):
                value = max(best[row + 1][column], best[row][column + 1])
                for link in self._starting(target, golden, row, column):
                    after = best[row + len(link.target)][column + len(link.golden)]
                    gain = self.gain(link) + after
                    if gain > value - 1e-9 and gain > 0:
                        value, taken[row][column] = max(gain, value), link
                best[row][column] = value
        links: list[Link] = []
        row = column = 0
        while row < rows and column < columns:
            chosen = taken[row][column]
            if chosen is not None:
                links.append(chosen)
                row, column = row + len(chosen.target), column + len(chosen.golden)
            elif best[row + 1][column] >= best[row][column + 1]:
                row += 1
            else:
                column += 1
        return links

    def _starting(self, target: Sequence[int], golden: Sequence[int], row: int, column: int) -> list[Link]:
        """Return the links that may begin at a place."""
        one, other = target[row], golden[column]
        found = []
        likeness = self.likeness(one, other)
        if likeness >= LEAST:
            found.append(Link((one,), (other,), likeness))
        ours, theirs = self.target.traits[one], self.golden.traits[other]
        for whole, parts, tree in ((theirs, target[row:], self.target), (ours, golden[column:], self.golden)):
            for pattern in COMPOSITES.get(whole.family, ()) if not whole.is_module else ():
                run = tuple(parts[: len(pattern)])
                if pattern == tuple(tree.traits[number].family for number in run):
                    sides = (run, (other,)) if tree is self.target else ((one,), run)
                    found.append(Link(sides[0], sides[1], COMPOSITE_LIKENESS))
        return found

    def _is_composite(self, link: Link) -> bool:
        return len(link.target) != len(link.golden)

    def _link(self, one: int, other: int) -> Link:
        return Link((one,), (other,), self.likeness(one, other))

    def _marked(self, target: Sequence[int], golden: Sequence[int], links: list[Link]) -> list[Link]:
        """Mark links that could be shifted onto a neighbour without partner as well: order alone chose."""
        if len(target) == len(golden) == len(links):
            return links
        marked = {link.target[0]: link for link in links}
        golden_of = {link.target[0]: link.golden[0] for link in links if not self._is_composite(link)}
        target_of = {other: one for one, other in golden_of.items()}
        linked = [{n for link in links for n in link.target}, {n for link in links for n in link.golden}]
        for place, lone in enumerate(golden):
            for step in (-1, 1) if lone not in linked[1] else ():
                self._shift(golden, place, step, target_of, marked, is_golden=True)
        for place, lone in enumerate(target):
            for step in (-1, 1) if lone not in linked[0] else ():
                self._shift(target, place, step, golden_of, marked, is_golden=False)
        return [marked[link.target[0]] for link in links]

    def _shift(
        self,
        siblings: Sequence[int],
        place: int,
        step: int,
        partner_of: dict[int, int],
        marked: dict[int, Link],
        *,
        is_golden: bool,
    ) -> None:
        free = siblings[place]
        while 0 <= place + step < len(siblings) and siblings[place + step] in partner_of:
            place += step
            sibling = siblings[place]
            partner = partner_of[sibling]
            one, other = (partner, free) if is_golden else (free, partner)
            now = self.likeness(partner, sibling) if is_golden else self.likeness(sibling, partner)
            if self.likeness(one, other) < now - SAME:
                return
            key = partner if is_golden else sibling
            marked[key] = replace(marked[key], rival=free if is_golden else -1 - free)
            free = sibling


def _kind(traits: Traits) -> Hashable:
    return traits.is_module, traits.family


_KEYS: tuple[Callable[[Traits], Hashable], ...] = (
    lambda traits: traits.exact,
    lambda traits: traits.weights,
    lambda traits: traits.signature,
)
"""What elements of a long list are compared by, most telling first."""

SURE_KEYS = 1
"""Of these, the last ones, which do not look at values: a band along the diagonal is better where it is affordable."""
