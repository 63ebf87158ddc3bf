"""What every `convert` stage does: write the tensors of a catalog as files, and return the catalog of these."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, UsageError
from probe_flow.formats.converted_files import ConvertedFile, FileKind, form_of, write_converted
from probe_flow.formats.converted_names import add_to_mapping, converted_name, short_name
from probe_flow.formats.encoding import held_as
from probe_flow.formats.relayout import Relaid, as_stored, in_layout
from probe_flow.formats.streamed_file import clear_stale
from probe_flow.records import Catalog, Extent, TensorKind, TensorRef
from probe_flow.stages.base import Context
from probe_flow.stages.convert_options import ConvertOptions
from probe_flow.stages.convert_writes import Wish, fulfil

BATCH_BYTES = 64 * 2**20
BATCH_TENSORS = 200
MAX_PROBLEMS = 20

_ONE_TENSOR = (".npy", ".pt")
"""Endings of dumped files that hold one tensor, whose number says nothing."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the tensors become.

    Args:
        kind: what is written.
        layout: storage layout to bring them into; None = as they are stored.
        c0: elements of a block of channels; None = what is usual.
        names_shapes: whether file names give the shape.
    """

    kind: FileKind
    layout: str | None
    c0: int | None = None
    names_shapes: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One tensor, by its place in the catalog, and the folder for it."""

    index: int
    ref: TensorRef
    folder: Path


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors for one worker."""

    jobs: tuple[Job, ...]
    wanted: Wanted
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one tensor: what stands for it now, or why it is not converted; and its file's long name."""

    index: int
    ref: TensorRef | None = None
    problem: Diagnostic | None = None
    long_name: str | None = None


def convert_catalog(catalog: Catalog, wanted: Wanted, options: ConvertOptions, context: Context) -> Catalog:
    """Write tensors of a catalog as files and return it with these in their place.

    Raises:
        UsageError: PF6501, PF6502 the folder of the files.
        IncompleteError: PF6507 no tensor to convert, PF6508 some are not converted; the others are.
    """
    is_ours = options.output is None
    output = context.output / "converted" / context.stage if options.output is None else Path(options.output)
    jobs = _jobs(catalog, output, options.nodes)
    if not jobs:
        raise IncompleteError(_nothing(catalog, options.nodes))
    _prepare(output, jobs, catalog)
    batches = list(_batches(jobs, wanted, replaces=options.replace or is_ours))
    sizes = [sum(job.ref.nbytes for job in batch.jobs) for batch in batches]
    found = [done for _, ended in context.map(convert_batch, batches, sizes=sizes, lost=lost_batch) for done in ended]
    tensors = list(catalog.tensors)
    for done in found:
        if done.ref is not None:
            tensors[done.index] = done.ref
    if is_ours:
        _remove_others(output, found)
    _write_mappings(found)
    problems = [done.problem for done in sorted(found, key=lambda done: done.index) if done.problem is not None]
    context.emit("convert.ended", tensors=len(jobs), failed=len(problems), output=str(output))
    if problems:
        raise IncompleteError((_gaps(len(problems), len(jobs), context.stage, output), *problems[:MAX_PROBLEMS]))
    return replace(catalog, side=context.stage, root=str(output.resolve()), tensors=tuple(tensors))


def convert_batch(batch: Batch) -> list[Done]:
    """Convert the tensors of a batch; what is wrong with one costs that one."""
    ended: list[Done] = []
    planned: dict[int, tuple[TensorRef, Relaid, str]] = {}
    for outcome in fulfil(_wishes(batch, planned, ended), replaces=batch.replaces):
        index = outcome.wish.key
        ref, relaid, name = planned[index]
        long_name = name if name != outcome.wish.path.name else None
        if outcome.problem is not None:
            ended.append(Done(index, problem=_of(outcome.problem, ref)))
        elif isinstance(outcome.made, ConvertedFile):
            path = os.path.abspath(outcome.wish.path)  # noqa: PTH100 - no link of the run's folder is resolved
            ended.append(Done(index, _converted(ref, relaid, outcome.made, path), long_name=long_name))
    return ended


def lost_batch(batch: Batch, reason: Diagnostic) -> list[Done]:
    """Return the ends of a batch whose worker died each time that it was tried."""
    return [Done(job.index, problem=reason) for job in batch.jobs]


def _wishes(batch: Batch, planned: dict[int, tuple[TensorRef, Relaid, str]], ended: list[Done]) -> Iterator[Wish]:
    wanted = batch.wanted
    for job in batch.jobs:
        found = _plan(job.ref, wanted)
        if isinstance(found, Diagnostic):
            ended.append(Done(job.index, problem=found))
            continue
        name = _name(job.ref, found, wanted)
        path = job.folder / short_name(name)
        planned[job.index] = (job.ref, found, name)
        yield Wish(job.index, path, partial(write_converted, found, path, wanted.kind))


