"""The stages that adopt a dump.json dump differ in the framework that they expect, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity
from probe_flow.records.frameworks import Kernels
from probe_flow.stages.base import Select

if TYPE_CHECKING:
    from probe_flow.records import Catalog

_STAGES: Mapping[Kernels | None, str] = {Kernels.PYTORCH: "dump.torch", Kernels.MINDSPORE: "dump.mindspore"}


def adopt(path: str, select: Select, *, side: str, uses: str) -> Catalog:
    """Return the catalog of a dump; a framework that its stage does not name is a warning.

    Args:
        path: the dump.
        select: what to read of it.
        side: name of the stage.
        uses: kind of the stage.
    """
    from probe_flow.dumps.dump_json.reader import read_dump_json

    catalog = read_dump_json(path, side=side, select=select.selection)
    proper = _STAGES[catalog.framework.kernels]
    if proper == uses:
        return catalog
    problem = Diagnostic(
        "PF3428",
        f"`{path}` is a dump of {catalog.framework.name}",
        severity=Severity.WARNING,
        path=path,
        help=f"it is read all the same; write `uses: {proper}`",
    )
    return replace(catalog, problems=(*catalog.problems, problem))
