"""Parameters: their declarations, the values that whoever runs the workflow gives them, and their types.

Paths among values become absolute: relative ones start from the file that wrote them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct, field
from pydantic import ValidationError

from probe_flow.errors import Diagnostic, Severity, Span, did_you_mean
from probe_flow.files.yaml.places import HOLE, Loc, Place, nearest
from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.files.yaml.scalars import read_number
from probe_flow.stages.base import IsPath
from probe_flow.workflow.loading.fields import Subject, marked
from probe_flow.workflow.loading.interpolation import DROP, Found
from probe_flow.workflow.model import RUN_OUTPUT, Param
from probe_flow.workflow.sources import COMMAND_LINE, Given, Sources, in_a_line


def resolve_paths(subject: Subject, content: dict[str | int, object], sources: Sources) -> list[Diagnostic]:
    """Make every path of ``content`` absolute, in place, and return what is wrong with them.

    Args:
        subject: says which options are paths, and where they were written.
        content: interpolated values of the subject's model.
        sources: know the folders of files.
    """
    problems = []
    for option in marked(subject.model, IsPath):
        for loc, value in list(option.find(content)):
            if not isinstance(value, str):
                continue
            at = nearest(subject.place, loc)
            if not value or "\0" in value:
                found = "a text with a NUL character" if value else "empty"
                message = f"{subject.name(loc)} is {found}, expected a path"
                problems.append(
                    Diagnostic("PF1205", message, span=at.span, label="expected a path", stage=subject.stage)
                )
            elif not value.startswith(RUN_OUTPUT) and (path := option.marker.in_value(value)) is not None:
                folder = at.folder or sources.folder((at.definition or at.span).file)
                _put(content, loc, absolute(path, folder) + value[len(path) :])
    return problems


def absolute(path: str, folder: str) -> str:
    """Return a path without ``.`` and ``..``, read from an absolute folder."""
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 (pathlib keeps `..`)


def _put(content: dict[str | int, object], loc: Loc, value: str) -> None:
    inner: object = content
    for step in loc[:-1]:
        inner = cast("dict[str | int, object]", inner)[step]
    cast("dict[str | int, object]", inner)[loc[-1]] = value


_SAMPLE_NOTE = (
    "its sample is used only where the file that names it is run itself and none of the parameters with a sample is set"
)

_NAMES = {
    "path": "a path",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
    "list": "a list",
}


class ParamTable(Struct):
    """Finds the value of every declared parameter.

    Args:
        sources: where files lie.
        file: the one that was asked for, as spans name it.
        given: values from the command line, or from a call.
        problems: takes what is wrong.
        samples: parameters whose value is their sample, once they are resolved.
    """

    sources: Sources
    file: str
    given: Given
    problems: list[Diagnostic] = field(default_factory=list)
    samples: frozenset[str] = frozenset()

    def resolve(self, declared: Mapping[str | int, object], place: Place) -> dict[str, Found]:
        """Return every parameter by name: `HOLE` where it was reported, `DROP` where it is optional and not set.

        Args:
            declared: the `params` of the merged file.
            place: of `params`.
        """
        self._report_unknown_sets([str(name) for name in declared])
        self.samples = self._samples(declared, place)
        return {
            str(name): self._value(str(name), raw, place.children[name])
            for name, raw in declared.items()
        }  # fmt: skip

    def _samples(self, declared: Mapping[str | int, object], place: Place) -> frozenset[str]:
        """Return the parameters that take their sample: all that have one, or none.

        Samples are for trying a workflow as it is. Whoever extends it or sets one of these parameters means other
        data, and must not compare them with ours because something else was left out.
        """
        having = {
            name: raw for name, raw in declared.items() if isinstance(raw, dict) and raw.get("sample") is not None
        }
        is_ours = all(place.children[name].children["sample"].span.file == self.file for name in having)
        given = self.given.values
        has_value = any(str(name) in given or raw.get("default") is not None for name, raw in having.items())
        return frozenset(map(str, having)) if is_ours and not has_value else frozenset()

    def warn_unused(self, declared: Mapping[str | int, object], place: Place, used: set[str]) -> None:
        """Warn of parameters that nothing uses: setting them has no effect.

        A file that extends another one may well replace what used a parameter; there only `--set` has no effect.

        Args:
            declared: the `params` of the merged file.
            place: of `params`.
            used: names that some value uses.
        """
        for name in map(str, declared):
            if name in used:
                continue
            span = place.children[name].name_span
            if span.file == self.file:
                help_text = f"write `${{params.{name}}}` where it belongs, or remove it"
            elif name in self.given.values:
                span = self.given.name_span(name)
                help_text = "the extending file replaces what used it: leave it out, or correct that file"
            else:
                continue
            self.problems.append(
                Diagnostic(
                    "PF1310",
                    f"nothing uses the parameter `{name}`",
                    severity=Severity.WARNING,
                    span=span,
                    help=help_text,
                )
            )

    def _report_unknown_sets(self, declared: Sequence[str]) -> None:
        for name in self.given.values:
            if name not in declared:
                near = did_you_mean(name, declared)
                known = f"parameters: {', '.join(sorted(declared)) or 'none'}"
                whoever = "the call" if self.given.is_typed else "`--set`"
                self.problems.append(
                    Diagnostic(
                        "PF1303",
                        f"{whoever} names an unknown parameter `{name}`",
                        span=self.given.name_span(name),
                        label="the workflow has no such parameter",
                        help=f"{near}  {known}" if near else known,
                    )
                )

    def _value(self, name: str, raw: object, place: Place) -> Found:
        try:
            param = Param.model_validate(raw)
        except ValidationError:  # reported with the rest of the file
            return Found(HOLE)
        found = self._default(name, param, place)
        return self._given_value(name, param) if name in self.given.values else found

    def _default(self, name: str, param: Param, place: Place) -> Found:
        given, default = param.default, place.children.get("default")
        if given is None and name in self.samples:
            given, default = param.sample, place.children.get("sample")
        if given is None or default is None:
            if param.optional:
                return Found(DROP)
            if name not in self.given.values:
                self._report_unset(name, param, place)
            return Found(HOLE)
        value = _typed(param.type, given)
        if value is HOLE:
            self._report_type(name, param, default.span, given)
        folder = default.folder or self.sources.folder((default.definition or default.span).file)
        return self._checked(name, param, value, span=default.span, folder=folder)

    def _given_value(self, name: str, param: Param) -> Found:
        given, span = self.given.values[name], self.given.spans[name]
        value = _of_python(param.type, given) if self.given.is_typed else _read(param.type, str(given))
        if value is HOLE:
            self._report_type(name, param, span, given)
        return self._checked(name, param, value, span=span, folder=self.sources.folder(self.given.place))

    def _checked(self, name: str, param: Param, value: object, *, span: Span, folder: str) -> Found:
        chosen = value if isinstance(value, list) else [value]
        if param.choices and value is not HOLE:
            for each in chosen:
                if each not in param.choices:
                    self._report_choice(name, param, span, found=each)
                    return Found(HOLE)
        if param.type != "path" or not isinstance(value, str):
            return Found(value, folder)
        if not value or "\0" in value:
            self._report_type(name, param, span, value)
            return Found(HOLE)
        return Found(absolute(value, folder))

    def _report_unset(self, name: str, param: Param, place: Place) -> None:
        has_sample = param.sample is not None
        written = self.given.written(name, "PATH" if has_sample else "VALUE")
        cure = f"`{written}`, or give it a `default`, or mark it `optional: true`"
        self.problems.append(
            Diagnostic(
                "PF1302",
                f"the parameter `{name}` is not set and has no default",
                span=place.name_span,
                label=param.help or "needs a value",
                help=f"`{written}`, or give it a `default` in the file that you run" if has_sample else cure,
                notes=(_SAMPLE_NOTE,) if has_sample else (),
            )
        )

    def _report_type(self, name: str, param: Param, span: Span, value: object) -> None:
        from probe_flow.workflow.loading.validation_errors import found_words, type_help

        is_argument = self.given.is_typed and span.file == self.given.place
        if isinstance(value, str) and "\0" in value:
            found = "a text with a NUL character"
        elif is_argument:
            found = f"`{in_a_line(value)}`, a `{type(value).__name__}`"
        else:
            found = found_words(value)
        self.problems.append(
            Diagnostic(
                "PF1304",
                f"the parameter `{name}` must be {_NAMES[param.type]}, not {found}",
                span=span,
                label=f"expected {_NAMES[param.type]}",
                help=None if is_argument else type_help(value, _NAMES[param.type]),
            )
        )

    def _report_choice(self, name: str, param: Param, span: Span, *, found: object) -> None:
        choices = [str(choice) for choice in param.choices or ()]
        self.problems.append(
            Diagnostic(
                "PF1304",
                f"the parameter `{name}` cannot be `{found}`",
                span=span,
                label="expected one of " + ", ".join(f"`{choice}`" for choice in choices),
                help=did_you_mean(str(found), choices),
            )
        )


def _typed(kind: str, value: object) -> object:
    """Return a default as its parameter's type, or `HOLE` where it is of another."""
    if kind == "float" and type(value) is int:
        return float(value)
    expected = {"path": str, "str": str, "int": int, "float": float, "bool": bool, "list": list}[kind]
    return value if type(value) is expected else HOLE


