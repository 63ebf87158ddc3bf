"""Bind the operators and parameters of a kernel dump to those of MindSpore IR texts: their scopes and lines of code.

A dump flattens scopes: ``Default/net-Net/Add-op1`` is ``Default_net-Net_Add-op1``. Names are equal or they are not; no
name is searched for within another, so that ``op1`` never meets ``op10``. Calls of graphs have a number in place of a
scope, which names nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.mindspore_graph.ir import IrNode, IrText
from probe_flow.dumps.mindspore_graph.names import PARAMETER, OpName, op_name

_GRAPH_FILE = re.compile(r"(?:graph_build|(?:ms_output_)?trace_code_graph)_(\d{1,9})(?:_\d+)?\.ir")
_REFERENCE = re.compile(r"%(\d{1,9})")
_Name = TypeVar("_Name", int, str)


class IrFile(Struct, frozen=True):
    """A text and where it comes from; ``graph`` is the id of its kernel graph, None where its name tells none."""

    path: Path
    text: IrText

    @property
    def graph(self) -> int | None:
        """The id that folders of a dump have too."""
        found = _GRAPH_FILE.fullmatch(self.path.name)
        return None if found is None else int(found[1])


class Code(Struct, frozen=True):
    """Lines of code, outermost call first; ``inferred_from`` is the scope of the operator that has them, if another."""

    lines: tuple[str, ...] = ()
    inferred_from: str | None = None


_LINE = re.compile(r"In file (?P<file>.+?):(?P<line>\d{1,9})(?:~\d+)?(?:, [\d~]+)?/\s*(?P<text>.*)", re.DOTALL)


def frames_of(code: Code) -> tuple[str, ...]:
    r"""Return lines of code as the frames of a stack, innermost first, in the form that collectors write.

    >>> frames_of(Code(("In file /model/net.py:30, 12~20/        p = self.net(x)",)))
    ('File /model/net.py, line 30, \\n p = self.net(x)',)
    """
    frames = []
    for line in reversed(code.lines):
        found = _LINE.fullmatch(line)
        frames.append(f"File {found['file']}, line {found['line']}, \n {found['text']}" if found else line)
    if code.inferred_from is not None:
        frames.append(f"(inferred: the code of {code.inferred_from})")
    return tuple(frames)


class Bound(Struct, frozen=True):
    """What texts say of one name of a dump.

    Args:
        scopes: of the operator; several where several operators have this flattened name.
        codes: of these operators, each once; empty where nothing tells.
        parameter: line of the parameter, for parameters and inputs of the network.
        files: the texts that say so.
    """

    scopes: tuple[str, ...] = ()
    codes: tuple[Code, ...] = ()
    parameter: str = ""
    files: tuple[Path, ...] = ()


class IrIndex:
    """Names of some texts, and what they say of each. Building and asking take time in proportion to their number."""

    def __init__(self, files: Sequence[IrFile]) -> None:
        self._files = files
        self._codes: list[_Codes | None] = [None] * len(files)
        self._bases: dict[int, dict[str, list[tuple[int, int]]]] = {}
        self._operators: dict[str, list[tuple[int, int]]] = defaultdict(list)  # name -> (file, node)
        self._parameters: dict[str, list[tuple[int, str]]] = defaultdict(list)  # name -> (file, parameter)
        for number, file in enumerate(files):
            for place, node in enumerate(file.text.nodes):
                if node.scope is not None and not node.scope.isdecimal():
                    self._operators[op_name(node.scope).full].append((number, place))
            for name in file.text.parameters:
                self._parameters[op_name(name).full].append((number, name))

    def find(self, op_type: str, name: str, graph: int | None = None) -> Bound | None:
        """Return what the texts say of a dumped operator, None where they do not know it.

        Where several texts know it, that of the dump's own graph is asked, else all of them.

        Args:
            op_type: type in the name of the file; parameters and inputs of the network are ``Parameter``.
            name: the operator's name there, with its number.
            graph: id of the graph that it ran in.
        """
        flat = op_name(name).full
        if op_type == PARAMETER:
            return self._parameter(self._preferred(self._parameters.get(flat, ()), graph))
        found = self._preferred(self._operators.get(flat, ()), graph)
        if not found:
            return None
        nodes = [self._files[file].text.nodes[place] for file, place in found]
        codes = dict.fromkeys(self._code(file, place) for file, place in found)
        return Bound(
            tuple(dict.fromkeys(node.scope for node in nodes if node.scope is not None)),
            tuple(code for code in codes if code.lines),
            files=self._paths(file for file, _ in found),
        )

    def namesake(self, graph: int, name: str, place: int) -> Code | None:
        """Return the code of the operator at a place among those of one scope and type, in the text of a graph.

        A text may number them otherwise than the dump, but in the same order.

        Args:
            graph: id of the graph.
            name: the operators' name without number.
            place: from 0.
        """
        for number, file in enumerate(self._files):
            if file.graph == graph:
                found = self._by_base(number).get(name, ())
                return self._code(number, found[place][1]) if place < len(found) else None
        return None

    def _by_base(self, file: int) -> dict[str, list[tuple[int, int]]]:
        """Return the operators of a text by name without number: their numbers, ascending, and their places in it."""
        known = self._bases.get(file)
        if known is None:
            known = self._bases[file] = defaultdict(list)
            for place, node in enumerate(self._files[file].text.nodes):
                if node.scope is not None and not node.scope.isdecimal():
                    name = op_name(node.scope)
                    known[name.base].append((name.number, place))
            for members in known.values():
                members.sort()
        return known

    def _parameter(self, found: Sequence[tuple[int, str]]) -> Bound | None:
        if not found:
            return None
        lines = dict.fromkeys(self._files[file].text.parameters[name].line for file, name in found)
        return Bound(parameter="\n".join(lines), files=self._paths(file for file, _ in found))

    def _paths(self, files: Iterator[int]) -> tuple[Path, ...]:
        return tuple(self._files[file].path for file in dict.fromkeys(files))

    def _preferred(self, found: Sequence[tuple[int, _Name]], graph: int | None) -> Sequence[tuple[int, _Name]]:
        own = [each for each in found if graph is not None and self._files[each[0]].graph == graph]
        return own or found

    def _code(self, file: int, place: int) -> Code:
        codes = self._codes[file]
        if codes is None:
            codes = self._codes[file] = _Codes(self._files[file].text)
        return codes.of(place)


class _Codes:
    """The lines of code of each node of one text.

    A node without lines of its own takes those of the operator that it is the gradient of, else of a namesake in its
    scope, else of the nearest operator that its inputs come from.
    """

    def __init__(self, text: IrText) -> None:
        self._nodes = text.nodes
        self._by_number = {(node.graph, node.number): place for place, node in enumerate(text.nodes)}
        self._forward: dict[str, int] = {}
        self._namesakes: dict[str, int] = {}
        for place, node in enumerate(text.nodes):
            if not node.code:
                continue
            if node.unique_id:
                self._forward.setdefault(node.unique_id, place)
            if node.scope is not None:
                self._namesakes.setdefault(op_name(node.scope).base, place)

    def of(self, place: int) -> Code:
        node = self._nodes[place]
        if node.code:
            return Code(node.code)
        other = self._forward.get(node.forward_id) if node.forward_id else None
        if other is None and node.scope is not None:
            other = self._namesakes.get(op_name(node.scope).base)
        if other is None:
            other = self._nearest_input(place)
        if other is None:
            return Code()
        found = self._nodes[other]
        return Code(found.code, found.scope or found.variable)

    def _nearest_input(self, place: int) -> int | None:
        seen, due = {place}, deque([place])
        while due:
            place = due.popleft()
            if self._nodes[place].code:
                return place
            for other in self._inputs(self._nodes[place]):
                if other not in seen:
                    seen.add(other)
                    due.append(other)
        return None

    def _inputs(self, node: IrNode) -> Iterator[int]:
        for argument in node.arguments:
            found = _REFERENCE.fullmatch(argument)
            other = self._by_number.get((node.graph, int(found[1]))) if found else None
            if other is not None:
                yield other


class Stacks:
    """The stacks of operators of one rank, by its texts; ``frames``: those that were asked for, with their ids."""

    def __init__(self, texts: Sequence[IrFile]) -> None:
        self._index = IrIndex(texts) if texts else None
        self.frames: dict[tuple[str, ...], str] = {}

    def stack(self, op_type: str, op: OpName, graph: int, place: int) -> str | None:
        """Return the id of the stack of an operator, by its exact name, else by its place among its namesakes."""
        if self._index is None:
            return None
        found = self._index.find(op_type, op.full, graph)
        if found is not None:
            code = found.codes[0] if found.codes else None
        else:
            code = self._index.namesake(graph, op.base, place)
            if code is not None and code.lines and code.inferred_from is None:
                code = replace(code, inferred_from=f"operator {place} of {op.base}")
        frames = frames_of(code) if code is not None and code.lines else ()
        return self.frames.setdefault(frames, "\n".join(frames)) if frames else None
