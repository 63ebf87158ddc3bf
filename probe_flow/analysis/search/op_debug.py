"""What overflow records say of a run: which operator overflowed first, in which unit, and from what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from probe_flow.analysis.number_types import MAX_HALF
from probe_flow.dumps.offline.overflow_run import Overflow, OverflowRun
from probe_flow.records import Catalog, Comparison, Finding, FindingKind, NodeKey, SlotRole
from probe_flow.records.row import Row


def with_overflows(comparison: Comparison, run: OverflowRun, rows: Sequence[Row]) -> Comparison:
    """Return a comparison, or an examination, that says first what overflowed; its gate then fails, whatever it found.

    Args:
        comparison: of the run that overflowed, or the examination of its dumps.
        run: its overflows, the first in time first.
        rows: of the examination, from which is told what the operators read.
    """
    known = {key.name: key for key in reversed(tuple(comparison.pairs.target.nodes))}
    first = {row.node: row.order for row in reversed(comparison.rows)}
    found = []
    for finding in _findings(run.overflows, run.catalog, rows):
        key = known.get(finding.node.name) if finding.node is not None else None
        found.append(replace(finding, node=key, row=first.get(key) if key is not None else None))
    is_same = comparison.pairs.target is run.catalog
    return replace(
        comparison,
        findings=(*found, *comparison.findings),
        gate_passed=comparison.gate_passed and not found,
        caveats=(*comparison.caveats, *(() if is_same else overflow_caveats(run.overflows))),
        incomplete=() if is_same and found and not run.catalog.nodes else comparison.incomplete,
        problems=comparison.problems if is_same else (*comparison.problems, *run.catalog.problems),
    )


def _findings(overflows: Sequence[Overflow], catalog: Catalog, rows: Sequence[Row]) -> tuple[Finding, ...]:
    of_node: dict[NodeKey, list[Row]] = defaultdict(list)
    for row in rows:
        of_node[row.pair.shown.node].append(row)
    return tuple(_finding(number, each, catalog, of_node) for number, each in enumerate(overflows))


def _finding(number: int, overflow: Overflow, catalog: Catalog, rows: dict[NodeKey, list[Row]]) -> Finding:
    key = overflow.node
    node = catalog.nodes.get(key) if key is not None else None
    ids = f"task {overflow.task_id}, stream {overflow.stream_id}"
    name = f"an operator without dump ({ids})"
    if key is not None and node is not None:
        name = f"`{key.name}` ({node.op_type})"
    order = "overflowed first" if number == 0 else f"overflowed as number {number + 1}"
    said = "; ".join(overflow.said)
    read = [text for row in rows.get(key, ()) if (text := _large(row)) is not None] if key is not None else []
    parts = [f"{name} {order}: {overflow.unit} status {said}", ids if node is not None else "", *read]
    evidence = ", ".join(filter(None, parts)) + f"; {_next_step(read, overflow)}"
    mine = rows.get(key, []) if key is not None else []
    return Finding(
        FindingKind.OVERFLOW,
        key,
        None,
        evidence,
        severity=1.0 / (number + 1),
        row=next((row.order for row in mine), None),
        size=said,
    )


def _next_step(read: Sequence[str], overflow: Overflow) -> str:
    if overflow.node is None:
        return "dump that operator too, and compare nothing before no overflow is left"
    cure = "look at what wrote that input" if read else "lower the loss scale, or keep the operator in float32"
    return f"{cure}, and compare nothing before no overflow is left"


def _large(row: Row) -> str | None:
    """Return what an input holds that float16 cannot, None where it holds nothing like that."""
    tensor, measured = row.pair.shown, row.measurement
    if tensor.slot.role is not SlotRole.INPUT or measured is None:
        return None
    if measured.metric("nan_count"):
        return f"its input {tensor.slot.index} holds NaN"
    if measured.metric("positive_inf_count") or measured.metric("negative_inf_count"):
        return f"its input {tensor.slot.index} holds infinity"
    side = measured.target
    ends = (side.statistics.min, side.statistics.max) if side is not None else ()
    largest = max((abs(float(end)) for end in ends if end is not None), default=0.0)
    return f"its input {tensor.slot.index} reaches {largest:.6g}, beyond {MAX_HALF:g}" if largest > MAX_HALF else None


def overflow_caveats(overflows: Sequence[Overflow]) -> tuple[str, ...]:
    """Return what to say beside the verdict of a comparison of a run that overflowed."""
    count = len(overflows)
    return (f"overflow in the run ({count} time{'s' if count > 1 else ''}): exclude it first",) if count else ()
