"""Names of modules under a cell mapping: `Cell` is `Module`, and the file's entries replace parts of the path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from probe_flow.errors import Diagnostic
from probe_flow.mappings.mapping_file import Entry
from probe_flow.matching.mapping.use import leads_nowhere, useless
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.records import NodeKind

GRADIENTS = ".parameters_grad"
_PREFIXES = {"Cell": "Module"}


def split_prefix(name: str) -> tuple[str, str]:
    """Return the common prefix of a module's name and the rest: path and class.

    >>> split_prefix("Cell.fc2.Dense")
    ('Module', 'fc2.Dense')
    """
    prefix, _, rest = name.partition(".")
    return _PREFIXES.get(prefix, prefix), rest


class CellNames(Struct):
    """Renames the modules and APIs of the target by the entries of a cell mapping.

    An entry that is the whole path and class of a module (or the name of an API) replaces it. Otherwise all entries
    are tried in the order of the file, one after the other on what the ones before made of it, each on the first place
    where it stands between dots.

    Args:
        entries: of the file.
    """

    entries: Sequence[Entry]
    _whole: dict[str, Entry] = field(default_factory=dict)
    _parts: list[tuple[list[str], list[str], Entry]] = field(default_factory=list)
    _made: dict[Entry, dict[str, NodeKind]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._whole = {entry.target: entry for entry in self.entries}
        self._parts = [(entry.target.split("."), (entry.golden or "").split("."), entry) for entry in self.entries]

    def rename(self, name: str, kind: NodeKind) -> tuple[str, Entry | None]:
        """Return the common name of a target node, and the entry that had a part in it."""
        prefix, rest = split_prefix(name) if kind is not NodeKind.API else name.partition(".")[::2]
        is_gradient = rest.endswith(GRADIENTS)
        inner = rest.removesuffix(GRADIENTS)
        used: list[Entry] = []
        whole = self._whole.get(inner)
        if whole is not None:
            used.append(whole)
            inner = whole.golden or inner
        else:
            inner = self._in_parts(inner, used)
        renamed = f"{prefix}.{inner}{GRADIENTS if is_gradient else ''}" if rest else name
        for entry in used:
            self._made.setdefault(entry, {})[renamed] = kind
        return renamed, used[0] if used else None

    def _in_parts(self, inner: str, used: list[Entry]) -> str:
        parts = inner.split(".")
        for old, new, entry in self._parts:
            place = _find(parts, old)
            if place is not None:
                parts[place : place + len(old)] = new
                used.append(entry)
        return ".".join(parts)

    def names(self, common: str) -> bool:
        """Return whether an entry speaks of a node, by its common name."""
        parts = common.removesuffix(GRADIENTS).split(".")
        return any(_find(parts, new) is not None for _, new, _ in self._parts)

    def problems(
        self, target: Iterable[tuple[NodeKind, str]], golden: Iterable[tuple[NodeKind, str]]
    ) -> list[Diagnostic]:
        """Return warnings about entries that no name of the target has, or that lead to nothing in the golden.

        Args:
            target, golden: kinds and own names of all nodes.
        """
        mine = [split_prefix(name)[1] for _, name in target]
        theirs = dict.fromkeys((kind, ".".join(split_prefix(name))) for kind, name in golden)
        names = {name for _, name in theirs}
        segments = NearestNames(("", part) for inner in mine for part in _ends(inner))
        nearest = NearestNames(theirs)
        found = []
        for entry in self.entries:
            made = self._made.get(entry)
            if not made:
                inside = sorted({inner for inner in mine if entry.target in inner})[:3]
                found.append(useless("cell mapping", entry, segments.of("", entry.target), inside=inside))
            elif not names & made.keys():
                name, kind = next(iter(made.items()))
                found.append(leads_nowhere("cell mapping", entry, name, nearest.of(kind, name)))
        return found


def _find(parts: Sequence[str], wanted: Sequence[str]) -> int | None:
    span = len(wanted)
    return next((at for at in range(len(parts) - span + 1) if parts[at : at + span] == wanted), None)


def _ends(inner: str) -> Iterable[str]:
    """Yield what people write on the left of an entry: path and class, the class, each segment."""
    yield inner
    parts = inner.split(".")
    yield ".".join(parts[-2:])
    yield from parts
