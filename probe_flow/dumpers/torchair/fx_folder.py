"""The folder of an FX dump: which rank it is for, what may be replaced in it, how it differs from a repeated one."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from probe_flow.dumpers.arrays.repeats import Unequal, array_difference
from probe_flow.dumpers.dump_files import make_folder, write_json
from probe_flow.dumpers.torch.ranks import world_and_rank
from probe_flow.dumps.device_folders.layout import rank_of
from probe_flow.dumps.reduced.reduced_names import SUFFIX
from probe_flow.dumps.torchair.fx_manifest import DUMP_MANIFEST, DUMP_SCHEMA
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import read_text
from probe_flow.version import __version__

_NAME = re.compile(r"(?P<node>[^-]+)-(?P<target>.+)\.(?P<slot>(?:INPUT|OUTPUT)[.\d]*)\.\d{20}(?:" + SUFFIX + r")?\.npy")


def open_fx_folder(path: Path, options: Mapping[str, Any], *, overwrite: bool) -> Path:
    """Return the folder of this process's rank below ``path``, new or emptied, with its manifest.

    Raises:
        UsageError: PF6321 if there is something that a dump must not be mixed with.
        IncompleteError: PF6326 if it cannot be written.
    """
    world, rank = world_and_rank() or (1, 0)
    path = path.absolute()
    folder = path / f"worldsize{world}_global_rank{rank}"
    if path.exists():
        _check_root(path, world, folder)
    if folder.exists() and any(folder.iterdir()):
        _replace(folder, overwrite=overwrite)
    make_folder(folder)
    write_json(folder / DUMP_MANIFEST, _facts(world, rank, options))
    return folder


def _check_root(path: Path, world: int, folder: Path) -> None:
    """Refuse a folder with other things than ranks of the same world: a reader would take them for one dump."""
    if not path.is_dir():
        raise _refusal(path, "is a file, not a folder", "name a new folder")
    for entry in sorted(path.iterdir()):
        if entry == folder or (rank_of(entry.name) is not None and entry.name.startswith(f"worldsize{world}_")):
            continue
        raise _refusal(path, f"holds `{entry.name}`, which is no part of this dump", "name a new or an empty folder")


def _replace(folder: Path, *, overwrite: bool) -> None:
    if not overwrite:
        raise _refusal(folder, "is not empty", "name a new folder, or pass `overwrite` to replace the dump in it")
    if folder.is_symlink() or not _is_ours(folder / DUMP_MANIFEST):
        raise _refusal(folder, "holds no dump of probe_flow, so it is not replaced", "name a new folder, or remove it")
    shutil.rmtree(folder)


def _is_ours(manifest: Path) -> bool:
    try:
        content = json.loads(read_text(manifest))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("schema") == DUMP_SCHEMA


def _refusal(path: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6321", f"the dump folder `{path.name}` {what}", help=cure, path=str(path)))


def _facts(world: int, rank: int, options: Mapping[str, Any]) -> dict[str, Any]:
    versions = {"probe_flow": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "schema": DUMP_SCHEMA,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "world_size": world,
        "rank": rank,
        "versions": versions,
        "options": options,
    }


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
