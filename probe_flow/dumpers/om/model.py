"""What the file of an offline model says of its run: inputs, graphs to dump, and which sizes ATC left open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.dumps.rules.facts import SUBGRAPHS
from probe_flow.dumps.rules.records import OM_MAGIC, RuleFile, RuleOp
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES, DEVICE_DTYPES

_DTYPES = {name: DEVICE_DTYPES[number] for number, name in DEVICE_DTYPE_NAMES.items()}
_INPUT_TYPES = frozenset({"Data", "AippData", "AnnData", "RefData"})
_AIPP = frozenset({"AippData", "Aipp"})
_SILENT = _INPUT_TYPES | {"Const", "Constant", "NetOutput"}
"""Operators that hold a value or hand one on, and run no kernel."""

_OUTPUT_BYTES = "90000000"
"""What is set aside for an output whose size nobody says, as msprobe has it."""

_GEARS = {"dynamic_batch_size": "--dymBatch", "dynamic_image_size": "--dymHW", "dynamic_dims": "--dymDims"}
"""Option of ATC that lists the sizes a model was made for -> option of ais_bench that chooses among them."""


class OmModel(Struct, frozen=True):
    """An offline model.

    Args:
        path: of its file.
        inputs: in its order; None where the model changes what it is fed with (AIPP), so that its file tells neither
            dtype nor shape of the bytes.
        graphs: names of the graphs in it beside its own.
        ops: operators that run, name and type.
        outputs: how many it has.
        gear: option of ais_bench for the sizes that ATC left open; None where there are none.
    """

    path: Path
    inputs: Sequence[DeclaredInput] | None
    graphs: Sequence[str]
    ops: Mapping[str, str]
    outputs: int
    gear: str | None

    @property
    def name(self) -> str:
        """The name by which a dump is asked for: that of the file."""
        return self.path.stem

    def size_options(self, shapes: Mapping[str, Sequence[int]], output_size: str | None) -> list[str]:
        """Return the options of ais_bench that say the sizes of a run.

        Args:
            shapes: of the inputs.
            output_size: bytes of each output, commas between them.
        """
        found = []
        if self.gear in ("--dymDims", "--dymShape"):
            found = [self.gear, ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in shapes.items())]
        elif self.gear is not None:
            chosen = [
                size
                for each in self.inputs or ()
                for size, wanted in zip(shapes[each.name], each.shape or (), strict=True)
                if not isinstance(wanted, int)
            ]
            count = 1 if self.gear == "--dymBatch" else 2
            found = [self.gear, ",".join(map(str, chosen[:count]))] if chosen else []
        if output_size is None and self.gear == "--dymShape" and self.outputs:
            output_size = ",".join([_OUTPUT_BYTES] * self.outputs)
        return [*found, *(["--outputSize", output_size] if output_size is not None else [])]


def read_om_model(path: Path) -> OmModel:
    """Return what a model's file says.

    Raises:
        FormatError: PF4303 it is no offline model, PF4304 without operators, PF4306 damaged, PF4307 encrypted.
    """
    with BinaryFile(path) as file:
        if file.read_at(0, len(OM_MAGIC)) != OM_MAGIC:
            what = "it does not begin as offline models do"
            raise FormatError(Diagnostic("PF4303", f"`{path.name}` is no offline model: {what}", path=str(path)))
    rules = read_rule_file(path)
    main = rules.graphs[0].ops if rules.graphs else ()
    data = sorted((op for op in main if op.op_type in _INPUT_TYPES), key=lambda op: op.id)
    every = [op for graph in rules.graphs for op in graph.ops]
    given = _command_line(rules)
    shapes = _shapes(given.get("input_shape", ""))
    ranges = _shapes(given.get("input_shape_range", ""))
    gear = next((option for name, option in _GEARS.items() if name in given), None)
    inputs = [_declared(op, {**shapes, **ranges}) for op in data]
    if gear is None and any(not isinstance(size, int) for each in inputs for size in each.shape or (None,)):
        gear = "--dymShape"
    outputs = rules.attrs.get("attr_model_out_nodes_name")
    has_aipp = any(op.op_type in _AIPP or "aipp_config_path" in op.attrs for op in every)
    return OmModel(
        path,
        None if has_aipp else tuple(inputs),
        tuple(dict.fromkeys(_subgraphs(every))),
        {op.name: op.op_type for op in every if op.op_type not in _SILENT},
        len(outputs) if isinstance(outputs, tuple) else 0,
        gear,
    )


def _declared(op: RuleOp, shapes: Mapping[str, Sequence[int | None]]) -> DeclaredInput:
    """Return an input: sizes that the command of ATC left open are open, whatever the graph was made for."""
    output = op.outputs[0] if op.outputs else None
    own = output.shape if output is not None else None
    shape = shapes.get(op.name)
    if shape is None and own is not None:
        shape = [size if size >= 0 else None for size in own]
    dtype = _DTYPES.get(output.dtype, output.dtype) if output is not None else ""
    return DeclaredInput(op.name, dtype, tuple(shape) if shape is not None else None)


def _command_line(rules: RuleFile) -> dict[str, str]:
    """Return the options that ATC made the model with, which it keeps in it."""
    text = rules.attrs.get("atc_cmdline")
    found = (
        re.findall(r"--([a-z_]+)(?:\s*=\s*|\s+)(\"[^\"]*\"|'[^']*'|[^\s\"']\S*)", text) if isinstance(text, str) else []
    )
    return {name: value.strip("\"'") for name, value in found}


def _shapes(text: str) -> dict[str, list[int | None]]:
    """Return shapes by input of ATC's text; what may vary is None.

    >>> _shapes("x:-1,3,8;y:1~8,4")
    {'x': [None, 3, 8], 'y': [None, 4]}
    >>> _shapes("x:[1~8,3,-1]")
    {'x': [None, 3, None]}
    """
    found = {}
    for part in re.split(r";|(?<=\]),", text):
        name, _, sizes = part.rpartition(":")
        if name:
            listed = sizes.strip("[] ").split(",")
            found[name.strip()] = [int(size) if size.strip().isdecimal() else None for size in listed]
    return found


def _subgraphs(ops: Sequence[RuleOp]) -> Iterator[str]:
    for op in ops:
        names = op.attrs.get(SUBGRAPHS)
        yield from (str(name) for name in (names if isinstance(names, tuple) else ()))
