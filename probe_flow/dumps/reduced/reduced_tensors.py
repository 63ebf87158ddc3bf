"""Describe the tensors of reduced TorchAir files: their statistics are known, their elements are gone.

The files are those of `dumps.reduced.reduced_files`. What they do not say of a tensor (dtype, shape) stays unknown
here; `dumps.device_folders.graph_facts` takes it from the graph. Figures of functions of the user's own are kept as
facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probe_flow.errors import Diagnostic, Severity
from probe_flow.records import NodeKey, Problem, Slot, SlotRole, Statistics, TensorKind, TensorRef, shared_slot
from probe_flow.tensors.dtypes import DTYPES

if TYPE_CHECKING:
    from probe_flow.dumps.reduced.reduced_files import ReducedDevice, ReducedTensor

_MAX_LISTED = 20


def array_ref(path: Path | str, node_key: NodeKey, slot: Slot) -> TensorRef:
    """Describe a reduced FX array.

    Raises:
        FormatError: PF3001/PF3002 unreadable, PF3230 no such file.
    """
    from probe_flow.dumps.reduced.reduced_files import ReducedArray

    content = ReducedArray.read(path)
    return recorded_ref(node_key, slot, content.names, content.tensor, source=str(path))


def device_refs(content: ReducedDevice, path: Path | str, node_key: NodeKey) -> list[TensorRef]:
    """Return one tensor per slot of a reduced device file, inputs before outputs."""
    sides = ((SlotRole.INPUT, content.inputs), (SlotRole.OUTPUT, content.outputs))
    return [
        recorded_ref(node_key, shared_slot(role, (index,)), content.names, tensor, source=str(path))
        for role, tensors in sides
        for index, tensor in enumerate(tensors)
    ]


def recorded_ref(
    node_key: NodeKey, slot: Slot, names: Sequence[str], tensor: ReducedTensor, *, source: str
) -> TensorRef:
    """Return a tensor of which only figures are known; ``names`` says what each figure is."""
    figures = dict(zip(names, tensor.figures, strict=True))
    dtype = tensor.dtype or ""
    checksum = _count(figures.get("crc32"))
    is_opaque = dtype in DTYPES and not DTYPES[dtype].decodable and all(map(math.isnan, tensor.figures))
    return TensorRef.of(
        node_key,
        slot,
        TensorKind.OPAQUE if is_opaque else TensorKind.STATISTICS,
        dtype=dtype,
        stored_dtype=dtype,
        shape=tensor.shape,
        logical_shape=tensor.shape,
        recorded=statistics_of(figures, dtype),
        checksum=None if checksum is None else f"{checksum:08x}",
        source=source,
        reason=f"elements of `{dtype}` could not be decoded when the dump was reduced" if is_opaque else None,
        count=_count(figures.get("count")) if tensor.shape is None else None,
        hashed_as="float32" if checksum is not None and dtype == "bfloat16" else None,
    )


def statistics_of(figures: Mapping[str, float], dtype: str) -> Statistics:
    """Return statistics by the names that reduced files use; extremes of integers are integers."""
    nan, inf = _count(figures.get("nan_count")), _count(figures.get("inf_count"))
    return Statistics(
        min=_extreme(figures.get("min"), dtype),
        max=_extreme(figures.get("max"), dtype),
        mean=figures.get("mean"),
        l2norm=figures.get("l2norm"),
        nan=nan,
        inf=inf,
    )


def _count(value: float | None) -> int | None:
    is_count = value is not None and math.isfinite(value) and value >= 0 and value == math.floor(value)
    return int(value) if value is not None and is_count else None


def _extreme(value: float | None, dtype: str) -> float | int | bool | None:
    if value is None or not math.isfinite(value) or value != math.floor(value):
        return value
    if dtype == "bool":
        return bool(value)
    return int(value) if dtype.startswith(("int", "uint")) else value


def task_of(tensors: Iterable[TensorRef]) -> str:
    """Return what a dump holds of its tensors: ``statistics`` or ``md5`` when nothing else, ``tensor`` otherwise."""
    known = [tensor for tensor in tensors if tensor.kind in (TensorKind.TENSOR, TensorKind.STATISTICS)]
    if not known or any(tensor.kind is TensorKind.TENSOR for tensor in known):
        return "tensor"
    has_figures = any(tensor.recorded not in (None, Statistics()) for tensor in known)
    return "statistics" if has_figures or not any(tensor.checksum for tensor in known) else "md5"


def reduced_beside_tensors(names: Sequence[str]) -> Problem:
    """Say that reduced files are passed over because the tensors that they stand for are there too."""
    more = (f"... and {len(names) - _MAX_LISTED} more",) if len(names) > _MAX_LISTED else ()
    plural = "s are" if len(names) > 1 else " is"
    return Diagnostic(
        "PF3250",
        f"{len(names)} file{plural} passed over: the tensors that they were made of are there too, and are read",
        severity=Severity.NOTE,
        help="to compare statistics, delete the dumped tensors, or compare with a reduced dump",
        notes=(*(f"`{name}`" for name in names[:_MAX_LISTED]), *more),
        path=names[0],
    )
