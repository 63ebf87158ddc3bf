"""``${params.x} ${env.X} ${run.output} ${matrix.x}``, and nothing else.

A value that is one interpolation as a whole keeps the type of what it names; inside a text it becomes text.
``$${`` stands for the characters ``${``. ``${run.output}`` stays as it is until the run has a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Span, WorkflowError, did_you_mean
from probe_flow.files.yaml.places import HOLE, Place
from probe_flow.workflow.model import RUN_OUTPUT
from probe_flow.workflow.sources import COMMAND_LINE, Sources

MAX_EXPANDED = 4 * 2**20
"""Characters and values that all `${...}` and `matrix` of a workflow may expand to: four times the largest file."""

MAX_MISTAKES = 20
"""Wrong interpolations of a workflow that are listed; nobody reads more, and each costs a look at all names."""

_MAX_NAMES = 50

_TOKEN = re.compile(r"\$\$\{|\$\{[^{}]*\}|\$\{")
_REFERENCE = re.compile(r"(params|matrix)\.([A-Za-z_][A-Za-z0-9_-]*)|(env)\.([A-Za-z_][A-Za-z0-9_]*)")
_GRAMMAR = "write `${params.NAME}`, `${env.NAME}`, `${matrix.NAME}` or `${run.output}`; `$${` stands for `${` itself"


class Drop:
    """The value of an optional parameter that is not set: the key that uses it is dropped."""


DROP: Final = Drop()


class Found(Struct, frozen=True):
    """The value of a name, and the folder that a relative path in it starts from (None: that of the user's file)."""

    value: object
    folder: str | None = None


class Expansion(Struct):
    """What the interpolations of one workflow have come to, in all its scopes together."""

    size: int = 0
    mistakes: set[object] = field(default_factory=set)

    def add(self, size: int, span: Span) -> None:
        """Count what a value expands to.

        Raises:
            WorkflowError: PF1311 when the workflow expands to more than `MAX_EXPANDED`.
        """
        self.size += size
        if self.size > MAX_EXPANDED:
            raise WorkflowError(
                Diagnostic(
                    "PF1311",
                    f"`${{...}}` and `matrix` expand to more than {MAX_EXPANDED:,} characters and values",
                    span=span,
                    label="the limit is reached here",
                    help="shorten the values that are inserted, or split the workflow",
                )
            )


class Scope(Struct, frozen=True):
    """What the names mean in one part of a workflow.

    Args:
        params: parameters by name; a value may be `HOLE` or `DROP`. None: parameters have no values here.
        env: environment variables.
        matrix: the variant's values. None: there is no matrix here.
        silent_matrix: names whose absence from `matrix` is not an error (their stage is broken, which was reported).
        has_run: whether ``${run.output}`` is allowed.
        sources: to point at one interpolation inside a longer text.
        expansion: what all scopes of a workflow expand to.
        is_silent: whether mistakes are left to a later look at the same text.
    """

    sources: Sources
    env: Mapping[str, str]
    params: Mapping[str, Found] | None = None
    matrix: Mapping[str, object] | None = None
    silent_matrix: frozenset[str] = frozenset()
    has_run: bool = False
    problems: list[Diagnostic] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    expansion: Expansion = field(default_factory=Expansion)
    is_silent: bool = False

    def interpolate(self, value: object, place: Place) -> tuple[object, Place]:
        """Return a value with every interpolation replaced, and its place; the value is `DROP` where it goes away.

        Raises:
            WorkflowError: PF1311 when the workflow expands to more than `MAX_EXPANDED`.
        """
        self.expansion.add(1, place.span)
        if isinstance(value, str):
            return self._text(value, place)
        if isinstance(value, list):
            items = [self.interpolate(item, place.children[i]) for i, item in enumerate(value)]
            kept = [item for item in items if item[0] is not DROP]
            children = MappingProxyType({i: item_place for i, (_, item_place) in enumerate(kept)})
            return [item for item, _ in kept], replace(place, children=cast("Mapping[str | int, Place]", children))
        if isinstance(value, dict):
            pairs = {key: self.interpolate(item, place.children[key]) for key, item in value.items()}
            # The place of a dropped key stays: a message about the missing key then points at it.
            places = MappingProxyType({key: item_place for key, (_, item_place) in pairs.items()})
            kept_keys = {key: item for key, (item, _) in pairs.items() if item is not DROP}
            return kept_keys, replace(place, children=cast("Mapping[str | int, Place]", places))
        return value, place

    def _text(self, text: str, place: Place) -> tuple[object, Place]:
        tokens = [match[0] for match in _TOKEN.finditer(text)]
        if not tokens:
            return text, place
        spans = self.sources.locate(place.definition or place.span, tokens)
        if tokens[0] == text and text != "$${":
            found = self._reference(text, next(spans))
            if isinstance(found.value, str | list):
                self.expansion.add(len(found.value), place.span)
            return found.value, replace(place, folder=found.folder) if found.folder else place
        return self._embed(text, spans, place.span), place

    def _embed(self, text: str, spans: Iterable[Span], whole: Span) -> object:
        parts: list[str] = []
        end = 0
        gone: object = None
        for match, span in zip(_TOKEN.finditer(text), spans, strict=True):
            token = match[0]
            parts.append(text[end : match.start()])
            end = match.end()
            if token == "$${":
                parts.append("${")
                continue
            value = self._reference(token, span).value
            if isinstance(value, list):
                self._complain("PF1308", span, f"`{token}` is a list and cannot stand inside a text")
                value = HOLE
            if value is DROP or value is HOLE:
                gone = value if gone is not HOLE else HOLE
            parts.append(_as_text(value))
            self.expansion.add(len(parts[-1]) + len(token), whole)
        return gone or "".join(parts) + text[end:]

    def _reference(self, token: str, span: Span) -> Found:
        if token == RUN_OUTPUT and self.has_run:
            return Found(RUN_OUTPUT)
        match = _REFERENCE.fullmatch(token[2:-1]) if token.endswith("}") else None
        if match is None:
            return self._unreadable(token, span)
        look_up: Callable[[str, Span], Found] = {
            "params": self._param,
            "matrix": self._matrix,
            "env": self._env,
        }[match[1] or match[3]]
        return look_up(match[2] or match[4], span)

    def _unreadable(self, token: str, span: Span) -> Found:
        if token == RUN_OUTPUT:
            cure = "the run's folder is known to stages only"
            self._complain("PF1308", span, f"`{token}` has no value here", lambda: cure)
        elif not token.endswith("}"):
            self._complain("PF1305", span, "`${` is not closed", lambda: _GRAMMAR)
        else:
            known = ["run.output", *(f"params.{name}" for name in self.params or ())]
            self._complain(
                "PF1305",
                span,
                f"`{token}` is no interpolation",
                lambda: "  ".join(filter(None, (did_you_mean(token[2:-1].strip(), known), _GRAMMAR))),
            )
        return Found(HOLE)

    def _param(self, name: str, span: Span) -> Found:
        params = self.params
        if params is None:
            self._complain("PF1308", span, "the default of a parameter cannot use another parameter")
            return Found(HOLE)
        if name not in params:
            self._complain(
                "PF1301", span, f"there is no parameter `{name}`", lambda: _known(name, "parameters", sorted(params))
            )
            return Found(HOLE)
        self.used.add(name)
        return params[name]

    def _matrix(self, name: str, span: Span) -> Found:
        matrix = self.matrix
        if matrix is None:
            self._complain(
                "PF1308", span, f"`${{matrix.{name}}}` has no value here", lambda: "only stages have a matrix"
            )
            return Found(HOLE)
        if name in matrix:
            return Found(matrix[name])
        if name not in self.silent_matrix:
            self._complain(
                "PF1307",
                span,
                f"neither this stage nor one that it consumes has a matrix entry `{name}`",
                lambda: _known(name, "entries", list(matrix)),
            )
        return Found(HOLE)

    def _env(self, name: str, span: Span) -> Found:
        if name in self.env:
            return Found(self.env[name], self.sources.folder(COMMAND_LINE))
        self._complain(
            "PF1306",
            span,
            f"the environment variable `{name}` is not set",
            lambda: did_you_mean(name, self.env) or f"set it: `export {name}=...`",
        )
        return Found(HOLE)

    def _complain(self, code: str, span: Span, message: str, cure: Callable[[], str] | None = None) -> None:
        """Add a mistake, once for all variants of a stage; ``cure`` is asked only for one that is listed."""
        mistakes = self.expansion.mistakes
        key = (code, span, message)
        if self.is_silent or key in mistakes or len(mistakes) > MAX_MISTAKES:
            return
        mistakes.add(key)
        if len(mistakes) > MAX_MISTAKES:
            self.problems.append(
                Diagnostic(
                    "PF1312",
                    f"more than {MAX_MISTAKES} interpolations are wrong; those from here on are not listed",
                    span=span,
                    help="correct those that are listed, and look again",
                )
            )
        else:
            self.problems.append(Diagnostic(code, message, span=span, help=cure() if cure else None))


def _known(name: str, what: str, names: list[str]) -> str:
    """Return which names there are, the nearest first."""
    more = f", ... ({len(names):,} in all)" if len(names) > _MAX_NAMES else ""
    known = f"{what}: {', '.join(names[:_MAX_NAMES]) or 'none'}{more}"
    return "  ".join(filter(None, (did_you_mean(name, names), known)))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
