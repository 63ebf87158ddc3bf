"""`dump.tensorflow_training`: run one training step of TensorFlow under its debugger, or adopt what one left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from probe_flow.dumpers.registry import RUNNERS
from probe_flow.stages.base import DumpPath, Forecast, IsPath, Kind, Select, StageType
from probe_flow.stages.dump.declared_model import SHAPES, DeclaredInputs, shapes_in
from probe_flow.stages.dump.model_run import ModelName, Patterns, RunOptions, dump_of_model, forecast, needs_model
from probe_flow.work import Context

RUNNER = RUNNERS["tensorflow_training"]

Checkpoint = Annotated[str, IsPath(must_exist=False, is_data=False)]


class Options(RunOptions):
    """Run one training step on the CPU under TensorFlow's debugger, rewrites off and seeds fixed; or adopt one."""

    uses: Literal["dump.tensorflow_training"]
    path: DumpPath | None = Field(
        None, description="The folder of such a dump to adopt, or any that `dump.tfdbg` reads; or give `model`."
    )
    model: ModelName | None = Field(
        None,
        description="`module:attribute`, or a `.py` file with `:attribute` (default: `model`), of a function without "
        "arguments that builds a TF1 graph and returns fetches, or a tuple of fetches and feeds; or of a compiled "
        "Keras model, or a function that returns one. Or a `.meta` file with `fetches`, or a `.keras` file. It runs in "
        "a process of its own.",
        examples=["train.py:step", "train:model", "model.ckpt-1000.meta"],
    )
    inputs: ModelName | DeclaredInputs | None = Field(  # type: ignore[assignment]  # other inputs than of code
        None,
        description="What placeholders are fed: `files`, `named`, `random`; a file; a folder whose files are named as "
        "the inputs are, such as `input/0` of an earlier run; or `module:attribute` of a function that returns them. "
        "They replace feeds of the model's own; a placeholder without any is drawn from `seed`. A Keras model needs "
        "`files: [x.npy, y.npy]`, or a function that returns (x, y).",
        examples=[{"named": {"input/x": "x.npy", "input/labels": "labels.npy"}}, "train.py:batch"],
    )
    input_shape: dict[str, list[Annotated[int, Field(ge=0)]]] | Annotated[str, Field(pattern=SHAPES)] | None = Field(
        None,
        description="Shapes of placeholders whose sizes the graph leaves open.",
        examples=[{"input/x": [8, 20]}, "input/x:8,20"],
    )
    fetches: Patterns | None = Field(
        None,
        min_length=1,
        description="Names of what the step is asked for, in place of what the function returns; a `.meta` needs them.",
        examples=[["loss/mean:0", "GradientDescent"]],
    )
    checkpoint: Checkpoint | None = Field(
        None,
        description="Checkpoint to start from: the prefix of its files, or their folder. Default: that of a `.meta`, "
        "else the initial values.",
        examples=["model.ckpt-1000"],
    )
    device_checkpoint: Checkpoint | None = Field(
        None,
        description="Checkpoint that the device started from: its weights are compared with those of the step by hash.",
    )
    calls: Literal[1] = Field(1, description="It is one step.")
    repeat: int = Field(
        1,
        gt=0,
        le=10,
        description="Run the step so often, each in a process of its own; what differs is not deterministic.",
    )
    select: Select = Field(default_factory=Select, description="Nodes to read; one step has no rank, step or graph.")

    @field_validator("input_shape", "fetches", "checkpoint", "device_checkpoint", "repeat", mode="after")
    @classmethod
    def _training_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def dump(self) -> dict[str, Any]:
        """The options of the dump, as the runner takes them."""
        return {
            "input_shape": shapes_in(self.input_shape),
            "fetches": self.fetches,
            "checkpoint": _absolute(self.checkpoint),
            "device_checkpoint": _absolute(self.device_checkpoint),
        }


def _absolute(path: str | None) -> str | None:
    return str(Path(path).absolute()) if path is not None else None


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the catalog of the step, which is run first when a model is given."""
    from probe_flow.dumps.training_folder import RUNS, read_training_folder

    def read(folder: str | Path) -> Any:
        return read_training_folder(str(folder), side=context.stage, select=options.select.selection)

    if options.model is None:
        assert options.path is not None, "the options have one of both"
        return read(options.path)
    first, *others = dump_of_model(RUNNER, options, options.dump, context, repeat=options.repeat)
    catalog = read(first)
    if not others:
        return catalog
    _report_noise(catalog, [read(folder) for folder in others], context)
    return catalog.with_repeats([folder / RUNS for folder in others])


def _report_noise(catalog: Any, others: Sequence[Any], context: Context) -> None:
    from probe_flow.dumpers.arrays.repeats import largest, not_deterministic, unequal_tensors

    found = largest(each for other in others for each in unequal_tensors(catalog, other))
    if found:
        context.report([not_deterministic(found)])


def _forecast(options: Options) -> Forecast | None:
    return forecast(RUNNER, options, repeat=options.repeat)


STAGE = StageType(
    uses="dump.tensorflow_training",
    produces=Kind.CATALOG,
    options=Options,
    run=run,
    summary="Run one TensorFlow training step under its debugger and dump every tensor, or adopt such a dump.",
    forecast=_forecast,
)
