"""Compare the dumps of repeated runs of a model: what differs was not computed deterministically."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_json.step_files import DATA_FOLDER
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.opening import open_bytes, read_text

_MAX_LISTED = 10
_BLOCK = 1 << 20
_OUTPUTS = (".output", ".parameters_grad.")


def not_repeatable(folders: Sequence[Path]) -> Iterator[Diagnostic]:
    """Yield PF6330 if further dumps of a model differ from the first: with the entries whose inputs are equal."""
    differing: dict[str, None] = {}
    own: dict[str, None] = {}
    for step in sorted(folders[0].glob("step*/*/dump.json")):
        place = step.relative_to(folders[0])
        for other in folders[1:]:
            for entry, items in _differences(step, other / place):
                differing.update(dict.fromkeys(items))
                if all(_is_result(item) for item in items):
                    own[entry] = None
    if not differing:
        return
    named = list(own) or list(differing)
    what = f"{len(differing)} tensor{'s' if len(differing) > 1 else ''} of repeated runs differ"
    yield Diagnostic(
        "PF6330",
        f"{what}; {len(own)} call{' is' if len(own) == 1 else 's are'} not deterministic",
        severity=Severity.WARNING,
        help="differences up to these come from the run itself, not from the device",
        notes=tuple(f"`{name}`" for name in named[:_MAX_LISTED]),
    )


def _is_result(item: str) -> bool:
    return any(part in item for part in _OUTPUTS)


def _differences(first: Path, second: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries of two dumps that differ, with the names of their tensors that do."""
    others = json.loads(read_text(second))["data"] if second.is_file() else {}
    for entry, value in json.loads(read_text(first))["data"].items():
        files = (first.parent / DATA_FOLDER, second.parent / DATA_FOLDER)
        found = [*_unequal(value, others.get(entry), entry, files)]
        if found:
            yield entry, found


def _unequal(a: Any, b: Any, item: str, folders: tuple[Path, Path]) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict) and "type" not in a and a.keys() == b.keys():
        for key in a:
            yield from _unequal(a[key], b[key], f"{item}.{key}", folders)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _unequal(one, other, f"{item}.{number}", folders)
    elif not _is_equal(a, b, folders):
        yield item


def _is_equal(a: object, b: object, folders: tuple[Path, Path]) -> bool:
    # As text: NaN is equal to itself there.
    if json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True):
        return False
    name = a.get("data_name") if isinstance(a, Mapping) else None
    return not isinstance(name, str) or _same_bytes(folders[0] / name, folders[1] / name)


def _same_bytes(path: Path, other: Path) -> bool:
    with open_bytes(path) as a, open_bytes(other) as b:
        while block := a.read(_BLOCK):
            if block != b.read(_BLOCK):
                return False
        return not b.read(1)
