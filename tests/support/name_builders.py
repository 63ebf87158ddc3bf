"""Hand-made catalogs of dump.json dumps, and what tests ask of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumps.dump_json.names import parse_entry_name
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import CODES
from probe_flow.records import (
    CallFacts,
    Catalog,
    Execution,
    Node,
    NodeKey,
    Pairs,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
    entry_name,
)
from probe_flow.records.frameworks import named

DATA = Path(__file__).parents[1] / "data" / "dump_json"
ONLY = Execution(step=0)


def catalog(
    entries: Sequence[str],
    *,
    parents: Mapping[str, str] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    runs: Sequence[Execution] = (ONLY,),
    tensors: Sequence[TensorRef] = (),
    **more: Any,
) -> Catalog:
    """A dump with one output per entry, the same in each execution."""
    nodes: dict[NodeKey, Node] = {}
    refs: list[TensorRef] = []
    for run in runs:
        for order, entry in enumerate(entries):
            name = parse_entry_name(entry)
            assert name is not None
            key = NodeKey(run, name.name, name.call, name.phase)
            caller = (parents or {}).get(entry)
            parsed = parse_entry_name(caller) if caller else None
            facts = CallFacts(name.kind, caller, entry=None if entry == entry_name(key, name.kind) else entry)
            nodes[key] = Node(key, name.op_type, parent=parsed.name if parsed else caller, order=order, facts=facts)
            shape = (shapes or {}).get(entry, (2,))
            mine = [ref for ref in tensors if ref.node == key]
            refs += mine or [ref_of(key, shape=shape, logical_shape=shape)]
    return Catalog(
        side="x", framework=named(more.pop("framework", "pytorch")), task="statistics", root=more.pop("root", ""),
        nodes=nodes, tensors=tuple(refs), **more,
    )  # fmt: skip


def ref_of(key: NodeKey, slot: Slot | None = None, **more: Any) -> TensorRef:
    fields: dict[str, Any] = {
        "kind": TensorKind.STATISTICS,
        "dtype": "float32",
        "stored_dtype": "torch.float32",
        **more,
    }
    return TensorRef.of(key, slot or Slot(SlotRole.OUTPUT), **fields)


def entry_pairs(pairs: Pairs) -> list[tuple[str | None, str | None]]:
    """Entry names of each pair, in order, without repetition."""

    def name(side: Catalog, ref: TensorRef | None) -> str | None:
        return None if ref is None else str(side.nodes[ref.node].entry)

    return list(dict.fromkeys((name(pairs.target, p.target), name(pairs.golden, p.golden)) for p in pairs.pairs))


def assert_complete(pairs: Pairs) -> None:
    """Every tensor of both sides once, one-sided pairs with a reason."""
    for side, attribute in ((pairs.target, "target"), (pairs.golden, "golden")):
        seen = Counter(id(getattr(pair, attribute)) for pair in pairs.pairs if getattr(pair, attribute) is not None)
        assert seen == Counter(id(ref) for ref in side.tensors)
    assert all(pair.reason for pair in pairs.pairs if pair.target is None or pair.golden is None)
    groups = pairs.all_groups()
    assert len({group.id for group in groups}) == len(groups)
    assert {pair.group for pair in pairs.pairs} <= {group.id for group in groups}
    assert {problem.code for problem in pairs.problems} <= set(CODES)


def read(name: str, side: str = "target") -> Catalog:
    return read_dump_json(DATA / name, side=side)


def item_pairs(pairs: Pairs) -> dict[str, str | None]:
    """Item name of each target tensor -> item name of its partner."""
    found: dict[str, str | None] = {}
    for pair in pairs.pairs:
        if pair.target is not None:
            found[str(pair.target.item)] = str(pair.golden.item) if pair.golden is not None else None
    return found
