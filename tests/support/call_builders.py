"""Calls of a dump.json, and rows of the statistics that it records of them."""

from __future__ import annotations

from typing import Any

from report_builders import measurement, row, tensor

from probe_flow.records import (
    CallFacts,
    Execution,
    Mode,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    Role,
    Row,
    SlotRole,
    TensorKind,
)


def node(name: str, kind: str, *, phase: Phase = Phase.FORWARD, above: str | None = None, **more: Any) -> Node:
    """One entry of a dump.json; ``above`` is the entry that called it."""
    own = NodeKey(more.pop("execution", Execution(0, 0)), name, more.pop("call", 0), phase)
    return Node(own, name.rpartition(".")[2], facts=CallFacts(NodeKind(kind), above), **more)


def compared(place: int, owner: Node, direction: SlotRole, index: int | str = 0, **more: Any) -> Row:
    """A row of recorded statistics."""
    error = more.pop("error", 0.0)
    metrics = {"l2norm_diff": 3 * error, "l2norm_diff_rel": error, "max_diff": error, "max_diff_rel": error / 2}
    mode, metrics = more.pop("mode", Mode.STATISTICS), more.pop("metrics", metrics)
    given = {"role": direction, "path": (index,), "node": owner.key, "kind": TensorKind.STATISTICS}
    sides = {
        side: tensor(side=side, file="dump.json", **(given | more.pop(f"{side}_more", {})))
        for side in ("target", "golden")
    }
    return row(place, **sides, measured=measurement(metrics, mode=mode), **({"role": Role.CLEAN} | more))
