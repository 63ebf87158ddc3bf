"""`convert.pt`: write the tensors of a dump as torch tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, Kind, StageType
from probe_flow.stages.convert_options import ConvertOptions, Order, forecast


class Options(ConvertOptions):
    """Write the tensors of a dump as torch files; torch is not needed. Types that torch has no name for are widened."""

    uses: Literal["convert.pt"]
    order: Order = Field(
        "logical",
        description="Order of the elements: `logical` (private layouts and padding undone) or `stored` (as dumped).",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the converted tensors."""
    from probe_flow.formats.converted_files import FileKind
    from probe_flow.stages.convert_catalog import convert_catalog
    from probe_flow.stages.convert_tensors import Wanted

    wanted = Wanted(FileKind.PT, "ND" if options.order == "logical" else None)
    return convert_catalog(inputs["dump"][0], wanted, options, context)


STAGE = StageType(
    uses="convert.pt",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Write the tensors of a dump as torch tensors.",
    forecast=forecast,
)
