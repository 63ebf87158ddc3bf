"""A stage: adopt a dump of the Acme format, or run an Acme model and dump it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.stages.base import Kind, Select, StageType
from probe_flow.stages.dump.model_run import RunOptions, dump_of_model, forecast
from probe_flow.work import Context

RUNNER = RunnerSpec(
    "acme", "acme_tools.runner:AcmeRunner", framework="acme", modules=("numpy",), extra="acme", folder="acme_dump"
)


class Options(RunOptions):
    """Adopt a dump of the Acme format (`path`), or run a model and dump it (`model`)."""

    uses: Literal["dump.acme_raw"]
    select: Select = Field(default_factory=Select, description="Nodes to read.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:  # noqa: ARG001
    """Return the catalog of the dump."""
    from acme_tools.reader import read

    path = options.path or str(dump_of_model(RUNNER, options, {}, context)[0])
    return read(path, side=context.stage, select=options.select.selection)


STAGE = StageType(
    "dump.acme_raw",
    Kind.CATALOG,
    Options,
    run,
    "Adopt a dump of the Acme format, or run an Acme model and dump it.",
    partial(forecast, RUNNER),
)
