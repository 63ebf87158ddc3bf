"""Write a dump as a folder of arrays, ``{node}.{index}.{microseconds}.npy``, with its manifest.

For frameworks that name operators and number their outputs. Every tensor is written as it is given, none is held.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace
from numpy.typing import NDArray

from probe_flow.dumpers.base.node_filter import NodeFilter
from probe_flow.dumpers.dump_files import Ticks, make_folder, write_array, write_bytes
from probe_flow.dumps.device_folders.layout import MAPPING_FILE
from probe_flow.dumps.file_names import MAX_MAPPING_BYTES
from probe_flow.dumps.manifest import DUMP_MANIFEST, DumpManifest, ManifestNode, ManifestTensor, Skipped
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedTensor
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.opening import read_whole
from probe_flow.metrics.reduction import reduce_blocks

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_PLAIN = frozenset("biufc")

STATISTICS = ("min", "max", "mean", "l2norm")
"""What statistics of a dump are."""


class ArrayOptions(Struct, frozen=True):
    """Which tensors a folder of arrays holds.

    Args:
        nodes: which nodes are dumped.
        data: ``tensor`` writes the elements, ``statistics`` only minimum, maximum, mean and L2 norm, ``both`` both.
        max_tensor_bytes: larger tensors are left out, and named in the manifest.
    """

    nodes: NodeFilter = field(default_factory=NodeFilter)
    data: str = "tensor"
    max_tensor_bytes: int | None = None

    @classmethod
    def of(cls, dump: Mapping[str, Any]) -> ArrayOptions:
        """Return the options of a job."""
        patterns = {name: tuple(dump.get(name) or ()) for name in ("include", "exclude", "types")}
        return cls(NodeFilter(**patterns), dump.get("data", "tensor"), dump.get("max_tensor_bytes"))


def clean_name(name: str) -> str:
    """Return the name of a node as file names have it.

    >>> clean_name("/block.0/conv:1")
    '_block_0_conv_1'
    """
    return _UNSAFE.sub("_", name)


class ArrayFolder:
    """The folder of one dump. Its manifest says that it is incomplete until `finish`.

    Args:
        folder: is made.
        options: what it holds.

    Raises:
        IncompleteError: PF6326 when nothing can be written.
    """

    def __init__(self, folder: Path, options: ArrayOptions) -> None:
        self.folder = folder
        self.options = options
        self._ticks = Ticks()
        self._names: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._tensors: list[ManifestTensor] = []
        self._skipped: list[Skipped] = []
        self._renamed: list[tuple[str, str]] = []
        make_folder(folder)
        self._write_manifest(DumpManifest())

    @property
    def written(self) -> int:
        """How many files there are."""
        return len(self._tensors)

    def takes(self, node: str, op_type: str) -> bool:
        """Return True if the tensors of a node are asked for."""
        return self.options.nodes.takes(node, op_type)

    def write(
        self,
        node: str,
        op_type: str,
        index: int,
        array: NDArray[Any],
        *,
        dtype: str | None = None,
        value: str = "",
        item: int | None = None,
    ) -> None:
        """Write output number ``index`` of a node, as elements, statistics or both.

        Args:
            node: its true name.
            op_type: its type.
            index: of the output.
            array: its elements, any shape; not kept.
            dtype: true dtype, where ``array`` is wider; None = its own.
            value: name of the tensor itself.
            item: number in a sequence that the output is.

        Raises:
            IncompleteError: PF6326 when it cannot be written.
        """
        name = value or f"{node}:{index}"
        limit = self.options.max_tensor_bytes
        if array.dtype.kind not in _PLAIN:
            self.skip(name, f"its elements are of type {array.dtype}, which are no numbers")
            return
        if limit is not None and array.nbytes > limit:
            self.skip(name, f"it has {array.nbytes:,} bytes, more than `max_tensor_bytes`")
            return
        stem = self._stem(node)
        place = f"{index}.{item}" if item is not None else str(index)
        file = f"{stem}.{place}.{self._ticks.next()}.npy"
        true_dtype = dtype or str(array.dtype)
        facts = ManifestTensor(file, node, "output", index, true_dtype, array.shape, op_type, value, item)
        if self.options.data != "statistics":
            self._add(facts, write_array(self.folder, file, array), file)
        if self.options.data != "tensor":
            self._add_statistics(facts, array)

    def _add(self, facts: ManifestTensor, file: str, full: str, *, is_reduced: bool = False) -> None:
        known = replace(facts, file=file, is_reduced=is_reduced, full_name=full if file != full else "")
        self._tensors.append(known)
        if facts.node in self._names and self._names[facts.node] != clean_name(facts.node):
            self._renamed.append((file, full.replace(self._names[facts.node], facts.node, 1)))

    def _add_statistics(self, facts: ManifestTensor, array: NDArray[Any]) -> None:
        full = reduced_name(facts.file)
        file = write_bytes(self.folder, full, statistics_file(array, facts.dtype))
        self._add(facts, file, full, is_reduced=True)

    def skip(self, name: str, reason: str) -> None:
        """Say why a tensor of the model is not in the dump."""
        self._skipped.append(Skipped(name, reason))

    def finish(self, facts: Mapping[str, Any], nodes: Sequence[ManifestNode] = ()) -> None:
        """Write the manifest that makes the dump complete.

        Args:
            facts: of the run, for people.
            nodes: of the model's graph.

        Raises:
            IncompleteError: PF6326 when it cannot be written.
        """
        if self._renamed:
            self._write_mapping()
        expected = len(self._tensors) + len(self._skipped)
        skipped, tensors = tuple(self._skipped), tuple(self._tensors)
        self._write_manifest(
            DumpManifest(
                is_complete=True,
                expected=expected,
                written=len(tensors),
                skipped=skipped,
                nodes=tuple(nodes),
                tensors=tensors,
                facts={**facts, "options": asdict(self.options) | {"nodes": asdict(self.options.nodes)}},
            )
        )

    def nothing_dumped(self) -> IncompleteError:
        """Return PF6327."""
        reasons = tuple(f"`{each.name}`: {each.reason}" for each in self._skipped[:5])
        cure = "widen `filter`; a model without operators has nothing to dump"
        return IncompleteError(Diagnostic("PF6327", "nothing was dumped of the model", help=cure, notes=reasons))

    def _stem(self, node: str) -> str:
        """Return the name of a node in file names: another one than any other node has."""
        if node not in self._names:
            plain = clean_name(node)
            stem, number = plain, 1
            while stem in self._taken:
                number += 1
                stem = f"{plain}__{number}"
            self._names[node] = self._taken.setdefault(stem, stem)
        return self._names[node]

    def _write_manifest(self, manifest: DumpManifest) -> None:
        write_bytes(self.folder, DUMP_MANIFEST, manifest.encoded())

    def _write_mapping(self) -> None:
        """Add the true names of files whose operators' names clean to that of another operator."""
        path = self.folder / MAPPING_FILE
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(self._renamed)
        before = read_whole(path, MAX_MAPPING_BYTES) if path.exists() else b""
        write_bytes(self.folder, MAPPING_FILE, before + text.getvalue().encode())


def statistics_file(array: NDArray[Any], dtype: str) -> bytes:
    """Return the content of the file: minimum, maximum, mean and L2 norm, with the true dtype and the shape."""
    figures = reduce_blocks(_ArrayBlocks(array.reshape(-1)), STATISTICS).figures
    return ReducedArray(STATISTICS, ReducedTensor(figures, dtype, array.shape)).to_bytes()


class _ArrayBlocks(Struct, frozen=True):
    """An array in memory, as the kernel reads it."""

    array: NDArray[Any]

    @property
    def numel(self) -> int:
        return int(self.array.size)

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]
