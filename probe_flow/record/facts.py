"""What the terminal summary says, as plain texts: places, reasons, the largest errors. Nothing here knows colours."""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from msgspec import Struct

from probe_flow.record.types.conclusions import Conclusions, CoverageRecord
from probe_flow.record.types.run import ProblemRecord, RunRecord
from probe_flow.records import Comparison, Expectation, Phase, Role, Row, SlotRole, Status, TensorRef

DISTANCE = "relative_euclidean_distance"

_NEAR_ONE = 0.99

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_COMPARED = frozenset(
    {Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN, Status.NOT_COMPARABLE, Status.ERROR, Status.SKIPPED}
)


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows that were not compared for one reason."""

    count: int
    side: str
    expectation: Expectation
    example: str

    @property
    def kind(self) -> str:
        """``missing``, ``expected`` or ``not asked for``."""
        return "not asked for" if self.expectation is Expectation.OUTSIDE else self.expectation.value


def printable(text: object) -> str:
    r"""Return a text that a terminal shows as it is: control and invisible characters become ``\x1b`` and the like.

    Names come from untrusted dumps; an escape sequence in one must not reach the terminal.
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(_escaped(char) if unicodedata.category(char) in _HIDDEN_CATEGORIES else char for char in shown)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def figure(value: object) -> str:
    """Return a number of run.json in four digits (six just below 1, for cosines), anything else as its text."""
    if not isinstance(value, float):
        return printable(value)
    return f"{value:.6g}" if _NEAR_ONE <= value < 1.0 else f"{value:.4g}"


class Placed(Protocol):
    """What names a call of a node: findings and rows do."""

    @property
    def rank(self) -> int | None: ...
    @property
    def graph(self) -> int | str | None: ...
    @property
    def step(self) -> int | None: ...
    @property
    def node(self) -> str | None: ...
    @property
    def call(self) -> int | None: ...
    @property
    def phase(self) -> Phase | None: ...
    @property
    def op_type(self) -> str | None: ...


class PlacedTensor(Placed, Protocol):
    """What names a tensor of a node too."""

    @property
    def direction(self) -> SlotRole | None: ...
    @property
    def index(self) -> str | None: ...


class Place(Struct, frozen=True, gc=False):
    """A tensor's place, as rows and findings have it; what is not known is None."""

    rank: int | None = None
    graph: int | str | None = None
    step: int | None = None
    node: str | None = None
    call: int | None = None
    phase: Phase | None = None
    op_type: str | None = None
    direction: SlotRole | None = None
    index: str | None = None


def where(place: Placed) -> str:
    """Return ``rank 0, graph 1, step 0``, with the call and the direction where they say something."""
    call = (f"call {place.call}",) if place.call else ()
    backward = ("backward",) if place.phase is Phase.BACKWARD else ()
    return printable(", ".join((*_execution_parts(place), *call, *backward)))


def execution(place: Placed) -> str:
    """Return ``rank 0, graph 1, step 0``."""
    return printable(", ".join(_execution_parts(place)))


def _execution_parts(place: Placed) -> list[str]:
    parts = (("rank", place.rank), ("graph", place.graph), ("step", place.step))
    return [f"{name} {value}" for name, value in parts if value is not None]


def slot(place: PlacedTensor) -> str:
    """Return ``output 0``, or nothing for a place without a tensor."""
    if place.direction is None:
        return ""
    return printable(f"{place.direction.value} {place.index or ''}".strip())


def operator(place: Placed) -> str:
    """Return ``Add_2 (AddV2)``."""
    name = printable(place.node or "the whole run")
    return f"{name} ({printable(place.op_type)})" if place.op_type else name


def inherited(comparisons: Iterable[Comparison]) -> int:
    """Return how many rows only pass on an error that arose before them."""
    return sum(row.verdict.role is Role.INHERITED for comparison in comparisons for row in comparison.rows)


def gaps(comparisons: Iterable[Comparison], *, limit: int) -> list[Gap]:
    """Return why tensors were not compared: gaps that count first, the most frequent first, at most ``limit``."""
    counts: Counter[tuple[int, str, str]] = Counter()
    examples: dict[tuple[int, str, str], str] = {}
    for row in (row for comparison in comparisons for row in comparison.rows):
        if row.verdict.status in _NOT_COMPARED:
            key = _gap_key(row)
            counts[key] += 1
            examples.setdefault(key, _example(row))
    ranked = sorted(counts.items(), key=lambda item: (item[0][0], -item[1], item[0]))
    return [Gap(count, key[1], _GAPS[key[0]], examples[key]) for key, count in ranked[:limit]]


