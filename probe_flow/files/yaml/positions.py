"""Read one YAML document into plain values and a parallel tree of places, strictly and safely.

Plain scalars follow the YAML 1.2 core schema. Duplicate keys, several documents, foreign tags and keys that are
neither text nor whole numbers are errors. Anchors and merge keys are allowed up to a size, so that a small file
cannot expand to a huge one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

import yaml
from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span
from probe_flow.files.yaml.places import HOLE, Place
from probe_flow.files.yaml.scalars import read_plain, tagged
from probe_flow.files.yaml.syntax import explain_yaml_error, find_control_character

MAX_DEPTH = 50
MAX_NODES = 100_000
"""Values of a document after its aliases are expanded."""

KEY_BITS = 63
"""Bits of a whole number that is a key, without its sign: what pydantic can name in an error."""

_CORE = "tag:yaml.org,2002:"
_MERGE = "<<"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(Struct, frozen=True):
    """One YAML document: a mapping, and where each of its values was written."""

    values: Mapping[str | int, object]
    place: Place


class Written(Struct, frozen=True):
    """A value of any kind, and where it was written."""

    value: object
    place: Place


def parse_yaml(text: str, file: str) -> tuple[Document | None, list[Diagnostic]]:
    """Return the document of a workflow's text, or None where it has no usable one, with all problems found.

    Args:
        text: a YAML stream of one document whose root is a mapping.
        file: name of the text in spans.
    """
    written, problems = parse_value(text, file)
    if written is None:
        return None, problems
    if isinstance(written.value, dict):
        return Document(written.value, written.place), problems
    found = "is empty" if written.value is None else "does not start with a mapping"
    diagnostic = Diagnostic(
        "PF1004",
        f"the workflow file {found}",
        span=Span(file) if written.value is None else written.place.span,
        path=file,
        help="a workflow starts with `version: 1`, `name:` and `stages:`; `probe-flow templates` lists ready ones",
    )
    return None, [*problems, diagnostic]


def parse_value(
    text: str, file: str, *, what: str = "workflow", max_values: int = MAX_NODES
) -> tuple[Written | None, list[Diagnostic]]:
    """Return the one value of a text (None for an empty text), or None where it is no YAML, with all problems found.

    Args:
        text: a YAML stream of one document.
        file: name of the text in spans.
        what: what messages call the file.
        max_values: values that a document may have after its aliases are expanded.
    """
    problem = find_control_character(text, file)
    if problem:
        return None, [problem]
    builder = _Builder(text, file, what, max_values)
    try:
        built = builder.document()
    except yaml.YAMLError as error:
        return None, [*builder.problems, explain_yaml_error(error, text, file)]
    except _AbandonedError as abandoned:
        return None, [*builder.problems, abandoned.diagnostic]
    if built is None:
        return Written(None, Place(Span(file))), builder.problems
    return Written(built.value, built.place), builder.problems


class _AbandonedError(Exception):
    """The document cannot be read any further."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


class _Built(Struct, frozen=True):
    value: object
    place: Place
    size: int = 1
    is_merge_key: bool = False


