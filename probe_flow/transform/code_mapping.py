"""Write tables of the lines of model code behind the operators of a MindSpore kernel dump.

A dump of tensors gets one table with a row a file; each `statistic.csv` gets columns of its own. Source of the columns:
the manual of msprobe's ``code_mapping``, and its files; the column ``Parameter`` is ours.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.file_names import is_hashed, read_name_mapping, real_name
from probe_flow.dumps.mindspore_graph.ir_code import Bound, Code, IrIndex
from probe_flow.dumps.mindspore_graph.layout import run_folder
from probe_flow.dumps.mindspore_graph.names import parse_tensor_file_name
from probe_flow.dumps.mindspore_graph.statistic_csv import STATISTICS_FILE
from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.files.atomic import atomic_text
from probe_flow.files.opening import lines_of, open_text
from probe_flow.files.walk import DumpFile, DumpListing, list_dump_or_file
from probe_flow.record.cells import text_cell
from probe_flow.records import Problem

COLUMNS = ("Code Stack", "Scope Name", "Parameter")
"""What is added to a row; the last one holds the line of a parameter, whose other two are blank."""

MAPPING_FILE = "mapping.csv"
COPY_NAME = "statistic_code_mapping.csv"
_OP_NAME, _OP_TYPE = "Op Name", "Op Type"
_BLANK = ("", "", "")


class Outcome(Struct):
    """What was bound and written.

    Args:
        operators: names of operators of the dump -> whether a text knows them, parameters left out.
        parameters: the same of parameters and inputs of the network.
        unknown: files and rows whose name tells no operator.
        written: the files.
        problems: what could not be used.
    """

    operators: dict[str, bool] = field(default_factory=dict)
    parameters: dict[str, bool] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def bound(self) -> int:
        """How many operators are bound."""
        return sum(self.operators.values())

    @property
    def unbound(self) -> list[str]:
        """Names of operators and parameters that no text knows, and of what is none."""
        known = {**self.parameters, **self.operators}
        return [*(name for name, is_bound in known.items() if not is_bound), *self.unknown]


def map_code(index: IrIndex, dump: Path, output: Path, *, in_place: bool, stamp: str) -> Outcome:
    """Write the tables of a dump, and a list of what is not bound, if anything is.

    Args:
        index: the texts.
        dump: a folder, a tensor file or a `statistic.csv`.
        output: folder of the table of tensors and of the list; created.
        in_place: whether `statistic.csv` gets the columns itself, else a copy beside it.
        stamp: time in the names of new files.

    Raises:
        UsageError: PF3201 the dump is not there.
        IncompleteError: PF3463 it holds neither tensors nor statistics; PF7001 a file cannot be written.
    """
    listing = list_dump_or_file(dump)
    tensors = [file for file in listing.files if file.name.endswith(".npy")]
    tables = [file for file in listing.files if file.name == STATISTICS_FILE]
    if not tensors and not tables:
        raise IncompleteError(_nothing_there(dump, listing))
    outcome = Outcome(problems=[*listing.problems])
    if tensors:
        _map_tensors(index, listing, tensors, output / f"code_mapping_{stamp}.csv", outcome)
    for table in tables:
        path = Path(table.path) if in_place else Path(table.path).with_name(COPY_NAME)
        if _map_table(index, listing, table, path, outcome):
            outcome.written.append(path)
    if outcome.unbound:
        path = output / f"code_mapping_unbound_{stamp}.csv"
        _write_rows(path, [["Name"], *([text_cell(name)] for name in outcome.unbound)])
        outcome.written.append(path)
    return outcome


def _map_tensors(
    index: IrIndex, listing: DumpListing, tensors: Iterable[DumpFile], path: Path, outcome: Outcome
) -> None:
    names = _NameMappings(listing, outcome.problems)
    above = listing.root.parts

    def rows() -> Iterator[list[str]]:
        yield ["File Path", *COLUMNS]
        for file in tensors:
            yield [text_cell(file.path), *cells(file)]

    def cells(file: DumpFile) -> tuple[str, str, str]:
        name = names.real(file)
        parsed = parse_tensor_file_name(name) if name is not None else None
        if parsed is None:
            outcome.unknown.append(file.relative)
            return _BLANK
        return _cells(index, parsed.op_type, parsed.op.full, _graph_of(file, above), outcome)

    _write_rows(path, rows())
    outcome.written.append(path)
    if outcome.unknown:
        outcome.problems.append(_nameless(outcome.unknown))


class _NameMappings:
    """Real names of files whose names are hashes, by the `mapping.csv` beside them."""

    def __init__(self, listing: DumpListing, problems: list[Problem]) -> None:
        self._by_folder: dict[tuple[str, ...], Mapping[str, str]] = {}
        for file in listing.files:
            if file.name == MAPPING_FILE:
                self._by_folder[file.folders], bad = read_name_mapping(Path(file.path), file.relative)
                problems.extend(bad)

    def real(self, file: DumpFile) -> str | None:
        return real_name(file.name, self._by_folder.get(file.folders, {})) if is_hashed(file.name) else file.name


def _map_table(index: IrIndex, listing: DumpListing, table: DumpFile, path: Path, outcome: Outcome) -> bool:
    """Write the rows of a `statistic.csv` with our columns behind its own; return whether it is such a table."""
    graph = _graph_of(table, listing.root.parts)
    try:
        with open_text(table.path, newline="", errors="replace") as stream:
            reader = csv.reader(line.replace("\0", "") for line in lines_of(stream))
            header = next(reader, [])
            words = [cell.strip() for cell in header]
            if _OP_NAME not in words:
                outcome.problems.append(_no_table(table))
                return False
            kept = [
                place for place, word in enumerate(words) if word not in COLUMNS and (word or place < len(words) - 1)
            ]
            name, kind = words.index(_OP_NAME), words.index(_OP_TYPE) if _OP_TYPE in words else -1

            def rows() -> Iterator[list[str]]:
                yield [*(header[place] for place in kept), *COLUMNS]
                for cells in reader:
                    if not cells:
                        continue
                    found = _BLANK
                    if name < len(cells) and cells[name].strip():
                        op_type = cells[kind].strip() if 0 <= kind < len(cells) else ""
                        found = _cells(index, op_type, cells[name].strip(), graph, outcome)
                    else:
                        outcome.unknown.append(f"{table.relative}, line {reader.line_num}")
                    yield [*(cells[place] if place < len(cells) else "" for place in kept), *found]

            _write_rows(path, rows(), like=Path(table.path))
    except csv.Error as error:
        outcome.problems.append(_no_table(table, str(error)))
        return False
    return True


def _cells(index: IrIndex, op_type: str, name: str, graph: int | None, outcome: Outcome) -> tuple[str, str, str]:
    found = index.find(op_type, name, graph)
    known = outcome.parameters if op_type == "Parameter" else outcome.operators
    known[name] = known.get(name, False) or found is not None
    return _BLANK if found is None else _bound_cells(found)


def _bound_cells(found: Bound) -> tuple[str, str, str]:
    lines = [line for code in found.codes for line in _code_lines(code)]
    return text_cell("\n".join(lines)), text_cell("\n".join(found.scopes)), text_cell(found.parameter)


def _code_lines(code: Code) -> Iterator[str]:
    if code.inferred_from is not None:
        yield f"(inferred: the code of {code.inferred_from})"
    yield from code.lines


def _graph_of(file: DumpFile, above: tuple[str, ...]) -> int | None:
    run = run_folder(file.folders, above=above)
    return None if run is None else run.graph


def _write_rows(path: Path, rows: Iterable[list[str]], *, like: Path | None = None) -> None:
    with atomic_text(path) as file:
        if like is not None:
            shutil.copymode(like, file.name)
        csv.writer(file, lineterminator="\n").writerows(rows)


def _nothing_there(dump: Path, listing: DumpListing) -> Diagnostic:
    return Diagnostic(
        "PF3463",
        f"`{dump}` holds no tensor and no `{STATISTICS_FILE}` in {len(listing.files)} files",
        path=os.fspath(dump),
        help="name the folder that holds `rank_0`, or one below it",
    )


def _nameless(names: list[str]) -> Problem:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Diagnostic(
        "PF3464",
        f"`{names[0]}`{more} cannot be bound: the name is not that of a dumped tensor",
        severity=Severity.WARNING,
        help=f"copy the dump together with its `{MAPPING_FILE}`; the rows are blank",
    )


def _no_table(table: DumpFile, why: str = "") -> Problem:
    what = why or f"has no column `{_OP_NAME}`"
    return Diagnostic(
        "PF3465",
        f"`{table.relative}` is no table of statistics and stays as it is: it {what}",
        path=table.path,
        help="name the file that MindSpore wrote",
    )