_GAPS = (Expectation.MISSING, Expectation.OUTSIDE, Expectation.EXPECTED)
"""Why tensors are not compared, what counts first."""


def _gap_key(row: Row) -> tuple[int, str, str]:
    reason = row.pair.reason
    expectation = Expectation.OUTSIDE if row.verdict.status is Status.SKIPPED else Expectation.MISSING
    if reason is not None and row.verdict.status is not Status.ERROR:
        expectation = reason.expectation
    side = "both" if row.pair.target and row.pair.golden else "target" if row.pair.target else "golden"
    words = row.verdict.rule_ids
    return (
        _GAPS.index(expectation),
        side,
        reason.code if reason is not None else words[0] if words else row.verdict.status.value,
    )


def _example(row: Row) -> str:
    texts = row.verdict.reasons or ((row.pair.reason.text,) if row.pair.reason else ())
    return printable(f"{row.pair.shown.id}: {texts[0]}" if texts else row.pair.shown.id)


def largest_errors(comparisons: Iterable[Comparison], *, limit: int) -> list[tuple[float, Row]]:
    """Return the rows with the largest relative distance above zero, the largest first."""
    found = heapq.nlargest(limit, _distances(comparisons), key=lambda item: (item[0], -item[1]))
    return [(distance, row) for distance, _, row in found]


def _distances(comparisons: Iterable[Comparison]) -> Iterator[tuple[float, int, Row]]:
    rows = (row for comparison in comparisons for row in comparison.rows)
    for number, row in enumerate(rows):
        value = row.measurement.metrics.get(DISTANCE) if row.measurement is not None else None
        if value is not None and not math.isnan(value) and value > 0:
            yield float(value), number, row


def place_of(tensor: TensorRef, *, op_type: str | None = None) -> Place:
    """Return a tensor's place."""
    key, run = tensor.node, tensor.node.execution
    return Place(
        run.rank, run.graph, run.step, key.name, key.call, key.phase, op_type, tensor.slot.role, tensor.slot.index
    )


def covered_columns(coverage: Mapping[Literal["target", "golden"], CoverageRecord]) -> dict[str, str]:
    """Return the columns of a table of coverage: the name in run.json -> the heading."""
    columns = {"tensors": "tensors", "compared": "compared", "expected": "expected gaps"}
    if any(found.outside for found in coverage.values()):
        columns["outside"] = "not asked for"
    return {**columns, "missing": "missing"}


def counts_text(counts: Mapping[Status, int]) -> str:
    """Return ``96 pass, 12 fail, 3 unmatched target``: what occurs, in a fixed order; what passes always."""
    known = [status for status in Status if counts.get(status) or status is Status.PASS]
    return ", ".join(f"{counts.get(status, 0)} {status.value.replace('_', ' ')}" for status in known)


def roles_text(run: Conclusions) -> str:
    """Return ``1 wrong here, 10 carry it on, 132 fine, 131 not compared``; empty where the record has no roles."""
    total = sum(run.counts.values())
    wrong, heirs, fine = (run.roles.get(role, 0) for role in (Role.ORIGIN, Role.INHERITED, Role.CLEAN))
    if not any(run.roles.values()):
        return ""
    counts = {
        "wrong here": wrong,
        "carries it on" if heirs == 1 else "carry it on": heirs,
        "fine": fine,
        "not compared": total - wrong - heirs - fine,
    }
    return ", ".join(f"{count} {words}" for words, count in counts.items() if count)


def problems_text(problems: Sequence[ProblemRecord]) -> str:
    """Return ``4 (3 x PF3011, PF4102)``, empty when there are none."""
    codes = Counter(problem.code for problem in problems)
    if not codes:
        return ""
    each = (code if count == 1 else f"{count} x {code}" for code, count in sorted(codes.items()))
    return f"{codes.total()} ({', '.join(each)})"


def advice_texts(run: RunRecord) -> list[str]:
    """Return what to do about the first finding that fails the run and has advice, one sentence a step."""
    first = next((finding for finding in run.findings if finding.fails and finding.advice), None)
    return [printable(f"{each.text} ({each.code})") for each in first.advice] if first is not None else []
