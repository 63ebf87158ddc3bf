"""What a measured result depends on: the key under which it is kept, and the fields that explain a miss.

A key covers everything that can change the bits of a result and nothing else: both files (what the file system
says of them, or their content), where in them the tensors lie and how they are decoded, what was asked of the kernel,
and the kernel's layout. Policies, gates and report layouts are not part of it, nor the backend's name (it is recorded
with the result).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import cache

from probe_flow.files.opening import open_bytes
from probe_flow.measure.batches import Task
from probe_flow.metrics.kernel.record_text import LAYOUT
from probe_flow.records import Extent, TensorRef

Fields = Mapping[str, object]

SETTLE_NS = 2_000_000_000
"""A file younger than this may be rewritten within the same tick of its clock: its results are not kept."""


Identify = Callable[[Extent], tuple[object, ...] | None]
"""Tells what identifies the bytes of an extent, None when nothing does for sure."""


def identifier(by: str) -> Identify:
    """Return what identifies sources: by ``stat`` (path, size, times and inode) or ``content`` (a digest of the bytes).

    Make one per comparison: a tensor that several pairs use is digested once, and none of an earlier comparison is.
    """
    return cache(_content) if by == "content" else _stat


def task_fields(task: Task, asked: str, *, identify: Identify) -> Fields | None:
    """Return everything that the result of a task depends on, None when a file cannot be identified for sure.

    Args:
        task: what is measured.
        asked: text of what is asked of the kernel (`MeasureOptions.key_text`); without a golden the statistics are.
        identify: what identifies the sources.
    """
    sides = {}
    if task.golden is None:
        asked = str(("statistics", task.statistics))
    for side, tensor in zip(("target", "golden"), task.tensors, strict=False):
        described = _tensor_fields(tensor, identify)
        if described is None:
            return None
        sides.update({f"{side}.{name}": value for name, value in described.items()})
    return {**sides, "blocks": [task.first_block, task.n_blocks], "kernel": LAYOUT, "options": asked}


def tensor_key(tensor: TensorRef, identify: Identify) -> str | None:
    """Return the key of a tensor's converted copy, None when its file cannot be identified for sure."""
    fields = _tensor_fields(tensor, identify)
    return None if fields is None else key_of(fields)


def identity(task: Task) -> str:
    """Return what stays the same of a task when files or options change: which tensors it compares."""
    target, golden = task.target, task.golden
    run = target.node.execution.identity
    place = task.first_block, task.n_blocks > 0  # a closer look at the pair has no blocks
    partner = None if golden is None else [golden.id, golden.node.execution.identity]
    return json.dumps([run, target.id, *(partner or [task.statistics]), place])


def key_of(fields: Fields) -> str:
    """Return the key of a result: 32 hexadecimal digits of BLAKE2b."""
    return key_of_text(fields_text(fields))


def label_of(task: Task, text: str) -> str:
    """Return the label of a result for `cache why`: its fields, as text, and its identity."""
    return f'{{"fields": {text}, "identity": {json.dumps(identity(task))}}}'


def fields_text(fields: Fields) -> str:
    """Return fields as text: the same for the same fields, whatever their order."""
    return json.dumps(fields, sort_keys=True, default=str)


def key_of_text(text: str) -> str:
    """Return the key of a result whose fields have this text."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _tensor_fields(tensor: TensorRef, identify: Identify) -> dict[str, object] | None:
    sources: list[object] = []
    for extent in tensor.extents:
        source = identify(extent)
        if source is None:
            return None
        sources.append([*source, extent.offset, extent.nbytes, extent.encoding, extent.part])
    return {
        "source": sources,
        "decoding": [tensor.dtype, tensor.layout, tensor.sub_format, tensor.shape, tensor.logical_shape],
    }


def status_of(file: str) -> os.stat_result | None:
    """Return what the file system says of a file, None when it says nothing.

    Size and modification time do not tell a file from what it was before somebody wrote it anew: `cp -p`, `rsync -t`
    and `tar` set that time as they like. `st_ctime_ns` is the kernel's own.
    """
    try:
        return os.stat(file)  # noqa: PTH116  # a third of the time, four times a pair
    except OSError:  # the measurement itself will say what is wrong with the file
        return None


def _stat(extent: Extent) -> tuple[object, ...] | None:
    found = status_of(extent.file)
    if found is None or time.time_ns() - found.st_mtime_ns < SETTLE_NS:
        return None
    # Two files may well be alike in all of this, so the path belongs to the identity.
    return extent.file, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _content(extent: Extent) -> tuple[object, ...] | None:
    digest = hashlib.blake2b(digest_size=16)
    left = extent.nbytes
    try:
        with open_bytes(extent.file) as stream:
            stream.seek(extent.offset)
            while left > 0 and (piece := stream.read(min(left, 1 << 22))):
                digest.update(piece)
                left -= len(piece)
    except OSError:  # the measurement itself will say what is wrong with the file
        return None
    return (digest.hexdigest(),)


def differences(wanted: Fields, kept: Mapping[str, object]) -> tuple[int, tuple[str, ...]]:
    """Return on how many sides a kept result is of other files than the wanted one, and which fields differ.

    Where files are identified by their content, other files are those that hold something else.
    """
    plain = json.loads(fields_text(wanted))
    names = tuple(sorted(name for name in {*plain, *kept} if plain.get(name) != kept.get(name)))
    others = sum(_first_of_each(plain.get(name)) != _first_of_each(kept.get(name)) for name in _SOURCES)
    return others, names


_SOURCES = ("target.source", "golden.source")


def _first_of_each(sources: object) -> list[object]:
    """Return the paths of a side's files, or the digests of what they hold."""
    return [source[0] for source in sources if source] if isinstance(sources, list) else []
