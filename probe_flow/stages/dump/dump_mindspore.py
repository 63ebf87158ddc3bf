"""`dump.mindspore`: adopt a dump.json dump of a MindSpore program in PyNative mode, or run a model and write one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.eager_model import EagerOptions, eager_forecast, run_or_adopt
from probe_flow.stages.dump.model_run import ModelName, needs_model
from probe_flow.work import Context

RUNNER = "mindspore"


class Options(EagerOptions):
    """Adopt a `dump.json` (or the folder that holds it) of a MindSpore program, or run a model in PyNative mode."""

    uses: Literal["dump.mindspore"]
    model: ModelName | None = Field(
        None,
        description="`module:attribute` of a `mindspore.nn.Cell`, or of a function without arguments that returns one; "
        "or a `.py` file or the folder of a package, with `:attribute` (default: `model`). Its code is imported and "
        "run in PyNative mode, in a process of its own, when the workflow runs.",
        examples=["net:build", "nets/small.py:build"],
    )
    device: str | None = Field(None, description="Device that MindSpore computes on; default `CPU`.")

    @field_validator("device", mode="after")
    @classmethod
    def _mindspore_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def of_framework(self) -> dict[str, Any]:
        return {"device": self.device, "has_backward": self.backward}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    return run_or_adopt(RUNNER, options, context, {"loss": options.loss})


def _forecast(options: Options) -> Forecast | None:
    return eager_forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.mindspore",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a dump.json dump of a MindSpore program, or run a model in PyNative mode and write one.",
    forecast=_forecast,
)
