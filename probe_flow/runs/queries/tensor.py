"""What a run knows of one tensor: its row, and its elements where the dump still has them, else the closer look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from probe_flow.elements.axis_order import axes_of, channels_first, order_of
from probe_flow.errors import ProbeFlowError
from probe_flow.record.json_values import json_number, number
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.run_json import plain
from probe_flow.record.stored_rows import StoredRows
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import DetailRecord, RowRecord, SideRecord
from probe_flow.records import ErrorMap, Statistics, TensorKind, TensorRef
from probe_flow.reports.error_map_text import stored_maps
from probe_flow.runs.queries.base import EVERYWHERE, Scope, find_names, metric_of
from probe_flow.runs.queries.named_answer import NamedAnswer
from probe_flow.tensors.layouts import PLAIN_LAYOUTS

if TYPE_CHECKING:
    from probe_flow.reports.tensor_values import Values, WorstElement

MAX_VIEWS = 3
"""Rows shown in full; further ones are listed by name."""

WORST = 10

SAME = 1e-9
"""Relative difference within which statistics read now are those recorded then; kernels add in other orders. A good
golden tensor differs by more, so that it is not taken for its target where stages have names of their own."""

SAME_COLLECTED = 1e-5
"""The same for mean and norm of what was compared with nothing: the collector's, added up in the tensor's own type."""

_COLLECTED: Mapping[str, float] = MappingProxyType(dict.fromkeys(("float16", "bfloat16"), 1e-2))
"""Element type -> the same, where it is not `SAME_COLLECTED`."""

SAME_ERROR = 1e-5
"""The same for the largest error, a difference of two numbers."""


class Dumps(Protocol):
    """Finds the tensors of a run's rows in its dumps; the engine supplies it."""

    def find(self, row: RowRecord, side: str) -> tuple[list[TensorRef], str]:
        """Return the tensors that may be the row's, the likeliest first, and why there is none when there is none."""


class SideView(Struct):
    """One side of a row.

    Args:
        name: ``target``, ``golden`` or ``reference``.
        record: what the row says of it.
        values: its elements, None when the dump does not give them.
        source: ``dump`` or ``record``.
        why: why the dump was not used, empty when it was.
        ref: the tensor in the dump, as it was compared.
        order: of its axes in the dump, where it was compared in another, channels first.
    """

    name: str
    record: SideRecord
    values: Values | None = None
    source: str = "record"
    why: str = ""
    ref: TensorRef | None = None
    order: str | None = None


class TensorView(Struct):
    """A row and what is known of its elements.

    Args:
        row: the row.
        sides: its sides.
        detail: the closer look that the run took, None when it took none.
        worst: elements with the largest errors, from the dumps.
        no_worst: why there are none of them, empty when there are.
        maps: where in the tensor the errors are, as the run found them, else from the dumps.
    """

    row: RowRecord
    sides: list[SideView]
    detail: DetailRecord | None = None
    worst: list[WorstElement] = field(default_factory=list)
    no_worst: str = ""
    maps: tuple[ErrorMap, ...] = ()

    @property
    def shape(self) -> Sequence[int] | None:
        """The shape that indices count in: that of the first side, in the order in which its elements are compared."""
        name, shape = next(((each.name, each.record.shape) for each in self.sides), ("", None))
        if shape is None:
            return None
        given = _given_order(self.row, name)
        try:
            return shape if given is None else [shape[axis] for axis in axes_of(given, len(shape))]
        except ValueError:
            return shape

    def data(self) -> dict[str, Any]:
        """Return the view as JSON."""
        return {
            "row": plain(self.row),
            "shape": self.shape,
            "sides": {each.name: _side_data(each) for each in self.sides},
            "worst": [
                {
                    "index": element.index,
                    "target": json_number(element.target),
                    "golden": json_number(element.golden),
                    "error": json_number(element.error),
                }
                for element in self.worst
            ],
            "no_worst": self.no_worst or None,
            "detail": plain(self.detail) if self.detail is not None else None,
        }


def tensor_view(
    run: StoredRun, dumps: Dumps, wanted: str, *, scope: Scope = EVERYWHERE, limit: int = MAX_VIEWS
) -> NamedAnswer[TensorView]:
    """Return what is known of the tensors that a name, a file or a part of one means.

    Raises:
        UsageError: PF7201 when no name fits.
    """
    names: dict[str, None] = {}
    own: set[str] = set()
    comparisons = [*run.stored_rows(comparison=scope.comparison)]
    for rows in comparisons:
        for _, called in _named(rows, scope):
            own.add(called[0])
            names |= dict.fromkeys(called)
    found = find_names(wanted, names, what="tensor", path=str(run.folder))
    wanted_names = set(found.names)
    # The golden tensor of several rows may be called like the target of one, which is the one that is meant.
    is_own = found.how == "exact" and not own.isdisjoint(wanted_names)
    answer = NamedAnswer[TensorView](wanted, found.how)
    others: dict[str, None] = {}
    for rows in comparisons:
        for place, called in _named(rows, scope):
            if wanted_names.isdisjoint(called):
                continue
            answer.matching += 1
            if len(answer.views) < limit and not (is_own and called[0] not in wanted_names):
                answer.views += [_view(run, dumps, row) for row in rows.rows([place])]
            else:
                others.setdefault(called[0])
    shown = {_names(view.row)[0] for view in answer.views}
    answer.others = [name for name in others if name not in shown]
    return answer


