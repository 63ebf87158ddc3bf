"""Places in the tree of layers: the path of a module, and where a layer mapping says it is in the golden."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, Severity, Span
from probe_flow.mappings.mapping_file import ClassEntries, Entry
from probe_flow.matching.mapping.cells import split_prefix
from probe_flow.matching.mapping.use import leads_nowhere, useless
from probe_flow.matching.shared.nearest_names import NearestNames

Path: TypeAlias = tuple[str, ...]

ROOT_OWNERS = ("TopLayer", "Cell", "Module")
"""What a layer mapping calls the owner of the outermost layers."""

_RENUMBERED = "ParallelTransformer"
_LAYERS = "layers"


class LayerPaths:
    """Paths and classes of the modules of one dump.

    The layers of a pipeline stage may carry global numbers on one side and local ones on the other, so below a
    `ParallelTransformer` they are counted from 0.

    Args:
        modules: names of the modules, class last (``Cell.mlp.dense1.Dense``).
        apis: the APIs that were called, each with the name of the module that called it.
    """

    def __init__(self, modules: Sequence[str], apis: Collection[tuple[str | None, str]] = ()) -> None:
        raw = {name: tuple(split_prefix(name)[1].split(".")) for name in modules if "." in name}
        self._first = _first_layers(raw.values())
        self.classes: dict[Path, str] = {self._renumbered(parts[:-1]): parts[-1] for parts in raw.values()}
        self._of = {name: self._renumbered(parts[:-1]) for name, parts in raw.items()}
        called = {(*(self.of(parent) if parent else ()), api) for parent, api in apis}
        self.known: frozenset[Path] = frozenset(
            path[:length] for path in (*self.classes, *called) for length in range(1, len(path) + 1)
        )

    def of(self, module: str) -> Path:
        """Return the path of a module."""
        return self._of.get(module, ())

    def _renumbered(self, path: Path) -> Path:
        for owner, first in self._first.items():
            at = len(owner) + 1
            if path[:at] == (*owner, _LAYERS) and len(path) > at and path[at].isdecimal():
                return (*path[:at], str(int(path[at]) - first), *path[at + 1 :])
        return path


def _first_layers(modules: Collection[Path]) -> dict[Path, int]:
    """Return the smallest layer number below each module whose layers are counted anew, where it is not 0."""
    owners = {parts[:-1] for parts in modules if parts[-1] == _RENUMBERED}
    first: dict[Path, int] = {}
    for parts in modules:
        for at, part in enumerate(parts[:-2]):
            if part == _LAYERS and parts[:at] in owners and parts[at + 1].isdecimal():
                number = int(parts[at + 1])
                first[parts[:at]] = min(number, first.get(parts[:at], number))
    return {owner: number for owner, number in first.items() if number}


class Walk(Struct, frozen=True):
    """Where a path leads, and the line of the last entry that had a part in it."""

    path: Path
    span: Span | None = None


class Scopes(Struct):
    """Translates paths of the target by the entries of a layer mapping.

    Args:
        classes: of the file.
        target: the modules of the target.
    """

    classes: Sequence[ClassEntries]
    target: LayerPaths
    _children: dict[str, list[tuple[Path, Path, Entry]]] = field(default_factory=dict)
    _made: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.classes:
            mine = self._children.setdefault(each.owner, [])
            for entry in each.entries:
                mine.append((tuple(entry.target.split(".")), tuple((entry.golden or "").split(".")), entry))
            mine.sort(key=lambda child: -len(child[0]))

    def walk(self, path: Path) -> Walk:
        """Return the golden path of a target path, from the root inwards; a longer key goes before a shorter one."""
        made: list[str] = []
        span: Span | None = None
        at = 0
        while at < len(path):
            child = self._child(path, at)
            if child is None:
                made.append(path[at])
                at += 1
                continue
            key, value, entry = child
            made += value
            at += len(key)
            span = entry.span
            self._made[id(entry)] = tuple(made)
        return Walk(tuple(made), span)

    def _child(self, path: Path, at: int) -> tuple[Path, Path, Entry] | None:
        owners = ROOT_OWNERS if at == 0 else (self.target.classes.get(path[:at], ""),)
        children = (child for owner in owners for child in self._children.get(owner, ()))
        return next((child for child in children if path[at : at + len(child[0])] == child[0]), None)

    def names(self, path: Path) -> bool:
        """Return whether an entry speaks of a layer or one above it, by its path in the golden."""
        made = set(self._made.values())
        return any(path[:length] in made for length in range(1, len(path) + 1))

    def problems(self, golden: LayerPaths) -> list[Diagnostic]:
        """Return warnings about entries without use, and about those that lead to no layer of the golden."""
        owners = {*self.target.classes.values(), *ROOT_OWNERS}
        classes = NearestNames(("", name) for name in sorted(owners))
        found = []
        for each in self.classes:
            if each.owner not in owners:
                found.append(_without_class(each, classes.of("", each.owner)))
                continue
            for entry in each.entries:
                found += self._problem(each.owner, entry, golden)
        return found

    def _problem(self, owner: str, entry: Entry, golden: LayerPaths) -> list[Diagnostic]:
        made = self._made.get(id(entry))
        if made is None:
            near = NearestNames(("", name) for name in self._below(owner))
            return [useless("layer mapping", entry, near.of("", entry.target))]
        if made in golden.known:
            return []
        siblings = sorted({path[len(made) - 1] for path in golden.known if path[:-1] == made[:-1]})
        near = NearestNames(("", name) for name in siblings)
        return [leads_nowhere("layer mapping", entry, ".".join(made), near.of("", made[-1]))]

    def _below(self, owner: str) -> list[str]:
        """Return the names of the children of a class of the target."""
        at = [()] if owner in ROOT_OWNERS else [path for path, name in self.target.classes.items() if name == owner]
        return sorted({path[-1] for path in self.target.known if path[:-1] in at})


def _without_class(entries: ClassEntries, nearest: Sequence[str]) -> Diagnostic:
    near = "".join(f"`{name}`, " for name in nearest)
    return Diagnostic(
        "PF4216",
        f"the target has no layer of class `{entries.owner}`, so its entries of the layer mapping match nothing",
        severity=Severity.WARNING,
        span=entries.span,
        label="no such class",
        help=f"nearest: {near}and `{ROOT_OWNERS[0]}` for the outermost layers, whose owner is not dumped",
    )
