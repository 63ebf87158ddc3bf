"""Say of device tensors what their file leaves out, from the graph text: shapes, and dtypes of recorded statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from probe_flow.dumps.device_folders.layout import is_unsized, numel_of
from probe_flow.dumps.graph.edges import exits_of
from probe_flow.dumps.graph.links import GraphLinks, Source
from probe_flow.errors import NotComparableError
from probe_flow.records import SlotRole, TensorKind, TensorRef
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES, DEVICE_DTYPES
from probe_flow.tensors.layouts import PLAIN_LAYOUTS, axis_offsets

_DTYPES = {name: DEVICE_DTYPES[number] for number, name in DEVICE_DTYPE_NAMES.items()}


def with_graph_facts(refs: Sequence[TensorRef], links: GraphLinks, parts: Sequence[str]) -> list[TensorRef]:
    """Fill in what the graph knows of the tensors of one operator; what the file says itself is left as it is.

    Args:
        refs: tensors of the operator, inputs before outputs.
        links: the graph.
        parts: the graph operators behind the dumped one.
    """
    if all(ref.dtype and ref.logical_shape is not None and not is_unsized(ref) for ref in refs):
        return list(refs)
    inputs = [ref for ref in refs if ref.slot.role is SlotRole.INPUT]
    outputs = [int(ref.slot.path[0]) for ref in refs if ref.slot.role is not SlotRole.INPUT]
    count = max(outputs, default=-1) + 1
    exits = exits_of(links, parts, count)
    sources: list[Source | None] = [*links.input_sources(parts, [numel_of(ref) for ref in inputs]).sources]
    sources += [exits[index] if index < len(exits) else None for index in outputs]
    return [_with_facts(ref, links, source) for ref, source in zip(refs, sources, strict=True)]


def sized_alike(refs: Sequence[TensorRef]) -> list[TensorRef]:
    """Give the tensors of a cast or change of layout, whose values are the same, the shape that one of them has."""
    shape = next((ref.logical_shape for ref in refs if ref.logical_shape is not None and not is_unsized(ref)), None)
    return [_recorded_of(ref, shape) if ref.kind is TensorKind.STATISTICS else _of_shape(ref, shape) for ref in refs]


def _of_shape(ref: TensorRef, shape: tuple[int, ...] | None) -> TensorRef:
    """Return a tensor in blocks that its file gives no shape with one that they can hold."""
    if shape is None or not is_unsized(ref) or not math.prod(shape):
        return ref
    try:
        axis_offsets(ref.layout, ref.shape or (), shape, sub_format=ref.sub_format)
    except NotComparableError:
        return ref
    return ref.changed(logical_shape=shape)


def _with_facts(ref: TensorRef, links: GraphLinks, source: Source | None) -> TensorRef:
    if source is not None and is_unsized(ref):
        return _of_shape(ref, links.shape(source))
    known = links.output(source) if source is not None else None
    if ref.kind is not TensorKind.STATISTICS or known is None or source is None:
        return ref
    stored_dtype = known.dtype or ""
    if not ref.dtype and stored_dtype in _DTYPES:
        ref = ref.changed(dtype=_DTYPES[stored_dtype], stored_dtype=stored_dtype)
    return _recorded_of(ref, links.shape(source))


def _recorded_of(ref: TensorRef, shape: tuple[int, ...] | None) -> TensorRef:
    """Return recorded statistics as those of a tensor of a shape, where the file gives none and this may be it."""
    if ref.logical_shape is not None or shape is None or not _may_be(ref, shape):
        return ref
    facts: dict[str, Any] = {"logical_shape": shape}
    if ref.shape is None:
        facts["shape"] = shape
    elif ref.recorded is not None and math.prod(shape) != math.prod(ref.shape):
        facts["recorded"] = ref.recorded.without_padding(math.prod(ref.shape), math.prod(shape))
    return ref.changed(**facts)


def _may_be(ref: TensorRef, shape: Sequence[int]) -> bool:
    """Whether a tensor can have the shape that the graph gives: the device may know better."""
    count, numel = ref.facts.count, math.prod(shape)
    if count is not None:
        return count == numel
    if ref.shape is None:
        return True
    stored = math.prod(ref.shape)
    return stored == numel if ref.layout in PLAIN_LAYOUTS else stored >= numel