class _Builder:
    """Turns the parser's events into values; an own composer because PyYAML's keeps only the last of equal keys."""

    def __init__(self, text: str, file: str, what: str, max_values: int) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._file = file
        self._what = what
        self._max_values = max_values
        self._anchors: dict[str, _Built] = {}
        self._open_anchors: set[str] = set()
        self._depth = 0
        self.problems: list[Diagnostic] = []

    def document(self) -> _Built | None:
        """Return the first document; a second one is a problem."""
        built = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if built is not None:
                    span = self._span(event.start_mark, event.end_mark)
                    self.problems.append(
                        Diagnostic(
                            "PF1002",
                            f"the {self._what} file holds several documents",
                            span=span,
                            label="a second document starts here",
                            help=f"remove the `---`, or put the second {self._what} into a file of its own",
                        )
                    )
                    break
                built = self._node(next(self._events))
        return built

    def _node(self, event: Any) -> _Built:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._anchored(event, self._scalar(event))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._abandon("PF1006", f"values are nested deeper than {MAX_DEPTH} levels", event)
        if event.anchor:
            self._open_anchors.add(event.anchor)
        self._check_collection_tag(event)
        built = self._sequence(event) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(event)
        self._depth -= 1
        self._open_anchors.discard(event.anchor)
        if built.size > self._max_values:
            raise self._abandon("PF1006", f"aliases expand to more than {self._max_values:,} values", event)
        return self._anchored(event, built)

    def _anchored(self, event: Any, built: _Built) -> _Built:
        if event.anchor:
            self._anchors[event.anchor] = built
        return built

    def _alias(self, event: Any) -> _Built:
        if event.anchor in self._open_anchors:
            raise self._abandon("PF1006", f"the anchor `&{event.anchor}` contains itself", event)
        if event.anchor not in self._anchors:
            raise self._abandon("PF1001", f"YAML syntax: there is no anchor `&{event.anchor}` before this alias", event)
        built = self._anchors[event.anchor]
        used = self._span(event.start_mark, event.end_mark)
        return replace(built, place=replace(built.place, span=used, definition=built.place.span))

    def _scalar(self, event: Any) -> _Built:
        place = Place(self._span(event.start_mark, event.end_mark))
        is_plain = event.style in (None, "")
        try:
            if event.tag and event.tag != "!":
                value: object = self._tagged(event)
            else:
                value = read_plain(event.value) if is_plain and not event.tag else event.value
        except OverflowError as error:
            self.problems.append(Diagnostic("PF1006", f"a value cannot be read: {error}", span=place.span))
            value = HOLE
        except ValueError as error:
            self.problems.append(Diagnostic("PF1007", f"a value cannot be read: {error}", span=place.span))
            value = HOLE
        return _Built(value, place, is_merge_key=is_plain and not event.tag and event.value == _MERGE)

    def _tagged(self, event: Any) -> object:
        try:
            return tagged(event.tag.removeprefix(_CORE), event.value)
        except KeyError:
            self._foreign_tag(event)
            return HOLE

    def _check_collection_tag(self, event: Any) -> None:
        own = "seq" if isinstance(event, yaml.SequenceStartEvent) else "map"
        if event.tag and event.tag not in ("!", _CORE + own):
            self._foreign_tag(event)

    def _foreign_tag(self, event: Any) -> None:
        shown = event.tag.replace(_CORE, "!!")
        self.problems.append(
            Diagnostic(
                "PF1007",
                f"the tag `{shown}` is not allowed",
                span=self._span(event.start_mark, event.end_mark),
                help=f"remove the tag; a {self._what} holds text, numbers, true, false, null, lists and mappings",
            )
        )

    def _sequence(self, start: Any) -> _Built:
        items: list[object] = []
        children: dict[str | int, Place] = {}
        size = 1
        end = start.end_mark
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                end = event.end_mark if start.flow_style else None
                break
            built = self._node(event)
            children[len(items)] = built.place
            items.append(built.value)
            size += built.size
        return _Built(items, Place(self._extent(start, end, children), children=MappingProxyType(children)), size)

    def _mapping(self, start: Any) -> _Built:
        values: dict[str | int, object] = {}
        children: dict[str | int, Place] = {}
        merges: list[_Built] = []
        size = 1
        end = start.end_mark
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                end = event.end_mark if start.flow_style else None
                break
            key = self._node(event)
            built = self._node(next(self._events))
            size += built.size
            if key.is_merge_key:
                merges += self._merge_sources(built)
            elif self._is_usable(key, children):
                name = cast("str | int", key.value)
                values[name] = built.value
                children[name] = replace(built.place, key=key.place.span)
        for merge in merges:
            for name, value in cast("dict[str | int, object]", merge.value).items():
                if name not in values:
                    values[name] = value
                    children[name] = merge.place.children[name]
        return _Built(values, Place(self._extent(start, end, children), children=MappingProxyType(children)), size)

    def _is_usable(self, key: _Built, children: Mapping[str | int, Place]) -> bool:
        """Report keys that are neither text nor whole numbers, and keys that were there before."""
        if not isinstance(key.value, str | int) or isinstance(key.value, bool):
            found = {bool: "a boolean", float: "a number", type(None): "empty"}.get(type(key.value), "not text")
            self.problems.append(
                Diagnostic(
                    "PF1005", f"a key is {found}", span=key.place.span, label="expected text", help="quote the key"
                )
            )
            return False
        if isinstance(key.value, int) and key.value.bit_length() > KEY_BITS:
            self.problems.append(
                Diagnostic(
                    "PF1005",
                    f"a key is a number of more than {KEY_BITS} bits",
                    span=key.place.span,
                    label="expected text or a smaller number",
                    help="quote the key if it is a name",
                )
            )
            return False
        earlier = children.get(key.value)
        if earlier is None:
            return True
        self.problems.append(
            Diagnostic(
                "PF1003",
                f"the key `{key.value}` is written twice",
                span=key.place.span,
                label="written again here",
                related=((earlier.name_span, "first written here"),),
                help="keep one of them",
            )
        )
        return False

    def _merge_sources(self, built: _Built) -> list[_Built]:
        """Return the mappings that a ``<<`` names."""
        items = [built]
        if isinstance(built.value, list):
            items = [_Built(value, built.place.children[i]) for i, value in enumerate(built.value)]
        for item in items:
            if not isinstance(item.value, dict):
                self.problems.append(
                    Diagnostic(
                        "PF1011",
                        "`<<` merges something that is not a mapping",
                        span=built.place.span,
                        label="expected an alias of a mapping, such as `*name`",
                    )
                )
        return [item for item in items if isinstance(item.value, dict)]

    def _extent(self, start: Any, end: Any, children: Mapping[str | int, Place]) -> Span:
        """Return the span of a collection; a block one ends with its last child, not at the next token."""
        span = self._span(start.start_mark, end or start.end_mark)
        if end is not None or not children:
            return span
        last = next(reversed(list(children.values()))).span
        if last.file == span.file and (last.end_line, last.end_column) > (span.line, span.column):
            return replace(span, end_line=last.end_line, end_column=last.end_column)
        return span

    def _span(self, start: Any, end: Any) -> Span:
        return Span(self._file, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _abandon(self, code: str, message: str, event: Any) -> _AbandonedError:
        return _AbandonedError(Diagnostic(code, message, span=self._span(event.start_mark, event.end_mark)))
