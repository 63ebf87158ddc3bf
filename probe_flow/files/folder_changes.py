"""The files below a folder that are new or changed since they were dealt with, cheap to ask for again and again.

A folder is listed again when its modification time says that names came or went; files that wait are looked at one by
one. That misses a file that is written anew in place after it was dealt with, so now and then everything is listed.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct, field

from probe_flow.files.walk import MAX_DEPTH

Identity = tuple[int, int, int]
"""Inode, size and modification time: a file with the same three holds the same bytes."""

Key = tuple[tuple[str, ...], str]
"""Folders below the root, and the name."""

QUIET_NS = 2 * 10**9
"""A folder's time may not change twice within one tick of the file system's clock; one this old can be trusted."""

FULL_PERIOD_S = 30.0
COST_SHARE = 300
"""Everything is listed at most this many times as rarely as listing it takes."""


def identity_of(status: os.stat_result) -> Identity:
    """Return what tells a file from the one that takes its place, or from itself a little longer."""
    return status.st_ino, status.st_size, status.st_mtime_ns


class Waiting(Struct):
    """A file that waits to be dealt with: since when it looks as it does, and when it may be tried."""

    identity: Identity
    since_s: float
    not_before_s: float = 0.0
    attempts: int = 0


class _Folder(Struct):
    mtime_ns: int
    is_quiet: bool
    children: tuple[str, ...]
    skipped: Counter[str] = field(default_factory=Counter)


class FolderChanges:
    """Files below a folder.

    Args:
        root: the folder.
        skips: returns why a name is of no interest, None for one that is.
        monotonic: seconds from any origin.
        wall_ns: nanoseconds as file systems count them.
    """

    def __init__(
        self,
        root: Path,
        skips: Callable[[str], str | None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.root = root
        self.waiting: dict[Key, Waiting] = {}
        self.unreadable: dict[str, str] = {}
        self._place = os.fspath(root)
        """A text, as its parts are: objects for paths would take most of the time of a look."""

        self._skips = skips
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._dealt: dict[tuple[str, ...], dict[str, Identity]] = {}
        self._folders: dict[tuple[str, ...], _Folder] = {}
        self._listed: dict[tuple[str, ...], Collection[str]] = {}
        self._full_at_s = 0.0

    @property
    def skipped(self) -> Counter[str]:
        """How many files are of no interest, by reason."""
        return sum((folder.skipped for folder in self._folders.values()), Counter())

    def scan(self) -> bool:
        """Look for changes; return whether a file appeared, changed or vanished."""
        began = self._monotonic()
        is_full = began >= self._full_at_s
        before = {key: file.identity for key, file in self.waiting.items()}
        seen: set[tuple[str, ...]] = set()
        pending: list[tuple[str, ...]] = [()]
        while pending:
            folders = pending.pop()
            known = self._folders.get(folders)
            found = self._visit(folders, None if is_full else known)
            if found is None:
                continue
            seen.add(folders)
            self._folders[folders] = found
            pending += [(*folders, child) for child in reversed(found.children)]
        for folders in self._folders.keys() - seen:
            del self._folders[folders]
            self._dealt.pop(folders, None)
        self._look_again(seen)
        self._listed.clear()
        if is_full:
            ended = self._monotonic()
            self._full_at_s = ended + max(FULL_PERIOD_S, COST_SHARE * (ended - began))
        return before != {key: file.identity for key, file in self.waiting.items()}

    def ready(self, settle_s: float, *, is_last: bool = False) -> Iterator[tuple[Key, Identity]]:
        """Yield the files that have not changed for a time and may be tried, in order of their names.

        Args:
            settle_s: that time.
            is_last: those too that wait for another try.
        """
        now, wall_ns = self._monotonic(), self._wall_ns()
        for key in sorted(self.waiting):
            file = self.waiting[key]
            rests = now - file.since_s >= settle_s or wall_ns - file.identity[2] >= settle_s * 1e9
            if rests and (is_last or file.not_before_s <= now):
                yield key, file.identity

    def deal(self, key: Key, identity: Identity) -> None:
        """Note that a file, as it was then, needs nothing more."""
        file = self.waiting.get(key)
        if file is not None and file.identity == identity:
            del self.waiting[key]
            self._dealt.setdefault(key[0], {})[key[1]] = identity

    def forget(self, key: Key) -> None:
        """Note that a file is gone."""
        self.waiting.pop(key, None)

    def retry(self, key: Key, *, first_s: float, most_s: float) -> int:
        """Have a file wait before it is tried again, twice as long each time; return how often it was tried as it is.

        Counted up to 60; 0 when it is gone.
        """
        file = self.waiting.get(key)
        if file is None:
            return 0
        file.not_before_s = self._monotonic() + min(most_s, first_s * 2.0**file.attempts)
        file.attempts = min(file.attempts + 1, 60)
        return file.attempts

    def _visit(self, folders: tuple[str, ...], known: _Folder | None) -> _Folder | None:
        """Return what a folder holds, as known where that still holds; None when it is gone or unreadable."""
        path = "/".join((self._place, *folders))
        try:
            mtime_ns = os.lstat(path).st_mtime_ns
            if known is not None and known.is_quiet and known.mtime_ns == mtime_ns:
                return known
            found = _Folder(mtime_ns, self._wall_ns() - mtime_ns > QUIET_NS, ())
            with os.scandir(path) as entries:
                found.children = self._list(folders, entries, found.skipped)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.unreadable["/".join(folders) or "."] = error.strerror or str(error)
            return None
        self.unreadable.pop("/".join(folders) or ".", None)
        return found

    def _list(
        self, folders: tuple[str, ...], entries: Iterator[os.DirEntry[str]], skipped: Counter[str]
    ) -> tuple[str, ...]:
        children: list[str] = []
        dealt = self._dealt.get(folders, {})
        present: dict[str, Identity] = {}
        for entry in entries:
            if entry.is_symlink():
                skipped["link"] += 1
            elif entry.is_dir(follow_symlinks=False):
                if len(folders) < MAX_DEPTH:
                    children.append(entry.name)
                else:
                    skipped["folder too deep"] += 1
            elif (why := self._skips(entry.name)) is not None:
                skipped[why] += 1
            else:
                identity = _identity(entry)
                if identity is None:
                    skipped["no regular file"] += 1
                else:
                    present[entry.name] = identity
        self._listed[folders] = present.keys()
        self._dealt[folders] = {name: identity for name, identity in dealt.items() if present.get(name) == identity}
        for name, identity in present.items():
            if self._dealt[folders].get(name) != identity:
                self._note((folders, name), identity)
        return tuple(sorted(children))

    def _note(self, key: Key, identity: Identity) -> None:
        file = self.waiting.get(key)
        if file is None or file.identity != identity:
            self.waiting[key] = Waiting(identity, self._monotonic())

    def _look_again(self, seen: set[tuple[str, ...]]) -> None:
        """Look at each file that waits in a folder that was not listed just now, and drop those that are gone."""
        for key in list(self.waiting):
            folders, name = key
            if name in self._listed.get(folders, ()):
                continue
            is_unlisted = folders in seen and folders not in self._listed
            identity = _identity_at("/".join((self._place, *folders, name))) if is_unlisted else None
            if identity is None:
                del self.waiting[key]
            else:
                self._note(key, identity)


def _identity(entry: os.DirEntry[str]) -> Identity | None:
    try:
        return _of_regular(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _identity_at(path: str) -> Identity | None:
    try:
        return _of_regular(os.lstat(path))
    except OSError:
        return None


def _of_regular(status: os.stat_result) -> Identity | None:
    return identity_of(status) if stat.S_ISREG(status.st_mode) else None
