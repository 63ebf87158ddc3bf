"""Pairs of raw files for the tests of `compare`, and a context that runs batches in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from probe_flow.records import (
    Catalog,
    Execution,
    Extent,
    Framework,
    Node,
    NodeKey,
    Pair,
    Pairs,
    Rule,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
)
from probe_flow.work import Context, Settings


def context(events: list[tuple[str, dict[str, Any]]] | None = None, **settings: Any) -> Context:
    def in_order(function, batches, *, sizes, **_):
        assert len(sizes) == len(batches)
        return ((number, function(batch)) for number, batch in enumerate(batches))

    def emit(event, **fields):
        if events is not None:
            events.append((event, fields))

    return Context("result", Path(), in_order, emit, lambda _problems: None, Settings(**settings), {})


def raw(folder: Path, side: str, name: str, values: np.ndarray, **more: Any) -> TensorRef:
    """A tensor whose bytes are the whole of a file."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{side}-{name}.bin"
    file.write_bytes(np.ascontiguousarray(values).tobytes())
    return TensorRef.of(
        more.pop("node", NodeKey(Execution(0, 0, 1), name)),
        Slot(SlotRole.OUTPUT, (0,)),
        TensorKind.TENSOR,
        **{
            "dtype": str(values.dtype), "shape": values.shape, "logical_shape": values.shape,
            "extents": (Extent(str(file), 0, values.nbytes),), "source": str(file), **more,
        },
    )  # fmt: skip


def pairs_of(twosomes: list[tuple[TensorRef | None, TensorRef | None]], op_type: str = "Relu") -> Pairs:
    sides = {}
    for place, side in enumerate(("target", "golden")):
        refs = [two[place] for two in twosomes if two[place] is not None]
        nodes = {ref.node: Node(ref.node, op_type, order=n) for n, ref in enumerate(refs)}
        sides[side] = Catalog(side, Framework("test"), "tensor", "", nodes, tuple(refs))
    return Pairs(sides["target"], sides["golden"], tuple(Pair(*two, "g", Rule("exact")) for two in twosomes))
