"""The layouts of result tables: our own, listed here, and those of installed packages (``probe_flow.reports``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.packages import EntryPoint, PackageError, entry_points, load

if TYPE_CHECKING:
    from probe_flow.records import Comparison
    from probe_flow.reports.table import Table

ENTRY_POINTS = "probe_flow.reports"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "torchair": "probe_flow.reports.tables.torchair.layout:write_torchair_csv",
        "torchair_percent": "probe_flow.reports.tables.torchair.layout:write_percent_csv",
        "torchair_legacy": "probe_flow.reports.tables.torchair.legacy:write_torchair_legacy_csv",
        "dump_json": "probe_flow.reports.tables.dump_json.layout:write_dump_json_csv",
        "dump_json_msprobe": "probe_flow.reports.tables.dump_json.msprobe:write_msprobe_csv",
        "offline": "probe_flow.reports.tables.offline.layout:write_offline_csv",
        "msaccucmp": "probe_flow.reports.tables.offline.msaccucmp:write_msaccucmp_csv",
    }
)

TABLES: Mapping[str, str] = MappingProxyType(
    {
        "torchair": "probe_flow.reports.tables.torchair.layout:torchair_table",
        "torchair_percent": "probe_flow.reports.tables.torchair.layout:percent_table",
        "torchair_legacy": "probe_flow.reports.tables.torchair.legacy:legacy_table",
        "dump_json": "probe_flow.reports.tables.dump_json.layout:dump_json_table",
        "dump_json_msprobe": "probe_flow.reports.tables.dump_json.msprobe:msprobe_table",
        "offline": "probe_flow.reports.tables.offline.layout:offline_table",
        "msaccucmp": "probe_flow.reports.tables.offline.msaccucmp:msaccucmp_table",
    }
)
"""Our layouts as tables, for files other than CSV."""

WITH_COLUMNS = frozenset({"offline", "msaccucmp"})
"""Our layouts that have further columns when they are asked for; they take ``columns``."""


class Layout(Protocol):
    """Writes a comparison as one CSV file, whole or not at all, the same bytes for the same comparison."""

    def __call__(self, comparison: Comparison, path: Path) -> None: ...


def layout_names() -> tuple[str, ...]:
    """Return the names of all layouts. An installed package may add layouts, not replace ours."""
    return tuple(dict.fromkeys((*BUILT_IN, *sorted(entry.name for entry in entry_points(group=ENTRY_POINTS)))))


def table(name: str, comparison: Comparison, *, columns: Sequence[str] = ()) -> Table:
    """Return a comparison as a table in one of our layouts (a key of `TABLES`).

    Args:
        name: of the layout.
        comparison: what is shown.
        columns: further columns, for a layout of `WITH_COLUMNS`.
    """
    given = {"columns": columns} if name in WITH_COLUMNS else {}
    return cast("Table", _function(TABLES[name])(comparison, **given))


def layout(name: str, *, columns: Sequence[str] = ()) -> Layout:
    """Return the layout of that name, with further columns if it is one of `WITH_COLUMNS`.

    Raises:
        UsageError: PF7002 when there is none of that name.
        IncompleteError: PF7003 when the package that announces it does not load.
    """
    if name in BUILT_IN:
        write = _function(BUILT_IN[name])
        return cast("Layout", partial(write, columns=columns) if columns and name in WITH_COLUMNS else write)
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return _load(entry)
    known = layout_names()
    help_text = did_you_mean(name, known) or f"layouts: {', '.join(known)}"
    raise UsageError(Diagnostic("PF7002", f"unknown report layout `{name}`", help=help_text))


def _function(place: str) -> Callable[..., object]:
    module, _, name = place.partition(":")
    return cast("Callable[..., object]", getattr(import_module(module), name))


def _load(entry: EntryPoint) -> Layout:
    try:
        found = load(entry)
    except PackageError as exc:
        raise _does_not_load(entry, str(exc)) from exc
    if not callable(found):
        raise _does_not_load(entry, "it is no function")
    return cast("Layout", found)


def _does_not_load(entry: EntryPoint, why: str) -> IncompleteError:
    return IncompleteError(
        Diagnostic(
            "PF7003",
            f"report layout `{entry.name}` of `{entry.value}` does not load: {why}",
            help="update or remove that package, or use another layout",
        )
    )
