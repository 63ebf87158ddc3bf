"""What stages share that run a model which declares its inputs: their options, and the folder of arrays it leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator, model_validator

from probe_flow.dumpers.base.runner import RunnerSpec
from probe_flow.files.model_names import path_in
from probe_flow.stages.base import CatalogOf, DumpPath, Duplicates, Forecast, IsPath, Model, Select
from probe_flow.stages.dump.model_run import (
    OF_CODE,
    ModelName,
    NodeFilter,
    RunOptions,
    UsedPath,
    dump_of_model,
    forecast,
    needs_model,
    spec_of,
)
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.records import Catalog


SHAPES = r"^[^;]+:\d{1,9}(,\d{1,9})*(;[^;]+:\d{1,9}(,\d{1,9})*)*;?$"
"""Pattern of shapes as text."""

_RANGE = re.compile(r":[\d,]*\d[~-]\d")
"""A range (``8~16``) or list (``8-12``) of sizes, as `--dym_shape_range` has them."""


class DrawnInputs(Model):
    """Inputs drawn from a seed by the dtypes and shapes of the model: floats in [0, 1), integers from 0 to 9, bools."""

    seed: int = Field(0, ge=0, description="Seed; the same one draws the same values on every machine.")
    high: float | None = Field(None, gt=0, description="End of the range, never drawn; default 1, for integers 10.")


class DeclaredInputs(Model):
    """Where the inputs of the model come from: exactly one of the options."""

    files: list[UsedPath] | None = Field(
        None,
        min_length=1,
        description="`.npy` arrays, or raw bytes in other files, in the order of the model's inputs.",
    )
    named: dict[str, UsedPath] | None = Field(
        None, min_length=1, description="The same by the names of the inputs.", examples=[{"x": "x.npy"}]
    )
    random: DrawnInputs | None = Field(None, description="Random numbers of a recorded seed.")

    @model_validator(mode="after")
    def _one(self) -> DeclaredInputs:
        if sum(each is not None for each in (self.files, self.named, self.random)) != 1:
            raise ValueError("give one of `files`, `named` and `random`")
        return self


class DeclaredRunOptions(RunOptions):
    """Options of a stage that adopts a folder of arrays, or runs a model that declares its inputs and writes one."""

    path: DumpPath | None = Field(
        None, description="The folder of arrays to adopt, `{op}.{output}.{timestamp}.npy`; or give `model`."
    )
    inputs: ModelName | DeclaredInputs | None = Field(  # type: ignore[assignment]  # other inputs than of code
        None,
        description="Inputs of the model: `files`, `named`, `random`; a file; a folder whose files are named as the "
        "inputs are, such as `input/0` of an earlier run; or `module:attribute` of a function that returns them (a "
        "tuple, or a mapping by name). Default: drawn from `seed` by the dtypes and shapes of the model.",
        examples=["x.npy", "dumps/golden/input/0", {"named": {"x": "x.npy"}}],
    )
    input_shape: dict[str, list[Annotated[int, Field(ge=0)]]] | Annotated[str, Field(pattern=SHAPES)] | None = Field(
        None,
        description="Shapes of inputs whose sizes the model leaves open; also as text, `x:1,3,224,224;y:1,5`.",
        examples=[{"x": [1, 3, 224, 224]}, "x:1,3,224,224"],
    )
    recorded_by: CatalogOf | None = Field(
        None,
        description="Stage that read the dump of the device: the model is fed with the inputs that it recorded, in "
        "`input/` beside it, or inside of it (then with `fusion_rule`). `inputs` replace them.",
    )
    fusion_rule: Annotated[str, IsPath(is_data=False)] | None = Field(
        None, description="Fusion rules of that dump's model, which name its inputs: ATC's JSON, or the `.om` itself."
    )
    calls: Literal[1] = Field(1, description="Such a model has no state: it runs once.")
    filter: NodeFilter | None = Field(None, description="Nodes to dump; default: all.")
    data: Literal["tensor", "statistics", "both"] = Field(
        "tensor",
        description="`statistics` writes minimum, maximum, mean and L2 norm in place of the elements; `both` writes "
        "them beside the elements.",
    )
    max_tensor_bytes: int | None = Field(None, gt=0, description="Larger tensors are left out, and named.")
    repeat: int = Field(
        1,
        gt=0,
        le=10,
        description="Run the model so often, each in a process of its own; what differs is not deterministic.",
    )
    select: Select = Field(default_factory=Select, description="Nodes to read; the arrays tell no rank, step or graph.")
    duplicates: Duplicates = Field("newest", description="Which file wins when one tensor was dumped twice.")
    quantised: bool | None = Field(
        None, description="Whether the model is quantised; default: told by the names of its operators."
    )

    @field_validator("input_shape", mode="before")
    @classmethod
    def _one_shape(cls, value: object) -> object:
        return without_ranges(value)

    @field_validator("input_shape", "recorded_by", "filter", "data", "max_tensor_bytes", "repeat", mode="after")
    @classmethod
    def _declared_needs_model(cls, value: object, info: ValidationInfo) -> object:
        return needs_model(value, info)

    @property
    def dump(self) -> dict[str, Any]:
        """The options of the dump, as runners take them; a stage of one framework adds its own."""
        chosen = self.filter.model_dump(exclude_none=True) if self.filter is not None else {}
        return {
            **chosen,
            "data": self.data,
            "max_tensor_bytes": self.max_tensor_bytes,
            "input_shape": shapes_in(self.input_shape),
        }


def without_ranges(value: object) -> object:
    """Return shapes as they are given.

    Raises:
        ValueError: they hold a range, as only commands take it.
    """
    if isinstance(value, str) and _RANGE.search(value):
        raise ValueError(
            f"`{value}` holds a range or list of sizes, and a stage runs one shape: give the shapes to "
            "`matrix: {shape: [...]}` of the stage and write `input_shape: ${matrix.shape}`, or the range to "
            "`probe-flow offline_dump --dym_shape_range`"
        )
    return value


def shapes_in(given: Mapping[str, list[int]] | str | None) -> dict[str, list[int]] | None:
    """Return shapes by the names of inputs, of a mapping or a text.

    >>> shapes_in("x:0:1,3;y:5")
    {'x:0': [1, 3], 'y': [5]}
    """
    if given is None or not isinstance(given, str):
        return dict(given) if given is not None else None
    parts = (part.rpartition(":") for part in given.split(";") if part)
    return {name: [int(size) for size in sizes.split(",")] for name, _, sizes in parts}


def declared_forecast(runner: RunnerSpec | str, options: DeclaredRunOptions) -> Forecast | None:
    """Return what the plan says of the stage, with about how many bytes it writes; None where it adopts a dump."""
    found = forecast(runner, options, repeat=options.repeat)
    return None if found is None else replace(found, writes=partial(_writes, runner, options))


def _writes(runner: RunnerSpec | str, options: DeclaredRunOptions) -> int | str:
    from probe_flow.dumpers.arrays.estimate import estimated

    assert options.model is not None, "a stage without a model writes nothing"
    if path_in(options.model) is None or options.model.endswith(".py"):
        return OF_CODE
    return estimated(f"probe_flow.dumpers.{spec_of(runner).name}.estimate", options.model, options.dump, options.repeat)


def run_declared(
    runner: RunnerSpec | str, options: DeclaredRunOptions, inputs: Mapping[str, Sequence[Any]], context: Context
) -> Catalog:
    """Return the catalog of the arrays, which are made first when a model is given."""
    from probe_flow.dumps.offline.npy_folder import read_npy_folder

    folders: list[Path] = []
    if options.model is not None:
        recorded = _recorded(options, inputs, context)
        folders = dump_of_model(runner, options, options.dump, context, repeat=options.repeat, inputs=recorded)
        _report_noise(folders, context)
    catalog = read_npy_folder(
        options.path if options.path is not None else folders[0],
        side=context.stage,
        select=options.select.selection,
        duplicates=options.duplicates,
        quantised=options.quantised,
    )
    return catalog.with_repeats(folders[1:])


def _recorded(
    options: DeclaredRunOptions, inputs: Mapping[str, Sequence[Any]], context: Context
) -> dict[str, Any] | None:
    """Return the inputs that the device's dump recorded, as a job has them; None where the stage names others."""
    if options.recorded_by is None or options.inputs is not None:
        return None
    from probe_flow.dumpers.arrays.recorded_inputs import recorded_inputs

    rule = Path(options.fusion_rule) if options.fusion_rule is not None else None
    folder = context.output / "inputs" / (context.stage or "model")
    found = recorded_inputs(inputs["recorded_by"][0], rule, folder)
    return {"recorded": [[each.name, str(each.file)] for each in found]}


def _report_noise(folders: list[Path], context: Context) -> None:
    from probe_flow.dumpers.arrays.repeats import largest, not_deterministic, unequal_files

    found = largest(each for other in folders[1:] for each in unequal_files(folders[0], other))
    if found:
        context.report([not_deterministic(found)])