class _Tensor(Struct, frozen=True, gc=False):
    name: str
    file: str | None


class _Named(Struct, frozen=True, gc=False):
    """The fields of a row that say what its tensors are called, and where they are."""

    rank: int | None
    graph: int | str | None
    step: int | None
    node: str
    name: str
    call: int
    target: _Tensor | None
    golden: _Tensor | None


_NAMED = Reader(_Named)


def _named(rows: StoredRows, scope: Scope) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row to look at, and what its tensors may be called."""
    for place, row in enumerate(rows.all_parts(_NAMED)):
        if scope.keeps_call(row, row.call):
            yield place, _names(row)


def _names(row: _Named | RowRecord) -> list[str]:
    """Return what a tensor may be called: its id on each side, its file with and without folders, its node."""
    found = []
    for tensor in (row.target, row.golden):
        if tensor is not None:
            file = tensor.file or ""
            found += [tensor.name, file, file.rpartition("/")[2]]
    found += [row.node, row.name]
    return [name for name in dict.fromkeys(found) if name and not name.endswith(".json")]


def _view(run: StoredRun, dumps: Dumps, row: RowRecord) -> TensorView:
    detail = run.detail(row)
    view = TensorView(row, [], detail, maps=stored_maps(detail))
    for name, tensor in row.sides:
        view.sides.append(side_view(dumps, row, name, tensor))
    refs = {each.name: each.ref for each in view.sides}
    target, golden = refs.get("target"), refs.get("golden")
    if target is None or golden is None:
        if row.kind not in (TensorKind.TENSOR, TensorKind.STATISTICS):
            return view
        view.no_worst = "both sides are needed, and the dumps do not give them"
        return view
    try:
        _add_worst(view, target, golden)
    except (ProbeFlowError, ValueError) as error:
        view.no_worst = str(error)
    return view


def _add_worst(view: TensorView, target: TensorRef, golden: TensorRef) -> None:
    from probe_flow.reports.tensor_values import worst_elements

    found = worst_elements(target, golden, limit=WORST)
    recorded = metric_of(view.row, "max_abs_err")
    if recorded is not None and not _same(found.max_abs_err, recorded, tolerance=SAME_ERROR):
        view.no_worst = (
            f"element by element the largest error is {found.max_abs_err:.6g}, recorded is {recorded:.6g}: "
            "the run paired the elements in another order"
        )
        return
    view.worst = found.elements
    view.maps = view.maps or found.maps


def _given_order(row: RowRecord, side: str) -> str | None:
    """Return the order of a side's axes where the run took them in another."""
    return next((order for name, order in map(order_of, row.transform) if name == side), None)


def side_view(dumps: Dumps, row: RowRecord, name: str, tensor: SideRecord) -> SideView:
    """Return one side of a row, from its dump if that holds what the run recorded."""
    from probe_flow.reports.tensor_values import values_of

    view, order = SideView(name, tensor), _given_order(row, name)
    if tensor.value is not None:
        return view
    refs, view.why = dumps.find(row, name)
    for ref in refs:
        try:
            found = _as_compared(ref, tensor.shape, order)
            values = values_of(found)
        except (ProbeFlowError, ValueError) as error:
            view.why = error.diagnostic.message if isinstance(error, ProbeFlowError) else str(error)
            continue
        if _is_recorded(
            values.statistics, tensor, SAME if row.metrics else _COLLECTED.get(tensor.dtype, SAME_COLLECTED)
        ):
            return SideView(name, tensor, values, "dump", "", found, order)
        view.why = "what the dump holds now has other statistics than the run recorded: it has changed since"
    return view


def _as_compared(ref: TensorRef, shape: tuple[int, ...] | None, order: str | None) -> TensorRef:
    """Return a tensor as the run read it: matchers know shapes that the dump does not tell, and orders of axes."""
    if ref.layout not in PLAIN_LAYOUTS and shape is not None:
        ref = ref.changed(logical_shape=shape)
    return channels_first(ref, order) if order is not None else ref


def _is_recorded(found: Statistics, tensor: SideRecord, tolerance: float) -> bool:
    """Return True if statistics are those that the run recorded, up to the rounding of who added them up."""
    scale = number(tensor.l2norm) or 0.0
    for key in ("min", "max", "mean", "l2norm"):
        recorded, now = number(getattr(tensor, key)), getattr(found, key)
        if recorded is None or not math.isfinite(recorded):
            continue
        allowed = tolerance if key in ("mean", "l2norm") else SAME
        if now is None or not _same(float(now), recorded, scale=scale if key == "mean" else 0.0, tolerance=allowed):
            return False
    return True


def _same(one: float, other: float, *, scale: float = 0.0, tolerance: float = SAME) -> bool:
    return one == other or abs(one - other) <= tolerance * max(abs(one), abs(other), scale)


def _side_data(view: SideView) -> dict[str, Any]:
    values = view.values
    data: dict[str, Any] = {"source": view.source, "why": view.why or None}
    statistics: SideRecord | Statistics = view.record
    if values is not None:
        statistics = values.statistics
        data |= {
            "numel": values.numel,
            "values": [json_number(value) for value in values.first],
            "histogram": {"edges": list(values.edges), "counts": list(values.counts)},
        }
    data["statistics"] = {
        key: json_number(getattr(statistics, key)) for key in ("min", "max", "mean", "l2norm", "nan", "inf")
    }
    return data
