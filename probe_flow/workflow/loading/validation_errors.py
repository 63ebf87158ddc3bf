"""Turn what pydantic says of a model into diagnostics for people, at the place where the value was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ValidationError

from probe_flow.errors import Diagnostic, Span, did_you_mean
from probe_flow.files.yaml.places import HOLE, Loc, Place, nearest
from probe_flow.packages import BrokenPackageError
from probe_flow.workflow.loading.fields import Subject, choices_of, fields_of, models_at, type_words, types_at

_UNION = "union"
_KEY = "[key]"
_YAML_11_BOOLEANS = frozenset({"yes", "no", "on", "off", "y", "n"})

# pydantic's error type -> the condition that the value misses, filled from the error's context.
_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "greater_than": "a number greater than {gt:g}",
        "greater_than_equal": "a number of {ge:g} or more",
        "less_than": "a number less than {lt:g}",
        "less_than_equal": "a number of {le:g} or less",
        "string_pattern_mismatch": "a text that matches `{pattern}`",
        "string_too_short": "a text of {min_length} or more characters",
        "string_too_long": "a text of {max_length} or fewer characters",
        "too_short": "{min_length} or more entries",
        "too_long": "{max_length} or fewer entries",
        "finite_number": "a finite number",
    }
)


class _Leaf(Struct, frozen=True):
    """One mistake, at a location without union tags."""

    kind: str
    loc: Loc
    value: object
    context: Mapping[str, Any]
    message: str

    @property
    def depth(self) -> int:
        return len(self.loc) + (self.kind == "missing")


class _Raw(Struct, frozen=True):
    """What is left of one pydantic error while its location is walked."""

    error: Any
    rest: Loc

    def leaf(self, loc: Loc) -> _Leaf:
        return _Leaf(self.error["type"], loc, self.error["input"], self.error.get("ctx", {}), self.error["msg"])


def complaints(error: ValidationError, subject: Subject) -> list[Diagnostic]:
    """Return one diagnostic for every mistake; what depends on a value already reported (`HOLE`) is left out."""
    raws = [_Raw(each, each["loc"]) for each in error.errors(include_url=False)]
    leaves = [leaf for leaf in _leaves(raws, subject.place, ()) if leaf.value is not HOLE]
    unknown: dict[Loc, list[str]] = {}
    for leaf in leaves:
        if leaf.kind == "extra_forbidden":
            unknown.setdefault(leaf.loc[:-1], []).append(str(leaf.loc[-1]))
    return [_diagnostic(leaf, subject) for leaf in leaves if not _is_misspelt(leaf, unknown)]


def _is_misspelt(leaf: _Leaf, unknown: Mapping[Loc, Sequence[str]]) -> bool:
    """Return whether a missing key is there under a wrong name, which is one mistake and not two."""
    return leaf.kind == "missing" and did_you_mean(str(leaf.loc[-1]), unknown.get(leaf.loc[:-1], ())) is not None


def _leaves(raws: Sequence[_Raw], place: Place, loc: Loc) -> Iterator[_Leaf]:
    """Walk locations against what was written; a step that was not written is the tag of a union's branch."""
    children: dict[str | int, list[_Raw]] = {}
    branches: dict[str | int, list[_Raw]] = {}
    for raw in raws:
        head, *rest = raw.rest or (None,)
        if head is None or (raw.error["type"] == "missing" and not rest) or head == _KEY:
            yield raw.leaf(loc if head is None else (*loc, head))
        elif head in place.children:
            children.setdefault(head, []).append(_Raw(raw.error, tuple(rest)))
        else:
            branches.setdefault(head, []).append(_Raw(raw.error, tuple(rest)))
    for head, inside in children.items():
        yield from _leaves(inside, place.children[head], (*loc, head))
    if branches:
        yield from _nearest_branch([list(_leaves(inside, place, loc)) for inside in branches.values()], loc)


