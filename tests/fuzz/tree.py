"""Folders of fuzz inputs: as data, on the disk, and packed into one file that is kept."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Mapping
from enum import Enum
from pathlib import Path


class Odd(Enum):
    """What stands in the place of a file and is none."""

    FOLDER = "folder"
    NOWHERE = "link to nothing"
    LOOP = "link to itself"
    OUTSIDE = "link that leads out"
    PIPE = "pipe"


Content = bytes | Odd
Tree = Mapping[str, Content]
"""Files by their paths, relative and with slashes."""


class Place:
    """A folder that holds one tree after another; only what differs is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, Content] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, tree: Tree) -> Path:
        """Make the folder hold a tree and return the folder."""
        for name in self._held.keys() - tree.keys():
            self._remove(name)
        for name, content in tree.items():
            if self._held.get(name) is not content:
                if name in self._held:
                    self._remove(name)
                self._write(name, content)
        return self.folder

    def _remove(self, name: str) -> None:
        path = self.folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        del self._held[name]
        while (path := path.parent) != self.folder and not any(path.iterdir()):
            path.rmdir()

    def _write(self, name: str, content: Content) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._held[name] = content
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is Odd.FOLDER:
            path.mkdir()
        elif content is Odd.PIPE:
            os.mkfifo(path)
        else:
            aims = {Odd.NOWHERE: "missing", Odd.LOOP: path.name, Odd.OUTSIDE: "/etc/hostname"}
            path.symlink_to(aims[content])


def packed(tree: Tree) -> bytes:
    """Return a tree as a zip archive, the same bytes each time; the comment of a member says what odd thing it is."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(tree.items()):
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            if isinstance(content, Odd):
                member.comment = content.value.encode()
            archive.writestr(member, b"" if isinstance(content, Odd) else content)
    return target.getvalue()


def unpacked(content: bytes) -> Tree:
    """Return the tree of an archive of `packed`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {
            member.filename: Odd(member.comment.decode()) if member.comment else archive.read(member)
            for member in archive.infolist()
        }


def digest(content: bytes) -> str:
    """Return the name under which an input is kept."""
    return hashlib.sha256(content).hexdigest()[:16]


def tree_of(folder: Path, *, max_bytes: int = 1 << 18) -> Tree:
    """Return the files below a folder, without those that are larger."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size <= max_bytes)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
