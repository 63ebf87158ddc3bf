"""Make a baseline of a stored run, and hold a stored run against one: from its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, UsageError
from probe_flow.files.atomic import atomic_text
from probe_flow.files.existing import is_there
from probe_flow.metrics.error_figure import error_figure, number
from probe_flow.record.baseline_file import BaselineFile, read_baseline
from probe_flow.record.run_folder import StoredRun
from probe_flow.records import Baseline, BaselineUse, Deviant, ExcuseKind, FindingKind, Status
from probe_flow.records.baseline import FAILING_ROW, NONFINITE_ROW, NodePlace, largest, plain_name, stand
from probe_flow.runs.baseline.file_text import baseline_text


@dataclass(frozen=True, slots=True)
class Accepted:
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
    return Accepted(file, before)


def baseline_of(run: StoredRun) -> BaselineFile:
    """Return what of a run fails its gate, and is not waived, as a baseline.

    Raises:
        IncompleteError: PF7320 when the run is incomplete or compares nothing, PF7113 when its rows cannot be read.
    """
    workflow = _workflow(run)
    _require_complete(run)
    comparisons = {}
    with as_records(run):
        for name, summary in run.record["comparisons"].items():
            gate = summary.get("gate") or {}
            found = _Deviations(run, name)
            compared = {side: int(coverage["compared"]) for side, coverage in summary["coverage"].items()}
            comparisons[name] = Baseline(
                workflow, name, gate.get("name", ""), gate.get("policy", ""), compared, tuple(largest(found.counting))
            )
    return BaselineFile(workflow, str(run.record.get("run_id") or ""), comparisons)


def check(run: StoredRun, path: Path, *, tolerance: float) -> dict[str, BaselineUse]:
    """Return how each comparison of a run stands against a baseline file.

    Raises:
        IncompleteError: PF7320 when the run is incomplete or compares nothing, PF7113 when its rows cannot be read.
        UsageError: PF7310, PF7311 when the file cannot be read or belongs to another workflow.
    """
    file = read_baseline(path)
    workflow = _workflow(run)
    for name in run.comparisons:
        file.of(workflow=workflow, comparison=name)
    _require_complete(run)
    found = {}
    for name in run.comparisons:
        baseline = file.of(workflow=workflow, comparison=name)
        with as_records(run):
            deviations = _Deviations(run, name)
        found[name] = stand(
            baseline,
            deviations.counting,
            tolerance=tolerance,
            nodes=deviations.nodes,
            waived=deviations.waived,
        )
    return found


@contextmanager
def as_records(run: StoredRun) -> Iterator[None]:
    """Turn what goes wrong on records of another shape, of a folder that was edited, into PF7111."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        message = f"the records of the run are not what a run leaves: {type(exc).__name__}: {exc}"
        cure = "copy the folder again, or repeat the run"
        raise IncompleteError(Diagnostic("PF7111", message, path=str(run.folder), help=cure)) from exc


def _require_complete(run: StoredRun) -> None:
    causes = run.record.get("incomplete") or ()
    if run.record["verdict"] == "incomplete" or causes:
        why = f"is incomplete: {causes[0]}" if causes else "is incomplete"
        raise _not_accepted(run, why)
    if not run.comparisons:
        raise _not_accepted(run, "compares nothing")


def _not_accepted(run: StoredRun, why: str) -> IncompleteError:
    cure = "remove the causes and run again; what a run did not see cannot be accepted"
    return IncompleteError(Diagnostic("PF7320", f"the run {why}", path=str(run.folder), help=cure))


def _workflow(run: StoredRun) -> str:
    workflow = run.record.get("workflow")
    return str(workflow.get("name") or "") if isinstance(workflow, Mapping) else ""


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
        summary = run.record["comparisons"][comparison]
        is_by_rows = (summary.get("gate") or {}).get("name") == "all_pass"
        self.counting: list[Deviant] = []
        self.waived: list[Deviant] = []
        self.nodes: set[NodePlace] = set()
        for row in run.rows(comparison=comparison):
            if row["verdict"] == Status.FAIL.value and is_by_rows:
                self._add(row, _deviant(row, *_of_row(row)))
            self.nodes.add((row.get("graph"), plain_name(row["node"]), row.get("call") or 0, row.get("phase") or ""))
        for finding in () if is_by_rows else summary.get("findings") or ():
            if finding.get("fails") or any(kind.value in finding for kind in ExcuseKind):
                self._add(finding, finding_deviant(finding))

    def _add(self, place: Mapping[str, Any], deviant: Deviant) -> None:
        (self.waived if ExcuseKind.WAIVED.value in place else self.counting).append(deviant)


def finding_deviant(finding: Mapping[str, Any]) -> Deviant:
    """Return a finding of `run.json` as baselines know it."""
    return _deviant(finding, str(finding["kind"]), _of_finding(finding))


def _deviant(place: Mapping[str, Any], kind: str, figure: float | None) -> Deviant:
    return Deviant(
        place.get("graph"),
        plain_name(place["node"]) if place.get("node") is not None else None,
        place.get("call") or 0,
        place.get("phase") or "none",
        plain_name(place.get("op_type") or ""),
        kind,
        plain_name(f"{place['direction']}.{place['index']}" if place.get("direction") else ""),
        figure,
    )


def _of_finding(finding: Mapping[str, Any]) -> float | None:
    if finding["kind"] == FindingKind.NONFINITE_ORIGIN.value:
        return number(finding.get("severity"))
    error = error_figure(finding.get("metrics") or {})
    return error[1] if error is not None else None


def _of_row(row: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the kind and the figure of a failing row."""
    target, golden = (_nonfinite(row.get(side)) for side in ("target", "golden"))
    if target != golden:
        return NONFINITE_ROW, float(sum(abs(one - other) for one, other in zip(target, golden, strict=True)))
    error = error_figure(row.get("metrics") or {})
    return FAILING_ROW, error[1] if error is not None else None


def _nonfinite(side: Mapping[str, Any] | None) -> tuple[int, int]:
    return ((side.get("nan") or 0), (side.get("inf") or 0)) if side is not None else (0, 0)