def _nearest_branch(branches: Sequence[Sequence[_Leaf]], loc: Loc) -> Iterator[_Leaf]:
    """Yield the mistakes of the branch that was meant: the one that fits deepest, with the fewest mistakes."""
    best = max(branches, key=lambda leaves: (max(leaf.depth for leaf in leaves), -len(leaves)))
    if max(leaf.depth for leaf in best) > len(loc) or len(branches) == 1:
        yield from best
    else:
        yield _Leaf(_UNION, loc, best[0].value, {}, best[0].message)


def _diagnostic(leaf: _Leaf, subject: Subject) -> Diagnostic:
    if leaf.kind == "missing":
        return _missing(leaf, subject)
    if leaf.kind == "extra_forbidden":
        return _unknown_key(leaf, subject)
    if leaf.kind == "value_error":
        return _refused(leaf, subject)
    if leaf.kind == "invalid_key" or leaf.loc[-1:] == (_KEY,):
        return _bad_key(leaf, subject)
    condition = _CONDITIONS.get(leaf.kind)
    if condition is not None:
        return _bad_value(leaf, subject, condition.format(**leaf.context))
    return _wrong_type(leaf, subject)


def _refused(leaf: _Leaf, subject: Subject) -> Diagnostic:
    """Report what a field's own check says, at the key or at the value that it refuses."""
    loc = tuple(step for step in leaf.loc if step != _KEY)
    place = nearest(subject.place, loc)
    said = _said(leaf.context["error"])
    return replace(
        said,
        message=f"{subject.name(loc[:-1] if loc != leaf.loc else loc)}: {said.message}",
        span=place.span if loc == leaf.loc else place.name_span,
        related=_definition(place),
        stage=subject.stage,
    )


def _said(error: ValueError) -> Diagnostic:
    if isinstance(error, BrokenPackageError):
        return error.diagnostic
    message, _, advice = str(error).partition("; ")
    return Diagnostic(getattr(error, "code", "PF1205"), message, help=advice or None)


def _missing(leaf: _Leaf, subject: Subject) -> Diagnostic:
    owner, key = leaf.loc[:-1], str(leaf.loc[-1])
    place = nearest(subject.place, owner)
    fields = [fields_of(model)[key] for model in models_at(subject.model, owner) if key in fields_of(model)]
    description = next((field.description for field in fields if field.description), None)
    dropped = place.children.get(key)
    by = f"`{subject.uses}` needs it" if subject.uses and not owner else "it is needed"
    return Diagnostic(
        "PF1201",
        f"{subject.name(owner)} has no `{key}`",
        span=dropped.span if dropped else place.key or (place.span if owner else _first_line(place)),
        label=by,
        help=f"`{key}`: {description}" if description else None,
        notes=("its value uses an optional parameter that is not set",) if dropped else (),
        stage=subject.stage,
    )


def _first_line(root: Place) -> Span:
    """Return the place of the first key of a file: where one that is missing belongs."""
    keys = [child.key for child in root.children.values() if child.key is not None and child.key.file == root.span.file]
    return min(keys, key=lambda key: key.line, default=Span(root.span.file))


def _unknown_key(leaf: _Leaf, subject: Subject) -> Diagnostic:
    owner, key = leaf.loc[:-1], str(leaf.loc[-1])
    place = nearest(subject.place, leaf.loc)
    known = list(dict.fromkeys(name for model in models_at(subject.model, owner) for name in fields_of(model)))
    where = "at the top of the workflow" if not owner and subject.stage is None else f"in {subject.name(owner)}"
    near = did_you_mean(key, known)
    keys = f"keys: {', '.join(known)}"
    return Diagnostic(
        "PF1203",
        f"unknown key `{key}` {where}",
        span=place.name_span,
        label=f"`{subject.uses}` has no such key" if subject.uses and not owner else "there is no such key",
        help=f"{near}  {keys}" if near else keys,
        stage=subject.stage,
    )


