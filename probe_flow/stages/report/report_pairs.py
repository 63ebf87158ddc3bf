"""`report.pairs`: write down what would be compared with what, without comparing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from probe_flow.stages.base import IsPath, Kind, PairsOf, StageOptions, StageType
from probe_flow.stages.report.report import FORMATS, chosen, plain_words
from probe_flow.work import Context


def _without_rows(word: str) -> str:
    if FORMATS.find(word).needs_rows:
        raise ValueError(f"`{word}` shows what was measured; use it in a `report` of a comparison")
    return word


if TYPE_CHECKING:
    Format = str
else:
    Format = Annotated[Literal[plain_words(needs_rows=False)], AfterValidator(_without_rows)]


class Options(StageOptions):
    """Write which tensor is compared with which, without measuring anything."""

    uses: Literal["report.pairs"]
    pairs: PairsOf = Field(description="Stage that matched.")
    formats: list[Format] = Field(
        ["mapping"],
        min_length=1,
        description="`mapping`: a table of files, as the mapping mode of the offline comparison writes it "
        "(mapping_TIME.csv). `data_mapping`: a file for `match.data_mapping`.",
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder for these files; default: the run's own folder."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the paths of the files written; those of several (of a matrix) are named after their variant."""
    from probe_flow.records import Comparison
    from probe_flow.reports.formats import Request
    from probe_flow.reports.tables.offline.mapping import rows_of

    folder = Path(options.output) if options.output else context.output
    written: list[Path] = []
    for suffix, pairs in zip(context.file_suffixes("pairs", len(inputs["pairs"])), inputs["pairs"], strict=True):
        unmeasured = Comparison(pairs, rows_of(pairs), (), {}, gate="", gate_passed=True)
        request = Request(unmeasured, context.facts, Path.cwd(), suffix, chosen=chosen(options.formats))
        for each in request.chosen:
            for file in each.format.files(request, each.option):
                file.write(folder / file.name)
                written.append(folder / file.name)
    return written


STAGE = StageType(
    uses="report.pairs",
    produces=Kind.REPORT,
    options=Options,
    run=run,
    summary="Write which tensor is compared with which, without comparing.",
)
