"""What `compare` does: measure every pair, judge it, analyse the whole, and judge the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from probe_flow.analysis.coverage import caveats, cover, incompleteness, nameless_files
from probe_flow.analysis.policies.base import Policy, judge_all
from probe_flow.analysis.policies.registry import POLICIES
from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.origin import diagnose
from probe_flow.analysis.silent_operators import silence_problems, silent_sides
from probe_flow.comparing.asked import Asked, Recompute, only_suspects
from probe_flow.comparing.closer_looks import look_closer
from probe_flow.comparing.error_looks import with_looks
from probe_flow.comparing.picks import find_picks
from probe_flow.comparing.suppress import excuse, open_baseline, waiver_metrics
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.files.machine import memory_of_machine, return_free_memory
from probe_flow.measure.results import left_out
from probe_flow.measure.run import find_lone_tensors, measure_pairs
from probe_flow.metrics.catalogue.derive import Scope
from probe_flow.metrics.catalogue.metrics import METRIC_SETS
from probe_flow.metrics.catalogue.registry import metric_ids, of_two_sides
from probe_flow.records import (
    ALL_PASS,
    Catalog,
    Comparison,
    FigureTable,
    Finding,
    Flow,
    Pairs,
    Row,
    Status,
    TensorKind,
    TensorRef,
    TensorTable,
    Verdict,
    shared_numbers,
)
from probe_flow.records.figures import MANY, let_go_of_numbers
from probe_flow.records.frameworks import NPY
from probe_flow.records.row import ManyRows, Rows, in_execution_order
from probe_flow.work import Context, no_processes

if TYPE_CHECKING:
    from probe_flow.analysis.policies.rules import Rule
    from probe_flow.analysis.search.diagnosis import Diagnosis


def gate_passes(gate: str, findings: Sequence[Finding], verdicts: Sequence[Verdict]) -> bool:
    """Say whether the run passes.

    ``findings`` fails on an origin of divergence, of NaN or infinities, of differing checksums, or on drift;
    ``all_pass`` fails on any failing row. What is waived or accepted in the baseline does not count.
    """
    if gate == ALL_PASS:
        return not any(verdict.status is Status.FAIL and verdict.excuse is None for verdict in verdicts)
    return not any(finding.fails for finding in findings)


SAME_DUMP = "same dump on both sides"
"""What is said of a comparison of a dump with itself: it is incomplete, unless that is meant."""

SAMPLED_FILES = 32
"""Pairs whose files are looked at to see whether both sides are one dump."""


ROW_BYTES = 1000
"""What a row takes at least while it is judged, both sides of its dumps included (measured: 30,000 rows and more)."""


def check_memory(rows: int, memory_bytes: int | None) -> None:
    """Refuse to begin what cannot end.

    Args:
        rows: of the comparison.
        memory_bytes: what the run may take; None = what the machine has.

    Raises:
        UsageError: PF6109.
    """
    limit, needed = memory_bytes or memory_of_machine(), rows * ROW_BYTES
    if limit is None or needed <= limit:
        return
    what = "`executor.memory_limit` is" if memory_bytes else "this machine gives"
    raise UsageError(
        Diagnostic(
            "PF6109",
            f"{rows:,} pairs take {needed / 2**20:,.0f} MiB at least; {what} {limit / 2**20:,.0f} MiB",
            help="raise the limit, or compare a part: `select` of the dump stages takes ranks, steps and nodes",
        )
    )


Search: TypeAlias = Callable[[Sequence[Row], Pairs, Sequence[Verdict]], tuple[tuple[Finding, ...], list[Verdict]]]
"""Returns the findings, the most important first, and the verdicts with the roles of their rows."""


def _other_search(flow: Flow) -> Search | None:
    """Return how what is wrong is searched where nodes do not depend on each other by what they read."""
    if flow not in (Flow.TIME, Flow.NONE):
        return None
    from probe_flow.analysis.search.failures import conclude_each, conclude_in_time

    return conclude_in_time if flow is Flow.TIME else conclude_each


def compare_pairs(pairs: Pairs, asked: Asked, context: Context, suspects: Comparison | None) -> Comparison:
    """Return the comparison of all pairs."""
    check_memory(len(pairs.pairs), context.settings.memory_bytes)
    if pairs.target.repeats or pairs.golden.repeats:
        pairs = replace(pairs, pairs=(*pairs.pairs,))  # rows with their noise hold their pairs
    baseline = open_baseline(asked, context)
    policy = _policy(asked.policy, pairs)
    ids = chosen_metrics(asked, pairs)
    scope = measured_scope(asked)
    rows, is_selection = _measured(pairs, ids, asked, context, suspects)
    overwritten = _overwritten(rows, pairs)
    verdicts = judge_all(rows, policy)
    context.emit("compare.judged", rows=len(rows), policy=policy.name)
    findings, roles = _searched(rows, pairs, verdicts, asked, context)
    if isinstance(rows, ManyRows):
        let_go_of_numbers(MANY)  # no row has one of its own
    return_free_memory()  # what the search held, before others need as much
    silent = {} if is_selection else silent_sides(pairs)
    coverage = cover(pairs, rows, verdicts, silent)
    excused = excuse(rows, pairs, roles, findings, asked=asked, baseline=baseline, coverage=coverage, context=context)
    incomplete = incompleteness(
        rows, roles, coverage, required=asked.required, unused=pairs.unused, nameless=nameless_files(pairs)
    )
    if asked.required.coverage:
        incomplete = (*incomplete, *_lacking(rows))
    doubts: tuple[str, ...] = ()
    if any(each.undecided is not None for each in findings):
        from probe_flow.analysis.search.near_misses import left_open, near_ties

        incomplete, doubts = (*incomplete, *left_open(excused.findings)), near_ties(excused.findings)
    problems = *_reference_problems(rows, pairs), *left_out(rows, scope.max_elements)
    narrow = _in_hf32(rows, pairs)
    compared = with_verdicts(rows, excused.verdicts)
    is_same = _is_same_dump(pairs)
    if is_same and asked.required.two_dumps:
        incomplete = (f"nothing was tested: {SAME_DUMP}; name the dump of the other side", *incomplete)
    details = look_closer(compared, context, max_elements=scope.max_elements)
    return Comparison(
        pairs=_as_compared(pairs),
        rows=compared,
        findings=with_looks(excused.findings, compared, details),
        coverage=coverage,
        gate=asked.gate,
        gate_passed=gate_passes(asked.gate, excused.findings, excused.verdicts),
        incomplete=incomplete,
        caveats=(
            *caveats(
                pairs,
                coverage,
                required=asked.required,
                only=asked.only.comparison if suspects and asked.only else None,
                max_elements=scope.max_elements,
            ),
            *([SAME_DUMP] if is_same and not asked.required.two_dumps else []),
            *doubts,
            *narrow,
        ),
        policy=policy.name,
        problems=(
            *(problem for catalog in pairs.catalogs for problem in catalog.problems),
            *pairs.problems,
            *pairs.unused,
            *silence_problems(silent, pairs),
            *overwritten,
            *problems,
            *_idle_arguments(asked, ids),
            *excused.problems,
        ),
        details=details,
        waivers=excused.waivers,
        baseline=excused.baseline,
    )


def _lacking(rows: Rows) -> tuple[str, ...]:
    sides = (side for row in rows for side in (row.pair.target, row.pair.golden))
    if not any(side is not None and side.kind is TensorKind.STATISTICS for side in sides):
        return ()
    from probe_flow.analysis.lacking_figures import lacking_figures

    return lacking_figures(rows)


def _searched(
    rows: Rows, pairs: Pairs, verdicts: Sequence[Verdict], asked: Asked, context: Context
) -> tuple[tuple[Finding, ...], list[Verdict]]:
    """Search what is wrong; once more with what recomputing proves, where something is suspect."""
    search = _other_search(pairs.target.flow)
    if search is not None:
        return search(rows, pairs, verdicts)
    diagnosis = diagnose(rows, pairs)
    if diagnosis.quantised_runs and asked.recompute.mode != "never" and context.isolate is not no_processes:
        from probe_flow.comparing.quantising import find_quantised

        if find_quantised(rows, pairs, asked.recompute, diagnosis, context):
            diagnosis = diagnose(rows, pairs)
    if _recomputed(rows, pairs, diagnosis, asked.recompute, context):
        diagnosis = diagnose(rows, pairs)
    return conclude(rows, pairs, verdicts, diagnosis)


def _recomputed(rows: Rows, pairs: Pairs, diagnosis: Diagnosis, wanted: Recompute, context: Context) -> bool:
    """Compute again what is suspect or judged by nothing else, and say whether anything was.

    A healthy run in float32 loads nothing that computes, and neither does one of a dump without any elements.
    """
    if wanted.mode == "never" or context.isolate is no_processes:
        return False
    numbers = [number for number in wanted.candidates(rows, diagnosis) if rows[number].recomputed is None]
    if not numbers and not diagnosis.handed:
        return False
    if all(tensor.kind is not TensorKind.TENSOR for tensor in pairs.target.tensors):
        return False
    from probe_flow.comparing.channels import find_wrong_channels
    from probe_flow.comparing.recompute import with_recomputed

    done = with_recomputed(rows, pairs, diagnosis, numbers, wanted, context)
    return find_wrong_channels(rows, diagnosis, context) or done


def _in_hf32(rows: Rows, pairs: Pairs) -> tuple[str, ...]:
    """Return how many results are right for a device that multiplies in HF32, which a comparison in float32 is not."""
    computed = (row.recomputed for row in rows) if pairs.target.task == "tensor" else ()
    count = sum(1 for each in computed if each is not None and each.is_in_hf32)
    told = f"{count} float32 result{'s' if count > 1 else ''} computed in HF32 (`allow_hf32` of torch_npu)"
    return (told,) if count else ()


def _measured(
    pairs: Pairs, ids: tuple[str, ...], asked: Asked, context: Context, suspects: Comparison | None
) -> tuple[Rows, bool]:
    """Return the rows in execution order, and whether only some of them were to be measured."""
    in_memory = (catalog for catalog in pairs.catalogs if not catalog.ran)
    _put_away(len(pairs.pairs), (tensor.data for catalog in in_memory for tensor in catalog.tensors))
    scope, ordered = measured_scope(asked), in_execution_order(pairs)
    selected = only_suspects(ordered, suspects, asked.only) if suspects and asked.only else None
    texts = {id(pairs.pairs[number]): text for number, text in pairs.measured.items()}
    brought = {number: texts[id(pair)] for number, pair in enumerate(ordered) if id(pair) in texts} if texts else None
    rows = measure_pairs(ordered, ids, context, selected=selected, scope=scope, brought=brought)
    if pairs.reference is not None:
        from probe_flow.comparing.reference import measure_reference

        rows = measure_reference(rows, ids, context, scope=scope)
    if pairs.target.repeats or pairs.golden.repeats:
        from probe_flow.comparing.noise import measure_noise

        rows = measure_noise(rows, pairs, context, scope=scope)
    find_picks(rows, pairs, context)
    find_lone_tensors(rows, context)
    if isinstance(rows, list):  # others' numbers went to a file as they came
        _put_away(len(rows), (row.measurement.table for row in rows if row.measurement is not None))
    context.small_files.clear()  # before rows are judged and reported, when a run takes the most memory
    return rows, selected is not None


def _overwritten(rows: Rows, pairs: Pairs) -> Sequence[Diagnostic]:
    """Leave golden arrays out that layers in place overwrote, of which an original model alone may have some."""
    if pairs.golden.framework != NPY or pairs.target.framework.is_arrays or isinstance(rows, ManyRows):
        return ()
    from probe_flow.comparing.overwritten import leave_overwritten

    return leave_overwritten(rows, pairs)


def _put_away(rows: int, holders: Iterable[object]) -> None:
    """Have the figures of many rows in a file, of those whose tables are these or are held by these."""
    if rows < MANY:
        return
    from probe_flow.files.filed_numbers import NumberFile

    put, last = NumberFile().put, None
    for holder in holders:
        if holder is not last:  # neighbours mostly share one
            last, table = holder, holder.figures if isinstance(holder, TensorTable) else holder
            if isinstance(table, FigureTable):
                table.put_away(put)


def _reference_problems(rows: Sequence[Row], pairs: Pairs) -> Sequence[Diagnostic]:
    if pairs.reference is None:
        return ()
    from probe_flow.comparing.reference import reference_problems

    return reference_problems(rows)


def with_verdicts(rows: Rows, verdicts: Sequence[Verdict]) -> Sequence[Row]:
    """Return the rows with their verdicts and numbers. Each takes the place of its row in a list, to save memory."""
    if isinstance(rows, ManyRows):
        return rows.judged(verdicts)
    for number, (row, verdict) in zip(shared_numbers(len(rows)), zip(rows, verdicts, strict=True), strict=False):
        rows[number] = Row(row.pair, row.measurement, verdict, number)
    return tuple(rows)


def _as_compared(pairs: Pairs) -> Pairs:
    """Return the pairs without what only comparing them needs: what was measured of them before, and graph texts.

    The rows have the one. Of the others, which take a sixth of the memory of a TorchAir run, no report says anything.
    """
    bare: dict[int, Catalog] = {}  # one dump may be on both sides
    for catalog in pairs.catalogs:
        bare[id(catalog)] = replace(catalog, graphs=()) if catalog.graphs else catalog
    target, golden = (bare.get(id(each), each) for each in (pairs.target, pairs.golden))
    reference = None if pairs.reference is None else bare[id(pairs.reference)]
    return replace(pairs, target=target, golden=golden, reference=reference, measured={})


def _is_same_dump(pairs: Pairs) -> bool:
    """Return True where the tensors of both sides lie in the very same files.

    Files are told apart by device and inode, so that links and other spellings of a path are seen through. Some pairs
    stand for all.
    """
    first = next(_of_two_sides(pairs), None)
    if first is None or not _is_same_file(*(tensor.source for tensor in first)):
        return False
    step = max(1, sum(1 for _ in _of_two_sides(pairs)) // SAMPLED_FILES)
    sampled = islice(_of_two_sides(pairs), 0, None, step)
    return all(_is_same_file(*files) for files in {(target.source, golden.source) for target, golden in sampled})


def _of_two_sides(pairs: Pairs) -> Iterator[tuple[TensorRef, TensorRef]]:
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None and not pair.rule.is_self:
            yield pair.target, pair.golden


def _is_same_file(one: str | None, other: str | None) -> bool:
    try:
        return one is not None and other is not None and Path(one).samefile(other)
    except OSError:  # no such file any more: measuring says so
        return False


def chosen_metrics(asked: Asked, pairs: Pairs) -> tuple[str, ...]:
    """Return the metric ids that a comparison measures.

    Those asked for, or else the set of the policy's name, or else the default ones; and those that the policy needs.
    """
    policy = _policy(asked.policy, pairs)
    chosen = asked.metrics or (policy.name if policy.name in METRIC_SETS else "default")
    return metric_ids(dict.fromkeys((*metric_ids(chosen), *policy.needs, *waiver_metrics(asked))))


def measured_scope(asked: Asked) -> Scope:
    """Return how much of each pair a comparison measures, and the formulas of metrics with arguments."""
    return Scope.asked(asked.max_elements, asked.metric_args)


def _idle_arguments(asked: Asked, ids: Sequence[str]) -> Iterator[Diagnostic]:
    measured = of_two_sides(ids)
    for metric in asked.metric_args:
        if metric not in measured:
            yield Diagnostic(
                "PF6406",
                f"`metric_args` of `{metric}` are of no use: it is not measured",
                severity=Severity.WARNING,
                help=f"add `{metric}` to `metrics`, or remove its arguments",
            )


def _policy(policy: str | tuple[Rule, ...], pairs: Pairs) -> Policy:
    if isinstance(policy, str):
        return POLICIES.find(policy)()
    from probe_flow.analysis.policies.rules import RulePolicy

    op_types: dict[Any, str] = {key: node.op_type for key, node in pairs.golden.nodes.items()}
    op_types.update({key: node.op_type for key, node in pairs.target.nodes.items()})
    return RulePolicy(policy, op_types)
