"""Options of the stages that examine one dump by itself: what fails the run, and what is excused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from probe_flow.stages.base import CatalogOf, IsPath, StageOptions
from probe_flow.stages.compare import Waiver, waiver_of

if TYPE_CHECKING:
    from probe_flow.comparing.asked import Asked
    from probe_flow.files.yaml.places import Place


class JudgedOptions(StageOptions):
    """What fails the run, and what is excused."""

    gate: Literal["findings", "all_pass"] = Field(
        "findings",
        description="What fails the run: `findings` = NaN or infinity that begins somewhere and was not asked for; "
        "`all_pass` = any tensor that holds such a value, those that inherit it included.",
    )
    waivers: list[Waiver] = Field(
        [],
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


class ExaminationOptions(JudgedOptions):
    """The same of a dump that another stage read."""

    catalog: CatalogOf = Field(description="Stage that gives the dump.")
