"""What to do about a finding: the steps of the decision guide that its facts lead to, as codes and sentences.

Source of the order: custom operators before built-in ones, 16 bits before full precision, fusion beside both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from functools import cached_property

from probe_flow.record.rows import source_line
from probe_flow.record.types.conclusions import AdviceRecord
from probe_flow.records import (
    Comparison,
    Edge,
    ErrorShape,
    Finding,
    FindingKind,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    Row,
    Slot,
    SlotRole,
    TensorKind,
)
from probe_flow.records.frameworks import TFDBG, TORCHAIR_FX, TORCHAIR_GE
from probe_flow.records.row import PRODUCED

HALF = frozenset({"float16", "bfloat16"})
MAX_PARTS = 4

RUNS_AGAIN = "PF7425"
"""Code of the step that computes the operator again."""

FAR = 20.0
"""Severity of an origin from which more precision is not the first thing to try: about 50 times what one rounding of
each element explains. That is what a sum of 2500 values loses when each step is rounded at random."""

_SHAPES: dict[ErrorShape | None, tuple[str, str]] = {
    ErrorShape.FACTOR: (
        "PF7421",
        "is off by one factor, which rounding does not do: compare scales, divisors and attributes",
    ),
    ErrorShape.OFFSET: (
        "PF7422",
        "is off by one amount, which rounding does not do: look for an addend that one side lacks",
    ),
    ErrorShape.PART: (
        "PF7423",
        "is wrong in a few elements only: see where they lie, and look at borders, tails and padding",
    ),
    ErrorShape.CHOICE: ("PF7424", "picks other elements than its own input says: compare axis, order and ties"),
    ErrorShape.ZEROS: (
        "PF7432",
        "left zeros only: see whether its kernel ran, and whether the dump was taken before it had",
    ),
    ErrorShape.ORDER: (
        "PF7433",
        "has the golden's values in other places: compare axes, transposes, permutations and storage layouts",
    ),
    ErrorShape.SATURATED: (
        "PF7434",
        "stops at {at}, and the golden goes on: look for a clip, a saturating cast or the range of a quantisation",
    ),
    ErrorShape.CHANNEL: ("PF7435", "is wrong at {at} only: look at what this index has of its own"),
    ErrorShape.TAIL: ("PF7436", "is wrong at {at} only, the end of it: look at padding, masks and the tail of a block"),
}
"""Errors that more precision does not cure: code, and what is wrong with the operator and what to look at."""

_BETWEEN = "look at what lies between the two"

_ACCUSING = frozenset({FindingKind.ORIGIN, FindingKind.NONFINITE_ORIGIN, FindingKind.CHECKSUM_ORIGIN})

_CUSTOM_KERNELS = frozenset({"0", "1", "2", "10", "11"})
"""Values of `_fe_imply_type` for kernels that were added to the device's own library (CANN, OpImplType)."""

_FED = frozenset({"_Arg", "Placeholder", "PlaceholderWithDefault", "PlaceholderV2"})
_FROM_DATA_SETS = frozenset({"IteratorGetNext", "IteratorGetNextSync", "OneShotIterator", "FIFOQueueV2"})
_WEIGHTS = frozenset({"VariableV2", "Variable", "VarHandleOp", "ReadVariableOp"})
"""What gives the values of a step in TensorFlow that no operator of it computes."""

_OVERLOAD = re.compile(r"(?P<namespace>\w+)\.\w+\.\w+")
_OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "npu", "torchair", "quantized", "c10d", "_c10d_functional"})


def advise(findings: Collection[Finding], comparison: Comparison) -> list[tuple[AdviceRecord, ...]]:
    """Return the steps for each finding, the most telling first; none where the evidence says it all."""
    facts = _Facts(findings, comparison) if findings else None
    return [tuple(_steps(finding, facts)) for finding in findings] if facts is not None else []


