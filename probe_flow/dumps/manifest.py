"""`dump_manifest.json` beside a dump that probe_flow made: what it holds, what it leaves out and why, how it was made.

It is written twice: when the dump begins (``is_complete`` false), and last, in place of the first. A dump of another
program has none. ``tensors`` lists what was written in the order in which it was computed, ``nodes`` (where the
framework has a graph) what each operator reads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.existing import is_file
from probe_flow.files.opening import read_whole
from probe_flow.records import Problem

DUMP_MANIFEST = "dump_manifest.json"
DUMP_SCHEMA = "probe_flow/dump/1"
JOB_FILE = "model_job.json"
"""Lies beside the folder of a dump that a stage made."""

MODEL_GRAPH = "model_graph"
"""Attribute of a catalog with the operators of the model that was run, dumped or not."""

_MAX_BYTES = 256 << 20
_MAX_LISTED = 5


class ManifestTensor(Struct, frozen=True, omit_defaults=True):
    """One file of a dump.

    Args:
        file: its name, relative to the folder of the manifest.
        node: true name of what gave the tensor.
        slot: ``output``, ``input``, ``parameter`` ...
        index: number of the tensor in its slot; text where it has a name.
        dtype: true dtype, which the file may hold widened.
        shape: of the tensor.
        op_type: of the node.
        value: name of the tensor itself, where the framework has one.
        item: number in a sequence of tensors.
        is_reduced: whether the file holds statistics in place of the elements.
        full_name: of a file whose name is a number, since its own is too long.
    """

    file: str
    node: str
    slot: str
    index: int | str
    dtype: str
    shape: tuple[int, ...]
    op_type: str = ""
    value: str = ""
    item: int | None = None
    is_reduced: bool = False
    full_name: str = ""


class ManifestNode(Struct, frozen=True, omit_defaults=True):
    """An operator of the model's graph: names of the tensors that it reads and gives, empty text for none."""

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class Skipped(Struct, frozen=True):
    """A tensor that the dump does not hold, and why."""

    name: str
    reason: str


class DumpManifest(Struct, frozen=True):
    """The manifest of one folder. ``facts`` are what only people read: versions, hashes, seed, options.

    ``model`` is one of these: name, path and SHA-256 of the model that was run, as far as it is a file.
    """

    is_complete: bool = False
    expected: int = 0
    written: int = 0
    skipped: tuple[Skipped, ...] = ()
    nodes: tuple[ManifestNode, ...] = ()
    tensors: tuple[ManifestTensor, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the content of the file, a tensor a line."""
        head = {"schema": DUMP_SCHEMA, "is_complete": self.is_complete, **self.facts}
        head |= {"expected": self.expected, "written": self.written}
        parts = [json.dumps(head, ensure_ascii=False, indent=1, default=str)[:-2].encode()]
        for name, items in (("skipped", self.skipped), ("nodes", self.nodes), ("tensors", self.tensors)):
            lines = b",\n".join(b"  " + msgspec.json.encode(item) for item in items)
            parts.append(b',\n "%s": [%s]' % (name.encode(), b"\n" + lines + b"\n " if items else b""))
        return b"".join(parts) + b"\n}\n"


class ManifestError(ValueError):
    """The text says what is wrong with a manifest."""


def read_manifest(folder: Path) -> DumpManifest | None:
    """Return the manifest in a folder; None if there is none, or another program's.

    Raises:
        ManifestError: it cannot be read.
    """
    path = folder / DUMP_MANIFEST
    if not is_file(path):
        return None
    try:
        content = read_whole(path, _MAX_BYTES)
        if msgspec.json.decode(content, type=_Head).schema != DUMP_SCHEMA:
            return None
        return msgspec.json.decode(content, type=DumpManifest)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ManifestError(f"`{DUMP_MANIFEST}` cannot be read: {error}") from error


class _Head(Struct, frozen=True):
    schema: str = ""


class ModelFile(Struct, frozen=True):
    """The file of the model that a dump was made of, where it was one.

    Args:
        framework: that ran it, e.g. ``onnxruntime``.
        path: of the file, when it ran.
        sha256: of its content.
    """

    framework: str
    path: str
    sha256: str


class _OfFile(Struct, frozen=True):
    path: str = ""
    sha256: str = ""


class _Made(Struct, frozen=True):
    framework: str = ""
    model: _OfFile = _OfFile()


def model_file(folder: Path) -> ModelFile | None:
    """Return the file of the model that a dump of ours in a folder was made of; None where no manifest tells one."""
    path = folder / DUMP_MANIFEST
    if not is_file(path):
        return None
    try:
        made = msgspec.json.decode(read_whole(path, _MAX_BYTES), type=_Made)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
    return ModelFile(made.framework, made.model.path, made.model.sha256) if made.model.path else None


def manifest_problems(folder: Path, manifest: DumpManifest | None, names: Collection[str]) -> Iterator[Problem]:
    """Yield PF6340 if a dump of ours did not end, lost files or does not add up, PF6341 for what it leaves out.

    Args:
        folder: of the dump.
        manifest: of that folder.
        names: of the files in it.
    """
    if manifest is None:
        if is_file(folder.parent / JOB_FILE):
            yield _incomplete(folder, f"has no `{DUMP_MANIFEST}`: it was not finished, or is another program's")
        return
    if not manifest.is_complete:
        yield _incomplete(folder, "did not end: its manifest says so")
        return
    lost = [tensor.file for tensor in manifest.tensors if tensor.file not in names]
    if lost:
        shown = ", ".join(f"`{name}`" for name in lost[:_MAX_LISTED])
        yield _incomplete(
            folder, f"lacks {len(lost)} of the {len(manifest.tensors)} files that it had, such as {shown}"
        )
    accounted = manifest.written + len(manifest.skipped)
    if manifest.expected != accounted or manifest.written != len(manifest.tensors):
        what = f"{manifest.expected} tensors were expected, {manifest.written} written"
        yield _incomplete(folder, f"does not add up: {what} and {len(manifest.skipped)} left out")
    if manifest.skipped:
        yield Diagnostic(
            "PF6341",
            f"of the model, {_tensors(len(manifest.skipped))} not dumped",
            severity=Severity.NOTE,
            help=f"`{DUMP_MANIFEST}` lists all of them with the reasons",
            notes=tuple(f"`{each.name}`: {each.reason}" for each in manifest.skipped[:_MAX_LISTED]),
            path=str(folder),
        )


def unreadable_manifest(folder: Path, error: ManifestError) -> Problem:
    """Return PF6340 for a manifest that cannot be read."""
    return _incomplete(folder, f"cannot be checked: {error}")


def _tensors(count: int) -> str:
    return "1 tensor is" if count == 1 else f"{count} tensors are"


def _incomplete(folder: Path, what: str) -> Problem:
    return Diagnostic(
        "PF6340",
        f"the dump `{folder.name}` {what}",
        severity=Severity.WARNING,
        help="look at why it ended (`model.log` beside it), and dump again; what is there is compared",
        path=str(folder),
    )
