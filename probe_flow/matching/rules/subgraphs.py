"""Edges across the border of a subgraph, which a rule file says by the input and output numbers of the caller.

Inside a subgraph, a ``Data`` operator stands for an input of the operator that calls it, and what the subgraph's
``NetOutput`` takes is what the caller gives. Neither is ever dumped, so references go past them. What a loop's body
reads is what the caller reads in the first turn, and in later ones what the turn before gave: such inputs are marked.
Where references do not go past a caller, what ends its bodies is a further input of it: errors go on through it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.dumps.rules.facts import PARENT_INPUT, SUBGRAPHS
from probe_flow.dumps.rules.records import RuleFile, RuleOp
from probe_flow.matching.rules.records import FusionOp

LOOPS = frozenset(("While", "StatelessWhile", "_While", "For"))
"""Types of operators whose subgraphs run many times."""

_MAX_BORDERS = 64
"""Borders that one reference passes; a file that needs more goes in circles."""


def joined(rule: RuleFile) -> tuple[RuleOp, ...]:
    """Return the operators of all graphs in file order, with references that lead past the borders of subgraphs."""
    ops = tuple(op for graph in rule.graphs for op in graph.ops)
    past, into_loops, ends = _borders(rule)
    return tuple(_joined(op, past, into_loops, ends.get(op.name, ())) for op in ops) if past or ends else ops


def _joined(op: RuleOp, past: Mapping[str, str], into_loops: Container[str], ends: Sequence[str]) -> RuleOp:
    ways = [tuple(_way(text, past)) for text in (*op.inputs, *ends)]
    carried = tuple(number for number, way in enumerate(ways) if any(each in into_loops for each in way))
    return replace(op, inputs=tuple(way[-1] for way in ways), carried=carried)


def _borders(rule: RuleFile) -> tuple[Mapping[str, str], Container[str], Mapping[str, Sequence[str]]]:
    """Return what is known of borders.

    That is, for references to operators at a border, the reference to what lies behind it; those of them that lead into
    loops; and of callers that references do not go past what any of their bodies may have given them.
    """
    bodies = {graph.name: graph.ops for graph in rule.graphs if graph.name}
    past: dict[str, str] = {}
    into_loops: set[str] = set()
    ends: dict[str, Sequence[str]] = {}
    for graph in rule.graphs:
        for caller in graph.ops:
            names = caller.attrs.get(SUBGRAPHS, ())
            called = [bodies[name] for name in names if name in bodies] if isinstance(names, tuple) else []
            for body in called:
                inputs = _inputs(caller, body)
                past |= inputs
                if caller.op_type in LOOPS:
                    into_loops.update(inputs)
            # Of several bodies (branches, a loop) only one ran, or one many times: nobody can say which gave the value.
            given = _outputs(caller, called[0]) if len(called) == 1 else {}
            past |= given
            if called and not given:
                outputs = [op for body in called for op in body if op.op_type == "NetOutput"]
                ends[caller.name] = [text for op in outputs for text in op.inputs]
    return past, into_loops, ends


def _inputs(caller: RuleOp, body: tuple[RuleOp, ...]) -> dict[str, str]:
    past = {}
    for op in body:
        number = op.attrs.get(PARENT_INPUT)
        is_named = bool(op.originals) or any(output.origin_name for output in op.outputs)
        if op.op_type == "Data" and isinstance(number, int) and 0 <= number < len(caller.inputs) and not is_named:
            past[f"{op.name}:0"] = caller.inputs[number]
    return past


def _outputs(caller: RuleOp, body: tuple[RuleOp, ...]) -> dict[str, str]:
    if any(output.origin_name for output in caller.outputs):
        return {}
    ends = [op for op in body if op.op_type == "NetOutput"]
    if len(ends) != 1:
        return {}
    return {f"{caller.name}:{number}": text for number, text in enumerate(ends[0].inputs)}


def _way(text: str, past: Mapping[str, str]) -> list[str]:
    """Return the references that one leads along, the last one to what gives the value."""
    way = [text]
    while way[-1] in past:
        if len(way) > _MAX_BORDERS:
            return [text]
        way.append(past[way[-1]])
    return way


class Bodies:
    """Which operators in subgraphs compute what the callers of these give.

    What a branch ends with is the result of its caller, and so is what the last turn of a loop ends with. Inside of a
    loop nobody can say it: of two branches either may have run last.

    Args:
        ops: all operators.
        passing: types of operators that hand on what they read.
    """

    def __init__(self, ops: Iterable[FusionOp], passing: Container[str]) -> None:
        self._callers: dict[str, FusionOp] = {}
        self._by_name: dict[str, FusionOp] = {}
        self._results: dict[str, tuple[FusionOp, int]] = {}
        ends: list[FusionOp] = []
        for op in ops:
            self._by_name.setdefault(op.name, op)
            self._callers.update(dict.fromkeys(op.bodies, op))
            if op.op_type == "NetOutput":
                ends.append(op)
        for end in ends:
            caller = self._callers.get(end.graph)
            if caller is None or any(each.op_type in LOOPS for each in self.around(caller)):
                continue
            for number, text in enumerate(end.inputs):
                for each in self._handed(text, end.graph, passing):
                    self._results.setdefault(each, (caller, number))

    def result(self, op: FusionOp, index: int) -> tuple[FusionOp, int] | None:
        """Return the caller and the output of it that an output of an operator is."""
        return self._results.get(f"{op.name}:{index}")

    def around(self, op: FusionOp) -> Iterator[FusionOp]:
        """Yield the operators in whose subgraphs one lies, from the nearest outwards."""
        seen: set[str] = set()
        while op.graph in self._callers and op.graph not in seen:
            seen.add(op.graph)
            op = self._callers[op.graph]
            yield op

    def _handed(self, text: str, graph: str, passing: Container[str]) -> Iterator[str]:
        """Yield a reference, and those to what it is handed on from, as long as that lies in a graph."""
        seen: set[str] = set()
        op = self._by_name.get(text.rpartition(":")[0])
        while op is not None and op.graph == graph and text not in seen:
            seen.add(text)
            yield text
            if op.op_type not in passing or not op.inputs:
                return
            text = op.inputs[0]
            op = self._by_name.get(text.rpartition(":")[0])
