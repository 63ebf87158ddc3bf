"""List the files of a dump folder safely: bounded depth, no way out through links, every oddity a problem."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.existing import is_file
from probe_flow.records import Problem

MAX_DEPTH = 64
"""Folder levels below the root that are read; of some dumps they are the scopes of operators."""

_OF_A_TENSOR = re.compile(r"\.(?:npy|npz|pt|\d+\.\d+\.\d{10,}(?:\.\d+)*)$")
"""Endings of names of arrays, and of device files: stream, task, time, and numbers of a slice."""


class DumpFolder(Struct, frozen=True, gc=False):
    """A folder of a dump: its parts below the root, and its texts with a ``/`` at the end, shared by its files."""

    parts: tuple[str, ...]
    relative: str
    path: str

    @classmethod
    def of(cls, root: Path, parts: tuple[str, ...] = ()) -> DumpFolder:
        """Return a folder below a root."""
        path = os.fspath(root.joinpath(*parts)).rstrip("/")  # of the root of all: nothing
        return cls(parts, "".join(f"{part}/" for part in parts), f"{path}/")


class DumpFile(Struct, frozen=True, gc=False):
    """One regular file.

    Args:
        folder: the folder that holds it.
        name: its name.
        size: bytes.
        mtime_ns: modification time.
        real: of a link, where that leads to.
    """

    folder: DumpFolder
    name: str
    size: int
    mtime_ns: int
    real: str | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """Folder parts relative to the root."""
        return self.folder.parts

    @property
    def relative(self) -> str:
        """Folders and name with ``/``."""
        return self.folder.relative + self.name

    @property
    def path(self) -> str:
        """Where it is; of a link, what it leads to."""
        return self.folder.path + self.name if self.real is None else self.real


class DumpListing(Struct, frozen=True):
    """The files below a root in name order, and what was left out."""

    root: Path
    files: tuple[DumpFile, ...]
    problems: tuple[Problem, ...]


def dump_root(path: str | os.PathLike[str]) -> Path:
    """Return the resolved folder.

    Raises:
        UsageError: PF3201 if nothing is there or it is not a folder.
    """
    given = os.fspath(path)
    root = Path(given)
    if not root.is_dir():
        found = "is a file, not a folder" if root.exists() else "does not exist"
        raise UsageError(
            Diagnostic("PF3201", f"the dump folder `{given}` {found}", help="check the path of the dump", path=given)
        )
    return root.resolve()


def list_dump_or_file(path: str | os.PathLike[str]) -> DumpListing:
    """List a dump that is a folder or one file; the root of a file is the folder that holds it.

    Raises:
        UsageError: PF3201 if nothing is there.
        IncompleteError: PF3204 if it is a file that cannot be examined.
    """
    if not is_file(Path(path)):
        return list_dump(dump_root(path))
    try:
        real = Path(path).resolve(strict=True)
        status = real.stat()
    except OSError as error:
        raise IncompleteError(_unreadable(os.fspath(path), error)) from error
    file = DumpFile(DumpFolder.of(real.parent), real.name, status.st_size, status.st_mtime_ns)
    return DumpListing(real.parent, (file,), ())


def no_dump_file(file: DumpFile, wanted: str) -> Diagnostic:
    """Report a single file that is no dump, since it is not what was ``wanted``."""
    message = f"the dump `{file.path}` is a file, not a folder, and not {wanted}"
    return Diagnostic("PF3201", message, help="check the path of the dump", path=file.path)


def list_dump(root: Path) -> DumpListing:
    """List every regular file below `root` (resolved), depth first in name order.

    Links to files are taken when they stay below the root; links to folders are never entered.
    """
    files: list[DumpFile] = []
    problems: list[Problem] = []
    pending: list[tuple[str, ...]] = [()]
    while pending:
        folders = pending.pop()
        try:
            found = sorted(os.listdir(root.joinpath(*folders)))  # noqa: PTH208 - names alone take a third of the memory
        except OSError as error:
            problems.append(_unreadable("/".join(folders) or ".", error))
            continue
        below: list[tuple[str, ...]] = []
        folder = DumpFolder.of(root, folders)
        for name in found:
            try:
                status = os.lstat(folder.path + name)  # a Path each would double the time of a listing
            except OSError as error:
                problems.append(_unreadable(folder.relative + name, error))
                continue
            if stat.S_ISDIR(status.st_mode):
                if _is_of_a_tensor(name):
                    problems.append(_no_file(folder.relative + name, "a folder"))
                elif len(folders) < MAX_DEPTH:
                    below.append((*folders, name))
                else:
                    problems.append(_too_deep(folder.relative + name))
            elif (file := _take_file(root, folder, name, status, problems)) is not None:
                files.append(file)
        pending.extend(reversed(below))
    return DumpListing(root, tuple(files), tuple(problems))


def fingerprint(files: Iterable[DumpFile]) -> str:
    """Return a hexadecimal BLAKE2b digest over relative names, sizes and modification times."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(files, key=lambda file: file.relative):
        digest.update(f"{file.relative}\0{file.size}\0{file.mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _take_file(
    root: Path, folder: DumpFolder, name: str, status: os.stat_result, problems: list[Problem]
) -> DumpFile | None:
    relative, followed = folder.relative + name, None
    try:
        if stat.S_ISLNK(status.st_mode):
            real = Path(folder.path + name).resolve(strict=True)
            if not real.is_relative_to(root):
                problems.append(_link(relative, "leads out of the dump folder", Severity.ERROR))
                return None
            if real.is_dir():
                problems.append(_link(relative, "leads to a folder of the same dump", Severity.NOTE))
                return None
            followed, status = os.fspath(real), real.stat()
        if not stat.S_ISREG(status.st_mode):
            problems.append(_no_file(relative, "not a regular file"))
            return None
    except (OSError, RuntimeError) as error:  # a link to itself is a RuntimeError before Python 3.13
        problems.append(_unreadable(relative, error))
        return None
    return DumpFile(folder, name, status.st_size, status.st_mtime_ns, followed)


def _is_of_a_tensor(name: str) -> bool:
    return _OF_A_TENSOR.search(name) is not None


def _no_file(relative: str, what: str) -> Problem:
    """Report what stands where a file may: an error where its name is that of a tensor, which is missed then."""
    is_missed = _is_of_a_tensor(relative.rpartition("/")[2])
    return Diagnostic(
        "PF3205",
        f"`{relative}` is {what} and is passed over{', though its name is that of a tensor' if is_missed else ''}",
        severity=Severity.ERROR if is_missed else Severity.WARNING,
        help="dump again, or copy the file that belongs here",
        path=relative,
    )


def _link(relative: str, what: str, severity: Severity) -> Problem:
    return Diagnostic(
        "PF3203",
        f"the link `{relative}` {what} and is not followed",
        severity=severity,
        help="copy what it leads to into the dump folder, or remove the link" if severity is Severity.ERROR else None,
        path=relative,
    )


def _too_deep(relative: str) -> Problem:
    return Diagnostic(
        "PF3212",
        f"the folder `{relative}` lies more than {MAX_DEPTH} levels below the dump folder and is not read",
        help="give the dump folder itself as `path`",
        path=relative,
    )


def _unreadable(relative: str, error: Exception) -> Problem:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Diagnostic(
        "PF3204",
        f"`{relative}` cannot be read: {reason}",
        help="check its permissions, or copy it again",
        path=relative,
    )
