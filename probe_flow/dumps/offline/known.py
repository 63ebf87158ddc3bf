"""What the manifest beside a folder of arrays tells of its operators: their true names, types, and what they read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.manifest import (
    DumpManifest,
    ManifestError,
    ManifestNode,
    manifest_problems,
    read_manifest,
    unreadable_manifest,
)
from probe_flow.dumps.offline.names import parse_array_name
from probe_flow.files.walk import DumpListing
from probe_flow.records import Edge, Execution, NodeKey, Problem


class Known(Struct, frozen=True):
    """What a manifest says; nothing where there is none.

    Args:
        files: name of a file -> name of the node that holds it: its true name, of an item of a sequence that with the
            number of the output.
        clean_names: true name -> name in file names.
        types: true name -> type of the operator.
        values: name of a tensor -> (true name of its operator, number of the output).
        nodes: the operators of the model's graph, dumped or not.
        model: path and SHA-256 of the model, where it is an ONNX file.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    clean_names: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    nodes: tuple[ManifestNode, ...] = ()
    model: tuple[str, str] | None = None

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """True name -> names of the tensors that the operator reads."""
        return {node.name: node.inputs for node in self.nodes}

    def edges(self, nodes: Collection[NodeKey]) -> tuple[Edge, ...]:
        """Return the data flow between dumped operators; what others pass on from one to the next is followed."""
        by_name = {key.name: key for key in nodes if key.execution == Execution()}
        reads = self.reads
        return tuple(
            Edge(producer, output, by_name[name], number)
            for name, read in reads.items()
            if name in by_name
            for number, value in enumerate(read)
            for producer, output in self._producers(value, by_name, reads)
        )

    def _producers(
        self, value: str, by_name: Mapping[str, NodeKey], reads: Mapping[str, tuple[str, ...]]
    ) -> Iterator[tuple[NodeKey, int]]:
        """Yield the dumped operators that a tensor comes from."""
        ahead, seen = [value], set[str]()
        while ahead:
            each = ahead.pop()
            if each in seen or each not in self.values:
                continue
            seen.add(each)
            name, output = self.values[each]
            if name in by_name:
                yield by_name[name], output
            else:
                ahead += reversed(reads.get(name, ()))


def known_of(listing: DumpListing, problems: list[Problem]) -> Known:
    """Return what the manifest of a folder says, and report what is wrong with it or with the dump."""
    folder = Path(listing.root)
    try:
        manifest = read_manifest(folder)
    except ManifestError as error:
        problems.append(unreadable_manifest(folder, error))
        return Known()
    names = {file.name for file in listing.files if not file.folders}
    problems.extend(manifest_problems(folder, manifest, names))
    return _known(manifest) if manifest is not None else Known()


def _known(manifest: DumpManifest) -> Known:
    files: dict[str, str] = {}
    clean_names: dict[str, str] = {}
    types = {node.name: node.op_type for node in manifest.nodes}
    values = {
        value: (node.name, number) for node in manifest.nodes for number, value in enumerate(node.outputs) if value
    }
    for tensor in manifest.tensors:
        parsed = parse_array_name(tensor.full_name or tensor.file)
        if parsed is not None:
            name = files[tensor.file] = tensor.node if tensor.item is None else parsed.op
            clean_names[name] = parsed.op
        types.setdefault(tensor.node, tensor.op_type)
        if tensor.value and isinstance(tensor.index, int):
            values.setdefault(tensor.value, (tensor.node, tensor.index))
    path, digest = manifest.model.get("path"), manifest.model.get("sha256")
    is_onnx = isinstance(path, str) and path.endswith(".onnx") and isinstance(digest, str)
    return Known(files, clean_names, types, values, manifest.nodes, (str(path), str(digest)) if is_onnx else None)
