"""`convert.layout`: write the tensors of a dump in another storage layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.convert.convert_options import ConvertOptions, forecast
from probe_flow.work import Context

Layout = Literal[
    "ND", "NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC", "NC1HWC0", "NC1HWC0_C04", "NDC1HWC0",
    "FRACTAL_NZ", "FRACTAL_NZ_C0_16", "FRACTAL_NZ_C0_32", "FRACTAL_ZZ", "FRACTAL_Z", "FRACTAL_Z_C04", "FRACTAL_Z_3D",
    "FRACTAL_Z_3D_TRANSPOSE", "C1HWNCoC0",
]  # fmt: skip


class Options(ConvertOptions):
    """Bring the tensors of a dump into another storage layout: out of a private one of the device, or into one."""

    uses: Literal["convert.layout"]
    layout: Layout = Field(
        description="Where to. `ND` is the order of the framework, channels first (NCHW, NCDHW). A layout that only "
        "orders axes leaves tensors with another number of axes in that order; what a layout of blocks has no place "
        "for, such as a vector in `NC1HWC0`, stays as the dump has it, and is listed (PF6510)."
    )
    axes: Literal["NHWC", "HWCN", "CHWN", "NDHWC", "DHWCN", "DHWNC"] | None = Field(
        None,
        description="Order in which the dump gives its tensors of so many axes where their layout does not say it, "
        "e.g. `NHWC` for arrays of TensorFlow. Default: channels first.",
    )
    type: Literal["npy", "pt", "bin"] = Field("npy", description="What is written: arrays, torch tensors, plain bytes.")
    c0: int | None = Field(
        None,
        gt=0,
        le=1024,
        description="Elements of a block of channels. Default: 16, or as many as 32 bytes hold of a narrower type.",
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the converted tensors."""
    from probe_flow.elements.converted.files import FileKind
    from probe_flow.transform.convert.catalog import convert_catalog
    from probe_flow.transform.convert.tensors import Wanted

    wanted = Wanted(FileKind(options.type), options.layout, options.axes, options.c0, names_shapes=True)
    return convert_catalog(
        inputs["dump"][0], wanted, context, folder=options.output, nodes=options.nodes, replaces=options.replace
    )


STAGE = StageType(
    uses="convert.layout",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Write the tensors of a dump in another storage layout.",
    forecast=forecast,
)
