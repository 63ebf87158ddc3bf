"""What a dump.json says of itself at its beginning, before its entries: enough to tell what it can be compared with."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.dump_json.folders import DESCRIPTIONS
from probe_flow.files.existing import is_file
from probe_flow.files.opening import open_bytes
from probe_flow.records import Framework
from probe_flow.records.frameworks import MINDSPORE, PYTORCH, named

_HEAD_BYTES = 1 << 20
_MAX_NAMES = 200_000
_TASK = re.compile(r'"task"\s*:\s*"(\w{1,40})"')
_FRAMEWORK = re.compile(r'"framework"\s*:\s*"(\w{1,40})"')
_TENSOR = re.compile(r'"type"\s*:\s*"(torch|mindspore)\.')
_TYPE_FRAMEWORKS = {"torch": PYTORCH, "mindspore": MINDSPORE}


class DumpHead(Struct, frozen=True):
    """The head of a dump; None for what it does not say.

    Args:
        file: where it was read.
        framework: what wrote it.
        task: ``tensor``, ``statistics`` ...
    """

    file: Path
    framework: Framework | None
    task: str | None


def read_head(path: Path) -> DumpHead | None:
    """Return the head of a dump, of its first rank and step where there are several; None where there is no dump.

    Never raises: what cannot be read here is told by the reader of the dump.
    """
    file = _described_by(path)
    if file is None:
        return None
    try:
        with open_bytes(file) as opened:
            text = opened.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return DumpHead(file, None, None)
    top, _, _ = text.partition('"data"')
    framework = _FRAMEWORK.search(top)
    tensor = _TENSOR.search(text)
    found = named(framework.group(1)) if framework else _TYPE_FRAMEWORKS[tensor.group(1)] if tensor else None
    task = _TASK.search(top)
    return DumpHead(file, found, task.group(1) if task else None)


def _described_by(path: Path) -> Path | None:
    """Return the file itself, or the first one of its name below a folder, folders in the order of their names."""
    if is_file(path):
        return path if path.name in DESCRIPTIONS else None
    for folder, folders, names in islice(os.walk(path), _MAX_NAMES):
        folders.sort(key=lambda name: (len(name), name))
        for name in DESCRIPTIONS:
            if name in names:
                return Path(folder) / name
    return None
