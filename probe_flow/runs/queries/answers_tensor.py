"""What a stored run knows of a tensor, as lines of text: numbers, values, histogram, the largest errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from probe_flow.record.facts import judged_text
from probe_flow.record.json_values import number
from probe_flow.record.places import figure, in_dump, operator, printable, slot, where
from probe_flow.record.text_table import text_table
from probe_flow.record.types.rows import RowRecord
from probe_flow.reports.error_map_text import map_lines
from probe_flow.runs.queries.base import identity, placed
from probe_flow.runs.queries.named_answer import NamedAnswer
from probe_flow.runs.queries.tensor import SideView, TensorView
from probe_flow.runs.row_table import reasons_of, shape_text

if TYPE_CHECKING:
    from probe_flow.reports.tensor_values import Values

_VALUES_A_LINE = 8
_BAR = 40
_NUMBERS = ("min", "max", "mean", "l2norm", "nan", "inf")


def tensor_lines(answer: NamedAnswer[TensorView]) -> Iterator[str]:
    """Return the lines of what is known of the tensors that a name means."""
    return answer.lines(_view_lines, counted="rows", where="the names of their tensors")


def _view_lines(view: TensorView) -> Iterator[str]:
    row = view.row
    places = where(placed(identity(row)._replace(call=0), row.name, row.op_type))
    call = f"#{row.call}" if row.call else ""
    yield f"{operator(row)}{call} {slot(row)}" + (f"  [{places}]" if places else "")
    yield f"  {judged_text(row.role, row.verdict)}"
    if entry := in_dump(row):
        yield f"  in the dump: {entry}"
    yield from (f"  {printable(reason)}" for reason in reasons_of(row))
    yield from _metric_lines(row)
    header = ("side", "source", "dtype", "shape", "layout", *_NUMBERS)
    yield from text_table(header, [_side_cells(each) for each in view.sides], right=_NUMBERS)
    for side in view.sides:
        yield f"  {side.name}: {printable(side.record.name)}" + _in_file(side)
    for side in view.sides:
        yield from _value_lines(side)
    yield from _worst_lines(view)
    yield from map_lines(view.maps)


def _in_file(side: SideView) -> str:
    file = side.record.file
    found = f", file {printable(file)}" if file else ""
    found += f", axes {printable(side.order)} taken channels first" if side.order else ""
    return found + (f" - from the record: {printable(side.why)}" if side.why else "")


def _metric_lines(row: RowRecord) -> Iterator[str]:
    known = [(name, value) for name, value in row.metrics.items() if value is not None]
    if known:
        yield "  " + "  ".join(f"{printable(name)} {figure(value)}" for name, value in known)


def _side_cells(side: SideView) -> tuple[str, ...]:
    record = side.record
    found = [getattr(record if side.values is None else side.values.statistics, key) for key in _NUMBERS]
    return (
        side.name,
        side.source,
        printable(record.dtype),
        shape_text(record.shape),
        printable(record.layout),
        *("" if value is None else figure(value) for value in found),
    )


def _value_lines(side: SideView) -> Iterator[str]:
    value, values = side.record.value, side.values
    if value is not None:
        yield f"  {side.name} value: {printable(value)}"
    if values is not None:
        yield from value_lines(side.name, values)


def file_lines(name: str, values: Values) -> Iterator[str]:
    """Yield what a tensor looks like that belongs to no row."""
    found = {key: getattr(values.statistics, key) for key in _NUMBERS}
    yield f"{printable(name)}, {values.numel} elements"
    yield "  " + "  ".join(f"{key} {figure(value)}" for key, value in found.items() if value is not None)
    yield from value_lines(name, values)


def value_lines(name: str, values: Values) -> Iterator[str]:
    """Yield the first elements of a tensor, and how its finite ones spread."""
    if values.first:
        head = "all" if len(values.first) == values.numel else f"the first {len(values.first)} of"
        yield f"  {printable(name)}, {head} {values.numel} values"
        yield from _grid(values.first, 0)
    if values.counts:
        yield f"  {printable(name)}, how the finite values spread"
        yield from _bars(values.edges, values.counts)


def _grid(values: Sequence[float], start: int) -> Iterator[str]:
    lines = [values[at : at + _VALUES_A_LINE] for at in range(0, len(values), _VALUES_A_LINE)]
    last = len(str(start + len(values)))
    for place, line in enumerate(lines):
        yield f"    {start + place * _VALUES_A_LINE:>{last}}  " + " ".join(f"{value:>11.5g}" for value in line)


def _bars(edges: Sequence[float], counts: Sequence[int]) -> Iterator[str]:
    most = max(counts) or 1
    width = len(str(most))
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        bar = "#" * max(round(_BAR * count / most), 1 if count else 0)
        yield f"    {low:>11.4g} to {high:>11.4g}  {count:>{width}}  {bar}".rstrip()


def _worst_lines(view: TensorView) -> Iterator[str]:
    shape = view.shape
    if view.worst:
        yield "  largest errors, from the dumps"
        rows = [
            (_at(each.index, shape), figure(each.target), figure(each.golden), f"{each.error:.4g}")
            for each in view.worst
        ]
        yield from text_table(("at", "target", "golden", "error"), rows, right=("target", "golden", "error"), indent=4)
        return
    detail = view.detail
    if detail is None:
        if view.no_worst and len(view.sides) > 1:
            yield f"  no elements to show: {printable(view.no_worst)}"
        return
    yield "  values around the largest error, from the record"
    around = [
        (_at(detail.start + place, shape), *(_text(value) for value in pair))
        for place, pair in enumerate(zip(detail.target, detail.golden, strict=False))
    ]
    yield from text_table(("at", "target", "golden"), around, right=("target", "golden"), indent=4)
    yield f"  how the errors spread, from the record; {detail.equal} elements have none"
    edges, counts = [number(edge) or 0.0 for edge in detail.edges], detail.counts
    filled = [place for place, count in enumerate(counts) if count]
    if filled:
        first, last = filled[0], filled[-1] + 1
        yield from _bars(edges[first : last + 1], counts[first:last])


def _text(value: object) -> str:
    found = number(value)
    return "" if found is None else figure(found)


def _at(index: int, shape: Sequence[int] | None) -> str:
    if not shape or not all(shape):
        return str(index)
    places = []
    for dim in reversed(shape):
        places.append(index % dim)
        index //= dim
    return printable(tuple(reversed(places))).replace(" ", "").replace(",)", ")")
