"""Hand-built comparisons of offline models for the tests of their tables: operators of the rules, dumped or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from report_builders import GOLDEN_ROOT, TARGET_ROOT, stats

from probe_flow.records import (
    Catalog,
    Comparison,
    Execution,
    Expectation,
    Extent,
    Group,
    Measurement,
    Mode,
    Node,
    NodeKey,
    Pair,
    Pairs,
    Reason,
    Relation,
    Row,
    Rule,
    RuleFacts,
    Slot,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.frameworks import OM, named
from tests.support.rules import kind_of

METRICS: dict[str, float | int | bool | None] = {
    "cosine": 0.9999996,
    "max_abs_err": 0.001506,
    "acc_rel_err": 1.885325,
    "relative_euclidean_distance": 0.000334,
    "kl_minmax": 0.000001,
    "mean_target": 0.4231,
    "std_target": 0.7191,
    "mean_golden": 0.4229,
    "std_golden": 0.0009,
    "mean_abs_err": 0.00014,
    "rmse": 0.000279,
    "max_rel_err_masked": 1.0,
    "mean_rel_err_masked": 0.000921,
}


def figures(metrics: Mapping[str, Any] | None = None, **more: Any) -> Measurement:
    """What was measured: a good pair, but for what is given."""
    given = {"target": stats(), "golden": stats(), "count": 6, "backend": "numpy", **more}
    return Measurement.of(Mode.TENSOR, {**METRICS, **(metrics or {})}, **given)


@dataclass
class Op:
    """One device operator with its tensors.

    Args:
        name: in the rules.
        op_type: type.
        outputs, inputs: what became of each tensor: a measurement (paired), or a reason (one-sided); empty = no dump.
        originals: original operators; None for the operator's own name.
        facts: more of `Node.rules`.
        tensor: more of the target tensors.
        golden: more of the golden tensors.
        status: verdict.
    """

    name: str
    op_type: str = "Conv2D"
    outputs: Sequence[Measurement | Reason] = ()
    inputs: Sequence[Measurement | Reason] = ()
    originals: tuple[str, ...] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    tensor: Mapping[str, Any] = field(default_factory=dict)
    golden: Mapping[str, Any] = field(default_factory=dict)
    status: Status | None = None


def gap(code: str, text: str) -> Reason:
    return Reason(kind_of(code), text, Expectation.MISSING)


def offline(
    *groups: Op | Sequence[Op],
    is_ruled: bool = True,
    relation: Relation = Relation.ONE_TO_ONE,
    execution: Execution = Execution(),  # noqa: B008 - frozen
    golden_framework: str = "npy",
    **more: Any,
) -> Comparison:
    """Return the comparison of these groups, numbered from 0; ids of operators are numbered from 1."""
    rows: list[Row] = []
    nodes: dict[NodeKey, Node] = {}
    golden_nodes: dict[NodeKey, Node] = {}
    declared = []
    for index, group in enumerate(groups):
        ops = [group] if isinstance(group, Op) else list(group)
        for op in ops:
            key = NodeKey(execution, op.name)
            rules = RuleFacts(**{"op": op.name, "op_id": len(nodes) + 1, **op.facts}) if is_ruled else None
            originals = (op.name,) if op.originals is None else op.originals
            nodes[key] = Node(key, op.op_type, originals=originals if is_ruled else (), rules=rules)
            for role, made in ((SlotRole.INPUT, op.inputs), (SlotRole.OUTPUT, op.outputs)):
                for place, what in enumerate(made):
                    rows.append(_row(len(rows), op, key, Slot(role, (place,)), what, f"{index}"))
        declared.append(Group(f"{index}", relation, tuple(NodeKey(execution, op.name) for op in ops), ()))
    for row in rows:
        if row.pair.golden is not None:
            golden_nodes[row.pair.golden.node] = Node(row.pair.golden.node, "")
    attrs = more.pop("target_attrs", {})
    target = Catalog(
        "target",
        OM,
        "tensor",
        TARGET_ROOT,
        nodes,
        tuple(row.pair.target for row in rows if row.pair.target),
        attrs=attrs,
    )
    golden = Catalog(
        "golden", named(golden_framework), "tensor", GOLDEN_ROOT, golden_nodes,
        tuple(row.pair.golden for row in rows if row.pair.golden),
    )  # fmt: skip
    pairs = Pairs(target, golden, tuple(row.pair for row in rows), tuple(declared))
    return Comparison(
        pairs, tuple(rows), **{"findings": (), "coverage": {}, "gate": "findings", "gate_passed": True, **more}
    )


def _row(order: int, op: Op, key: NodeKey, slot: Slot, what: Measurement | Reason, group: str) -> Row:
    file = f"{TARGET_ROOT}/{op.op_type}.{op.name}.7.3.17"
    target = TensorRef.of(
        key, slot, TensorKind.TENSOR,
        **{"dtype": "float16", "layout": "NC1HWC0", "shape": (1, 1, 2, 2, 16), "logical_shape": (1, 3, 2, 2),
           "extents": (Extent(file, 0, 8),), "address": 4096, **op.tensor},
    )  # fmt: skip
    if isinstance(what, Reason):
        status = op.status or Status.UNMATCHED_TARGET
        return Row(Pair(target, None, group, Rule("none"), reason=what), None, Verdict(status), order)
    name = f"{op.name}.{slot.index}" if slot.role is SlotRole.OUTPUT else f"producer_{op.name}.{slot.index}"
    golden = TensorRef.of(
        NodeKey(Execution(), name.rpartition(".")[0]), Slot(SlotRole.OUTPUT, slot.path), TensorKind.TENSOR,
        **{"dtype": "float32", "shape": (1, 3, 2, 2), "logical_shape": (1, 3, 2, 2),
           "extents": (Extent(f"{GOLDEN_ROOT}/{name}.17.npy", 0, 8),), **op.golden},
    )  # fmt: skip
    return Row(Pair(target, golden, group, Rule("one_to_one")), what, Verdict(op.status or Status.PASS), order)
