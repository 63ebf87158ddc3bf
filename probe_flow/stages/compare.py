"""`compare`: align, measure, judge and analyse every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from probe_flow.stages.base import IsPath, Kind, Model, Only, PairsOf, StageOptions, StageType
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.analysis.policies import bounds, rules
    from probe_flow.analysis.suppressions import waivers
    from probe_flow.comparing import asked
    from probe_flow.comparing.asked import Asked
    from probe_flow.files.yaml.places import Place


def _bound(text: str) -> str:
    from probe_flow.analysis.policies.bounds import checked_bound

    return checked_bound(text)


def _policy(policy: str | list[PolicyRule]) -> str | list[PolicyRule]:
    from probe_flow.analysis.policies.registry import POLICIES

    if isinstance(policy, str):
        if policy not in POLICIES:
            unknown = POLICIES.no_such(policy)
            raise ValueError(f"{unknown.message}; {unknown.help}")
        POLICIES.check(policy)
    if not policy:
        raise ValueError("it has no rules, so that no row would be judged")
    return policy


def _metric_set(name: str) -> str:
    return _known(name, name)


def _metric(name: str) -> str:
    return _known(name, [name])


def _known(name: str, metrics: str | list[str]) -> str:
    from probe_flow.errors import UsageError
    from probe_flow.metrics.catalogue.registry import metric_ids
    from probe_flow.packages import BrokenPackageError

    try:
        metric_ids(metrics)
    except BrokenPackageError:
        raise
    except UsageError as error:
        raise ValueError(f"{error.diagnostic.message}; {error.diagnostic.help}") from error
    return name


def _arguments(given: dict[str, dict[str, str | int | float | bool]]) -> dict[str, dict[str, str | int | float | bool]]:
    if not given:  # the metrics take time to import
        return given
    from probe_flow.errors import UsageError
    from probe_flow.metrics.catalogue.derive import Scope

    try:
        Scope.asked(0, given)
    except UsageError as error:
        raise ValueError(f"{error.diagnostic.message}; {error.diagnostic.help}") from error
    return given


def _date(text: str) -> str:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.isoformat() != text:  # fromisoformat takes weeks and dates without dashes too
        raise ValueError(f"`{text}` is no date; write it as 2026-12-31")
    return text


def _words(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty; whoever reads the report has to know why, and whom to ask")
    return text


def _narrow(where: Where) -> Where:
    if not where.model_dump(exclude_none=True):
        raise ValueError("it waives every row; name a `node` or an `op_type` at least")
    return where


MetricSet = Annotated[str, AfterValidator(_metric_set)]
MetricId = Annotated[str, AfterValidator(_metric)]
Bound = Annotated[str, AfterValidator(_bound)]
Globs = str | list[str]


class Require(Model):
    """What a run needs to count as complete. Where only a part is meant, say so here or by `select`."""

    coverage: float = Field(
        0.9,
        ge=0.0,
        le=1.0,
        description="Least share of outputs, on either side, that must be compared: compared / (compared + missing).",
    )
    executions: bool = Field(
        default=True,
        description="Whether each execution (rank, step, graph) of one side must be on the other too.",
    )
    entries: bool = Field(
        default=True, description="Whether each entry of a mapping file or of `pair_ranks` must match something."
    )
    two_dumps: bool = Field(
        default=True, description="Whether the sides must be two dumps: one compared with itself always agrees."
    )


class Analysis(Model):
    """How much the search may cost beside comparing."""

    recompute: Literal["auto", "all", "never"] = Field(
        "auto",
        description="Whether calls are computed again in float64 from the target's own inputs, where the dump holds "
        "them: `auto` = what is suspect, or judged by nothing else, while it costs little; `all` = every call that is "
        "known; `never`.",
    )
    limit: int | None = Field(
        None, ge=0, description="Calls that are computed again at most; absent: 256, and no limit with `all`."
    )


class Where(Model):
    """Which rows a rule judges: every pattern given must fit."""

    node: Globs | None = Field(None, description="Name of the node.")
    op_type: Globs | None = Field(None, description="Type of the node.")
    direction: Globs | None = Field(
        None, description="Slot: `input`, `output`, `parameter`, `parameter_grad`, `buffer`."
    )
    dtype: Globs | None = Field(None, description="Dtype of the target tensor, e.g. `float16`.")


class PolicyRule(Model):
    """One rule of an own policy; the first rule whose `where` fits a row judges it."""

    where: Where = Field(default_factory=Where, description="Rows that the rule judges; absent: every row.")
    pass_: dict[MetricId, Bound] = Field(
        alias="pass", min_length=1, description="Metric id -> bound, e.g. `cosine: '>= 0.99'`; all must hold."
    )
    warn: dict[MetricId, Bound] | None = Field(
        None, description="Metric id -> bound; a row that misses `pass` but meets these is a warning, not a failure."
    )


class Waiver(Model):
    """A known deviation that does not fail the run for a while; it stays visible in every result."""

    where: Annotated[Where, AfterValidator(_narrow)] = Field(description="Rows that it covers; one pattern at least.")
    reason: Annotated[str, AfterValidator(_words)] = Field(description="Why the deviation is accepted.")
    owner: Annotated[str, AfterValidator(_words)] = Field(description="Who answers for it.")
    expires: Annotated[str, AfterValidator(_date)] = Field(
        description="Last day on which it holds, as `YYYY-MM-DD`.", examples=["2026-12-31"]
    )
    bound: dict[MetricId, Bound] | None = Field(
        None,
        description="Metric id -> bound that a row must still meet, e.g. `relative_euclidean_distance: '< 0.02'`; a "
        "row with NaN or infinities that the golden does not have meets none.",
    )


class Options(StageOptions):
    """Measure every pair, judge it by a policy, and say where the divergence begins."""

    uses: Literal["compare"]
    pairs: PairsOf = Field(description="Stage that matched.")
    policy: Annotated[str | list[PolicyRule], AfterValidator(_policy)] = Field(
        "torchair", description="Registered policy, or an ordered list of rules (the first match wins)."
    )
    metrics: MetricSet | list[MetricId] | None = Field(
        None,
        description="Registered metric set (`default`, `torchair`, `torchair_legacy`) or a list of metric ids; absent: "
        "the set of the policy's name where there is one, else `default`.",
    )
    metric_args: Annotated[dict[str, dict[str, str | int | float | bool]], AfterValidator(_arguments)] = Field(
        default_factory=dict,
        description="Metric id -> arguments, for metrics of installed packages that take some.",
        examples=[{"my_metric": {"limit": 0.5}}],
    )
    max_elements: int = Field(
        0, ge=0, description="Measure only this many elements of each pair, from the first on, in C order; 0 = all."
    )
    gate: Literal["findings", "all_pass"] = Field(
        "findings",
        description="What fails the run: `findings` = an origin of divergence, of NaN or infinities, or drift; "
        "`all_pass` = any failing row.",
    )
    waivers: list[Waiver] = Field(
        [],
        description="Known deviations that do not fail the run; the first that covers a row counts.",
    )
    baseline: Annotated[str, IsPath(is_data=False)] | None = Field(
        None, description="File of `probe-flow baseline accept`: the run fails only on what is worse than it says."
    )
    baseline_tolerance: float = Field(
        0.1, ge=0.0, description="How much larger than accepted an error may be, relative to it; 0.1 = a tenth."
    )
    require: Require = Field(default_factory=Require, description="What the run needs to count as complete.")
    only: Only | None = Field(None, description="Compare only the nodes that an earlier comparison suspects.")
    analysis: Analysis = Field(default_factory=Analysis, description="How much the search may cost beside comparing.")

    def asked(self, place: Place | None = None) -> Asked:
        """Return the same as plain values; ``place`` is where the stage is written."""
        from probe_flow.analysis.coverage import Required
        from probe_flow.comparing import asked

        only = self.only
        return asked.Asked(
            policy=self.policy if isinstance(self.policy, str) else tuple(map(_rule, self.policy)),
            metrics=self.metrics,
            metric_args=self.metric_args,
            max_elements=self.max_elements,
            gate=self.gate,
            waivers=tuple(waiver_of(waiver, number, place) for number, waiver in enumerate(self.waivers)),
            baseline=self.baseline,
            baseline_tolerance=self.baseline_tolerance,
            required=Required(**self.require.model_dump()),
            only=asked_only(only) if only is not None else None,
            recompute=asked.Recompute(self.analysis.recompute, self.analysis.limit),
        )


def _rule(rule: PolicyRule) -> rules.Rule:
    from probe_flow.analysis.policies.rules import Rule

    where = _lists(rule.where.model_dump(exclude_none=True))
    return Rule(where, _bounds(rule.pass_), _bounds(rule.warn) if rule.warn is not None else None)


def waiver_of(waiver: Waiver, number: int, place: Place | None) -> waivers.Waiver:
    """Return a waiver as plain values; ``place`` is where its stage is written."""
    from probe_flow.analysis.suppressions import waivers
    from probe_flow.files.yaml.places import nearest

    return waivers.Waiver(
        _lists(waiver.where.model_dump(exclude_none=True)),
        waiver.reason,
        waiver.owner,
        date.fromisoformat(waiver.expires),
        _bounds(waiver.bound or {}),
        nearest(place, ("waivers", number)).span if place is not None else None,
    )


def asked_only(only: Only) -> asked.Only:
    """Return what narrows a stage as plain values."""
    from probe_flow.comparing.asked import Only as AskedOnly

    return AskedOnly(only.comparison, _lists(only.where), only.limit)


def _lists(where: Mapping[str, str | list[str]]) -> dict[str, Sequence[str]]:
    return {key: (value,) if isinstance(value, str) else tuple(value) for key, value in where.items()}


def _bounds(texts: Mapping[str, str]) -> dict[str, bounds.Bound]:
    from probe_flow.analysis.policies.bounds import parse_bound

    return {metric: bound for metric, text in texts.items() if (bound := parse_bound(text)) is not None}


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the comparison."""
    from probe_flow.comparing.steps import compare_pairs

    suspects = inputs["only.comparison"][0] if options.only else None
    return compare_pairs(inputs["pairs"][0], options.asked(context.place), context, suspects)


STAGE = StageType(
    uses="compare",
    produces=Kind.COMPARISON,
    options=Options,
    run=run,
    summary="Measure every pair, judge it, and find where the divergence begins.",
)
