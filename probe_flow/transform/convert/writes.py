"""Put converted files into their places, several at a time, so that their waits for the disk become few."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from probe_flow.elements.converted.files import ConvertedFile
from probe_flow.errors import Diagnostic, ProbeFlowError
from probe_flow.files.streamed_file import StreamedFile
from probe_flow.files.whole_files import sync_folder

GROUP_FILES = 64
GROUP_BYTES = 64 * 2**20


class Ending(enum.Enum):
    """What became of a file that was to be written."""

    WRITTEN = "written"
    ALREADY = "already there"
    FAILED = "failed"


class Wish(Struct, frozen=True):
    """A file that shall be there.

    Args:
        key: whom it belongs to, for the caller.
        path: where.
        make: writes it under a temporary name.
    """

    key: int
    path: Path
    make: Callable[[], StreamedFile | ConvertedFile]


class Outcome(Struct, frozen=True):
    """What became of a wish.

    Args:
        wish: the wish.
        ending: in a word.
        made: the file; None when it failed.
        problem: why it failed.
    """

    wish: Wish
    ending: Ending
    made: StreamedFile | ConvertedFile | None = None
    problem: Diagnostic | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return 0 if self.made is None else _draft(self.made).size


def fulfil(wishes: Iterable[Wish], *, replaces: bool) -> Iterator[Outcome]:
    """Write files; what is wrong with one costs that one.

    Args:
        wishes: the files.
        replaces: whether other files of these names may go.
    """
    group: list[tuple[Wish, StreamedFile | ConvertedFile]] = []
    size = 0
    for wish in wishes:
        try:
            made = wish.make()
        except Exception as error:  # a defect must cost one file, not the others
            yield _failed(wish, error)
            continue
        group.append((wish, made))
        size += _draft(made).size
        if len(group) == GROUP_FILES or size >= GROUP_BYTES:
            yield from _settled(group, replaces=replaces)
            group, size = [], 0
    yield from _settled(group, replaces=replaces)


def _settled(group: list[tuple[Wish, StreamedFile | ConvertedFile]], *, replaces: bool) -> Iterator[Outcome]:
    """Flush all before the first is renamed: a rename in between makes the next flush wait for the disk again."""
    troubles = [_flush(made) for _, made in group]
    for (wish, made), trouble in zip(group, troubles, strict=True):
        yield _failed(wish, trouble) if trouble is not None else _commit(wish, made, replaces=replaces)
    for folder in {wish.path.parent for wish, _ in group}:
        sync_folder(folder)


def _flush(made: StreamedFile | ConvertedFile) -> OSError | None:
    try:
        _draft(made).flush()
    except OSError as error:
        _draft(made).discard()
        return error
    return None


def _commit(wish: Wish, made: StreamedFile | ConvertedFile, *, replaces: bool) -> Outcome:
    try:
        is_new = _draft(made).commit(replaces=replaces)
    except OSError as error:
        return _failed(wish, error)
    return Outcome(wish, Ending.WRITTEN if is_new else Ending.ALREADY, made)


def _draft(made: StreamedFile | ConvertedFile) -> StreamedFile:
    return made.draft if isinstance(made, ConvertedFile) else made


def _failed(wish: Wish, error: Exception) -> Outcome:
    return Outcome(wish, Ending.FAILED, problem=_problem(wish, error))


def _problem(wish: Wish, error: Exception) -> Diagnostic:
    if isinstance(error, ProbeFlowError):
        return error.diagnostic
    name, path = wish.path.name, str(wish.path)
    if isinstance(error, FileExistsError):
        message = f"`{name}` is there already with other content"
        return Diagnostic("PF6503", message, path=path, help="name an empty folder, or allow that files are replaced")
    if isinstance(error, OSError | MemoryError):
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or "memory ran out"
        message = f"`{name}` cannot be written: {why}"
        return Diagnostic("PF6509", message, path=path, help="free some disk and check your rights")
    return Diagnostic("PF9002", f"writing `{name}` failed: {type(error).__name__}: {error}", path=path)
