"""The dump formats there are: ours, and those of installed packages (entry point `probe_flow.readers`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias, cast

from msgspec import Struct

from probe_flow.dumps.device_folders.layout import is_time, is_torchair
from probe_flow.dumps.dump_json.folders import DEBUG_FILE, DESCRIPTIONS, DUMP_FILE
from probe_flow.dumps.file_names import parse_fx_name
from probe_flow.dumps.mindspore_graph.layout import run_folder
from probe_flow.dumps.offline.names import parse_array_name, parse_om_array_name, parse_om_name
from probe_flow.dumps.reduced.reduced_names import source_name
from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.graph_files import graph_file_name
from probe_flow.packages import PackageError, Registry
from probe_flow.records import Catalog

Folders: TypeAlias = tuple[str, ...]
Shows: TypeAlias = Callable[[Folders, str], bool]

DUMP_JSON, TORCHAIR_GE, TORCHAIR_FX, MINDSPORE_GRAPH = "dump_json", "torchair_ge", "torchair_fx", "mindspore_graph"
OM, NPY, TFDBG, ARRAYS = "om", "npy", "tfdbg", "arrays"

_FIRST_TIMESTAMP = 10**11
"""Numbers from here on are times in milliseconds or finer; smaller ones are those of tensors."""


class ReaderSpec(Struct, frozen=True):
    """One dump format: how it is recognised, and what reads it.

    Args:
        name: what people write as ``kind:`` of `dump.auto`.
        shows: returns True if a file shows a dump of this format, given the names of the folders that hold it (from
            that of the path on down) and its own. It opens nothing.
        signs: the same for people: which files show one.
        read: returns the catalog of the dump at a path, called as ``read(path, side=..., select=...)`` with the name of
            the stage and a `Selection`; or names that function as ``module:attribute``, which is then imported when a
            dump is read. It loads no tensor; what cannot be taken becomes a diagnostic in `Catalog.problems`.
        is_last: whether it takes files of any name, and so is asked only where no other reader knows the dump.
    """

    name: str
    shows: Shows
    signs: str
    read: Callable[..., Catalog] | str
    is_last: bool = False

    def catalog(self, path: str, *, side: str, select: Selection | None = None) -> Catalog:
        """Return the catalog of the dump at a path."""
        read = self.read
        if isinstance(read, str):
            module, _, name = read.partition(":")
            read = cast("Callable[..., Catalog]", getattr(import_module(module), name))
        return read(path, side=side, select=Selection() if select is None else select)


def _is_dump_json(folders: Folders, name: str) -> bool:  # noqa: ARG001
    return name in DESCRIPTIONS


def _is_torchair_ge(folders: Folders, name: str) -> bool:
    return graph_file_name(name) is not None or (_is_device(folders, name) and any(map(is_torchair, folders)))


def _is_device(folders: Folders, name: str) -> bool:
    name = source_name(name) or name  # a reduced file stands for the dumped one
    is_other = name.endswith((".npy", ".json", ".csv", ".txt", ".md"))
    is_array = parse_om_array_name(name) is not None
    return is_array or (not is_other and (any(map(is_time, folders)) or parse_om_name(name) is not None))


def _is_npy(folders: Folders, name: str) -> bool:  # noqa: ARG001
    found = parse_array_name(name)
    return found is not None and found.timestamp >= _FIRST_TIMESTAMP


def _is_any_array(folders: Folders, name: str) -> bool:  # noqa: ARG001
    return name.endswith(".npy") and not name.startswith(".")


def _is_torchair_fx(folders: Folders, name: str) -> bool:  # noqa: ARG001
    return name.endswith(".npy") and parse_fx_name(name) is not None


def _is_tfdbg(folders: Folders, name: str) -> bool:
    return name.startswith("tfdbg_events.") or any(folder.startswith("_tfdbg_device_") for folder in folders)


def _is_mindspore_graph(folders: Folders, name: str) -> bool:
    is_value = name.endswith(".npy") or name == "statistic.csv"
    return is_value and not any(map(is_time, folders)) and run_folder(folders, above=()) is not None


_OURS = (
    ReaderSpec(
        TFDBG,
        _is_tfdbg,
        "`run_*/_tfdbg_device_*` or `tfdbg_events.*` (TensorFlow debugger)",
        "probe_flow.dumps.tfdbg.reader:read_tfdbg",
    ),
    ReaderSpec(
        DUMP_JSON,
        _is_dump_json,
        f"`{DUMP_FILE}` or `{DEBUG_FILE}` (eager PyTorch or MindSpore)",
        "probe_flow.dumps.dump_json.reader:read_dump_json",
    ),
    ReaderSpec(
        TORCHAIR_GE,
        _is_torchair_ge,
        "device files below `worldsize*` or `graph_*`, or `dynamo_original_graph_*.txt`",
        "probe_flow.dumps.torchair.ge:read_torchair_ge",
    ),
    ReaderSpec(
        TORCHAIR_FX,
        _is_torchair_fx,
        "`*.INPUT.*.npy` and `*.OUTPUT.*.npy`",
        "probe_flow.dumps.torchair.fx:read_torchair_fx",
    ),
    ReaderSpec(
        MINDSPORE_GRAPH,
        _is_mindspore_graph,
        "`rank_*/{net}/{graph}/{iteration}` with `*.npy` or `statistic.csv`",
        "probe_flow.dumps.mindspore_graph.reader:read_mindspore_graph",
    ),
    ReaderSpec(
        OM,
        _is_device,
        "device files, or files below a folder named by 14 digits (offline model)",
        "probe_flow.dumps.offline.om_dump:read_om",
    ),
    ReaderSpec(
        NPY,
        _is_npy,
        "`{op}.{index}.{timestamp}.npy` (arrays of ONNX Runtime, Caffe or TensorFlow)",
        "probe_flow.dumps.offline.npy_folder:read_npy_folder",
    ),
    ReaderSpec(
        ARRAYS,
        _is_any_array,
        "`*.npy` of any name (arrays without any order)",
        "probe_flow.dumps.arrays:read_arrays",
        is_last=True,
    ),
)


def _accept(name: str, found: object) -> ReaderSpec:
    if not isinstance(found, ReaderSpec):
        raise PackageError(f"it is no `ReaderSpec` but a `{type(found).__name__}`")
    if found.name != name:
        raise PackageError(f"its reader is called `{found.name}`")
    if not (callable(found.shows) and (callable(found.read) or isinstance(found.read, str))):
        raise PackageError("its reader lacks a `shows` or a `read` function")
    return found


READERS: Registry[ReaderSpec] = Registry(
    ("reader", "readers"),
    "probe_flow.readers",
    {spec.name: spec for spec in _OURS},
    _accept,
    unknown="PF1204",
    unusable="PF3432",
)
"""Every dump format by its name."""
