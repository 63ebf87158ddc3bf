"""Reduce dumped files one by one: read, write the reduced file, read it back, and only then delete, where asked to."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice
from probe_flow.errors import Diagnostic, ProbeFlowError, Severity
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.folder_changes import Identity, identity_of
from probe_flow.files.whole_files import WholeFile, reads_back, sync_file, sync_folder
from probe_flow.transform.reduce.reduce_tensors import Figures, Reduced, reduce_array, reduce_device
from probe_flow.transform.reduce.reducible_files import SourceKind, Unfinished, array_source, device_source

GROUP_FILES = 64
"""Reduced files that are put into their places together: their waits for the disk become few."""

Found = TypeVar("Found")


class Ending(enum.Enum):
    """What became of a dumped file.

    ``UNFINISHED`` files are tried again when they are watched; ``VANISHED`` ones are nobody's fault; ``LEFT`` were not
    begun because the work is to stop.
    """

    REDUCED = "reduced"
    ALREADY = "already reduced"
    SKIPPED = "skipped"
    UNFINISHED = "unfinished"
    FAILED = "failed"
    VANISHED = "vanished"
    LEFT = "left"


class Job(Struct, frozen=True):
    """One dumped file, as it was seen, and where its reduced file belongs.

    Paths are texts: objects for them would take a good part of the time of a small file.
    """

    source: str
    result: str
    kind: SourceKind
    identity: Identity

    @property
    def name(self) -> str:
        return Path(self.source).name

    @property
    def size(self) -> int:
        return self.identity[1]


class Batch(Struct, frozen=True):
    """Dumped files for one worker.

    Args:
        jobs: the files.
        figures: what they are reduced to.
        deletes_source: whether each is deleted once its reduced file reads back.
        stop: a file whose appearance asks to begin no further one.
    """

    jobs: tuple[Job, ...]
    figures: Figures
    deletes_source: bool = False
    stop: str | None = None


class Done(Struct, frozen=True):
    """What became of one file.

    Args:
        job: the file.
        ending: in a word.
        problem: why it is skipped, unfinished or failed, or why it was not deleted although asked to.
        result_bytes: size of its reduced file.
        is_deleted: whether the dumped file is gone.
        notes: what is worth knowing of the figures.
        nan_tensors: tensors with a NaN in them.
    """

    job: Job
    ending: Ending
    problem: Diagnostic | None = None
    result_bytes: int = 0
    is_deleted: bool = False
    notes: tuple[str, ...] = ()
    nan_tensors: int = 0


class _Prepared(Struct, frozen=True):
    """A file whose reduced file is ready to be put into its place; without ``draft`` it is there already."""

    job: Job
    reduced: Reduced
    draft: WholeFile | None

    @property
    def ending(self) -> Ending:
        return Ending.ALREADY if self.draft is None else Ending.REDUCED


def reduce_batch(batch: Batch) -> list[Done]:
    """Reduce the files of a batch; what is wrong with one costs that one."""
    ended: list[Done] = []
    group: list[_Prepared] = []
    for job in batch.jobs:
        if batch.stop is not None and os.path.exists(batch.stop):  # noqa: PTH110 - see `Job`
            ended.append(Done(job, Ending.LEFT))
            continue
        found = _tried(job, partial(_prepare, job, batch))
        if isinstance(found, Done):
            ended.append(found)
        else:
            group.append(found)
        if len(group) == GROUP_FILES:
            ended += _finish(group, deletes_source=batch.deletes_source)
            group = []
    return ended + _finish(group, deletes_source=batch.deletes_source)


def lost_batch(batch: Batch, reason: Diagnostic) -> list[Done]:
    """Return the ends of a batch whose worker died each time that it was tried."""
    return [Done(job, Ending.FAILED, reason) for job in batch.jobs]


def _tried(job: Job, step: Callable[[], Found]) -> Found | Done:
    """Do a step for a file; never raises for what may be wrong with a file or a disk."""
    try:
        return step()
    except ProbeFlowError as exc:
        problem = exc.diagnostic
    except (OSError, MemoryError) as exc:
        problem = _cannot(job, exc)
    except Exception as exc:  # a defect must cost one file, not a daemon that runs for days
        problem = Diagnostic("PF9002", f"reducing `{job.name}` failed: {type(exc).__name__}: {exc}")
    if not Path(job.source).exists():
        return Done(job, Ending.VANISHED)
    return Done(job, Ending.FAILED, replace(problem, path=job.source))


def _prepare(job: Job, batch: Batch) -> _Prepared | Done:
    """Reduce one file and write the result under a temporary name."""
    with BinaryFile(job.source) as file:
        if identity_of(file.status) != job.identity:
            return _changed(job)
        reduced = _reduced(job, file, batch.figures, is_final=batch.deletes_source)
    if isinstance(reduced, Done):
        return reduced
    if identity_of(os.lstat(job.source)) != job.identity:
        return _changed(job)
    is_there = reads_back(job.result, reduced.content)
    return _Prepared(job, reduced, None if is_there else _draft(job.result, reduced.content))


def _draft(path: str, content: bytes) -> WholeFile:
    try:
        return WholeFile(path, content)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return WholeFile(path, content)


def _reduced(job: Job, file: BinaryFile, figures: Figures, *, is_final: bool) -> Reduced | Done:
    """Return the reduced file, or why there is none; ``is_final``: compute figures even where they are there."""
    if job.kind is SourceKind.ARRAY:
        header = array_source(file)
        if isinstance(header, Unfinished):
            return Done(job, Ending.UNFINISHED, header.diagnostic)
        if header.dtype is None:
            return Done(job, Ending.SKIPPED, _no_tensor(job, header.reason))
        if not is_final and _is_current(job, figures, (1, 0)):
            return _already(job)
        return reduce_array(file, header, figures)
    dump = device_source(file)
    if isinstance(dump, Unfinished):
        return Done(job, Ending.UNFINISHED, dump.diagnostic)
    if not is_final and _is_current(job, figures, (len(dump.inputs), len(dump.outputs))):
        return _already(job)
    return reduce_device(file, dump, figures)


def _finish(group: Sequence[_Prepared], *, deletes_source: bool) -> list[Done]:
    """Put reduced files into their places, and delete the dumped ones where that is asked for.

    Each file is flushed before anything is deleted. Where the dumped files stay, a reduced one that a power failure
    spoils is made again, and one wait for the folder, whose journal most file systems write behind the files, will do.
    """
    ended: list[Done] = []
    folders = {each.job.result.rpartition("/")[0] for each in group}
    if deletes_source:
        group, ended = _each(group, _flush)
    else:
        _sync(folders)
    group, failed = _each(group, _place)
    ended += failed
    if deletes_source:
        _sync(folders)
    return ended + [_tried(each.job, partial(_ended, each, deletes_source=deletes_source)) for each in group]


def _sync(folders: Iterable[str]) -> None:
    for folder in folders:
        sync_folder(folder)


def _each(group: Sequence[_Prepared], step: Callable[[_Prepared], None]) -> tuple[Sequence[_Prepared], list[Done]]:
    """Do a step for every file; return those for which it went well, and the ends of the others."""
    failures = [_tried(each.job, partial(step, each)) for each in group]
    kept = [each for each, failure in zip(group, failures, strict=True) if failure is None]
    return kept, [failure for failure in failures if failure is not None]


def _flush(each: _Prepared) -> None:
    if each.draft is not None:
        each.draft.flush()
    else:
        sync_file(each.job.result)


def _place(each: _Prepared) -> None:
    if each.draft is not None:
        each.draft.commit()


def _ended(each: _Prepared, *, deletes_source: bool) -> Done:
    """Delete the dumped file where that is asked for and nothing would be lost, and say what became of it."""
    job, reduced = each.job, each.reduced
    problem, is_deleted = None, False
    if reduced.lost:
        problem = _kept(job, reduced.lost)
    elif deletes_source:
        if identity_of(os.lstat(job.source)) != job.identity:
            return _changed(job)
        os.unlink(job.source)  # noqa: PTH108
        is_deleted = True
    return Done(job, each.ending, problem, len(reduced.content), is_deleted, tuple(reduced.notes), reduced.nan_tensors)


def _already(job: Job) -> Done:
    return Done(job, Ending.ALREADY, result_bytes=Path(job.result).stat().st_size)


def _is_current(job: Job, figures: Figures, counts: tuple[int, int]) -> bool:
    """Whether a reduced file is there, is younger than the dumped one, and holds what is asked for.

    That is enough to leave the dumped file as it is; before one is deleted its figures are always computed. Younger
    than the last change of the dumped file's entry too: an older file that is renamed into its place is another one.
    """
    try:
        if os.stat(job.result).st_mtime_ns < max(job.identity[2], os.lstat(job.source).st_ctime_ns):  # noqa: PTH116
            return False
        if job.kind is SourceKind.ARRAY:
            return ReducedArray.read(job.result).names == figures.names
        found = ReducedDevice.read(job.result)
    except (OSError, ProbeFlowError):
        return False
    return found.names == figures.names and (len(found.inputs), len(found.outputs)) == counts


def _changed(job: Job) -> Done:
    text = f"`{job.name}` changed while it was reduced"
    problem = Diagnostic("PF3231", text, path=job.source, help="reduce it again when it is written to its end")
    return Done(job, Ending.UNFINISHED, problem)


def _no_tensor(job: Job, reason: str | None) -> Diagnostic:
    return Diagnostic("PF3232", f"`{job.name}` is left as it is: {reason}", Severity.NOTE, path=job.source)


def _kept(job: Job, lost: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "PF3234",
        f"`{job.name}` has {len(lost)} tensors without figures: {lost[0]}",
        Severity.WARNING,
        path=job.source,
        help="their rows in the reduced file are NaN; the dumped file is kept, whatever was asked for",
    )


def _cannot(job: Job, error: OSError | MemoryError) -> Diagnostic:
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    cure = "free some disk and check your rights there"
    if getattr(error, "errno", None) == errno.ENAMETOOLONG:
        cure = "a shorter `suffix` may do"
    return Diagnostic(
        "PF6304",
        f"`{job.name}` cannot be reduced: {why}",
        path=job.source,
        help=f"{cure}; the dumped file is kept, reduce it again",
    )
