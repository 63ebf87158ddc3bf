"""Result files appear whole or not at all: written under a temporary name, flushed to disk, then renamed.

Of a file that is whole on the disk, a failure of the power may lose the new name, so that the file before it stands
there still. A run makes the names of all its files durable at its end, by one `whole_files.sync_folder`; for each file
by itself that was half of what a small run waits for the disk (14 of 28 calls).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.leftovers import temporary_path


@contextmanager
def atomic_text(path: Path) -> Iterator[IO[str]]:
    r"""Open a UTF-8 text file that takes the place of `path` only when the block ends without an error.

    The temporary file lies in the same folder (which is created when it is missing) and is removed when the block
    raises; what stood at `path` before then stays as it was. Line ends are written as given: ``"\n"`` stays ``"\n"``.
    Characters that UTF-8 cannot carry (lone surrogates from file names that are not UTF-8) are written as ``\udcNN``.

    Args:
        path: where the file shall be.

    Raises:
        IncompleteError: PF7001 when the folder or the file cannot be written.
    """
    with (
        _replacing(path) as temporary,
        temporary.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Like `atomic_text`, for binary files."""
    with _replacing(path) as temporary, temporary.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a path for a file that something else makes, a database, which takes the place of `path` in the same way.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with _replacing(path) as temporary:
        yield temporary
        with temporary.open("ab") as file:
            os.fsync(file.fileno())


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a fresh temporary path beside `path`; rename it to `path` at the end, remove it on any error."""
    temporary = temporary_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as exc:
        _discard(temporary)
        raise IncompleteError(
            Diagnostic(
                "PF7001",
                f"`{path.name}` cannot be written: {exc.strerror or exc}",
                path=str(path),
                help="free some disk or name another folder, then run again; results that are cached are not redone",
            )
        ) from exc
    except BaseException:
        _discard(temporary)
        raise


def _discard(temporary: Path) -> None:
    # The folder may be gone or read-only; the error that led here is the one to tell.
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
