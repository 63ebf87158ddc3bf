"""A stage as it is written: which type it has, which variants it declares, which stages it names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span, UsageError, did_you_mean
from probe_flow.files.yaml.places import HOLE, Place, nearest
from probe_flow.stages.base import Consumes, StageType
from probe_flow.workflow.loading.fields import marked
from probe_flow.workflow.loading.interpolation import Scope
from probe_flow.workflow.model import NAME

Variant: TypeAlias = "Mapping[str, object]"

MAX_VARIANTS = 1000


class Wire(Struct, frozen=True):
    """One name of a stage in an option of another."""

    option: str
    stage: str
    consumes: Consumes
    span: Span


CHOICES = ("include", "exclude")
"""Keys of a matrix that are no entries: combinations to add and to leave out."""


class Draft(Struct, frozen=True):
    """A stage as it is written.

    Args:
        name: its key.
        raw: its options, not interpolated.
        place: of the options.
        type: None where `uses` is missing or unknown.
        variants: of its own matrix, with the stages that each names; one empty variant where there is no matrix.
    """

    name: str
    raw: Mapping[str | int, object]
    place: Place
    type: StageType | None
    variants: Sequence[tuple[Variant, tuple[Wire, ...]]]

    @property
    def wires(self) -> tuple[Wire, ...]:
        """Every wire of every variant, each once."""
        return tuple(dict.fromkeys(wire for _, wires in self.variants for wire in wires))


class DraftReader(Struct):
    """Reads the stages of a file one by one.

    Args:
        types: every known stage by its ``uses``.
        scope: what interpolations mean, without a matrix.
        problems: takes what is wrong.
    """

    types: Mapping[str, StageType]
    scope: Scope
    problems: list[Diagnostic] = field(default_factory=list)

    def read(self, name: str, raw: object, place: Place) -> Draft:
        """Return the draft of one stage; one that is no mapping has no options."""
        if not isinstance(raw, dict):
            found = "empty" if raw is None else "not a mapping"
            self.problems.append(
                Diagnostic(
                    "PF1202",
                    f"stage `{name}` is {found}, expected a mapping with `uses` and its options",
                    span=place.name_span if raw is None else place.span,
                    label="expected a mapping",
                    help=f"`{name}: {{uses: KIND.VARIANT, ...}}`",
                    stage=name,
                )
            )
            return Draft(name, {}, place, None, [({}, ())])
        options = cast("dict[str | int, object]", raw)
        type_ = self._type(name, options, place)
        own = [
            (variant, tuple(self._wires(type_, options, place, variant)) if type_ else ())
            for variant in self._variants(name, options, place)
        ]
        return Draft(name, options, place, type_, own)

    def _type(self, name: str, raw: Mapping[str | int, object], place: Place) -> StageType | None:
        if "uses" not in raw:
            self.problems.append(
                Diagnostic(
                    "PF1201",
                    f"stage `{name}` has no `uses`",
                    span=place.name_span,
                    label="which type is it?",
                    help=f"types: {', '.join(self.types)}",
                    stage=name,
                )
            )
            return None
        at = place.children["uses"]
        uses, _ = self.scope.interpolate(raw["uses"], at)
        if isinstance(uses, str) and uses in self.types:
            try:
                return self.types[uses]
            except UsageError as error:  # its package is broken
                self.problems += [replace(each, span=at.span, stage=name) for each in error.diagnostics]
                return None
        if isinstance(uses, str):
            near = did_you_mean(uses, self.types)
            known = f"types: {', '.join(self.types)}"
            self.problems.append(
                Diagnostic(
                    "PF2002",
                    f"there is no stage type `{uses}`",
                    span=at.span,
                    label="unknown stage type",
                    help=f"{near}  {known}" if near else known,
                    stage=name,
                )
            )
        elif uses is not HOLE:
            self.problems.append(
                Diagnostic(
                    "PF1202",
                    f"`uses` of stage `{name}` is not text",
                    span=at.span,
                    label="expected the name of a stage type",
                    help=f"types: {', '.join(self.types)}",
                    stage=name,
                )
            )
        return None

    def _variants(self, name: str, raw: Mapping[str | int, object], place: Place) -> list[Variant]:
        at = place.children.get("matrix")
        matrix, _ = self.scope.interpolate(raw.get("matrix"), at) if at else (None, None)
        if at is None or not isinstance(matrix, dict):
            return [{}]
        entries: dict[str, list[object]] = {}
        count = 1
        for key, values in matrix.items():
            if isinstance(key, str) and isinstance(values, list) and key not in CHOICES:
                entries[key] = values if self._is_usable(name, key, values, at) else [HOLE]
                count *= len(entries[key])
        if count > MAX_VARIANTS:
            self.problems.append(
                Diagnostic(
                    "PF2007", f"stage `{name}` has {count:,} variants, at most {MAX_VARIANTS:,} work", span=at.span
                )
            )
            return [dict.fromkeys(entries, HOLE)]
        variants: list[Variant] = [
            dict(zip(entries, values, strict=True)) for values in itertools.product(*entries.values())
        ]
        chosen, problems = chosen_variants(name, variants if entries else [], tuple(entries), matrix, at)
        self.problems += problems
        return chosen or [dict.fromkeys(entries, HOLE)]

    def _is_usable(self, name: str, key: str, values: Sequence[object], matrix: Place) -> bool:
        at = matrix.children[key]
        if not re.match(NAME, key):
            self.problems.append(odd_name("matrix entry", key, at.name_span))
        texts = [str(value) for value in values]
        twice = next((i for i, text in enumerate(texts) if text in texts[:i]), None)
        if values and twice is None:
            return True
        what = "has no values" if twice is None else f"has the value `{texts[twice]}` twice"
        self.problems.append(
            Diagnostic(
                "PF2007",
                f"the matrix entry `{key}` of stage `{name}` {what}",
                span=at.span if twice is None else nearest(at, (twice,)).span,
                help="list each value once",
                stage=name,
            )
        )
        return False

    def _wires(
        self, type_: StageType, raw: Mapping[str | int, object], place: Place, variant: Variant
    ) -> Iterator[Wire]:
        # What is wrong with these texts is reported when the stage's options are read as a whole.
        scope = replace(self.scope, matrix=variant, is_silent=True)
        for option in marked(type_.options, Consumes):
            for loc, value in option.find(raw):
                at = nearest(place, loc)
                stage, _ = scope.interpolate(value, at)
                if isinstance(stage, str):
                    yield Wire(option.name, stage, option.marker, at.span)


def chosen_variants(
    stage: str, variants: list[Variant], entries: Sequence[str], matrix: Mapping[Any, object], place: Place
) -> tuple[list[Variant], list[Diagnostic]]:
    """Return the combinations of a matrix without those that it excludes, then those that it includes.

    Args:
        stage: name of the stage.
        variants: every combination of the entries.
        entries: their names.
        matrix: as it is written; what has another form than it should is reported elsewhere.
        place: of the matrix.
    """
    found, problems = list(variants), list[Diagnostic]()

    def refuse(word: str, number: int, what: str, cure: str) -> None:
        span = nearest(place, (word, number)).span
        message = f"`{word}` of the matrix of stage `{stage}` {what}"
        problems.append(Diagnostic("PF2007", message, span=span, stage=stage, help=cure))

    for word, number, given in _choices(matrix):
        known = entries or tuple(found[0] if found else given)
        odd = [key for key in given if key not in known]
        if odd:
            refuse(word, number, f"names `{odd[0]}`, which is no entry", f"entries: {', '.join(known)}")
        elif word == "exclude":
            left = [each for each in found if not all(_is_equal(each[key], value) for key, value in given.items())]
            if len(left) == len(found):
                refuse(word, number, "fits none of its combinations", "take it out, or correct its values")
            found = left
        elif missing := [key for key in known if key not in given]:
            refuse(word, number, f"has no value for `{missing[0]}`", "give each combination a value for every entry")
        elif any(all(_is_equal(each[key], given[key]) for key in known) for each in found):
            refuse(word, number, "names a combination that is there already", "list each combination once")
        else:
            found.append({key: given[key] for key in known})
    if not found and not problems:
        cure = "leave a combination in, or take the stage out"
        message = f"the matrix of stage `{stage}` has no combination left"
        problems.append(Diagnostic("PF2007", message, span=place.span, stage=stage, help=cure))
    return found, problems


def _choices(matrix: Mapping[Any, object]) -> Iterator[tuple[str, int, Mapping[str, object]]]:
    """Yield what a matrix excludes, then what it includes: an exclusion is about the combinations of its entries."""
    for word in reversed(CHOICES):
        listed = matrix.get(word)
        for number, given in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(given, dict) and given and all(isinstance(key, str) for key in given):
                yield word, number, given


def _is_equal(one: object, other: object) -> bool:
    """Whether two values are one, as texts are compared in names of variants; what is not known yet is none."""
    return HOLE not in (one, other) and str(one) == str(other)


def odd_name(what: str, name: str, span: Span) -> Diagnostic:
    """Return the diagnostic of a name with characters that names cannot have."""
    return Diagnostic(
        "PF1206",
        f"`{name}` cannot be the name of a {what}",
        span=span,
        label="a letter or `_` first, then letters, digits, `_` and `-`",
        help=f"for example `{_plain_name(name)}`",
    )


def _plain_name(name: Any) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", str(name)).strip("_") or "name"
    return plain if re.match(NAME, plain) else f"_{plain}"
