"""Read the kernel graphs that MindSpore writes beside a dump (`ms_output_trace_code_graph_{id}.ir`): data flow, scopes.

A definition is ``%n(name) = Operator(arguments) attributes``, its arguments possibly over several lines, followed by
lines of types and comments, of which ``# Fullname with scope: (...)`` names the operator. Source: texts written by
MindSpore 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from probe_flow.files.opening import lines_of, open_text

MAX_TEXT_BYTES = 1 << 30
_MAX_DEFINITION_LINES = 100_000

_DEFINITION = re.compile(r"\s*%(?P<number>\d{1,9})\([^=]*?\) = (?P<operator>\w+)\((?P<rest>.*)", re.DOTALL)
_SCOPE = re.compile(r"\s*# Fullname with scope: \((?P<scope>[^()]+)\)")
_PARAMETER = re.compile(r"%para\d+_(?P<name>[^:]+): .*IsWeight: (?P<weight>true|false)")
_REFERENCE = re.compile(r"%(?P<number>\d{1,9})")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(slots=True)
class Definition:
    """One operator of the text: its number there, its operator word, its arguments as text, its scope."""

    number: int
    operator: str
    arguments: tuple[str, ...]
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class GraphText:
    """The definitions of one graph in order, and its parameters: name -> whether it is a weight."""

    definitions: tuple[Definition, ...]
    parameters: dict[str, bool]


class GraphTextError(ValueError):
    """The text is no kernel graph; the message says why."""


def read_graph_text(path: Path) -> GraphText:
    """Read one text.

    Raises:
        GraphTextError: it cannot be read, holds no operator, or more than one graph.
    """
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise GraphTextError(f"is larger than {MAX_TEXT_BYTES} bytes")
        with open_text(path, errors="replace") as stream:
            text = _parse(lines_of(stream))
    except OSError as error:
        raise GraphTextError(f"cannot be read: {error.strerror}") from error
    if not text.definitions:
        raise GraphTextError("holds no operator")
    return text


def _parse(lines: Iterable[str]) -> GraphText:
    definitions: list[Definition] = []
    parameters: dict[str, bool] = {}
    graphs = 0
    source = iter(lines)
    for line in source:
        if line.lstrip().startswith("subgraph @"):
            graphs += 1
            if graphs > 1:
                raise GraphTextError("holds several graphs")
        elif (parameter := _PARAMETER.match(line)) is not None:
            parameters[parameter["name"].strip()] = parameter["weight"] == "true"
        elif (scope := _SCOPE.match(line)) is not None:
            if definitions:
                definitions[-1].scope = scope["scope"]
        elif (found := _DEFINITION.match(line)) is not None:
            arguments = _arguments(found["rest"], source)
            definitions.append(Definition(int(found["number"]), found["operator"], arguments))
    return GraphText(tuple(definitions), parameters)


def _arguments(text: str, following: Iterator[str]) -> tuple[str, ...]:
    """Split the arguments at commas outside brackets and quotes; take further lines until the bracket closes."""
    depth, quoted = 0, False
    found: list[str] = []
    current: list[str] = []
    for _ in range(_MAX_DEFINITION_LINES):
        for char in text:
            if char == '"':
                quoted = not quoted
            elif not quoted and char in _CLOSE:
                depth -= 1
                if depth < 0:
                    return (*found, "".join(current).strip()) if current or found else ()
            elif not quoted and char in _OPEN:
                depth += 1
            if char == "," and depth == 0 and not quoted:
                found.append("".join(current).strip())
                current = []
            else:
                current.append(char)
        text = next(following, "")
        if not text:
            break
    raise GraphTextError("ends inside a definition")


Source = tuple[int, int]
"""Number of a definition and number of its output."""


class DataFlow:
    """Which definition feeds which argument, through loads, tuples and dependencies.

    An argument resolves to the output of an operator, to the name of a network input, or to None: a constant or the
    value that a weight has when the iteration begins.
    """

    def __init__(self, text: GraphText) -> None:
        self._by_number = {definition.number: definition for definition in text.definitions}
        self._parameters = text.parameters

    def sources(self, definition: Definition) -> list[Source | str | None]:
        """Return what feeds each input; a tuple counts as many inputs as it has elements."""
        return [self._source(argument) for argument in self._inputs(definition)]

    def written(self, definition: Definition) -> dict[int, str]:
        """Return input -> weight, for the weights that an operator gets by reference and may write."""
        names = enumerate(map(self._parameter, self._inputs(definition)))
        return {place: name for place, name in names if name is not None and self._parameters[name]}

    def _inputs(self, definition: Definition) -> list[str]:
        found: list[str] = []
        for argument in definition.arguments:
            elements = self._elements(argument)
            found.extend([argument] if elements is None else elements)
        return found

    def _parameter(self, argument: str) -> str | None:
        name = argument.partition("_")[2] if argument.startswith("%para") else ""
        return name if name in self._parameters else None

    def _elements(self, argument: str) -> Sequence[str] | None:
        definition = self._definition(argument)
        return definition.arguments if definition is not None and definition.operator == "MakeTuple" else None

    def _definition(self, argument: str) -> Definition | None:
        found = _REFERENCE.fullmatch(argument)
        return self._by_number.get(int(found["number"])) if found else None

    def _source(self, argument: str) -> Source | str | None:
        output = 0
        for _ in range(len(self._by_number) + 1):  # every step leads to an earlier definition; damaged texts may not
            name = self._parameter(argument)
            definition = self._definition(argument)
            if definition is None:
                return name if name is not None and not self._parameters[name] else None
            first = definition.arguments[0] if definition.arguments else ""
            if definition.operator in ("Load", "Depend"):
                argument = first
            elif definition.operator == "TupleGetItem":
                output = _constant(definition.arguments[-1]) if len(definition.arguments) > 1 else 0
                elements = self._elements(first)
                inner = self._definition(first)
                if elements is not None and output < len(elements):
                    argument, output = elements[output], 0
                elif inner is not None and inner.operator not in ("Load", "Depend", "TupleGetItem"):
                    return inner.number, output
                else:
                    argument = first
            elif definition.operator in ("UpdateState", "MakeTuple"):
                return None
            else:
                return definition.number, output
        return None


def _constant(text: str) -> int:
    found = re.fullmatch(r"\w+\((\d{1,6})\)", text)
    return int(found.group(1)) if found else 0
