"""`report`: write a comparison as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import ComparisonOf, Context, IsPath, Kind, Model, StageOptions, StageType


class CsvFormat(Model):
    """A CSV in one of the known layouts."""

    csv: Literal["torchair", "torchair_legacy", "dump_json"] = Field(description="Column layout of the CSV.")


class Options(StageOptions):
    """Write result files into the run's folder."""

    uses: Literal["report"]
    comparison: ComparisonOf = Field(description="Stage that compared.")
    formats: list[Literal["jsonl", "csv"] | CsvFormat] = Field(
        default_factory=lambda: ["jsonl"],
        description="Files to write. `jsonl` (comparison.jsonl, nodes.jsonl) and run.json are always written.",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; default: the run's own folder."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written."""
    raise NotImplementedError


STAGE = StageType(
    uses="report",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write a comparison as files.",
)
