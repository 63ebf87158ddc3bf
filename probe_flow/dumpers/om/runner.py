"""The runner of offline models: the device runs them and writes its own dump, which an `acl.json` asks for.

The command is that of ais_bench, the inference tool of Ascend's tools (its user's guide): ``--model --input --device
--output --warmup_count 0 --acl_json_path``, with ``--dymBatch``, ``--dymHW``, ``--dymDims`` or ``--dymShape`` and
``--outputSize`` for models whose sizes ATC left open. The object ``dump`` of acl.json is that of CANN's ``aclInit``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import DeclaredInput, Runner
from probe_flow.dumpers.dump_files import make_folder, write_bytes, write_json
from probe_flow.dumpers.om.machine import cann_problems, tool_command, tool_problems
from probe_flow.dumpers.om.model import OmModel, read_om_model
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.manifest import DUMP_MANIFEST, DumpManifest, ManifestTensor, Skipped
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, ProbeFlowError, UsageError
from probe_flow.files.opening import open_bytes
from probe_flow.records import Catalog

DUMP_DATA = "dump_data"
"""Folder of the device's dump in that of the run."""

INPUTS = "input"
"""Folder of the raw inputs beside it, where `dump.onnx` and others look for what the device was fed with."""

ACL_JSON, RESULTS = "acl.json", "results"


