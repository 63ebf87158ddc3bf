"""`dump.npy`: adopt a folder of arrays that ONNX Runtime, Caffe or TensorFlow left for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Duplicates, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt a folder of arrays `{op}.{output index}.{timestamp}.npy` of ONNX Runtime, Caffe or TensorFlow."""

    uses: Literal["dump.npy"]
    path: DumpPath = Field(
        description="The folder of the arrays (folders below it are not read), or one `.npy` file of any name."
    )
    select: Select = Field(default_factory=Select, description="Nodes to read; the arrays tell no rank, step or graph.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one tensor was dumped twice.")
    quantised: bool | None = Field(
        None, description="Whether the model is quantised; default: told by the names of its operators."
    )
    bf16_names: list[str] = Field(
        [],
        description="Glob patterns of operators whose arrays say float16 and hold bfloat16, as the device's plug-in "
        "for TensorFlow 2 writes them. Where the graph of the device says so itself, none need to be named.",
        examples=[["model/dense*"]],
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays."""
    from probe_flow.dumps.offline.npy_folder import read_npy_folder

    return read_npy_folder(
        options.path,
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
        quantised=options.quantised,
        bfloat16=options.bf16_names,
    )


STAGE = StageType(
    uses="dump.npy",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a folder of arrays of ONNX Runtime, Caffe or TensorFlow.",
)
