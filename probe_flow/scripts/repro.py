"""Write what reproduces one call of a dump: the script, and the tensors of both sides beside it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from probe_flow.dumps.dump_json.raw_entries import raw_entries
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, NotComparableError
from probe_flow.files.atomic import atomic_text
from probe_flow.records import Catalog, Execution, Node, NodeKey, NodeKind, SlotRole
from probe_flow.records.frameworks import MINDSPORE, NPY, OM, TORCHAIR_FX, TORCHAIR_GE
from probe_flow.scripts.bundle import script_text
from probe_flow.scripts.fx_operator import KIND, FxCall, fx_call, write_tensors
from probe_flow.scripts.onnx_operator import KIND as ONNX_KIND
from probe_flow.scripts.onnx_operator import OnnxCall, device_call, own_call, write_files
from probe_flow.scripts.recurrent import NOTE, RecurrentCall, recurrent_call, write_zeros
from probe_flow.scripts.suspect import Suspect, computed_call, unusable

FORMAT = "dump_json"

_UNSAFE = re.compile(r"[^\w.-]")
MODULES: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("torch",),
    "mindspore": ("mindspore", "torch"),
    "onnx": ("onnx", "onnxruntime"),
}


Entries: TypeAlias = "Mapping[tuple[str, NodeKey], dict[str, Any]]"
"""Side and call -> its entries by their direction."""


class Script(Struct, frozen=True):
    """A script.

    Args:
        path: of it.
        entry: the call that it computes.
        modules: what it imports beside numpy.
        tensors: files beside it that it reads.
        is_of_dump: whether it computes what was dumped, so that the run's record tells what it found.
    """

    path: Path
    entry: str
    modules: tuple[str, ...]
    tensors: tuple[Path, ...] = ()
    is_of_dump: bool = True


def write_script(
    suspect: Suspect,
    folder: Path,
    *,
    taken: Collection[str] = (),
    announce: Callable[[Path], object] = lambda _path: None,
    entries: Entries | None = None,
) -> Script:
    """Write ``repro_ENTRY.py`` and the folder ``repro_ENTRY`` with the tensors of the call; return the script.

    Args:
        suspect: a call of an API, or what stands for one: see `computed_call`.
        folder: of both; made where it is missing.
        taken: names of other scripts; one of another rank or step gets these into its name.
        announce: is told of every file before it is begun.
        entries: what the dumps have of it, where that was read before.

    Raises:
        IncompleteError: PF6631 nothing of the kind can be made of the call; PF7001 a file cannot be written.
    """
    if suspect.target.framework == TORCHAIR_GE:
        return _write_fx_script(suspect, folder, taken, announce)
    if suspect.target.framework in (OM, NPY):
        return _write_onnx_script(suspect, folder, taken, announce)
    if suspect.target.attrs.get("format") != FORMAT:
        what = "scripts are made of dumps with a dump.json, of TorchAir's, and of offline models of ONNX"
        raise unusable(suspect.name, what)
    recurrent = recurrent_call(suspect)
    if recurrent is not None:
        return _write_recurrent_script(suspect, recurrent, folder, taken, announce)
    computed = computed_call(suspect)
    node, key = computed.node, computed.node.key
    entry = suspect.name if computed.brings_gradients else node.entry or key.name
    kind, _, api = key.name.partition(".")
    sides: dict[str, dict[str, Any]] = {}
    files: dict[str, Mapping[str, Path]] = {}
    for side, catalog, own, call in (
        ("target", suspect.target, suspect.node, node),
        ("golden", suspect.golden, suspect.golden_node, computed.golden),
    ):
        if catalog is None or own is None or call is None:
            continue
        found = entries_of(catalog, [call])[call.key] if entries is None else entries.get((side, call.key), {})
        if "forward" not in found or key.phase.value not in found:
            if side == "golden":
                continue
            raise unusable(entry, "the dump has no forward entry of it, which holds its inputs")
        if computed.brings_gradients:
            found = _with_gradients(found, catalog, own)
        sides[side], files[side] = found, _tensor_files(catalog, call.key.execution, found)
    if not files["target"] and suspect.target.task != "statistics":
        raise unusable(entry, f"its dump of task `{suspect.target.task}` holds neither tensors nor statistics")
    name = _file_name(entry, key.execution, taken)
    try:
        tensors = list(_copied(files, folder / name, entry, announce))
    except OSError as error:
        raise _unwritable(folder, error) from error
    settings = {
        "framework": "mindspore" if suspect.target.framework == MINDSPORE else "pytorch",
        "entry": entry,
        "row": suspect.row,
        "kind": kind,
        "api": api,
        "direction": key.phase.value,
        "statistics": not files["target"],
        "sides": sides,
        "folder": name,
    }
    return _written(folder / f"{name}.py", settings, tensors, announce)


def _write_recurrent_script(
    suspect: Suspect, call: RecurrentCall, folder: Path, taken: Collection[str], announce: Callable[[Path], object]
) -> Script:
    """Write the script that runs the kernel of a recurrent module of torch."""
    catalogs = {"target": suspect.target, "golden": suspect.golden}
    nodes = {"target": suspect.node, "golden": suspect.golden_node or suspect.node}
    files = {
        side: _tensor_files(catalog, nodes[side].key.execution, entries)
        for side, entries in call.sides.items()
        if (catalog := catalogs[side]) is not None
    }

    def write(place: Path) -> Iterator[Path]:
        yield from _copied(files, place, suspect.name, announce)
        yield from write_zeros(call, place, announce)

    own = {"framework": "pytorch", "kind": "Torch", "direction": call.direction, "note": NOTE, "guesses": call.guesses}
    return _of_graph(suspect, call, own, write, folder, taken, announce)


def _written(
    path: Path, settings: Mapping[str, Any], tensors: Sequence[Path], announce: Callable[[Path], object]
) -> Script:
    modules = MODULES[settings["framework"]]
    announce(path)
    with atomic_text(path) as file:
        main = "scripts.repro_onnx" if settings["framework"] == "onnx" else "scripts.repro_script"
        file.write(script_text(main, settings, needs=" and ".join(modules)))
    return Script(path, settings["entry"], modules, tuple(tensors))


def _write_fx_script(
    suspect: Suspect, folder: Path, taken: Collection[str], announce: Callable[[Path], object]
) -> Script:
    """Write the script that runs the FX operator of a pair on the device's inputs."""
    if suspect.golden is None or suspect.golden.framework != TORCHAIR_FX:
        raise unusable(suspect.name, "the device's operators are computed by those of an FX dump, and it has none")
    call = fx_call(suspect.tensors, suspect.golden)
    if isinstance(call, str):
        raise unusable(suspect.name, call)
    own = {"framework": "pytorch", "kind": KIND, "statistics": False, "guesses": call.guesses}
    return _of_graph(suspect, call, own, lambda place: write_tensors(call, place, announce), folder, taken, announce)


