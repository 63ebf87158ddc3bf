"""Small catalogs, pairs and comparisons, made by hand. Every part has a default: a test names what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from probe_flow.records import (
    Catalog,
    Comparison,
    Coverage,
    Execution,
    Extent,
    Group,
    Measurement,
    Mode,
    Node,
    NodeKey,
    Pair,
    Pairs,
    ReasonKind,
    Relation,
    Role,
    Row,
    Rule,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.records.frameworks import Framework

FRAMEWORK = Framework("by_hand")
EXACT = Rule("exact")
NONE = Rule("none")
NO_PARTNER = ReasonKind("no_partner")

_NUMPY_TYPES: Mapping[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int4": ml_dtypes.int4,
}


class ArrayBlocks:
    """A tensor in memory, as the kernel reads tensors of files; what it reads cannot be written to."""

    def __init__(self, values: Any, dtype: str) -> None:
        with np.errstate(all="ignore"):
            array: NDArray[Any] = np.array(values, dtype=_NUMPY_TYPES.get(dtype) or np.dtype(dtype)).reshape(-1)
        array.flags.writeable = False
        self.array, self.dtype, self.numel = array, dtype, array.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements ``[start, stop)``, flat."""
        return self.array[start:stop]


def key(
    name: str = "a", *, rank: int | None = 0, step: int | None = 0, graph: int | str | None = 1, call: int = 0
) -> NodeKey:
    """Return the key of a node."""
    return NodeKey(Execution(rank, step, graph), name, call)


def tensor(
    node: NodeKey | str = "a",
    role: SlotRole = SlotRole.OUTPUT,
    path: tuple[int | str, ...] = (0,),
    *,
    shape: tuple[int, ...] | None = (2, 2),
    dtype: str = "float32",
    kind: TensorKind = TensorKind.TENSOR,
    **more: Any,
) -> TensorRef:
    """Return a tensor; one with elements says that they are in a file, which need not be there.

    Further keywords as in `TensorRef.of`.
    """
    owner = key(node) if isinstance(node, str) else node
    file = f"/dumps/{owner.name}.bin"
    found: dict[str, Any] = {"shape": shape, "logical_shape": shape, "source": file, **more}
    if kind is TensorKind.TENSOR:
        found.setdefault("extents", (Extent(file, 0, int(np.prod(shape or ())) * 4),))
    return TensorRef.of(owner, Slot(role, path), kind, dtype=dtype, **found)


def statistics(**values: Any) -> SideSummary:
    """Return the statistics of a side."""
    return SideSummary(
        Statistics(**{"min": -1.0, "max": 2.5, "mean": 0.5, "l2norm": 3.0, "nan": 0, "inf": 0, **values})
    )


def measurement(metrics: Mapping[str, Any] | None = None, **more: Any) -> Measurement:
    """Return what was measured of a pair that agrees well; further keywords as in `Measurement.of`."""
    given = {"cosine": 0.9999, "relative_euclidean_distance": 1e-3, "max_abs_err": 0.1}
    facts = {"target": statistics(), "golden": statistics(max=2.0), "count": 4, "backend": "numpy", **more}
    return Measurement.of(facts.pop("mode", Mode.TENSOR), given if metrics is None else metrics, **facts)


def row(
    target: TensorRef | None,
    golden: TensorRef | None,
    *,
    order: int = 0,
    measured: Measurement | None = None,
    status: Status | None = None,
    role: Role = Role.CLEAN,
    reasons: tuple[str, ...] = (),
) -> Row:
    """Return a row with its verdict: measured and passed if it has both sides, else unmatched with a reason."""
    if target is not None and golden is not None:
        found = measurement() if measured is None and status in (None, Status.PASS) else measured
        verdict = Verdict(status or Status.PASS, (), reasons, role)
        return Row(Pair(target, golden, "g", EXACT), found, verdict, order)
    unmatched = Status.UNMATCHED_GOLDEN if target is None else Status.UNMATCHED_TARGET
    reason = NO_PARTNER.missing("it has no partner")
    pair = Pair(target, golden, "g", NONE, reason=reason)
    return Row(pair, None, Verdict(status or unmatched, (), reasons, role), order)


def catalog(
    tensors: Iterable[TensorRef],
    *,
    side: str = "target",
    op_type: str = "Add",
    op_types: Mapping[str, str] = MappingProxyType({}),
    root: str = "/dumps",
    **more: Any,
) -> Catalog:
    """Return a catalog of these tensors; their nodes run in the order in which they come.

    Args:
        op_types: types of nodes that have another one than `op_type`, by their names.
        more: further fields of `Catalog`.
    """
    held = tuple({id(each): each for each in tensors}.values())
    keys = dict.fromkeys(each.node for each in held)
    nodes = {each: Node(each, op_types.get(each.name, op_type), order=number) for number, each in enumerate(keys)}
    facts = {"framework": FRAMEWORK, "task": "tensor", "nodes": nodes, **more}
    return Catalog(side=side, root=root, tensors=held, **facts)


def pairs_of(pairs: Sequence[Pair], **more: Any) -> Pairs:
    """Return pairs together with catalogs that hold just their tensors; further keywords as in `catalog`."""
    target = catalog([pair.target for pair in pairs if pair.target is not None], side="target", **more)
    golden = catalog([pair.golden for pair in pairs if pair.golden is not None], side="golden", **more)
    return Pairs(target, golden, tuple(pairs), (Group("g", Relation.ONE_TO_ONE, (), ()),))


def comparison(*rows: Row, pairs: Pairs | None = None, **more: Any) -> Comparison:
    """Return a comparison of these rows, by default with just their pairs.

    Further keywords are fields of `Comparison`.
    """
    count = len(rows)
    facts: dict[str, Any] = {
        "findings": (),
        "coverage": {side: Coverage(count, count) for side in ("target", "golden")},
        "gate": "findings",
        "gate_passed": True,
        "policy": "torchair",
        **more,
    }
    return Comparison(pairs or pairs_of([each.pair for each in rows]), rows, **facts)


HOSTILE = '=cmd|"x",\n<b>é\u2028'
"""A name that a table, a page or a spreadsheet program may trip over."""


def sample_comparisons() -> dict[str, Comparison]:
    """Return comparisons that every report has to show, by what they are about."""
    a, b = tensor("a"), tensor("b", SlotRole.INPUT)
    odd = measurement({"cosine": float("nan"), "max_abs_err": float("inf"), "relative_euclidean_distance": None})
    differs = row(tensor("a"), tensor("a"), measured=odd, status=Status.FAIL, role=Role.ORIGIN, reasons=("it differs",))
    hostile = row(tensor(HOSTILE), tensor(HOSTILE))
    keys = [key("a", rank=rank, step=step) for rank in (0, 1) for step in (0, 1)]
    several = [row(tensor(each), tensor(each), order=number) for number, each in enumerate(keys)]
    return {
        "nothing": comparison(),
        "one row that agrees": comparison(row(a, a)),
        "NaN, infinity and no value": comparison(differs),
        "rows of one side": comparison(row(a, None), row(None, b, order=1)),
        "a row that was not measured": comparison(row(a, a, status=Status.NOT_COMPARABLE, reasons=("shapes differ",))),
        "a hostile name": comparison(hostile),
        "several ranks and steps": comparison(*several),
    }
