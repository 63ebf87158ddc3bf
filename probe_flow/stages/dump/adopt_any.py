"""What `dump.auto` does: the reader of each kind of dump."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.sniff import DUMP_JSON, MINDSPORE_GRAPH, NPY, OM, TORCHAIR_FX, TORCHAIR_GE, kind_of_dump
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.records import Catalog
from probe_flow.stages.base import Select

READERS: Mapping[str, Callable[..., Catalog]] = MappingProxyType(
    {
        DUMP_JSON: read_dump_json,
        TORCHAIR_GE: read_torchair_ge,
        TORCHAIR_FX: read_torchair_fx,
        MINDSPORE_GRAPH: read_mindspore_graph,
        OM: read_om,
        NPY: read_npy_folder,
    }
)


def adopt_any(path: str, select: Select, *, side: str) -> Catalog:
    """Return the catalog of a dump of whatever kind.

    Args:
        path: the dump.
        select: what to read of it.
        side: name of the stage.
    """
    read = READERS[kind_of_dump(path)]
    return read(path, side=side, select=select.selection)
