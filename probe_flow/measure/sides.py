"""Both sides of a pair as they are read to be compared: axes in one order, elements beside statistics reduced.

Of a side that has its elements, where the other has statistics, only what that one recorded is computed, in the form in
which it was recorded; then the two are compared like any two recorded sets of figures.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from msgspec import structs

from probe_flow.records import Pair, TensorKind, TensorRef

_KINDS = frozenset((TensorKind.TENSOR, TensorKind.STATISTICS))
_NAMES = ("min", "max", "mean", "l2norm")
_COUNTS = {"nan": "nan_count", "inf": "inf_count"}
"""What is counted of a tensor -> the figure of it. Counts tell of single NaN, where extremes are of the others; alone
they are no comparison."""

_KEPT = "reduced"


class Reduced(NamedTuple):
    """The statistics of one tensor: their names, and a figure for each."""

    names: tuple[str, ...]
    figures: tuple[float, ...]


def aligned_sides(pair: Pair) -> tuple[TensorRef, TensorRef]:
    """Return target and golden of a two-sided pair as they are to be read, element by element alike.

    Raises:
        ValueError: when a word of its transform does not fit: a fault of the matcher, which knows the shapes.
    """
    assert pair.target is not None
    assert pair.golden is not None
    if not pair.transform:
        return pair.target, pair.golden
    from probe_flow.elements.axis_order import aligned

    sides = aligned({"target": pair.target, "golden": pair.golden}, pair.transform)
    return sides["target"], sides["golden"]


def is_mixed(pair: Pair) -> bool:
    """Whether exactly one side has its elements and the other has statistics."""
    target, golden = pair.target, pair.golden
    return target is not None and golden is not None and {target.kind, golden.kind} == _KINDS


def element_side(pair: Pair) -> TensorRef:
    """Return the side of a mixed pair that has its elements."""
    assert pair.target is not None
    assert pair.golden is not None
    return pair.target if pair.target.kind is TensorKind.TENSOR else pair.golden


def figures_to_take(pair: Pair) -> tuple[str, ...]:
    """Return which statistics of the elements of a mixed pair can be compared with what the other side recorded."""
    elements = element_side(pair)
    other = pair.golden if elements is pair.target else pair.target
    assert other is not None
    recorded = other.recorded
    names = [name for name in _NAMES if recorded is not None and getattr(recorded, name) is not None]
    if names:
        names += [figure for name, figure in _COUNTS.items() if getattr(recorded, name) is not None]
    if other.checksum and hashed_dtype(other) == _own_hash_dtype(elements):
        names.append("crc32")
    return tuple(names)


def hashed_dtype(tensor: TensorRef) -> str:
    """Return the dtype whose bytes a recorded checksum is of."""
    return tensor.facts.hashed_as or tensor.dtype


def _own_hash_dtype(elements: TensorRef) -> str:
    """Return the dtype in which elements are hashed here: other dumps hold bfloat16 as float32."""
    return "float32" if elements.dtype == "bfloat16" else elements.dtype


def with_statistics(pair: Pair, found: Reduced) -> Pair:
    """Return a mixed pair with the statistics of its elements in their place."""
    elements = element_side(pair)
    from probe_flow.dumps.reduced.reduced_files import ReducedTensor
    from probe_flow.dumps.reduced.reduced_tensors import recorded_ref

    content = ReducedTensor(found.figures, elements.dtype, elements.logical_shape)
    taken = recorded_ref(elements.node, elements.slot, found.names, content, source=elements.source or "")
    reduced = elements.changed(
        kind=TensorKind.STATISTICS,
        recorded=taken.recorded,
        checksum=taken.checksum,
        count=taken.facts.count,
        hashed_as=taken.facts.hashed_as,
    )
    return structs.replace(pair, target=reduced) if elements is pair.target else structs.replace(pair, golden=reduced)


def reduced_text(found: Reduced) -> str:
    """Return the text of statistics, for the cache."""
    return json.dumps([_KEPT, found.names, found.figures])


def reduced_of(text: str) -> Reduced | None:
    """Return the statistics that a text was made of, None when it holds something else."""
    try:
        kind, names, figures = json.loads(text)
        found = Reduced(tuple(str(name) for name in names), tuple(float(figure) for figure in figures))
    except (ValueError, TypeError):
        return None
    return found if kind == _KEPT and len(names) == len(figures) else None
