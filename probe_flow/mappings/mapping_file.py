"""Mapping files: YAML that says which name of the target is which name of the golden, with the place of each entry.

A flat file (cell and data mapping) is one mapping of names; a layer mapping has one such mapping per class. Nothing is
skipped: what is no entry is an error, all errors of a file are reported together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, Span, UsageError
from probe_flow.files.opening import open_bytes
from probe_flow.files.yaml.places import HOLE, Place
from probe_flow.files.yaml.positions import Written, parse_value
from probe_flow.files.yaml.scalars import read_plain
from probe_flow.records import Pairs, TensorRef

MAX_FILE_BYTES = 64 * 2**20
MAX_VALUES = 2_000_000
"""Bounds of a mapping file; a data mapping names every tensor of a dump."""

NO_PARTNER = "N/A"
"""What stands for "no partner" in a data mapping."""


class Entry(Struct, frozen=True):
    """One line of a mapping: a name of the target, the name in the golden (None: none), and where it was written."""

    target: str
    golden: str | None
    span: Span


class ClassEntries(Struct, frozen=True):
    """The children of one class of layers."""

    owner: str
    span: Span
    entries: tuple[Entry, ...]


def read_flat_mapping(path: str | Path, *, what: str) -> tuple[Entry, ...]:
    """Read a cell mapping or a data mapping: one YAML mapping of text to text.

    Args:
        path: the file.
        what: ``cell mapping`` or ``data mapping``; in a data mapping ``N/A`` stands for no partner.

    Raises:
        UsageError: PF4210 unreadable file, PF4211 wrong form, PF1xxx no YAML.
    """
    file = MappingFile(path, what)
    entries = file.entries(file.root, file.place, is_partner_optional=what == "data mapping")
    file.finish()
    return entries


def read_layer_mapping(path: str | Path) -> tuple[ClassEntries, ...]:
    """Read a layer mapping: per class of the target, the names of its children.

    A value is cut at ``(``, which lets people paste the printed form of a layer.

    Raises:
        UsageError: PF4210 unreadable file, PF4211 wrong form, PF1xxx no YAML.
    """
    file = MappingFile(path, "layer mapping")
    found = []
    for owner, children, place in file.items(file.root, file.place, "a mapping of class names"):
        entries = file.entries(children, place)
        found.append(ClassEntries(owner, place.name_span, tuple(_cut(entry) for entry in entries)))
    file.finish()
    return tuple(found)


def _cut(entry: Entry) -> Entry:
    golden = (entry.golden or "").partition("(")[0].strip()
    return Entry(entry.target, golden, entry.span)


class MappingFile:
    """One mapping file being read; mistakes are collected until `finish`.

    Args:
        path: the file.
        what: what messages call it, e.g. ``cell mapping``.
    """

    def __init__(self, path: str | Path, what: str) -> None:
        self.what = what
        self.name = _shown(Path(path))
        self.problems: list[Diagnostic] = []
        written, problems = parse_value(_text(Path(path), self.name, what), self.name, what=what, max_values=MAX_VALUES)
        self.problems += problems
        if written is None:
            raise UsageError(self.problems)
        self.root, self.place = self._checked(written)

    def _checked(self, written: Written) -> tuple[object, Place]:
        if written.value is None or written.value in ({}, []):
            self.wrong(Place(Span(self.name)), f"the {self.what} file `{self.name}` is empty", "write entries, or")
            self.finish()
        return written.value, written.place

    def items(self, value: object, place: Place, expected: str) -> list[tuple[str, object, Place]]:
        """Return the keys (as text), values and places of a mapping; anything else is a mistake."""
        if not isinstance(value, Mapping):
            if value is not HOLE:
                self.wrong(place, f"{_described(value)} stands where {expected} is expected")
            return []
        return [(str(key), item, place.children[key]) for key, item in value.items()]

    def entries(self, value: object, place: Place, *, is_partner_optional: bool = False) -> tuple[Entry, ...]:
        """Return the entries of a mapping of names."""
        found = []
        for key, item, at in self.items(value, place, "a mapping of names"):
            name = self.text(item, at, f"the partner of `{key}`")
            if name is not None:
                partner = None if is_partner_optional and name == NO_PARTNER else name
                found.append(Entry(key, partner, at.name_span))
        return tuple(found)

    def text(self, value: object, place: Place, role: str) -> str | None:
        """Return a name; whole numbers are names too (`0: 1` maps layer 0 to layer 1)."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value
        if value is not HOLE:
            self.wrong(place, f"{role} is {_described(value)}, not a name", "quote it if it is a name, else")
        return None

    def wrong(self, place: Place, message: str, cure: str = "") -> None:
        """Report a wrong form (PF4211)."""
        text = f"{cure} see `probe-flow explain PF4211` for the form of each file".strip()
        self.problems.append(Diagnostic("PF4211", message, span=place.span, path=self.name, help=text))

    def finish(self) -> None:
        """Raise the mistakes found, if any."""
        if self.problems:
            raise UsageError(self.problems)


def _described(value: object) -> str:
    if value is None or value == "":
        return "empty"
    kinds: tuple[tuple[type, str], ...] = ((bool, "true or false"), (float, "a number"), (str, "text"))
    return next((word for kind, word in kinds if isinstance(value, kind)), None) or (
        "a list" if isinstance(value, list) else "a mapping" if isinstance(value, Mapping) else "a number"
    )


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _text(path: Path, name: str, what: str) -> str:
    try:
        with open_bytes(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _unreadable(name, what, why.lower(), "check the path") from error
    if len(data) > MAX_FILE_BYTES:
        raise _unreadable(name, what, f"it is larger than {MAX_FILE_BYTES >> 20} MiB", "check that it is a mapping")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        why = f"line {line} is not UTF-8 text"
        raise _unreadable(name, what, why, "save it as UTF-8") from error


def _unreadable(name: str, what: str, why: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF4210", f"{what} file `{name}` cannot be read: {why}", path=name, help=cure))


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
    return tensor.item if tensor is not None else None


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
