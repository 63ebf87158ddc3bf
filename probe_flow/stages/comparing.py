"""What `compare` does: measure every pair, judge it, analyse the whole, and judge the run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from probe_flow.analysis.conclude import conclude
from probe_flow.analysis.coverage import cover, incompleteness
from probe_flow.analysis.gate import gate_passes
from probe_flow.analysis.measured import MeasuredPair, in_execution_order
from probe_flow.analysis.policies import Bound, Policy, Rule, RulePolicy, judge_all, parse_bound, policy_named
from probe_flow.errors import Diagnostic
from probe_flow.metrics.catalogue import METRIC_SETS
from probe_flow.metrics.registry import metric_ids, options_for
from probe_flow.records import ComparedPair, Comparison, Measurement, Pair, Pairs, TensorKind
from probe_flow.stages.base import Context
from probe_flow.stages.measurements import incomparable, measurement_of_record, measurement_without_data
from probe_flow.stages.measuring import Batch, Task, TaskResult, measure_batch, plan_batches, plan_tasks
from probe_flow.stages.suspects import only_suspects

if TYPE_CHECKING:
    from probe_flow.stages.compare import Options, PolicyRule


def compare_pairs(pairs: Pairs, options: Options, context: Context, suspects: Comparison | None) -> Comparison:
    """Return the comparison of all pairs."""
    policy = _policy(options.policy, pairs)
    ids = metric_ids(options.metrics or (policy.name if policy.name in METRIC_SETS else "default"))
    ordered = in_execution_order(pairs)
    selected = only_suspects(ordered, suspects, options.only) if suspects and options.only else None
    rows = _measure(ordered, ids, context, selected)
    verdicts = judge_all(rows, policy)
    context.emit("compare.judged", rows=len(rows), policy=policy.name)
    findings, roles = conclude(rows, pairs, verdicts)
    coverage = cover(pairs, rows, verdicts)
    problems = (*pairs.target.problems, *pairs.golden.problems, *pairs.problems)
    return Comparison(
        pairs=pairs,
        rows=tuple(
            ComparedPair(number, row.pair, row.measurement, verdict)
            for number, (row, verdict) in enumerate(zip(rows, roles, strict=True))
        ),
        findings=findings,
        coverage=coverage,
        gate=options.gate,
        gate_passed=gate_passes(options.gate, findings, verdicts),
        incomplete=incompleteness(rows, verdicts, coverage, required=options.require.coverage),
        policy=policy.name,
        problems=problems,
    )


def _measure(
    pairs: Sequence[Pair], ids: tuple[str, ...], context: Context, selected: set[int] | None
) -> list[MeasuredPair]:
    options = options_for(ids)
    measurements: dict[int, Measurement] = {}
    failures: dict[int, Diagnostic] = {}
    tasks: list[Task] = []
    for number, pair in enumerate(pairs):
        if pair.target is None or pair.golden is None or (selected is not None and number not in selected):
            continue
        failure = incomparable(pair)
        if failure is not None:
            failures[number] = failure
        elif pair.target.kind is TensorKind.TENSOR:
            tasks.extend(plan_tasks(number, pair.target, pair.golden, options))
        else:
            measurements[number] = measurement_without_data(pair)
    batches = plan_batches(tasks, options, io=context.settings.io, batch_bytes=context.settings.batch_bytes)
    context.emit("compare.planned", pairs=len(pairs), tasks=len(tasks), batches=len(batches))
    parts = _run(batches, context, failures)
    for number, results in parts.items():
        if number not in failures:
            ordered = sorted(results, key=lambda result: result.first_block)
            records = [result.record for result in ordered if result.record is not None]
            measurements[number] = measurement_of_record(pairs[number], records, ids)
    return [MeasuredPair(pair, measurements.get(number), failures.get(number)) for number, pair in enumerate(pairs)]


def _run(batches: Sequence[Batch], context: Context, failures: dict[int, Diagnostic]) -> dict[int, list[TaskResult]]:
    parts: dict[int, list[TaskResult]] = defaultdict(list)
    sizes = [sum(task.nbytes for task in batch.tasks) for batch in batches]
    for _, results in context.map(measure_batch, batches, sizes=sizes):
        for result in results:
            parts[result.pair].append(result)
            if result.failure is not None:
                failures.setdefault(result.pair, result.failure)
    return parts


def _policy(policy: str | list[PolicyRule], pairs: Pairs) -> Policy:
    if isinstance(policy, str):
        return policy_named(policy)
    op_types: dict[Any, str] = {key: node.op_type for key, node in pairs.golden.nodes.items()}
    op_types.update({key: node.op_type for key, node in pairs.target.nodes.items()})
    return RulePolicy(tuple(_rule(rule) for rule in policy), op_types)


def _rule(rule: PolicyRule) -> Rule:
    given = rule.where.model_dump(exclude_none=True)
    where = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in given.items()}
    return Rule(where, _bounds(rule.pass_), _bounds(rule.warn) if rule.warn is not None else None)


def _bounds(texts: dict[str, str]) -> dict[str, Bound]:
    return {metric: bound for metric, text in texts.items() if (bound := parse_bound(text)) is not None}
