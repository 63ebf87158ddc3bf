"""Small hand-built comparisons for the tests of result files."""

from __future__ import annotations

from typing import Any

from probe_flow.records import (
    CallFacts,
    Catalog,
    Comparison,
    Expectation,
    Extent,
    Finding,
    FindingKind,
    Group,
    Measurement,
    Node,
    NodeKey,
    NodeKind,
    Pair,
    Pairs,
    Reason,
    Relation,
    Role,
    Row,
    Slot,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.frameworks import TORCHAIR_FX, TORCHAIR_GE
from probe_flow.testing import builders
from probe_flow.testing.builders import key
from tests.support.rules import kind_of, rule_of

TARGET_ROOT = "/dumps/npu"
GOLDEN_ROOT = "/dumps/fx"
stats = builders.statistics


def tensor(
    name: str = "Add_1",
    *,
    side: str = "target",
    role: SlotRole = SlotRole.OUTPUT,
    path: tuple[int | str, ...] = (0,),
    shape: tuple[int, ...] | None = (2, 2),
    file: str | None = None,
    kind: TensorKind = TensorKind.TENSOR,
    node: NodeKey | None = None,
    **more: Any,
) -> TensorRef:
    """A float16 device tensor of the target, or a float32 npy tensor of the golden."""
    root = TARGET_ROOT if side == "target" else GOLDEN_ROOT
    default = f"AddV2.{name}.1.2.1706596912161941" if side == "target" else f"{name}.OUTPUT.0.npy"
    path_of_file = f"{root}/{file or default}"
    facts = {"dtype": "float16" if side == "target" else "float32", "source": path_of_file, **more}
    if kind is TensorKind.TENSOR:
        facts.setdefault("extents", (Extent(path_of_file, 0, 8),))
    return builders.tensor(node or name, role, path, shape=shape, kind=kind, **facts)


GOOD_METRICS: dict[str, float | int | None] = {
    "cosine": 0.99995123456,
    "euclidean_distance": 0.25,
    "relative_euclidean_distance": 0.001,
    "max_abs_err": 0.0999999046325684,
    "max_rel_err_eps": 0.00333333015441894,
    "err_ratio_1e3": 0.5,
    "err_ratio_5e3": 0.75,
}


def measurement(metrics: dict[str, Any] | None = None, **more: Any) -> Measurement:
    return builders.measurement(GOOD_METRICS if metrics is None else metrics, **more)


def row(
    order: int = 0,
    *,
    target: TensorRef | None = None,
    golden: TensorRef | None = None,
    measured: Measurement | None = None,
    status: Status = Status.PASS,
    role: Role = Role.CLEAN,
    reasons: tuple[str, ...] = (),
    rule_ids: tuple[str, ...] = (),
    reason: Reason | None = None,
    rule: str = "exact",
    group: str = "g0",
    confidence: float = 1.0,
) -> Row:
    pair = Pair.on_terms(target, golden, group, rule_of(rule), reason=reason, confidence=confidence)
    return Row(pair, measured, Verdict(status, rule_ids, reasons, role), order)


def good_row(order: int = 0, name: str = "Add_1", **more: Any) -> Row:
    given = {"target": tensor(name), "golden": tensor("add_1", side="golden"), "measured": measurement(), **more}
    return row(order, **given)


def missing_golden(order: int = 0, name: str = "Mul_9", *, expected: bool = False) -> Row:
    expectation = Expectation.EXPECTED if expected else Expectation.MISSING
    reason = Reason(kind_of("no_golden_op"), f"no golden operator corresponds to `{name}`", expectation)
    return row(order, target=tensor(name), status=Status.UNMATCHED_TARGET, reason=reason, rule="none")


def missing_target(order: int = 0, name: str = "sub_3") -> Row:
    reason = Reason(kind_of("fused"), f"`{name}` is part of a fused operator", Expectation.EXPECTED)
    golden = tensor(name, side="golden")
    return row(order, golden=golden, status=Status.UNMATCHED_GOLDEN, reason=reason, rule="none")


def comparison(*rows: Row, **more: Any) -> Comparison:
    """A comparison of these rows; its catalogs hold the rows' own tensors."""
    catalogs = {"target": more.pop("target", None), "golden": more.pop("golden", None)}
    for side in catalogs:
        catalogs[side] = catalogs[side] or catalog(side, [getattr(each.pair, side) for each in rows])
    groups = more.pop("groups", (Group("g0", Relation.ONE_TO_ONE, (), ()),))
    pairs = Pairs(catalogs["target"], catalogs["golden"], tuple(each.pair for each in rows), groups)
    return builders.comparison(*rows, pairs=pairs, **more)


def catalog(side: str, tensors: list[TensorRef | None], **more: Any) -> Catalog:
    facts = {
        "op_type": "AddV2" if side == "target" else "aten.add.Tensor",
        "root": TARGET_ROOT if side == "target" else GOLDEN_ROOT,
        "framework": TORCHAIR_GE if side == "target" else TORCHAIR_FX,
        **more,
    }
    return builders.catalog([each for each in tensors if each is not None], side=side, **facts)


def call_comparison(*rows: Row, **more: Any) -> Comparison:
    """A comparison of these rows, whose nodes are calls of APIs: their entries are named ``Add_1.2.forward``."""
    sides = {}
    for side in ("target", "golden"):
        tensors = [found for each in rows if (found := getattr(each.pair, side)) is not None]
        facts = CallFacts(NodeKind.API)
        nodes = {each.node: Node(each.node, "AddV2", order=n, facts=facts) for n, each in enumerate(tensors)}
        sides[side] = catalog(side, tensors, nodes=nodes)
    return comparison(*rows, **sides, **more)


def origin(order: int, name: str, *, kind: FindingKind = FindingKind.ORIGIN, **more: Any) -> Finding:
    return Finding(
        **{
            "kind": kind,
            "node": key(name),
            "slot": Slot(SlotRole.OUTPUT, (0,)),
            "evidence": "inputs agree (2.1e-4), output differs (8.0e-2, 390 times what its inputs explain)",
            "severity": 390.0,
            "size": "390 x rounding",
            "row": order,
            "metrics": {"relative_euclidean_distance": 0.08, "cosine": 0.9871},
            **more,
        }
    )
