"""``extends``: lay a workflow over the one it changes.

Mappings merge deeply, everything else replaces what was there, and ``null`` removes the key of the base.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span, WorkflowError
from probe_flow.files.yaml.places import Place
from probe_flow.files.yaml.positions import Document, parse_yaml
from probe_flow.workflow.sources import TEMPLATE, Sources

if TYPE_CHECKING:
    from probe_flow.workflow.templates.shelf import Template

MAX_CHAIN = 50
"""Files that may extend each other in a row; a person keeps track of three."""


class Layers(Struct):
    """Reads a workflow and everything below it.

    Args:
        sources: takes the texts.
        problems: takes what is wrong.
        extended_at: of each base file, where it is named.
        templates: those that are extended, with package and version.
    """

    sources: Sources
    problems: list[Diagnostic] = field(default_factory=list)
    extended_at: dict[str, Span] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    _lacks_base: bool = False

    def load(self, path: Path) -> Document | None:
        """Return the merged document, or None where the workflow or one below it cannot be read.

        Without its base most of a workflow looks wrong, so nothing else is said of it.
        """
        document = self._load(self.sources.absolute(path), named_at=None, chain=())
        return None if self._lacks_base else document

    def _load(self, path: Path, *, named_at: Span | None, chain: tuple[str, ...]) -> Document | None:
        name = self.sources.read(path)
        if isinstance(name, Diagnostic):
            cure = "a relative path starts from the folder of this file" if named_at else _packaged(path) or name.help
            self.problems.append(replace(name, span=named_at, help=cure))
            return None
        if named_at:
            self.extended_at.setdefault(name, named_at)
        document, problems = parse_yaml(self.sources.texts[name], name)
        self.problems += problems
        if document is None:
            return None
        base = self._base(document, name, (*chain, _real(path)))
        return merge(base, document) if base else document

    def _base(self, document: Document, name: str, chain: tuple[str, ...]) -> Document | None:
        extends = document.values.get("extends")
        if not isinstance(extends, str):
            return None
        place = document.place.children["extends"]
        path = self._base_path(extends, name, place.span)
        base = self._follow(path, place.span, chain) if path else None
        self._lacks_base |= base is None
        return base

    def _follow(self, path: Path, span: Span, chain: tuple[str, ...]) -> Document | None:
        real = _real(path)
        if real in chain:
            steps = [*chain[chain.index(real) :], real]
            shown = " -> ".join(f"`{self.sources.shown(Path(step))}`" for step in steps)
            self.problems.append(Diagnostic("PF1102", f"workflows extend each other: {shown}", span=span))
            return None
        if len(chain) == MAX_CHAIN:
            self.problems.append(
                Diagnostic(
                    "PF1021",
                    f"more than {MAX_CHAIN} workflows extend each other in a row",
                    span=span,
                    label="this one is not read any more",
                    help="write what the lowest ones have in common into one file",
                )
            )
            return None
        return self._load(path, named_at=span, chain=chain)

    def _base_path(self, extends: str, name: str, span: Span) -> Path | None:
        if "${" in extends:
            self.problems.append(
                Diagnostic(
                    "PF1308",
                    "`extends` cannot use `${...}`: it is read before anything has a value",
                    span=span,
                    help="name the file",
                )
            )
            return None
        if not extends.startswith(TEMPLATE):
            return Path(self.sources.folder(name), extends)
        found, problem = _template(extends)
        if problem is not None:
            self.problems.append(problem.at(span))
        if found is None:
            return None
        self.templates.append(f"{found.full_name} {found.version}".rstrip())
        return found.path


def workflow_file(named: Path) -> Path:
    """Return the file that is meant where a workflow is named: by its path, or as ``template:NAME``.

    Raises:
        WorkflowError: PF1101 where there is no such template, PF7401 where several packages bring one of that name.
    """
    if not str(named).startswith(TEMPLATE):
        return named
    found, problem = _template(str(named))
    if found is not None:
        return found.path
    assert problem is not None, "what is not found is told"
    raise WorkflowError(problem)


def _packaged(path: Path) -> str | None:
    """Return the next step where a packaged workflow is meant by its bare name."""
    from probe_flow.workflow.templates.packaged import templates

    named = path.stem in templates()
    return f"`{TEMPLATE}{path.stem}` is the packaged workflow of that name" if named else None


def _template(named: str) -> tuple[Template | None, Diagnostic | None]:
    """Look up ``template:NAME``, as `Shelf.find` does."""
    from probe_flow.workflow.templates.shelf import shelf

    return shelf().find(named.removeprefix(TEMPLATE))


def _real(path: Path) -> str:
    """Return the path without links; as it is where no file can have that name (NUL)."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return str(path)


def merge(base: Document, over: Document) -> Document:
    """Return a document whose values come from ``over`` where it has them, else from ``base``."""
    values, place = _merge(base.values, base.place, over.values, over.place)
    return Document(values, place)


def _merge(
    base: Mapping[str | int, object], base_place: Place, over: Mapping[str | int, object], over_place: Place
) -> tuple[dict[str | int, object], Place]:
    values = dict(base)
    children = dict(base_place.children)
    for key, value in over.items():
        place = over_place.children[key]
        below = base.get(key)
        if value is None and key in base:
            del values[key], children[key]
        elif isinstance(value, dict) and isinstance(below, dict):
            mapping = cast("dict[str | int, object]", value)
            values[key], children[key] = _merge(below, base_place.children[key], mapping, place)
        else:
            values[key], children[key] = value, place
    return values, replace(over_place, children=MappingProxyType(children))
