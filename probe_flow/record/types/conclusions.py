"""What a comparison concludes: findings, coverage, gate, waivers, baseline."""

from __future__ import annotations

from typing import ClassVar, Literal

from probe_flow.record.types.values import Count, Figure, Graph, Record
from probe_flow.records import FindingKind, Phase, Role, SlotRole, Status, WaiverState


class AdviceRecord(Record, frozen=True):
    """A step to do next.

    Args:
        code: `probe-flow explain CODE` says more.
        text: What it means here.
    """

    AGAIN: ClassVar[str] = "`probe-flow repro RUN`"
    """The command of the step that computes an operator again; what a run's folder is called depends on who asks."""

    code: str
    text: str


class FindingRecord(Record, frozen=True, kw_only=True):
    """One conclusion of the analysis.

    Args:
        kind: What it is.
        node: Node concerned, by the target's name; null for the whole run.
        name: Name of the node's entry in its dump; the same as `node` where the format has no other.
        op_type: The framework's type of the node.
        rank: Rank of the execution.
        graph: Graph id; null when the dump names none.
        step: Step of the execution.
        call: Number of the call, from 0.
        phase: Direction of the call.
        direction: Which tensors of the node.
        index: Path of the slot.
        golden_node: Node of the golden that it was judged by.
        metrics: The figures behind it, by id of the metric.
        evidence: The claim in words, with its figures.
        size: How large the unexplained error is, in a few words.
        source: File and line of the call, where the dump has stacks.
        severity: How strong the evidence is, comparable between findings of one kind.
        fails: Whether the gate `findings` fails on it.
        row: `order` of the record in comparison.jsonl that shows it.
        advice: What to do about it.
        waived: Why it does not fail the gate: a waiver.
        accepted: Why it does not fail the gate: the baseline.
        comparison: Stage, when the run compares more than once.
    """

    kind: FindingKind
    node: str | None
    name: str | None
    op_type: str | None
    rank: int | None
    graph: Graph
    step: int | None
    call: Count | None
    phase: Phase | None
    direction: SlotRole | None
    index: str | None
    golden_node: str | None
    metrics: dict[str, Figure]
    evidence: str
    size: str
    source: str | None = None
    severity: Figure
    fails: bool
    row: Count | None
    advice: tuple[AdviceRecord, ...] = ()
    waived: str | None = None
    accepted: str | None = None
    comparison: str | None = None


class FindingCount(Record, frozen=True):
    """How many findings of one kind there are, listed or not.

    Args:
        found: All of them.
        failing: Those that the gate `findings` fails on and that name a node.
    """

    found: Count
    failing: Count


class CoverageRecord(Record, frozen=True):
    """Tensors of one side, by what became of them.

    Args:
        tensors: All of them.
        compared: Compared with the other side.
        expected: Not compared: by nature without a counterpart.
        outside: Not compared: not asked for (selection, scope of a mapping).
        missing: Not compared although they should be; unreadable ones included.
        unreadable: Not compared: damaged.
        outputs: Tensors that an operator wrote.
        outputs_compared: Outputs that were compared.
        outputs_missing: Outputs that should have been compared and were not.
        outputs_nonfinite: Compared, NaN or infinite everywhere on both sides.
        outputs_zero: Compared, zero everywhere on both sides.
        outputs_silent: Of operators that ran without them in the dump.
    """

    tensors: Count
    compared: Count
    expected: Count
    outside: Count
    missing: Count
    unreadable: Count
    outputs: Count
    outputs_compared: Count
    outputs_missing: Count
    outputs_nonfinite: Count
    outputs_zero: Count
    outputs_silent: Count


class GateRecord(Record, frozen=True):
    """What decided whether the run passes.

    Args:
        name: The gate.
        passed: What it said of what was compared: nothing where the verdict of the run is `incomplete`.
        policy: What judged the rows.
    """

    name: str
    passed: bool
    policy: str


