"""Compare the dumps of repeated runs file by file: what differs in a bit was not computed deterministically."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.dumps.manifest import ManifestTensor, read_manifest
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import open_bytes, regular
from probe_flow.records import Catalog, TensorKind, TensorRef

_BLOCK = 1 << 20
_MAX_LISTED = 10


class Unequal(Struct, frozen=True):
    """One array that a repeated run computed otherwise; ``max_abs`` is None for one of another shape, or missing.

    Of tensors that were dumped as statistics it is the largest difference of these.
    """

    execution: str
    node: str
    target: str
    slot: str
    max_abs: float | None


def unequal_files(first: Path, second: Path) -> Iterator[Unequal]:
    """Yield what differs between two dumps of the same model that have manifests, in the order of the first."""
    one, other = read_manifest(first), read_manifest(second)
    found = {_key(tensor): tensor.file for tensor in (other.tensors if other is not None else ())}
    for tensor in one.tensors if one is not None else ():
        partner = found.get(_key(tensor))
        difference = array_difference(first / tensor.file, second / partner) if partner is not None else None
        if difference != 0.0:
            slot = f"{tensor.slot}.{tensor.index}".upper()
            yield Unequal(first.parent.name, tensor.node, tensor.op_type, slot, difference)


def unequal_tensors(first: Catalog, second: Catalog) -> Iterator[Unequal]:
    """Yield what differs between two catalogs of the same model, tensors of numbers, in the order of the first."""
    found = {(ref.node, ref.slot): ref for ref in second.tensors}
    for ref in first.tensors:
        if ref.kind is not TensorKind.TENSOR:
            continue
        partner = found.get((ref.node, ref.slot))
        difference = _difference(ref, partner) if partner is not None else None
        if difference != 0.0:
            node = first.nodes[ref.node]
            slot = f"{ref.slot.role.value}.{ref.slot.index}".upper()
            yield Unequal(first.side, ref.node.name, node.op_type, slot, difference)


def _difference(ref: TensorRef, other: TensorRef) -> float | None:
    """Return the largest difference of two tensors; None where shapes or types differ."""
    count = ref.numel
    if count is None or (other.kind, ref.dtype, ref.shape) != (TensorKind.TENSOR, other.dtype, other.shape):
        return None
    greatest = 0.0
    with open_tensor(ref) as one, open_tensor(other) as two:
        for start in range(0, count, _BLOCK):
            stop = min(start + _BLOCK, count)
            greatest = max(greatest, _greatest_gap(one.read(start, stop), two.read(start, stop)))
    return greatest


def largest(found: Iterable[Unequal]) -> list[Unequal]:
    """Return each tensor once, with the largest of its differences; one that is missing counts as larger than all."""
    kept: dict[tuple[str, str, str], Unequal] = {}
    for each in found:
        known = kept.setdefault((each.execution, each.node, each.slot), each)
        if known.max_abs is not None and (each.max_abs is None or each.max_abs > known.max_abs):
            kept[each.execution, each.node, each.slot] = each
    return list(kept.values())


def _key(tensor: ManifestTensor) -> tuple[object, ...]:
    return tensor.node, tensor.slot, tensor.index, tensor.item, tensor.is_reduced


def not_deterministic(unequal: list[Unequal]) -> Diagnostic:
    """Return PF6330: the operators that are the first to differ, outputs before what they are passed on to."""
    outputs = [each for each in unequal if each.slot.startswith("OUTPUT")]
    inputs = {(each.execution, each.node) for each in unequal if each.slot.startswith("INPUT")}
    own = [each for each in outputs if (each.execution, each.node) not in inputs] or outputs or unequal
    named = list(dict.fromkeys(f"{each.target} (`{each.node}`)" for each in own))
    return Diagnostic(
        "PF6330",
        f"{len(unequal)} tensor{'s' if len(unequal) > 1 else ''} of repeated runs differ; "
        + (f"{len(named)} operators are" if len(named) > 1 else "1 operator is")
        + " not deterministic",
        severity=Severity.WARNING,
        help="differences up to these come from the run itself, not from the device",
        notes=tuple(
            f"`{each.execution}/{each.node}` ({each.target}) {each.slot}: {_figure(each.max_abs)}"
            for each in own[:_MAX_LISTED]
        ),
    )


def _figure(value: float | None) -> str:
    return "missing, or of another shape" if value is None else f"largest difference {value:.6g}"


def array_difference(path: Path, other: Path) -> float | None:
    """Return the largest difference of two arrays, 0.0 for the same bytes."""
    if _same_bytes(path, other):
        return 0.0
    try:
        a, b = (np.load(regular(each), mmap_mode="r", allow_pickle=False) for each in (path, other))
    except ValueError:
        return None
    if a.shape != b.shape or a.dtype != b.dtype:
        return None
    if a.dtype.names is not None:
        a, b = (np.array([each[name] for name in a.dtype.names if a.dtype[name].kind == "f"]) for each in (a, b))
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    blocks = (slice(start, start + _BLOCK) for start in range(0, a.size, _BLOCK))
    return max((_greatest_gap(flat_a[block], flat_b[block]) for block in blocks), default=0.0)


def _greatest_gap(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the largest difference of two blocks; infinite where only one has a NaN."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(invalid="ignore"):
        gaps = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return math.inf if np.isnan(gaps).any() else float(gaps.max(initial=0.0))


def _same_bytes(path: Path, other: Path) -> bool:
    if path.stat().st_size != other.stat().st_size:
        return False
    with open_bytes(path) as a, open_bytes(other) as b:
        while block := a.read(_BLOCK):
            if block != b.read(_BLOCK):
                return False
    return True
