"""The options that all `reduce` stages share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails

from probe_flow.dumps.reduced.reduced_names import SUFFIX_PATTERN
from probe_flow.stages.base import DumpOf, DumpPath, Forecast, IsPath, Model, Select, StageOptions

Statistic = Literal["min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32"]

_INSTEAD = {
    "delete_source": "the dump stays, since others may read it",
    "watch": "the dump is whole before it is reduced",
    "select": "the dump stage selects what is read",
}
"""Why an option has no meaning for the dump of another stage."""

Suffix = Annotated[str, StringConstraints(pattern=SUFFIX_PATTERN)]


class WatchOptions(Model):
    """Reduce a dump while it is written."""

    interval: float = Field(
        0.5,
        gt=0,
        description="Least pause after each look at the dump, in seconds; long looks that find nothing pause longer.",
    )
    settle: float = Field(
        2.0, ge=0, description="A file is taken when it is complete and has not changed for so many seconds."
    )
    stop_when: Literal["idle", "file", "never"] = Field(
        "never",
        description="What ends the watch: `idle` (nothing changed for `idle_s`), `file` (`stop_file` appeared), or "
        "`never` (only SIGTERM or Ctrl-C).",
    )
    idle_s: float = Field(60.0, gt=0, description="With `stop_when: idle`, seconds without a change.")
    stop_file: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="With `stop_when: file`, the file to wait for."
    )

    @model_validator(mode="after")
    def _file_is_named(self) -> WatchOptions:
        if (self.stop_when == "file") != (self.stop_file is not None):
            raise ValueError("`stop_when: file` and `stop_file` belong together: give both or neither")
        return self


class ReduceOptions(StageOptions):
    """What every `reduce` stage can be told."""

    path: DumpPath | None = Field(
        None, description="The dump folder: a GE dump (`msprobe_ge_dump`) or an FX dump; or give `source`."
    )
    source: DumpOf | None = Field(
        None,
        description="The dump stage whose dump is reduced: one that adopts a dump, or one that runs a model. Only the "
        "files that it read are reduced. Takes dumps of device files and `.npy` arrays.",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None,
        description="Folder for the reduced dump, with the graph texts and `mapping.csv` files that belong to it. "
        "Default: with `path` each reduced file beside the dumped one, with `source` `reduced/STAGE` in the run's "
        "folder.",
    )
    functions: list[str] = Field(
        [],
        description="Own statistics, as `module:function`: called with each tensor as an array, returns a fixed "
        "number of figures. The module is imported: name only code that you trust.",
        examples=[["my_statistics:quantiles"]],
    )
    suffix: Suffix = Field(
        "_min_max",
        description="What is added to the name of a file. The dump stages look for `_min_max`.",
    )
    delete_source: bool = Field(
        default=False,
        description="With `path`: delete each dumped file once its reduced file is written, flushed and read back. "
        "Files with tensors that have no figures are kept.",
    )
    watch: WatchOptions | None = Field(
        None,
        description="With `path`: reduce while the dump is written. Such a stage is not consumed by others unless it "
        "ends.",
    )
    summary: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="File for the summary (JSON). Default: `reduce_<stage>.json` in the run's folder."
    )
    select: Select = Field(
        default_factory=Select,
        description="With `path`: ranks, steps, graphs or nodes of the reduced dump that later stages see; all files "
        "are reduced.",
    )

    @field_validator("source")
    @classmethod
    def _not_both(cls, source: str | None, info: ValidationInfo) -> str | None:
        if source is not None and info.data.get("path") is not None:
            raise ValueError("give either `path`, the folder of a dump, or `source`, the stage that gives it")
        return source

    @field_validator("delete_source", "watch", "select")
    @classmethod
    def _needs_path(cls, value: object, info: ValidationInfo) -> object:
        if info.data.get("source") is not None:
            raise ValueError(f"`{info.field_name}` goes with `path`; with `source` {_INSTEAD[str(info.field_name)]}")
        return value

    @model_validator(mode="after")
    def _one_dump(self) -> ReduceOptions:
        if self.path is None and self.source is None:
            # The same complaint as for any key that is needed: it knows of parameters that are not set.
            missing = InitErrorDetails(type="missing", loc=("path",), input=None)
            raise ValidationError.from_exception_data(type(self).__name__, [missing])
        return self

    @property
    def is_endless(self) -> bool:
        """Whether the stage watches its dump for ever."""
        return self.watch is not None and self.watch.stop_when == "never"


def forecast(options: ReduceOptions) -> Forecast:
    """Say where a reduce stage would write."""
    beside = "to the run folder" if options.source is not None else "beside the dumped ones"
    place = f"to `{options.output}`" if options.output else beside
    return Forecast(f"writes reduced files {place}" + (" and deletes these" if options.delete_source else ""))