class OmRunner(Runner):
    """A tool loads the model and runs it once; its output goes to the log."""

    framework = "CANN"
    libraries = ("ais_bench", "aclruntime", "numpy")
    model_word = "an offline model"
    model_files = (".om",)
    takes_code = False
    input_help = "give `.npy` arrays, or raw bytes"

    def seed(self) -> None:
        """Nothing draws random numbers here."""

    def is_model(self, found: object) -> bool:
        return isinstance(found, OmModel)

    def read_model(self, path: Path) -> Any:
        try:
            return read_om_model(path)
        except FormatError as error:
            found = error.diagnostic
            what = f"`model: {self.job.model}` cannot be read: {found.message}"
            raise UsageError(Diagnostic("PF6322", what, help=found.help, path=str(path))) from error

    def open(self, model: Any) -> None:
        self._model: OmModel = model
        for problem in (*cann_problems(), *tool_problems(self.job.dump.get("tool"))):
            raise UsageError(problem)
        if model.inputs is None and self.job.inputs.keys().isdisjoint(("files", "callable")):
            what = f"the model `{model.name}` changes its inputs (AIPP), so its file does not say what it is fed with"
            raise UsageError(Diagnostic("PF6323", what, help="name raw bytes or arrays with `inputs: {files: [...]}`"))
        for name in (DUMP_DATA, INPUTS, RESULTS):
            make_folder(self.folder / name)
        self._write_manifest(DumpManifest())

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput] | None:
        return self._model.inputs

    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        try:
            found = np.dtype(getattr(ml_dtypes, dtype, dtype))
        except TypeError:
            return None
        kinds: dict[str, Literal["bool", "float", "integer"]] = {
            "b": "bool",
            "f": "float",
            "i": "integer",
            "u": "integer",
        }
        return "float" if hasattr(ml_dtypes, dtype) and found.kind == "V" else kinds.get(found.kind)

    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        return array if dtype is None else array.astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))

    def read_inputs(self, path: Path) -> Any:
        with open_bytes(path) as file:
            return np.frombuffer(file.read(), np.uint8)

    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        return (str(value.dtype), value.shape) if isinstance(value, np.ndarray) else None

    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        raw = np.ascontiguousarray(tensor).tobytes()
        return (tensor.astype(np.float32) if tensor.dtype.kind == "V" else tensor), raw

    # -- running

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        names = [each.name for each in self._model.inputs or ()]
        arrays = [*args, *(kwargs[name] for name in names if name in kwargs)]
        files = [
            self.folder / INPUTS / write_bytes(self.folder / INPUTS, f"input_{number}.bin", self.stored(array)[1])
            for number, array in enumerate(arrays)
        ]
        write_json(self.folder / ACL_JSON, self._acl())
        self._command = self._tool(files, {name: kwargs[name].shape for name in names if name in kwargs})
        done = subprocess.run(  # noqa: S603 (the tool that the workflow names)
            self._command, stdin=subprocess.DEVNULL, env=_environment(self.job.dump.get("tool")), check=False
        )
        if done.returncode:
            raise IncompleteError(_tool_failed(self._command[0:3], done.returncode))

    def _acl(self) -> dict[str, Any]:
        models = [{"model_name": name} for name in (self._model.name, *self._model.graphs)]
        data = str(self.folder / DUMP_DATA)
        return {"dump": {"dump_list": models, "dump_path": data, "dump_mode": "all", "dump_op_switch": "off"}}

    def _tool(self, files: Sequence[Path], shapes: Mapping[str, Sequence[int]]) -> list[str]:
        options = {
            "--model": str(self._model.path.absolute()),
            "--input": ",".join(map(str, files)),
            "--device": str(self.job.dump.get("device", 0)),
            "--output": str(self.folder / RESULTS),
            "--warmup_count": "0",
            "--acl_json_path": str(self.folder / ACL_JSON),
        }
        each = [part for name, value in options.items() if value for part in (name, value)]
        sizes = self._model.size_options(shapes, self.job.dump.get("output_size"))
        return [*tool_command(self.job.dump.get("tool")), *each, *sizes]

    def finish(self) -> Mapping[str, Any]:
        self._catalog = self._dumped()
        return {"tensors": len(self._catalog.tensors), "command": self._command}

    def _dumped(self) -> Catalog:
        try:
            return read_om(self.folder / DUMP_DATA, side="target")
        except ProbeFlowError as error:
            what = f"nothing was dumped of `{self._model.name}`: {error.diagnostic.message}"
            cure = (
                f"the tool ended without an error; look at what it says in the log, and whether the model is called "
                f"`{self._model.name}` inside too: the dump is asked for by the name of the file"
            )
            raise IncompleteError(Diagnostic("PF6327", what, help=cure)) from error

    def conclude(self, record: Mapping[str, Any]) -> None:
        tensors = tuple(_listed(self._catalog, self.folder / DUMP_DATA))
        held = {tensor.node for tensor in tensors}
        lacking = [Skipped(name, f"the device wrote no file of this `{kind}`") for name, kind in self._lacking(held)]
        facts = {**self.job.facts(record, self.framework), "command": self._command}
        count = len(tensors)
        self._write_manifest(
            DumpManifest(
                is_complete=True,
                expected=count + len(lacking),
                written=count,
                skipped=tuple(lacking),
                tensors=tensors,
                facts=facts,
            )
        )

    def _lacking(self, held: set[str]) -> list[tuple[str, str]]:
        """Return name and type of operators of the model that left no file; names of files are cleaned ones."""
        safe = {safe_name(name) for name in held}
        return [(name, kind) for name, kind in self._model.ops.items() if safe_name(name) not in safe]

    def _write_manifest(self, manifest: DumpManifest) -> None:
        write_bytes(self.folder / DUMP_DATA, DUMP_MANIFEST, manifest.encoded())


def _listed(catalog: Catalog, folder: Path) -> list[ManifestTensor]:
    """Return the tensors of a device's dump as a manifest lists them."""
    root = folder.resolve()
    found = []
    for ref in catalog.tensors:
        node = catalog.nodes[ref.node]
        assert ref.source is not None, "a tensor of a device file has a file"
        file = str(Path(ref.source).resolve().relative_to(root))
        index = ref.slot.path[0] if ref.slot.path else 0
        shape = tuple(ref.shape or ())
        found.append(
            ManifestTensor(file, ref.node.name, ref.slot.role.value, index, str(ref.dtype), shape, node.op_type)
        )
    return found


def _environment(tool: Sequence[str] | None) -> dict[str, str]:
    """Return the environment of the tool: another interpreter must not be given the packages of this one."""
    if tool is None:
        return {**os.environ}
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own |= {path for path in sys.path if path.endswith((".zip", "lib-dynload"))}
    kept = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in own]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(kept)}


def _tool_failed(command: Sequence[str], code: int) -> Diagnostic:
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return Diagnostic(
        "PF6324",
        f"the tool that runs the model, `{' '.join(command)}`, ended {how}",
        help="what it says stands in the log: whether the device is free, and the inputs are what the model takes",
    )