def _bad_key(leaf: _Leaf, subject: Subject) -> Diagnostic:
    loc = tuple(step for step in leaf.loc if step != _KEY)
    place = nearest(subject.place, loc)
    expected = "a whole number" if leaf.kind.startswith("int") else "text"
    return Diagnostic(
        "PF1005",
        f"a key of {subject.name(loc[:-1])} is {found_words(loc[-1])}, expected {expected}",
        span=place.name_span,
        label=f"expected {expected}",
        help="quote the key" if expected == "text" else "remove the quotes" if str(loc[-1]).isdigit() else None,
        stage=subject.stage,
    )


def _bad_value(leaf: _Leaf, subject: Subject, condition: str) -> Diagnostic:
    place = nearest(subject.place, leaf.loc)
    if leaf.kind == "string_pattern_mismatch":
        examples = [f"`{example}`" for example in _examples(leaf.loc, subject)]
        condition = f"a text such as {' or '.join(examples)}" if examples else condition
    return Diagnostic(
        "PF1205",
        f"{subject.name(leaf.loc)} is {found_words(leaf.value)}, expected {condition}",
        span=place.span,
        label=f"expected {condition}",
        related=_definition(place),
        stage=subject.stage,
    )


def _examples(loc: Loc, subject: Subject) -> list[object]:
    models = models_at(subject.model, loc[:-1])
    fields = [fields_of(model)[str(loc[-1])] for model in models if str(loc[-1]) in fields_of(model)]
    return [example for field in fields for example in field.examples or ()]


def _wrong_type(leaf: _Leaf, subject: Subject) -> Diagnostic:
    place = nearest(subject.place, leaf.loc)
    annotations = types_at(subject.model, leaf.loc)
    choices = [choice for annotation in annotations for choice in choices_of(annotation)]
    expected = " or ".join(dict.fromkeys(type_words(annotation) for annotation in annotations)) or leaf.message
    is_choice = bool(choices) and isinstance(leaf.value, str)
    is_other_literal = leaf.kind == "literal_error" and isinstance(leaf.value, int | float)
    return Diagnostic(
        "PF1204" if is_choice or is_other_literal else "PF1202",
        f"{subject.name(leaf.loc)} is {found_words(leaf.value)}, expected {expected}",
        span=place.span,
        label=f"expected {expected}",
        help=did_you_mean(str(leaf.value), choices)
        if is_choice
        else _bound_help(leaf) or type_help(leaf.value, expected),
        related=_definition(place),
        stage=subject.stage,
    )


def _bound_help(leaf: _Leaf) -> str | None:
    """Return the bound that was meant by the number alone that stands at a metric."""
    if len(leaf.loc) < 2 or leaf.loc[-2] not in ("pass", "warn", "bound") or not isinstance(leaf.value, int | float):
        return None
    from probe_flow.metrics.catalogue.registry import METRICS

    metric = str(leaf.loc[-1])
    is_higher = metric in METRICS and METRICS[metric].better.value == "higher"
    return f"write a bound in quotes: `{metric}: '{'>=' if is_higher else '<='} {leaf.value}'`"


def type_help(value: object, expected: str) -> str | None:
    """Return how to write a value so that it is of the expected type, where that is plain to see."""
    if isinstance(value, str) and value.lower() in _YAML_11_BOOLEANS and "`true`" in expected:
        return f"`{value}` is text in a workflow; write `true` or `false`"
    if isinstance(value, int | float) and expected.startswith(("text", "a path", "the name")):
        return "quote it"
    if expected.startswith("a list") and isinstance(value, str | int | float):
        return f"write `[{value}]`"
    return None


def _definition(place: Place) -> tuple[tuple[Span, str], ...]:
    return ((place.definition, "the alias stands for this"),) if place.definition else ()


def found_words(value: object) -> str:
    """Return a value, or what it is where it is long, in words."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"the number `{value}`"
    if isinstance(value, str):
        return f"`{value}`" if value else "an empty text"
    return "a list" if isinstance(value, list) else "a mapping"
