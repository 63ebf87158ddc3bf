"""What `dump.torch` and `dump.mindspore` share: read a dump.json dump, and say when it is of another framework."""

from __future__ import annotations

from dataclasses import replace

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import Catalog
from probe_flow.stages.base import Select

STAGE_OF = {"pytorch": "dump.torch", "mindspore": "dump.mindspore", "mindtorch": "dump.mindspore"}


def adopt(path: str, select: Select, *, side: str, uses: str) -> Catalog:
    """Return the catalog of a dump; a framework that its stage does not name is a warning.

    Args:
        path: the dump.
        select: what to read of it.
        side: name of the stage.
        uses: kind of the stage.
    """
    catalog = read_dump_json(
        path,
        side=side,
        select=select.selection,
    )
    proper = STAGE_OF[catalog.framework]
    if proper == uses:
        return catalog
    problem = Diagnostic(
        "PF3428",
        f"`{path}` is a dump of {catalog.framework}",
        severity=Severity.WARNING,
        path=path,
        help=f"it is read all the same; write `uses: {proper}`",
    )
    return replace(catalog, problems=(*catalog.problems, problem))
