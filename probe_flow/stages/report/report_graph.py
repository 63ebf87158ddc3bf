"""`report.graph`: write the calls of each execution as a tree, alone or compared, for the viewer of msprobe's users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from probe_flow.stages.base import CatalogOf, ComparisonOf, IsPath, Kind, StageOptions, StageType
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.stages.report.graph_files import Asked


class Options(StageOptions):
    """Write graphs of modules and calls, for TensorBoard with tb-graph-ascend."""

    uses: Literal["report.graph"]
    comparison: ComparisonOf | None = Field(
        None, description="Stage that compared: both sides, coloured by how far they differ."
    )
    catalog: CatalogOf | None = Field(None, description="Stage that gives a dump, in place of `comparison`: it alone.")
    formats: list[Literal["vis", "vis_db", "html"]] = Field(
        ["vis", "vis_db", "html"],
        min_length=1,
        description="`vis`: a file of JSON for each rank and step. `vis_db`: one database for all. Each goes into a "
        "folder of its name, because the viewer shows no `.vis` beside a `.vis.db`. `html`: the page of a report with "
        "the scores and levels of the graphs, report.html in the run's folder.",
    )
    layout: Literal["own", "msprobe"] = Field(
        "own",
        description="By whose rules nodes are placed, matched and scored: ours, or those of msprobe with all that is "
        "wrong in them (`vis`: version 1.2.1, `vis_db`: 26.2.0).",
    )
    match: Literal["exact", "fuzzy", "layer_mapping"] = Field(
        "exact",
        description="Layout `msprobe`: match nodes of equal names, also calls whose numbers differ, or by the tree of "
        "layers. Ours shows what the pairs of the comparison are.",
    )
    mapping: Annotated[str, IsPath(is_data=False)] | None = Field(
        None, description="With `match: layer_mapping`: YAML file of layers whose names differ."
    )
    stacks: Literal["lean", "complete"] = Field(
        "lean",
        description="Which frames of a call stack `vis` has: the one in the user's code, or all. `vis_db` has all.",
    )
    overflow: bool = Field(
        default=False, description="Whether nodes show how bad their overflow is: `medium`, `high` or `critical`."
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; of one format they lie directly in it. Default: the run's folder."
    )

    @model_validator(mode="after")
    def _is_of_one(self) -> Options:
        if (self.comparison is None) == (self.catalog is None):
            raise ValueError("name one stage, as `comparison` or as `catalog`")
        if set(self.formats) == {"html"}:
            raise ValueError("`html` alone is the page of a `report`; name `vis` or `vis_db` too")
        if self.layout == "own" and self.match != "exact":
            raise ValueError("`match` is for `layout: msprobe`; ours shows what the pairs of the comparison are")
        if self.mapping is not None and self.match != "layer_mapping":
            raise ValueError("`mapping` is for `match: layer_mapping`")
        return self

    def asked(self, started: str) -> Asked:
        """Return the same as plain values; ``started`` is when the run began."""
        from datetime import datetime

        from probe_flow.stages.report.graph_files import Asked

        return Asked(
            tuple(word for word in dict.fromkeys(self.formats) if word != "html"),
            self.layout == "msprobe",
            self.match,
            Path(self.mapping) if self.mapping else None,
            self.stacks == "complete",
            self.overflow,
            datetime.fromisoformat(started).strftime("%Y%m%d%H%M%S"),
        )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; those of several (of a matrix) are named after their variant."""
    from probe_flow.stages.report.graph_files import write_graphs

    asked = options.asked(context.facts.timings.started)
    option = "comparison" if options.comparison is not None else "catalog"
    sources = inputs[option]
    written: list[Path] = []
    for suffix, source in zip(context.file_suffixes(option, len(sources)), sources, strict=True):
        page = context.output / f"report{suffix}.html" if "html" in options.formats else None
        written += write_graphs(source, asked, _folders(options, asked, context, suffix), page, context)
    return written


def _folders(options: Options, asked: Asked, context: Context, suffix: str) -> dict[str, Path]:
    """Return the folder of each format for the viewer."""
    if options.output is not None and len(asked.formats) == 1:
        return {asked.formats[0]: Path(options.output + suffix)}
    root = Path(options.output) if options.output is not None else context.output
    return {word: root / f"{word}{suffix}" for word in asked.formats}


STAGE = StageType(
    uses="report.graph",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write graphs of modules and calls for the viewer that users of msprobe have.",
)
