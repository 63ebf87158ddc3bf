"""The two tables of a pre-check as text: one row per call, one row per result, as `acc_check` of msprobe writes them.

UTF-8 with a byte order mark, lines end with a carriage return and a line feed, numbers as Python shows them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from probe_flow.precheck.results import ApiResult, Direction, Output, Side, Status
from probe_flow.records.frameworks import Kernels

RESULT_HEADER = ("API Name", "Forward Test Success", "Backward Test Success", "Message")
DETAILS_HEADER = (
    "API Name",
    "Bench Dtype",
    "Tested Dtype",
    "Shape",
    "Cosine",
    "MaxAbsErr",
    "MaxRelativeErr",
    "Status",
    "Message",
)

_MARK = "\ufeff"
_WIDE = "\uff0b\uff0d\uff1d\uff05\uff20"
_FORMULA = re.compile(rf"^[-+=%@\t\r{_WIDE}]|;[-+=%@{_WIDE}]")
"""Text that a spreadsheet program evaluates; some take wide forms of the signs too."""

_WORDS: Mapping[str, str] = MappingProxyType({"bfloat16": "BFloat16", "uint": "UInt", "NoneType": "None"})


def header(columns: Sequence[str]) -> bytes:
    """Return the beginning of a table."""
    return (_MARK + _lines([columns])).encode()


def result_rows(result: ApiResult) -> bytes:
    """Return the row of a call in the table of calls."""
    states = [each.status.value if each is not None else "" for each in (result.forward, result.backward)]
    message = " ".join(text for _, each in result.directions() if (text := _message(each)))
    if result.unsaved:
        message = f"{message} Its data could not be saved: {result.unsaved}".strip()
    return _lines([[_safe(result.name), *states, _safe(message)]]).encode()


def details_rows(result: ApiResult) -> bytes:
    """Return the rows of the results of a call; a direction that was not checked has none."""
    rows = [
        _details(f"{result.name}.{phase}.output.{number}", output)
        for phase, direction in result.directions()
        for number, output in enumerate(direction.outputs)
    ]
    return _lines(rows).encode()


def own_word(dtype: str, kernels: Kernels) -> str:
    """Return the name of an element type in the words of a framework.

    >>> own_word("bfloat16", Kernels.MINDSPORE), own_word("int64", Kernels.PYTORCH)
    ('BFloat16', 'torch.int64')
    """
    if kernels is Kernels.PYTORCH:
        return f"torch.{dtype}"
    if dtype in _WORDS:
        return _WORDS[dtype]
    return f"UI{dtype[2:]}" if dtype.startswith("uint") else dtype.capitalize()


def _details(name: str, output: Output) -> list[str]:
    tested, benchmark = output.tested, output.benchmark
    figures = [_number(value) for value in (output.cosine, output.max_abs, output.max_rel)]
    state = Status.PASS if output.is_right else Status.ERROR
    shape = benchmark.shape if benchmark.shape is not None else ()
    cells = [name, _dtype(benchmark), _dtype(tested), str(tuple(shape)), *figures, state.value, output.message]
    return [_safe(cells[0]), *cells[1:-1], _safe(cells[-1])]


def _dtype(side: Side) -> str:
    return side.dtype if side.shape is None else own_word(side.dtype, Kernels.MINDSPORE)


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _message(direction: Direction) -> str:
    if direction.status is Status.SKIP:
        return direction.reason
    return " ".join(f"{output.message};" for output in direction.outputs if not output.is_right)


def _safe(text: str) -> str:
    """Return text that no spreadsheet program evaluates."""
    return f"'{text}" if _FORMULA.search(text) else text


def _lines(rows: Iterable[Sequence[str]]) -> str:
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows(rows)
    return lines.getvalue()
