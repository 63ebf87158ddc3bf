"""The options that all `reduce` stages share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from probe_flow.formats.reduced_names import SUFFIX_PATTERN
from probe_flow.stages.base import DumpPath, Forecast, IsPath, Model, Select, StageOptions

Statistic = Literal["min", "max", "mean", "l2norm", "count", "nan_count", "inf_count", "crc32"]

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

    path: DumpPath = Field(description="The dump folder: a GE dump (`msprobe_ge_dump`) or an FX dump.")
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None,
        description="Folder for the reduced dump, with the graph texts and `mapping.csv` files that belong to it. "
        "Default: each reduced file beside the dumped one.",
    )
    functions: list[str] = Field(
        default_factory=list,
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
        description="Delete each dumped file once its reduced file is written, flushed and read back. Files with "
        "tensors that have no figures are kept.",
    )
    watch: WatchOptions | None = Field(
        None, description="Reduce while the dump is written. Such a stage is not consumed by others unless it ends."
    )
    summary: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="File for the summary (JSON). Default: `reduce_<stage>.json` in the run's folder."
    )
    select: Select = Field(
        default_factory=Select,
        description="Ranks, steps, graphs or nodes of the reduced dump that later stages see; all files are reduced.",
    )

    @property
    def is_endless(self) -> bool:
        """Whether the stage watches its dump for ever."""
        return self.watch is not None and self.watch.stop_when == "never"


def forecast(options: ReduceOptions) -> Forecast:
    """Say where a reduce stage would write."""
    place = f"to `{options.output}`" if options.output else "beside the dumped ones"
    return Forecast(f"writes reduced files {place}" + (" and deletes these" if options.delete_source else ""))
