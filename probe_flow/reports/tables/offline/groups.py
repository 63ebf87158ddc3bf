"""The rows of an offline result in its order: by fused group, by operator within it, operators without a dump too.

Operators are nodes of the target catalog, dumped or not. `Node.rules` has what the rules say of one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.records import Execution, Group, Node, NodeKey, Pair, Pairs, Relation, Row

SELECTED = "selected_ops"
"""Attribute of the target catalog, the ids of the operators that were chosen."""

DEVICE_ONLY = "*"
NOT_COMPUTED = "NaN"

_LAST_NUMBER = re.compile(r"(\d+)\D*$", re.ASCII)


class OfflineGroup(Struct):
    """One fused group of one execution.

    Args:
        index: its number in the table.
        relation: how many operators each side has.
        ops: device operators in the order of the rules, dumped or not; keys of a dictionary without values.
        chosen: those of them that were to be compared.
        rows: rows of the comparison that belong to it.
    """

    index: int
    relation: Relation | None = None
    ops: dict[NodeKey, None] = field(default_factory=dict)
    chosen: set[NodeKey] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)


class Operators:
    """What is known of the operators of both sides.

    Args:
        pairs: what the matcher decided.
        cleans_names: whether names are those of files where no rules tell the true ones.
    """

    def __init__(self, pairs: Pairs, *, cleans_names: bool = False) -> None:
        self._nodes = pairs.target.nodes
        self._golden = pairs.golden.nodes
        self._dumped = frozenset(tensor.node for tensor in pairs.target.tensors)
        ids = pairs.target.attrs.get(SELECTED)
        self._chosen = frozenset(ids) if isinstance(ids, Collection) else None
        self.is_selection = self._chosen is not None
        self.is_ruled = any(node.rules is not None for node in self._nodes.values())
        self._cleans_names = cleans_names and not self.is_ruled
        self._named: tuple[OfflineGroup, tuple[str, ...], tuple[str, ...]] | None = None

    def is_dumped(self, key: NodeKey) -> bool:
        """Say whether the target dump has a file of the operator."""
        return key in self._dumped

    def name(self, key: NodeKey) -> str:
        """Return the operator's name in the rules, else in the dump."""
        node = self._node(key)
        name = (node.rules.op or key.name) if node is not None and node.rules is not None else key.name
        return clean_name(name) if self._cleans_names else name

    def op_type(self, key: NodeKey) -> str:
        """Return the type of an operator, empty when unknown."""
        node = self._node(key)
        return node.op_type if node is not None else ""

    def op_id(self, key: NodeKey) -> int | None:
        """Return the operator's place in the order of execution, None when no rule says it."""
        node = self._nodes.get(key)
        rules = node.rules if node is not None else None
        return rules.op_id if rules is not None and rules.op_id >= 0 else None

    def is_inner(self, key: NodeKey) -> bool:
        """Return True if an operator carries no original output of its group."""
        node = self._nodes.get(key)
        return node is not None and node.rules is not None and node.rules.is_inner

    def is_filtered(self, key: NodeKey) -> bool:
        """Return True if only the quantised model has an operator."""
        node = self._nodes.get(key)
        return node is not None and node.rules is not None and node.rules.is_filtered

    def is_chosen(self, key: NodeKey) -> bool:
        """Say whether an operator was to be compared; all are where none were chosen."""
        return self._chosen is None or self.op_id(key) in self._chosen

    def originals(self, group: OfflineGroup) -> tuple[str, ...]:
        """Return the original operators of a group, each once; without rules those that it was compared with."""
        return self._names(group)[1]

    def names(self, group: OfflineGroup) -> tuple[str, ...]:
        """Return the names of the device operators of a group, each once."""
        return self._names(group)[0]

    def _names(self, group: OfflineGroup) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return names and originals; every row of a group asks for them, one group after the other."""
        if self._named is None or self._named[0] is not group:
            self._named = group, tuple(dict.fromkeys(map(self.name, group.ops))), self._find_originals(group)
        return self._named[1:]

    def _find_originals(self, group: OfflineGroup) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for key in group.ops:
            node = self._nodes.get(key)
            found.update(dict.fromkeys(node.originals if node is not None else ()))
        found.pop("", None)
        if not found and not self.is_ruled:
            golden = (row.pair.golden for row in group.rows)
            found = dict.fromkeys(self.name(tensor.node) for tensor in golden if tensor is not None)
        return tuple(found)

    def _node(self, key: NodeKey) -> Node | None:
        return self._nodes.get(key) or self._golden.get(key)


def with_ground_truth(rows: Sequence[Row]) -> list[Row]:
    """Return the rows as published tables know them: another tensor of the target is no ground truth of a row."""
    return [
        replace(row, pair=replace(row.pair, golden=None, reason=None), measurement=None)
        if row.pair.rule.is_self
        else row
        for row in rows
    ]


def offline_groups(pairs: Pairs, rows: Sequence[Row], operators: Operators) -> list[OfflineGroup]:
    """Return the groups that the rows belong to, and those of the same executions without any row, by index.

    Rows of operators that were not selected are left out; those of the golden alone stand in the group of the
    operator that they would have been compared with, else in one of their own at the end.
    """
    executions = _executions(rows) or {key.execution for key in pairs.target.nodes}
    homes = _golden_homes(rows)
    found: dict[tuple[Execution, str], OfflineGroup] = {}
    for group in pairs.all_groups():
        for execution in _of_group(group, homes):
            if execution in executions or not group.target_nodes:
                ops = dict.fromkeys(key for key in group.target_nodes if key.execution == execution)
                index = _index(group.id, len(found))
                chosen = set(filter(operators.is_chosen, ops))
                found[execution, group.id] = OfflineGroup(index, group.relation, ops, chosen)
    last = max((group.index for group in found.values()), default=-1)
    for row in rows:
        if row.pair.reason is not None and row.pair.reason.kind.is_unselected:
            continue
        last = _add(row, found, homes, last)
    kept = [each for each in found.values() if each.chosen or each.rows]
    for each in kept:
        _sort(each)
    return sorted(kept, key=lambda each: each.index)


def clean_name(name: str) -> str:
    """Return the name of an operator as file names have it."""
    return name.replace("/", "_").replace(".", "_")


def target_rows(group: OfflineGroup) -> list[Row]:
    """Return the rows that the target has a tensor in."""
    return [row for row in group.rows if row.pair.target is not None]


def tensor_name(pair: Pair, operators: Operators) -> str:
    """Return the name of a pair's tensor as ``conv1:input:0``."""
    shown = pair.shown
    return f"{operators.name(shown.node)}:{shown.slot.role.value}:{shown.slot.index}"


