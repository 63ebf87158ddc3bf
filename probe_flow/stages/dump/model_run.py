"""What dump stages that run a model share: their options, and the run itself in a child process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails

from probe_flow.files.model_names import MODEL, MODULE_ATTRIBUTE, path_in
from probe_flow.stages.base import DumpPath, Forecast, IsPath, Model, StageOptions
from probe_flow.stages.sizes import SIZES, Size, size_bytes
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.dumpers.base.runner import RunnerSpec

ModuleAttribute = Annotated[str, Field(pattern=MODULE_ATTRIBUTE)]
ModelName = Annotated[str, IsPath(is_data=False, path_in=path_in), Field(pattern=MODEL)]
UsedPath = Annotated[str, IsPath(is_data=False)]
Patterns = list[Annotated[str, Field(min_length=1)]]
OF_CODE = "an unknown number of bytes: the model is code, which a plan does not run"
"""What a plan says of the size of the dump of such a model."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class DrawnTensor(Model):
    """One tensor of random numbers."""

    shape: list[Annotated[int, Field(ge=0)]] = Field(description="Its shape.", examples=[[1, 3, 224, 224]])
    dtype: str = Field("float32", description="Dtype of the framework, e.g. `float16`, `int64`.")
    low: float | None = Field(None, description="Least value; default 0.")
    high: float | None = Field(None, description="End of the range, never drawn; default 1, for integers 10.")


class RandomInputs(Model):
    """Inputs drawn from a seed: floats uniform in [0, 1), integers from 0 to 9, bools fair."""

    seed: int = Field(0, ge=0, description="Seed; the same one draws the same values on every machine.")
    tensors: list[DrawnTensor] = Field(min_length=1, description="One for each argument of the model.")


class Inputs(Model):
    """Where the arguments of the model come from: exactly one of the options."""

    files: list[UsedPath] | None = Field(
        None,
        min_length=1,
        description="`.npy` arrays, or tensors in files of the framework (`.pt`), one for each argument.",
    )
    random: RandomInputs | None = Field(None, description="Random numbers of a recorded seed.")

    @field_validator("random")
    @classmethod
    def _not_both(cls, random: RandomInputs | None, info: ValidationInfo) -> RandomInputs | None:
        if random is not None and info.data.get("files") is not None:
            raise ValueError("give either `files` or `random`")
        return random

    @model_validator(mode="after")
    def _one(self) -> Inputs:
        if self.files is None and self.random is None:
            raise ValueError("give either `files` or `random`")
        return self


class NodeFilter(Model):
    """Nodes to dump. Capitals do not matter; a text without wildcard may stand anywhere in the name."""

    include: Patterns | None = Field(None, description="Patterns of node names, one of which must fit.")
    exclude: Patterns | None = Field(None, description="Patterns of node names that are left out.")
    types: Patterns | None = Field(
        None, description="Patterns of operator types as the dump names them, e.g. `*.mm.*`."
    )


class RunOptions(StageOptions):
    """Options of a stage that adopts a dump (`path`) or runs a model and writes one (`model`), of any framework."""

    path: DumpPath | None = Field(None, description="The folder of a dump to adopt; or give `model`.")
    model: ModelName | None = Field(
        None,
        description="`module:attribute` of a model, or of a function without arguments that returns one; or a `.py` "
        "file or the folder of a package, with `:attribute` (default: `model`). Its code is imported and run, in a "
        "process of its own, when the workflow runs.",
        examples=["net:build", "nets/small.py:build"],
    )
    inputs: ModuleAttribute | Inputs | None = Field(
        None,
        description="Arguments of the model: `files`, `random`, or `module:attribute` of a function that returns them "
        "(a tuple, a mapping of keywords, or a generator of one such for each call).",
    )
    import_from: UsedPath | None = Field(
        None, description="Folder that `model` and `inputs` are imported from; default: the working directory."
    )
    calls: int = Field(1, gt=0, description="How often the model is called.")
    seed: int = Field(0, ge=0, description="Seed of the framework, numpy and random.")
    deterministic: bool = Field(default=True, description="Ask the framework for deterministic algorithms.")
    threads: int | None = Field(None, gt=0, description="Threads of the framework; default: its own choice.")
    memory_limit: Size | None = Field(
        None,
        description="Memory that the process of the model may take; beyond it the model fails, not the machine.",
        examples=SIZES,
    )
    time_limit: int | None = Field(
        None,
        gt=0,
        description="Seconds that the process of the model may take before it is ended; default: no limit.",
        examples=[3600],
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder that the dump is written to; default: `dumps/STAGE` in the run's folder."
    )
    overwrite: Literal["never", "replace"] = Field(
        "never", description="Whether an earlier dump of such a stage in `output` is replaced."
    )

    @field_validator("model", mode="after")
    @classmethod
    def _not_both(cls, model: str | None, info: ValidationInfo) -> str | None:
        if model is not None and info.data.get("path") is not None:
            raise ValueError("give either `path`, to adopt a dump, or `model`, to make one")
        return model

    @field_validator(
        "inputs", "import_from", "calls", "seed", "deterministic", "threads", "memory_limit", "time_limit", "output",
        "overwrite",
        mode="after",
    )  # fmt: skip
    @classmethod
    def _needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @model_validator(mode="after")
    def _one_source(self) -> RunOptions:
        if self.path is None and self.model is None:
            # The same complaint as for any key that is needed: it knows of parameters that are not set.
            missing = InitErrorDetails(type="missing", loc=("path",), input=None)
            raise ValidationError.from_exception_data(type(self).__name__, [missing])
        return self

    @property
    def of_framework(self) -> dict[str, Any]:
        """The fields of a job that only some frameworks have."""
        return {}


