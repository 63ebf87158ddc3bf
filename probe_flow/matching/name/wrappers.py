"""Levels of modules that one side alone has around the same layers.

Mixed precision of MindSpore (``_backbone``), DistributedDataParallel and FSDP (``module``) and `torch.compile`
(``_orig_mod``) put modules around a network, or around some of its layers: what is inside is called by a longer path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from probe_flow.matching.name.name_space import GRADIENTS, OWN_NAMES, Named, NameSpace, Rename, own_name
from probe_flow.records import Catalog, NodeKind

_KINDS = (NodeKind.MODULE, NodeKind.PARAMETERS_GRAD)


def unwrapped(target: Catalog, golden: Catalog) -> NameSpace:
    """Return the name space of two dumps: their own names, without levels of modules that one side alone has.

    A level is left out where that gives most of what is called through it the name of something on the other side,
    which nothing else on its own side has.
    """
    mine, theirs = (_Modules.of(catalog) for catalog in (target, golden))
    if mine.words == theirs.words:
        return OWN_NAMES
    return NameSpace(target=mine.renames(theirs), golden=theirs.renames(mine))


class _Modules(Struct, frozen=True):
    """The names of the modules of a dump.

    Args:
        names: of modules, and of the gradients of their parameters.
        words: what their paths consist of.
    """

    names: AbstractSet[str]
    words: AbstractSet[str]

    @classmethod
    def of(cls, catalog: Catalog) -> _Modules:
        """Return those of a dump."""
        names = {key.name for key, node in catalog.nodes.items() if node.kind in _KINDS}
        return cls(names, {part for name in names for part in _path(name)})

    def renames(self, other: _Modules) -> Rename:
        """Return what leaves out the levels that only this side has."""
        words = {word for word in self.words - other.words if not word.isdecimal()}
        while words:
            shorter = self._shorter(words)
            fewer = words & self._wrapping(shorter, other)
            if fewer == words:
                return _Unwrapped(shorter, self._around(words, other)).named
            words = fewer
        return own_name

    def _shorter(self, words: AbstractSet[str]) -> Mapping[str, str]:
        return {name: _without(name, words) for name in self.names if not words.isdisjoint(_path(name))}

    def _wrapping(self, shorter: Mapping[str, str], other: _Modules) -> AbstractSet[str]:
        """Return the levels without which most of what is called through them is what the other side calls so."""
        counts = Counter(shorter.values())
        through, found = Counter[str](), Counter[str]()
        for name, short in shorter.items():
            through.update(set(_path(name)))
            if short in other.names and short not in self.names and counts[short] == 1:
                found.update(set(_path(name)))
        return {word for word, count in through.items() if 2 * found[word] > count}

    def _around(self, words: AbstractSet[str], other: _Modules) -> Collection[str]:
        """Return the modules that do nothing but wrap: what they hold has their place on the other side."""
        inner = {tuple(path[:-1]) for path in map(_path, self.names) if path and path[-1] in words}
        return {
            name
            for name in self.names
            if _without(name, words) not in other.names
            and (not words.isdisjoint(_path(name)[-1:]) or tuple(_path(name)) in inner)
        }


class _Unwrapped(Struct, frozen=True):
    shorter: Mapping[str, str]
    around: Collection[str]

    def named(self, name: str, kind: NodeKind, parent: str | None) -> Named:
        """Return a name without levels that the other side does not have."""
        if kind not in _KINDS:
            return own_name(name, kind, parent)
        return Named(self.shorter.get(name, name), is_wrapper=name in self.around)


def _path(name: str) -> list[str]:
    """Return the parts of a path, without what is before and the class behind it."""
    return name.removesuffix(GRADIENTS).split(".")[1:-1]


def _without(name: str, words: AbstractSet[str]) -> str:
    first, *path = name.split(".")
    return ".".join((first, *(part for part in path[:-1] if part not in words), *path[-1:]))
