"""What `dump.auto` does: the reader of each kind of dump."""

from __future__ import annotations

from probe_flow.dumps.registry import READERS
from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.errors import ProbeFlowError
from probe_flow.packages import raised
from probe_flow.records import Catalog
from probe_flow.stages.base import Select


def adopt_any(path: str, select: Select, *, side: str, kind: str | None = None) -> Catalog:
    """Return the catalog of a dump of any kind.

    Args:
        path: the dump.
        select: what to read of it.
        side: name of the stage.
        kind: a name of `READERS`; None = the one that the files show.

    Raises:
        UsageError: what `kind_of_dump` says, PF3432 when the reader is of a package and gives no catalog, or raises.
    """
    name = kind_of_dump(path) if kind is None else kind
    reader = READERS.find(name)
    try:
        catalog = reader.catalog(path, side=side, select=select.selection)
    except Exception as error:
        if isinstance(error, ProbeFlowError) or not READERS.plugins_of(name):
            raise
        raise READERS.unusable(name, f"its `read` raised {raised(error)}") from error
    if not isinstance(catalog, Catalog):
        raise READERS.unusable(name, f"its `read` gives no `Catalog` but a `{type(catalog).__name__}`")
    return catalog
