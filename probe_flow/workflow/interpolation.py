"""``${params.x} ${env.X} ${run.output} ${matrix.x}``, and nothing else.

A value that is one interpolation as a whole keeps the type of what it names; inside a text it becomes text.
``$${`` stands for the characters ``${``. ``${run.output}`` stays as it is until the run has a folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, cast

from probe_flow.errors import Diagnostic, Span, did_you_mean
from probe_flow.formats.yaml_places import HOLE, Place
from probe_flow.workflow.sources import COMMAND_LINE, Sources

RUN_OUTPUT: Final = "${run.output}"

_TOKEN = re.compile(r"\$\$\{|\$\{[^{}]*\}|\$\{")
_REFERENCE = re.compile(r"(params|matrix)\.([A-Za-z_][A-Za-z0-9_-]*)|(env)\.([A-Za-z_][A-Za-z0-9_]*)")
_GRAMMAR = "write `${params.NAME}`, `${env.NAME}`, `${matrix.NAME}` or `${run.output}`; `$${` stands for `${` itself"


class Drop:
    """The value of an optional parameter that is not set: the key that uses it is dropped."""


DROP: Final = Drop()


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a name, and the folder that a relative path in it starts from (None: that of the user's file)."""

    value: object
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names mean in one part of a workflow.

    Args:
        params: parameters by name; a value may be `HOLE` or `DROP`. None: parameters have no values here.
        env: environment variables.
        matrix: the variant's values. None: there is no matrix here.
        silent_matrix: names whose absence from `matrix` is not an error (their stage is broken, which was reported).
        has_run: whether ``${run.output}`` is allowed.
        sources: to point at one interpolation inside a longer text.
    """

    sources: Sources
    env: Mapping[str, str]
    params: Mapping[str, Found] | None = None
    matrix: Mapping[str, object] | None = None
    silent_matrix: frozenset[str] = frozenset()
    has_run: bool = False
    problems: list[Diagnostic] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def interpolate(self, value: object, place: Place) -> tuple[object, Place]:
        """Return a value with every interpolation replaced, and its place; the value is `DROP` where it goes away."""
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
        if tokens[0] == text and text != "$${":
            found = self._reference(text, self._span_of(place, text, 0))
            return found.value, replace(place, folder=found.folder) if found.folder else place
        return self._embed(text, place), place

    def _embed(self, text: str, place: Place) -> object:
        parts: list[str] = []
        end = 0
        gone: object = None
        for match in _TOKEN.finditer(text):
            token = match[0]
            parts.append(text[end : match.start()])
            end = match.end()
            if token == "$${":
                parts.append("${")
                continue
            span = self._span_of(place, token, text.count(token, 0, match.start()))
            value = self._reference(token, span).value
            if isinstance(value, list):
                self._complain("PF1308", f"`{token}` is a list and cannot stand inside a text", span)
                value = HOLE
            if value is DROP or value is HOLE:
                gone = value if gone is not HOLE else HOLE
            parts.append(_as_text(value))
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
            self._complain("PF1308", f"`{token}` has no value here", span, help_=cure)
        elif not token.endswith("}"):
            self._complain("PF1305", "`${` is not closed", span, help_=_GRAMMAR)
        else:
            near = did_you_mean(token[2:-1].strip(), ["run.output", *(f"params.{name}" for name in self.params or ())])
            cure = f"{near}  {_GRAMMAR}" if near else _GRAMMAR
            self._complain("PF1305", f"`{token}` is no interpolation", span, help_=cure)
        return Found(HOLE)

    def _param(self, name: str, span: Span) -> Found:
        if self.params is None:
            self._complain("PF1308", "the default of a parameter cannot use another parameter", span)
            return Found(HOLE)
        if name not in self.params:
            known = ", ".join(sorted(self.params)) or "none"
            near = did_you_mean(name, self.params)
            self._complain(
                "PF1301",
                f"there is no parameter `{name}`",
                span,
                help_=f"{near}  parameters: {known}" if near else f"parameters: {known}",
            )
            return Found(HOLE)
        self.used.add(name)
        return self.params[name]

    def _matrix(self, name: str, span: Span) -> Found:
        if self.matrix is None:
            self._complain("PF1308", f"`${{matrix.{name}}}` has no value here", span, help_="only stages have a matrix")
            return Found(HOLE)
        if name in self.matrix:
            return Found(self.matrix[name])
        if name not in self.silent_matrix:
            near = did_you_mean(name, self.matrix)
            known = ", ".join(self.matrix) or "none"
            self._complain(
                "PF1307",
                f"neither this stage nor one that it consumes has a matrix entry `{name}`",
                span,
                help_=f"{near}  entries: {known}" if near else f"entries: {known}",
            )
        return Found(HOLE)

    def _env(self, name: str, span: Span) -> Found:
        if name in self.env:
            return Found(self.env[name], self.sources.folder(COMMAND_LINE))
        self._complain(
            "PF1306",
            f"the environment variable `{name}` is not set",
            span,
            help_=did_you_mean(name, self.env) or f"set it: `export {name}=...`",
        )
        return Found(HOLE)

    def _complain(self, code: str, message: str, span: Span, *, help_: str | None = None) -> None:
        self.problems.append(Diagnostic(code, message, span=span, help=help_))

    def _span_of(self, place: Place, token: str, skip: int) -> Span:
        return self.sources.locate(place.definition or place.span, token, skip=skip)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
