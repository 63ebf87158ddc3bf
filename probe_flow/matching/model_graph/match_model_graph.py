"""Match two dumps of one model's graph: by names of tensors and operators, across casts, quantisation and fusion.

Tools that quantise, convert or optimise a model keep the names of the tensors that they leave: a fused operator gives
the tensor of the last one of its originals, a quantised one has its float result behind a `DequantizeLinear`.

Rules of the pairs: ``exact`` - a tensor of one name, of operators of one name; ``tensor_name`` - of operators of other
names; ``node_name`` - the tensor was renamed, the operator was not; ``passed_on`` - a cast, or a quantisation with its
dequantisation, that the target alone has, with the tensor that it is another form of.

Tensors without partner: ``quantised_codes`` expected, integers that stand for floats; ``of_constants`` and
``quantised_constants`` expected, a weight in another form; ``internal`` expected, the other graph has no such tensor,
and it is read for one that is compared; ``not_dumped`` missing, the other graph has it, and its dump does not;
``other_numbers`` missing, integers on one side and floats on the other;
``no_golden_node``, ``no_target_node`` missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from probe_flow.matching.model_graph.graph import ModelGraph
from probe_flow.matching.shared.executions import other_leaves_out, pair_executions, with_selections
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.records import (
    Catalog,
    Execution,
    Group,
    NodeKey,
    Pair,
    Pairs,
    Reason,
    ReasonKind,
    Relation,
    Rule,
    TensorKind,
    TensorRef,
)


class ModelGraphRule:
    VALUE = Rule("tensor_name")
    NODE = Rule("node_name")
    PASSED = Rule("passed_on")


class ModelGraphReason:
    QUANTISED_CODES = ReasonKind("quantised_codes", is_quantised=True)
    OF_CONSTANTS = ReasonKind("of_constants")
    OTHER_NUMBERS = ReasonKind("other_numbers")
    QUANTISED_CONSTANTS = ReasonKind("quantised_constants", is_quantised=True)


_CODES, _QUANTISED = "_quantized", "_quant"
"""What the tool appends to the names of tensors, and of operators."""

_RECTIFIERS = frozenset({"Clip", "Relu"})
_FLOATS = ("float", "bfloat", "hifloat", "complex")


def match_model_graph(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None = None, step_offset: int = 0
) -> Pairs:
    """Pair two dumps whose manifests tell the graph; every tensor of both sides is in the result.

    Args:
        target, golden: the dumps.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.

    Returns:
        The pairs in the order of the target, then what only the golden has.
    """
    sides = _Side(target), _Side(golden)
    executions = pair_executions(
        list(target.executions),
        list(golden.executions),
        pair_ranks=pair_ranks,
        step_offset=step_offset,
        is_left=other_leaves_out(target, golden),
    )
    pairs: list[Pair] = []
    groups: list[Group] = []
    for run, partner in executions.sides(target.executions, golden.executions):
        pairs += _Match(*sides, run, partner).pairs(groups)
    problems, unused = executions.problems, executions.unused
    return with_selections(Pairs(target, golden, tuple(pairs), tuple(groups), problems=problems, unused=unused))


class _Side:
    """One dump: its graph, and its tensors by execution."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.graph = ModelGraph.of(catalog)
        self.tensors = catalog.tensors_by_execution()
        self.dumped = frozenset(map(self.value, catalog.tensors))
        self.near = NearestNames(("", key.name) for key in catalog.nodes)

    def value(self, tensor: TensorRef) -> str:
        """Return the name of a tensor in the graph; empty where it has none."""
        output = tensor.slot.path[0]
        return self.graph.value(tensor.node.name, output) if isinstance(output, int) else ""


_Compared: TypeAlias = tuple[_Side, Collection[str]]
"""A side, and the names of those of its tensors that are compared."""


