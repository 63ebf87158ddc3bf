"""`dump.torch`: adopt a dump.json dump of an eager PyTorch program."""

from __future__ import annotations

from typing import Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.dump.dump_json_stage import DumpJsonOptions, run


class Options(DumpJsonOptions):
    """Adopt a `dump.json` (or the folder that holds it) of an eager PyTorch program."""

    uses: Literal["dump.torch"]


STAGE = StageType(
    uses="dump.torch",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a dump.json dump of an eager PyTorch program.",
)