class WaiverRecord(Record, frozen=True):
    """One waiver of the workflow, and what it did.

    Args:
        where: Patterns of the rows that it covers.
        reason: Why, as written.
        owner: Who answers for it.
        expires: Last day on which it holds, as YYYY-MM-DD.
        bound: How large an error it covers, null for any.
        state: What became of it.
        rows: Failing rows that it covers.
        findings: Findings that it covers.
        exceeded: Failures that fit its patterns but not its bound.
    """

    where: str
    reason: str
    owner: str
    expires: str
    bound: str | None
    state: WaiverState
    rows: Count
    findings: Count
    exceeded: Count


class ChangeRecord(Record, frozen=True):
    """A deviation now and in the baseline.

    Args:
        node: Node concerned; null for the whole run.
        op_type: The framework's type of the node.
        graph: Graph id; null when the dump names none.
        call: Number of the call.
        phase: Direction of the call.
        slot: Tensor of the node, e.g. output.0; empty without one.
        kind: Kind of the finding; `fail` or `nonfinite` for a row.
        accepted: Its size in the baseline.
        now: Its size in this run.
        new: Whether the baseline does not have it.
    """

    node: str | None
    op_type: str
    graph: Graph
    call: Count
    phase: Phase
    slot: str
    kind: str
    accepted: Figure
    now: Figure
    new: bool


class ChangeCounts(Record, frozen=True):
    """How many changes against the baseline there are, listed or not.

    Args:
        worse: New, or larger than accepted.
        better: Smaller than accepted, or gone.
        absent: Accepted at nodes that this run does not have.
    """

    worse: Count
    better: Count
    absent: Count


class BaselineRecord(Record, frozen=True):
    """How the run stands against its baseline.

    Args:
        file: The file.
        tolerance: How much larger than accepted an error may be, relative to it.
        accepted: Deviations of the baseline that occur, and not larger.
        counts: Changes, all of them.
        worse: The first that are new, or larger than accepted.
        better: The first that are smaller than accepted, or gone.
        absent: The first that were accepted at nodes that this run does not have.
    """

    file: str
    tolerance: Figure
    accepted: Count
    counts: ChangeCounts
    worse: tuple[ChangeRecord, ...]
    better: tuple[ChangeRecord, ...]
    absent: tuple[ChangeRecord, ...]


class DumpRecord(Record, frozen=True):
    """What one side of a comparison is.

    Args:
        path: Where it lay.
        framework: What wrote it.
        task: What it holds: tensor, statistics, md5, structure; benchmark where it was computed for the comparison.
        tensors: How many it has.
        executions: Runs of graphs in it.
    """

    path: str
    framework: str
    task: str
    tensors: Count
    executions: Count


class Conclusions(Record, frozen=True, kw_only=True):
    """What a comparison concludes; a run states the same over all of its comparisons.

    Findings are listed once, in the record of the run; the others point there.

    Args:
        counts: Rows per verdict.
        roles: Rows per role.
        coverage: Per side, what became of its tensors.
        caveats: What has to be said along with the verdict: partly compared, same dump ...
        first_divergence: Where the target first goes wrong, as a position in `findings`; null when nowhere.
        suspects: Positions in `findings` of every origin, of every node that fails by itself where no origin can be
            looked for, then of what comes near to being one.
        nonfinite_origin: Where NaN or infinity begins, as a position in `findings`; null when nowhere.
        finding_counts: Findings per kind, all of them.
        gate: What decided; of several comparisons only in each.
        nodes: Operators of all sides: the lines of nodes.jsonl.
        waivers: What became of each waiver.
        baseline: How the run stands against its baseline.
    """

    counts: dict[Status, Count]
    roles: dict[Role, Count]
    coverage: dict[Literal["target", "golden"], CoverageRecord]
    caveats: tuple[str, ...]
    first_divergence: Count | None
    suspects: tuple[Count, ...]
    nonfinite_origin: Count | None
    finding_counts: dict[FindingKind, FindingCount]
    gate: GateRecord | None = None
    nodes: Count | None = None
    waivers: tuple[WaiverRecord, ...] = ()
    baseline: BaselineRecord | None = None


class ComparisonRecord(Conclusions, frozen=True, kw_only=True):
    """What one comparison of the run concludes.

    Args:
        dumps: What both sides are.
    """

    dumps: dict[Literal["target", "golden"], DumpRecord]
