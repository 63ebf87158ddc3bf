"""The two tables of a pre-check as text: one row per call, one row per result, as `acc_check` of msprobe writes them.

UTF-8 with a byte order mark, lines end with a carriage return and a line feed, numbers as Python shows them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from probe_flow.apis.preliminary import FIGURES
from probe_flow.apis.scripts.op_tables import DETAILS_COLUMNS, RESULT_COLUMNS
from probe_flow.precheck.results import ApiResult, Direction, Figure, Output, Side, Status
from probe_flow.record.cells import text_cell
from probe_flow.records.frameworks import Kernels

_MARK = "\ufeff"
TORCH_RESULT_HEADER = ("API name", *RESULT_COLUMNS[1:])
TORCH_DETAILS_HEADER = (
    "API Name",
    "Bench Dtype",
    "DEVICE Dtype",
    "Shape",
    "\u4f59\u5f26\u76f8\u4f3c\u5ea6",
    "\u6700\u5927\u7edd\u5bf9\u8bef\u5dee",
    "\u53cc\u767e\u6307\u6807",
    "\u53cc\u5343\u6307\u6807",
    "\u53cc\u4e07\u6307\u6807",
    "\u4e8c\u8fdb\u5236\u4e00\u81f4\u9519\u8bef\u7387",
    "\u8bef\u5dee\u5747\u8861\u6027",
    "\u5747\u65b9\u6839\u8bef\u5dee",
    "\u5c0f\u503c\u57df\u9519\u8bef\u5360\u6bd4",
    "\u76f8\u5bf9\u8bef\u5dee\u6700\u5927\u503c",
    "\u76f8\u5bf9\u8bef\u5dee\u5e73\u5747\u503c",
    "inf/nan\u9519\u8bef\u7387",
    "\u76f8\u5bf9\u8bef\u5dee\u9519\u8bef\u7387",
    "\u7edd\u5bf9\u8bef\u5dee\u9519\u8bef\u7387",
    "ULP\u8bef\u5dee\u6700\u5927\u503c",
    "ULP\u8bef\u5dee\u5e73\u5747\u503c",
    "ULP\u8bef\u5dee\u5927\u4e8e\u9608\u503c\u5360\u6bd4",
    "Status",
    "Message",
)
"""The headings of msprobe's tables for PyTorch, which programs read: names of `apis.preliminary.FIGURES` in Chinese."""

_UNUSED = " "
"""What msprobe's tables for PyTorch hold where there is nothing."""

_DECIMALS = 14


def header(columns: Sequence[str]) -> bytes:
    """Return the beginning of a table."""
    return (_MARK + table_lines([columns])).encode()


def headers(kernels: Kernels) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the headings of both tables: of calls, of results."""
    if kernels is Kernels.PYTORCH:
        return TORCH_RESULT_HEADER, TORCH_DETAILS_HEADER
    return RESULT_COLUMNS, DETAILS_COLUMNS


def result_rows(result: ApiResult, kernels: Kernels = Kernels.MINDSPORE) -> bytes:
    """Return the row of a call in the table of calls."""
    absent = _UNUSED if kernels is Kernels.PYTORCH else ""
    states = [each.status.value if each is not None else absent for each in (result.forward, result.backward)]
    message = " ".join(dict.fromkeys(text for _, each in result.directions() if (text := _message(each))))
    if result.unsaved:
        message = f"{message} Its data could not be saved: {result.unsaved}".strip()
    cells = [text_cell(result.name), *states, text_cell(message)]
    return table_lines([cells[:-1] if kernels is Kernels.PYTORCH and not message else cells]).encode()


def details_rows(result: ApiResult, kernels: Kernels = Kernels.MINDSPORE) -> bytes:
    """Return the rows of the results of a call; a direction that was not checked has none."""
    rows = [
        _details(f"{result.name}.{phase}.output.{number}", output, kernels)
        for phase, direction in result.directions()
        for number, output in enumerate(direction.outputs)
    ]
    return table_lines(rows).encode()


def own_word(dtype: str, kernels: Kernels) -> str:
    """Return the name of an element type in the words of a framework.

    >>> own_word("bfloat16", Kernels.MINDSPORE), own_word("int64", Kernels.PYTORCH)
    ('BFloat16', 'torch.int64')
    """
    if kernels is Kernels.PYTORCH:
        return f"torch.{dtype}"
    if dtype == "bfloat16":
        return "BFloat16"
    return f"UI{dtype[2:]}" if dtype.startswith("uint") else dtype.capitalize()


def _details(name: str, output: Output, kernels: Kernels) -> list[str]:
    tested, benchmark = output.tested, output.benchmark
    if kernels is Kernels.PYTORCH:
        figures = [_decimal(output.named.get(each)) for each in FIGURES]
    else:
        figures = [_number(value) for value in (output.cosine, output.max_abs, output.max_rel)]
    shape = benchmark.shape if benchmark.shape is not None else ()
    words = [_dtype(benchmark, kernels), _dtype(tested, kernels), str(tuple(shape))]
    if output.is_absent:
        words = [_UNUSED] * len(words)
    cells = [*words, *figures, output.status.value]
    return [text_cell(name), *cells, text_cell(output.message)]


def _dtype(side: Side, kernels: Kernels) -> str:
    if side.shape is not None:
        return own_word(side.dtype, kernels)
    return f"<class '{side.dtype}'>" if kernels is Kernels.PYTORCH else side.dtype


def _decimal(value: Figure) -> str:
    if value is None:
        return _UNUSED
    return value if isinstance(value, str) else f"{value:.{_DECIMALS}f}"


def _number(value: Figure) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else repr(value)


def _message(direction: Direction) -> str:
    if direction.status is Status.SKIP:
        return direction.reason
    return " ".join(
        f"{output.message};" for output in direction.outputs if output.message and output.status is not Status.SKIP
    )


def table_lines(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as lines of a table."""
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows(rows)
    return lines.getvalue()
