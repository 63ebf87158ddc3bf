"""Read MindSpore IR texts: the operators of all their graphs, their parameters, and the lines of code behind them.

A text is a header with parameters, then graphs, each with one definition after the other::

    subgraph @NAME(PARAMETERS) {
      %0(variable) = Operator(arguments) {instance name: x} primitive_attrs: {...} cnode_primal_attrs: {...}
          : (types) -> (types)
          # Fullname with scope: (Default/net-Net/Operator-op0)
          # In file /model/net.py:30, 12~20/        p = self.net(x)/
      Return(%0)
    }

Numbers begin anew in each graph. Arguments may run over several lines and hold brackets and quotes. What stands behind
a definition belongs to it until the next one, ``Return`` or the end of the graph. Source: texts of MindSpore 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from probe_flow.files.opening import lines_of, open_text

MAX_BYTES = 1 << 30
_MAX_DEFINITION_LINES = 100_000

_DEFINITION = re.compile(r"\s*%(?P<number>\d{1,9})\((?P<variable>[^=]*?)\) = (?P<rest>.*)", re.DOTALL)
_GRAPH = re.compile(r"(?:switch_input:.*)?\s*subgraph @(?P<name>[^(]*)\(")
_SCOPE = re.compile(r"\s*# Fullname with scope: \((?P<scope>.+)\)\s*")
_CODE = re.compile(r"\s*# (?P<code>In file .*)")
_PARAMETER = re.compile(r"%para\d+_(?P<name>[^:]+): (?P<rest>.*)")
_IS_WEIGHT = re.compile(r"IsWeight: (true|false)")
_OWN_ID = re.compile(r'\bunique_id: "([^"]*)"')
_FORWARD_ID = re.compile(r'\bforward_unique_id: "([^"]*)"')
_MARK = re.compile(r'\\.|[",()\[\]{}]')


class IrNode(Struct):
    """One operator.

    Args:
        graph: name of its graph.
        number: its number there.
        variable: what the text calls its value.
        operator: the word in front of its arguments, such as ``PrimFunc_Add``, ``Load`` or ``call @other``.
        arguments: as text, in order.
        scope: its full name; None where the text gives none.
        unique_id, forward_id: ids that a gradient and the operator that it is of share; empty without one.
        code: ``In file ...`` lines, outermost call first.
    """

    graph: str
    number: int
    variable: str
    operator: str
    arguments: tuple[str, ...]
    scope: str | None = None
    unique_id: str = ""
    forward_id: str = ""
    code: tuple[str, ...] = ()


class IrParameter(Struct, frozen=True):
    """A parameter or input of the whole text: its name, its line, and whether it is a weight (None: not said)."""

    name: str
    line: str
    is_weight: bool | None


class IrText(Struct, frozen=True):
    """One text.

    Args:
        nodes: of all graphs, in order.
        parameters: by name.
        graphs: names of the graphs, in order.
        cut_in: the graph whose end is missing, because the text was cut off; None where nothing is.
    """

    nodes: tuple[IrNode, ...]
    parameters: dict[str, IrParameter]
    graphs: tuple[str, ...]
    cut_in: str | None = None

    @property
    def is_one_graph(self) -> bool:
        """Whether numbers mean one operator each, and none is missing."""
        return self.cut_in is None and len(self.graphs) < 2


class IrError(ValueError):
    """The text is no IR; the message says why, and goes on where the name of the file ends."""


def read_ir(path: Path) -> IrText:
    """Read one text.

    Raises:
        IrError: it cannot be read, is larger than `MAX_BYTES`, or holds no operator.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise IrError(f"is larger than {MAX_BYTES} bytes")
        with open_text(path, errors="replace") as stream:
            text = _parse(lines_of(stream))
    except OSError as error:
        raise IrError(f"cannot be read: {error.strerror}") from error
    if not text.nodes:
        raise IrError("holds no operator" if text.cut_in is None else "is cut off before its first operator ends")
    return text


def _parse(lines: Iterable[str]) -> IrText:
    nodes: list[IrNode] = []
    parameters: dict[str, IrParameter] = {}
    graphs: list[str] = []
    graph: str | None = None
    node: IrNode | None = None  # whom the next comments belong to
    code: dict[str, str] = {}  # few sources, named by many nodes
    source = iter(lines)
    for line in source:
        start = line.lstrip()
        if start.startswith("# In file "):
            found = _CODE.match(line)
            if node is not None and found is not None:
                text = found["code"].rstrip().removesuffix("/")
                node.code = (*node.code, code.setdefault(text, text))
        elif start.startswith("# Fullname"):
            found = _SCOPE.fullmatch(line)
            if node is not None and node.scope is None and found is not None:
                node.scope = found["scope"]
        elif start.startswith("%para") and (found := _PARAMETER.match(start)) is not None and graph is None:
            weight = _IS_WEIGHT.search(found["rest"])
            name = found["name"].strip()
            parameters[name] = IrParameter(name, line.strip(), None if weight is None else weight[1] == "true")
        elif start.startswith("%") and (found := _DEFINITION.match(line)) is not None:
            node = _node(found, graph or "", source)
            if node is None:
                return IrText(tuple(nodes), parameters, tuple(graphs), graph or "")
            nodes.append(node)
        elif start.startswith(("subgraph @", "switch_input:")) and (found := _GRAPH.match(start)) is not None:
            graph, node = found["name"], None
            graphs.append(graph)
        elif start.startswith("Return("):
            node = None
        elif start.startswith("}"):
            graph, node = None, None
    return IrText(tuple(nodes), parameters, tuple(graphs), graph)


def _node(found: re.Match[str], graph: str, following: Iterator[str]) -> IrNode | None:
    """Return the node of a definition, with the lines that its arguments run over; None where the text ends in it."""
    taken = _operator_and_arguments(found["rest"], following)
    if taken is None:
        return None
    operator, arguments, rest = taken
    own, forward = _OWN_ID.search(rest), _FORWARD_ID.search(rest)
    return IrNode(
        graph,
        int(found["number"]),
        found["variable"],
        operator,
        arguments,
        unique_id=own[1] if own else "",
        forward_id=forward[1] if forward else "",
    )


def _operator_and_arguments(text: str, following: Iterator[str]) -> tuple[str, tuple[str, ...], str] | None:
    """Split ``Operator(a, b) rest`` at commas outside brackets and quotes; take further lines until the bracket closes.

    The bracket of the arguments is the first round one that lies in no other: ``%4[@FuncUnion(@a, @b)](%1)``.
    """
    depth, is_quoted = 0, False
    begun = -1  # depth of the arguments, once their bracket is open
    operator = ""
    found: list[str] = []
    piece: list[str] = []
    for _ in range(_MAX_DEFINITION_LINES):
        at = 0
        for mark in _MARK.finditer(text):
            char = mark[0]
            if char == '"':
                is_quoted = not is_quoted
            elif is_quoted or char[0] == "\\":
                continue
            elif char in "([{":
                depth += 1
                if begun < 0 and char == "(" and depth == 1:
                    operator, begun, at = text[: mark.start()].strip(), depth, mark.end()
            elif char != ",":
                depth -= 1
                if begun == 1 and depth == 0:
                    piece.append(text[at : mark.start()])
                    last = "".join(piece).strip()
                    return operator, (*found, last) if last or found else (), text[mark.end() :]
            elif depth == begun:
                piece.append(text[at : mark.start()])
                found.append("".join(piece).strip())
                piece, at = [], mark.end()
        if begun < 0:  # another name for a value
            return text.strip(), (), ""
        piece.append(text[at:])
        text = next(following, "")
        if not text:
            break
    return None
