"""Where NaN or infinity begins, as the JSON file that readers of msprobe's overflow check know.

``{"rank_1": [{"op_name", "data_info", "construct_info", "stack_info"}]}``: entries as the dump has them, NaN and
infinities as bare words as there, indented by two. msprobe ends at the first; here every call in which a NaN or
infinity begins is listed, by rank, in the order of time. Keys of ours that msprobe does not have: ``step`` where a dump
has several; in ``data_info`` ``parameters``, where a weight is what is not finite, and ``parameters_grad``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from probe_flow.dumps.dump_json.raw_entries import raw_entries
from probe_flow.errors import ProbeFlowError
from probe_flow.files.atomic import atomic_text
from probe_flow.record.rows import TensorsByNode, stack_of
from probe_flow.records import (
    Catalog,
    Comparison,
    Execution,
    Finding,
    FindingKind,
    NodeKey,
    NodeKind,
    Phase,
    SlotRole,
    TensorRef,
)
from probe_flow.relations.call_tree import call_trees

_WRITTEN = frozenset((SlotRole.OUTPUT, SlotRole.DEBUG))


def begins(comparison: Comparison) -> list[Finding]:
    """Return the findings of NaN or infinity that begins at a call and counts for the gate, in the order of time."""
    return [
        finding
        for finding in comparison.findings
        if finding.kind is FindingKind.NONFINITE_ORIGIN and finding.fails and finding.node is not None
    ]


def write_anomalies(found: Sequence[Finding], comparison: Comparison, path: Path) -> None:
    """Write one entry for each finding; a program without ranks is rank 0.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    catalog = comparison.pairs.target
    nodes = {finding.node: finding for finding in found if finding.node is not None}
    entries = _entries(catalog, nodes)
    has_steps = len({execution.step for execution in catalog.executions}) > 1
    callers = _callers(catalog, nodes)
    tensors = TensorsByNode(catalog.tensors)
    content: defaultdict[str, list[object]] = defaultdict(list)
    for key, finding in nodes.items():
        raw = entries.get(key)
        shown = _recorded(list(tensors.of(key))) if raw is None else _shown(raw, key, catalog, finding)
        value: dict[str, object] = {
            "op_name": _name(catalog, key),
            "data_info": shown,
            "construct_info": callers[key],
            "stack_info": list(stack_of(catalog, key)) or {},
        }
        if has_steps:
            value["step"] = key.execution.step
        content[f"rank_{key.execution.rank or 0}"].append(value)
    with atomic_text(path) as file:
        json.dump(content, file, indent=2)


def _name(catalog: Catalog, key: NodeKey) -> str:
    node = catalog.nodes.get(key)
    return (node.entry if node is not None else None) or key.name


def _callers(catalog: Catalog, nodes: Mapping[NodeKey, Finding]) -> dict[NodeKey, list[str]]:
    """Return the entries of the calls around each node, the outermost first, and its own."""
    found = {}
    trees = dict(call_trees(catalog))
    for key in nodes:
        tree = trees[key.execution]
        around = [tree.calls[number] for number in tree.around(tree.numbers[key])]
        found[key] = [*(call.entry or call.key.name for call in reversed(around)), _name(catalog, key)]
    return found


def _entries(catalog: Catalog, nodes: Mapping[NodeKey, Finding]) -> dict[NodeKey, Mapping[str, object]]:
    """Return the entries of some nodes as their dump.json has them; none where the dump is gone, or of another kind."""
    if catalog.attrs.get("format") != "dump_json":
        return {}
    wanted: defaultdict[Execution, dict[str, NodeKey]] = defaultdict(dict)
    for key in nodes:
        wanted[key.execution][_name(catalog, key)] = key
    found: dict[NodeKey, Mapping[str, object]] = {}
    for execution, names in wanted.items():
        try:
            read = {name: value for name, value in raw_entries(catalog, execution) if name in names}
        except (ProbeFlowError, OSError):
            continue
        found |= {names[name]: value for name, value in read.items() if isinstance(value, dict)}
    return found


def _shown(raw: Mapping[str, object], key: NodeKey, catalog: Catalog, finding: Finding) -> Mapping[str, object]:
    """Return the parts of an entry that are shown: those that msprobe shows, and what holds the NaN."""
    node = catalog.nodes.get(key)
    if node is not None and node.kind is NodeKind.PARAMETERS_GRAD:
        return {"parameters_grad": raw}
    if key.phase is not Phase.FORWARD:
        return {"input": raw.get("input", []), "output": raw.get("output", {})}
    shown = {
        "input_args": raw.get("input_args", []),
        "input_kwargs": raw.get("input_kwargs", {}),
        "output": raw.get("output", {}),
    }
    if finding.slot is not None and finding.slot.role is SlotRole.PARAMETER:
        shown["parameters"] = raw.get("parameters", {})
    return shown


def _recorded(tensors: Sequence[TensorRef]) -> Mapping[str, object]:
    """Return what a dump of another kind, or one that is gone, says of the tensors of a node."""
    read = [_item(tensor) for tensor in tensors if tensor.slot.role not in _WRITTEN]
    return {
        "input_args": read,
        "input_kwargs": {},
        "output": [_item(tensor) for tensor in tensors if tensor.slot.role in _WRITTEN],
    }


def _item(tensor: TensorRef) -> dict[str, object]:
    known = tensor.recorded
    item: dict[str, object] = {"dtype": tensor.stored_dtype, "shape": list(tensor.shape or ())}
    if known is not None:
        item |= {"Max": known.max, "Min": known.min, "Mean": known.mean, "Norm": known.l2norm}
    return item if tensor.value is None else {**item, "value": str(tensor.value)}
