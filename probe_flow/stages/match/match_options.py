"""What every match stage has in common: the sides that it pairs, and the third side that may judge both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from probe_flow.stages.base import CatalogOf, StageOptions

if TYPE_CHECKING:
    from probe_flow.records import Pairs


class MatchOptions(StageOptions):
    """Options of every match stage."""

    target: CatalogOf = Field(description="Stage that read the target dump.")
    golden: CatalogOf = Field(description="Stage that read the golden dump.")
    reference: CatalogOf | None = Field(
        None,
        description="Stage that read a dump of the golden's model in higher precision, e.g. float64: both sides are "
        "judged against it. Its names must be the golden's. Default: none.",
    )
    pair_ranks: dict[int, int] | None = Field(
        None, description="Target rank -> golden rank, where the numbers differ; default: equal numbers."
    )
    step_offset: int = Field(0, description="Golden step = target step + this offset.")

    def matched(self, match: Callable[..., Pairs], inputs: Mapping[str, Sequence[Any]], **more: object) -> Pairs:
        """Return the pairs that a matcher makes of the sides, with the tensors of the reference where there is one.

        Args:
            match: takes target, golden, ``pair_ranks`` and ``step_offset``.
            inputs: of the stage.
            more: what else this matcher takes.
        """
        target, golden = inputs["target"][0], inputs["golden"][0]
        found = inputs.get("reference")
        if found:
            target, golden = target.in_full(), golden.in_full()
        pairs = match(target, golden, pair_ranks=self.pair_ranks, step_offset=self.step_offset, **more)
        if not found:
            return pairs
        from probe_flow.matching.shared.third_side import with_reference

        return with_reference(pairs, found[0])


class LayerNameOptions(MatchOptions):
    """Options of the matches that rename modules and their parameters."""

    param_alias: dict[str, str] | None = Field(
        None,
        description="Other names of parameters -> the common name. Default: gamma -> weight, beta -> bias, "
        "moving_mean -> running_mean, moving_variance -> running_var, embedding_table -> weight.",
        examples=[{"gamma": "weight"}],
    )

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of parameters -> the common name."""
        from probe_flow.matching.shared.parameter_names import PARAMETER_ALIASES

        return PARAMETER_ALIASES if self.param_alias is None else self.param_alias