class _Facts:
    """What the steps of some findings depend on: the rows of their nodes and of what feeds these.

    Args:
        findings: of the comparison.
        comparison: what was compared.
    """

    def __init__(self, findings: Collection[Finding], comparison: Comparison) -> None:
        self.pairs = comparison.pairs
        self.target, self.golden = comparison.pairs.target, comparison.pairs.golden
        self._comparison = comparison
        named = {finding.node for finding in findings if finding.node is not None}
        inputs = {finding.node for finding in findings if finding.slot and finding.slot.role is SlotRole.INPUT}
        self._edges = [edge for edge in self.target.edges if edge.consumer in inputs] if inputs else []
        self._rows: dict[NodeKey, list[Row]] = {key: [] for key in (*named, *(edge.producer for edge in self._edges))}
        for row in comparison.rows if self._rows else ():
            side = row.pair.target or row.pair.golden
            if side is not None and side.node in self._rows:
                self._rows[side.node].append(row)

    @cached_property
    def fx_operators(self) -> set[NodeKey]:
        """Operators of an FX graph whose inputs the golden has."""
        if self.golden.framework != TORCHAIR_FX:
            return set()
        given = {ref.node for ref in self.golden.tensors if ref.slot.role is SlotRole.INPUT}
        return {key for key in given if (node := self.golden.nodes.get(key)) and node.op_type.startswith("aten.")}

    def rows(self, key: NodeKey) -> list[Row]:
        return self._rows.get(key, [])

    def is_first(self, key: NodeKey) -> bool:
        """Whether all that is known of what a node reads is that it is what the target itself was fed."""
        read = [row for row in self.rows(key) if row.measurement is not None and not row.is_produced]
        return bool(read) and all(row.pair.rule.is_self for row in read)

    def producer(self, key: NodeKey, slot: Slot) -> Edge | None:
        """Return the edge that feeds an input, None where nothing does or the dump does not tell."""
        return next((edge for edge in self._edges if edge.consumer == key and (edge.input,) == slot.path[:1]), None)

    def golden_writer(self, row: Row) -> NodeKey | None:
        """Return the call that the golden alone makes and that wrote last what it reads for a row; None if none did.

        Tensors are told by what was recorded of them.
        """
        read, found = row.pair.golden, None
        if read is None or read.recorded is None or read.recorded.l2norm is None:
            return None
        place = self.golden.nodes[read.node].order if read.node in self.golden.nodes else 0
        for other in self._comparison.rows:
            wrote = other.pair.golden
            if wrote is None or not other.is_produced or wrote.recorded != read.recorded or wrote.shape != read.shape:
                continue
            node = self.golden.nodes.get(wrote.node)
            if node is not None and node.order < place and wrote.node.execution == read.node.execution:
                found = max(found or (-1, other), (node.order, other), key=lambda each: each[0])
        return None if found is None or found[1].pair.target is not None else found[1].pair.shown.node

    def was_measured(self, edge: Edge) -> bool:
        """Whether the output that an edge begins at was compared."""
        slot = Slot(SlotRole.OUTPUT, (edge.output,))
        return any(row.measurement is not None and row.pair.shown.slot == slot for row in self.rows(edge.producer))

    def ran_between(self, edge: Edge) -> list[Node]:
        """Return the operators that ran between the ends of an edge, that no edge knows, and of which no row tells."""
        ends = self.target.nodes.get(edge.producer), self.target.nodes.get(edge.consumer)
        if ends[0] is None or ends[1] is None:
            return []
        between = {
            key: node
            for key, node in self.target.nodes.items()
            if key.execution == edge.consumer.execution and ends[0].order < node.order < ends[1].order
        }
        for other in self.target.edges if between else ():
            between.pop(other.producer, None)
            between.pop(other.consumer, None)
        for row in self._comparison.rows if between else ():
            if row.measurement is not None and row.pair.target is not None:
                between.pop(row.pair.target.node, None)
        return sorted(between.values(), key=lambda node: node.order)


def _steps(finding: Finding, facts: _Facts) -> Iterator[AdviceRecord]:
    if finding.kind is FindingKind.DRIFT:
        yield AdviceRecord("PF7415", "no operator is to blame: raise precision where the error grows most")
    if finding.kind is FindingKind.RANDOM_STATE:
        yield AdviceRecord(
            "PF7430", "set the same seeds before both runs, or take random operators out of the comparison"
        )
    key = finding.node
    if key is not None and finding.kind is FindingKind.FAILURE:
        yield from _of_shape(key, facts, finding)
    if key is None or finding.kind not in _ACCUSING:
        return
    row = next((row for row in facts.rows(key) if row.order == finding.row), None)
    if facts.pairs.is_examination:
        is_output = finding.slot is None or finding.slot.role in PRODUCED
        cure = "look at the size of its inputs" if is_output else "look at the data, at the weights, at what ran before"
        where = f"begins at `{key.name}`" if is_output else f"comes into `{key.name}` from outside the dump"
        yield AdviceRecord("PF7416", f"NaN or infinity {where}: {cure}")
    elif row is not None and all(each.pair.golden is None for each in facts.rows(key)):
        source = source_line(facts.pairs, key)
        call = f", called at {source[0]}:{source[1]}: take it out there" if source else ": take the call out"
        text = f"only the target executes `{key.name}`{call} or add it to the golden's program, then compare again"
        yield AdviceRecord("PF7419", text)
    elif finding.slot is not None and finding.slot.role is not SlotRole.OUTPUT:
        yield _before_the_node(key, finding.slot, row, facts)
    else:
        if finding.kind is FindingKind.NONFINITE_ORIGIN:
            yield AdviceRecord("PF7416", f"NaN or infinity begins at `{key.name}`: look at the size of its inputs")
        is_far = finding.kind is FindingKind.ORIGIN and finding.severity >= FAR
        if is_far and facts.is_first(key):
            text = f"what the model is fed is not in the golden: see first that `{key.name}` read the same there"
            yield AdviceRecord("PF7437", text)
        yield from _of_operator(key, facts, is_far=is_far, finding=finding)


