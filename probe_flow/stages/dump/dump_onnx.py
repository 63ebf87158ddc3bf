"""`dump.onnx`: run an ONNX model and write every tensor that a node gives, or adopt the arrays of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.declared_model import DeclaredRunOptions, declared_forecast, run_declared
from probe_flow.stages.dump.model_run import ModelName, UsedPath, needs_model
from probe_flow.work import Context

RUNNER = "onnx"


class Options(DeclaredRunOptions):
    """Run an ONNX model by ONNX Runtime on the CPU, and dump every tensor that a node gives; or adopt such a dump."""

    uses: Literal["dump.onnx"]
    model: ModelName | None = Field(
        None,
        description="An `.onnx` file, with its weights in files beside it or not; or `module:attribute` of an "
        "`onnx.ModelProto`, or of a function without arguments that returns one. It runs in a process of its own.",
        examples=["model.onnx"],
    )
    optimizations: Literal["none", "basic", "extended", "all"] = Field(
        "none",
        description="Optimisations of the graph. Others than `none` change kernels and so the last bits, and hold the "
        "tensors of the whole model at once.",
    )
    custom_ops_library: list[UsedPath] | None = Field(
        None, min_length=1, description="Libraries (`.so`) of operators that ONNX Runtime does not have."
    )

    precision: Literal["float64"] | None = Field(
        None,
        description="`float64` computes every operator in float64: a `reference` for both sides. Weights and casts to "
        "floats are of float64 then; an operator that neither ONNX Runtime nor the reference of onnx computes so is "
        "refused by name.",
    )

    @field_validator("optimizations", "custom_ops_library", "precision", mode="after")
    @classmethod
    def _onnx_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @field_validator("precision", mode="after")
    @classmethod
    def _one_by_one(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("optimizations") != "none":
            raise ValueError("operators are computed one by one in float64; leave `optimizations` out")
        if value is not None and info.data.get("custom_ops_library") is not None:
            raise ValueError("operators of a `custom_ops_library` are not computed in float64")
        return value

    @property
    def dump(self) -> dict[str, Any]:
        return {
            **super().dump,
            "optimizations": self.optimizations,
            "custom_ops_library": self.custom_ops_library,
            "precision": self.precision,
        }


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays, which are made first when a model is given."""
    return run_declared(RUNNER, options, inputs, context)


def _forecast(options: Options) -> Forecast | None:
    return declared_forecast(RUNNER, options)


STAGE = StageType(
    uses="dump.onnx",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Run an ONNX model and dump every tensor that a node gives, or adopt such a dump.",
    forecast=_forecast,
)
