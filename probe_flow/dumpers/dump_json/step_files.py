"""The folder of one step of one process: dump.json, stack.json, construct.json, tensor files and the manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_files import link_again, make_folder, write_bytes, write_parts
from probe_flow.dumps.manifest import DUMP_MANIFEST, DumpManifest, ManifestTensor, Skipped

DATA_FOLDER = "dump_tensor_data"
Parts = tuple[bytes | memoryview, ...]
"""The content of a file, in parts that follow each other."""

_NAME_BYTES = 255
_ITEM = re.compile(
    r"(.+?(?:\.\d+\.(?:forward|backward)|\.(?:forward|backward|parameters_grad)\.\d+))"
    r"\.(?:(input|output|parameters)\.)?(.+)",
    re.DOTALL,
)
"""Name of a tensor: entry, slot, index."""
_UNSAFE = re.compile(r"[/\\\x00]")


class StepFiles:
    """The files of a step. Tensors are written as they come, the rest by `finish`; until then the manifest says so.

    Args:
        folder: is made, with a manifest that says that it is not complete.
        head: what dump.json says of the dump, beside its entries.
        facts: what the manifest says of it.
        writes_tensors: whether there are files of tensors.

    Raises:
        IncompleteError: PF6326 when nothing can be written.
    """

    def __init__(
        self, folder: Path, head: Mapping[str, Any], facts: Mapping[str, Any], *, writes_tensors: bool
    ) -> None:
        self.folder = folder
        self._tensors = folder / DATA_FOLDER
        self._head = {**head, "dump_data_dir": str(folder / DATA_FOLDER) if writes_tensors else None}
        self._facts = facts
        self._written: list[ManifestTensor] = []
        self._skipped: list[Skipped] = []
        self._without_figures: list[dict[str, str]] = []
        self._names: set[str] = set()
        make_folder(folder / DATA_FOLDER if writes_tensors else folder)
        self._manifest(is_complete=False)

    def write(
        self, item: str, suffix: str, content: Callable[[], tuple[bytes | memoryview, ...]], facts: Mapping[str, Any]
    ) -> str | None:
        """Write the elements of a tensor and return the name of the file; None if it cannot have one.

        Args:
            item: name of the tensor.
            suffix: ending of the file.
            content: returns its bytes, in parts.
            facts: of the tensor, for the manifest.
        """
        name = self._name(item, suffix)
        if name is None:
            return None
        write_parts(self._tensors, name, content())
        self._written.append(_tensor(name, item, facts))
        return name

    def link(self, item: str, suffix: str, file: str, facts: Mapping[str, Any]) -> str | None:
        """Give a file that holds the same elements another name; None if that cannot be done."""
        name = _UNSAFE.sub("_", item) + suffix
        if name in self._names or not link_again(self._tensors, file, name):
            return None
        self._names.add(name)
        self._written.append(_tensor(name, item, facts))
        return name

    def skip(self, item: str, reason: str) -> None:
        """Say why the elements of a tensor are not in the dump."""
        self._skipped.append(Skipped(item, reason))

    def without_figures(self, item: str, reason: str) -> None:
        """Say why the statistics of a tensor are null."""
        self._without_figures.append({"name": item, "reason": reason})

    def finish(
        self,
        data: Mapping[str, Any],
        stacks: Mapping[tuple[str, ...], list[str]],
        construct: Mapping[str, str | None],
        *,
        is_complete: bool,
        facts: Mapping[str, Any],
    ) -> None:
        """Write everything else, the manifest last.

        Raises:
            IncompleteError: PF6326 when it cannot be written.
        """
        groups = {str(n): [names, list(frames)] for n, (frames, names) in enumerate(stacks.items())}
        self._json("dump.json", {**self._head, "data": data})
        self._json("stack.json", groups)
        self._json("construct.json", construct)
        self._manifest(is_complete=is_complete, facts=facts)

    def _name(self, item: str, suffix: str) -> str | None:
        name = _UNSAFE.sub("_", item) + suffix
        if len(name.encode()) > _NAME_BYTES:
            self.skip(item, f"the name of its file would have more than {_NAME_BYTES} bytes")
            return None
        if name in self._names:
            self.skip(item, "a tensor of this name was written before")
            return None
        self._names.add(name)
        return name

    def _json(self, name: str, content: object) -> None:
        write_bytes(self.folder, name, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def _manifest(self, *, is_complete: bool, facts: Mapping[str, Any] | None = None) -> None:
        manifest = DumpManifest(
            is_complete=is_complete,
            expected=len(self._written) + len(self._skipped),
            written=len(self._written),
            skipped=tuple(self._skipped),
            tensors=tuple(self._written),
            facts={**self._facts, **(facts or {}), "without_statistics": self._without_figures},
        )
        write_bytes(self.folder, DUMP_MANIFEST, manifest.encoded())


def _tensor(file: str, item: str, facts: Mapping[str, Any]) -> ManifestTensor:
    """Return what the manifest says of a file; the name of its tensor says which call and which slot it is of."""
    found = _ITEM.fullmatch(item)
    node, slot, index = found.groups() if found else (item, "value", "")
    slot = slot or "parameter_grad"
    shape = tuple(facts["shape"])
    number = int(index) if index.isdecimal() else index
    return ManifestTensor(f"{DATA_FOLDER}/{file}", node, slot, number, facts["dtype"], shape)
