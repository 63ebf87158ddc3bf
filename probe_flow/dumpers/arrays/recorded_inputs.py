"""The inputs that a device dump recorded, so that the original model can be fed with the same ones.

They lie in a folder `input` beside the dump (``input_{i}.bin``, in the order of the model), where the tool that ran the
model kept them; else in the dump itself, as inputs of the operators that read what the rules call `Data`. Where the
device is fed images, of which it makes what the model is fed with (AIPP), the model gets what it made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from probe_flow.dumpers.dump_files import make_folder, write_array
from probe_flow.dumps.file_names import safe_name
from probe_flow.dumps.rules.facts import PARENT_INPUT, SUBGRAPHS
from probe_flow.dumps.rules.records import RuleGraph, RuleOp, RuleOutput
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.elements.blocks import array_of
from probe_flow.elements.converted.relayout import in_layout
from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError
from probe_flow.files.existing import is_folder
from probe_flow.records import Catalog, SlotRole, TensorKind, TensorRef

_KEPT = re.compile(r"input_(\d{1,4})\.(?:bin|npy)")
_LEVELS = 8
"""Folders above a dump that may hold what the run kept: time, rank, model, model id and index lie between."""

_IMAGE, _PREPROCESSED, _PREPROCESSING = "AippData", "aipp_config_path", "Aipp"
"""Type of an input of images, the attribute of one of which the device makes another, and the type of what makes it."""

_DATA = frozenset({"Data", _IMAGE, "AnnData", "RefData", "Placeholder", "Input"})


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
    graphs = read_rule_file(rule).graphs
    made = {
        (safe_name(ref.node.name), ref.slot.role, ref.slot.path[0]): ref
        for ref in reversed(catalog.tensors)
        if ref.kind is TensorKind.TENSOR
    }
    make_folder(folder)
    fed = _Fed(graphs, made)
    data = [op for graph in graphs for op in graph.ops if op.op_type in _DATA and PARENT_INPUT not in op.attrs]
    for number, op in enumerate(sorted(data, key=lambda each: each.id)):
        ref = fed.read_of(op.name)
        if ref is None:
            what = f"the dump `{Path(catalog.root).name}` holds no operator that reads the input `{op.name}`"
            raise UsageError(Diagnostic("PF6323", what, help="name the inputs with `inputs`", path=catalog.root))
        if ref.slot.role is SlotRole.INPUT and (op.op_type == _IMAGE or _PREPROCESSED in op.attrs):
            what = f"of what `{ref.id}` holds the device makes the input `{op.name}` of the model (AIPP), in no file"
            cure = "name the inputs with `inputs`: what your preprocessing makes of them"
            raise UsageError(Diagnostic("PF6323", what, help=cure, path=catalog.root))
        output = op.outputs[0] if op.outputs else RuleOutput("", "", None)
        yield RecordedInput(output.origin_name or op.name, _written(ref, output, folder / f"{number}.npy"))


class _Fed:
    """Finds what the original model is fed with among the tensors of a dump.

    Args:
        graphs: of the rules.
        made: tensors by the name of their operator in file names, their role and number.
    """

    def __init__(self, graphs: Sequence[RuleGraph], made: Mapping[tuple[str, SlotRole, int | str], TensorRef]) -> None:
        self._bodies = {graph.name: graph.ops for graph in graphs}
        self._made = made
        self._readers: dict[str, list[tuple[RuleOp, int]]] = defaultdict(list)
        for graph in graphs:
            for op in graph.ops:
                for place, given in enumerate(op.inputs):
                    self._readers[given.rpartition(":")[0]].append((op, place))

    def read_of(self, name: str) -> TensorRef | None:
        """Return the first dumped tensor that is what an operator gives to the network."""
        for op, place in self._readers[name]:
            found = self._made.get((safe_name(op.name), SlotRole.INPUT, place))
            if op.op_type == _PREPROCESSING:
                found = self._made.get((safe_name(op.name), SlotRole.OUTPUT, 0)) or self.read_of(op.name)
            for inner in self._inside(op, place):
                found = found or self.read_of(inner)
            if found is not None:
                return found
        return None

    def _inside(self, caller: RuleOp, place: int) -> Iterator[str]:
        """Yield what stands for an input of an operator in its subgraphs."""
        names = caller.attrs.get(SUBGRAPHS)
        for name in names if isinstance(names, tuple) else ():
            yield from (op.name for op in self._bodies.get(name, ()) if op.attrs.get(PARENT_INPUT) == place)


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
