"""The layer mapping that a match by structure amounts to: per class of the target, what its children are called.

An entry stands under the class of the nearest paired module around a child; layers of equal names need none. What a
layer mapping cannot say (two owners of one class that need different entries, a partner elsewhere in the tree) is
counted and named, not forced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from probe_flow.matching.alike.operations import family, kin
from probe_flow.matching.mapping.cells import split_prefix
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import GUESS, Node, NodeKey, NodeKind, Pairs, Phase

TOP = "TopLayer"
_SURE = (1.0, "")
Path = tuple[str, ...]


class SuggestedEntry(Struct):
    """One line of the mapping.

    Args:
        child: path of the child below its owner, in the target.
        partner: what it is called below the owner's counterpart.
        confidence: the least of the pairs behind it.
        uses: how many pairs it states.
        note: what a guess rests on.
    """

    child: Path
    partner: Path
    confidence: float = 1.0
    uses: int = 0
    note: str = ""


class Suggestion(Struct, frozen=True):
    """A layer mapping.

    Args:
        classes: class of the owner -> its entries.
        modules: paired modules of the target, by name.
        unpaired: modules of target and golden without partner, with the reason.
        conflicts: what cannot be written, in words.
        rejected: entries that the values of the dumps contradict, each with the class of its owner.
    """

    classes: Mapping[str, tuple[SuggestedEntry, ...]]
    modules: int
    unpaired: tuple[tuple[str, str], ...] = ()
    conflicts: tuple[str, ...] = ()
    rejected: tuple[tuple[str, SuggestedEntry], ...] = ()

    @property
    def entries(self) -> int:
        """Number of entries."""
        return sum(len(entries) for entries in self.classes.values())

    @property
    def guesses(self) -> int:
        """Number of entries that people should look at, those left out included."""
        marked = sum(entry.confidence <= GUESS for entries in self.classes.values() for entry in entries)
        return marked + len(self.rejected)


class _Wish(Struct):
    """What the children of one class are called, with how many owners say so."""

    partners: dict[Path, Counter[Path]] = field(default_factory=dict)
    facts: dict[tuple[Path, Path], tuple[float, str]] = field(default_factory=dict)
    apis: set[Path] = field(default_factory=set)


def suggest_layer_mapping(pairs: Pairs) -> Suggestion:
    """Return the layer mapping that states the module pairs of a match."""
    facts = _facts(pairs)
    linked = dict(_linked(pairs))
    wishes = _Wishes(_module_names(linked, pairs))
    conflicts: list[str] = []
    for name, partner in wishes.modules.items():
        trouble = wishes.add(split_path(name)[0], split_path(partner)[0], facts.get(name, _SURE))
        if trouble:
            conflicts.append(f"`{name}` -> `{partner}`: {trouble}")
    _add_apis(wishes, linked, pairs, facts)
    classes = {}
    for owner in sorted(wishes.of_owner, key=lambda word: (word != TOP, word)):
        entries = _entries(owner, wishes.of_owner[owner], conflicts)
        if entries:
            classes[owner] = entries
    unpaired = tuple(_unpaired(pairs, wishes.modules))
    return Suggestion(classes, len(wishes.modules), unpaired, tuple(conflicts))


def split_path(name: str) -> tuple[Path, str]:
    """Return the path of a module and its class.

    >>> split_path("Module.layers.0.attn.Attn")
    (('layers', '0', 'attn'), 'Attn')
    """
    *path, kind = split_prefix(name)[1].split(".")
    return tuple(path), kind


def _linked(pairs: Pairs) -> Iterator[tuple[NodeKey, NodeKey]]:
    """Yield the nodes that correspond one to one."""
    for group in pairs.groups:
        if len(group.target_nodes) == len(group.golden_nodes) == 1:
            yield group.target_nodes[0], group.golden_nodes[0]


def _module_names(linked: Mapping[NodeKey, NodeKey], pairs: Pairs) -> dict[str, str]:
    """Return target module -> golden module; where calls differ, what most calls say."""
    votes: dict[str, Counter[str]] = {}
    for one, other in linked.items():
        if pairs.target.nodes[one].kind is pairs.golden.nodes[other].kind is NodeKind.MODULE:
            votes.setdefault(one.name, Counter())[other.name] += 1
    return {name: counts.most_common(1)[0][0] for name, counts in votes.items()}


def _facts(pairs: Pairs) -> dict[str, tuple[float, str]]:
    """Return least confidence, and what a guess rests on, by name of the target node."""
    found: dict[str, tuple[float, str]] = {}
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            name = pair.target.node.name
            if name not in found or pair.confidence < found[name][0]:
                is_guess = pair.confidence <= GUESS and pair.reason is not None
                found[name] = pair.confidence, pair.reason.text if is_guess and pair.reason else ""
    return found


class _Wishes:
    """What children are to be called, by the class of the nearest paired module around them.

    Args:
        modules: target module -> golden module.
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = modules
        self.of_owner: dict[str, _Wish] = {}
        self._by_path = {split_path(name)[0]: name for name in modules}

    def add(self, path: Path, partner: Path, facts: tuple[float, str], *, is_api: bool = False) -> str:
        """Record what a child is called; return what hinders, if anything."""
        inner = (path[:at] for at in range(len(path) - 1, 0, -1))
        around = next((self._by_path[each] for each in inner if each in self._by_path), None)
        start, stop, owner = 0, 0, TOP
        if around is not None:
            own, owner = split_path(around)
            theirs = split_path(self.modules[around])[0]
            start, stop = len(own), len(theirs)
            if partner[:stop] != theirs or len(partner) <= stop:
                return f"the partner is not below `{self.modules[around]}`, the partner of `{around}`"
        child, called = path[start:], partner[stop:]
        if any("(" in part or not part for part in (*child, *called)):
            return "a name with a bracket, or without a part between dots, cannot be written"
        wish = self.of_owner.setdefault(owner, _Wish())
        wish.partners.setdefault(child, Counter())[called] += 1
        if facts[0] < wish.facts.get((child, called), (2.0, ""))[0]:
            wish.facts[child, called] = facts
        if is_api:
            wish.apis.add(child)
        return ""