def _of_python(kind: str, value: object) -> object:
    """Return an argument of a call as its parameter's type, or `HOLE` where it is of another.

    Paths may be objects, whole numbers and numbers those of numpy, lists any sequence.
    """
    if kind == "path" and isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif kind == "list" and isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        items = list(value)
        return items if all(isinstance(item, (str, int, float)) for item in items) else HOLE
    elif kind in ("int", "float") and not isinstance(value, (bool, int, float, str)):
        value = _plain_number(value)
    return _typed(kind, value)


def _plain_number(value: object) -> object:
    """Return a number of another library as one of Python; what is none, as it is."""
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is what is tried
    except TypeError:
        pass
    found = getattr(value, "item", None)
    return found() if callable(found) and getattr(value, "shape", None) == () else value


def _read(kind: str, text: str) -> object:
    """Return the value of a ``--set`` text, or `HOLE` where it is none of the parameter's type."""
    if kind in ("path", "str"):
        return text
    if kind == "bool":
        return {"true": True, "false": False}.get(text, HOLE)
    if kind == "list":
        return _read_list(text)
    try:
        number = read_number(text)
    except OverflowError:
        return HOLE
    return _typed(kind, number)


def _read_list(text: str) -> object:
    """Return the items of ``a,b,c`` (or ``[a, b, c]``), read as YAML scalars."""
    if "\n" in text:
        return HOLE
    inner = text if text.startswith("[") else f"[{text}]"
    document, problems = parse_yaml(f"items: {inner}", COMMAND_LINE)
    items = document.values.get("items") if document and len(document.values) == 1 and not problems else None
    if not isinstance(items, list) or any(not isinstance(item, str | int | float) for item in items):
        return HOLE
    return items
