"""`compare`: align, measure, judge and analyse every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from probe_flow.stages.base import Context, Kind, Model, Only, PairsOf, StageOptions, StageType


class Require(Model):
    """What a run needs to count as complete."""

    coverage: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        description="Least share of outputs, on either side, that must be compared: compared / (compared + missing).",
    )


class PolicyRule(Model):
    """One rule of an own policy; the first rule whose `where` fits a row judges it."""

    where: dict[str, str | list[str]] = Field(
        default_factory=dict,
        description="Conditions on the row: `node`, `op_type`, `direction`, `dtype` as glob patterns. Empty: every row.",
    )
    pass_: dict[str, str] = Field(
        alias="pass", description="Metric id -> bound, e.g. `cosine: '>= 0.99'`; all must hold."
    )
    warn: dict[str, str] | None = Field(
        None, description="Metric id -> bound; a row that misses `pass` but meets these is a warning, not a failure."
    )


class Options(StageOptions):
    """Measure every pair, judge it by a policy, and say where the divergence begins."""

    uses: Literal["compare"]
    pairs: PairsOf = Field(description="Stage that matched.")
    policy: str | list[PolicyRule] = Field(
        "torchair", description="Registered policy, or an ordered list of rules (the first match wins)."
    )
    metrics: str | list[str] = Field(
        "default", description="Registered metric set (`default`, `torchair_legacy`) or a list of metric ids."
    )
    gate: Literal["findings", "all_pass"] = Field(
        "findings",
        description="What fails the run: `findings` = an origin of divergence, of NaN/inf, or drift; `all_pass` = any failing row.",
    )
    require: Require = Field(default_factory=Require, description="What the run needs to count as complete.")
    only: Only | None = Field(None, description="Compare only the nodes that an earlier comparison suspects.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the comparison."""
    raise NotImplementedError


STAGE = StageType(
    uses="compare",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Measure every pair, judge it, and find where the divergence begins.",
)
