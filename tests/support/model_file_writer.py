"""Write offline models (``.om``) for tests from the published layout alone: header, table of partitions, definition.

The definition is given as the tree of its rule JSON (see `rule_builders`) and encoded field by field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Tree = dict[str, Any]

DTYPES = {
    "DT_FLOAT": 1, "DT_FLOAT16": 2, "DT_INT8": 3, "DT_UINT8": 4, "DT_INT32": 7, "DT_INT64": 8, "DT_UINT64": 10,
    "DT_BOOL": 11, "DT_BF16": 27,
}  # fmt: skip
VALUE_TYPES = {"VT_LIST_STRING": 1, "VT_LIST_INT": 2, "VT_LIST_FLOAT": 3, "VT_LIST_BOOL": 4}
NEW_VERSION = 0x20000000


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def block(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    return block(number, value.encode())


def fraction(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", float(value))


def definition(tree: Tree, *, is_packed: bool = True) -> bytes:
    """Return the ModelDef of a rule JSON; lists of numbers packed or not."""
    out = text(1, tree.get("name", "")) + whole(2, tree.get("version", 0))
    out += b"".join(block(7, _graph(graph, is_packed=is_packed)) for graph in tree["graph"])
    return out + _attrs(11, tree.get("attr", ()), is_packed=is_packed)


def _graph(graph: Tree, *, is_packed: bool) -> bytes:
    out = text(1, graph["name"]) if "name" in graph else b""
    return out + b"".join(block(6, _op(op, is_packed=is_packed)) for op in graph.get("op", ()))


def _op(op: Tree, *, is_packed: bool) -> bytes:
    out = text(1, op["name"]) + text(2, op["type"])
    out += b"".join(text(5, reference) for reference in op.get("input", ()))
    out += _attrs(10, op.get("attr", ()), is_packed=is_packed)
    out += whole(20, 1)
    if "id" in op:
        out += whole(21, op["id"])
    out += b"".join(block(33, _desc(desc, is_packed=is_packed)) for desc in op.get("input_desc", ()))
    out += b"".join(block(34, _desc(desc, is_packed=is_packed)) for desc in op.get("output_desc", ()))
    return out + b"".join(text(35, name) for name in op.get("subgraph_name", ()))


def _desc(desc: Tree, *, is_packed: bool) -> bytes:
    out = whole(2, DTYPES[desc["dtype"]]) if "dtype" in desc else b""
    if "shape" in desc:
        out += block(3, _many(1, desc["shape"].get("dim", ()), is_packed=is_packed))
    if "layout" in desc:
        out += text(4, desc["layout"])
    return out + _attrs(5, desc.get("attr", ()), is_packed=is_packed) + whole(10, 4096)


def _attrs(number: int, entries: Iterable[Tree], *, is_packed: bool) -> bytes:
    out = b""
    for entry in entries:
        value = entry.get("value")
        content = text(1, entry["key"]) + (b"" if value is None else block(2, _value(value, is_packed=is_packed)))
        out += block(number, content)
    return out


def _value(value: Tree, *, is_packed: bool) -> bytes:
    makers: dict[str, Callable[[Any], bytes]] = {
        "s": lambda item: text(2, item),
        "i": lambda item: whole(3, item),
        "f": lambda item: fraction(4, item),
        "b": lambda item: whole(5, int(item)),
        "list": lambda items: block(1, _list(items, is_packed=is_packed)),
    }
    # Tensors and functions: present, with content that nobody needs.
    return b"".join(makers.get(key, lambda _: block(12, b"\x0a\x00"))(item) for key, item in value.items())


def _list(items: Tree, *, is_packed: bool) -> bytes:
    out = b"".join(text(2, item) for item in items.get("s", ()))
    out += _many(3, items.get("i", ()), is_packed=is_packed)
    out += b"".join(fraction(4, item) for item in items.get("f", ()))
    out += _many(5, [int(item) for item in items.get("b", ())], is_packed=is_packed)
    kind = items.get("val_type")
    return out + (b"" if kind is None else whole(20, VALUE_TYPES.get(kind, kind)))


def _many(number: int, values: Sequence[int], *, is_packed: bool) -> bytes:
    if is_packed:
        return block(number, b"".join(map(varint, values))) if values else b""
    return b"".join(whole(number, value) for value in values)


def narrow(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a table with 32-bit places, and its partitions."""
    return _table(parts, "<I", "<III")


def wide(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a table with 64-bit places, and its partitions."""
    return _table(parts, "<II", "<IIQQ")


def _table(parts: Sequence[tuple[int, bytes]], head: str, entry: str) -> bytes:
    is_wide = entry == "<IIQQ"
    out = struct.pack(head, *((len(parts), 0) if is_wide else (len(parts),)))
    offset = 0
    for kind, content in parts:
        out += struct.pack(entry, *((kind, 0) if is_wide else (kind,)), offset, len(content))
        offset += len(content)
    return out + b"".join(content for _, content in parts)


def header(*, version: int = NEW_VERSION, models: int = 1, model_length: int = 0, kind: int = 0) -> bytearray:
    """Return a header; ``models`` and ``model_length`` are said by new versions only."""
    raw = bytearray(256)
    struct.pack_into("<III", raw, 0, 0x444F4D49, 256, version)
    raw[82] = kind
    raw[84:87] = b"net"
    if version >= NEW_VERSION:
        struct.pack_into("<I", raw, 156, models)
        struct.pack_into("<Q", raw, 184, model_length)
    return raw


def om_bytes(tree: Tree, *, is_wide: bool = False, is_packed: bool = True, version: int = NEW_VERSION) -> bytes:
    """Return a whole model: definition, weights and tasks, as real ones have them."""
    parts = [(0, definition(tree, is_packed=is_packed)), (1, b"\x07" * 64), (2, b"\x0a\x03abc"), (3, b"kernel")]
    body = wide(parts) if is_wide else narrow(parts)
    return bytes(header(version=version, model_length=len(body) if is_wide else 0)) + body


def write_om(path: Path, tree: Tree, **form: Any) -> Path:
    """Write a model."""
    path.write_bytes(om_bytes(tree, **form))
    return path
