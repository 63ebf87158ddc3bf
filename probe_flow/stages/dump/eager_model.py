"""Options of stages that adopt a dump.json dump, or run a model as it is and dump what it computes; and their run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.records.frameworks import Kernels
from probe_flow.stages.base import DumpPath, Forecast, Select
from probe_flow.stages.dump.model_run import (
    OF_CODE,
    ModuleAttribute,
    RunOptions,
    UsedPath,
    dump_of_model,
    forecast,
    needs_model,
)
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.records import Catalog

Names = list[Annotated[str, Field(min_length=1)]]
Numbers = list[Annotated[int, Field(ge=0)]]
_STAGES: Mapping[Kernels | None, str] = {Kernels.PYTORCH: "dump.torch", Kernels.MINDSPORE: "dump.mindspore"}
_OF_CONFIG = ("level", "data", "phases", "direction", "steps", "scope", "include")


class EagerOptions(RunOptions):
    """Which dump.json to adopt and what of it, or which model to run and what of it to dump."""

    path: DumpPath | None = Field(
        None,
        description="A `dump.json` or `debug.json`, or a folder that holds one (`step0/rank0`, `step0`, the root); or "
        "give `model`.",
    )
    backward: bool = Field(
        default=False, description="Also run the backward pass, of `loss` or of the sum of the results."
    )
    loss: ModuleAttribute | None = Field(
        None,
        description="`module:attribute` of a function that is called with what the model returned, and returns the "
        "value that is differentiated.",
    )
    level: Literal["L0", "L1", "mix"] = Field(
        "mix", description="What is recorded: `L0` modules, `L1` calls of APIs, `mix` both."
    )
    data: Literal["tensor", "statistics", "md5", "both"] = Field(
        "tensor",
        description="`statistics` writes maximum, minimum, mean and L2 norm of each tensor, `tensor` its elements too, "
        "`md5` its checksum alone, `both` all three.",
    )
    phases: list[Literal["forward", "backward"]] | None = Field(
        None, min_length=1, description="Which passes to dump; default: both."
    )
    direction: list[Literal["input", "output"]] | None = Field(
        None, min_length=1, description="What to dump of a call; default: both."
    )
    steps: Numbers | None = Field(None, description="Steps (calls of the model) to dump, from 0; default: all.")
    scope: Names | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="Names of the first and the last entry to dump; default: everything.",
    )
    include: Names | None = Field(
        None,
        description="Texts, one of which has to be in the name of an entry; at level mix, everything that runs in a "
        "module whose name has it. Default: all but calls that change a shape or a type, or fill a tensor.",
    )
    max_tensor_bytes: int | None = Field(
        None, gt=0, description="Elements of larger tensors are left out; their statistics are not."
    )
    config: UsedPath | None = Field(
        None,
        description="A `config.json` of msprobe, in place of "
        + ", ".join(f"`{name}`" for name in _OF_CONFIG)
        + "; its "
        "`dump_path` is the `output`, unless that is given.",
    )
    repeat: int = Field(
        1,
        gt=0,
        le=10,
        description="Run the model so often, each in a process of its own; what differs is not deterministic.",
    )
    select: Select = Field(default_factory=Select, description="Ranks, steps, graphs or nodes to read.")

    @field_validator(
        "backward", "loss", "level", "data", "phases", "direction", "steps", "scope", "include", "max_tensor_bytes",
        "config", "repeat",
        mode="after",
    )  # fmt: skip
    @classmethod
    def _eager_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @field_validator("loss", mode="after")
    @classmethod
    def _loss_of_backward(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("backward") is False:
            raise ValueError("`loss` is for the backward pass; set `backward: true` too")
        return value

    @field_validator("config", mode="after")
    @classmethod
    def _config_alone(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            for name in _OF_CONFIG:
                default = cls.model_fields[name].default
                if name in info.data and info.data[name] != default:
                    raise ValueError(f"`config` says it all; leave `{name}` out")
        return value

    @property
    def of_framework(self) -> dict[str, Any]:
        return {"has_backward": self.backward}


def run_or_adopt(runner: RunnerSpec | str, options: EagerOptions, context: Context, dump: Mapping[str, Any]) -> object:
    """Return the catalog of the dump, which is made first when a model is given.

    Args:
        runner: of the framework; one of ours by its name.
        options: of the stage.
        context: of the stage.
        dump: options of the dump that only this framework has.
    """
    if options.path is not None:
        return adopt(options.path, options.select, side=context.stage, uses=options.uses)
    chosen, of_dump = _dump_options(options)
    folders = dump_of_model(runner, chosen, {**of_dump, **dump}, context, repeat=options.repeat)
    _report_noise(folders, context)
    catalog = adopt(str(folders[0]), options.select, side=context.stage, uses=options.uses)
    return catalog.with_repeats(folders[1:])


def eager_forecast(runner: RunnerSpec | str, options: EagerOptions) -> Forecast | None:
    """Return what the plan says of the stage; a config.json that cannot be used is said there."""
    found = forecast(runner, options, repeat=options.repeat)
    if found is None:
        return None
    return replace(found, problems=(*found.problems, *_config_problems(options)), writes=lambda: OF_CODE)


def _config_problems(options: EagerOptions) -> Iterator[Diagnostic]:
    try:
        _dump_options(options)
    except UsageError as error:
        yield error.diagnostic


def _dump_options(options: EagerOptions) -> tuple[EagerOptions, dict[str, Any]]:
    """Return the options of the run and those of the dump."""
    from probe_flow.dumpers.dump_json.config_json import read_config
    from probe_flow.dumpers.dump_json.options import checked_options

    extra = {"max_tensor_bytes": options.max_tensor_bytes}
    if options.config is None:
        of_dump = {name: getattr(options, name) for name in _OF_CONFIG} | extra
        checked_options(of_dump)
        return options, of_dump
    found = read_config(Path(options.config))
    of_dump = {**found.options, **extra}
    checked_options(of_dump)
    if options.output is None and found.dump_path is not None:
        return options.model_copy(update={"output": str(Path(found.dump_path).absolute())}), of_dump
    return options, of_dump


def _report_noise(folders: Sequence[Path], context: Context) -> None:
    if len(folders) == 1:
        return
    from probe_flow.dumpers.dump_json.repeats import not_repeatable

    context.report(not_repeatable(folders))


def adopt(path: str, select: Select, *, side: str, uses: str) -> Catalog:
    """Return the catalog of a dump; a framework that its stage does not name is a warning.

    Args:
        path: the dump.
        select: what to read of it.
        side: name of the stage.
        uses: kind of the stage.
    """
    from probe_flow.dumps.dump_json.reader import read_dump_json

    catalog = read_dump_json(path, side=side, select=select.selection)
    proper = _STAGES[catalog.framework.kernels]
    if proper == uses:
        return catalog
    problem = Diagnostic(
        "PF3428",
        f"`{path}` is a dump of {catalog.framework.name}",
        severity=Severity.WARNING,
        path=path,
        help=f"it is read all the same; write `uses: {proper}`",
    )
    return replace(catalog, problems=(*catalog.problems, problem))
