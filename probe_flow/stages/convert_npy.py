"""`convert.npy`: write the tensors of a dump as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, Kind, StageType
from probe_flow.stages.convert_options import ConvertOptions, Order, forecast


class Options(ConvertOptions):
    """Write the tensors of a dump as numpy arrays. bfloat16 and 8-bit floats become float32, int4 becomes int8."""

    uses: Literal["convert.npy"]
    order: Order = Field(
        "logical",
        description="Order of the elements: `logical` (private layouts and padding undone) or `stored` (as dumped).",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the converted tensors."""
    from probe_flow.formats.converted_files import FileKind
    from probe_flow.stages.convert_catalog import convert_catalog
    from probe_flow.stages.convert_tensors import Wanted

    wanted = Wanted(FileKind.NPY, "ND" if options.order == "logical" else None)
    return convert_catalog(inputs["dump"][0], wanted, options, context)


STAGE = StageType(
    uses="convert.npy",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Write the tensors of a dump as numpy arrays.",
    forecast=forecast,
)
