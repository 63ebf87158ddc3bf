"""Answers to questions about a stored run, as lines of text: thresholds, what was not matched, the origin."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from probe_flow.record.facts import role_word
from probe_flow.record.places import (
    Place,
    entry_title,
    execution,
    figure,
    in_dump,
    operator,
    printable,
    readable,
    sentence_place,
    slot,
    where,
    with_entry,
)
from probe_flow.record.same_places import same_places
from probe_flow.record.text_table import text_table
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.records import Role
from probe_flow.runs.queries.base import placed
from probe_flow.runs.queries.rows import OriginAnswer, UnmatchedAnswer
from probe_flow.runs.queries.stored_nodes import StoredNodes
from probe_flow.runs.queries.threshold import NodeValues, Part, ThresholdAnswer
from probe_flow.runs.row_table import row_table


def counted_lines(nodes: StoredNodes) -> Iterator[str]:
    """Yield a table of types and their counts for each side, the most frequent first."""
    for side in dict.fromkeys(node.side for node in nodes):
        counts = Counter(node.op_type or "unknown" for node in nodes if node.side == side)
        yield f"{side}: {counts.total()} nodes"
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from text_table(
            ("type", "count"), [(printable(name), str(count)) for name, count in ranked], right=("count",)
        )


def listed_lines(nodes: StoredNodes, *, op_type: str, name: str, fusion: str, kernel: str) -> Iterator[str]:
    """Yield ``[type][pass] name`` of the nodes that hold every given part, in the order of execution."""
    found = 0
    for node in nodes:
        passes = ",".join(node.passes)
        if op_type in node.op_type and name in node.title and fusion in passes and kernel in node.kernel:
            found += 1
            at = ", ".join(part for part in (node.side, execution(placed(node.known, node.name, node.op_type))) if part)
            yield f"[{printable(node.op_type)}][{printable(passes)}] {printable(node.title)}  ({at})"
    yield f"{found} nodes"


_MAX_VALUES = 4
_MAX_FINDINGS = 10
_MAX_REASON = 100

_MEANING = {
    Part.SUSPECT: "every input that can be compared is on the good side, an output is not",
    Part.INHERITED: "an input is beyond the threshold already, or the analysis found the error upstream",
    Part.INPUTS_ONLY: "the inputs are, the outputs are not",
    Part.UNKNOWN: "no input can be compared",
}


def threshold_lines(answer: ThresholdAnswer) -> Iterator[str]:
    """Yield what is beyond a threshold, in execution order, and below it what cannot be judged."""
    threshold = answer.threshold
    counts = ", ".join(f"{answer.counts[part]} {part.value}" for part in Part if answer.counts[part])
    yield f"{answer.found} of {answer.checked} nodes have {threshold}" + (f": {counts}" if counts else "")
    if answer.nodes:
        yield ""
        columns = ("", "role", _node_title(node for node, _ in answer.nodes), "where", "inputs", "outputs")
        yield from text_table(columns, [_threshold_cells(node, part.value) for node, part in answer.nodes])
        yield from _more(len(answer.nodes), answer.found)
        yield ""
        shown = {part for _, part in answer.nodes}
        yield from (f"  {part.value}: {meaning}" for part, meaning in _MEANING.items() if part in shown)
    if answer.unknown_count:
        yield ""
        nodes = "1 node" if answer.unknown_count == 1 else f"{answer.unknown_count} nodes"
        yield f"{nodes} cannot be judged: {threshold.metric} is NaN or not computable"
        yield ""
        header = (_node_title(answer.unknown), "where", "outputs", "reason")
        yield from text_table(header, [_unknown_cells(node) for node in answer.unknown])
        yield from _more(len(answer.unknown), answer.unknown_count)
    if answer.alone:
        yield ""
        yield f"{answer.alone} rows have no counterpart on the other side; `--unmatched` lists them"


def _node_title(nodes: Iterable[NodeValues]) -> str:
    return entry_title("node", has_entries=any(in_dump(_at(node)) for node in nodes))


def _at(node: NodeValues) -> Place:
    return placed(node.known, node.name, node.op_type)


def _threshold_cells(node: NodeValues, part: str) -> tuple[str, ...]:
    at = _at(node)
    role = role_word(Role.ORIGIN) if Role.ORIGIN in node.roles else ""
    return part, role, with_entry(operator(at), at), where(at), _values(node.inputs), _values(node.outputs)


def _unknown_cells(node: NodeValues) -> tuple[str, ...]:
    at = _at(node)
    reason = printable(node.reasons[0] if node.reasons else "")
    shown = reason if len(reason) <= _MAX_REASON else reason[: _MAX_REASON - 3] + "..."
    return with_entry(operator(at), at), where(at), _values(node.outputs), shown


def _values(values: Sequence[tuple[str, float | None]]) -> str:
    shown = []
    for name, value in values[:_MAX_VALUES]:
        index = printable(name.partition(" ")[2])
        shown.append(f"{index}: {'-' if value is None else 'nan' if math.isnan(value) else figure(value)}")
    more = f" (+{len(values) - _MAX_VALUES})" if len(values) > _MAX_VALUES else ""
    return "  ".join(shown) + more


def _more(shown: int, found: int) -> Iterator[str]:
    if shown < found:
        yield f"  the first {shown} of {found} are shown, `--limit 0` shows all"


def unmatched_lines(answer: UnmatchedAnswer) -> Iterator[str]:
    """Yield what has no counterpart, by side and reason."""
    yield f"{answer.count} of {answer.total} rows have one side only"
    for name, coverage in answer.coverage.items():
        yield (
            f"  {name}: {coverage.tensors} tensors, {coverage.compared} compared, "
            f"{coverage.expected} left out as expected, {coverage.missing} missing"
        )
    for group in answer.groups:
        yield ""
        what = "missing" if group.is_missing else group.verdict.replace("_", " ")
        yield f"{group.count} x {group.side} only, {what}: {printable(group.reason)}"
        yield from row_table(group.rows, has_reasons=False)
        yield from _more(len(group.rows), group.count)


def origin_lines(answer: OriginAnswer) -> Iterator[str]:
    """Yield where the divergence begins, with the rows of that node, and what else the analysis names."""
    named = answer.named
    places = same_places(answer.findings)
    same = next((found for found in places if found.first is named), None)
    if named is None:
        yield "no place is named where the two sides part"
    else:
        what = "the divergence begins" if answer.first is not None else "NaN or infinity begins"
        yield f"{what} at {operator(named)}" + (f", {where(named)}" if where(named) else "")
        yield from _fact("in the dump", in_dump(named))
        yield from _fact("tensor", slot(named))
        yield from _fact("also in", same.elsewhere if same is not None else "")
        yield from _fact("golden", readable(named.golden_node or ""))
        yield from _fact("evidence", readable(named.evidence))
        for step in answer.advice:
            yield from _fact("to do", printable(f"{step.text} ({step.code})"))
        yield from _fact("inherited", f"{answer.inherited} rows pass an error on" if answer.inherited else "")
        if answer.rows:
            yield ""
            yield from row_table(answer.rows, has_reasons=True)
    if answer.first is not None and answer.nonfinite is not None:
        yield ""
        yield f"NaN or infinity begins at {_one_line(answer.nonfinite)}"
    others = [found for found in places if found is not same]
    if others:
        yield ""
        yield f"other findings: {len(others)}"
        for found in others[:_MAX_FINDINGS]:
            also = f"; also in {found.elsewhere}" if found.others else ""
            yield f"  {found.first.kind.value}: {_one_line(found.first)}{also}"
        if len(others) > _MAX_FINDINGS:
            yield f"  and {len(others) - _MAX_FINDINGS} more, which `--format json` lists"


def _fact(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<11} {text}"


def _one_line(named: FindingRecord) -> str:
    return f"{sentence_place(named)}: {readable(named.evidence)}"
