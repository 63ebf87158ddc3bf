"""`report`: write a comparison as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from probe_flow.stages.base import ComparisonOf, Context, IsPath, Kind, Model, StageOptions, StageType


def _layout(name: str) -> str:
    from probe_flow.errors import did_you_mean
    from probe_flow.reports.registry import layout_names

    known = layout_names()
    if name not in known:
        raise ValueError(
            f"there is no CSV layout `{name}`; {did_you_mean(name, known) or 'layouts: ' + ', '.join(known)}"
        )
    return name


class CsvFormat(Model):
    """A CSV in one of the known layouts."""

    csv: Annotated[str, AfterValidator(_layout)] = Field(
        description="Column layout: `torchair`, `torchair_legacy`, `dump_json`, or one of an installed package."
    )


class Options(StageOptions):
    """Write result files into the run's folder."""

    uses: Literal["report"]
    comparison: ComparisonOf = Field(description="Stage that compared.")
    formats: list[Literal["jsonl"] | CsvFormat] = Field(
        ["jsonl"],
        description="Files to write. `jsonl` (comparison.jsonl, nodes.jsonl) and run.json are always written.",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; default: the run's own folder."
    )


FILE_STEMS = {"torchair": "torchair_result", "torchair_legacy": "msprobe_cmp_report", "dump_json": "compare_result"}
"""How the files of a layout are named, followed by the time of the run; other layouts go by their own name."""


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; several comparisons (of a matrix) are numbered."""
    from datetime import datetime
    from pathlib import Path

    from probe_flow.reports.jsonl import write_comparison_jsonl, write_nodes_jsonl
    from probe_flow.reports.registry import layout

    folder = Path(options.output) if options.output else context.output
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.fromisoformat(context.facts["timings"]["started"]).strftime("%Y%m%d%H%M%S")
    comparisons = inputs["comparison"]
    files = []
    for number, comparison in enumerate(comparisons, start=1):
        suffix = f"_{number}" if len(comparisons) > 1 else ""
        for form in options.formats:
            if isinstance(form, CsvFormat):
                path = folder / f"{FILE_STEMS.get(form.csv, form.csv)}{suffix}_{stamp}.csv"
                layout(form.csv)(comparison, path)
                files.append(path)
            elif options.output:  # the run's own folder has these from the engine
                for name, write in (("comparison", write_comparison_jsonl), ("nodes", write_nodes_jsonl)):
                    write(comparison, folder / f"{name}{suffix}.jsonl")
                    files.append(folder / f"{name}{suffix}.jsonl")
    return files


STAGE = StageType(
    uses="report",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write a comparison as files.",
)
