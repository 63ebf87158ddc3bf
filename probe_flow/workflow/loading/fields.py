"""Look into option models: which options name stages, which are paths, which models and fields stand at a location."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from probe_flow.files.yaml.places import Loc, Place
from probe_flow.stages.base import Consumes, IsPath, Kind

Marker = TypeVar("Marker")

_EACH = "*"
# Built at run time from parts that no type checker can see.
_ANNOTATED: Any = Annotated

KIND_WORDS: Mapping[Kind, str] = types.MappingProxyType(
    {
        Kind.CATALOG: "a catalog",
        Kind.PAIRS: "pairs",
        Kind.COMPARISON: "a comparison",
        Kind.REPORT: "a report",
        Kind.SCRIPTS: "scripts",
    }
)


class Subject(Struct, frozen=True):
    """What a model describes: the whole file, or one stage of it."""

    model: type[BaseModel]
    place: Place
    stage: str | None = None
    uses: str | None = None

    def path(self, loc: Loc) -> str:
        """Return a location as people write it: ``select.ranks[0]``."""
        text = ""
        for step in loc:
            text += f"[{step}]" if isinstance(step, int) else f".{step}"
        return text.lstrip(".")

    def name(self, loc: Loc) -> str:
        """Return a location with the stage that it belongs to."""
        if self.stage is None:
            return f"`{self.path(loc)}`" if loc else "the workflow"
        return f"`{self.path(loc)}` of stage `{self.stage}`" if loc else f"stage `{self.stage}`"


def kind_words(consumes: Consumes) -> str:
    """Return in words what an option takes."""
    kind = KIND_WORDS[consumes.kind]
    return f"{kind} of a `{consumes.family}.*` stage" if consumes.family else kind


class Marked(Struct, Generic[Marker], frozen=True):
    """An option that carries a marker in its type.

    Args:
        pattern: location from the model's root; ``*`` stands for every item of a list or value of a mapping.
        marker: what it carries.
    """

    pattern: tuple[str, ...]
    marker: Marker

    @property
    def name(self) -> str:
        """The option as people write it: ``pairs``, ``only.comparison``."""
        return ".".join(step for step in self.pattern if step != _EACH)

    def find(self, values: object) -> Iterator[tuple[Loc, object]]:
        """Yield location and value of every place in ``values`` where this option is written."""
        yield from _find(values, self.pattern, ())


def _find(values: object, pattern: tuple[str, ...], loc: Loc) -> Iterator[tuple[Loc, object]]:
    if not pattern:
        yield loc, values
        return
    head, rest = pattern[0], pattern[1:]
    if head == _EACH:
        items = enumerate(values) if isinstance(values, list) else ()
        if isinstance(values, dict):
            items = values.items()  # type: ignore[assignment]
        for key, value in items:
            yield from _find(value, rest, (*loc, key))
    elif isinstance(values, dict) and head in values:
        yield from _find(values[head], rest, (*loc, head))


@cache
def marked(model: type[BaseModel], kind: type[Marker]) -> tuple[Marked[Marker], ...]:
    """Return every option of a model, also of models inside, that carries a marker of a class."""
    return tuple(Marked(pattern, marker) for pattern, marker in _markers(model, kind, ()))


def _markers(annotation: Any, kind: type[Marker], pattern: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Marker]]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        yield from ((pattern, extra) for extra in extras if isinstance(extra, kind))
        yield from _markers(inner, kind, pattern)
    elif is_model(annotation):
        for name, field in fields_of(annotation).items():
            yield from _field_markers(field, kind, (*pattern, name))
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            yield from _markers(inner, kind, pattern)
    elif origin in (list, dict):
        yield from _markers(get_args(annotation)[-1], kind, (*pattern, _EACH))


def _field_markers(
    field: FieldInfo, kind: type[Marker], pattern: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Marker]]:
    yield from ((pattern, extra) for extra in field.metadata if isinstance(extra, kind))
    yield from _markers(field.annotation, kind, pattern)


def is_model(annotation: Any) -> bool:
    """Return whether an annotation is a pydantic model class."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def fields_of(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Return the fields of a model by the names that people write."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def field_type(field: FieldInfo) -> Any:
    """Return the type of a field with what it is annotated with, which pydantic keeps apart."""
    parts = (field.annotation, *field.metadata)
    return _ANNOTATED[parts] if field.metadata else field.annotation


def types_at(model: type[BaseModel], loc: Loc) -> list[Any]:
    """Return the types that a value at a location may have; several where a union stands above it."""
    annotations: list[Any] = [model]
    for step in loc:
        annotations = [inner for annotation in annotations for inner in _inside(annotation, step)]
    return annotations


def models_at(model: type[BaseModel], loc: Loc) -> list[type[BaseModel]]:
    """Return the models that a value at a location may be; several where the type is a union."""
    return [each for annotation in types_at(model, loc) for each in alternatives(annotation) if is_model(each)]


def choices_of(annotation: Any) -> list[str]:
    """Return the texts of the literals that a type allows."""
    literals = [each for each in alternatives(annotation) if get_origin(each) is Literal]
    return [choice for literal in literals for choice in get_args(literal) if isinstance(choice, str)]


def _inside(annotation: Any, step: str | int) -> Iterator[Any]:
    for inner in alternatives(annotation):
        if is_model(inner):
            field = fields_of(inner).get(str(step))
            if field is not None:
                yield field_type(field)
        elif get_origin(inner) in (list, dict):
            yield get_args(inner)[-1]


def alternatives(annotation: Any) -> Iterator[Any]:
    """Yield the types of a union, at any depth, without their annotations; or the type itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            yield from alternatives(inner)
    else:
        yield annotation


_WORDS: Mapping[Any, tuple[str, str]] = types.MappingProxyType(
    {
        str: ("text", "texts"),
        int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"),
        bool: ("`true` or `false`", "`true` or `false`"),
        object: ("a value", "values"),
    }
)


def type_words(annotation: Any) -> str:
    """Return a type in words, such as ``a list of whole numbers``."""
    return _joined(_words(annotation, plural=False))


def _joined(words: Iterator[str]) -> str:
    once = list(dict.fromkeys(words))
    return " or ".join(filter(None, (", ".join(once[:-1]), once[-1])))


def _words(annotation: Any, *, plural: bool) -> Iterator[str]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marker = next((word for extra in args[1:] if (word := _marker_words(extra))), None)
        yield from [marker] if marker else _words(args[0], plural=plural)
    elif origin in (Union, types.UnionType):
        for inner in args:
            yield from _words(inner, plural=plural)
    elif origin is Literal:
        yield from (f"`{choice}`" for choice in args)
    elif origin in (list, dict):
        inside = " to ".join(_joined(_words(inner, plural=True)) for inner in args)
        noun = ("list", "of") if origin is list else ("mapping", "from")
        yield f"{noun[0]}s {noun[1]} {inside}" if plural else f"a {noun[0]} {noun[1]} {inside}"
    elif is_model(annotation):
        names = ", ".join(f"`{name}`" for name in fields_of(annotation))
        yield f"mappings with {names}" if plural else f"a mapping with {names}"
    elif annotation is not type(None):
        yield _WORDS[annotation][plural]


def _marker_words(extra: object) -> str | None:
    if isinstance(extra, Consumes):
        return f"the name of a stage that gives {kind_words(extra)}"
    return "a path" if isinstance(extra, IsPath) and extra.path_in is None else None
