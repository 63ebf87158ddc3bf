"""Matching under a cell mapping or an API mapping: the matcher by name, in a name space that the mapping makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from probe_flow.errors import Diagnostic
from probe_flow.mappings.api_mapping_file import ApiEntry
from probe_flow.mappings.mapping_file import Entry
from probe_flow.matching.mapping.apis import ApiNames, operator_of
from probe_flow.matching.mapping.cells import GRADIENTS, CellNames, split_prefix
from probe_flow.matching.mapping.vocabulary import MappingRule
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.name.name_space import Named, NameSpace, is_cross_framework, names_of
from probe_flow.matching.shared.parameter_names import PARAMETER_ALIASES
from probe_flow.records import Catalog, NodeKind, Pairs
from probe_flow.records.frameworks import Kernels

PLACE_CONFIDENCE = 0.95
_MODULES = (NodeKind.MODULE, NodeKind.PARAMETERS_GRAD)


def match_cell_mapping(
    target: Catalog,
    golden: Catalog,
    *,
    entries: Sequence[Entry] = (),
    aliases: Mapping[str, str] = PARAMETER_ALIASES,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair two dumps whose modules have other names, by the entries of a cell mapping.

    `Cell` and `Module` are one. Across frameworks a module also meets the one of another class at the same path, the
    built-in table of APIs counts, and leftover primitives of MindSpore meet the API that they make up.

    Args:
        target, golden: the dumps.
        entries: of the mapping file; none: only the prefix changes.
        aliases: other names of parameters -> the common name.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
    """
    space = mapped_names(target, golden, cells=entries, aliases=aliases)
    return match_name(target, golden, space=space, pair_ranks=pair_ranks, step_offset=step_offset)


def match_api_mapping(
    target: Catalog,
    golden: Catalog,
    *,
    entries: Sequence[ApiEntry] = (),
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair two dumps whose APIs have other names, by an API mapping and, across frameworks, the built-in table.

    The names on the left of the file are those of the MindSpore side; where there is none or two, those of the target.

    Args:
        target, golden: the dumps.
        entries: of the mapping file; none: the built-in table only.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
    """
    space = mapped_names(target, golden, apis=entries)
    return match_name(target, golden, space=space, pair_ranks=pair_ranks, step_offset=step_offset)


def mapped_names(
    target: Catalog,
    golden: Catalog,
    *,
    cells: Sequence[Entry] = (),
    apis: Sequence[ApiEntry] = (),
    aliases: Mapping[str, str] = PARAMETER_ALIASES,
) -> NameSpace:
    """Return the name space that a cell mapping and an API mapping make of two dumps."""
    cell_names = CellNames(cells)
    is_foreign = is_cross_framework(target, golden)
    golden_modules = _Modules(names_of(golden)) if is_foreign else None
    asked = {entry.pytorch for entry in apis}
    mine = _Side(api_names(target, golden, apis, is_target=True), cell_names, golden_modules, asked, is_foreign)
    theirs = _Side(api_names(target, golden, apis, is_target=False), None, None, asked, is_foreign)

    def unused() -> list[Diagnostic]:
        names = names_of(target), names_of(golden)
        found = cell_names.problems(*names) if cells else []
        for side, own in zip((mine, theirs), names, strict=True):
            if side.apis is not None:
                found += side.apis.problems([name for kind, name in own if kind is NodeKind.API])
        return found

    names = (lambda name: name in asked or cell_names.names(name)) if cells or apis else None
    return NameSpace(mine, theirs, aliases, is_mapping=True, unused=unused, names=names)


def api_names(target: Catalog, golden: Catalog, entries: Sequence[ApiEntry], *, is_target: bool) -> ApiNames | None:
    """Return what renames the APIs of a side; None for the side whose names count."""
    is_foreign = is_cross_framework(target, golden)
    is_target_renamed = not (is_foreign and golden.framework.kernels is Kernels.MINDSPORE)
    if is_target is not is_target_renamed or not (entries or is_foreign):
        return None
    others = frozenset(name for kind, name in names_of(golden if is_target else target) if kind is NodeKind.API)
    return ApiNames(entries, others, uses_table=is_foreign, word="target" if is_target else "golden")


class _Modules:
    """Modules of a dump by their path; the classes of one layer differ between frameworks (`Dense`, `Linear`)."""

    def __init__(self, names: Iterable[tuple[NodeKind, str]]) -> None:
        self._at: dict[str, set[str]] = {}
        for kind, name in names:
            if kind in _MODULES:
                renamed = ".".join(split_prefix(name.removesuffix(GRADIENTS)))
                self._at.setdefault(renamed.rpartition(".")[0], set()).add(renamed)

    def at_place_of(self, renamed: str) -> str:
        """Return the only module at the path of another one, or that one where there is none or several."""
        inner = renamed.removesuffix(GRADIENTS)
        there = self._at.get(inner.rpartition(".")[0], set())
        if inner in there or len(there) != 1:
            return renamed
        return next(iter(there)) + renamed[len(inner) :]


class _Side(Struct, frozen=True):
    """Renames the nodes of one side."""

    apis: ApiNames | None
    cells: CellNames | None
    others: _Modules | None
    asked: AbstractSet[str]
    is_foreign: bool

    def __call__(self, name: str, kind: NodeKind, parent: str | None) -> Named:  # noqa: ARG002
        if kind is NodeKind.DEBUG:
            return Named(name)
        entry = None
        renamed = name
        if self.cells is not None:
            renamed, entry = self.cells.rename(name, kind)
        elif kind is not NodeKind.API:
            renamed = ".".join(split_prefix(name)) if "." in name else name
        span = entry.span if entry is not None else None
        if kind is NodeKind.API and entry is None and self.apis is not None:
            return self.apis.rename(name)
        if kind is NodeKind.API and entry is None and self.is_foreign and name not in self.asked:
            return operator_of(name) or Named(name)
        if kind in _MODULES and self.others is not None and (place := self.others.at_place_of(renamed)) != renamed:
            return Named(place, MappingRule.CELL, span, PLACE_CONFIDENCE)
        return Named(renamed, MappingRule.CELL if renamed != name else None, span)
