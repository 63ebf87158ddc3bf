"""Make a baseline of a stored run, and hold a stored run against one: from its folder alone."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, UsageError
from probe_flow.files.atomic import atomic_text
from probe_flow.files.existing import is_there
from probe_flow.files.whole_files import sync_folder
from probe_flow.metrics.error_figure import error_figure, number
from probe_flow.record.baseline_file import BaselineFile, read_baseline
from probe_flow.record.row_index import RowState
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.stored_rows import StoredRows
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord, SideRecord
from probe_flow.records import ALL_PASS, Baseline, BaselineUse, Deviant, FindingKind, Phase, Status
from probe_flow.records.baseline import FAILING_ROW, NONFINITE_ROW, NodePlace, largest, plain_name, stand
from probe_flow.runs.baseline.file_text import baseline_text


class Accepted(Struct, frozen=True):
    """What `accept` wrote: the file now, and the one that it replaced."""

    file: BaselineFile
    before: BaselineFile | None


def accept(run: StoredRun, path: Path) -> Accepted:
    """Write the baseline of a run; an older baseline in its place is replaced.

    Raises:
        IncompleteError: PF7320 when the run is incomplete or compares nothing, PF7113 when its rows cannot be read,
            PF7001 when the file cannot be written.
        UsageError: PF7321 when something else lies in the place of the file.
    """
    file = baseline_of(run)
    before = _before(path)
    if before is not None and before.workflow != file.workflow:
        of = f"of the workflow `{before.workflow}`, not of `{file.workflow}`"
        why = f"`{path}` is the baseline {of}, and is not replaced"
        cure = "name another file with `-o`, or remove that one"
        raise UsageError(Diagnostic("PF7321", why, path=str(path), help=cure))
    with atomic_text(path) as out:
        out.write(baseline_text(file))
    sync_folder(path.parent)
    return Accepted(file, before)


def baseline_of(run: StoredRun) -> BaselineFile:
    """Return what of a run fails its gate, and is not waived, as a baseline.

    Raises:
        IncompleteError: PF7320 when the run is incomplete or compares nothing, PF7113 when its rows cannot be read.
    """
    workflow = run.record.workflow.name
    _require_complete(run)
    comparisons = {}
    for name, summary in run.record.comparisons.items():
        gate, policy = (summary.gate.name, summary.gate.policy) if summary.gate is not None else ("", "")
        compared = {str(side): coverage.compared for side, coverage in summary.coverage.items()}
        found = _Deviations(run, name)
        comparisons[name] = Baseline(workflow, name, gate, policy, compared, tuple(largest(found.counting)))
    return BaselineFile(workflow, run.record.run_id, comparisons)


def check(run: StoredRun, path: Path, *, tolerance: float) -> dict[str, BaselineUse]:
    """Return how each comparison of a run stands against a baseline file.

    Raises:
        IncompleteError: PF7320 when the run is incomplete or compares nothing, PF7113 when its rows cannot be read.
        UsageError: PF7310, PF7311 when the file cannot be read or belongs to another workflow.
    """
    file = read_baseline(path)
    workflow = run.record.workflow.name
    for name in run.comparisons:
        file.of(workflow=workflow, comparison=name)
    _require_complete(run)
    found = {}
    for name in run.comparisons:
        baseline = file.of(workflow=workflow, comparison=name)
        deviations = _Deviations(run, name)
        found[name] = stand(
            baseline,
            deviations.counting,
            tolerance=tolerance,
            nodes=deviations.nodes,
            waived=deviations.waived,
        )
    return found


def _require_complete(run: StoredRun) -> None:
    causes = run.record.incomplete
    if run.record.verdict in ("incomplete", "stopped") or causes:
        why = f"is incomplete: {causes[0]}" if causes else "is incomplete"
        raise _not_accepted(run, why)
    if not run.comparisons:
        raise _not_accepted(run, "compares nothing")


def _not_accepted(run: StoredRun, why: str) -> IncompleteError:
    cure = "remove the causes and run again; what a run did not see cannot be accepted"
    return IncompleteError(Diagnostic("PF7320", f"the run {why}", path=str(run.folder), help=cure))


def _before(path: Path) -> BaselineFile | None:
    if not is_there(path):
        return None
    try:
        return read_baseline(path)
    except ProbeFlowError as error:
        why = f"`{path}` is no baseline that can be read, and is not replaced"
        cure = "name another file with `-o`, or remove that one"
        raise UsageError(Diagnostic("PF7321", why, path=str(path), help=cure)) from error


class _Deviations:
    """What fails the gate of one comparison of a stored run: ``counting``, and ``waived`` besides; and its nodes."""

    def __init__(self, run: StoredRun, comparison: str) -> None:
        gate = run.record.comparisons[comparison].gate
        is_by_rows = gate is not None and gate.name == ALL_PASS
        self.counting: list[Deviant] = []
        self.waived: list[Deviant] = []
        self.nodes: set[NodePlace] = set()
        for rows in run.stored_rows(comparison=comparison):
            self.nodes |= node_places(rows)
            for row in rows.rows(rows.index.numbers(_fails, lambda _: True)) if is_by_rows else ():
                self._add(row, _deviant(row, *_of_row(row)))
        for finding in () if is_by_rows else findings_that_count(run, comparison):
            self._add(finding, finding_deviant(finding))

    def _add(self, place: RowRecord | FindingRecord, deviant: Deviant) -> None:
        (self.counting if place.waived is None else self.waived).append(deviant)


def findings_that_count(run: StoredRun, comparison: str) -> list[FindingRecord]:
    """Return the findings that fail the gate of a comparison, or would if they were not excused.

    Raises:
        IncompleteError: PF7115 when there are more than the record of the run lists.
    """
    listed = run.record.findings_of(comparison)
    failing = sum(count.failing for count in run.record.comparisons[comparison].finding_counts.values())
    if sum(each.fails and each.node is not None for each in listed) < failing:
        message = f"the record of the run lists {len(listed)} findings, and more of them fail"
        cure = "mend what fails first, or narrow the run by `select`"
        raise IncompleteError(Diagnostic("PF7115", message, path=str(run.folder), help=cure))
    return [each for each in listed if each.fails or each.waived is not None or each.accepted is not None]


def node_places(rows: StoredRows) -> set[NodePlace]:
    """Return the nodes of some rows as baselines know them."""
    found = rows.parts((stretch.begin for stretch in rows.index.stretches()), _NODE)
    return {(row.graph, plain_name(row.node), row.call, row.phase.value) for row in found}


class _Node(Struct, frozen=True, gc=False):
    """The fields of a row that name its node."""

    graph: int | str | None
    node: str
    call: int
    phase: Phase


_NODE = Reader(_Node)


def _fails(state: RowState) -> bool:
    return state.status is Status.FAIL


def finding_deviant(finding: FindingRecord) -> Deviant:
    """Return a finding of `run.json` as baselines know it."""
    return _deviant(finding, finding.kind.value, _of_finding(finding))


def _deviant(place: RowRecord | FindingRecord, kind: str, figure: float | None) -> Deviant:
    return Deviant(
        place.graph,
        plain_name(place.node) if place.node is not None else None,
        place.call or 0,
        (place.phase or Phase.NONE).value,
        plain_name(place.op_type or ""),
        kind,
        plain_name(f"{place.direction.value}.{place.index}" if place.direction is not None else ""),
        figure,
    )


def _of_finding(finding: FindingRecord) -> float | None:
    if finding.kind is FindingKind.NONFINITE_ORIGIN:
        return number(finding.severity)
    error = error_figure(finding.metrics)
    return error[1] if error is not None else None


def _of_row(row: RowRecord) -> tuple[str, float | None]:
    """Return the kind and the figure of a failing row."""
    target, golden = _nonfinite(row.target), _nonfinite(row.golden)
    if target != golden:
        return NONFINITE_ROW, float(sum(abs(one - other) for one, other in zip(target, golden, strict=True)))
    error = error_figure(row.metrics)
    return FAILING_ROW, error[1] if error is not None else None


def _nonfinite(side: SideRecord | None) -> tuple[int, int]:
    return (side.nan or 0, side.inf or 0) if side is not None else (0, 0)
