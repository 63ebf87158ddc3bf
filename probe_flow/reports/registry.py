"""The layouts of result tables: ours, and those of installed packages (entry point `probe_flow.reports`)."""

from __future__ import annotations

from typing import Any, cast

from probe_flow.packages import PackageError, Registry
from probe_flow.reports.layout import Layout
from probe_flow.reports.parts import by_execution, by_model, written_before

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
