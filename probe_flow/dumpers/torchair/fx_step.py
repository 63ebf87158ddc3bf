"""One dumped execution of a graph: its folder, the files of each node, and the manifest that is written last."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct, field
from numpy.typing import NDArray

from probe_flow.dumpers.arrays.array_folder import statistics_file
from probe_flow.dumpers.base.runner import NotHeldError
from probe_flow.dumpers.dump_files import Ticks, link_again, make_folder, utc_text, write_array, write_bytes, write_json
from probe_flow.dumpers.torch.tensors import dtype_name, host_array
from probe_flow.dumpers.torchair.fx_options import FxDumpOptions
from probe_flow.dumpers.torchair.fx_tensors import Path as SlotPath
from probe_flow.dumpers.torchair.fx_tensors import by_keyword, peer_array, plain, positional, results
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.dumps.torchair.fx_manifest import STEP_MANIFEST, STEP_SCHEMA


class NodeDump(Struct):
    """The files of one node: ``stem`` is their common beginning, ``time`` their common end."""

    stem: str
    time: str
    facts: dict[str, Any]


class _File(Struct, frozen=True):
    """A file of a tensor: its elements, or their statistics."""

    name: str
    size: int
    is_reduced: bool = False


class _Written(Struct, frozen=True):
    """The files that hold a tensor, as long as the tensor lives and keeps its version."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    files: tuple[_File, ...]


class StepDump(Struct):
    """Writes one execution.

    Args:
        folder: of this execution.
        options: what is written.
        ticks: gives each node its time.
    """

    folder: Path
    options: FxDumpOptions
    ticks: Ticks
    nodes: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    written: int = 0
    size_bytes: int = 0
    _known: dict[int, _Written] = field(default_factory=dict)

    def open(self) -> None:
        """Make the folder."""
        make_folder(self.folder)

    def inputs(self, name: str, target: str, args: Sequence[object], kwargs: Mapping[str, object]) -> NodeDump:
        """Write the arguments of a node before it runs, since it may change them."""
        node = NodeDump(f"{name}-{target}", utc_text(self.ticks.next()), {"name": name, "target": target})
        self.nodes.append(node.facts)
        others: dict[str, object] = {}
        if "input" in self.options.direction:
            self._write(node, "INPUT", positional(args), others)
        for keyword, path, value in by_keyword(kwargs, len(args)):
            if not isinstance(value, torch.Tensor):
                others[keyword] = plain(value)
            elif "input" in self.options.direction and not self.options.peer_compatible:
                self._write(node, "INPUT", [(path, value)], others)
                node.facts.setdefault("keywords", {})[_dotted(path)] = keyword
        if others:
            node.facts["arguments"] = others
        return node

    def outputs(self, node: NodeDump, result: object) -> None:
        """Write what the node returned."""
        if "output" in self.options.direction:
            self._write(node, "OUTPUT", results(result), {})

    def close(self) -> None:
        """Write the manifest: without it, readers know that the execution did not end."""
        content = {
            "schema": STEP_SCHEMA,
            "expected": self.written + len(self.skipped),
            "written": self.written,
            "size_bytes": self.size_bytes,
            "skipped": self.skipped,
            "nodes": self.nodes,
        }
        write_json(self.folder / STEP_MANIFEST, content, indent=None)

    def _write(
        self, node: NodeDump, role: str, values: Iterable[tuple[SlotPath, object]], others: dict[str, object]
    ) -> None:
        for path, value in values:
            if isinstance(value, torch.Tensor):
                self._write_tensor(node, f"{role}.{_dotted(path)}", value)
            elif role == "INPUT":
                others[_dotted(path)] = plain(value)
                if self.options.peer_compatible:
                    self._save(f"{node.stem}.{role}.{_dotted(path)}.{node.time}.npy", peer_array(value))

    def _write_tensor(self, node: NodeDump, slot: str, tensor: torch.Tensor) -> None:
        if self._write_again(node, slot, tensor):
            return
        limit = self.options.max_tensor_bytes
        size = tensor.numel() * tensor.element_size()
        try:
            if limit is not None and size > limit:
                raise NotHeldError(f"it has {size:,} bytes, more than `max_tensor_bytes`")
            array = host_array(tensor)
        except NotHeldError as error:
            self.skipped.append({"tensor": f"{node.stem}.{slot}", "reason": str(error)})
            return
        name = f"{node.stem}.{slot}.{node.time}.npy"
        files = []
        if self.options.data != "statistics":
            files.append(_File(self._save(name, array), array.nbytes))
        if self.options.data != "tensor":
            files.append(self._save_statistics(name, array, dtype_name(tensor)))
        if not tensor.is_inference():  # such tensors do not count their changes
            self._known[id(tensor)] = _Written(weakref.ref(tensor), tensor._version, tuple(files))
        self._add(node, slot, files[0].name, tensor)

    def _write_again(self, node: NodeDump, slot: str, tensor: torch.Tensor) -> bool:
        """Name the files of a tensor that did not change since a node wrote or read it; False if there are none."""
        known = self._known.get(id(tensor))
        if known is None or known.version != tensor._version or known.tensor() is not tensor:
            return False
        plain_name = f"{node.stem}.{slot}.{node.time}.npy"
        names = [reduced_name(plain_name) if file.is_reduced else plain_name for file in known.files]
        if not all(link_again(self.folder, file.name, name) for file, name in zip(known.files, names, strict=True)):
            return False
        self.written += len(names)
        self.size_bytes += sum(file.size for file in known.files)
        self._add(node, slot, names[0], tensor)
        return True

    def _add(self, node: NodeDump, slot: str, file: str, tensor: torch.Tensor) -> None:
        dtype = dtype_name(tensor)
        facts = {"slot": slot, "file": file, "dtype": dtype, "shape": list(tensor.shape)}
        node.facts.setdefault("tensors", []).append(facts)

    def _save(self, name: str, array: NDArray[Any]) -> str:
        file = write_array(self.folder, name, array)
        self.written += 1
        self.size_bytes += array.nbytes
        return file

    def _save_statistics(self, name: str, array: NDArray[Any], dtype: str) -> _File:
        content = statistics_file(array, dtype)
        self.written += 1
        self.size_bytes += len(content)
        return _File(write_bytes(self.folder, reduced_name(name), content), len(content), is_reduced=True)


def _dotted(path: SlotPath) -> str:
    return ".".join(map(str, path))
