"""`convert.npy` and `convert.pt` differ in the kind of file that they write, and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.convert.convert_options import ConvertOptions
from probe_flow.work import Context


class ArrayOptions(ConvertOptions):
    """Which tensors to write as arrays, and in which order."""

    order: Literal["logical", "stored"] = Field(
        "logical",
        description="Order of the elements: `logical` (private layouts and padding undone) or `stored` (as dumped).",
    )


def run(options: ArrayOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the converted tensors."""
    from probe_flow.elements.converted.files import FileKind
    from probe_flow.transform.convert.catalog import convert_catalog
    from probe_flow.transform.convert.tensors import Wanted

    kind = FileKind(options.uses.removeprefix("convert."))
    wanted = Wanted(kind, "ND" if options.order == "logical" else None)
    return convert_catalog(
        inputs["dump"][0], wanted, context, folder=options.output, nodes=options.nodes, replaces=options.replace
    )
