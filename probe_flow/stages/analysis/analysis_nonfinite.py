"""`analysis.nonfinite`: where NaN and infinity begin in one dump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, IsPath, Kind, StageOptions, StageType
from probe_flow.stages.compare import Waiver, waiver_of
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.comparing.asked import Asked
    from probe_flow.files.yaml.places import Place


class Options(StageOptions):
    """Find where NaN and infinity begin in one dump, and tell that from what inherits them; nothing is compared."""

    uses: Literal["analysis.nonfinite"]
    catalog: CatalogOf = Field(description="Stage that gives the dump.")
    gate: Literal["findings", "all_pass"] = Field(
        "findings",
        description="What fails the run: `findings` = NaN or infinity that begins somewhere and was not asked for; "
        "`all_pass` = any tensor that holds such a value, those that inherit it included.",
    )
    waivers: list[Waiver] = Field(
        default_factory=list,
        description="Places where NaN or infinity is known and does not fail the run; the first that covers a tensor "
        "counts.",
    )
    baseline: Annotated[str, IsPath(is_data=False)] | None = Field(
        None, description="File of `probe-flow baseline accept`: the run fails only on what is new."
    )
    coverage: float = Field(
        0.9,
        ge=0.0,
        le=1.0,
        description="Least share of the dump's outputs that must be examined for the run to count as complete.",
    )

    def asked(self, place: Place | None = None) -> Asked:
        """Return the same as plain values; ``place`` is where the stage is written."""
        from probe_flow.analysis.coverage import Required
        from probe_flow.comparing.asked import Asked

        return Asked(
            gate=self.gate,
            waivers=tuple(waiver_of(waiver, number, place) for number, waiver in enumerate(self.waivers)),
            baseline=self.baseline,
            required=Required(coverage=self.coverage),
        )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the examination, which reports, gates and other commands take as they take a comparison."""
    from probe_flow.comparing.examine import examine_nonfinite

    return examine_nonfinite(inputs["catalog"][0], options.asked(context.place), context)


STAGE = StageType(
    uses="analysis.nonfinite",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Find where NaN and infinity begin in one dump.",
)