def _before_the_node(key: NodeKey, slot: Slot, row: Row | None, facts: _Facts) -> AdviceRecord:
    name = f"`{key.name}`"
    if row is not None and TensorKind.SCALAR in {side.kind for side in (row.pair.target, row.pair.golden) if side}:
        return AdviceRecord("PF7417", f"{name} gets another argument than in the golden: make the two programs alike")
    broken = _broken_prerequisite(row, facts)
    if broken is not None:
        return AdviceRecord("PF7429", f"{name} already reads something else: {broken}")
    if slot.role in (SlotRole.PARAMETER, SlotRole.BUFFER):
        return AdviceRecord("PF7410", f"a weight of {name} differs: load the same checkpoint on both sides")
    edge = facts.producer(key, slot)
    alone = facts.golden_writer(row) if edge is None and row is not None else None
    if alone is not None:
        source = source_line(facts.pairs, alone)
        call = f", called at {source[0]}:{source[1]}," if source else ""
        text = (
            f"only the golden executes `{alone.name}`{call} whose result {name} reads there: make both programs do so"
        )
        return AdviceRecord("PF7419", text)
    if edge is None:
        text = f"{name} already reads something else: give both sides the same inputs, weights and random state"
        return AdviceRecord("PF7410", text)
    wrote = f"`{edge.producer.name}` wrote"
    if facts.was_measured(edge):
        unknown = facts.ran_between(edge)[:MAX_PARTS]
        named = ", ".join(f"`{node.key.name}` ({node.op_type})" for node in unknown)
        look = f"look at {named}, which ran between the two and was not compared" if named else _BETWEEN
        return AdviceRecord("PF7418", f"{name} reads another value than {wrote}: {look}")
    return AdviceRecord("PF7420", f"what {wrote} was not compared and {name} reads it: dump it on both sides")


def _broken_prerequisite(row: Row | None, facts: _Facts) -> str | None:
    """Return which of the things that two training steps must share differs, by what gives the value in TensorFlow."""
    if row is None or row.pair.golden is None or facts.golden.framework != TFDBG:
        return None
    node = facts.golden.nodes.get(row.pair.golden.node)
    op_type = node.op_type if node is not None else ""
    if op_type in _FED:
        return "feed both sides the same batch, saved once, and switch random preprocessing off"
    if op_type in _FROM_DATA_SETS:
        return "its batch comes from a data set: switch shuffling and random preprocessing off on both sides"
    if op_type in _WEIGHTS or row.pair.golden.node.name.endswith("/read"):
        return "it is a weight: start both sides from the same checkpoint"
    return None


def _of_shape(key: NodeKey, facts: _Facts, finding: Finding) -> Iterator[AdviceRecord]:
    """Yield what the shape of an error says of its cause, where it says anything."""
    if finding.shape in _SHAPES:
        code, text = _SHAPES[finding.shape]
        yield AdviceRecord(code, f"{_named(key, facts)} {text.format(at=finding.shape_at)}")


def _named(key: NodeKey, facts: _Facts) -> str:
    node = facts.target.nodes.get(key)
    return f"`{key.name}` ({node.op_type})" if node is not None and node.op_type else f"`{key.name}`"


