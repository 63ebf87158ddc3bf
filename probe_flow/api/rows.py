"""Rows of a stored run: one by one, or as columns that libraries of tables take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from probe_flow.api.problems import told_whole
from probe_flow.record.json_values import number
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.rows import RowRecord, SideRecord
from probe_flow.runs.view import Filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = "NDArray[np.generic] | list[Any]"

SIDES = ("target", "golden", "reference")

_OF_ROW: Mapping[str, Callable[[RowRecord], object]] = {
    "order": lambda row: row.order,
    "rank": lambda row: row.rank,
    "graph": lambda row: row.graph,
    "step": lambda row: row.step,
    "node": lambda row: row.node,
    "name": lambda row: row.name,
    "call": lambda row: row.call,
    "phase": lambda row: row.phase.value,
    "op_type": lambda row: row.op_type,
    "group": lambda row: row.group,
    "direction": lambda row: row.direction.value,
    "index": lambda row: row.index,
    "kind": lambda row: row.kind.value,
    "verdict": lambda row: row.verdict.value,
    "role": lambda row: row.role.value,
    "reason": lambda row: row.reason,
    "excess": lambda row: _figure(row.excess),
    "rule": lambda row: row.rule,
    "confidence": lambda row: row.confidence,
    "waived": lambda row: row.waived,
    "accepted": lambda row: row.accepted,
}

_OF_SIDE: Mapping[str, Callable[[SideRecord], object]] = {
    "name": lambda side: side.name,
    "file": lambda side: side.file,
    "dtype": lambda side: side.dtype,
    "shape": lambda side: None if side.shape is None else list(side.shape),
    "layout": lambda side: side.layout,
    "checksum": lambda side: side.checksum,
    "min": lambda side: _figure(side.min),
    "max": lambda side: _figure(side.max),
    "mean": lambda side: _figure(side.mean),
    "l2norm": lambda side: _figure(side.l2norm),
    "nan": lambda side: side.nan,
    "inf": lambda side: side.inf,
}

_INT64 = 2**63


class Rows:
    """Rows of a run, in execution order; made by `Run.rows`. They are read from the run's folder each time.

    >>> import probe_flow as pf
    >>> rows = pf.compare("examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump").rows()
    >>> len(rows), len(rows.columns()["cosine"])
    (272, 272)
    """

    def __init__(self, run: StoredRun, wanted: Filter, comparison: str | None, *, owner: object = None) -> None:
        self._run, self._wanted, self._comparison = run, wanted, comparison
        self._owner = owner  # of a temporary folder, which goes with it

    def __iter__(self) -> Iterator[RowRecord]:
        with told_whole():
            if self._wanted.is_empty:
                yield from self._run.rows(comparison=self._comparison)
                return
            for rows in self._run.stored_rows(comparison=self._comparison):
                yield from rows.rows(self._wanted.numbers(rows))

    def __len__(self) -> int:
        with told_whole():
            comparisons = self._run.stored_rows(comparison=self._comparison)
            return sum(1 for rows in comparisons for _ in self._wanted.numbers(rows))

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self._run.folder}>"

    def columns(self) -> dict[str, Column]:
        """Return the rows as columns by name: an array, or a list where texts, shapes or None are in it.

        ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take the result as it is. A column has values
        of one type: truth values, whole numbers, numbers or texts. None is what was not measured, NaN is a value. In a
        column that has numbers too, whole numbers and truth values are numbers, as are all where one does not fit into
        64 bits; the rows have them exactly.

        Metrics go by their ids, facts of a side by ``target_``, ``golden_`` and ``reference_``.
        """
        rows = list(self)
        found: dict[str, Column] = {}
        if any(row.comparison is not None for row in rows):
            found["comparison"] = [row.comparison for row in rows]
        found |= {name: column(map(get, rows)) for name, get in _OF_ROW.items()}
        for side in SIDES:
            records = [getattr(row, side) for row in rows]
            if side != "reference" or any(record is not None for record in records):
                for name, get_of in _OF_SIDE.items():
                    values = (None if record is None else get_of(record) for record in records)
                    found[f"{side}_{name}"] = column(values)
        for metric in dict.fromkeys(name for row in rows for name in row.metrics):
            found[metric] = column(_figure(row.metrics.get(metric)) for row in rows)
        return found


def column(values: Iterable[object]) -> Column:
    """Return values as a column of one type: an array of truth values, integers or numbers, else a list.

    >>> column([True, False]), column([1, None, 3]), column([1, 0.5, None]), column([1, "a"])
    (array([ True, False]), [1, None, 3], [1.0, 0.5, None], ['1', 'a'])
    """
    import numpy as np

    found = list(values)
    kinds = {type(value) for value in found} - {type(None)}
    has_none = any(value is None for value in found)
    if kinds <= {bool, int, float} and kinds:
        if len(kinds) > 1 or (kinds == {int} and not _fits(found)):
            found = [None if value is None else _float(value) for value in found]
        return found if has_none else np.array(found)
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in found]
    return found


def _figure(value: object) -> object:
    """Return a published number as one of Python; NaN and infinities are words there."""
    return number(value) if isinstance(value, str) else value


def _fits(values: Sequence[Any]) -> bool:
    return all(value is None or -_INT64 <= value < _INT64 for value in values)


def _float(value: Any) -> float:
    return number(value) or 0.0
