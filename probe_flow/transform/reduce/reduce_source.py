"""Reduce the dump of another stage: the files of its tensors, into a folder of their own.

The catalog of what is there then is that of the dump, with figures in place of elements. Nodes, slots, shapes and
executions stay: nothing is told from the names of the reduced files.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice, ReducedTensor
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.dumps.reduced.reduced_tensors import recorded_ref, task_of
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.folder_changes import identity_of
from probe_flow.files.folder_lock import FolderLock
from probe_flow.jobs import TaskMap
from probe_flow.records import Catalog, SlotRole, TensorKind, TensorRef
from probe_flow.transform.reduce.reduce_file import Done, Ending, Job, lost_batch, reduce_batch
from probe_flow.transform.reduce.reduce_folders import batches_of, clear_leftovers, copy_companions
from probe_flow.transform.reduce.reduce_stop import Stop
from probe_flow.transform.reduce.reduce_summary import Summary
from probe_flow.transform.reduce.reduce_tensors import Figures
from probe_flow.transform.reduce.reducible_files import SourceKind, source_kind

_MAX_LISTED = 20
_DONE = (Ending.REDUCED, Ending.ALREADY)


class SourceReduction:
    """The reduction of one catalog.

    Args:
        catalog: of the dump.
        output: folder for the reduced files.
        figures: what tensors are reduced to.
        suffix: of the reduced files' names.

    Raises:
        UsageError: PF6335 the folder is that of the dump, or inside it.
        IncompleteError: PF6334 nothing of the dump can be reduced.
    """

    def __init__(self, catalog: Catalog, output: Path, figures: Figures, suffix: str) -> None:
        self._catalog = catalog
        self._figures = figures
        self._suffix = suffix
        self._root = Path(catalog.root)
        self._output = output
        self._results: dict[str, str] = {}
        self._files: dict[str, list[int]] = defaultdict(list)
        self._left: list[int] = []
        for index, ref in enumerate(catalog.tensors):
            if ref.kind is TensorKind.TENSOR or ref.kind is TensorKind.STATISTICS:
                file = _file_of(ref, suffix)
                if file is None:
                    self._left.append(index)
                else:
                    self._files[file].append(index)
        if not self._files:
            raise IncompleteError(_nothing(catalog))
        if output.resolve() == self._root.resolve() or self._root.resolve() in output.resolve().parents:
            raise UsageError(_in_the_dump(output))

    def run(self, tasks: TaskMap, stop: Stop, tell: Callable[[Diagnostic], None]) -> Summary:
        """Reduce the files, and copy what a reader needs beside them.

        Raises:
            UsageError: PF6301 another reducer is at work in the folder, PF6302 it cannot be written.
        """
        summary = Summary()
        jobs = list(self._jobs(summary))
        batches = batches_of(jobs, self._figures, deletes_source=False, stop=stop.path)
        sizes = [sum(job.size for job in batch.jobs) for batch in batches]
        with suppress(OSError):  # what is wrong with it, the lock will say
            self._output.mkdir(parents=True, exist_ok=True)
        with FolderLock(self._output) as lock:
            clear_leftovers(self._output, self._suffix, own=(self._output,))
            serial = self._figures.serial_bytes(sum(sizes))
            for _, ended in tasks(reduce_batch, batches, sizes=sizes, lost=lost_batch, serial_bytes=serial):
                for done in ended:
                    self._take(done, summary, tell)
                lock.keep()
            if self._root.is_dir():
                for problem in copy_companions(self._root, self._output):
                    summary.gaps[str(problem.path)] = (Ending.FAILED, problem)
        return summary

    def catalog(self, side: str) -> Catalog:
        """Return the catalog with figures in place of elements."""
        tensors = list(self._catalog.tensors)
        for file, result in self._results.items():
            found = _figures_of(result)
            for index in self._files[file]:
                ref = tensors[index]
                content = found(ref)
                if content is not None:
                    tensors[index] = _recorded(ref, *content, result)
        root = str(self._output.resolve())
        return replace(self._catalog, side=side, task=task_of(tensors), root=root, tensors=tuple(tensors))

    def remarks(self) -> list[Diagnostic]:
        """Return what is to be said of tensors that stay as they are."""
        if not self._left:
            return []
        left = [self._catalog.tensors[index] for index in self._left]
        shown = tuple(f"`{ref.id}`: {_why(ref)}" for ref in left[:_MAX_LISTED])
        more = (f"... and {len(left) - _MAX_LISTED} more",) if len(left) > _MAX_LISTED else ()
        text = f"{len(left)} tensors of `{self._catalog.side}` are not reduced and stay as they are"
        cure = "compare reduces them when the other side holds statistics"
        return [Diagnostic("PF6336", text, severity=Severity.NOTE, help=cure, notes=(*shown, *more))]

    def _jobs(self, summary: Summary) -> Iterator[Job]:
        for file in self._files:
            path = Path(file)
            name = reduced_name(path.name, self._suffix)
            below = path.parent.relative_to(self._root) if path.is_relative_to(self._root) else Path()
            kind = source_kind(path.name, self._suffix)
            assert isinstance(kind, SourceKind), "only files that can be reduced are taken"
            try:
                identity = identity_of(path.lstat())
            except OSError as error:
                why = error.strerror or str(error)
                cure = "make the dump again, or `select` what is there"
                problem = Diagnostic("PF6304", f"`{path.name}` cannot be reduced: {why}", path=file, help=cure)
                summary.gaps[file] = (Ending.FAILED, problem)
                continue
            yield Job(file, str(self._output.resolve() / below / name), kind, identity)

    def _take(self, done: Done, summary: Summary, tell: Callable[[Diagnostic], None]) -> None:
        if done.ending is Ending.LEFT:
            summary.left += 1
        elif done.ending in _DONE:
            self._results[done.job.source] = done.job.result
        if summary.add(done) and done.problem is not None:
            tell(done.problem)


def _file_of(ref: TensorRef, suffix: str) -> str | None:
    """Return the file that a tensor lies in; None where it lies in several, or in one that cannot be reduced."""
    files = {extent.file for extent in ref.extents}
    if ref.kind is not TensorKind.TENSOR or len(files) != 1:
        return None
    (file,) = files
    return file if isinstance(source_kind(os.path.basename(file), suffix), SourceKind) else None  # noqa: PTH119


def _why(ref: TensorRef) -> str:
    files = sorted({extent.file for extent in ref.extents})
    if ref.kind is TensorKind.STATISTICS:
        return "the dump has statistics of it only"
    if len(files) != 1:
        return f"it lies in {len(files)} files"
    return f"`{Path(files[0]).name}` is neither a device file nor a `.npy` array"


def _figures_of(path: str) -> Callable[[TensorRef], tuple[Sequence[str], ReducedTensor] | None]:
    """Return what finds the figures of a tensor in a reduced file."""
    if path.endswith(".npy"):
        array = ReducedArray.read(path)
        return lambda _: (array.names, array.tensor)
    device = ReducedDevice.read(path)
    sides: Mapping[SlotRole, Sequence[ReducedTensor]] = {SlotRole.INPUT: device.inputs, SlotRole.OUTPUT: device.outputs}

    def of_slot(ref: TensorRef) -> tuple[Sequence[str], ReducedTensor] | None:
        found, place = sides.get(ref.slot.role, ()), ref.slot.path[0]
        return (device.names, found[place]) if isinstance(place, int) and place < len(found) else None

    return of_slot


def _recorded(ref: TensorRef, names: Sequence[str], content: ReducedTensor, source: str) -> TensorRef:
    """Return a tensor with figures of its logical elements in place of these; what else the dump says of it stays."""
    shape = ref.logical_shape if ref.logical_shape is not None else ref.shape
    found = recorded_ref(ref.node, ref.slot, names, replace(content, dtype=ref.dtype, shape=shape), source=source)
    return ref.changed(
        kind=TensorKind.STATISTICS,
        shape=shape,
        logical_shape=shape,
        layout="ND",
        sub_format=0,
        recorded=found.recorded,
        checksum=found.checksum,
        count=found.facts.count,
        hashed_as=found.facts.hashed_as,
        extents=(),
        source=source,
    )


def _nothing(catalog: Catalog) -> Diagnostic:
    first = next((r for r in catalog.tensors if r.kind in (TensorKind.TENSOR, TensorKind.STATISTICS)), None)
    why = "it holds no tensor" if first is None else f"e.g. `{first.id}`: {_why(first)}"
    return Diagnostic(
        "PF6334",
        f"nothing of the dump of stage `{catalog.side}` can be reduced: {why}",
        path=catalog.root or None,
        help="device files and `.npy` arrays can be reduced; compare other dumps as they are",
    )


def _in_the_dump(output: Path) -> Diagnostic:
    return Diagnostic(
        "PF6335",
        f"the reduced files of a stage would lie in its dump, at `{output}`",
        path=str(output),
        help="name another folder with `output`; `path` in place of `source` reduces a dump where it lies",
    )
