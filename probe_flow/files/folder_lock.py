"""One reducer per folder: a lock file in it, and none in the folders above and below."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.lock_file import HeldError, LockFile, check_free

if TYPE_CHECKING:
    from typing_extensions import Self

LOCK_NAME = ".probe_flow_reduce.lock"


class FolderLock:
    """The right to write below a folder. Use it in ``with``.

    Whoever works on all that is below asks `check_inside` too, for others that were there first.

    Args:
        folder: the folder; those above it must not be locked by another process either.

    Raises:
        UsageError: PF6301 when another process holds it, PF6302 when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._file = LockFile(folder / LOCK_NAME)
        except HeldError as exc:
            raise _held(exc) from exc
        except OSError as exc:
            raise _unwritable(folder, exc) from exc
        try:  # with the own lock in place: of two that begin at once, at least one sees the other
            for above in folder.resolve().parents:
                _check(above / LOCK_NAME, f", above `{folder}`,")
        except UsageError:
            self.release()
            raise

    def keep(self) -> None:
        """Show other machines that the holder lives; cheap enough to call all the time.

        A folder that was removed and made anew is locked anew.

        Raises:
            UsageError: PF6301 when another process was faster there.
        """
        if not self._file.is_in_place:
            try:
                self._file.take_anew()
            except HeldError as exc:
                raise _held(exc) from exc
            except OSError:
                return  # the folder is not there, or cannot be written yet
        self._file.touch()

    def release(self) -> None:
        """Give the folder back."""
        self._file.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


def check_inside(path: Path, folder: Path) -> None:
    """Refuse a folder that has a lock file inside which another process holds.

    Raises:
        UsageError: PF6301 in that case.
    """
    _check(path, f", inside `{folder}`,")


def _check(path: Path, where: str) -> None:
    try:
        check_free(path)
    except HeldError as exc:
        raise _held(exc, where) from exc


def _held(error: HeldError, where: str = "") -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6301",
            f"`{error.path.parent}`{where} is being reduced by {error.holder}",
            path=str(error.path),
            help="let that one finish or end it; a lock that was left behind is taken over by itself",
        )
    )


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6302",
            f"`{folder}` cannot be written: {error.strerror or error}",
            path=str(folder),
            help="give yourself the right to write there, free some disk, or name another folder with `output`",
        )
    )
