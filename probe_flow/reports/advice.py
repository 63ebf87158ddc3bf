"""What to do about a finding: the steps of the decision guide that its facts lead to, as codes and sentences.

Source of the order: custom operators before built-in ones, 16 bits before full precision, fusion beside both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from probe_flow.records import (
    ComparedPair,
    Comparison,
    Finding,
    FindingKind,
    Node,
    NodeKey,
    SlotRole,
    TensorKind,
)

HALF = frozenset({"float16", "bfloat16"})
MAX_PARTS = 4

_CUSTOM_KERNELS = frozenset({"0", "1", "2", "10", "11"})
"""Values of `_fe_imply_type` for kernels that were added to the device's own library (CANN, OpImplType)."""

_OVERLOAD = re.compile(r"(?P<namespace>\w+)\.\w+\.\w+")
_OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "npu", "torchair", "quantized", "c10d", "_c10d_functional"})


@dataclass(frozen=True, slots=True)
class Advice:
    """One step: a code that `explain` tells more about, and what it means here."""

    code: str
    text: str


def advise(findings: Collection[Finding], comparison: Comparison) -> list[tuple[Advice, ...]]:
    """Return the steps for each finding, the most telling first; none where the evidence says it all."""
    nodes = {finding.node for finding in findings if finding.node is not None}
    rows: dict[NodeKey, list[ComparedPair]] = {key: [] for key in nodes}
    for row in comparison.rows if nodes else ():
        side = row.pair.target or row.pair.golden
        if side is not None and side.node in rows:
            rows[side.node].append(row)
    return [
        tuple(_steps(finding, comparison, rows.get(finding.node, []) if finding.node else [])) for finding in findings
    ]


def _steps(finding: Finding, comparison: Comparison, rows: list[ComparedPair]) -> Iterator[Advice]:
    if finding.kind is FindingKind.DRIFT:
        yield Advice("PF7415", "no operator is to blame: raise precision where the error grows most")
        return
    if finding.node is None or finding.kind not in _ACCUSING:
        return
    row = next((row for row in rows if row.order == finding.row), None)
    name = f"`{finding.node.name}`"
    if row is not None and row.pair.golden is None:
        yield Advice("PF7419", f"only the target executes {name}: make the two programs alike")
        return
    if finding.slot is not None and finding.slot.role is not SlotRole.OUTPUT:
        yield from _before_the_node(finding, comparison, row)
        return
    if finding.kind is FindingKind.NONFINITE_ORIGIN:
        yield Advice("PF7416", f"NaN or infinity begins at {name}: look at the size of its inputs")
    yield from _of_operator(finding.node, comparison, rows)


_ACCUSING = frozenset({FindingKind.ORIGIN, FindingKind.NONFINITE_ORIGIN, FindingKind.CHECKSUM_ORIGIN})


def _before_the_node(finding: Finding, comparison: Comparison, row: ComparedPair | None) -> Iterator[Advice]:
    assert finding.node is not None
    assert finding.slot is not None
    name = f"`{finding.node.name}`"
    if row is not None and TensorKind.SCALAR in {side.kind for side in (row.pair.target, row.pair.golden) if side}:
        yield Advice("PF7417", f"{name} gets another argument than in the golden: make the two programs alike")
    elif finding.slot.role in (SlotRole.PARAMETER, SlotRole.BUFFER):
        yield Advice("PF7410", f"a weight of {name} differs: load the same checkpoint on both sides")
    elif producer := _producer(finding, comparison):
        yield Advice("PF7418", f"{name} reads another value than `{producer}` wrote: look at what lies between the two")
    else:
        text = f"{name} already reads something else: give both sides the same inputs, weights and random state"
        yield Advice("PF7410", text)


def _producer(finding: Finding, comparison: Comparison) -> str | None:
    assert finding.slot is not None
    return next(
        (
            edge.producer.name
            for edge in comparison.pairs.target.edges
            if edge.consumer == finding.node and (edge.input,) == finding.slot.path[:1]
        ),
        None,
    )


def _of_operator(key: NodeKey, comparison: Comparison, rows: list[ComparedPair]) -> Iterator[Advice]:
    node = comparison.pairs.target.nodes.get(key)
    name = f"`{key.name}` ({node.op_type})" if node is not None and node.op_type else f"`{key.name}`"
    if node is not None and len(node.originals) > 1:
        parts = " + ".join(f"`{part}`" for part in node.originals[:MAX_PARTS])
        more = f" and {len(node.originals) - MAX_PARTS} more" if len(node.originals) > MAX_PARTS else ""
        yield Advice("PF7411", f"{name} is fused of {parts}{more}: compare with a dump made with fusion switched off")
    half = sorted({row.pair.target.dtype for row in rows if row.pair.target is not None} & HALF)
    if _is_custom(node, rows, comparison):
        yield Advice("PF7412", f"{name} is a custom operator: test its kernel by itself on the dumped inputs")
    elif half:
        yield Advice("PF7413", f"{name} computes in {' and '.join(half)}: let it compute in float32 and compare again")
    else:
        yield Advice("PF7414", f"{name} is a built-in operator: reproduce it alone on the dumped inputs and report it")


def _is_custom(node: Node | None, rows: list[ComparedPair], comparison: Comparison) -> bool:
    if node is None:
        return False
    facts = {**node.attrs, **node.relation_attrs}
    if str(facts.get("_is_custom_op", "")).lower() in ("true", "1"):
        return True
    if str(facts.get("_fe_imply_type", "")) in _CUSTOM_KERNELS:
        return True
    golden = {row.pair.golden.node for row in rows if row.pair.golden is not None}
    found = (_OVERLOAD.fullmatch(other.op_type) for key in golden if (other := comparison.pairs.golden.nodes.get(key)))
    return any(match is not None and match["namespace"] not in _OWN_NAMESPACES for match in found)
