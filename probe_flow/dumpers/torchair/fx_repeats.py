"""Compare the FX dumps of repeated runs, array by array."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from probe_flow.dumpers.base.repeats import Unequal, array_difference
from probe_flow.dumps.reduced.reduced_names import SUFFIX

_NAME = re.compile(r"(?P<node>[^-]+)-(?P<target>.+)\.(?P<slot>(?:INPUT|OUTPUT)[.\d]*)\.\d{20}(?:" + SUFFIX + r")?\.npy")


def unequal_arrays(first: Path, second: Path) -> Iterator[Unequal]:
    """Yield what differs between two dumps of the same model, in the order in which the first computed it."""
    others = _arrays(second)
    for key, path in sorted(_arrays(first).items(), key=lambda item: _time(item[1])):
        found = _NAME.fullmatch(path.name)
        if found is None:
            continue
        other = others.get(key)
        difference = array_difference(path, other) if other is not None else None
        if difference != 0.0:
            yield Unequal(key[0], found["node"], found["target"], found["slot"], difference)


def _arrays(root: Path) -> dict[tuple[str, str], Path]:
    """Return the arrays by folder and name without time; statistics where the elements were not dumped."""
    found: dict[tuple[str, str], Path] = {}
    for path in root.rglob("*.npy"):
        stem = path.name.removesuffix(".npy")
        is_reduced = stem.endswith(SUFFIX)
        key = str(path.parent.relative_to(root)), stem.removesuffix(SUFFIX).rpartition(".")[0]
        if not is_reduced or key not in found:
            found[key] = path
    return found


def _time(path: Path) -> tuple[str, str]:
    return path.name.removesuffix(".npy").removesuffix(SUFFIX).rpartition(".")[2], path.name
