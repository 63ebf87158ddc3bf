"""Sample dumps that come packed: a scenario's `samples.zip` is unpacked when a workflow first asks for one of them.

A workflow names a folder, `../examples/torchair/faulty`. It is unpacked with the others of its archive to where their
names say, each with a mark beside it, `.samples-NAME`, that holds the digest of the archive; samples with the mark of
an older archive are replaced. Where that place cannot be written, the samples lie in the cache, by digest. A folder
without a mark was put there by somebody else and is used as it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import TYPE_CHECKING, BinaryIO

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import open_bytes
from probe_flow.files.whole_files import reads_back, sync_file, sync_folder, write_whole
from probe_flow.workflow.model import Workflow, with_sample_at

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

ARCHIVE = "samples.zip"

MAX_ARCHIVE_BYTES = 64 * 2**20
"""Of an archive of samples, and of what it holds, unpacked."""

MAX_FILES = 10_000
"""Files in an archive of samples."""

_FOLDER = ".samples-"

_LOCK_S = 60


def unpacked(workflow: Workflow, cache: Path) -> Workflow:
    """Return the workflow with its samples as files, at their own paths or in the cache.

    Raises:
        UsageError: PF2111 as `at_hand`.
    """
    for sample in workflow.samples:
        place = at_hand(sample, cache)
        if place != sample:
            workflow = with_sample_at(workflow, sample, place)
    return workflow


def at_hand(sample: Path, cache: Path) -> Path:
    """Return where a sample lies as files, unpacked if need be: its own path, or one in the cache.

    Args:
        sample: absolute path of a sample, or of anything below it.
        cache: folder of the user's cache.

    Raises:
        UsageError: PF2111 when its archive is damaged, or can be unpacked nowhere.
    """
    scenario = next((folder for folder in sample.parents if (folder / ARCHIVE).is_file()), None)
    if scenario is None:
        return sample
    archive, inside = scenario / ARCHIVE, sample.relative_to(scenario)
    place = scenario / inside.parts[0]
    if _is_taken(place):
        return sample
    try:
        digest = _digest(archive)
        if _is_current(place, digest) or place.name not in _names(archive):
            return sample
        try:
            _lay_out(archive, digest)
        except OSError:  # a folder of somebody else's, or a full disk
            folder = cache / "samples" / f"{scenario.name}-{digest}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            _unpack(archive, folder)
            return folder / inside
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"the samples in `{archive}` cannot be unpacked: {why}"
        cure = "let `PROBE_FLOW_CACHE` name a folder that you may write; if the archive is damaged, install it again"
        raise UsageError(Diagnostic("PF2111", message, path=str(archive), help=cure)) from error
    return sample


def _digest(archive: Path) -> str:
    """Return what tells an archive from others: its size and checksum, since every run asks."""
    with open_bytes(archive) as file:
        content = file.read(MAX_ARCHIVE_BYTES + 1)
    if len(content) > MAX_ARCHIVE_BYTES:
        raise ValueError(f"it is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
    return f"{len(content):08x}{zlib.crc32(content):08x}"


def _names(archive: Path) -> list[str]:
    """Return the samples of an archive: the folders at its top."""
    with open_bytes(archive) as file:
        return sorted({path.parts[0] for path, _ in _members(_opened(file))})


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder that is there whole or not at all."""
    if folder.is_dir():
        return
    partial = Path(mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
    try:
        partial.chmod(0o755)
        _write(archive, partial)
        partial.rename(folder)
        sync_folder(folder.parent)
    except OSError:
        if not folder.is_dir():  # else another process was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(archive: Path, folder: Path) -> None:
    """Write the files of an archive, each with a time of its own.

    Results of files that seem to be new are not cached, and dumps with files of equal names, sizes and times count as
    the same dump. So the time is that of the archive, less one nanosecond for each unit of the file's checksum: at most
    4.3 s earlier, and another one for other content.
    """
    written = []
    with open_bytes(archive) as file:
        modified = os.fstat(file.fileno()).st_mtime_ns
        packed = _opened(file)
        for name, member in _members(packed):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_read(packed, member))
            of_content = modified - member.CRC
            os.utime(path, ns=(of_content, of_content))
            written.append(str(path))
    for each in written:  # none before all are written: flushing is cheap then
        sync_file(each)


def _opened(file: BinaryIO) -> ZipFile:
    from zipfile import BadZipFile, ZipFile

    try:
        return ZipFile(file)
    except (BadZipFile, RuntimeError) as error:
        raise ValueError(f"it is damaged: {error}") from error


def _members(packed: ZipFile) -> Iterator[tuple[PurePosixPath, ZipInfo]]:
    """Yield the files of an archive; ValueError where one would leave its folder, or they are too many or too large."""
    members = [member for member in packed.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES or sum(member.file_size for member in members) > MAX_ARCHIVE_BYTES:
        raise ValueError(f"it holds more than {MAX_FILES:,} files or {MAX_ARCHIVE_BYTES >> 20} MiB")
    for member in members:
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or path.parts[0].startswith("."):
            raise ValueError(f"`{member.filename}` is no file of a sample")
        yield path, member


def _read(packed: ZipFile, member: ZipInfo) -> bytes:
    from zipfile import BadZipFile

    try:
        return packed.read(member)
    except (BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"it is damaged: {error}") from error


def _lay_out(archive: Path, digest: str) -> None:
    """Unpack the samples of an archive beside it, those aside that are there."""
    new = Path(mkdtemp(prefix=f"{_FOLDER}tmp-", dir=archive.parent))
    try:
        _write(archive, new)
        with open_bytes(archive) as file:
            _lock(file)
            for sample in sorted(new.iterdir()):
                _put(sample, archive.parent / sample.name, digest)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _lock(file: BinaryIO) -> None:
    """Let one process at a time put samples into their places; OSError where another one takes too long."""
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # noqa: PERF203
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def _put(new: Path, place: Path, digest: str) -> None:
    """Put a sample into its place: the mark first, so that a sample of ours is never there without its own."""
    if _is_taken(place) or _is_current(place, digest):
        return
    if place.exists():
        place.rename(new.with_name(f"{new.name}.old"))
    write_whole(_mark(place), digest.encode())
    new.rename(place)


def _mark(place: Path) -> Path:
    return place.with_name(f"{_FOLDER}{place.name}")


def _is_taken(place: Path) -> bool:
    """Tell whether something that is not ours has a sample's name."""
    return os.path.lexists(place) and not _mark(place).exists()


def _is_current(place: Path, digest: str) -> bool:
    return place.is_dir() and reads_back(_mark(place), digest.encode())
