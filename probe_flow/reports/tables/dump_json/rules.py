"""The published result rules of dump.json comparison (26.x), to the letter, for tables that replace msprobe's.

They work on what the table shows of one entry: all rows of one call. Our own verdicts are those of
`probe_flow.analysis.policies.dump_json`; these only serve scripts that depend on the published ``Result``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from probe_flow.dumps.unjudged_apis import UNDEFINED, WITH_BUFFERS
from probe_flow.reports.dump_json_columns import ABSENT
from probe_flow.reports.table import Cell

Row: TypeAlias = Mapping[str, Cell]
"""Column -> cell."""

_RESULTS = ("pass", "warning", "error")
_JOINED = ("qkv", "gate_up")
"""Parts of golden names whose dtype is not compared: operators that join several."""

_NO_TEXTS = frozenset(("", ABSENT, "Nan", "nan"))


class Marks(Struct):
    """What the rules say of one row."""

    messages: list[str] = field(default_factory=list)
    level: int = 0

    @property
    def result(self) -> str:
        """The word of the worst message."""
        return _RESULTS[self.level]

    def error(self, text: str) -> None:
        """Add an error."""
        self.messages.append(f"error: {text}")
        self.level = 2

    def warning(self, text: str) -> None:
        """Add a warning."""
        self.messages.append(f"warning: {text}")
        self.level = max(self.level, 1)


def judge_entry(rows: Sequence[Row], *, api: str) -> list[Marks]:
    """Return the marks of every row of one entry.

    Args:
        rows: the rows, in their order; which rules apply follows from their columns.
        api: second part of the entry's name; it says nothing of an entry without inputs.
    """
    marks = [Marks() for _ in rows]
    pairs = list(zip(rows, marks, strict=True))
    outputs = [pair for pair in pairs if ".output." in str(pair[0]["NPU Name"])]
    if len(outputs) == len(pairs):
        api = ""
    if api in UNDEFINED:
        return marks
    judged = outputs if api in WITH_BUFFERS else pairs
    if rows and "NPU MD5" in rows[0]:
        _judge_checksums(judged)
        return marks
    inputs = [row for row in rows if ".output." not in str(row["NPU Name"])]
    weighs = bool(outputs) and api not in WITH_BUFFERS
    is_tensor = bool(rows) and "Cosine" in rows[0]
    for row, mark in judged:
        _judge_nonfinite(row, mark)
    if weighs:
        (_judge_shares if is_tensor else _judge_jumps)(inputs, outputs)
    for row, mark in judged:
        _judge_facts(row, mark, has_scalars=api not in WITH_BUFFERS)
    if weighs:
        (_judge_cosines if is_tensor else _judge_growth)(inputs, outputs)
    return marks


_Pairs: TypeAlias = Sequence[tuple[Row, Marks]]


def _judge_nonfinite(row: Row, mark: Marks) -> None:
    golden, target = (any(_is_nonfinite(row[f"{side} {name}"]) for name in ("max", "min")) for side in ("Bench", "NPU"))
    if target and not golden:
        mark.error("There is nan/inf/-inf in the maximum or minimum value of NPU.")


def _judge_shares(inputs: Sequence[Row], outputs: _Pairs) -> None:
    column = "One Thousandth Err Ratio"
    if _least(inputs, column) > 0.9 and _least((row for row, _ in outputs), column) < 0.1:
        outputs[0][1].error("The input/parameters of One Thousandth Err Ratio > 0.9 while the output < 0.6.")


def _judge_cosines(inputs: Sequence[Row], outputs: _Pairs) -> None:
    before, after = _least(inputs, "Cosine"), _least((row for row, _ in outputs), "Cosine")
    if before > 0.9 and before - after > 0.1:
        outputs[0][1].warning("The input/parameters of Cosine > 0.9, and input/parameters - output > 0.1")


def _judge_jumps(inputs: Sequence[Row], outputs: _Pairs) -> None:
    if _largest(inputs) >= 0.1:
        return
    for row, mark in outputs:
        if _percent(row["NormRelativeErr"]) > 0.5:
            mark.error("The NormRelativeErr of output is greater than 0.5.")


def _judge_growth(inputs: Sequence[Row], outputs: _Pairs) -> None:
    before, after = _largest(inputs), _largest(row for row, _ in outputs)
    if after > 0.1 if before == 0 else after / before > 10:
        outputs[0][1].warning("The norm relative error of output is 10 times that of input.")


def _judge_facts(row: Row, mark: Marks, *, has_scalars: bool) -> None:
    if row["Bench Name"] == ABSENT:
        return
    if _differs(row, "Requires_grad"):
        mark.error("The Required_Grad of NPU and Bench are inconsistent")
    if has_scalars and _is_scalar_input(row) and row["NPU max"] != row["Bench max"]:
        mark.error("The scalar parameters of NPU and Bench are inconsistent.")
    is_joined = any(word in str(row["Bench Name"]) for word in _JOINED)
    if not is_joined and _differs(row, "Dtype"):
        mark.error("The dtype of NPU and Bench are inconsistent.")
    if _differs(row, "Tensor Shape"):
        mark.error("The shape of NPU and Bench are inconsistent.")


def _differs(row: Row, name: str) -> bool:
    """Return True if both sides say something, and not the same."""
    target, golden = row[f"NPU {name}"], row[f"Bench {name}"]
    return bool(target and golden) and target != golden


def _is_scalar_input(row: Row) -> bool:
    if ".output." in str(row["NPU Name"]):
        return False
    are_classes = all("class" in str(row[f"{side} Dtype"]) for side in ("NPU", "Bench"))
    return are_classes and row["NPU Tensor Shape"] == "[]"


def _judge_checksums(judged: _Pairs) -> None:
    for row, mark in judged:
        sums = str(row["NPU MD5"]), str(row["BENCH MD5"])
        if sums[0] == sums[1]:
            continue
        if _NO_TEXTS.intersection(sums):
            mark.warning("The parameter of NPU does not match the bench.")
        else:
            mark.error("The CRC-32 value of NPU differs from that of the bench.")


def _is_nonfinite(cell: Cell) -> bool:
    if isinstance(cell, (int, float)):
        return not math.isfinite(cell)
    return cell.strip().lower() in {"nan", "inf", "-inf"}


def _percent(cell: Cell) -> float:
    """Return the size of a relative difference, infinite ones included; 0 for other words."""
    try:
        return abs(float(str(cell).strip("%")) / 100)
    except ValueError:
        return 0.0


def _ratio(cell: Cell) -> float | None:
    """Return a relative difference as a plain ratio; None for words."""
    if isinstance(cell, (int, float)):
        return float(cell)
    return float(cell[:-1]) / 100 if cell.endswith("%") else None


def _largest(rows: Iterable[Row]) -> float:
    return max(_known(_ratio(row["NormRelativeErr"]) for row in rows), default=0.0)


def _least(rows: Iterable[Row], column: str) -> float:
    values = (cell for row in rows if isinstance(cell := row[column], (int, float)))
    return min((1.0, *(float(value) for value in values)))


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None and not math.isnan(value))
