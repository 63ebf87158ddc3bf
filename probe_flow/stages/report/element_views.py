"""Find the tensors that element-wise views (`detail` of a report) are of, and look closer at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import structs
from msgspec.structs import replace

from probe_flow.comparing.closer_looks import LookBatch, look_at, look_of
from probe_flow.errors import Diagnostic, Severity, did_you_mean
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import Comparison, Group, Mode, Row
from probe_flow.reports.elements.element_view import ElementView, plain_prefix

if TYPE_CHECKING:
    from probe_flow.stages.report.report_detail import Detail

_CLEANED = str.maketrans("/.", "__")


def views_of(comparison: Comparison, wanted: Sequence[Detail]) -> tuple[tuple[ElementView, ...], list[Diagnostic]]:
    """Return the views that are wanted, each tensor once, and what is to say about those that there are not."""
    chosen, problems = _chosen(comparison, wanted)
    named = {row.pair.group for row, _ in chosen}
    groups = {group.id: group for group in comparison.pairs.all_groups() if group.id in named}
    views = []
    for row, detail in chosen:
        views.append(_view(row, detail, _golden_names(comparison, row, groups.get(row.pair.group))))
    return tuple(_told_apart(views)), problems


def with_looks(comparison: Comparison, wanted: Sequence[Detail], *, io: str = "auto") -> Comparison:
    """Return the comparison with a closer look, maps of errors included, at each tensor that is wanted.

    One that cannot be read any more is left out; whoever writes its files says so.
    """
    chosen, _ = _chosen(comparison, wanted)
    looks = tuple(
        replace(look_of(row), has_maps=True)
        for row, _ in chosen
        if row.order not in comparison.details or not comparison.details[row.order].maps
    )
    return structs.replace(comparison, details={**comparison.details, **look_at(LookBatch(looks, io))})


def _chosen(comparison: Comparison, wanted: Sequence[Detail]) -> tuple[list[tuple[Row, Detail]], list[Diagnostic]]:
    """Return the rows that are wanted, each once, by the first that wants it, and what is to say about the others."""
    found: dict[int, tuple[Row, Detail]] = {}
    problems: list[Diagnostic] = []
    for detail in wanted:
        rows = [row for row in comparison.rows if _is_wanted(row, detail)]
        shown = [row for row in rows if _has_elements(row)]
        problems += _problems(comparison, detail, rows, shown)
        for row in shown[: detail.limit]:
            found.setdefault(row.order, (row, detail))
    return list(found.values()), problems


def _is_wanted(row: Row, detail: Detail) -> bool:
    tensor = row.pair.target
    if tensor is None or tensor.slot.role.value != detail.direction:
        return False
    if detail.index is not None and tensor.slot.path != (detail.index,):
        return False
    names = (tensor.node.name, tensor.node.name.translate(_CLEANED))
    globs = [detail.node] if isinstance(detail.node, str) else detail.node
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _has_elements(row: Row) -> bool:
    measured = row.measurement
    if measured is None or measured.mode is not Mode.TENSOR or not measured.count:
        return False
    return not any("complex" in side.dtype for side in (row.pair.target, row.pair.golden) if side is not None)


def _view(row: Row, detail: Detail, golden_names: tuple[str, ...]) -> ElementView:
    target, golden = aligned_sides(row.pair)
    return ElementView(plain_prefix(target), target, golden, golden_names, detail.top, detail.lines, detail.tables)


def _golden_names(comparison: Comparison, row: Row, group: Group | None) -> tuple[str, ...]:
    """Return the golden operators behind a row, by the true names that rules give where files have cleaned ones."""
    assert row.pair.golden is not None
    nodes, members = comparison.pairs.target.nodes, group.target_nodes if group else ()
    golden = dict.fromkeys(key.name for key in (group.golden_nodes if group else ()) or [row.pair.golden.node])
    originals = dict.fromkeys(name for key in members if key in nodes for name in nodes[key].originals if name)
    is_told = {name.translate(_CLEANED) for name in originals}.issuperset(name.translate(_CLEANED) for name in golden)
    return tuple(originals if is_told else golden)


def _told_apart(views: Iterable[ElementView]) -> Iterator[ElementView]:
    """Number the views of tensors of one name: of several steps, say."""
    seen: Counter[str] = Counter()
    for view in views:
        seen[view.prefix] += 1
        number = seen[view.prefix]
        yield view if number == 1 else replace(view, prefix=f"{view.prefix}_{number}")


def _problems(
    comparison: Comparison, detail: Detail, rows: Sequence[Row], shown: Sequence[Row]
) -> Iterator[Diagnostic]:
    what = f"{detail.direction}{'' if detail.index is None else f' {detail.index}'} of `{detail.node}`"
    if not rows:
        names = dict.fromkeys(pair.target.node.name for pair in comparison.pairs.pairs if pair.target is not None)
        yield Diagnostic(
            "PF6402",
            f"`detail` shows nothing: there is no {what}",
            severity=Severity.WARNING,
            help=did_you_mean(str(detail.node), names) or "names of nodes are in `nodes.jsonl`",
        )
    for row in rows:
        if not _has_elements(row):
            why = "; ".join(row.reasons) or "its elements were not compared"
            message = f"`detail` cannot show `{row.pair.shown.id}`: {why}"
            cure = "name other nodes with `node`, or dump its elements on both sides"
            yield Diagnostic("PF6403", message, severity=Severity.WARNING, help=cure)
    if len(shown) > detail.limit:
        yield Diagnostic(
            "PF6404",
            f"`detail` shows the first {detail.limit} of {len(shown)} tensors that are {what}",
            severity=Severity.WARNING,
            help="name fewer nodes, or raise `limit`",
        )