def needs_model(value: object, info: ValidationInfo) -> object:
    """Reject an option of a run where a dump is adopted."""
    if value is not None and info.data.get("model", "") is None:
        raise ValueError("only a stage that runs a `model` takes it; this one adopts a dump")
    return value


def forecast(runner: RunnerSpec | str, options: RunOptions, *, repeat: int = 1) -> Forecast | None:
    """Return what the plan says of a stage that runs a model; None for one that adopts a dump.

    Args:
        runner: of the framework; one of ours by its name.
        options: of the run.
        repeat: how many runs there are.
    """
    if options.model is None:
        return None
    calls = "once" if options.calls == 1 else f"{options.calls} times"
    children, dumps = ("a child process", "a dump") if repeat == 1 else (f"each of {repeat} child processes", "dumps")
    where = options.output or "the run's folder"
    does = f"imports and runs `{options.model}` {calls} in {children} and writes {dumps} to {where}"
    return Forecast(does, tuple(spec_of(runner).problems()))


def spec_of(runner: RunnerSpec | str) -> RunnerSpec:
    """Return the registration of a runner, ours by its name."""
    from probe_flow.dumpers.registry import RUNNERS

    return RUNNERS[runner] if isinstance(runner, str) else runner


def dump_of_model(
    runner: RunnerSpec | str,
    options: RunOptions,
    dump: Mapping[str, Any],
    context: Context,
    *,
    repeat: int = 1,
    inputs: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Run the model, as often as to be repeated, and return the folders of the dumps; the first is the dump.

    Args:
        runner: of the framework; one of ours by its name.
        options: of the run.
        dump: of the dump, as the runner takes them.
        context: of the stage.
        repeat: how many runs there are, each in a process of its own.
        inputs: of the model, as a job has them; None = those of the options.
    """
    from probe_flow.dumpers.base.job import is_done
    from probe_flow.dumpers.base.process import REPEAT, prepare_output, run_model
    from probe_flow.dumpers.registry import RUNNERS

    runner = spec_of(runner)
    own = context.output / "dumps" / (_UNSAFE.sub("_", context.stage).strip("_.") or "dump")
    output = Path(options.output) if options.output is not None else own
    given = _inputs(options.inputs) if inputs is None else inputs
    folders = [output if not n else output / f"{REPEAT}{n + 1}" for n in range(repeat)]
    jobs = [_job(runner.name, options, folder, dump, given) for folder in folders]
    if context.settings.is_resumed and all(is_done(job) for job in jobs):
        context.emit("model.reused", model=options.model, output=str(output))
        return [runner.dump_folder(job) for job in jobs]
    may_replace = options.output is None or options.overwrite == "replace"
    prepare_output(output.absolute(), [*RUNNERS.values(), runner], may_replace=may_replace)
    for job in jobs:
        Path(job.output).mkdir(exist_ok=True)
        context.emit("model.started", model=options.model, output=job.output)
        record = run_model(job, runner)
        context.emit("model.ended", model=options.model, graphs=record.get("graphs"))
        if job is jobs[0]:
            context.report(runner.remarks(record))
    return [runner.dump_folder(job) for job in jobs]


def _job(kind: str, options: RunOptions, output: Path, dump: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
    from probe_flow.dumpers.base.job import ModelJob

    assert options.model is not None, "a stage without a model runs none"
    return ModelJob(
        kind=kind,
        model=options.model,
        inputs=inputs,
        output=str(output.absolute()),
        dump=dump,
        calls=options.calls,
        import_from=options.import_from,
        seed=options.seed,
        is_deterministic=options.deterministic,
        threads=options.threads,
        memory_bytes=size_bytes(options.memory_limit) if options.memory_limit is not None else None,
        seconds=options.time_limit,
        **options.of_framework,
    )


def _inputs(inputs: str | Model | None) -> dict[str, Any]:
    if inputs is None:
        return {}
    if isinstance(inputs, str):
        path = path_in(inputs)
        return {"callable": inputs} if path is None else {"path": path}
    return inputs.model_dump(exclude_none=True)
