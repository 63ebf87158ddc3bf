"""Layouts: how a comparison becomes a table, and which files that becomes; ours, and those of packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct

from probe_flow.packages import PackageError, Registry
from probe_flow.records import Comparison
from probe_flow.reports.parts import Part, by_execution, by_model, whole, written_before
from probe_flow.reports.table import Table, write_csv

TableFunction: TypeAlias = Callable[..., Table]
"""From a comparison, or a part of one, to its table; takes ``columns`` where the layout has further columns."""


class Layout(Struct, frozen=True):
    """One layout of result tables, in CSV files and workbooks alike.

    Args:
        name: what people write behind ``csv:`` and ``xlsx:``.
        table: returns the table, or names the function that does as ``module:attribute``, which is then imported when
            a table is made. None for a layout that has `write` instead.
        stem: how its files are named, followed by the time of the run; empty = by the layout's name.
        columns: further columns that it has when it is asked for them.
        parts: which files a comparison becomes; see `probe_flow.reports.parts`.
        line_end: ends the lines of a CSV file.
        write: writes a comparison as one CSV file, whole or not at all. Such a layout is never a workbook.
    """

    name: str
    table: TableFunction | str | None
    stem: str = ""
    columns: tuple[str, ...] = ()
    parts: Callable[[Comparison, int | None], Iterator[Part]] = whole
    line_end: str = "\n"
    write: Callable[[Comparison, Path], None] | None = None

    def make(self, comparison: Comparison, *, columns: Sequence[str] = ()) -> Table:
        """Return a comparison as a table, with those of the further columns that the layout has.

        Raises:
            TypeError: the layout has no table.
        """
        table = self.table
        if isinstance(table, str):
            module, _, name = table.partition(":")
            table = cast("TableFunction", getattr(import_module(module), name))
        if table is None:
            raise TypeError(f"the layout `{self.name}` has no table")
        given: dict[str, Any] = {"columns": [name for name in columns if name in self.columns]} if self.columns else {}
        return table(comparison, **given)

    def write_csv(self, comparison: Comparison, path: Path, *, columns: Sequence[str] = ()) -> None:
        """Write a comparison as one UTF-8 file, which appears whole or not at all.

        Raises:
            IncompleteError: PF7001 when the file cannot be written.
        """
        if self.write is not None:
            self.write(comparison, path)
        else:
            write_csv(self.make(comparison, columns=columns), path, line_end=self.line_end)


_TABLES = "probe_flow.reports.tables"
_OF_MODELS = ("overflow", "model_flags")

OURS = (
    Layout("torchair", f"{_TABLES}.torchair.layout:torchair_table", "torchair_result"),
    Layout("torchair_percent", f"{_TABLES}.torchair.layout:percent_table"),
    Layout("torchair_legacy", f"{_TABLES}.torchair.legacy:legacy_table", "msprobe_cmp_report"),
    Layout("dump_json", f"{_TABLES}.dump_json.layout:dump_json_table", "compare_result", parts=by_execution),
    Layout("dump_json_msprobe", f"{_TABLES}.dump_json.msprobe:msprobe_table", "compare_result", parts=by_execution),
    Layout("offline", f"{_TABLES}.offline.layout:offline_table", "result", _OF_MODELS, by_model, "\r\n"),
    Layout("msaccucmp", f"{_TABLES}.offline.msaccucmp:msaccucmp_table", "result", _OF_MODELS, by_model, "\r\n"),
    Layout("precheck", None, parts=written_before),
)


def _accept(name: str, found: object) -> Layout:
    if not isinstance(found, Layout):
        if isinstance(found, type) or not callable(found):
            raise PackageError(f"it is neither a `Layout` nor a function that writes a file, but {found!r:.80}")
        return Layout(name, None, write=cast("Any", found))
    if found.name != name:
        raise PackageError(f"its layout is called `{found.name}`")
    if found.table is None and found.write is None:
        raise PackageError("its layout has neither a `table` nor a `write` function")
    return found


LAYOUTS: Registry[Layout] = Registry(
    ("layout", "layouts"),
    "probe_flow.reports",
    {layout.name: layout for layout in OURS},
    _accept,
    unknown="PF7002",
    unusable="PF7003",
)
"""Every layout by its name. An entry point is a `Layout`, or a function ``write(comparison, path)`` of a CSV file."""
