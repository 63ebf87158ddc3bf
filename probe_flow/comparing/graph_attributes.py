"""What graphs say of the operators of a device: attributes, read again from their files for those that are asked about.

Matching needs no attributes, and a graph has thousands; so they are read only where an operator is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core.names import DEVICE, attributes_of, find
from probe_flow.dumps.graph.links import GraphLinks, Source, graph_of
from probe_flow.dumps.rules.facts import MEANING
from probe_flow.dumps.rules.rule_file import RULE_FILES, read_rule_file
from probe_flow.errors import FormatError
from probe_flow.records import Catalog, Execution, GraphOp, Node

if TYPE_CHECKING:
    from probe_flow.apis.numpy_core.fused import Fused, Part
    from probe_flow.dumps.rules.records import RuleOp

Attributes = Mapping[str, Any]
Reading: TypeAlias = tuple[tuple[str, int], ...]
"""Names of operators, each with the number of an input."""


class GraphAttributes:
    """The attributes of the operators of one dump.

    Args:
        catalog: of the dump; its graphs, or the rule files that the matcher noted (`RULE_FILES`), tell them.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._read: dict[str, _Told] = {}
        self._links: dict[Execution, GraphLinks | None] = {}

    def of(self, node: Node) -> Attributes:
        """Return the attributes of an operator.

        Raises:
            UnusableError: no graph has it, or it stands for several operators.
        """
        name, files = self._in_graph(node) if self._catalog.graphs else self._in_rules(node)
        told = (self._of_file(file).attributes for file in files)
        found = [known[name] for known in told if name in known]
        if not found:
            raise UnusableError("its attributes are not known: no graph of this run has it", is_expected=True)
        first = found[0]
        if first is None or any(each != first for each in found):
            raise UnusableError("graphs of this run have several operators of its name")
        return first

    def readers(self, node: Node) -> Reading:
        """Return the operators that read the variable that an optimizer writes, and which of their inputs it is."""
        name, files = ("", []) if self._catalog.graphs else self._in_rules(node)
        return tuple(each for file in files for each in self._of_file(file).readers.get(name, ()))

    def _in_rules(self, node: Node) -> tuple[str, list[str]]:
        told = self._catalog.attrs.get(RULE_FILES, ())
        files = [str(each) for each in told] if isinstance(told, tuple) else []
        return node.rules.op if node.rules is not None else node.key.name, files

    def fused(self, node: Node, numels: Sequence[int | None], results: int) -> Fused | None:
        """Return what the graph has for a fused operator; None for an operator that is none, or unknown.

        Args:
            node: of the operator.
            numels: elements of each of its inputs.
            results: how many it has.

        Raises:
            UnusableError: one of its parts is not computed, or where it reads from is not known.
        """
        links = self._links_of(node.key.execution)
        split = None if links is None else links.split(node.key.name)
        if links is None or split is None or len(split.parts) == 1:
            return None
        if split.alternative is not None:
            raise UnusableError("its name may mean several groups of operators", is_expected=True)
        from probe_flow.apis.numpy_core.fused import Fused

        leaving = links.external_outputs(split.parts)
        if results not in (1, len(leaving)):
            raise UnusableError("which of its parts gives which result is not known", is_expected=True)
        sources = links.input_sources(split.parts, numels)
        entering = {source: number for number, source in reversed([*enumerate(sources.sources)])}
        numbers = {name: number for number, name in enumerate(split.parts)}
        parts = tuple(self._part(links, links.ops[name], entering, numbers) for name in split.parts)
        return Fused(parts, tuple((numbers[name], result) for name, result in leaving[-results:]))

    def _part(
        self, links: GraphLinks, op: GraphOp, entering: Mapping[Source | None, int], numbers: Mapping[str, int]
    ) -> Part:
        from probe_flow.apis.numpy_core.fused import Part

        wanted = attributes_of(DEVICE, op.op_type)
        known = self._of_file(str(Path(self._catalog.root) / links.graph.file)).attributes.get(op.name)
        if known is None:
            raise UnusableError("graphs of this run have several operators of its name")
        attributes = tuple((name, frozen(value)) for name, value in known.items() if name in wanted.all)
        if lacking := sorted(wanted.required - dict(attributes).keys()):
            raise UnusableError(f"its graph does not give attribute `{lacking[0]}` of `{op.name}`")
        reads: list[int | tuple[int, int]] = []
        for source in op.inputs:
            if source is not None and numbers.get(source[0], len(numbers)) < numbers[op.name]:
                reads.append((numbers[source[0]], source[1]))
            elif source is not None and source in entering:
                reads.append(entering[source])
            else:
                raise UnusableError(f"what its part `{op.name}` reads is not dumped", is_expected=True)
        return Part(op.op_type, tuple(reads), attributes)

    def _links_of(self, run: Execution) -> GraphLinks | None:
        if run not in self._links:
            graph = graph_of(self._catalog.graphs, run)
            self._links[run] = None if graph is None else GraphLinks(graph)
        return self._links[run]

    def _in_graph(self, node: Node) -> tuple[str, list[str]]:
        links = self._links_of(node.key.execution)
        split = None if links is None else links.split(node.key.name)
        if links is None or split is None:
            return node.key.name, []
        if len(split.parts) > 1:
            raise UnusableError("it is fused of several operators", is_expected=True)
        return split.parts[0], [str(Path(self._catalog.root) / links.graph.file)]

    def _of_file(self, file: str) -> _Told:
        """Return what a file says of its operators."""
        if file not in self._read:
            try:
                ops = [op for graph in read_rule_file(file).graphs for op in graph.ops]
            except FormatError as error:  # it was readable a moment ago, or has no attributes
                raise UnusableError(f"its attributes are not known: {error.diagnostic.message}") from error
            self._read[file] = _Told(_by_name(ops), _readers(ops))
        return self._read[file]


