"""What a measured result depends on: the key under which it is kept, and the fields that explain a miss.

A key covers everything that can change the bits of a result and nothing else: both files (what the file system
says of them, or their content), where in them the tensors lie and how they are decoded, what was asked of the kernel,
and the kernel's layout. Policies, gates and report layouts are not part of it, nor the backend's name (it is recorded
with the result).

The fields are JSON text, put together piece by piece: every task has one, and those that are measured make it twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial

from probe_flow.files.opening import open_bytes
from probe_flow.files.small_files import FileState, SmallFiles, state_of
from probe_flow.measure.batches import Task
from probe_flow.metrics.kernel.record_text import LAYOUT
from probe_flow.records import Execution, Extent, TensorRef, TensorType

_in_json = json.JSONEncoder(default=str).encode

Identify = Callable[[Extent], str | None]
"""Returns what identifies the bytes of an extent, as JSON values behind each other; None when nothing does for sure."""

LEAST_KEPT_BYTES = 32 * 2**10
"""Of elements, both sides together, from which the result of a pair is kept.

To find a result costs as much as to measure 32 KiB. Of 2,000 pairs of 256 float32, keeping took 104 us of CPU each, and
another run took 40 us each more to find them than to measure again; of 2,048 elements 117 and 12 us. Of 8,192 elements
keeping took 113 us and saved 21.
"""

LOOKS = 1 << 10
"""Files of which the last look is remembered: tasks that follow one another share files."""


class Sources:
    """The files of tasks: what identifies their bytes, and whether they changed since they were looked at before.

    A look serves the key of a result and its stamp alike, so that neither speaks of another file than the other. A file
    of which the content is held is not looked at: what is measured is that content, whatever becomes of the file.

    Args:
        by: what identifies a source: ``stat`` (path, size, times and inode) or ``content`` (a digest of the bytes,
            taken once for all that `seen_again` returns).
        small_files: files of which the content is held.
    """

    def __init__(self, by: str, small_files: SmallFiles | None = None) -> None:
        # Not of methods: what refers to itself stays until garbage is collected, and each batch makes one of these.
        self._small_files = held = small_files or SmallFiles()
        self._by_content = cache(partial(_digest, held)) if by == "content" else None
        self._state = lru_cache(LOOKS)(partial(_look, held))

    def seen_again(self) -> Sources:
        """Return the same files, to be looked at again."""
        found = Sources("stat", self._small_files)
        found._by_content = self._by_content
        return found

    def identify(self, extent: Extent) -> str | None:
        """Return what identifies the bytes of an extent; see `Identify`."""
        found = self._state(extent.file)
        if found is None:
            return None
        if self._by_content is not None:
            return self._by_content(extent)
        if not found.is_settled:  # its results are not kept
            return None
        # Two files may well be alike in all of this, so the path belongs to the identity.
        size, modified_ns, changed_ns, inode = found
        return f"{_in_json(extent.file)}, {size}, {modified_ns}, {changed_ns}, {inode}"

    def stamp(self, task: Task) -> int:
        """Return a number that changes with the files of a task; what it is made of takes 300 bytes more a pair."""
        files = [extent.file for tensor in task.tensors for extent in tensor.extents]
        # Without the inode: some remote file systems give a file another one at every look.
        return hash(tuple([found and found[:3] for found in map(self._state, files)]))


def _look(small_files: SmallFiles, file: str) -> FileState | None:
    return small_files.state(file) or state_of(file)


def _digest(small_files: SmallFiles, extent: Extent) -> str | None:
    content = small_files.content(extent.file)
    if content is not None:
        content = content[extent.offset : extent.offset + extent.nbytes]
        return f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
    return _digest_of_file(extent)


def task_text(task: Task, asked: str, *, identify: Identify) -> str | None:
    """Return everything that the result of a task depends on.

    None where the result is not kept: of less than `LEAST_KEPT_BYTES`, or of a file that nothing identifies for sure.

    Args:
        task: what is measured.
        asked: text of what is asked of the kernel (`MeasureOptions.key_text`); without a golden the statistics are.
        identify: what identifies the sources.

    Returns:
        Text of a JSON object, its fields in the order of their names.
    """
    if sum(tensor.nbytes for tensor in task.tensors) < LEAST_KEPT_BYTES:
        return None
    target = _source_text(task.target, identify)
    golden = None if task.golden is None else _source_text(task.golden, identify)
    if target is None or (task.golden is not None and golden is None):
        return None
    of_golden = ""
    if task.golden is None:
        asked = str(("statistics", task.statistics))
    else:
        of_golden = f'"golden.decoding": {_decoding_text(task.golden.type)}, "golden.source": {golden}, '
    return (
        f'{{"blocks": [{task.first_block}, {task.n_blocks}], {of_golden}"kernel": {LAYOUT}, '
        f'"options": {_in_json(asked)}, '
        f'"target.decoding": {_decoding_text(task.target.type)}, "target.source": {target}}}'
    )


def tensor_key(tensor: TensorRef, identify: Identify) -> str | None:
    """Return the key of a tensor's converted copy, None when its file cannot be identified for sure."""
    source = _source_text(tensor, identify)
    return None if source is None else key_of(f'{{"decoding": {_decoding_text(tensor.type)}, "source": {source}}}')


