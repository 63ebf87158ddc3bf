"""Convert tensors one by one, as the `convert` stages do: each becomes a file, and what stands for it then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.elements.axis_order import channels_first
from probe_flow.elements.converted.files import ConvertedFile, FileKind, form_of, write_converted
from probe_flow.elements.converted.relayout import Relaid, as_stored, in_layout
from probe_flow.errors import Diagnostic, ProbeFlowError
from probe_flow.records import Extent, TensorRef
from probe_flow.tensors.encoding import held_as
from probe_flow.tensors.layouts import PLAIN_LAYOUTS
from probe_flow.tensors.stored_shapes import has_tensors_of
from probe_flow.transform.convert.names import ArrayName, converted_name, short_name
from probe_flow.transform.convert.writes import Wish, fulfil

_ONE_TENSOR = (".npy", ".pt")
"""Endings of dumped files that hold one tensor, whose number says nothing."""


class Wanted(Struct, frozen=True):
    """What the tensors become.

    Args:
        kind: what is written.
        layout: storage layout to bring them into; None = as they are stored.
        axes: order of the axes of plain tensors with so many of them; None = channels first.
        c0: elements of a block of channels; None = what is usual.
        names_shapes: whether file names give the shape.
    """

    kind: FileKind
    layout: str | None
    axes: str | None = None
    c0: int | None = None
    names_shapes: bool = False


class Job(Struct, frozen=True):
    """One tensor, by its place in the catalog, and the folder for it.

    ``named`` is its name where the dumped file does not give one.
    """

    index: int
    ref: TensorRef
    folder: Path
    named: ArrayName | None = None


class Batch(Struct, frozen=True):
    """Tensors for one worker."""

    jobs: tuple[Job, ...]
    wanted: Wanted
    replaces: bool = False


class Done(Struct, frozen=True):
    """What became of one tensor: what stands for it now, or why it is not converted; and its file's long name.

    ``is_left``: it has no such layout and stays as it is.
    """

    index: int
    ref: TensorRef | None = None
    problem: Diagnostic | None = None
    long_name: str | None = None
    is_left: bool = False


def convert_batch(batch: Batch) -> list[Done]:
    """Convert the tensors of a batch; what is wrong with one costs that one."""
    ended: list[Done] = []
    planned: dict[int, tuple[TensorRef, Relaid, ArrayName]] = {}
    for outcome in fulfil(_wishes(batch, planned, ended), replaces=batch.replaces):
        index = outcome.wish.key
        ref, relaid, name = planned[index]
        long_name = name.true_name or (name.name if name.name != outcome.wish.path.name else None)
        if outcome.problem is not None:
            ended.append(Done(index, problem=_of(outcome.problem, ref)))
        elif isinstance(outcome.made, ConvertedFile):
            path = os.path.abspath(outcome.wish.path)  # noqa: PTH100 - no link of the run's folder is resolved
            ended.append(Done(index, _converted(ref, relaid, outcome.made, path), long_name=long_name))
    return ended


def lost_batch(batch: Batch, reason: Diagnostic) -> list[Done]:
    """Return the ends of a batch whose worker died each time that it was tried."""
    return [Done(job.index, problem=reason) for job in batch.jobs]


def _wishes(batch: Batch, planned: dict[int, tuple[TensorRef, Relaid, ArrayName]], ended: list[Done]) -> Iterator[Wish]:
    wanted = batch.wanted
    for job in batch.jobs:
        ref = _in_order(job.ref, wanted.axes)
        if wanted.layout not in (None, ref.layout) and not has_tensors_of(wanted.layout, len(_logical_shape(ref))):
            ended.append(Done(job.index, is_left=True))
            continue
        found = _plan(ref, wanted)
        if isinstance(found, Diagnostic):
            ended.append(Done(job.index, problem=found))
            continue
        name = job.named or ArrayName(_name(ref, found, wanted))
        path = job.folder / short_name(name.name)
        planned[job.index] = (ref, found, name)
        yield Wish(job.index, path, partial(write_converted, found, path, wanted.kind))


def _in_order(ref: TensorRef, axes: str | None) -> TensorRef:
    """Return a plain tensor with its axes in the order that the options tell."""
    is_plain = axes is not None and ref.layout in PLAIN_LAYOUTS and len(_logical_shape(ref)) == len(axes)
    return channels_first(ref, axes) if is_plain and axes is not None else ref


def _plan(ref: TensorRef, wanted: Wanted) -> Relaid | Diagnostic:
    try:
        relaid = as_stored(ref) if wanted.layout is None else in_layout(ref, wanted.layout, c0=wanted.c0)
        form_of(relaid, wanted.kind)
    except ProbeFlowError as error:
        return _of(error.diagnostic, ref)
    return relaid


def _logical_shape(ref: TensorRef) -> tuple[int, ...]:
    return (ref.logical_shape if ref.logical_shape is not None else ref.shape) or ()


def _name(ref: TensorRef, relaid: Relaid, wanted: Wanted) -> str:
    source = Path(ref.extents[0].file if ref.extents else ref.source or ref.id).name
    dtype = form_of(relaid, wanted.kind).name
    name = converted_name(
        source,
        ref.slot,
        wanted.kind,
        shape=relaid.shape,
        dtype=dtype,
        layout=relaid.layout,
        is_relaid=wanted.names_shapes,
    )
    if source.endswith(_ONE_TENSOR):
        return name.replace(f"{source}.{ref.slot}", source.rpartition(".")[0], 1)
    return name


def _converted(ref: TensorRef, relaid: Relaid, made: ConvertedFile, path: str) -> TensorRef:
    name = made.form.name
    encoding = "raw" if name == ref.dtype else held_as("raw", name)
    extents = (Extent(path, made.offset, made.nbytes, encoding),)
    if relaid.layout == ref.layout and relaid.offsets is None and relaid.shape == ref.shape:
        return ref.changed(extents=extents, source=path)
    logical = relaid.source.logical_shape if relaid.offsets is not None else relaid.shape
    groups = ref.sub_format if relaid.offsets is not None else 0
    return ref.changed(
        layout=relaid.layout, shape=relaid.shape, logical_shape=logical, sub_format=groups, extents=extents,
        source=path,
    )  # fmt: skip


def _of(problem: Diagnostic, ref: TensorRef) -> Diagnostic:
    if problem.tensor is not None:
        return problem
    return replace(problem, message=f"`{ref.id}`: {problem.message}", path=problem.path or ref.source, tensor=ref.id)
