"""`dump.caffe`: run a Caffe model and write what every layer gives, or adopt the arrays of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.declared_model import DeclaredRunOptions, declared_forecast, run_declared
from probe_flow.stages.dump.model_run import ModelName, UsedPath, needs_model
from probe_flow.work import Context

RUNNER = "caffe"


class Options(DeclaredRunOptions):
    """Run a Caffe model by OpenCV on the CPU, and dump what every layer gives; or adopt such a dump."""

    uses: Literal["dump.caffe"]
    model: ModelName | None = Field(
        None,
        description="The `.prototxt` of the network, as it is deployed. Layers in place get blobs of their own, those "
        "of training are left out. It runs in a process of its own.",
        examples=["deploy.prototxt"],
    )
    weights: UsedPath | None = Field(
        None, description="The `.caffemodel` with the weights, by the names of the layers.", examples=["net.caffemodel"]
    )

    @field_validator("weights", mode="after")
    @classmethod
    def _caffe_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def dump(self) -> dict[str, Any]:
        return {**super().dump, "weights": self.weights}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays, which are made first when a model is given."""
    return run_declared(RUNNER, options, inputs, context)


def _forecast(options: Options) -> Forecast | None:
    return declared_forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.caffe",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Run a Caffe model and dump what every layer gives, or adopt such a dump.",
    forecast=_forecast,
)
