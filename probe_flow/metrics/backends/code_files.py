"""Files of machine code: where they are, which are trusted, and how one is written; without any part of numba."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

ENVIRONMENT = "NUMBA_CACHE_DIR"
"""Names the folder of compiled code, as for everything that numba compiles."""

SUFFIX = ".code"

_DIGEST_BYTES = 32


def folders() -> tuple[Path, ...]:
    """Return where code may be kept, the best place first."""
    if os.environ.get(ENVIRONMENT):
        return (Path(os.environ[ENVIRONMENT]),)
    with_the_module = Path(__file__).parent / "__pycache__"
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", with_the_module), ".cache")
    return with_the_module, Path(cache, "probe_flow", "compiled")


def writable_folder() -> Path | None:
    """Return the folder that a new file goes to, which may have to be made; None where none can be written."""
    for folder in folders():
        there = next((each for each in (folder, *folder.parents) if each.exists()), None)
        if there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK):
            return folder
    return None


def is_any_kept(name: str) -> bool:
    """Return whether a pass of this name was ever compiled here, by whatever version for whatever processor."""
    return any(True for folder in folders() for _ in folder.glob(f"{name}-*{SUFFIX}"))


def kept(file: str) -> bytes | None:
    """Return the code in a file of this name; None where there is none that can be trusted and is whole."""
    for folder in folders():
        try:
            descriptor = os.open(folder / file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as opened:
                if not _is_ours(os.fstat(descriptor)):
                    continue
                content = opened.read()
        except OSError:
            continue
        found, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if found == digest(code):  # damaged code would end the process
            return code
    return None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether only this user and root can have written a file: what is in it runs in this process."""
    is_private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and is_private and status.st_uid in (os.geteuid(), 0)


def keep(file: str, code: bytes) -> None:
    """Keep code in the first folder that takes it; where none does, each process compiles for itself."""
    for folder in folders():
        temporary = folder / f"{file}.{uuid4().hex}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(digest(code) + code)
            temporary.chmod(0o644)
            temporary.replace(folder / file)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
        else:
            return


def digest(code: bytes) -> bytes:
    """Return the checksum that stands before the code in its file."""
    return hashlib.blake2b(code, digest_size=_DIGEST_BYTES).digest()
