"""The inputs that a device dump recorded, so that the original model can be fed with the same ones.

They lie in a folder `input` beside the dump (``input_{i}.bin``, in the order of the model), where the tool that ran the
model kept them; else in the dump itself, as inputs of the operators that read what the rules call `Data`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from probe_flow.dumpers.dump_files import make_folder, write_array
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.rules.records import RuleOp, RuleOutput
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.elements.blocks import array_of
from probe_flow.elements.converted.relayout import in_layout
from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError
from probe_flow.files.existing import is_folder
from probe_flow.records import Catalog, SlotRole, TensorKind, TensorRef

_KEPT = re.compile(r"input_(\d{1,4})\.(?:bin|npy)")
_LEVELS = 8
"""Folders above a dump that may hold what the run kept: time, rank, model, model id and index lie between."""

_DATA = frozenset({"Data", "AippData", "AnnData", "RefData", "Placeholder", "Input"})


class RecordedInput(Struct, frozen=True):
    """One input: its name where it is known, and the file that holds it."""

    name: str
    file: Path


def recorded_inputs(catalog: Catalog, rule: Path | None, folder: Path) -> list[RecordedInput]:
    """Return the inputs of the model that a dump is of, in its order.

    Args:
        catalog: of the dump.
        rule: fusion rules of its model, which name the inputs; None where there are none.
        folder: for those that lie inside of device files, which are written there as arrays.

    Raises:
        UsageError: PF6323 when the dump recorded none, or they cannot be read.
    """
    kept = _kept_beside(Path(catalog.root))
    if kept:
        return [RecordedInput("", file) for file in kept]
    found = list(_inside(catalog, rule, folder)) if rule is not None else []
    if not found:
        cure = "name them with `inputs` (`--input_data`): the files that the device was fed with"
        if rule is None:
            cure += "; or give the fusion rules (`-fr`), which say which tensor of the dump they are"
        what = f"the dump `{Path(catalog.root).name}` recorded no inputs of its model"
        note = "looked for `input/input_0.bin` beside it" + (
            ", and for operators that read a `Data` of the rules" if rule is not None else ""
        )
        raise UsageError(Diagnostic("PF6323", what, help=cure, notes=(note,), path=catalog.root))
    return found


def _kept_beside(root: Path) -> list[Path]:
    """Return the files that the run of a device kept its inputs in."""
    for above in [root, *root.parents][:_LEVELS]:
        if is_folder(above / "input"):
            found = {int(name[1]): file for file in (above / "input").iterdir() if (name := _KEPT.fullmatch(file.name))}
            return [found[number] for number in sorted(found)]
    return []


def _inside(catalog: Catalog, rule: Path, folder: Path) -> Iterator[RecordedInput]:
    """Yield the inputs that operators of the dump read, in the order of the rules."""
    ops = [op for graph in read_rule_file(rule).graphs for op in graph.ops]
    tensors = {
        (safe_name(ref.node.name), ref.slot.path[0]): ref
        for ref in reversed(catalog.tensors)
        if ref.slot.role is SlotRole.INPUT and ref.kind is TensorKind.TENSOR
    }
    make_folder(folder)
    data = [op for op in ops if op.op_type in _DATA]
    for number, op in enumerate(sorted(data, key=lambda each: each.id)):
        ref = _read_by(op.name, ops, tensors)
        if ref is None:
            what = f"the dump `{Path(catalog.root).name}` holds no operator that reads the input `{op.name}`"
            raise UsageError(Diagnostic("PF6323", what, help="name the inputs with `inputs`", path=catalog.root))
        output = op.outputs[0] if op.outputs else RuleOutput("", "", None)
        yield RecordedInput(output.origin_name or op.name, _written(ref, output, folder / f"{number}.npy"))


def _read_by(name: str, ops: list[RuleOp], tensors: Mapping[tuple[str, int | str], TensorRef]) -> TensorRef | None:
    """Return the first dumped tensor that is an input of the network."""
    for op in ops:
        for place, given in enumerate(op.inputs):
            if given.rpartition(":")[0] == name and (found := tensors.get((safe_name(op.name), place))) is not None:
                return found
    return None


def _written(ref: TensorRef, output: RuleOutput, path: Path) -> Path:
    shape = output.origin_shape or output.shape
    try:
        array = array_of(in_layout(ref, "ND", given=shape).source if shape is not None else ref)
    except ProbeFlowError as error:
        what = f"the input in `{ref.id}` cannot be read: {error.diagnostic.message}"
        raise UsageError(Diagnostic("PF6323", what, help="name the inputs with `inputs`", path=ref.source)) from error
    if shape is not None and array.shape != shape and array.ndim == 4 and array.transpose(0, 2, 3, 1).shape == shape:
        array = array.transpose(0, 2, 3, 1)  # logical order has channels first
    write_array(path.parent, path.name, np.ascontiguousarray(array))
    return path
