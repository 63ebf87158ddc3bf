"""Say whether two runs of the same workflow left the same files: `python -m benchmarks.same_files FOLDER FOLDER`.

For changes that may alter how long a run takes but nothing else: run the workflow with the code before and after the
change (`PYTHONPATH` picks it) on the same dumps, then compare the folders. What names a run or a moment (times,
durations, the name and the folder of the run) counts as equal; everything else must be the same, byte for byte. The
payload of the HTML report is compared unpacked, the events of the run are not compared.
"""

from __future__ import annotations

import base64
import re
import sys
import zipfile
import zlib
from pathlib import Path

SKIPPED = {"events.jsonl"}
_MOMENTS = (
    (re.compile(rb"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), b"<time>"),
    (re.compile(rb"20\d{6}-?\d{6}|(?<!\d)1[6-9]\d{17}(?!\d)"), b"<time>"),
    (re.compile(rb'("(?:\w+_s|seconds|duration\w*)"): ?[\d.e+-]+'), rb"\1: <seconds>"),
    (re.compile(rb'\btime="[\d.]+"'), b'time="<seconds>"'),
)
_PAYLOAD = re.compile(rb'(<script type="text/plain" id="data">)([^<]*)')


def differing(first: Path, second: Path) -> list[str]:
    """Return what differs between two folders of results, a line each; nothing when they are the same."""
    left, right = _files(first), _files(second)
    lines = [f"{name}: only in one of them" for name in sorted(left.keys() ^ right.keys())]
    for name in sorted(left.keys() & right.keys()):
        one, other = (_settled(path, folder) for path, folder in ((left[name], first), (right[name], second)))
        if one != other:
            place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), -1)
            lines.append(
                f"{name}: {one[max(0, place - 60) : place + 60]!r} and {other[max(0, place - 60) : place + 60]!r}"
            )
    return lines


def _files(folder: Path) -> dict[str, Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in SKIPPED)
    return {_without_moments(str(path.relative_to(folder)).encode()).decode(): path for path in found}


def _settled(path: Path, folder: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".html":
        content = _PAYLOAD.sub(lambda found: found[1] + zlib.decompress(base64.b64decode(found[2])), content)
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            content = b"\n".join(name.encode() + b"\n" + book.read(name) for name in book.namelist())
    names = {str(folder), str(folder.resolve()), folder.name}
    for name in sorted(names, key=len, reverse=True):
        content = content.replace(name.encode(), b"<run>")
    return _without_moments(content)


def _without_moments(content: bytes) -> bytes:
    for pattern, instead in _MOMENTS:
        content = pattern.sub(instead, content)
    return content


if __name__ == "__main__":
    found = differing(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(found) or "the same files")
    sys.exit(1 if found else 0)