def _write_onnx_script(
    suspect: Suspect, folder: Path, taken: Collection[str], announce: Callable[[Path], object]
) -> Script:
    """Write the script that runs the operators of an ONNX model on the target's inputs."""
    call = _onnx_call(suspect)
    if isinstance(call, str):
        raise unusable(suspect.name, call)
    own = {"framework": "onnx", "kind": ONNX_KIND, "note": call.note, "graphs": call.graphs}
    return _of_graph(suspect, call, own, lambda place: write_files(call, place, announce), folder, taken, announce)


def _of_graph(
    suspect: Suspect,
    call: FxCall | OnnxCall | RecurrentCall,
    own: Mapping[str, Any],
    write: Callable[[Path], Iterable[Path]],
    folder: Path,
    taken: Collection[str],
    announce: Callable[[Path], object],
) -> Script:
    """Write the script that runs what stands for a suspect, and its tensors beside it.

    Args:
        suspect: the operator.
        call: what runs in its place.
        own: settings of its kind alone.
        write: writes the tensors into a folder and yields their files.
        folder, taken, announce: where to, names that are taken, told each file.
    """
    name = _file_name(suspect.name, suspect.node.key.execution, taken)
    try:
        tensors = list(write(folder / name))
    except (NotComparableError, FormatError) as error:
        raise unusable(suspect.name, error.diagnostic.message) from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    settings = {
        "direction": "forward",
        **own,
        "entry": suspect.name,
        "row": suspect.row,
        "api": call.api,
        "sides": call.sides,
        "folder": name,
    }
    return _written(folder / f"{name}.py", settings, tensors, announce)


