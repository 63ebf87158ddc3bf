"""Matching under a layer mapping: modules meet by their place in the tree of layers, whatever their classes are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, Severity
from probe_flow.mappings.mapping_file import ClassEntries
from probe_flow.matching.mapping.apis import TABLE_CONFIDENCE, function_of
from probe_flow.matching.mapping.cells import GRADIENTS, split_prefix
from probe_flow.matching.mapping.layer_paths import LayerPaths, Path, Scopes, Walk
from probe_flow.matching.mapping.vocabulary import MappingRule
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.name.name_space import Named, NameSpace, is_cross_framework, names_of
from probe_flow.matching.shared.api_table import pytorch_name
from probe_flow.matching.shared.parameter_names import PARAMETER_ALIASES
from probe_flow.records import Catalog, NodeKind, Pairs


def match_layer_mapping(
    target: Catalog,
    golden: Catalog,
    *,
    entries: Sequence[ClassEntries] = (),
    aliases: Mapping[str, str] = PARAMETER_ALIASES,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
) -> Pairs:
    """Pair two dumps by the places of their modules in the tree of layers.

    Layers of equal name match by themselves. An API belongs to the layer that called it; its type (`Functional`,
    `Tensor` ...) takes no part, nor, across frameworks, whether an operator is spelled `x * y` or `mul(x, y)`. The
    calls of one place pair in order. Gradients of parameters follow their module.

    Args:
        target, golden: the dumps.
        entries: of the mapping file: per class of the target, what its children are called in the golden.
        aliases: other names of parameters -> the common name.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
    """
    mine, theirs = _paths(target), _paths(golden)
    scopes = Scopes(entries, mine)
    uses_table = is_cross_framework(target, golden)
    mine_named = _LayerNames(mine, scopes, uses_table=uses_table)
    theirs_named = _LayerNames(theirs, None, uses_table=uses_table)

    space = NameSpace(
        mine_named,
        theirs_named,
        aliases,
        checks_dtypes=False,
        is_mapping=True,
        problems=lambda: _without_layers(target, golden),
        unused=lambda: scopes.problems(theirs),
        names=(lambda name: scopes.names(tuple(name.removesuffix(GRADIENTS).split(".")))) if entries else None,
    )
    return match_name(target, golden, space=space, pair_ranks=pair_ranks, step_offset=step_offset)


def _paths(catalog: Catalog) -> LayerPaths:
    parents = (node.parent for node in catalog.nodes.values())
    apis = {
        (node.parent, key.name.rpartition(".")[2]) for key, node in catalog.nodes.items() if node.kind is NodeKind.API
    }
    return LayerPaths(_modules(names_of(catalog), parents), apis)


def _modules(names: Iterable[tuple[NodeKind, str]], parents: Iterable[str | None]) -> list[str]:
    own = [name.removesuffix(GRADIENTS) for kind, name in names if kind in (NodeKind.MODULE, NodeKind.PARAMETERS_GRAD)]
    return list(dict.fromkeys([*own, *(parent for parent in parents if parent)]))


def _without_layers(target: Catalog, golden: Catalog) -> list[Diagnostic]:
    """Return a warning (PF4219) for each side that tells no layers."""
    found = []
    for side, word in ((target, "target"), (golden, "golden")):
        if not any(node.kind is NodeKind.MODULE or node.parent for node in side.nodes.values()):
            message = f"the {word} has no module and no call tree: no layer can be told apart"
            cure = "dump with level `mix` or `L0` and `extra_info: true`, or use `match.api_mapping`"
            found.append(Diagnostic("PF4219", message, severity=Severity.WARNING, path=side.root or None, help=cure))
    return found


class _LayerNames(Struct):
    """Names nodes after their place: ``mlp.fc1`` (module), ``mlp.fc1.linear()`` (API called there)."""

    paths: LayerPaths
    scopes: Scopes | None
    uses_table: bool
    _walks: dict[Path, Walk] = field(default_factory=dict)

    def __call__(self, name: str, kind: NodeKind, parent: str | None) -> Named:
        if kind is NodeKind.DEBUG:
            return Named(name)
        if kind is NodeKind.API:
            return self._api(name, parent)
        walk = self._walk(self.paths.of(name.removesuffix(GRADIENTS)))
        ending = GRADIENTS if name.endswith(GRADIENTS) else ""
        return Named(".".join(walk.path) + ending or split_prefix(name)[0], MappingRule.LAYER, walk.span)

    def _api(self, name: str, parent: str | None) -> Named:
        own = name.rpartition(".")[2]
        walk = self._walk((*(self.paths.of(parent) if parent else ()), own))
        *layers, api = walk.path
        confidence = 1.0
        known = pytorch_name(name) if self.uses_table and api == own else None
        if known is not None:
            api = known.rpartition(".")[2]
            confidence = 1.0 if api == own else TABLE_CONFIDENCE
        common = function_of(api) if self.uses_table else api
        shown = f"{'.'.join([*layers, api])}()" if common != api else ""
        return Named(f"{'.'.join([*layers, common])}()", MappingRule.LAYER, walk.span, confidence, shown=shown)

    def _walk(self, path: Path) -> Walk:
        if self.scopes is None:
            return Walk(path)
        found = self._walks.get(path)
        if found is None:
            found = self._walks[path] = self.scopes.walk(path)
        return found
