"""The shard store: small texts by key in HDF5 files, safe against kills, full disks and several writers at once.

A shard is written whole by one writer under a temporary name and renamed; readers open final names only and never
lock. Layout of a shard (format 1): ``/index``, one compound row per entry (key, offset, nbytes, crc32, label offset,
label nbytes), and ``/blob``, the UTF-8 texts of entries and labels one after the other; the attributes ``format`` and
``writer`` say who wrote it, ``made_by`` (a text, for people; shards of earlier versions have none) for whom.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import h5py
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.existing import is_file
from probe_flow.files.hdf5_files import DAMAGE, new_file, plain_dataset, sealed_file
from probe_flow.files.leftovers import temporary_path

FORMAT = 1
_INDEX = np.dtype(
    [("key", "S32"), ("offset", "<u8"), ("nbytes", "<u8"), ("crc", "<u4"), ("label_at", "<u8"), ("label_nbytes", "<u8")]
)

MAX_SHARD_BYTES = 64 << 20
"""More than twenty times what a batch of results takes; a file that is larger, if only by its name, is none of ours."""


MAX_MADE_BY = 1 << 10
"""Bytes of ``made_by``, as UTF-8."""


class Entry(Struct, frozen=True):
    """One text of the store; ``label`` says for people (and for the question why) what it was made from."""

    text: str
    label: str


class ShardStore:
    """Texts by key below one folder. Shards that cannot be read count as absent and are listed in ``problems``.

    Of a shard that was read only its keys stay in memory: a cache holds far more than a run asks for.

    Args:
        folder: of the shards.
        made_by: what shards that are written say of who they are for.
    """

    def __init__(self, folder: Path, *, made_by: str = "") -> None:
        self.folder = folder
        self._made_by = made_by
        self.problems: list[Diagnostic] = []
        self._paths: list[Path] | None = None
        self._keys: dict[Path, NDArray[np.bytes_]] = {}

    def find(self, keys: Collection[str]) -> Mapping[str, Entry]:
        """Return the entries there are; shards are read newest first, only until all keys are found."""
        if self._paths is None:
            self._paths = self.shards()
        found: dict[str, Entry] = {}
        wanted = set(keys)
        for path in self._paths[:]:
            if not wanted:
                break
            if not self._may_hold(path, wanted):
                continue
            entries = dict(self._read(path, wanted))
            found.update(entries)
            wanted -= entries.keys()
        return {key: found[key] for key in keys if key in found}

    def labels(self) -> Iterator[tuple[str, str]]:
        """Yield ``(key, label)`` of every entry of every readable shard, newest shards first."""
        if self._paths is None:
            self._paths = self.shards()
        known: set[str] = set()
        for path in self._paths[:]:
            for key, entry in self._read(path):
                if key not in known:
                    known.add(key)
                    yield key, entry.label

    def add(self, entries: Mapping[str, Entry]) -> Path | None:
        """Write entries as one new shard and return its path, None when there is nothing to write.

        Raises:
            OSError: when the folder cannot be written to or the disk is full; nothing half-written stays.
        """
        if not entries:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{uuid4().hex}.h5"
        temporary = temporary_path(path)
        try:
            _write(temporary, entries, self._made_by)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._keys[path] = _sorted(entries)
        if self._paths is not None:
            self._paths.insert(0, path)
        return path

    def shards(self) -> list[Path]:
        """Return the shards there are, the newest first."""
        try:
            found = [
                (entry.stat().st_mtime_ns, Path(entry.path)) for entry in os.scandir(self.folder) if _is_shard(entry)
            ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path for _, path in sorted(found, reverse=True)]

    def _may_hold(self, path: Path, wanted: Collection[str]) -> bool:
        known = self._keys.get(path)
        if known is None:
            return True
        asked = _sorted(wanted)
        places = np.searchsorted(known, asked)
        return bool((known[np.minimum(places, len(known) - 1)] == asked).any()) if len(known) else False

    def _read(self, path: Path, wanted: Collection[str] | None = None) -> list[tuple[str, Entry]]:
        """Return the entries of a shard, or those with some keys; one that cannot be read is reported once."""
        assert self._paths is not None
        try:
            keys, entries = read_shard(path, wanted)
        except FormatError as error:
            if path not in self._keys or path.exists():  # what another run removed meanwhile is a miss
                self.problems.extend(error.diagnostics)
            self._paths.remove(path)
            return []
        self._keys[path] = np.sort(keys)
        return entries


def _sorted(keys: Iterable[str]) -> NDArray[np.bytes_]:
    return np.sort(np.array([key.encode() for key in keys], np.bytes_))


def _are_in(keys: NDArray[np.bytes_], known: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Return which keys are among sorted ones, as `numpy.isin` does, which loads `numpy.ma` for it (10 ms)."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    found: NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
    return found


def _is_shard(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".h5") and is_file(entry.path)


def _write(path: Path, entries: Mapping[str, Entry], made_by: str) -> None:
    rows = []
    blob = bytearray()
    for key, entry in entries.items():
        text, label = entry.text.encode(), entry.label.encode()
        offset, label_at = len(blob), len(blob) + len(text)
        rows.append((key.encode(), offset, len(text), zlib.crc32(text), label_at, len(label)))
        blob += text
        blob += label
    index = np.array(rows, _INDEX)
    with new_file(path) as file:
        file.attrs["format"] = FORMAT
        if made_by:
            file.attrs["made_by"] = np.frombuffer(made_by.encode()[:MAX_MADE_BY], np.uint8)
        file.create_dataset("index", data=index, track_times=False)
        file.create_dataset("blob", data=np.frombuffer(blob, np.uint8), track_times=False)


class ShardState(Struct, frozen=True):
    """One shard: how many texts it holds, or what is wrong with it.

    Args:
        path: of the shard.
        entries: how many texts it holds.
        problem: what is wrong with it.
        label: of one of its texts, that of the first key; empty where it holds none.
        made_by: for whom it was written, as its writer said; empty in shards of earlier versions.
    """

    path: Path
    entries: int
    problem: Diagnostic | None = None
    label: str = ""
    made_by: str = ""


def inspect(path: Path) -> ShardState:
    """Read a shard whole and say what it holds."""
    try:
        entries = read_shard(path)[1]
    except FormatError as error:
        return ShardState(path, 0, error.diagnostic)
    return ShardState(path, len(entries), label=entries[0][1].label if entries else "", made_by=_made_by(path))


def _made_by(path: Path) -> str:
    """Return what a sound shard says of whom it is for; empty where that is no short text."""
    try:
        with sealed_file(path) as file:
            attribute = file.attrs.get_id("made_by") if "made_by" in file.attrs else None
            if attribute is None or attribute.dtype != np.uint8 or not 0 < math.prod(attribute.shape) <= MAX_MADE_BY:
                return ""
            found: bytes = file.attrs["made_by"].tobytes()
    except DAMAGE:
        return ""
    return found.decode(errors="replace")


def read_shard(path: Path, wanted: Collection[str] | None = None) -> tuple[NDArray[np.bytes_], list[tuple[str, Entry]]]:
    """Return all keys of one shard, and its entries, in memory of a few times its size whatever it declares.

    Args:
        path: the shard.
        wanted: keys of the entries that are looked at; None = all.

    Raises:
        FormatError: PF6201 not a shard or damaged, PF6202 of a newer version.
    """
    try:
        size = path.stat().st_size
        if size > MAX_SHARD_BYTES:
            raise ValueError(f"it has {size:,} bytes, more than any shard")
        with sealed_file(path) as file:
            version = _version(file)
            if version > FORMAT:
                raise FormatError(_newer(path, version))
            index = plain_dataset(file, "index", _INDEX, size)[()]
            blob = plain_dataset(file, "blob", np.dtype(np.uint8), size)[()].tobytes()
        # Entries that share bytes would make texts out of nothing.
        if index["nbytes"].sum(dtype=float) + index["label_nbytes"].sum(dtype=float) > len(blob):
            raise ValueError("its entries are larger than it is")
        keys = index["key"]
        rows = index if wanted is None else index[_are_in(keys, _sorted(wanted))]
        return keys, [_entry(row, blob) for row in rows.tolist()]
    except DAMAGE as error:
        raise FormatError(
            Diagnostic(
                "PF6201",
                f"cache shard `{path.name}` is damaged or of another program: {error}",
                severity=Severity.WARNING,
                path=str(path),
                help="its results are computed again; `probe-flow cache verify` lists such files, `gc` removes them",
            )
        ) from error


def _version(file: h5py.File) -> int:
    attribute = file.attrs.get_id("format")
    if attribute.shape != () or attribute.dtype.kind not in "iu":
        raise ValueError("its version is no number")
    return int(file.attrs["format"])


def _entry(row: tuple[bytes, int, int, int, int, int], blob: bytes) -> tuple[str, Entry]:
    key, offset, nbytes, crc, label_at, label_nbytes = row
    text, label = blob[offset : offset + nbytes], blob[label_at : label_at + label_nbytes]
    if len(text) != nbytes or len(label) != label_nbytes or zlib.crc32(text) != crc:
        raise ValueError("an entry does not match its checksum")
    return key.decode("ascii"), Entry(text.decode(), label.decode())


def _newer(path: Path, version: int) -> Diagnostic:
    return Diagnostic(
        "PF6202",
        f"cache shard `{path.name}` was written by a newer probe_flow (format {version}, this one reads {FORMAT})",
        severity=Severity.WARNING,
        path=str(path),
        help="its results are computed again; use another `cache.dir` to keep the two apart",
    )
