"""`convert.pt`: write the tensors of a dump as torch tensors."""

from __future__ import annotations

from typing import Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.convert.convert_arrays import ArrayOptions, run
from probe_flow.stages.convert.convert_options import forecast


class Options(ArrayOptions):
    """Write the tensors of a dump as torch files; torch is not needed. Types that torch has no name for are widened."""

    uses: Literal["convert.pt"]


STAGE = StageType(
    uses="convert.pt",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Write the tensors of a dump as torch tensors.",
    forecast=forecast,
)