class _Match:
    """The pairs of two executions; either may be missing."""

    def __init__(self, target: _Side, golden: _Side, run: Execution | None, other: Execution | None) -> None:
        self.target, self.golden = target, golden
        self.label = str(run if run is not None else other)
        self.mine: Sequence[TensorRef] = target.tensors[run] if run is not None else ()
        self.others: Sequence[TensorRef] = golden.tensors[other] if other is not None else ()
        self.is_alone = run is None or other is None
        self._by_value = {value: tensor for tensor in self.others if (value := golden.value(tensor))}
        self._by_slot = {(tensor.node.name, tensor.slot): tensor for tensor in self.others}

    def pairs(self, groups: list[Group]) -> Iterator[Pair]:
        """Yield all pairs, and append a group for each operator."""
        found = {id(tensor): self._partner(tensor) for tensor in self.mine}
        known = {self.target.value(tensor) for tensor in self.mine if found[id(tensor)] is not None}
        taken = {id(partner[0]): partner[0] for partner in found.values() if partner is not None}
        compared = {self.golden.value(tensor) for tensor in taken.values()}
        members: dict[NodeKey, dict[NodeKey, None]] = {}
        for tensor in self.mine:
            partner = found[id(tensor)]
            goldens = members.setdefault(tensor.node, {})
            group = f"{self.label}: {tensor.node.name}"
            if partner is None:
                reason = self._why_alone(tensor, (self.target, known), (self.golden, compared), "golden")
                yield Pair(tensor, None, group, CommonRule.NONE, reason=reason)
                continue
            other, rule = partner
            goldens[other.node] = None
            yield Pair(tensor, other, group, rule)
        for key, partners in members.items():
            relation = Relation.ONE_TO_MANY if len(partners) > 1 else Relation.ONE_TO_ONE
            groups.append(Group(f"{self.label}: {key.name}", relation, key, tuple(partners)))
        yield from self._golden_only(taken, (self.golden, compared), (self.target, known), groups)

    def _golden_only(
        self, taken: Mapping[int, TensorRef], golden: _Compared, target: _Compared, groups: list[Group]
    ) -> Iterator[Pair]:
        lone: dict[NodeKey, None] = {}
        for tensor in self.others:
            if id(tensor) in taken:
                continue
            lone[tensor.node] = None
            reason = self._why_alone(tensor, golden, target, "target")
            yield Pair(None, tensor, f"{self.label}: golden {tensor.node.name}", CommonRule.NONE, reason=reason)
        groups += [Group(f"{self.label}: golden {key.name}", Relation.ONE_TO_ONE, (), key) for key in lone]

    def _partner(self, tensor: TensorRef) -> tuple[TensorRef, Rule] | None:
        """Return the golden tensor that a tensor of the target is, and how that is known."""
        value = self.target.value(tensor)
        same = self._by_value.get(value)
        named = self._by_slot.get((tensor.node.name, tensor.slot))
        if same is not None and named is not None and same is not named and self._is_taken_over(tensor, same, named):
            same = None
        if same is not None and _comparable(tensor, same):
            return same, CommonRule.EXACT if same is named else ModelGraphRule.VALUE
        if same is None and named is not None and _comparable(tensor, named):
            is_renamed = bool(value) and value != self.golden.value(named)
            return named, ModelGraphRule.NODE if is_renamed else CommonRule.EXACT
        for origin in self.target.graph.passed_on(value):
            found = self._by_value.get(origin) or self._of_codes(origin)
            if found is not None:
                return (found, ModelGraphRule.PASSED) if _comparable(tensor, found) else None
        return None

    def _of_codes(self, codes: str) -> TensorRef | None:
        """Return the golden tensor whose values codes stand for, by the names that onnxruntime's tool gives them.

        It leaves out a rectifier behind an operator whose codes cannot be negative: they are the rectifier's.
        """
        if codes not in self.target.graph.codes or not codes.endswith(_CODES):
            return None
        value = codes.removesuffix(_CODES)
        readers = self.golden.graph.read_by(value)
        if len(readers) == 1 and readers[0].op_type in _RECTIFIERS:
            name = readers[0].name
            if not {name, f"{name}{_QUANTISED}"} & self.target.graph.nodes.keys():
                value = readers[0].outputs[0]
        return self._by_value.get(value)

    def _is_taken_over(self, tensor: TensorRef, same: TensorRef, named: TensorRef) -> bool:
        """Return True if an operator gives the name of another's tensor to its own.

        Who leaves out a rectifier, because quantisation cuts off what is negative, lets the operator before it give the
        rectifier's tensor. It is still the operator of its name and type; a fused one has another type.
        """
        types = [
            side.catalog.nodes[each.node].op_type
            for side, each in ((self.target, tensor), (self.golden, same), (self.golden, named))
        ]
        return types[0] == types[2] != types[1]

    def _why_alone(self, tensor: TensorRef, mine: _Compared, others: _Compared, word: str) -> Reason:
        """Return why a tensor has no partner on the other side, `word`."""
        (own, known), (other, taken) = mine, others
        value = own.value(tensor)
        if self.is_alone:
            return CommonReason.NO_EXECUTION[word].missing(f"the {word} has no such execution")
        if tensor.kind is TensorKind.NULL:
            return CommonReason.NOT_TENSOR.expected(tensor.reason or "the slot is empty")
        if value in own.graph.codes or value in other.graph.codes:
            return ModelGraphReason.QUANTISED_CODES.expected(f"integers that stand for floats, on one side: `{value}`")
        if value in other.graph.producer and value not in other.dumped:
            return CommonReason.NOT_DUMPED.missing(f"the {word} has `{value}` in its graph, and not in its dump")
        if value in other.dumped and value not in taken:
            return ModelGraphReason.OTHER_NUMBERS.missing(f"`{value}` is integers on one side, floats on the other")
        if value and own.graph.is_constant(value):
            is_quantised = own.graph.producer[value].op_type == "DequantizeLinear"
            kind = ModelGraphReason.QUANTISED_CONSTANTS if is_quantised else ModelGraphReason.OF_CONSTANTS
            return kind.expected("made of constants alone: a weight in another form")
        if value and own.graph.leads_to(value, known):
            text = f"the {word}'s graph has no such tensor: it is inside of what is compared behind it"
            return CommonReason.INTERNAL.expected(text)
        near = other.near.of("", tensor.node.name)
        shown = f"; the nearest are {', '.join(f'`{name}`' for name in near)}" if near else ""
        return CommonReason.NO_NODE[word].missing(f"the {word} has no tensor `{value or tensor.node.name}`{shown}")


def _is_float(tensor: TensorRef) -> bool:
    return (tensor.dtype or "").startswith(_FLOATS)


def _comparable(one: TensorRef, other: TensorRef) -> bool:
    """Return True unless one of them holds the codes of a quantised tensor and the other its values."""
    return _is_float(one) == _is_float(other) or one.dtype is None or other.dtype is None