def _onnx_call(suspect: Suspect) -> OnnxCall | str:
    if suspect.target.framework == OM and (suspect.golden is None or suspect.golden.framework != NPY):
        return "operators of a device are computed by those of the ONNX model that their golden is a dump of"
    if suspect.model is None:
        whose = "that the OM was made of" if suspect.target.framework == OM else "that the target is a dump of"
        cure = f"name the ONNX model {whose} with `--model FILE` (the stage: `model:`)"
        raise unusable(suspect.name, "operators of offline models are computed by ONNX, and no model is named", cure)
    if suspect.target.framework == OM:
        return device_call(suspect.tensors, suspect.model)
    sides = {"target": (suspect.target, suspect.node.key, suspect.model)}
    golden = next(
        (each.golden for each in suspect.tensors if each.role is SlotRole.OUTPUT and each.golden is not None), None
    )
    if suspect.golden is not None and suspect.golden_model is not None and golden is not None:
        sides["golden"] = (suspect.golden, golden.node, suspect.golden_model)
    return own_call(sides)


def _file_name(entry: str, execution: Execution, taken: Collection[str]) -> str:
    name = f"repro_{_UNSAFE.sub('_', entry)}"
    if name not in taken:
        return name
    places = (("rank", execution.rank), ("step", execution.step))
    return "_".join([name, *(f"{word}{number}" for word, number in places if number is not None)])


def entries_of(catalog: Catalog, nodes: Iterable[Node]) -> dict[NodeKey, dict[str, Any]]:
    """Return the entries of calls by their direction, as the dump has them; each dump.json is read once.

    Args:
        catalog: of dump.json files.
        nodes: forward or backward calls.
    """
    found: dict[NodeKey, dict[str, Any]] = {}
    by_execution: dict[Execution, dict[str, list[NodeKey]]] = {}
    for node in nodes:
        start = (node.entry or "").rpartition(".")[0]
        by_execution.setdefault(node.key.execution, {}).setdefault(start, []).append(node.key)
        found[node.key] = {}
    for execution, wanted in by_execution.items():
        for entry, value in raw_entries(catalog, execution):
            start, _, direction = entry.rpartition(".")
            if direction in ("forward", "backward"):
                for key in wanted.get(start, ()):
                    found[key][direction] = value
    return found


def _with_gradients(found: Mapping[str, Any], catalog: Catalog, node: Node) -> dict[str, Any]:
    """Return the entries of a call with the gradients that another entry records in the place of its own."""
    for entry, value in raw_entries(catalog, node.key.execution):
        if entry == node.entry and isinstance(value, dict):
            if node.kind is NodeKind.MODULE:
                return {**found, "backward": value}
            leaves = {name: each[0] if isinstance(each, list) and each else each for name, each in value.items()}
            return {**found, "backward": {**found["backward"], "output": [leaves]}}
    raise unusable(str(node.entry), "the dump has no such entry any more")


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


def _copied(
    files: Mapping[str, Mapping[str, Path]], folder: Path, entry: str, announce: Callable[[Path], object]
) -> Iterator[Path]:
    """Copy the tensors of both sides, and yield the copies."""
    for side, named in files.items():
        (folder / side).mkdir(parents=True, exist_ok=True)
        for file_name, source in named.items():
            announce(folder / side / file_name)
            _copy(source, folder / side / file_name, entry)
            yield folder / side / file_name


def _copy(path: Path, place: Path, entry: str) -> None:
    try:
        shutil.copyfile(path, place)
    except OSError as error:
        if error.filename == str(path):
            raise unusable(entry, f"`{path.name}` cannot be copied: {error.strerror or error}") from error
        raise


def _unwritable(folder: Path, error: OSError) -> IncompleteError:
    why = error.strerror or str(error)
    help_ = "name another folder with `-o`"
    return IncompleteError(Diagnostic("PF7001", f"`{folder}` cannot be written: {why}", path=str(folder), help=help_))
