"""Write what reproduces one call of a dump: the script, and the tensors of both sides beside it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.dumps.dump_json.raw_entries import raw_entries
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.atomic import atomic_text
from probe_flow.records import Catalog, Execution, Node, NodeKind, Phase
from probe_flow.records.frameworks import MINDSPORE
from probe_flow.scripts.bundle import script_text

_UNSAFE = re.compile(r"[^\w.-]")
FORMAT = "dump_json"


class Suspect(Struct, frozen=True):
    """A call of the target, and the same of the golden where it has one.

    Args:
        target, golden: the catalogs.
        node: of the target.
        golden_node: of the golden.
    """

    target: Catalog
    node: Node
    golden: Catalog | None = None
    golden_node: Node | None = None


def write_script(suspect: Suspect, folder: Path) -> Path:
    """Write ``repro_ENTRY.py`` and the folder ``repro_ENTRY`` with the tensors of the call; return the script.

    Raises:
        IncompleteError: PF6631 nothing of the kind can be made of the call; PF7001 a file cannot be written.
    """
    entry = suspect.node.entry or suspect.node.key.name
    if suspect.target.attrs.get("format") != FORMAT:
        raise unusable(entry, "scripts are made of dumps with a dump.json")
    key = suspect.node.key
    if suspect.node.kind is not NodeKind.API or key.phase is Phase.NONE:
        inside = _inside(suspect.target, suspect.node)
        raise unusable(entry, "it is no call of an API", f"name one with `--node`, e.g. {inside}" if inside else None)
    kind, _, api = key.name.partition(".")
    name = f"repro_{_UNSAFE.sub('_', entry)}"
    sides: dict[str, dict[str, Any]] = {}
    files: dict[str, Mapping[str, Path]] = {}
    for side, catalog, node in (
        ("target", suspect.target, suspect.node),
        ("golden", suspect.golden, suspect.golden_node),
    ):
        if catalog is None or node is None:
            continue
        found = _entries(catalog, node)
        if "forward" not in found or key.phase.value not in found:
            if side == "golden":
                continue
            raise unusable(entry, "the dump has no forward entry of it, which holds its inputs")
        sides[side], files[side] = found, _tensor_files(catalog, node.key.execution, found)
    for side, named in files.items():
        place = folder / name / side
        place.mkdir(parents=True, exist_ok=True)
        for file_name, source in named.items():
            _copy(source, place / file_name, entry)
    settings = {
        "framework": "mindspore" if suspect.target.framework == MINDSPORE else "pytorch",
        "entry": entry,
        "kind": kind,
        "api": api,
        "direction": key.phase.value,
        "sides": sides,
        "folder": name,
    }
    path = folder / f"{name}.py"
    needs = "mindspore and torch" if settings["framework"] == "mindspore" else "torch"
    with atomic_text(path) as file:
        file.write(script_text("repro_script", settings, needs=needs))
    return path


def _inside(catalog: Catalog, node: Node) -> str | None:
    """Return the entry of an API that a module called last; None where there is none."""
    found = [each.entry for each in catalog.nodes.values() if each.caller == node.entry and each.kind is NodeKind.API]
    return found[-1] if found else None


def _entries(catalog: Catalog, node: Node) -> dict[str, Any]:
    """Return the entries of a call by their direction, as the dump has them."""
    start = f"{(node.entry or '').rpartition('.')[0]}."
    wanted = {f"{start}{direction}": direction for direction in ("forward", "backward")}
    found: dict[str, Any] = {}
    for entry, value in raw_entries(catalog, node.key.execution):
        if entry in wanted:
            found[wanted[entry]] = value
    return found


def _tensor_files(catalog: Catalog, execution: Execution, entries: Mapping[str, Any]) -> dict[str, Path]:
    """Return the tensor files that entries name, by these names."""
    wanted = set(_names(entries))
    return {
        Path(extent.file).name: Path(extent.file)
        for tensor in catalog.tensors
        if tensor.node.execution == execution
        for extent in tensor.extents
        if Path(extent.file).name in wanted
    }


def _names(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            name = each.get("data_name")
            if isinstance(name, str) and isinstance(each.get("type"), str):
                yield name
            else:
                pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _copy(path: Path, place: Path, entry: str) -> None:
    try:
        shutil.copyfile(path, place)
    except OSError as error:
        raise unusable(entry, f"`{path.name}` cannot be copied: {error.strerror or error}") from error


def unusable(entry: str, why: str, help_: str | None = None) -> IncompleteError:
    """Return the error of a call that no script can be made of."""
    cure = help_ or "`show --node` says what is known of it"
    return IncompleteError(Diagnostic("PF6631", f"no script can be made of `{entry}`: {why}", help=cure))
