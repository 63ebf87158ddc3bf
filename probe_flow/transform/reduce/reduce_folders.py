"""Reduce dump folders, once or while they are written: passes over what is new, each file by `reduce_file`."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.device_folders.layout import MAPPING_FILE
from probe_flow.dumps.reduced.reduced_names import SUFFIX, reduced_name, source_name
from probe_flow.errors import Diagnostic
from probe_flow.files.folder_changes import FolderChanges, Key
from probe_flow.files.folder_lock import LOCK_NAME, FolderLock, check_inside
from probe_flow.files.walk import dump_root
from probe_flow.files.whole_files import leftover_of, temporary_name, was_cut
from probe_flow.jobs import TaskMap, in_batches
from probe_flow.transform.reduce.reduce_file import Batch, Done, Ending, Job, lost_batch, reduce_batch
from probe_flow.transform.reduce.reduce_stop import Stop
from probe_flow.transform.reduce.reduce_summary import Summary
from probe_flow.transform.reduce.reduce_tensors import Figures
from probe_flow.transform.reduce.reducible_files import kind_of, source_kind

BATCH_BYTES, MOST_BATCH_BYTES, BATCHES = 64 * 2**20, 2**30, 64
"""Batches grow with the work up to a limit, as long as there are enough for many workers: each waits for the disk."""

BATCH_FILES = 200
RETRY_UNFINISHED_S, RETRY_FAILED_S = (1.0, 60.0), (5.0, 600.0)
"""Seconds until a file is tried again: the first time, and the longest."""

IDLE_SHARE = 200
"""A look that finds nothing new is followed by a pause of at least so many times the processor's time that it took."""

LONGEST_PAUSE_S = 60.0
"""Seconds of the longest of these pauses: new files of a huge folder, and a stop file, are noticed within them."""

TOLD_TRY = 6
"""In a watch, a file that is not written to its end is ordinary; it is told at this try, when it has not changed for
about 30 s."""

_COMPANIONS = ("dynamo_", "dump_options_", MAPPING_FILE)


class Watch(Struct, frozen=True):
    """How a folder is watched.

    Args:
        interval_s: pause after each pass.
        settle_s: a file is taken when it has not changed for so long.
        stop_when: ``idle``, ``file`` or ``never``.
        idle_s: with ``idle``, seconds without any change.
        stop_file: with ``file``, the file whose appearance ends the watch.
    """

    interval_s: float = 0.5
    settle_s: float = 2.0
    stop_when: str = "never"
    idle_s: float = 60.0
    stop_file: Path | None = None


class Wanted(Struct, frozen=True):
    """What is to be done: see the options of `reduce.minmax`. ``output`` goes with one folder only."""

    figures: Figures
    suffix: str = SUFFIX
    deletes_source: bool = False
    output: Path | None = None
    watch: Watch | None = None


