"""Find nodes and tensors of one execution of an offline dump, whose names may be the true or the cleaned ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.selection import Selection, selected_nodes
from probe_flow.records import Catalog, Execution, Node, NodeKey, SlotRole, TensorRef

if TYPE_CHECKING:
    from typing_extensions import Self

_BATCH_COPY = re.compile(r"_ascend_mbatch_batch_[0-9]+$")
"""How the name of an operator ends in the copy of a graph for one of several batch sizes."""


class DumpIndex:
    """Nodes of one execution by name, and their tensors by role and number.

    Args:
        execution: of the dump.
        nodes: of this execution.
        tensors: of these nodes.
        selected: patterns of the names that were read; None = all.
    """

    def __init__(
        self,
        execution: Execution,
        nodes: Mapping[NodeKey, Node],
        tensors: Iterable[TensorRef],
        selected: Sequence[str] | None = None,
    ) -> None:
        self.execution = execution
        self._selected = None if selected is None else Selection(nodes=selected).node_filter()
        self.nodes = nodes
        self.tensors: dict[NodeKey, list[TensorRef]] = {key: [] for key in nodes}
        self._slots: dict[tuple[NodeKey, SlotRole, object], TensorRef] = {}
        for ref in tensors:
            self.tensors[ref.node].append(ref)
            if len(ref.slot.path) == 1:
                self._slots.setdefault((ref.node, ref.slot.role, ref.slot.path[0]), ref)
        self._by_name: dict[str, NodeKey] = {}
        self._by_clean_name: dict[str, NodeKey] = {}
        for key, node in self.nodes.items():
            self._by_name.setdefault(key.name, key)
            self._by_clean_name.setdefault(node.clean_name or safe_name(key.name), key)

    @classmethod
    def each_of(cls, catalog: Catalog) -> Iterator[Self]:
        """Yield the index of every execution of a dump, in order."""
        tensors, selected = catalog.tensors_by_execution(), selected_nodes(catalog)
        for execution, nodes in catalog.nodes_by_execution().items():
            yield cls(execution, nodes, tensors[execution], selected)

    def leaves_out(self, name: str) -> bool:
        """Return True for a node that was not asked for when the dump was read."""
        return self._selected is not None and not any(map(self._selected, (name, safe_name(name))))

    def node(self, name: str) -> NodeKey | None:
        """Return the node of this name; of this name in file names where no node has the true one."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        found = self._by_clean_name.get(safe_name(name))
        # A node whose header gives another true name is another operator that only looks the same in file names.
        is_other = found is not None and found.name not in (name, safe_name(name)) and safe_name(name) != name
        return None if is_other else found

    def last_of(self, names: Iterable[str]) -> str | None:
        """Return the name whose node ran last; None where one has no node, or several ran at the same time."""
        orders: dict[str, int] = {}
        for name in names:
            key = self.node(name)
            if key is None:
                return None
            orders[name] = self.nodes[key].order
        found = sorted(orders, key=orders.__getitem__)[-2:]
        return found[-1] if orders[found[0]] != orders[found[-1]] else None

    def same_node(self, key: NodeKey) -> NodeKey | None:
        """Return the node of the same name and call as one of another dump."""
        found = self.node(key.name)
        if found is None or key.call == found.call:
            return found
        same = NodeKey(self.execution, found.name, key.call, key.phase)
        return same if same in self.nodes else None

    def tensor(self, name: str, role: SlotRole, index: object) -> TensorRef | None:
        """Return a tensor of a node."""
        key = self.node(name)
        return None if key is None else self._slots.get((key, role, index))

    def output(self, name: str, index: int) -> TensorRef | None:
        """Return output number ``index`` of a node."""
        return self.tensor(name, SlotRole.OUTPUT, index)

    def of(self, key: NodeKey, role: SlotRole) -> list[TensorRef]:
        """Return the tensors of a node in one role, by number."""
        return [ref for ref in self.tensors.get(key, ()) if ref.slot.role is role]

    def names(self) -> Iterable[str]:
        """Return the names of the nodes."""
        return self._by_name


class GoldenIndex(DumpIndex):
    """The same of a golden side, which may have one operator for several of the target's.

    A model for several batch sizes holds its graph once for each, the original model once for all.
    """

    def take_last_calls(self) -> None:
        """Let names mean the last call of an operator: of the turns of a loop a device's newest file is the last."""
        self._by_name = {key.name: key for key in self.nodes}
        self._by_clean_name = {node.clean_name or safe_name(key.name): key for key, node in self.nodes.items()}

    def node(self, name: str) -> NodeKey | None:
        """Return the node of this name, or of the name before the graph was copied."""
        found = super().node(name)
        plain = _BATCH_COPY.sub("", name)
        return found if found is not None or plain == name else super().node(plain)
