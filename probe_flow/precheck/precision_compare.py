"""Compare the pre-checks of PyTorch APIs on two devices: judge the errors of one against those of the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.scripts.op_tables import RESULT_COLUMNS
from probe_flow.apis.two_runs import judge_two_runs
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.atomic import atomic_bytes
from probe_flow.precheck.precision_tables import (
    ALGORITHM,
    ALGORITHMS,
    COPIED,
    DETAILS_HEADER,
    JUDGED,
    MEAN_ULP,
    MESSAGE,
    NAME,
    OUTCOME,
    ULP_SHARE,
    Row,
    read_details,
)
from probe_flow.precheck.results import Status
from probe_flow.precheck.tables import header, table_lines
from probe_flow.record.cells import text_cell

RESULT = "api_precision_compare_result_"
DETAILS = "api_precision_compare_details_"

ULP = "ulp_ratio"

BLANK = " "
"""What msprobe writes where there is nothing to say."""

SHOWN = 3
"""APIs that a problem names."""

_NAME = re.compile(r"(?P<call>[^.]+(?:\.[^.]+)+\.\d+)\.(?P<phase>forward|backward)\.[^.]+\.[^.]+", re.ASCII)
_EMPTY = re.compile(r"\((?:\d+, ?)*0(?:,|, ?\d+)*\)", re.ASCII)

_HINTS: Mapping[str, str] = {
    "topk": "`topk` sorts on the NPU even with `sorted=False`; look whether that is the difference",
}


class Judged(Struct, frozen=True):
    """One output, judged.

    Args:
        name: of the output.
        call: the API call that it belongs to; its own name where that says nothing of a call.
        phase: ``forward`` or ``backward``; empty where the name says nothing of it.
        status: of the output.
        message: why it does not pass.
        cells: of the table of details, by their headings.
        is_missing: whether it should have been judged and could not.
    """

    name: str
    call: str
    phase: str
    status: Status
    message: str = ""
    cells: Mapping[str, str] = {}
    is_missing: bool = False


class Call(Struct, frozen=True):
    """One API call: its outputs, judged."""

    name: str
    outputs: tuple[Judged, ...]

    def status(self, phase: str) -> Status | None:
        """Return the status of a direction; None where it has no outputs."""
        found = [each.status for each in self.outputs if each.phase in (phase, "")]
        if not found or all(status is Status.SKIP for status in found):
            return Status.SKIP if found else None
        return next((status for status in (Status.ERROR, Status.WARNING) if status in found), Status.PASS)

    @property
    def statuses(self) -> tuple[Status | None, Status | None]:
        """Status of forward and of backward."""
        return self.status("forward"), self.status("backward")

    @property
    def is_wrong(self) -> bool:
        """Whether a direction fails."""
        return Status.ERROR in self.statuses

    @property
    def message(self) -> str:
        """Why it is not right in both directions; empty if it is."""
        odd = [each for each in self.outputs if each.status is not Status.PASS]
        words = list(dict.fromkeys(each.message for each in odd if each.message))
        hint = _HINTS.get(_api(self.name)) if self.status("forward") is Status.ERROR else None
        return "; ".join([*words, hint] if hint else words)


class Outcome(Struct, frozen=True):
    """What a comparison leaves.

    Args:
        calls: all of the target, in its order.
        tables: files of calls and outputs.
        problems: what could not be judged is an error, what else is to be known a warning.
    """

    calls: tuple[Call, ...]
    tables: tuple[Path, Path]
    problems: tuple[Diagnostic, ...]


def compare_precision(target: Path, golden: Path, folder: Path, *, started: datetime) -> Outcome:
    """Judge the outputs of a pre-check by those of another device, and write both tables.

    Args:
        target, golden: tables of details, of the device under test and of the one that it is judged by.
        folder: of the tables.
        started: when, part of the names of the tables.

    Raises:
        UsageError: PF6620 to PF6624 for a table that cannot be used.
        IncompleteError: PF7001 if a file cannot be written.
    """
    rows, others = read_details(target), read_details(golden)
    calls: dict[str, list[Judged]] = {}
    for row in rows.values():
        judged = judge(row, others.get(row.name))
        calls.setdefault(judged.call, []).append(judged)
    found = tuple(Call(name, tuple(outputs)) for name, outputs in calls.items())
    return Outcome(found, _write(found, folder, started), tuple(_problems(found, [n for n in others if n not in rows])))


def judge(row: Row, other: Row | None) -> Judged:
    """Judge an output of the target by that of the golden device, which may have none.

    The standard is the one whose figures the row has. Without any, the pre-check's own status holds: of shapes that
    differ, of plain values, of integers of quantising APIs.
    """
    named = _NAME.fullmatch(row.name)
    if named is None:
        message = f"`{row.name}` is no name of an output (`Torch.matmul.0.forward.output.0`)"
        return Judged(row.name, row.name, "", Status.SKIP, message, is_missing=True)
    call, phase = named["call"], named["phase"]
    if reason := _not_to_judge(row):
        return Judged(row.name, call, phase, Status.SKIP, reason)
    try:
        numbers = _numbers(row)
        found = judge_two_runs(_api(call), row.dtype, numbers, None if other is None else _numbers(other))
        own = _own_status(row) if found is None else Status.PASS
    except UnusableError as error:
        return Judged(row.name, call, phase, Status.SKIP, error.reason, is_missing=not error.is_expected)
    if found is None:
        return Judged(row.name, call, phase, own, "" if own is Status.PASS else row.message)
    status = Status.PASS if found.is_right else Status.ERROR
    cells = {ALGORITHM: ALGORITHMS[found.standard.value]}
    for check in found.checks:
        value, state = JUDGED[check.figure]
        cells[value] = row.figures[check.figure] if check.figure in COPIED else f"{check.value:.14f}"
        cells[state] = (Status.PASS if check.holds else Status.ERROR).value
    if JUDGED[ULP][0] in cells:
        cells |= _ulp_cells(numbers, is_alone=found.is_alone)
    return Judged(row.name, call, phase, status, found.message, cells)


def _not_to_judge(row: Row) -> str:
    if row.status == Status.SKIP.value or not (row.dtype or row.status == Status.ERROR.value):
        return row.message or "the pre-check skipped it"
    return (row.message or "it has no elements") if _EMPTY.fullmatch(row.shape) else ""


def _own_status(row: Row) -> Status:
    try:
        return Status(row.status)
    except ValueError:
        raise UnusableError("it has neither figures of a standard nor a status of its own") from None


def _numbers(row: Row) -> dict[str, float]:
    return {figure: _number(text, row.line) for figure, text in row.figures.items()}


def _number(text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise UnusableError(f"`{text}` on line {line} is no number") from None


def _ulp_cells(numbers: Mapping[str, float], *, is_alone: bool) -> dict[str, str]:
    """Return what the ulp standard has besides the ratio of two runs; where one judges, msprobe omits the mean too."""
    share = {ULP_SHARE: f"{numbers[ULP]:.14f}"}
    own = {JUDGED[ULP][0]: BLANK} if is_alone else {MEAN_ULP: f"{numbers.get('mean_ulp', 0.0):.14f}"}
    return share | own


def _api(call: str) -> str:
    """Return the API of a call, without kind and number."""
    return ".".join(call.split(".")[1:-1])


def _write(calls: Sequence[Call], folder: Path, started: datetime) -> tuple[Path, Path]:
    # Names have seconds: of two comparisons in one, the later takes the next.
    while any((folder / f"{name}{started:%Y%m%d%H%M%S}.csv").exists() for name in (RESULT, DETAILS)):
        started += timedelta(seconds=1)
    result, details = (folder / f"{name}{started:%Y%m%d%H%M%S}.csv" for name in (RESULT, DETAILS))
    with atomic_bytes(details) as file:
        file.write(header(DETAILS_HEADER))
        file.write(table_lines(_details(each) for call in calls for each in call.outputs).encode())
    with atomic_bytes(result) as file:
        file.write(header(RESULT_COLUMNS))
        file.write(table_lines(_result(call) for call in calls).encode())
    return result, details


def _result(call: Call) -> list[str]:
    statuses = [BLANK if status is None else status.value for status in call.statuses]
    return [call.name, *statuses, text_cell(call.message)]


def _details(judged: Judged) -> list[str]:
    own = {NAME: judged.name, OUTCOME: judged.status.value, MESSAGE: text_cell(judged.message)}
    return [{**judged.cells, **own}.get(heading, BLANK) for heading in DETAILS_HEADER]


def _problems(calls: Sequence[Call], unknown: Sequence[str]) -> Iterable[Diagnostic]:
    missing = [each for call in calls for each in call.outputs if each.is_missing]
    if missing:
        words = [f"`{each.name}`: {each.message}" for each in missing[:SHOWN]]
        message = f"{len(missing)} outputs could not be judged"
        more = (f"and {len(missing) - SHOWN} more",) if len(missing) > SHOWN else ()
        cure = "check the same dump on both devices, and name the tables of these two checks"
        yield Diagnostic("PF6625", message, help=cure, notes=(*words, *more))
    elif not any(status not in (None, Status.SKIP) for call in calls for status in call.statuses):
        yield Diagnostic("PF6626", "no output is judged, so that nothing is known", help="look at the Messages")
    if unknown:
        message = f"the other device has {len(unknown)} outputs that the target lacks, `{unknown[0]}` first"
        yield Diagnostic("PF6627", message, Severity.WARNING, help="look whether the target's check came to its end")