class Reduction(Struct):
    """The state of one reduction.

    Args:
        paths: the dump folders.
        wanted: what is to be done.
        map: runs batches.
        stop: asks to end early.
        tell: hears of the totals after each file that ended and after each look; of trouble once per file.
        monotonic: seconds from any origin.
        processor_s: seconds that the processor worked for this thread, from any origin.
    """

    paths: Sequence[Path]
    wanted: Wanted
    map: TaskMap
    stop: Stop
    tell: Callable[[Summary, Diagnostic | None], None] = lambda _summary, _problem: None
    monotonic: Callable[[], float] = time.monotonic
    processor_s: Callable[[], float] = time.thread_time
    summary: Summary = field(default_factory=Summary)
    _folders: list[FolderChanges] = field(default_factory=list)
    _locks: list[FolderLock] = field(default_factory=list)

    def run(self) -> Summary:
        """Reduce what is there, or watch until told to end.

        Raises:
            UsageError: PF3201 no such folder, PF6301 another reducer is at work there, PF6302 not writable.
        """
        roots = outermost(dump_root(path) for path in self.paths)
        self._folders = [FolderChanges(root, self._skips, monotonic=self.monotonic) for root in roots]
        targets = roots if self.wanted.output is None else [self._made(self.wanted.output)]
        changed = dict.fromkeys([*targets, *roots] if self.wanted.deletes_source else targets)
        with ExitStack() as stack:
            self._locks = [stack.enter_context(FolderLock(folder)) for folder in changed]
            for folder in changed:
                clear_leftovers(folder, self.wanted.suffix, own=changed)
            if self.wanted.watch is None:
                self._scan()
                self._pass(settle_s=0.0)
            else:
                self._watch(self.wanted.watch)
            if self.wanted.output is not None:
                for problem in copy_companions(roots[0], targets[0]):
                    self.summary.gaps[str(problem.path)] = (Ending.FAILED, problem)
        return self._counted()

    def _made(self, output: Path) -> Path:
        with suppress(OSError):  # what is wrong with it, the lock will say
            output.mkdir(parents=True, exist_ok=True)
        return output.resolve()

    def _watch(self, watch: Watch) -> None:
        changed_s = self.monotonic()
        while not self.stop.is_requested:
            began_s, spent_s = self.monotonic(), self.processor_s()
            is_told = watch.stop_when == "file" and watch.stop_file is not None and watch.stop_file.exists()
            if is_told:
                self.stop.wait(watch.settle_s)
            has_changed = self._scan()
            if has_changed:
                self._drop_gone()
            if self._pass(settle_s=0.0 if is_told else watch.settle_s) or has_changed:
                changed_s = self.monotonic()
            self.tell(self.summary, None)
            if is_told or (watch.stop_when == "idle" and self.monotonic() - changed_s >= watch.idle_s):
                self._pass(settle_s=0.0, is_last=True)
                return
            is_news = changed_s >= began_s
            cost_s = self.processor_s() - spent_s
            rest_s = 0.0 if is_news else min(IDLE_SHARE * cost_s, LONGEST_PAUSE_S)
            self.stop.wait(max(watch.interval_s, rest_s))

    def _scan(self) -> bool:
        for lock in self._locks:
            lock.keep()
        return sum(folder.scan() for folder in self._folders) > 0

    def _pass(self, *, settle_s: float, is_last: bool = False) -> int:
        """Reduce what is ready, in the last pass what waits for another try too; return how many files were."""
        found = [(folder, *each) for folder in self._folders for each in self._jobs(folder, settle_s, is_last=is_last)]
        if not found or self.stop.is_requested:
            return 0
        places = {job.source: (folder, key) for folder, key, job in found}
        batches = self._batches([job for _, _, job in found])
        sizes = [sum(job.size for job in batch.jobs) for batch in batches]
        count = 0
        serial = self.wanted.figures.serial_bytes(sum(sizes))
        for _, ended in self.map(reduce_batch, batches, sizes=sizes, lost=lost_batch, serial_bytes=serial):
            for done in ended:
                count += done.ending in (Ending.REDUCED, Ending.ALREADY)
                self._take(done, *places[done.job.source])
            for lock in self._locks:
                lock.keep()
        return count

    def _jobs(self, folder: FolderChanges, settle_s: float, *, is_last: bool) -> Iterator[tuple[Key, Job]]:
        root, target = str(folder.root), str(self.wanted.output or folder.root)
        for (folders, name), identity in folder.ready(settle_s, is_last=is_last):
            result = "/".join((target, *folders, reduced_name(name, self.wanted.suffix)))
            yield (folders, name), Job("/".join((root, *folders, name)), result, kind_of(name), identity)

    def _batches(self, jobs: Sequence[Job]) -> list[Batch]:
        wanted = self.wanted
        return batches_of(jobs, wanted.figures, deletes_source=wanted.deletes_source, stop=self.stop.path)

    def _take(self, done: Done, folder: FolderChanges, key: Key) -> None:
        if done.ending is Ending.LEFT:
            return
        is_patient = False
        if done.is_deleted or done.ending is Ending.VANISHED:
            folder.forget(key)
        elif done.ending is Ending.UNFINISHED:
            tries = folder.retry(key, first_s=RETRY_UNFINISHED_S[0], most_s=RETRY_UNFINISHED_S[1])
            is_patient = self.wanted.watch is not None and tries != TOLD_TRY
        elif done.ending is Ending.FAILED:
            folder.retry(key, first_s=RETRY_FAILED_S[0], most_s=RETRY_FAILED_S[1])
        else:
            folder.deal(key, done.job.identity)
        is_news = self.summary.add(done) or done.ending is Ending.UNFINISHED
        self.tell(self.summary, done.problem if is_news and not is_patient else None)

    def _counted(self) -> Summary:
        self.summary.skipped = sum((folder.skipped for folder in self._folders), Counter())
        self.summary.unreadable = {
            str(folder.root / path): why for folder in self._folders for path, why in folder.unreadable.items()
        }
        waiting = {str(f.root.joinpath(*key[0], key[1])) for f in self._folders for key in f.waiting}
        self.summary.left = len(waiting - self.summary.gaps.keys())
        self._drop_gone()
        return self.summary

    def _drop_gone(self) -> None:
        """Forget what was wrong with files that are gone: they are nobody's trouble any more."""
        for path in [path for path in self.summary.gaps if not os.path.lexists(path)]:
            del self.summary.gaps[path]

    def _skips(self, name: str) -> str | None:
        kind = source_kind(name, self.wanted.suffix)
        return kind if isinstance(kind, str) else None


