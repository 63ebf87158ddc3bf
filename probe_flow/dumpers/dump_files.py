"""Write the files of a dump: whole under their names or not at all, at times that strictly grow."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe_flow.dumps.device_folders.layout import MAPPING_FILE
from probe_flow.errors import Diagnostic, IncompleteError

_NAME_BYTES = 255
_MOST_PARTS = 64
"""Parts that one call writes; systems take 16 or more, Linux 1,024."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Ticks:
    """Times in microseconds, each later than the one before, also from several threads."""

    def __init__(self, now: Callable[[], int] = time.time_ns) -> None:
        self._now = now
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, self._now() // 1000)
            return self._last


def utc_text(microseconds: int) -> str:
    """Return a time as file names write it.

    >>> utc_text(1_700_000_000_000_001)
    '20231114221320000001'
    """
    return (_EPOCH + timedelta(microseconds=microseconds)).strftime("%Y%m%d%H%M%S%f")


def write_array(folder: Path, name: str, array: NDArray[Any]) -> str:
    """Write an ``.npy`` file and return its name: that given, or a number in place of one that is too long.

    ``mapping.csv`` beside it says what the number stands for.

    Raises:
        IncompleteError: PF6326 when it cannot be written; nothing is left of it then.
    """
    if array.dtype.hasobject:
        return _write(folder, name, (_pickled(array),))
    flat: Any = array.reshape(-1).view(np.uint8) if array.size else b""
    return _write(folder, name, (_header(array), memoryview(flat)))


def write_bytes(folder: Path, name: str, content: bytes) -> str:
    """Write a file as `write_array` does."""
    return _write(folder, name, (content,))


def write_parts(folder: Path, name: str, parts: tuple[bytes | memoryview, ...]) -> str:
    """Write a file as `write_array` does, from parts that follow each other."""
    return _write(folder, name, parts)


def link_again(folder: Path, file: str, name: str) -> bool:
    """Give a written file a second name, and tell whether the file system could; the bytes are stored once."""
    if len(name.encode()) > _NAME_BYTES:
        return False
    try:
        os.link(f"{os.fspath(folder)}/{file}", f"{os.fspath(folder)}/{name}")
    except OSError:
        return False
    return True


def _write(folder: Path, name: str, parts: tuple[bytes | memoryview, ...]) -> str:
    short = name if len(name.encode()) <= _NAME_BYTES else _numbered(folder, name)
    # Texts in place of paths, and one call for all parts: a dump of a step writes thousands of small files.
    place = os.fspath(folder)
    temporary = f"{place}/{_temporary_name()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            _write_all(descriptor, parts)
        finally:
            os.close(descriptor)
        os.replace(temporary, f"{place}/{short}")  # noqa: PTH105 (see above)
    except OSError as error:
        with suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise IncompleteError(_not_written(folder / short, error)) from error
    return short


def _write_all(descriptor: int, parts: tuple[bytes | memoryview, ...]) -> None:
    waiting = [memoryview(part).cast("B") for part in parts if len(part)]
    while waiting:
        written = os.writev(descriptor, waiting[:_MOST_PARTS])
        while waiting and written >= waiting[0].nbytes:
            written -= waiting.pop(0).nbytes
        if written:
            waiting[0] = waiting[0][written:]


def write_json(path: Path, content: Mapping[str, object], *, indent: int | None = 1) -> None:
    """Write a manifest under a temporary name, then rename it.

    Raises:
        IncompleteError: PF6326 when it cannot be written.
    """
    temporary = _temporary(path.parent)
    try:
        temporary.write_text(json.dumps(content, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise IncompleteError(_not_written(path, error)) from error


def make_folder(path: Path) -> None:
    """Make a folder of the dump.

    Raises:
        IncompleteError: PF6326 when it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IncompleteError(_not_written(path, error)) from error


def _temporary(folder: Path) -> Path:
    return folder / _temporary_name()


def _temporary_name() -> str:
    return f".{os.getpid()}-{threading.get_native_id()}.tmp"


def _header(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, np.lib.format.header_data_from_array_1_0(array))
    return buffer.getvalue()


def _pickled(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _numbered(folder: Path, name: str) -> str:
    """Return the next free number of the folder, and note in ``mapping.csv`` what it stands for."""
    mapping = folder / MAPPING_FILE
    try:
        with mapping.open("a+", encoding="utf-8") as file:
            file.seek(0)
            number = sum(1 for _ in file) + 1
            file.write(f"{number}.npy,{name}\n")
    except OSError as error:
        raise IncompleteError(_not_written(mapping, error)) from error
    return f"{number}.npy"


def _not_written(path: Path, error: OSError) -> Diagnostic:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return Diagnostic(
        "PF6326",
        f"the dump cannot be written: {error.strerror or error}",
        path=str(path),
        help="free some disk, narrow the dump (`steps`, `filter`, `data: statistics`), and dump again"
        if is_full
        else "check the folder and the rights to it, then dump again",
    )