def _of_operator(key: NodeKey, facts: _Facts, *, is_far: bool, finding: Finding) -> Iterator[AdviceRecord]:
    node, rows, shape = facts.target.nodes.get(key), facts.rows(key), finding.shape
    name = _named(key, facts)
    if node is not None and _runs_again(node, rows, facts):
        given = "its own inputs"
        if facts.target.task == "statistics":
            given = "random values in the recorded ranges, which shows gross errors only"
        text = f"see whether {name} itself is wrong: {AdviceRecord.AGAIN} computes it again from {given}"
        yield AdviceRecord(RUNS_AGAIN, text)
    if node is not None and len(node.originals) > 1:
        parts = " + ".join(f"`{part}`" for part in node.originals[:MAX_PARTS])
        more = f" and {len(node.originals) - MAX_PARTS} more" if len(node.originals) > MAX_PARTS else ""
        if facts.target.framework == facts.golden.framework and _is_apart(rows, facts):
            text = (
                f"{name} is fused of {parts}{more}, and the golden ran them apart: keep this fusion off and report it"
            )
            yield AdviceRecord("PF7411", text)
            return
        yield AdviceRecord(
            "PF7411", f"{name} is fused of {parts}{more}: compare with a dump made with fusion switched off"
        )
    yield from _of_shape(key, facts, finding)
    is_custom = _is_custom(node, rows, facts)
    half = sorted({row.pair.target.dtype for row in rows if row.pair.target is not None} & HALF)
    if is_custom:
        yield AdviceRecord("PF7412", f"{name} is a custom operator: test its kernel by itself on the dumped inputs")
    elif shape in _SHAPES:
        text = f"if these are alike, reproduce {name} alone on the dumped inputs and report it"
        yield AdviceRecord("PF7414", text)
    elif half and is_far:
        types = " and ".join(half)
        text = f"{name} is off by far more than {types} explains: reproduce it alone on the dumped inputs and report it"
        yield AdviceRecord("PF7414", text)
    elif half:
        yield AdviceRecord(
            "PF7413", f"{name} computes in {' and '.join(half)}: let it compute in float32 and compare again"
        )
    else:
        yield AdviceRecord(
            "PF7414", f"{name} is a built-in operator: reproduce it alone on the dumped inputs and report it"
        )
    if half and not is_custom and node is not None and node.op_type and facts.golden.framework == TFDBG:
        listed = json.dumps({"black-list": {"to-add": [node.op_type]}})
        yield AdviceRecord(
            "PF7431",
            f"{name} reads or writes {' and '.join(half)}: keep it in float32, for all of its type by the mixed "
            f"precision list `{listed}`, or for this one by `with npu_scope.keep_dtype_scope():` around it in the "
            "script",
        )


def _runs_again(node: Node, rows: list[Row], facts: _Facts) -> bool:
    """Return True where `repro` may make a script of a node.

    Of a dump.json with values: a call of an API, or a module. Of a graph of TorchAir: an operator that was not fused
    and was compared with one of an FX graph, whose inputs are in its dump.
    """
    target = facts.target
    if target.framework == TORCHAIR_GE:
        compared = {row.pair.golden.node for row in rows if row.pair.golden is not None and _is_output(row)}
        return len(node.originals) < 2 and len(compared) == 1 and compared <= facts.fx_operators
    is_call = node.kind is NodeKind.MODULE or (node.kind is NodeKind.API and node.key.phase is not Phase.NONE)
    return is_call and target.attrs.get("format") == "dump_json" and target.task in ("tensor", "statistics")


def _is_output(row: Row) -> bool:
    return row.pair.shown.slot.role is SlotRole.OUTPUT


def _is_apart(rows: list[Row], facts: _Facts) -> bool:
    """Whether the golden is a dump of the same device whose operators are not fused here."""
    golden = {row.pair.golden.node for row in rows if row.pair.golden is not None}
    return bool(golden) and all(len(node.originals) < 2 for key in golden if (node := facts.golden.nodes.get(key)))


def _is_custom(node: Node | None, rows: list[Row], facts: _Facts) -> bool:
    if node is None:
        return False
    told = dict(node.rules.kernel) if node.rules is not None else {}
    if str(told.get("_is_custom_op", "")).lower() in ("true", "1"):
        return True
    if str(told.get("_fe_imply_type", "")) in _CUSTOM_KERNELS:
        return True
    golden = {row.pair.golden.node for row in rows if row.pair.golden is not None}
    found = (_OVERLOAD.fullmatch(other.op_type) for key in golden if (other := facts.golden.nodes.get(key)))
    return any(match is not None and match["namespace"] not in _OWN_NAMESPACES for match in found)