def _add_apis(
    wishes: _Wishes, linked: Mapping[NodeKey, NodeKey], pairs: Pairs, facts: Mapping[str, tuple[float, str]]
) -> None:
    """Record calls whose own names differ: a layer mapping finds APIs by place and own name.

    Not those that are in other layers of the class one of several calls for one of the golden, such as a convolution
    with a bias of its own. Of a layer that the golden has as a call alone, the call stands for the layer.
    """
    in_rows = {
        _class_and_name(pairs.target.nodes[key])
        for group in pairs.groups
        if len(group.target_nodes) > 1
        for key in group.target_nodes
    }
    wrappers = {
        pair.target.node.name
        for pair in pairs.pairs
        if pair.target is not None and pair.reason is not None and pair.reason.kind is CommonReason.WRAPPER
    }
    for one, other in linked.items():
        ours, theirs = pairs.target.nodes[one], pairs.golden.nodes[other]
        if one.phase is not Phase.FORWARD or not ours.kind is theirs.kind is NodeKind.API:
            continue
        if _class_and_name(ours) in in_rows:
            continue
        is_kin = kin(family(ours.op_type)) == kin(family(theirs.op_type))
        if is_kin and (ours.parent is None or ours.parent in wishes.modules or ours.parent in wrappers):
            path, partner = (
                (*(split_path(node.parent)[0] if node.parent else ()), node.key.name.rpartition(".")[2])
                for node in (ours, theirs)
            )
            wishes.add(path, partner, facts.get(one.name, _SURE), is_api=True)


def _class_and_name(node: Node) -> tuple[str, str]:
    """Return the class of the module around a call, and the call's own name."""
    return (split_path(node.parent)[1] if node.parent else TOP), node.key.name.rpartition(".")[2]


def _entries(owner: str, wish: _Wish, conflicts: list[str]) -> tuple[SuggestedEntry, ...]:
    """Return the fewest entries that state what the children of a class are called."""
    chosen: dict[Path, Path] = {}
    for child, counts in wish.partners.items():
        chosen[child] = counts.most_common(1)[0][0]
        if len(counts) > 1 and child not in wish.apis:
            others = ", ".join(f"`{'.'.join(each)}`" for each in counts if each != chosen[child])
            conflicts.append(
                f"`{'.'.join(child)}` of `{owner}` is `{'.'.join(chosen[child])}` in {counts[chosen[child]]} places, "
                f"but {others} in others: one class has one entry"
            )
    short: dict[Path, Path] = {}
    for child, called in chosen.items():
        key, value = _without_common_end(child, called)
        if key != value:
            short.setdefault(key, value)
    needed = dict(short)
    for child, called in chosen.items():
        if _translated(child, needed) != called:
            needed[child] = called
    return tuple(_entry(key, value, chosen, needed, wish) for key, value in needed.items())


def _without_common_end(child: Path, called: Path) -> tuple[Path, Path]:
    """Return two paths without the end that they share: `layers.0` and `h.0` are `layers` and `h`."""
    while len(child) > 1 and len(called) > 1 and child[-1] == called[-1]:
        child, called = child[:-1], called[:-1]
    return child, called


def _translated(child: Path, entries: Mapping[Path, Path]) -> Path:
    """Return what entries make of a path: the longest that fits its beginning counts."""
    for length in range(len(child), 0, -1):
        if child[:length] in entries:
            return entries[child[:length]] + child[length:]
    return child


def _entry(
    key: Path, value: Path, chosen: Mapping[Path, Path], needed: Mapping[Path, Path], wish: _Wish
) -> SuggestedEntry:
    entry = SuggestedEntry(key, value)
    for child, called in chosen.items():
        longest = next((child[:n] for n in range(len(child), 0, -1) if child[:n] in needed), None)
        if longest == key:
            entry.uses += wish.partners[child][called]
            if wish.facts[child, called][0] < entry.confidence:
                entry.confidence, entry.note = wish.facts[child, called]
    return entry


def _unpaired(pairs: Pairs, modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the outermost modules of either side without partner, with the reason."""
    for side, catalog, paired in (
        ("target", pairs.target, set(modules)),
        ("golden", pairs.golden, set(modules.values())),
    ):
        alone: dict[str, tuple[str | None, str]] = {}
        for pair in pairs.pairs:
            ref = pair.target if side == "target" else pair.golden
            if ref is None or pair.reason is None or ref.node.phase is not Phase.FORWARD or ref.node.name in paired:
                continue
            node = catalog.nodes[ref.node]
            if node.kind is NodeKind.MODULE:
                alone.setdefault(ref.node.name, (node.parent, pair.reason.text))
        yield from ((f"{side} {name}", why) for name, (parent, why) in alone.items() if parent not in alone)
