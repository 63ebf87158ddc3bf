"""What every result file says of one row in the same words (file names, statistics, reasons), and a node's tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, count

from probe_flow.records import (
    Catalog,
    Comparison,
    Expectation,
    Node,
    NodeKey,
    Pairs,
    Relation,
    Row,
    SideSummary,
    Status,
    TensorRef,
    shared_numbers,
)


class TensorsByNode:
    """The tensors of each node. Those of one follow each other in nearly all catalogs; then where they begin is enough.

    Args:
        tensors: of a catalog.
    """

    def __init__(self, tensors: Sequence[TensorRef]) -> None:
        self._tensors = tensors
        self._begins, are_together = _begins(tensors)
        if not are_together:
            self._tensors = sorted(tensors, key=lambda tensor: self._begins[tensor.node])
            self._begins, _ = _begins(self._tensors)

    def of(self, node: NodeKey) -> Iterator[TensorRef]:
        """Yield the tensors of a node in their order."""
        tensors = self._tensors
        for number in range(self._begins.get(node, len(tensors)), len(tensors)):
            tensor = tensors[number]
            if tensor.node is not node and tensor.node != node:
                return
            yield tensor


def _begins(tensors: Sequence[TensorRef]) -> tuple[dict[NodeKey, int], bool]:
    """Return where the first tensor of each node is, and whether the others of it follow that."""
    found: dict[NodeKey, int] = {}
    node: NodeKey | None = None
    are_together = True
    numbers = chain(shared_numbers(0), count(len(shared_numbers(0))))  # as far as there are some already
    for number, tensor in zip(numbers, tensors, strict=False):
        if tensor.node is not node and tensor.node != node:
            node = tensor.node
            are_together &= found.setdefault(node, number) == number
    return found, are_together


class RowReader:
    """Looks up what a comparison knows of its rows.

    Args:
        comparison: the comparison.
    """

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._target = pairs.target
        self._golden = pairs.golden
        catalogs = (pairs.target, pairs.golden, pairs.reference)
        roots = {catalog.root.rstrip("/") + "/" for catalog in catalogs if catalog is not None and catalog.root}
        # The longest root first: one dump may lie inside the other.
        self._roots = tuple(sorted(roots, key=lambda root: (-len(root), root)))
        self._self_groups = frozenset(group.id for group in pairs.groups if group.relation is Relation.SELF)
        self._has_stacks = bool(self._target.stacks or self._golden.stacks)

    def golden_catalog(self, row: Row) -> Catalog:
        """Return the catalog of the row's golden tensor: the target's own for pairs within one side."""
        pair, groups = row.pair, self._self_groups
        is_self = pair.target is not None and (pair.rule.is_self or bool(groups and pair.group in groups))
        return self._target if is_self else self._golden

    def node(self, row: Row) -> Node | None:
        """Return the node that names the row: the target's, else the golden's."""
        catalog = self._target if row.pair.target is not None else self._golden
        return catalog.nodes.get(row.pair.shown.node)

    def op_type(self, row: Row) -> str:
        """Return the type of the row's node, empty when unknown."""
        node = self.node(row)
        return node.op_type if node else ""

    def stack(self, row: Row) -> tuple[str, ...]:
        """Return the source frames of the row's node, innermost first; those of the golden node when it has none."""
        if not self._has_stacks:
            return ()
        sides = ((self._target, row.pair.target), (self.golden_catalog(row), row.pair.golden))
        for catalog, tensor in sides:
            frames = stack_of(catalog, tensor.node) if tensor is not None else ()
            if frames:
                return frames
        return ()

    def file(self, tensor: TensorRef) -> str | None:
        """Return the file of a tensor relative to its dump, None when it has none."""
        path = tensor.holder
        return None if path is None else self.relative(path)

    def relative(self, path: str) -> str:
        """Return `path` relative to the dump that holds it; only its last part when no dump does."""
        for root in self._roots:
            if path.startswith(root):
                return path[len(root) :]
        return path.rsplit("/", 1)[-1] if path.startswith("/") else path


def name_in_dump(node: Node | None, key: NodeKey) -> str:
    """Return what a node's entry is called in its dump, e.g. ``Functional.conv2d.2.forward``.

    Formats that name calls and directions apart, as device dumps do, have no other name than that of the key.
    """
    return (node.entry if node is not None else None) or key.name


_FRAME = re.compile(r'File "?(?P<file>[^",\n]+)"?, line (?P<line>\d{1,9})\b')
_LIBRARY = ("site-packages/", "dist-packages/", "<")


def source_line(pairs: Pairs, key: NodeKey) -> tuple[str, int] | None:
    """Return file and line of the innermost frame of a node that is no library's, None where no dump tells."""
    for catalog in (pairs.target, pairs.golden):
        for frame in stack_of(catalog, key):
            match = _FRAME.search(frame)
            if match is not None and not any(word in match["file"] for word in _LIBRARY):
                return match["file"], int(match["line"])
    return None


def stack_of(catalog: Catalog, key: NodeKey) -> tuple[str, ...]:
    """Return the source frames of a node, innermost first; empty when the dump has none."""
    node = catalog.nodes.get(key)
    return catalog.stacks.get(node.stack_id, ()) if node is not None and node.stack_id is not None else ()


def checksum_of(tensor: TensorRef | None, summary: SideSummary | None) -> str | None:
    """Return a side's checksum: measured, else recorded in the dump."""
    if summary is not None and summary.checksum is not None:
        return summary.checksum
    return tensor.checksum if tensor is not None else None


def shape_of(tensor: TensorRef) -> tuple[int, ...] | None:
    """Return the shape that the framework means, or the stored one where nothing else is known."""
    return tensor.logical_shape if tensor.logical_shape is not None else tensor.shape


NOT_COMPARED = frozenset(
    {Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN, Status.NOT_COMPARABLE, Status.ERROR, Status.SKIPPED}
)


def gap_of(row: Row) -> Expectation | None:
    """Return what is to be thought of a row that was not compared; None for one that was."""
    if row.verdict.status not in NOT_COMPARED:
        return None
    if row.pair.reason is not None and row.verdict.status is not Status.ERROR:
        return row.pair.reason.expectation
    if row.verdict.status is Status.SKIPPED:
        return Expectation.OUTSIDE
    return Expectation.EXPECTED if row.pair.is_opaque else Expectation.MISSING


def reason_of(row: Row) -> str | None:
    """Return all that is to say about a row: the verdict's reasons, the matcher's, notes of the measurement."""
    found = _reasons(row)
    if len(found) < 2:  # nearly all rows
        return "".join(found) or None
    reasons: list[str] = []
    for reason in found:
        if not any(reason in said for said in reasons):
            reasons.append(reason)
    return "; ".join(reasons) or None


def _reasons(row: Row) -> list[str]:
    pair = row.pair
    found = list(row.reasons)
    if pair.reason is not None:
        found.append(pair.reason.text)
    if row.measurement is not None:
        found += row.measurement.notes
    found += [tensor.reason for tensor in (pair.target, pair.golden) if tensor is not None and tensor.reason]
    return found