def target_names(group: OfflineGroup, operators: Operators) -> str:
    """Return the device operators of a group, ``*`` when it has none."""
    return ",".join(operators.names(group)) or DEVICE_ONLY


def golden_names(group: OfflineGroup, operators: Operators) -> str:
    """Return the original operators of a group, ``*`` for those that only the device has."""
    return ",".join(operators.originals(group)) or DEVICE_ONLY


def _executions(rows: Iterable[Row]) -> set[Execution]:
    return {row.pair.target.node.execution for row in rows if row.pair.target is not None}


def _golden_homes(rows: Iterable[Row]) -> Mapping[Execution, Execution]:
    """Return the execution of the target that each one of the golden was compared with."""
    homes: dict[Execution, Execution] = {}
    for row in rows:
        if row.pair.target is not None and row.pair.golden is not None:
            homes.setdefault(row.pair.golden.node.execution, row.pair.target.node.execution)
    return homes


def _of_group(group: Group, homes: Mapping[Execution, Execution]) -> Iterator[Execution]:
    if group.target_nodes:
        yield from dict.fromkeys(key.execution for key in group.target_nodes)
    else:
        yield from dict.fromkeys(homes.get(key.execution, key.execution) for key in group.golden_nodes)


def _index(group: str, default: int) -> int:
    found = _LAST_NUMBER.search(group)
    return int(found[1]) if found else default


def _add(
    row: Row,
    found: dict[tuple[Execution, str], OfflineGroup],
    homes: Mapping[Execution, Execution],
    last: int,
) -> int:
    """Put a row into its group, made when nothing declared it; return the highest index."""
    pair = row.pair
    execution = pair.shown.node.execution
    if pair.target is None:
        execution = homes.get(execution, execution)
    group = found.get((execution, pair.group))
    if group is None:
        last = max(last + 1, 0)
        group = found[execution, pair.group] = OfflineGroup(last)
    if pair.target is not None and pair.target.node not in group.ops:
        group.ops[pair.target.node] = None
        group.chosen.add(pair.target.node)
    group.rows.append(row)
    return last


def _sort(group: OfflineGroup) -> None:
    """Order rows as the rules order the operators, those of the golden alone last; inputs stay before outputs."""
    places = {key: place for place, key in enumerate(group.ops)}
    group.rows.sort(
        key=lambda row: places[row.pair.target.node] if row.pair.target is not None else len(places),
    )
