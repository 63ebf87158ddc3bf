"""`dump.onnx`: run an ONNX model and write every tensor that a node gives, or adopt the arrays of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from probe_flow.stages.base import Forecast, Kind, StageType
from probe_flow.stages.dump.declared_model import DeclaredRunOptions, run_declared
from probe_flow.stages.dump.model_run import ModelName, UsedPath, forecast, needs_model
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

    @field_validator("optimizations", "custom_ops_library", mode="after")
    @classmethod
    def _onnx_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def dump(self) -> dict[str, Any]:
        return {
            **super().dump,
            "optimizations": self.optimizations,
            "custom_ops_library": self.custom_ops_library,
        }


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the arrays, which are made first when a model is given."""
    return run_declared(RUNNER, options, inputs, context)


def _forecast(options: Options) -> Forecast | None:
    found = forecast(RUNNER, options, repeat=options.repeat)
    return None if found is None else replace(found, writes=partial(_estimated, options))


def _estimated(options: Options) -> int | None:
    """Return about how many bytes of elements the dump has; None where shapes or the framework do not tell."""
    from probe_flow.dumpers.requirements import asked_for

    if options.model is None or options.data == "statistics" or options.filter is not None:
        return None
    shapes = json.dumps(options.dump["input_shape"] or {})
    found = asked_for("probe_flow.dumpers.onnx.estimate", options.model, shapes)
    return int(found) * options.repeat if found.isdecimal() else None


STAGE = StageType(
    uses="dump.onnx",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Run an ONNX model and dump every tensor that a node gives, or adopt such a dump.",
    forecast=_forecast,
)
