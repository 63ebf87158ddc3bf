"""Waivers: known deviations of the workflow file, which stay visible but do not fail the gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.analysis.policies.bounds import Bound
from probe_flow.analysis.policies.rules import Rule
from probe_flow.errors import Diagnostic, Severity, Span, did_you_mean
from probe_flow.records import Excuse, ExcuseKind, Finding, Pairs, Status, Verdict, WaiverState, WaiverUse
from probe_flow.records.row import Row


class Waiver(Struct, frozen=True):
    """One waiver.

    Args:
        where: ``node``, ``op_type``, ``direction`` or ``dtype`` -> glob patterns of which one must fit.
        bounds: metric id -> bound that a row must still meet.
        reason, owner: for people.
        expires: last day on which it holds.
        span: where it is written.
    """

    where: Mapping[str, Sequence[str]]
    reason: str
    owner: str
    expires: date
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    span: Span | None = None

    @property
    def where_text(self) -> str:
        """Its patterns, e.g. ``node MatMul* and direction output``."""
        return " and ".join(f"{key} {' or '.join(globs)}" for key, globs in self.where.items())

    @property
    def bound_text(self) -> str:
        """Its bounds, e.g. ``cosine >= 0.99``; empty when it has none."""
        return ", ".join(f"{metric} {bound}" for metric, bound in self.bounds.items())

    @property
    def excuse(self) -> Excuse:
        """What a row that it covers says."""
        return Excuse(
            ExcuseKind.WAIVED, f"waived until {self.expires} by {self.owner}: {' '.join(self.reason.split())}"
        )

    def is_met(self, metrics: Mapping[str, float | int | bool | None], *, has_nonfinite: bool) -> bool:
        """Say whether the bounds hold. Metrics tell of finite values only, so that no bound holds for others."""
        if not self.bounds:
            return True
        return not has_nonfinite and all(bound.holds(metrics.get(name)) for name, bound in self.bounds.items())


class Waived(Struct, frozen=True):
    """Verdicts and findings with what the waivers excuse, and what became of each waiver."""

    verdicts: list[Verdict]
    findings: tuple[Finding, ...]
    uses: tuple[WaiverUse, ...]
    problems: tuple[Diagnostic, ...]


def waive(
    rows: Sequence[Row],
    pairs: Pairs,
    verdicts: Sequence[Verdict],
    findings: Sequence[Finding],
    waivers: Sequence[Waiver],
    *,
    today: date,
) -> Waived:
    """Take what waivers cover out of the gate.

    A waiver covers a failing row, or a finding at a row, that fits its patterns and meets its bounds. The first in the
    order of the file counts; one whose last day is over covers nothing. A finding that leaves a run incomplete, since
    dumps hold a part of the calls, is covered where all rows that it tells of are.

    Args:
        rows, pairs, verdicts, findings: the comparison.
        waivers: in the order of the file.
        today: the day on which the run began.
    """
    search = _Search(rows, pairs, waivers, today)
    judged = [
        excused(verdict, search.excuse_row(number)) if verdict.status is Status.FAIL else verdict
        for number, verdict in enumerate(verdicts)
    ]
    found = tuple(
        excused_finding(finding, search.excuse_finding(finding))
        if (finding.fails or finding.undecided == "part") and finding.row is not None
        else finding
        for finding in findings
    )
    return Waived(with_findings(judged, found), found, search.uses(), search.problems())


def with_findings(verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> list[Verdict]:
    """Return the verdicts with the excuses of findings at their rows, which need not fail themselves."""
    judged = list(verdicts)
    for finding in findings:
        if finding.row is not None and judged[finding.row].excuse is None:
            judged[finding.row] = excused(judged[finding.row], finding.excuse)
    return judged


def excused(verdict: Verdict, excuse: Excuse | None) -> Verdict:
    """Return a verdict that says why it does not count for the gate."""
    if excuse is None:
        return verdict
    return replace(verdict, excuse=excuse, reasons=(*verdict.reasons, excuse.text))


def excused_finding(finding: Finding, excuse: Excuse | None) -> Finding:
    """Return a finding that does not fail the gate, and says why."""
    if excuse is None:
        return finding
    return replace(finding, excuse=excuse, fails=False, evidence=f"{finding.evidence}; {excuse.text}")


class _Search:
    """Looks for the waiver of each failure, and counts."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs, waivers: Sequence[Waiver], today: date) -> None:
        self._rows = rows
        self._nodes = {**pairs.golden.nodes, **pairs.target.nodes}
        self._waivers = waivers
        self._rules = [Rule(waiver.where) for waiver in waivers]
        self._is_expired = [today > waiver.expires for waiver in waivers]
        self._covered_rows: Counter[int] = Counter()
        self._covered_findings: Counter[int] = Counter()
        self._exceeded: Counter[int] = Counter()
        self._shadowed: Counter[int] = Counter()
        self._worst: dict[int, str] = {}

    def excuse_row(self, number: int) -> Excuse | None:
        measured = self._rows[number].measurement
        metrics = measured.metrics if measured is not None else {}
        has_nonfinite = measured is not None and measured.nonfinite_mismatch > 0
        return self._excuse(number, metrics, self._covered_rows, has_nonfinite=has_nonfinite)

    def excuse_finding(self, finding: Finding) -> Excuse | None:
        assert finding.row is not None
        places = range(len(self._waivers))
        if not all(any(self._covers(place, number) for place in places) for number in finding.others):
            return None
        measured = self._rows[finding.row].measurement
        has_nonfinite = measured is not None and measured.nonfinite_mismatch > 0
        return self._excuse(finding.row, finding.metrics, self._covered_findings, has_nonfinite=has_nonfinite)

    def _covers(self, place: int, number: int) -> bool:
        """Whether a waiver holds for a row, and its bounds do."""
        measured = self._rows[number].measurement
        metrics = measured.metrics if measured is not None else {}
        has_nonfinite = measured is not None and measured.nonfinite_mismatch > 0
        is_met = self._waivers[place].is_met(metrics, has_nonfinite=has_nonfinite)
        return is_met and not self._is_expired[place] and self._fits(place, number)

    def _excuse(
        self,
        number: int,
        metrics: Mapping[str, float | int | bool | None],
        covered: Counter[int],
        *,
        has_nonfinite: bool,
    ) -> Excuse | None:
        fitting = [place for place in range(len(self._waivers)) if self._fits(place, number)]
        valid = [place for place in fitting if not self._is_expired[place]]
        met = [place for place in valid if self._waivers[place].is_met(metrics, has_nonfinite=has_nonfinite)]
        self._shadowed.update(place for place in fitting if self._is_expired[place])
        if not met:
            self._exceeded.update(valid)
            for place in valid:
                self._worst.setdefault(place, self._rows[number].pair.shown.id)
            return None
        covered[met[0]] += 1
        self._shadowed.update(met[1:])
        return self._waivers[met[0]].excuse

    def _fits(self, place: int, number: int) -> bool:
        row = self._rows[number]
        node = self._nodes.get(row.node)
        return self._rules[place].fits(row, node.op_type if node is not None else "")

    def uses(self) -> tuple[WaiverUse, ...]:
        return tuple(
            WaiverUse(
                waiver.where_text,
                waiver.reason,
                waiver.owner,
                waiver.expires.isoformat(),
                waiver.bound_text,
                self._state(place),
                self._covered_rows[place],
                self._covered_findings[place],
                self._exceeded[place],
            )
            for place, waiver in enumerate(self._waivers)
        )

    def _state(self, place: int) -> WaiverState:
        if self._is_expired[place]:
            return WaiverState.EXPIRED
        if self._exceeded[place]:
            return WaiverState.EXCEEDED
        is_used = self._covered_rows[place] or self._covered_findings[place]
        return WaiverState.USED if is_used else WaiverState.UNUSED

    def problems(self) -> tuple[Diagnostic, ...]:
        found = (self._problem(place) for place in range(len(self._waivers)))
        return tuple(problem for problem in found if problem is not None)

    def _problem(self, place: int) -> Diagnostic | None:
        waiver, state = self._waivers[place], self._state(place)
        name = f"the waiver of {waiver.where_text} by {waiver.owner}"
        if state is WaiverState.EXPIRED:
            would = _counted(self._shadowed[place], "failure")
            what = f"{would} that it matches count again" if self._shadowed[place] else "nothing that it matches fails"
            message = f"{name} has expired on {waiver.expires}; {what}"
            cure = "repair the operator, or set a new date" if self._shadowed[place] else "remove it"
            return _warning("PF7302", message, waiver, "expired", cure)
        if state is WaiverState.EXCEEDED:
            beyond = _counted(self._exceeded[place], "failure")
            message = f"{name} does not cover {beyond}, which are beyond its bound `{waiver.bound_text}`"
            cure = f"the first is `{self._worst[place]}`; find out what changed, or set a wider bound"
            return _warning("PF7303", message, waiver, "exceeded", cure)
        if state is WaiverState.UNUSED:
            return self._unused(place, name)
        return None

    def _unused(self, place: int, name: str) -> Diagnostic:
        waiver = self._waivers[place]
        if self._shadowed[place]:
            message = f"{name} is of no use: a waiver before it covers what it matches"
            return _warning("PF7301", message, waiver, "of no use", "remove one of them")
        count = sum(self._fits(place, number) for number in range(len(self._rows)))
        if count:
            message = f"{name} is of no use: none of the {_counted(count, 'tensor')} that it matches fails"
            return _warning("PF7301", message, waiver, "of no use", "remove it")
        near = _nearest(waiver.where.get("node", ()), {key.name for key in self._nodes})
        message = f"{name} matches no tensor of this run"
        return _warning("PF7301", message, waiver, "matches nothing", near or "correct the pattern, or remove it")


def _nearest(globs: Iterable[str], names: set[str]) -> str | None:
    return next((hint for glob in globs if (hint := did_you_mean(glob, names)) is not None), None)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _warning(code: str, message: str, waiver: Waiver, label: str, cure: str) -> Diagnostic:
    return Diagnostic(code, message, severity=Severity.WARNING, span=waiver.span, label=label, help=cure)
