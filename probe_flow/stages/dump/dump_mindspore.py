"""`dump.mindspore`: adopt a dump.json dump of a MindSpore program in PyNative mode."""

from __future__ import annotations

from typing import Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.dump.dump_json_stage import DumpJsonOptions, run


class Options(DumpJsonOptions):
    """Adopt a `dump.json` (or the folder that holds it) of a MindSpore program in PyNative mode."""

    uses: Literal["dump.mindspore"]


STAGE = StageType(
    uses="dump.mindspore",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a dump.json dump of a MindSpore program in PyNative mode.",
)