def _plan(ref: TensorRef, wanted: Wanted) -> Relaid | Diagnostic:
    try:
        relaid = as_stored(ref) if wanted.layout is None else in_layout(ref, wanted.layout, c0=wanted.c0)
        form_of(relaid, wanted.kind)
    except ProbeFlowError as error:
        return _of(error.diagnostic, ref)
    return relaid


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
        return replace(ref, extents=extents, source=path)
    logical = relaid.source.logical_shape if relaid.offsets is not None else relaid.shape
    groups = ref.sub_format if relaid.offsets is not None else 0
    return replace(
        ref, layout=relaid.layout, shape=relaid.shape, logical_shape=logical, sub_format=groups, extents=extents,
        source=path,
    )  # fmt: skip


def _of(problem: Diagnostic, ref: TensorRef) -> Diagnostic:
    if problem.tensor is not None:
        return problem
    return replace(problem, message=f"`{ref.id}`: {problem.message}", path=problem.path or ref.source, tensor=ref.id)


def _jobs(catalog: Catalog, output: Path, nodes: Sequence[str] | None) -> list[Job]:
    """Return the tensors with elements, each with the folder that mirrors where its file lies in the dump."""
    jobs: list[Job] = []
    for index, ref in enumerate(catalog.tensors):
        if ref.kind is not TensorKind.TENSOR:
            continue
        if nodes is not None and not any(fnmatchcase(ref.node.name, pattern) for pattern in nodes):
            continue
        file = Path(ref.extents[0].file if ref.extents else ref.source or "")
        inside = file.is_relative_to(catalog.root) and catalog.root
        jobs.append(Job(index, ref, output / file.parent.relative_to(catalog.root) if inside else output))
    return jobs


def _prepare(output: Path, jobs: Sequence[Job], catalog: Catalog) -> None:
    root = Path(catalog.root).resolve() if catalog.root else None
    if root is not None and output.resolve() == root:
        message = f"`{output}` is the folder of the dumped files"
        raise UsageError(Diagnostic("PF6501", message, path=str(output), help="name another folder with `output`"))
    try:
        for folder in {job.folder for job in jobs}:
            folder.mkdir(parents=True, exist_ok=True)
            clear_stale(folder)
    except OSError as error:
        message = f"`{output}` cannot be used: {error.strerror or error}"
        cure = "name another folder with `output`, or give yourself the right to write there"
        raise UsageError(Diagnostic("PF6502", message, path=str(output), help=cure)) from error


def _batches(jobs: Sequence[Job], wanted: Wanted, *, replaces: bool) -> Iterator[Batch]:
    current: list[Job] = []
    size = 0
    for job in jobs:
        if current and (size + job.ref.nbytes > BATCH_BYTES or len(current) >= BATCH_TENSORS):
            yield Batch(tuple(current), wanted, replaces)
            current, size = [], 0
        current.append(job)
        size += job.ref.nbytes
    yield Batch(tuple(current), wanted, replaces)


def _remove_others(folder: Path, found: Sequence[Done]) -> None:
    """Remove what an earlier run into the same folder left; the folder is the stage's own."""
    kept = {done.ref.source for done in found if done.ref is not None}
    for place, _, names in os.walk(os.path.abspath(folder)):  # noqa: PTH100 - as the paths of the files
        for name in names:
            if (path := os.path.join(place, name)) not in kept:  # noqa: PTH118
                Path(path).unlink()


def _write_mappings(found: Sequence[Done]) -> None:
    folders: dict[Path, dict[str, str]] = {}
    for done in found:
        if done.long_name is not None and done.ref is not None and done.ref.source is not None:
            path = Path(done.ref.source)
            folders.setdefault(path.parent, {})[path.name] = done.long_name
    for folder, names in folders.items():
        add_to_mapping(folder, names)


def _nothing(catalog: Catalog, nodes: Sequence[str] | None) -> Diagnostic:
    which = "" if nodes is None else " of " + ", ".join(f"`{pattern}`" for pattern in nodes)
    message = f"`{catalog.root or catalog.side}` holds no tensor with elements{which}"
    cure = "correct `nodes`, or the dump stage that is named" if nodes else "a dump of statistics has none to convert"
    return Diagnostic("PF6507", message, path=catalog.root or None, help=cure)


def _gaps(failed: int, count: int, stage: str, output: Path) -> Diagnostic:
    return Diagnostic(
        "PF6508",
        f"{failed} of {count} tensors of stage `{stage}` are not converted",
        path=str(output),
        help="the reasons follow; the other files are there, and are not written twice",
    )
