"""Print rule JSON as the graph compiler prints a graph (protobuf text format), for tests: from the messages alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Tree = dict[str, Any]

ENUMS = {"dtype", "val_type"}
"""Fields whose texts are words; all others are quoted."""


def printed(tree: Tree, *, is_one_line: bool = False) -> str:
    """Return the text of a model."""
    lines = list(_message(tree, ""))
    return " ".join(line.strip() for line in lines) if is_one_line else "\n".join(lines) + "\n"


def write(path: Path, tree: Tree, **how: bool) -> Path:
    path.write_bytes(printed(tree, **how).encode("utf-8", "surrogatepass"))
    return path


def of_json(path: Path) -> Tree:
    return json.loads(path.read_text(encoding="utf-8"))


def _message(tree: Tree, indent: str) -> Iterator[str]:
    for key, value in tree.items():
        for each in value if isinstance(value, list) else [value]:
            yield from _field(key, each, indent)


def _field(key: str, value: Any, indent: str) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, dict):
        yield f"{indent}{key} {{"
        yield from _message(value, indent + "  ")
        yield f"{indent}}}"
    elif isinstance(value, bool):
        yield f"{indent}{key}: {str(value).lower()}"
    elif key == "f" and isinstance(value, (str, float, int)):
        yield f"{indent}{key}: {value}"
    elif isinstance(value, str) and key not in ENUMS and not _is_number_text(key, value):
        yield f"{indent}{key}: {_quoted(value)}"
    else:
        yield f"{indent}{key}: {value}"


def _is_number_text(key: str, value: str) -> bool:
    """Whether a printer of JSON quoted a 64-bit number."""
    return key in ("i", "dim", "dt", "id", "size") and value.lstrip("-").isdigit()


def _quoted(value: str) -> str:
    """Return a text quoted; what is escaped in the JSON already (attributes are bytes there) stays as it is."""
    if "\\" in value:
        return '"' + value.replace("\n", "\\n") + '"'
    return '"' + value.replace('"', '\\"').replace("\n", "\\n") + '"'
