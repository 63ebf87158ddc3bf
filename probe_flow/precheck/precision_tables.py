"""The tables of `api_precision_compare`: reading the details of two pre-checks of PyTorch, and the headings of its own.

Headings are those of msprobe 26.2.0, which are Chinese; a blank cell is one space there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from probe_flow.apis.preliminary import FIGURES as TORCH_FIGURES
from probe_flow.errors import Diagnostic, Span, UsageError
from probe_flow.files.opening import lines_of, open_text
from probe_flow.precheck.tables import TORCH_DETAILS_HEADER
from probe_flow.record.cells import text_cell

if TYPE_CHECKING:
    from _csv import Reader

NAME, DTYPE, SHAPE, STATUS, MESSAGE = "API Name", "DEVICE Dtype", "Shape", "Status", "Message"

JUDGED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "small_ratio": ("小值域错误比值", "小值域判定结果"),
        "rmse": ("均方根误差比值", "均方根误差判定结果"),
        "max_rel": ("相对误差最大值比值", "相对误差最大值判定结果"),
        "mean_rel": ("相对误差平均值比值", "相对误差平均值判定结果"),
        "error_balance": ("误差均衡性比值", "误差均衡性判定结果"),
        "inf_nan_ratio": ("inf/nan错误率", "inf/nan判定结果"),
        "rel_ratio": ("相对误差错误率", "相对误差判定结果"),
        "abs_ratio": ("绝对误差错误率", "绝对误差判定结果"),
        "error_rate": ("二进制一致错误率", "二进制一致错误率判定结果"),
        "ulp_ratio": ("ULP误差大于阈值占比比值", "ULP误差判定结果"),
        "within_thousandth": ("双千指标", "双千指标判定结果"),
    }
)
"""Figure -> headings of what it is judged by, and of its status, in the table of the comparison."""

FIGURES: Mapping[str, str] = MappingProxyType(
    {
        figure: heading
        for figure, heading in zip(TORCH_FIGURES, TORCH_DETAILS_HEADER[4:-2], strict=True)
        if figure in JUDGED or figure == "mean_ulp"
    }
)
"""Figure -> its heading in a table of details."""

REQUIRED = (NAME, DTYPE, *FIGURES.values())

MEAN_ULP, ULP_SHARE = FIGURES["mean_ulp"], FIGURES["ulp_ratio"]
OUTCOME, ALGORITHM = "比对结果", "比对算法"

ALGORITHMS: Mapping[str, str] = MappingProxyType(
    {
        "benchmark": "标杆比对法",
        "ulp": "ULP误差比对法",
        "binary": "二进制一致法",
        "absolute threshold": "绝对阈值法",
        "thousandth": "双千指标法",
        "accumulative": "累积误差比对法",
    }
)
"""Standard -> its name in the table of the comparison."""

COPIED = frozenset({"error_rate", "within_thousandth"})
"""Figures whose text is copied: they are all that their standard asks for."""


_ENDS_IN_A_CELL = "unexpected end of data"
"""What Python says of a text that ends within quotes."""


def _headings() -> Iterator[str]:
    yield NAME
    for figure, headings in JUDGED.items():
        yield from (MEAN_ULP, ULP_SHARE, *headings) if figure == "ulp_ratio" else headings
    yield from (OUTCOME, ALGORITHM, MESSAGE)


DETAILS_HEADER = tuple(_headings())


class Row(Struct, frozen=True):
    """A row of a table of details: one output of one API.

    Args:
        name: of the output, ``Torch.matmul.0.forward.output.0``.
        line: of the file, on which the row ends.
        dtype: canonical element type; empty where there is none.
        shape: as text.
        status: preliminary status, as text; empty where the table has none.
        message: what the pre-check said.
        figures: texts of the figures that the row has.
    """

    name: str
    line: int
    dtype: str
    shape: str
    status: str
    message: str
    figures: Mapping[str, str]


def read_details(path: Path) -> dict[str, Row]:
    """Read a table of details.

    Returns:
        Its rows by their names.

    Raises:
        UsageError: PF6620 it is no table of comma-separated text, PF6621 columns are missing, PF6622 it is cut,
            PF6623 two rows have one name, PF6624 a name that a spreadsheet program would evaluate.
    """
    rows: dict[str, Row] = {}
    for row in _rows(path):
        if row.name in rows:
            first = rows[row.name].line
            raise _unusable(
                "PF6623",
                f"`{row.name}` has two rows, on lines {first} and {row.line}",
                path,
                row.line,
                "delete the one that is not meant; a check that was continued may have written both",
            )
        if text_cell(row.name) != row.name:
            message = f"the name {row.name!r} would be evaluated by a spreadsheet program"
            raise _unusable("PF6624", message, path, row.line, "look where the table comes from")
        rows[row.name] = row
    return rows


def _rows(path: Path) -> Iterator[Row]:
    try:
        with open_text(path, encoding="utf-8-sig", newline="") as file:
            yield from _rows_of(path, csv.reader(lines_of(file), strict=True))
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8") from error
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def _rows_of(path: Path, table: Reader) -> Iterator[Row]:
    try:
        header = next(table, [])
        _check_header(path, header)
        for cells in table:
            if len(cells) == len(header):
                yield _row(table.line_num, dict(zip(header, cells, strict=True)))
            elif cells:
                message = f"the row on line {table.line_num} has {len(cells)} cells, the header {len(header)}"
                raise _unusable("PF6622", message, path, table.line_num, "copy the whole table again")
    except csv.Error as error:
        if str(error) != _ENDS_IN_A_CELL:
            raise _unreadable(path, f"{error}, on line {table.line_num}") from error
        message = f"`{path.name}` ends within a cell"
        raise _unusable("PF6622", message, path, table.line_num, "copy the whole table again") from error


def _check_header(path: Path, header: Sequence[str]) -> None:
    missing = [f"`{name}`" for name in REQUIRED if name not in header]
    if missing:
        message = f"`{path.name}` lacks {len(missing)} of {len(REQUIRED)} columns: {', '.join(missing)}"
        cure = (
            "name accuracy_checking_details_*.csv of a pre-check of PyTorch APIs; its table of calls, and the tables of"
            " MindSpore, have none of these figures"
        )
        raise UsageError(Diagnostic("PF6621", message, path=str(path), help=cure))


def _row(line: int, cells: Mapping[str, str]) -> Row:
    texts = {figure: cells[heading].strip() for figure, heading in FIGURES.items()}
    return Row(
        name=cells[NAME],
        line=line,
        dtype=_canonical(cells[DTYPE].strip()),
        shape=cells.get(SHAPE, "").strip(),
        status=cells.get(STATUS, "").strip(),
        message=" ".join(cells.get(MESSAGE, "").split()),
        figures={figure: text for figure, text in texts.items() if text},
    )


def _canonical(dtype: str) -> str:
    return "hifloat8" if "hifloat8" in dtype.lower() else dtype.removeprefix("torch.")


def _unusable(code: str, message: str, path: Path, line: int, cure: str) -> UsageError:
    return UsageError(Diagnostic(code, message, span=Span(str(path), line, 1), help=cure))


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6620",
            f"`{path.name}` is no table of comma-separated text: {why}",
            path=str(path),
            help="name accuracy_checking_details_*.csv as the pre-check wrote it, in UTF-8",
        )
    )
