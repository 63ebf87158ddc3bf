"""Pairs of raw files for the tests of `compare`, and a context that runs batches in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from probe_flow.records import Extent, Pair, Pairs, TensorRef
from probe_flow.testing import builders
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
    facts = {"dtype": str(values.dtype), "extents": (Extent(str(file), 0, values.nbytes),), "source": str(file), **more}
    return builders.tensor(facts.pop("node", name), shape=values.shape, **facts)


def pairs_of(twosomes: list[tuple[TensorRef | None, TensorRef | None]]) -> Pairs:
    return builders.pairs_of([Pair(*two, "g", builders.EXACT) for two in twosomes], op_type="Relu")