class _Told(NamedTuple):
    """What a file says of its operators, by their names.

    ``attributes`` are None where several share a name; ``readers`` those of the variable of each optimizer.
    """

    attributes: Mapping[str, Attributes | None]
    readers: Mapping[str, Reading]


@lru_cache(maxsize=1024)
def writes_variable(op_type: str) -> bool:
    """Return whether a type of operator is an optimizer that is computed, or writes a variable as one does."""
    try:
        return hasattr(find(DEVICE, op_type), "written")
    except UnusableError:
        return False


def frozen(value: Any) -> Any:
    """Return an attribute with tuples in place of lists: what computes an operator is told apart by its attributes."""
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


ORDER = "origin_format"
"""Stands for the order of the axes of images in the user's model, beside the attributes of an operator."""

_ORDERS = frozenset({"NHWC", "NCHW"})


def _by_name(ops: Sequence[RuleOp]) -> Mapping[str, Attributes | None]:
    known = [(op, _orders_of(op)) for op in ops]
    every = frozenset[str]().union(*(own for _, own in known))
    found: dict[str, Attributes | None] = {}
    for op, own in known:
        attrs = {name: value for name, value in op.attrs.items() if name in MEANING}
        order = own if len(own) == 1 else every  # what has no images of its own is as the rest of the model
        if len(order) == 1:
            attrs[ORDER] = next(iter(order))
        found[op.name] = attrs if op.name not in found or found[op.name] == attrs else None
    return found


def _readers(ops: Sequence[RuleOp]) -> Mapping[str, Reading]:
    variables = {op.name: op.inputs[0] for op in ops if op.inputs and writes_variable(op.op_type)}
    reading: dict[str, list[tuple[str, int]]] = {source: [] for source in variables.values()}
    for op in ops if reading else ():
        for place, source in enumerate(op.inputs):
            if source in reading:
                reading[source].append((op.name, place))
    return {name: tuple(reading[source]) for name, source in variables.items()}


def _orders_of(op: RuleOp) -> frozenset[str]:
    """Return the orders of images that an operator names."""
    images = (each.origin_layout for each in op.outputs if len(each.origin_shape or ()) == 4)
    return _ORDERS.intersection((str(op.attrs.get("data_format")), *images))
