"""Read which execution a folder of a TorchAir dump is of, in all layouts that are known, and what lies in it.

Device dumps: ``[worldsize{W}_global_rank{R}/]{time14}/{device_id}/{model_name}/{model_id}/{token}``; the model's name
begins with ``graph_{gid}``. FX dumps count tokens from 0 under ``worldsize{W}_global_rank{R}/graph_{gid}/{token}`` and
from 1 under ``data_dump/{token + 1}/gm_{ts20}_dump``, where neither rank nor graph id is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.file_names import GeFileName, read_name_mapping
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile
from probe_flow.records import Problem, TensorRef

_RANK = re.compile(r"worldsize.*rank(\d{1,9})")
_TIME = re.compile(r"\d{14}")
_TOKEN = re.compile(r"\d{1,11}")
_MODEL = re.compile(r"graph_(\d{1,9})(?=_|$)")
_FX_GRAPH = re.compile(r"graph_(\d{1,9})")
_GM = re.compile(r"gm_.*_dump")
_LEVELS = 4
"""Folders below that of a run: device, model, its number, token."""


class GeFolder(Struct, frozen=True):
    """What the folders above a device dump file say; None where they are silent."""

    rank: int | None = None
    time: str | None = None
    device: int | None = None
    model_name: str | None = None
    model_id: int | None = None
    step: int | None = None

    @property
    def graph(self) -> int | None:
        found = _MODEL.match(self.model_name or "")
        return int(found.group(1)) if found else None


class FxFolder(Struct, frozen=True):
    """What the folders above an FX array say. ``graph`` is a graph id, the name of a ``gm_*_dump`` folder, or None."""

    rank: int | None = None
    graph: int | str | None = None
    step: int | None = None


def rank_of(folder: str) -> int | None:
    """Return the global rank of a ``worldsize{W}_global_rank{R}`` folder, None for other folders."""
    found = _RANK.fullmatch(folder)
    return int(found.group(1)) if found else None


def is_torchair(folder: str) -> bool:
    """Tell whether a folder name is one that only TorchAir dumps have above their device files."""
    return folder == "msprobe_ge_dump" or rank_of(folder) is not None or _MODEL.match(folder) is not None


def is_time(folder: str) -> bool:
    """Tell whether a folder name is a 14-digit time of a run."""
    return _TIME.fullmatch(folder) is not None


def ge_folder(folders: Sequence[str]) -> GeFolder:
    """Return the identity that the folders of a device dump file give."""
    rank = next((found for name in folders if (found := rank_of(name)) is not None), None)
    at = next((index for index, name in enumerate(folders) if is_time(name)), None)
    time = folders[at] if at is not None else None
    below = list(folders[at + 1 :]) if at is not None else [name for name in folders if rank_of(name) is None]
    if time is not None and len(below) == 1:
        return GeFolder(rank, time, device=_number(below[0]))
    levels: list[str | None] = [None] * _LEVELS + list(below)
    device, model_name, model_id, token = levels[-_LEVELS:]
    return GeFolder(rank, time, _number(device), model_name, _number(model_id), _number(token))


def fx_folder(folders: Sequence[str], *, root_name: str = "") -> FxFolder:
    """Return the identity that the folders of an FX array give; steps count from 0 whatever the layout counts from."""
    rank = next((found for name in folders if (found := rank_of(name)) is not None), None)
    for index, name in enumerate(folders):
        if _GM.fullmatch(name):
            token = _number(folders[index - 1]) if index else _number(root_name)
            return FxFolder(rank, name, token - 1 if token is not None else None)
        if (graph := _FX_GRAPH.fullmatch(name)) is not None:
            token = _number(folders[index + 1]) if index + 1 < len(folders) else None
            return FxFolder(rank, int(graph.group(1)), token)
    token = next((found for name in reversed(folders) if (found := _number(name)) is not None), None)
    counts_from_one = "data_dump" in folders or root_name == "data_dump"
    return FxFolder(rank, None, token - 1 if token is not None and counts_from_one else token)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _TOKEN.fullmatch(text) else None


def dump_of(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the folders above the first one whose name a device gives: that of the dump, where several lie below."""
    is_named = (rank_of(name) is not None or is_time(name) for name in folders)
    at = next((index for index, named in enumerate(is_named) if named), max(len(folders) - _LEVELS, 0))
    return tuple(folders[:at])


MAPPING_FILE = "mapping.csv"


class GeFile(Struct, frozen=True, gc=False):
    """A dump file with its parsed (real) name.

    ``form`` is ``raw``, ``reduced``, ``statistics`` (of the device) or ``array`` (a `.npy` in place of a raw file).
    """

    file: DumpFile
    name: GeFileName
    form: str = "raw"


def name_mappings(files: Sequence[DumpFile], problems: list[Problem]) -> dict[tuple[str, ...], Mapping[str, str]]:
    """Return what the `mapping.csv` of each folder says; rows that say nothing become problems."""
    found: dict[tuple[str, ...], Mapping[str, str]] = {}
    for file in files:
        if file.name == MAPPING_FILE:
            found[file.folders], bad = read_name_mapping(Path(file.path), file.relative)
            problems.extend(bad)
    return found


def not_a_dump_file(file: DumpFile, what: str) -> Problem:
    """Report a file that is passed over because its name is not that of a dumped tensor."""
    return Diagnostic("PF3205", f"`{file.relative}` is passed over: {what}", severity=Severity.NOTE, path=file.relative)


def hashed_without_mapping(file: DumpFile, why: str) -> Problem:
    """Report a file whose true name is unknown."""
    return Diagnostic(
        "PF3208",
        f"`{file.relative}` is skipped: its name is a hash and {why}",
        severity=Severity.WARNING,
        help=f"copy the dump together with its `{MAPPING_FILE}`",
        path=file.relative,
    )


def is_unsized(ref: TensorRef) -> bool:
    """Whether a tensor lies in blocks and its file does not say what it is without their padding."""
    if ref.layout == "ND" or ref.shape is None or ref.logical_shape != ref.shape:
        return False
    from probe_flow.tensors.blocked_layouts import BLOCKED

    return ref.layout in BLOCKED


def numel_of(ref: TensorRef) -> int | None:
    """Return the number of elements, None where only the number of stored ones is known."""
    is_padded = ref.logical_shape is None and ref.layout != "ND"  # recorded statistics
    return None if is_padded or is_unsized(ref) else ref.numel
