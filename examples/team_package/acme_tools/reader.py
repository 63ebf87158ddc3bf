"""A dump format: `index.json` with the shape of each tensor, and its float32 values in `NAME.raw`."""

from __future__ import annotations

import json
import math
from pathlib import Path

from probe_flow.dumps.registry import ReaderSpec
from probe_flow.dumps.selection import Selection
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.records import Catalog, Execution, Extent, Node, NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.records.frameworks import Framework

INDEX = "index.json"
_BYTES = 4


def read(path: str, *, side: str, select: Selection) -> Catalog:
    """Return the catalog of a dump; files that are missing or too short are problems of it.

    Raises:
        IncompleteError: PF3430 where there is no index that can be read.
    """
    root = Path(path).resolve()
    try:
        shapes = {str(name): tuple(map(int, shape)) for name, shape in json.loads((root / INDEX).read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise IncompleteError(Diagnostic("PF3430", f"`{INDEX}` cannot be read: {error}", path=path)) from error
    takes = select.node_filter()
    nodes: dict[NodeKey, Node] = {}
    tensors: list[TensorRef] = []
    problems: list[Diagnostic] = []
    for name, shape in shapes.items():
        file = root / f"{name}.raw"
        size = math.prod(shape) * _BYTES
        if not takes(name):
            continue
        if file.parent != root or not file.is_file() or file.stat().st_size < size:
            problems.append(Diagnostic("PF3101", f"`{file.name}` does not hold {size} bytes", path=str(file)))
            continue
        key = NodeKey(Execution(), name)
        nodes[key] = Node(key, "Raw", order=len(nodes))
        where = (Extent(str(file), 0, size),)
        tensors.append(
            TensorRef.of(
                key, Slot(SlotRole.OUTPUT), TensorKind.TENSOR, dtype="float32", shape=shape, logical_shape=shape,
                extents=where,
            )
        )  # fmt: skip
    return Catalog(side, Framework("acme_raw"), "tensor", str(root), nodes, tuple(tensors), problems=tuple(problems))


def shows(folders: tuple[str, ...], name: str) -> bool:  # noqa: ARG001
    """Return True if a file shows such a dump."""
    return name == INDEX


READER = ReaderSpec("acme_raw", shows, "`index.json` (Acme)", read)
