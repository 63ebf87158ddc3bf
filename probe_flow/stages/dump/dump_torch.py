"""`dump.torch`: adopt a dump.json dump of an eager PyTorch program, or run a model and write one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.eager_model import EagerOptions, eager_forecast, run_or_adopt
from probe_flow.stages.dump.model_run import ModelName, needs_model
from probe_flow.stages.dump.torch_model import TORCH_MODEL
from probe_flow.work import Context

RUNNER = "torch"


class Options(EagerOptions):
    """Adopt a `dump.json` (or the folder that holds it) of an eager PyTorch program, or run a model and dump it."""

    uses: Literal["dump.torch"]
    model: ModelName | None = TORCH_MODEL
    device: str | None = Field(None, description="Device that model and inputs are moved to, e.g. `cpu`, `npu:0`.")
    precision: Literal["float64"] | None = Field(
        None, description="`float64` computes the model in float64: a reference for both sides."
    )

    @field_validator("device", "precision", mode="after")
    @classmethod
    def _torch_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def of_framework(self) -> dict[str, Any]:
        return {"device": self.device, "has_backward": self.backward}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the dump, which is made first when a model is given."""
    return run_or_adopt(RUNNER, options, context, {"precision": options.precision, "loss": options.loss})


def _forecast(options: Options) -> Forecast | None:
    return eager_forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.torch",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Adopt a dump.json dump of an eager PyTorch program, or run a model and write one.",
    forecast=_forecast,
)
