"""Text of mapping files that probe_flow writes: what was paired, as a data mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probe_flow.files.yaml.scalars import read_plain
from probe_flow.mappings.mapping_file import NO_PARTNER
from probe_flow.records import Pairs, TensorRef

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|[0-9]+")


def data_mapping_text(pairs: Pairs) -> str:
    """Return pairs as a data mapping: every target item with its golden item, or with ``N/A``.

    Tensors that carry no item name (dumps of other formats) are left out.
    """
    lines = [f"{yaml_key(target)}: {yaml_key(golden)}" for target, golden in _items(pairs)]
    return "".join(f"{line}\n" for line in lines) or "{}\n"


def _items(pairs: Pairs) -> Iterator[tuple[str, str]]:
    partners: dict[str, str] = {}
    for pair in pairs.pairs:
        name = _item(pair.target)
        if name is None:
            continue
        partner = _item(pair.golden)
        if partner is not None or name not in partners:
            partners[name] = partner or NO_PARTNER
    yield from partners.items()


def _item(tensor: TensorRef | None) -> str | None:
    item = tensor.attrs.get("item") if tensor is not None else None
    return str(item) if item is not None else None


def yaml_key(name: str) -> str:
    """Return a name as a YAML scalar that reads as this very text.

    >>> yaml_key("layers.0"), yaml_key("a: b"), yaml_key("true")
    ('layers.0', '"a: b"', '"true"')
    """
    if name == NO_PARTNER or (_PLAIN.fullmatch(name) and read_plain(name) == name):
        return name
    return f'"{"".join(map(_escaped, name))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else f"\\U{ord(char):08X}"