def identity(task: Task) -> str:
    """Return what stays the same of a task when files or options change: which tensors it compares."""
    target, golden = task.target, task.golden
    if golden is None:
        partner = _in_json(task.statistics)
    else:
        partner = f"{_in_json(golden.id)}, {_run_text(golden.node.execution)}"
    has_blocks = "true" if task.n_blocks > 0 else "false"  # a closer look at the pair has none
    run = _run_text(target.node.execution)
    return f"[{run}, {_in_json(target.id)}, {partner}, [{task.first_block}, {has_blocks}]]"


@lru_cache(maxsize=1 << 10)
def _run_text(execution: Execution) -> str:
    return _in_json(execution.identity)


def key_of(text: str) -> str:
    """Return the key of a result whose fields have this text: 32 hexadecimal digits of BLAKE2b."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def label_of(task: Task, text: str) -> str:
    """Return the label of a result for `cache why`: its fields, as text, and its identity."""
    return f'{{"fields": {text}, "identity": {_in_json(identity(task))}}}'


def _source_text(tensor: TensorRef, identify: Identify) -> str | None:
    """Return where the bytes of a tensor come from: what identifies each part, where in it they lie, and how."""
    sources: list[str] = []
    for extent in tensor.extents:
        source = identify(extent)
        if source is None:
            return None
        part = "null" if extent.part is None else _in_json(extent.part)
        sources.append(f"[{source}, {extent.offset}, {extent.nbytes}, {_in_json(extent.encoding)}, {part}]")
    return f"[{', '.join(sources)}]"


@lru_cache(maxsize=1 << 14)
def _decoding_text(shared: TensorType) -> str:
    return _in_json([shared.dtype, shared.layout, shared.sub_format, shared.shape, shared.logical_shape])


def _digest_of_file(extent: Extent) -> str | None:
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
    return f'"{digest.hexdigest()}"'


def differences(wanted: str, kept: Mapping[str, object]) -> tuple[int, tuple[str, ...]]:
    """Return on how many sides a kept result is of other files than the wanted one, and which fields differ.

    Where files are identified by their content, other files are those that hold something else.
    """
    plain = json.loads(wanted)
    names = tuple(sorted(name for name in {*plain, *kept} if plain.get(name) != kept.get(name)))
    others = sum(_first_of_each(plain.get(name)) != _first_of_each(kept.get(name)) for name in _SOURCES)
    return others, names


_SOURCES = ("target.source", "golden.source")


def _first_of_each(sources: object) -> list[object]:
    """Return the paths of a side's files, or the digests of what they hold."""
    return [source[0] for source in sources if source] if isinstance(sources, list) else []
