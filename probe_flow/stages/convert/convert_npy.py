"""`convert.npy`: write the tensors of a dump as numpy arrays."""

from __future__ import annotations

from typing import Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.convert.convert_arrays import ArrayOptions, run
from probe_flow.stages.convert.convert_options import forecast


class Options(ArrayOptions):
    """Write the tensors of a dump as numpy arrays. bfloat16 and 8-bit floats become float32, int4 becomes int8."""

    uses: Literal["convert.npy"]


STAGE = StageType(
    uses="convert.npy",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Write the tensors of a dump as numpy arrays.",
    forecast=forecast,
)
