"""`dump.tensorflow`: run a TensorFlow graph and write every tensor of it, or adopt the arrays of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.declared_model import DeclaredRunOptions, declared_forecast, run_declared
from probe_flow.stages.dump.model_run import ModelName, Patterns, needs_model
from probe_flow.work import Context

RUNNER = "tensorflow"


class Options(DeclaredRunOptions):
    """Run a TensorFlow graph on the CPU without rewrites, and dump every tensor of it; or adopt such a dump."""

    uses: Literal["dump.tensorflow"]
    model: ModelName | None = Field(
        None,
        description="A frozen graph (`.pb`), the folder of a SavedModel, or the `.meta` file of a TensorFlow 1 "
        "checkpoint. It runs in a process of its own.",
        examples=["frozen.pb", "saved_model/", "model.ckpt-1000.meta"],
    )
    signature: str | None = Field(None, description="Signature of a SavedModel; default: `serving_default`.")
    tags: Patterns | None = Field(None, min_length=1, description="Tags of a SavedModel; default: `serve`.")
    outputs: Patterns | None = Field(
        None,
        min_length=1,
        description="Operators that are the results: they and what they need are run. Needed for a checkpoint, whose "
        "graph holds the training too; default: all of a graph.",
    )

    @field_validator("signature", "tags", "outputs", mode="after")
    @classmethod
    def _tensorflow_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def dump(self) -> dict[str, Any]:
        return {**super().dump, "signature": self.signature, "tags": self.tags, "outputs": self.outputs}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays, which are made first when a model is given."""
    return run_declared(RUNNER, options, inputs, context)


def _forecast(options: Options) -> Forecast | None:
    return declared_forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.tensorflow",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Run a TensorFlow graph and dump every tensor of it, or adopt such a dump.",
    forecast=_forecast,
)
