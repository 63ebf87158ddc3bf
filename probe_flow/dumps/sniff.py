"""Which kind of dump lies at a path: told by the names of its files and folders, a bounded number of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from probe_flow.dumps.device_folders.layout import is_time, is_torchair
from probe_flow.dumps.dump_json.folders import DEBUG_FILE, DESCRIPTIONS, DUMP_FILE
from probe_flow.dumps.dump_json.tensor_files import FOLDER
from probe_flow.dumps.file_names import parse_fx_name
from probe_flow.dumps.mindspore_graph.layout import run_folder
from probe_flow.dumps.offline.names import parse_array_name, parse_om_array_name, parse_om_name
from probe_flow.dumps.reduced.reduced_names import source_name
from probe_flow.dumps.torchair.graph_files import graph_file_name
from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_file, is_there

DUMP_JSON, TORCHAIR_GE, TORCHAIR_FX, MINDSPORE_GRAPH = "dump_json", "torchair_ge", "torchair_fx", "mindspore_graph"
OM, NPY = "om", "npy"

_KINDS_OF_FILES = MappingProxyType({".json": DUMP_JSON, ".npy": NPY})

MAX_NAMES = 20_000
"""Names looked at below a path; dumps show what they are within the first few."""

_MAX_DEPTH = 8
_MAX_LISTED = 5
_FIRST_TIMESTAMP = 10**11
"""Numbers from here on are times in milliseconds or finer; smaller ones are those of tensors."""

_Folders = tuple[str, ...]


def _is_dump_json(folders: _Folders, name: str) -> bool:  # noqa: ARG001
    return name in DESCRIPTIONS


def _is_torchair_ge(folders: _Folders, name: str) -> bool:
    return graph_file_name(name) is not None or (_is_device(folders, name) and any(map(is_torchair, folders)))


def _is_device(folders: _Folders, name: str) -> bool:
    name = source_name(name) or name  # a reduced file stands for the dumped one
    is_other = name.endswith((".npy", ".json", ".csv", ".txt", ".md"))
    is_array = parse_om_array_name(name) is not None
    return is_array or (not is_other and (any(map(is_time, folders)) or parse_om_name(name) is not None))


def _is_npy(folders: _Folders, name: str) -> bool:  # noqa: ARG001
    found = parse_array_name(name)
    return found is not None and found.timestamp >= _FIRST_TIMESTAMP


def _is_torchair_fx(folders: _Folders, name: str) -> bool:  # noqa: ARG001
    return name.endswith(".npy") and parse_fx_name(name) is not None


def _is_mindspore_graph(folders: _Folders, name: str) -> bool:
    is_value = name.endswith(".npy") or name == "statistic.csv"
    return is_value and not any(map(is_time, folders)) and run_folder(folders, above=()) is not None


KINDS: Mapping[str, tuple[Callable[[_Folders, str], bool], str]] = MappingProxyType(
    {
        DUMP_JSON: (_is_dump_json, f"`{DUMP_FILE}` or `{DEBUG_FILE}` (eager PyTorch or MindSpore)"),
        TORCHAIR_GE: (
            _is_torchair_ge,
            "device files below `worldsize*` or `graph_*`, or `dynamo_original_graph_*.txt`",
        ),
        TORCHAIR_FX: (_is_torchair_fx, "`*.INPUT.*.npy` and `*.OUTPUT.*.npy`"),
        MINDSPORE_GRAPH: (_is_mindspore_graph, "`rank_*/{net}/{graph}/{iteration}` with `*.npy` or `statistic.csv`"),
        OM: (_is_device, "device files, or files below a folder named by 14 digits (offline model)"),
        NPY: (_is_npy, "`{op}.{index}.{timestamp}.npy` (arrays of ONNX Runtime, Caffe or TensorFlow)"),
    }
)
"""Every kind that is looked for: how a file shows it, and what that is for people."""


def _names_in(folder: Path) -> list[str]:
    try:
        return [child.name for child in folder.iterdir()]
    except OSError:
        return []


def kind_of_dump(path: str) -> str:
    """Return the kind of the dump at a path, one of `KINDS`.

    Raises:
        UsageError: PF3401 no such path, PF3430 nothing known there, PF3431 several kinds.
        IncompleteError: PF3409 the path cannot be searched.
    """
    place = Path(path)
    if not is_there(place):
        help_text = did_you_mean(place.name, _names_in(place.parent))
        raise UsageError(Diagnostic("PF3401", f"`{path}` does not exist", path=path, help=help_text))
    if is_file(place):
        if place.suffix in _KINDS_OF_FILES:
            return _KINDS_OF_FILES[place.suffix]
        raise _unknown(path, [])
    try:
        names = list(islice(_names(place), MAX_NAMES))
    except OSError as error:
        message = f"`{path}` cannot be searched: {error.strerror or error}"
        cure = "give yourself the right to read the folder, or name the one that holds the dump"
        raise IncompleteError(Diagnostic("PF3409", message, path=path, help=cure)) from error
    found: dict[str, str] = {}
    for folders, name in names:
        kind = next((kind for kind, (shows, _) in KINDS.items() if shows(folders, name)), None)
        if kind is not None:
            found.setdefault(kind, "/".join((*folders[1:], name)))
    if OM in found and (TORCHAIR_GE in found or any(map(is_torchair, place.resolve().parts[-_MAX_DEPTH:]))):
        # The files of both look alike; what tells them apart may lie beside them, or above the path.
        found.setdefault(TORCHAIR_GE, found.pop(OM))
    if not found:
        raise _unknown(path, ["/".join((*folders[1:], name)) for folders, name in names])
    if len(found) > 1:
        shown = ", ".join(f"{kind} (`{example}`)" for kind, example in found.items())
        raise UsageError(
            Diagnostic(
                "PF3431",
                f"`{path}` holds dumps of {len(found)} kinds: {shown}",
                path=path,
                help="give the folder of one of them, or use the stage of its kind, e.g. `dump.torchair_fx`",
            )
        )
    return next(iter(found))


def _names(root: Path) -> Iterator[tuple[_Folders, str]]:
    """Yield the files below a folder with the folders that hold them (the root's own name first), nearest first."""

    def fail(error: OSError) -> None:
        raise error

    for folder, below, files in os.walk(root, onerror=fail):
        folders = (root.resolve().name, *Path(folder).relative_to(root).parts)
        below[:] = sorted(name for name in below if name != FOLDER) if len(folders) <= _MAX_DEPTH else []
        yield from ((folders, name) for name in sorted(files))


def _unknown(path: str, names: list[str]) -> UsageError:
    looked_for = tuple(f"{kind}: {what}" for kind, (_, what) in KINDS.items())
    held = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED])
    return UsageError(
        Diagnostic(
            "PF3430",
            f"`{path}` holds no dump of a known kind",
            path=path,
            help="give the folder of one dump",
            notes=("looked for " + "; ".join(looked_for), f"it holds {held}" if held else "it holds no file"),
        )
    )
