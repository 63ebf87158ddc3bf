"""What every `convert` stage does: write the tensors of a catalog as files, and return the catalog of these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from probe_flow.elements.converted.files import FileKind
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.streamed_file import clear_stale
from probe_flow.jobs import in_batches
from probe_flow.records import Catalog, TensorKind
from probe_flow.records.frameworks import TFDBG
from probe_flow.transform.convert.names import ArrayName, add_to_mapping, array_names
from probe_flow.transform.convert.tensors import Batch, Done, Job, Wanted, convert_batch, lost_batch

if TYPE_CHECKING:
    from probe_flow.jobs import TaskMap
    from probe_flow.work import Emit

BATCH_BYTES = 64 * 2**20
BATCH_TENSORS = 200
MAX_PROBLEMS = 20


class Surroundings(Protocol):
    """What conversion takes from where it runs: a `Context`, or a command's own."""

    @property
    def stage(self) -> str: ...

    @property
    def output(self) -> Path: ...

    @property
    def map(self) -> TaskMap: ...

    @property
    def emit(self) -> Emit: ...

    @property
    def report(self) -> Callable[[Iterable[Diagnostic]], None]: ...


def convert_catalog(
    catalog: Catalog,
    wanted: Wanted,
    context: Surroundings,
    *,
    folder: str | None,
    nodes: Sequence[str] | None,
    replaces: bool,
) -> Catalog:
    """Write tensors of a catalog as files and return it with these in their place.

    Tensors that the wanted layout has no place for, such as a vector in NC1HWC0, stay as they are: PF6510 lists them.

    Args:
        catalog: what a dump has.
        wanted: kind and layout of the files.
        context: the stage's.
        folder: where the files go; None: into the run's folder.
        nodes: patterns of the nodes whose tensors are converted; None: all.
        replaces: whether files of the same names that hold something else are replaced.

    Raises:
        UsageError: PF6501, PF6502 the folder of the files.
        IncompleteError: PF6507 no tensor to convert, PF6508 some are not converted; the others are. PF6511 none has
            the wanted layout.
    """
    is_ours = folder is None
    output = context.output / "converted" / context.stage if folder is None else Path(folder)
    names = array_names(catalog) if catalog.framework == TFDBG and wanted.kind is FileKind.NPY else {}
    jobs = _jobs(catalog, output, nodes, names)
    if not jobs:
        raise IncompleteError(_nothing(catalog, nodes))
    if is_ours:
        _refuse_links(context.output, {output, *(job.folder for job in jobs)})
    _prepare(output, jobs, catalog)
    filled = in_batches(([job.ref.nbytes] for job in jobs), most_bytes=BATCH_BYTES, most_jobs=BATCH_TENSORS)
    batches = [Batch(tuple(jobs[piece]), wanted, replaces or is_ours) for piece in filled]
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
    left = sorted(done.index for done in found if done.is_left)
    if len(left) == len(jobs):
        raise IncompleteError(_no_layout(catalog, wanted, context.stage))
    if left:
        context.report([_left(catalog, left, wanted, context.stage)])
    if problems:
        raise IncompleteError((_gaps(len(problems), len(jobs), context.stage, output), *problems[:MAX_PROBLEMS]))
    return replace(catalog, side=context.stage, root=str(output.resolve()), tensors=tuple(tensors))


def _jobs(catalog: Catalog, output: Path, nodes: Sequence[str] | None, names: Mapping[int, ArrayName]) -> list[Job]:
    """Return the tensors with elements, each with the folder that mirrors where its file lies in the dump.

    Those with a name of their own go to one folder.
    """
    jobs: list[Job] = []
    for index, ref in enumerate(catalog.tensors):
        if ref.kind is not TensorKind.TENSOR:
            continue
        if nodes is not None and not any(fnmatchcase(ref.node.name, pattern) for pattern in nodes):
            continue
        file = Path(ref.extents[0].file if ref.extents else ref.source or "")
        inside = file.is_relative_to(catalog.root) and catalog.root
        below = output / file.parent.relative_to(catalog.root) if inside and not names else output
        jobs.append(Job(index, ref, below, names.get(index)))
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


def _refuse_links(run: Path, folders: Iterable[Path]) -> None:
    """Refuse folders of the run that are links: what lies behind them is not the run's to replace or remove."""
    for folder in sorted(folders):
        for place in (folder, *folder.parents):
            if place == run:
                break
            if place.is_symlink():
                message = f"`{place}` is a link, and the run clears its own folder only"
                cure = "remove the link, or name the folder that it leads to with `output`"
                raise UsageError(Diagnostic("PF6502", message, path=str(place), help=cure))


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


def _left(catalog: Catalog, left: Sequence[int], wanted: Wanted, stage: str) -> Diagnostic:
    tensors = [catalog.tensors[index] for index in left]
    shown = [f"`{ref.id}` {list(ref.logical_shape or ref.shape or ())}" for ref in tensors[:MAX_PROBLEMS]]
    more = [f"and {len(left) - MAX_PROBLEMS} more"] if len(left) > MAX_PROBLEMS else []
    return Diagnostic(
        "PF6510",
        f"{len(left)} tensors of stage `{stage}` have no layout `{wanted.layout}` and stay as they are",
        severity=Severity.NOTE,
        notes=(*shown, *more),
        help="name the nodes to convert with `nodes`, or convert to ND",
    )


def _no_layout(catalog: Catalog, wanted: Wanted, stage: str) -> Diagnostic:
    message = f"no tensor of stage `{stage}` has a layout `{wanted.layout}`: their number of axes is another one"
    cure = "name a layout for tensors of that many axes, or ND"
    return Diagnostic("PF6511", message, path=catalog.root or None, help=cure)


def _gaps(failed: int, count: int, stage: str, output: Path) -> Diagnostic:
    return Diagnostic(
        "PF6508",
        f"{failed} of {count} tensors of stage `{stage}` are not converted",
        path=str(output),
        help="the reasons follow; the other files are there, and are not written twice",
    )