def batches_of(jobs: Sequence[Job], figures: Figures, *, deletes_source: bool, stop: str | None) -> list[Batch]:
    """Return files in batches for workers; see `Batch`."""
    most = min(MOST_BATCH_BYTES, max(BATCH_BYTES, sum(job.size for job in jobs) // BATCHES))
    filled = in_batches(([job.size] for job in jobs), most_bytes=most, most_jobs=BATCH_FILES)
    return [Batch(tuple(jobs[piece]), figures, deletes_source, stop=stop) for piece in filled]


def outermost(roots: Iterable[Path]) -> list[Path]:
    """Return folders without those that are given twice or are inside others: each file has one place."""
    unique = list(dict.fromkeys(roots))
    return [root for root in unique if not any(other in root.parents for other in unique)]


def clear_leftovers(folder: Path, suffix: str, *, own: Collection[Path]) -> None:
    """Remove the temporary files of reducers that were killed while they wrote; call it with the folder locked.

    Args:
        folder: the folder.
        suffix: of the reduced files' names.
        own: all folders that this process holds the locks of.

    Raises:
        UsageError: PF6301 when another process is at work in a folder inside.
    """
    for place, _, names in os.walk(folder):
        if LOCK_NAME in names and Path(place) not in own:
            check_inside(Path(place, LOCK_NAME), folder)
        for name in names:
            inner = leftover_of(name)
            if inner is not None and (source_name(inner, suffix) is not None or was_cut(inner)):
                with suppress(OSError):
                    Path(place, name).unlink()


def copy_companions(source: Path, target: Path) -> Iterator[Diagnostic]:
    """Copy what a reader needs beside the dumped files: graph texts, options of the dump, names of hashed files.

    Yields:
        A problem for each that could not be copied.
    """
    for place, _, names in os.walk(source):
        for name in names:
            path = Path(place, name)
            if not name.startswith(_COMPANIONS) or path.is_symlink() or target in path.parents:
                continue
            try:
                _copy(path, target / path.relative_to(source))
            except OSError as exc:
                text = f"`{name}` cannot be copied to `{target}`: {exc.strerror or exc}"
                cure = "free some disk and check your rights there, then reduce the folder again"
                yield Diagnostic("PF6304", text, path=str(path), help=cure)


def _copy(path: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    temporary = copy.with_name(temporary_name(copy.name, os.getpid()))
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(copy)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
