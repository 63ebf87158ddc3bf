"""Write a torch dump again as MindSpore would name it, and match it through a mapping."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from generate.dump_json_pairs import leaves
from probe_flow.errors import Span
from probe_flow.mappings.api_mapping_file import ApiEntry
from probe_flow.mappings.mapping_file import Entry
from probe_flow.matching.mapping.data import match_data_mapping
from probe_flow.matching.mapping.match_mapping import match_api_mapping
from probe_flow.records import Catalog, Pairs

DTYPES = {
    "torch.float32": "Float32", "torch.float16": "Float16", "torch.bfloat16": "BFloat16", "torch.int64": "Int64",
    "torch.bool": "Bool", "torch.int32": "Int32",
}  # fmt: skip
TYPES = {"Functional": "MintFunctional", "Torch": "Mint", "Tensor": "Tensor"}
NOWHERE = Span("mapping.yaml", 1, 1)


def renamed(entry: str, way: str) -> str:
    """Return the name of an entry: known to the built-in table, or to the mapping's file only."""
    kind, _, rest = entry.partition(".")
    if way == "built-in table" or kind == "Tensor":
        return f"{TYPES[kind]}.{rest}"
    return f"Mint.own_{kind.lower()}_{rest}"


def rewrite(dump: Path, way: str) -> None:
    """Rename what a dump of torch holds, in place."""
    top = json.loads((dump / "dump.json").read_text())
    data = {}
    for entry, value in top["data"].items():
        name = renamed(entry, way)
        for role, part in value.items():
            for _, leaf in leaves(part, role):
                if leaf["type"] != "torch.Tensor":
                    continue
                leaf.update(type="mindspore.Tensor", dtype=DTYPES[leaf["dtype"]])
                leaf.pop("requires_grad")
                if "data_name" in leaf:
                    leaf["data_name"] = _as_array(dump / "dump_tensor_data", leaf["data_name"], entry, name)
        data[name] = value
    (dump / "dump.json").write_text(json.dumps({**top, "framework": "mindspore", "data": data}))
    (dump / "construct.json").write_text(json.dumps(dict.fromkeys(data)))


def _as_array(folder: Path, file: str, entry: str, name: str) -> str:
    tensor = torch.load(folder / file, weights_only=True)
    (folder / file).unlink()
    made = file.replace(entry, name).removesuffix(".pt") + ".npy"
    np.save(folder / made, (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())
    return made


def match(target: Catalog, golden: Catalog, way: str) -> Pairs:
    """Match a target that was renamed."""
    if way == "data mapping":
        return match_data_mapping(target, golden, entries=list(_entries(golden, way)))
    entries = () if way == "built-in table" else tuple(_apis(golden, way))
    return match_api_mapping(target, golden, entries=entries)


def _entries(golden: Catalog, way: str) -> Iterator[Entry]:
    for item in sorted({tensor.item for tensor in golden.tensors if tensor.item}):
        yield Entry(renamed(item, way), item, NOWHERE)


def _apis(golden: Catalog, way: str) -> Iterator[ApiEntry]:
    names = {".".join(node.entry.split(".")[:2]) for node in golden.nodes.values() if node.entry}
    for name in sorted(names):
        if not name.startswith("Tensor."):
            yield ApiEntry(renamed(name, way), name, NOWHERE, {})
