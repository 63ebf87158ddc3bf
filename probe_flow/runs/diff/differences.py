"""What changed from one stored run to another, row by row and finding by finding, from their folders alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.record.run_folder import StoredRun
from probe_flow.records import Baseline, BaselineUse, Deviant
from probe_flow.records.baseline import NodePlace, largest, stand
from probe_flow.runs.baseline.accept import finding_deviant, findings_that_count, node_places
from probe_flow.runs.diff.inputs import InputChange, changed_inputs, input_problem, inputs_of
from probe_flow.runs.diff.rows import At, Kind, RowChange, change_of, unequal_rows

_WITH_GAPS = ("incomplete", "stopped")
"""Verdicts of runs that did not compare all that was asked for."""


class Move(Struct, frozen=True):
    """A failing finding that both runs have at one operator, but of other ranks or steps.

    Args:
        deviant: the finding.
        before, after: ranks and steps in A and in B, sorted.
        is_regression: whether B has it where A compared and found nothing.
    """

    deviant: Deviant
    before: tuple[At, ...]
    after: tuple[At, ...]
    is_regression: bool


@dataclass(frozen=True, slots=True)
class RunDiff:
    """The difference of two runs.

    Args:
        a, b: the runs.
        tolerance: how much larger an error may be, relative to it, before it counts as grown.
        common: tensors that both runs have.
        rows: what is not the same, in the order of B, then what only A has.
        findings: comparison -> how the failing findings of B stand against those of A.
        moves: comparison -> those of them that are of other ranks or steps.
        inputs: dumps that are others in B.
        verdicts: (verdict in A, verdict in B) -> tensors, where they differ.
        problems: what makes the answer doubtful.
    """

    a: StoredRun
    b: StoredRun
    tolerance: float
    common: int
    rows: tuple[RowChange, ...]
    findings: Mapping[str, BaselineUse]
    moves: Mapping[str, tuple[Move, ...]]
    inputs: tuple[InputChange, ...]
    verdicts: Mapping[tuple[str, str], int]
    problems: tuple[Diagnostic, ...] = ()
    counts: Mapping[Kind, int] = field(init=False)

    def __post_init__(self) -> None:
        found = Counter(change.kind for change in self.rows)
        object.__setattr__(self, "counts", {kind: found[kind] for kind in Kind})

    @property
    def has_regressed(self) -> bool:
        """Whether something is worse in B: its verdict, a failing finding, or a tensor."""
        if self.a.record.verdict == "pass" and self.b.record.verdict == "fail":
            return True
        moved = any(move.is_regression for moves in self.moves.values() for move in moves)
        return (
            moved
            or any(change.is_regression for change in self.rows)
            or any(use.worse for use in self.findings.values())
        )

    @property
    def is_certain(self) -> bool:
        """Whether B is complete, so that nothing unseen can be worse."""
        return self.b.record.verdict not in _WITH_GAPS


def diff_runs(a: StoredRun, b: StoredRun, *, tolerance: float) -> RunDiff:
    """Return what changed from run A to run B.

    Rows belong together when they show the same tensor: same names, rank, graph, step, call and slot. An error counts
    as grown when it exceeds that of A by more than the tolerance and is more than the rounding of its dtype. Findings
    belong together when they are of one operator, call and tensor; at other ranks or steps they have moved.

    Args:
        a: the run before.
        b: the run after.
        tolerance: relative to the error in A.

    Raises:
        UsageError: PF7334 when both are one run, which never differs from itself.
        IncompleteError: PF7330 when the runs have no tensor in common, PF7111 and PF7113 when a record cannot be read.
    """
    if a.folder.resolve() == b.folder.resolve():
        cure = "name the run before and the run after"
        raise UsageError(Diagnostic("PF7334", "run A and run B are the same run", path=str(b.folder), help=cure))
    names = _stages(a, b)
    inputs = changed_inputs(inputs_of(a), inputs_of(b))
    common, before, after = unequal_rows(a, b, names)
    verdicts = Counter[tuple[str, str]]()
    changes: list[RowChange] = []
    for place, (old, new) in after.pairs(before, names):
        if old is not None and new is not None:
            common += 1
            if old.verdict != new.verdict:
                verdicts[old.verdict.value, new.verdict.value] += 1
        change = change_of(place, old, new, tolerance)
        if change is not None:
            changes.append(change)
    if not common:
        cure = "name two runs of the same workflow"
        raise IncompleteError(Diagnostic("PF7330", "the runs have no tensor in common", path=str(b.folder), help=cure))
    return RunDiff(
        a,
        b,
        tolerance,
        common,
        tuple(changes),
        _findings(a, b, names, tolerance),
        _moves(a, b, names),
        inputs,
        verdicts,
        _problems(a, b, inputs),
    )


def _stages(a: StoredRun, b: StoredRun) -> dict[str, str]:
    """Return stage of B -> stage of A: the same name, or the only one of each."""
    if len(a.comparisons) == len(b.comparisons) == 1:
        return {b.comparisons[0]: a.comparisons[0]}
    return {name: name for name in b.comparisons}


def _findings(a: StoredRun, b: StoredRun, names: Mapping[str, str], tolerance: float) -> dict[str, BaselineUse]:
    found = {}
    nodes: set[NodePlace] | None = None
    for name in b.comparisons:
        old = _failing(a, names[name]) if names[name] in a.comparisons else []
        if old and nodes is None:  # what is not found any more may be at a node that is gone
            nodes = {place for rows in b.stored_rows() for place in node_places(rows)}
        known = Baseline("", name, "findings", "", {}, tuple(largest(old)), path=str(a.folder))
        found[name] = stand(
            known,
            _failing(b, name),
            tolerance=tolerance,
            nodes=nodes or set(),
            waived=_failing(b, name, is_excused=True),
        )
    return found


def _moves(a: StoredRun, b: StoredRun, names: Mapping[str, str]) -> dict[str, tuple[Move, ...]]:
    """Return the failing findings of both runs whose ranks or steps are others."""
    found = {}
    compared: set[At] | None = None
    for name in b.comparisons:
        old = _places(a, names[name]) if names[name] in a.comparisons else {}
        moves = []
        for place, (deviant, after) in _places(b, name).items():
            before = old[place][1] if place in old else after
            if before != after:
                if compared is None:
                    compared = {(at.rank, at.step) for rows in a.stored_rows() for at in rows.index.executions}
                is_new = not compared.isdisjoint(after - before)
                moves.append(Move(deviant, _sorted(before), _sorted(after), is_new))
        found[name] = tuple(moves)
    return found


def _places(run: StoredRun, comparison: str) -> dict[object, tuple[Deviant, frozenset[At]]]:
    """Return place of a failing finding -> the finding, its ranks and steps."""
    found: dict[object, tuple[Deviant, frozenset[At]]] = {}
    for finding in findings_that_count(run, comparison):
        if finding.fails and finding.node is not None:
            deviant = finding_deviant(finding)
            known = found[deviant.place][1] if deviant.place in found else frozenset()
            found[deviant.place] = deviant, known | {(finding.rank, finding.step)}
    return found


def _sorted(places: AbstractSet[At]) -> tuple[At, ...]:
    return tuple(sorted(places, key=lambda at: tuple(-1 if number is None else number for number in at)))


def _failing(run: StoredRun, comparison: str, *, is_excused: bool = False) -> list[Deviant]:
    """Return the findings that fail, or those that a waiver or a baseline takes out of the gate."""
    return [
        finding_deviant(finding)
        for finding in findings_that_count(run, comparison)
        if (finding.waived is not None or finding.accepted is not None if is_excused else finding.fails)
    ]


def _problems(a: StoredRun, b: StoredRun, inputs: Sequence[InputChange]) -> tuple[Diagnostic, ...]:
    about_inputs = input_problem(inputs, str(b.folder))
    found = [about_inputs] if about_inputs is not None else []
    for name, run in (("A", a), ("B", b)):
        if run.record.verdict in _WITH_GAPS:
            causes = run.record.incomplete or ("it has not ended",)
            message = f"run {name} is incomplete: {causes[0]}"
            cure = "what it did not compare may be worse" if run is b else "what it did not compare shows as new"
            found.append(Diagnostic("PF7332", message, severity=Severity.WARNING, path=str(run.folder), help=cure))
    workflows = [run.record.workflow.name for run in (a, b)]
    if workflows[0] != workflows[1]:
        message = f"run A is of the workflow `{workflows[0]}`, run B of `{workflows[1]}`"
        cure = "name two runs of the same workflow, unless its name has changed"
        found.append(Diagnostic("PF7331", message, severity=Severity.WARNING, path=str(b.folder), help=cure))
    return tuple(found)
