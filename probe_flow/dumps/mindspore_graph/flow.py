"""Bring the graph texts of a MindSpore kernel dump to its nodes: edges between them, and the scope of each operator.

A text may number the operators of one scope otherwise than the dump (``Cast-op2`` there, ``Cast-op0`` here), but in
the same order, so the n-th of one is the n-th of the other.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.mindspore_graph.ir import IrError, IrNode, IrText, read_ir
from probe_flow.dumps.mindspore_graph.ir_code import IrFile
from probe_flow.dumps.mindspore_graph.names import PARAMETER, op_name
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import lines_of, open_text
from probe_flow.files.walk import DumpFile
from probe_flow.records import Edge, Execution, NodeKey, Problem

_REFERENCE = re.compile(r"%(?P<number>\d{1,9})")

Source = tuple[int, int]
"""Number of a definition and number of its output."""


class DataFlow:
    """Which definition feeds which argument, through loads, tuples and dependencies.

    An argument resolves to the output of an operator, to the name of a network input, or to None: a constant or the
    value that a weight has when the iteration begins.
    """

    def __init__(self, text: IrText) -> None:
        self._by_number = {definition.number: definition for definition in text.nodes}
        self._parameters = {
            each.name: each.is_weight for each in text.parameters.values() if each.is_weight is not None
        }

    def sources(self, definition: IrNode) -> list[Source | str | None]:
        """Return what feeds each input; a tuple counts as many inputs as it has elements."""
        return [self._source(argument) for argument in self._inputs(definition)]

    def written(self, definition: IrNode) -> dict[int, str]:
        """Return input -> weight, for the weights that an operator gets by reference and may write."""
        names = enumerate(map(self._parameter, self._inputs(definition)))
        return {place: name for place, name in names if name is not None and self._parameters[name]}

    def _inputs(self, definition: IrNode) -> list[str]:
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

    def _definition(self, argument: str) -> IrNode | None:
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


MAX_ORDER_BYTES = 1 << 30

Call = tuple[str, int]
"""Name of a node, and which of the operators of that name it is."""

Link = tuple[Call, int, Call, int]
"""(producer, output, consumer, input)."""


class Beside(Struct):
    """What lies beside the iterations of one rank, by graph id; ``scopes``: flattened name -> scope with ``/``."""

    texts: dict[int, IrText] = field(default_factory=dict)
    files: list[IrFile] = field(default_factory=list)
    scopes: dict[str, str] = field(default_factory=dict)


def read_beside(texts: Mapping[int, DumpFile], orders: Collection[DumpFile], problems: list[Problem]) -> Beside:
    """Read the graph texts and execution orders of one rank; what cannot be used is reported (PF3455)."""
    beside = Beside()
    for graph, file in texts.items():
        by_value = "producers of inputs are found by their values instead"
        try:
            text = read_ir(Path(file.path))
        except IrError as error:
            problems.append(_unusable(file, str(error), by_value))
            continue
        beside.texts[graph] = text
        beside.files.append(IrFile(Path(file.path), text))
        if text.cut_in is not None:
            problems.append(_unusable(file, "is cut off", by_value))
        elif len(text.graphs) > 1:
            problems.append(_unusable(file, "holds several graphs", by_value))
        for definition in text.nodes:
            if definition.scope is not None:
                _add_scope(beside.scopes, definition.scope)
    for file in orders:
        _read_order(file, beside.scopes, problems)
    return beside


def _read_order(file: DumpFile, scopes: dict[str, str], problems: list[Problem]) -> None:
    try:
        if file.size > MAX_ORDER_BYTES:
            problems.append(_unusable(file, f"is larger than {MAX_ORDER_BYTES} bytes", "it is not read"))
            return
        with open_text(file.path, newline="", errors="replace") as stream:
            for row in csv.reader(line.replace("\0", "") for line in lines_of(stream)):
                if row and "/" in row[0]:
                    _add_scope(scopes, row[0].strip())
    except (OSError, csv.Error) as error:
        problems.append(_unusable(file, f"cannot be read: {error}", "scopes are taken from elsewhere"))


def _add_scope(scopes: dict[str, str], full: str) -> None:
    name, _, number = full.rpartition("-op")
    scopes.setdefault(op_name(full).base, name if name and number.isdecimal() else full)


def links_of(text: IrText, dumped: Mapping[str, Sequence[int]]) -> tuple[Link, ...] | None:
    """Return the data flow of a graph between operators by name and place among their namesakes.

    Args:
        text: one whole graph.
        dumped: name -> the numbers under which its operators were dumped, increasing.

    Returns:
        None when the text is of another graph: it lacks operators that were dumped.
    """
    calls = _calls(text)
    counts: dict[str, int] = defaultdict(int)
    for name, _ in calls.values():
        counts[name] += 1
    if any(len(numbers) > counts[name] for name, numbers in dumped.items() if not name.startswith(f"{PARAMETER}.")):
        return None
    flow = DataFlow(text)
    links: list[Link] = []
    for definition in text.nodes:
        consumer = calls.get(definition.number)
        if consumer is None:
            continue
        fed: list[tuple[Call, int]] = []
        for place, source in enumerate(flow.sources(definition)):
            if isinstance(source, str):
                fed.append((_parameter(source), 0))
            elif source is not None and source[0] in calls:
                fed.append((calls[source[0]], source[1]))
            else:
                continue
            links.append((*fed[-1], consumer, place))
        for place, name in flow.written(definition).items() if definition.operator != "Load" else ():
            # Inputs are dumped after the operator ran, parameters after the iteration: both hold what it wrote.
            links.extend((producer, output, consumer, place) for producer, output in fed)
            links.append((consumer, 0, _parameter(name), 0))
    return tuple(links)


def _calls(text: IrText) -> dict[int, Call]:
    """Return definition number -> node name and place among its namesakes, by the numbers that the text gives them."""
    named: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for definition in text.nodes:
        if definition.scope is not None:
            name = op_name(definition.scope)
            named[name.base].append((name.number, definition.number))
    return {
        definition: (base, place)
        for base, members in named.items()
        for place, (_, definition) in enumerate(sorted(members))
    }


def _parameter(name: str) -> Call:
    return f"{PARAMETER}.{op_name(name).base}", 0


def edges_of(links: Sequence[Link], execution: Execution, keys: Mapping[Call, NodeKey]) -> Iterator[Edge]:
    """Yield the edges of one execution, whose nodes are `keys`; operators that were not dumped stay in between."""

    def key(call: Call) -> NodeKey:
        return keys.get(call) or NodeKey(execution, call[0], call[1], op_name(call[0]).phase)

    for producer, output, consumer, place in links:
        yield Edge(key(producer), output, key(consumer), place)


def network_inputs(text: IrText) -> frozenset[str]:
    """Return the node names of the values that enter the network; their files are written last."""
    return frozenset(_parameter(each.name)[0] for each in text.parameters.values() if each.is_weight is False)


def text_of_another_graph(file: DumpFile) -> Problem:
    """Report a text that lacks operators which were dumped."""
    return _unusable(file, "lacks operators that were dumped: it is of another graph", "producers are found by value")


def _unusable(file: DumpFile, what: str, so: str) -> Problem:
    return Diagnostic(
        "PF3455",
        f"`{file.relative}` {what}",
        severity=Severity.WARNING,
        help=f"{so}; copy the file again to have it used",
        path=file.relative,
    )
