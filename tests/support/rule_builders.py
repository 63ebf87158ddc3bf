"""Rule JSON for tests, as the public form of such files has it: trees of plain values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Tree = dict[str, Any]

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "atc_json"
"""Real files of ATC, which lie beside the project's folder where they are at hand, since they may not be copied."""


def attr(key: str, **value: Any) -> Tree:
    """Return one entry of an attribute map: ``attr("k", s="text")``."""
    return {"key": key, "value": value}


def texts(*items: str) -> Tree:
    """Return a list of texts; an empty one lacks the member, as in real files."""
    return {"val_type": "VT_LIST_STRING", **({"s": list(items)} if items else {})}


def desc(
    origin: str | None = None,
    index: int | None = None,
    *,
    dtype: str = "DT_FLOAT16",
    layout: str = "NCHW",
    shape: Sequence[int] | None = (1, 8, 4, 4),
    origin_layout: str = "NCHW",
    origin_shape: Sequence[int] | None = None,
) -> Tree:
    """Return an output description."""
    attrs = [attr("origin_format", s=origin_layout)] if origin_layout else []
    if origin is not None:
        attrs.append(attr("_datadump_origin_name", s=origin))
    if index is not None:
        attrs.append(attr("_datadump_origin_output_index", i=index))
    if origin_shape is not None:
        attrs.append(attr("origin_shape", list={"val_type": 2, "i": list(origin_shape)}))
    tree: Tree = {"dtype": dtype, "layout": layout, "attr": attrs}
    if shape is not None:
        tree["shape"] = {"dim": list(shape)}
    return tree


def op(
    name: str,
    op_type: str = "Conv2D",
    *,
    number: int = 0,
    inputs: Sequence[str] = (),
    originals: Sequence[str] | None = None,
    outputs: Sequence[Tree] = (),
    is_multiop: bool | None = None,
    l1: str | None = None,
    attrs: Sequence[Tree] = (),
    subgraphs: Sequence[str] = (),
) -> Tree:
    """Return an operator; what is a default is left out, as in real files."""
    entries = list(attrs)
    if originals is not None:
        entries.append(attr("_datadump_original_op_names", list=texts(*originals)))
    if is_multiop is not None:
        entries.append(attr("_datadump_is_multiop", b=is_multiop))
    if l1 is not None:
        entries.append(attr("_L1_fusion_sub_graph_no", s=l1))
    tree: Tree = {"name": name, "type": op_type, "attr": entries}
    if number:
        tree["id"] = number
    for key, items in (("input", inputs), ("output_desc", outputs), ("subgraph_name", subgraphs)):
        if items:
            tree[key] = list(items)
    return tree


def model(*ops: Tree, name: str = "net", attrs: Sequence[Tree] = (), more: Sequence[Tree] = ()) -> Tree:
    """Return a file of one graph; ``more`` holds further graphs."""
    return {"name": name, "version": 2, "attr": list(attrs), "graph": [{"name": name, "op": list(ops)}, *more]}


def write(path: Path, tree: Tree) -> Path:
    """Write a tree as JSON."""
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path
