"""What the terminal summary says, as plain texts: reasons, counts, the largest errors. Nothing here knows colours."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from probe_flow.record.places import Place, readable
from probe_flow.record.rows import NOT_COMPARED, RowReader, gap_of, name_in_dump
from probe_flow.record.types.conclusions import CoverageRecord
from probe_flow.record.types.run import ProblemRecord, RunRecord
from probe_flow.records import Comparison, Expectation, FindingKind, Role, Row, Status
from probe_flow.records.row import verdicts_of

DISTANCE = "relative_euclidean_distance"


class Gap(Struct, frozen=True):
    """Rows that were not compared for one reason."""

    count: int
    side: str
    expectation: Expectation
    example: str

    @property
    def kind(self) -> str:
        """``missing``, ``expected`` or ``not asked for``."""
        return "not asked for" if self.expectation is Expectation.OUTSIDE else self.expectation.value


class LargeError(NamedTuple):
    """A row with its relative distance and its place."""

    distance: float
    row: Row
    place: Place


def inherited(comparisons: Iterable[Comparison]) -> int:
    """Return how many rows only pass on an error that arose before them."""
    verdicts = (verdict for comparison in comparisons for verdict in verdicts_of(comparison.rows))
    return sum(verdict.role is Role.INHERITED for verdict in verdicts)


def gaps(comparisons: Iterable[Comparison], *, limit: int) -> list[Gap]:
    """Return why tensors were not compared: gaps that count first, the most frequent first, at most ``limit``."""
    counts: Counter[tuple[int, str, str]] = Counter()
    examples: dict[tuple[int, str, str], str] = {}
    for row in (row for comparison in comparisons for row in comparison.rows):
        expectation = gap_of(row)
        if expectation is not None:
            key = _gap_key(row, expectation)
            counts[key] += 1
            examples.setdefault(key, _example(row))
    ranked = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0]))
    return [Gap(count, key[1], _GAPS[key[0]], examples[key]) for key, count in ranked[:limit]]


_GAPS = (Expectation.MISSING, Expectation.OUTSIDE, Expectation.EXPECTED)
"""Why tensors are not compared, what counts first."""


def _gap_key(row: Row, expectation: Expectation) -> tuple[int, str, str]:
    reason = row.pair.reason
    side = "both" if row.pair.target and row.pair.golden else "target" if row.pair.target else "golden"
    words = row.verdict.rule_ids
    return (
        _GAPS.index(expectation),
        side,
        reason.code if reason is not None else words[0] if words else row.verdict.status.value,
    )


def _example(row: Row) -> str:
    texts = row.reasons or ((row.pair.reason.text,) if row.pair.reason else ())
    return readable(f"{row.pair.shown.id}: {texts[0]}" if texts else row.pair.shown.id)


def largest_errors(comparisons: Iterable[Comparison], *, limit: int) -> list[LargeError]:
    """Return the rows with the largest relative distance above zero, the largest first."""
    found = heapq.nlargest(limit, _distances(comparisons), key=lambda item: (item[0], -item[1]))
    return [LargeError(distance, row, _place(row, reader)) for distance, _, row, reader in found]


def _distances(comparisons: Iterable[Comparison]) -> Iterator[tuple[float, int, Row, RowReader]]:
    readers = ((RowReader(comparison), comparison.rows) for comparison in comparisons)
    for number, (row, reader) in enumerate((row, reader) for reader, rows in readers for row in rows):
        value = row.measurement.metrics.get(DISTANCE) if row.measurement is not None else None
        if value is not None and not math.isnan(value) and value > 0:
            yield float(value), number, row, reader


def _place(row: Row, reader: RowReader) -> Place:
    """Return the place of the tensor that a row shows."""
    tensor = row.pair.shown
    key, slot = tensor.node, tensor.slot
    node = reader.node(row)
    return Place(
        key.execution.rank,
        key.execution.graph,
        key.execution.step,
        key.name,
        name_in_dump(node, key),
        key.call,
        key.phase,
        node.op_type if node is not None else None,
        slot.role,
        slot.index,
    )


def covered_columns(
    coverage: Mapping[Literal["target", "golden"], CoverageRecord], done: str = "compared"
) -> dict[str, str]:
    """Return the columns of a table of coverage: the name in run.json -> the heading."""
    columns = {"tensors": "tensors", "compared": done, "expected": "expected gaps"}
    if any(found.outside for found in coverage.values()):
        columns["outside"] = "not asked for"
    return {**columns, "missing": "missing"}


def counts_text(counts: Mapping[Status, int]) -> str:
    """Return ``96 pass, 12 fail, 3 unmatched target``: what occurs, in a fixed order; what passes always."""
    known = [status for status in Status if counts.get(status) or status is Status.PASS]
    return ", ".join(f"{counts.get(status, 0)} {status.value.replace('_', ' ')}" for status in known)


def roles_text(run: RunRecord) -> str:
    """Return ``1 wrong here, 10 carry it on, 132 fine, 131 not compared (as expected)``.

    Empty where the record has no roles.
    """
    total = sum(run.counts.values())
    wrong, heirs, fine = (run.roles.get(role, 0) for role in (Role.ORIGIN, Role.INHERITED, Role.CLEAN))
    if not any(run.roles.values()):
        return ""
    alone = run.counts.get(Status.FAIL, 0) - wrong - heirs if FindingKind.FAILURE in run.finding_counts else 0
    left = total - wrong - heirs - alone - fine
    counts = {
        "wrong here": wrong,
        "carries it on" if heirs == 1 else "carry it on": heirs,
        "fails" if alone == 1 else "fail": alone,
        "fine": fine,
        f"not {run.done}{_why_not(run)}": left,
    }
    return ", ".join(f"{count} {words}" for words, count in counts.items() if count)


def _why_not(run: RunRecord) -> str:
    """Return why tensors were not compared: `` (as expected)``, `` (3 missing, the others as expected)``."""
    sides = run.coverage.values()
    missing, expected, outside = (
        sum(getattr(side, name) for side in sides) for name in ("missing", "expected", "outside")
    )
    words = {"missing": missing, "not asked for": outside, "as expected": expected}
    kinds = [word for word, count in words.items() if count]
    if len(kinds) < 2:
        return f" ({kinds[0]})" if kinds else ""
    told = [f"{words[word]} {word}" for word in kinds[:-1]]
    return f" ({', '.join(told)}, the others {kinds[-1]})"


_ROLE_WORDS = {Role.ORIGIN: "wrong here", Role.INHERITED: "carries it on", Role.CLEAN: "fine"}


def role_word(role: Role | str | None, verdict: Status | str | None = None) -> str:
    """Return what a tensor is to people, ``wrong here``; empty where nobody knows.

    Args:
        role: its role in the spread of errors.
        verdict: what the row rule says, for tensors that were not compared.
    """
    if verdict in NOT_COMPARED:
        return "not compared"
    return _ROLE_WORDS.get(Role(role), "") if role is not None else ""


def judged_text(role: Role | str | None, verdict: Status | str | None) -> str:
    """Return ``wrong here (row rule: fail)``: what a tensor is to people, then what the published rule says."""
    word, rule = role_word(role, verdict), str(getattr(verdict, "value", verdict) or "").replace("_", " ")
    if not word or not rule:
        return word or (f"row rule: {rule}" if rule else "")
    return f"{word} ({f'row rule: {rule}' if word != 'not compared' else rule})"


def problems_text(problems: Sequence[ProblemRecord]) -> str:
    """Return ``4 (3 x PF3011, PF4102)``, empty when there are none."""
    codes = Counter(problem.code for problem in problems)
    if not codes:
        return ""
    each = (code if count == 1 else f"{count} x {code}" for code, count in sorted(codes.items()))
    return f"{codes.total()} ({', '.join(each)})"


def advice_texts(run: RunRecord, folder: str = "RUN") -> list[str]:
    """Return what to do about the first finding that fails the run and has advice, one sentence a step.

    Args:
        run: the run.
        folder: of it, as its reader would type it.
    """
    first = next((finding for finding in run.findings if finding.fails and finding.advice), None)
    if first is None:
        return []
    return [readable(f"{each.text} ({each.code})") for each in run.steps_for(first, folder)]
