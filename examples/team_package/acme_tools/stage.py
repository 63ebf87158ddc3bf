"""A stage: adopt a dump of the Acme format. `dump.auto` does as well; a stage of its own has options of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import DumpPath, Kind, Select, StageOptions, StageType
from probe_flow.work import Context


class Options(StageOptions):
    """Adopt a dump of the Acme format."""

    uses: Literal["dump.acme_raw"]
    path: DumpPath = Field(description="Folder that holds `index.json`.")
    select: Select = Field(default_factory=Select, description="Nodes to read.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:  # noqa: ARG001
    """Return the catalog of the dump."""
    from acme_tools.reader import read

    return read(options.path, side=context.stage, select=options.select.selection)


STAGE = StageType("dump.acme_raw", Kind.CATALOG, Options, run, "Adopt a dump of the Acme format.")
