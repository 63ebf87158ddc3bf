"""Result tables of several ranks, merged: one sheet per measure, one row per item, one column per rank.

Rows keep the order of the dumps. Where a measure has no number, the cell shows the largest values of both sides, which
makes the names of communication groups visible. When a dump recorded groups, a last column ``group`` names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, FormatError, IncompleteError, Severity, WorkflowError, did_you_mean
from probe_flow.reports.dump_json_columns import CONSISTENT, FILES, JUDGEMENT, PREFIX, ROLE, STACK, STATISTICS, Layout
from probe_flow.reports.rank_merge.config import MergeConfig
from probe_flow.reports.table import Cell

MAXIMA = (STATISTICS[0], STATISTICS[4])
"""The largest value of both sides, shown where a measure has no number."""

_OPTIONAL = frozenset((STACK, FILES, ROLE))


def mode_of(header: Sequence[str]) -> Layout | None:
    """Return the mode of a table by its exact header; None when it is no result table."""
    plain = [name for name in header if name not in _OPTIONAL]
    for layout in Layout:
        if plain == [*PREFIX, *layout.columns, *JUDGEMENT] and len(set(header)) == len(header):
            return layout
    return None


def measures_of(mode: Layout) -> tuple[str, ...]:
    """Return the columns of a mode that can be merged."""
    return (*(name for name in mode.columns if name not in STATISTICS), CONSISTENT)


def columns_read(header: Sequence[str]) -> frozenset[str]:
    """Return the columns that a merge reads."""
    mode = mode_of(header)
    return frozenset((*measures_of(mode), *MAXIMA)) if mode is not None else frozenset()


NAME, GOLDEN_NAME = PREFIX[:2]
GROUP = "group"

_ABSENT = "N/A"
_NO_NUMBER = frozenset((_ABSENT, "unsupported", "Nan"))


class RankTable(Struct, frozen=True):
    """The result table of one rank, read once.

    Args:
        rank: its number.
        source: file that it comes from, for messages.
        header: its columns.
        rows: its cells.
    """

    rank: int
    source: str
    header: Sequence[str]
    rows: Iterable[Sequence[Cell | None]]


class Sheet(Struct, frozen=True):
    """One measure of all ranks; a cell is None where a rank has no such row."""

    measure: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell | None, ...], ...]


class _Rank(Struct):
    """The rows of one rank that are merged: name -> cells by column, in order."""

    rank: int
    rows: dict[str, Mapping[str, Cell | None]] = field(default_factory=dict)


def merge_tables(tables: Iterable[RankTable], config: MergeConfig) -> tuple[tuple[Sheet, ...], list[Diagnostic]]:
    """Merge the tables of several ranks.

    Args:
        tables: them, ranks ascending; all of one mode.
        config: which rows and columns.

    Returns:
        One sheet per measure, and what is to say (PF7123 a table whose rows cannot be read, PF7124 one that does not
        fit, PF7126 an API without rows).

    Raises:
        WorkflowError: PF7121 when a measure is none of the tables' mode.
        IncompleteError: PF7122 when less than two tables are left, or no row.
    """
    problems: list[Diagnostic] = []
    ranks: list[_Rank] = []
    mode: Layout | None = None
    for table in tables:
        found = mode_of(table.header)
        problem = _unfit(table, found, mode)
        if problem is not None:
            problems.append(problem)
            continue
        if mode is None and found is not None:
            mode = found
            _check_measures(config, mode)
        try:
            ranks.append(_selected(table, config))
        except FormatError as error:
            problems += error.diagnostics
    if mode is None or len(ranks) < 2:
        raise IncompleteError([too_few(len(ranks)), *problems])
    problems += _unused(config, ranks)
    if not any(each.rows for each in ranks):
        raise IncompleteError([_nothing_named(), *problems])
    measures = config.measures or measures_of(mode)
    names = _in_order([list(each.rows) for each in ranks])
    groups = _groups(ranks)
    return tuple(_sheet(measure, names, ranks, groups) for measure in measures), problems


def _unfit(table: RankTable, found: Layout | None, mode: Layout | None) -> Diagnostic | None:
    if found is None:
        message = f"`{table.source}` is no result table of a dump.json comparison"
        first = ", ".join(f"`{name}`" for name in list(table.header)[:3]) or "nothing"
        help_text = f"its columns are {first} ...; a result table begins with `{PREFIX[0]}`, `{PREFIX[1]}`"
        return Diagnostic("PF7124", message, path=table.source, help=help_text)
    if found is Layout.CHECKSUM:
        message = f"`{table.source}` holds checksums, which have no measures to merge"
        return Diagnostic("PF7124", message, path=table.source, help="compare dumps of statistics or tensors")
    if mode is not None and found is not mode:
        message = f"`{table.source}` is a table of {found.value} mode; the ones before it are of {mode.value} mode"
        return Diagnostic("PF7124", message, path=table.source, help="compare all ranks in one mode")
    return None


def _check_measures(config: MergeConfig, mode: Layout) -> None:
    known = measures_of(mode)
    problems = [
        Diagnostic(
            "PF7121",
            f"`{measure}` is no column of these tables, which are of {mode.value} mode",
            span=config.spans.get(measure),
            help=did_you_mean(measure, known) or "columns: " + ", ".join(f"`{name}`" for name in known),
        )
        for measure in config.measures
        if measure not in known
    ]
    if problems:
        raise WorkflowError(problems, config.sources)


def _selected(table: RankTable, config: MergeConfig) -> _Rank:
    """Keep the rows that the configuration names; of equal names the first. Rows of the golden alone go by its name."""
    place = {name: column for column, name in enumerate(table.header)}
    read = columns_read(table.header)
    wanted = [name for name in table.header if name in read]
    prefixes = tuple(f"{api}." for api in config.apis)
    found = _Rank(table.rank)
    for row in table.rows:
        cells = {column: row[at] if at < len(row) else None for column, at in place.items()}
        name = cells[NAME]
        if name in (None, _ABSENT):
            name = cells[GOLDEN_NAME]
        if isinstance(name, str) and (name.startswith(prefixes) or name in config.apis) and name not in found.rows:
            found.rows[name] = {column: cells[column] for column in wanted}
    return found


def _in_order(orders: Sequence[Sequence[str]]) -> list[str]:
    """Return all names in the order of the first rank; those of other ranks alone follow what stands before them."""
    following: dict[str | None, str | None] = {None: None}
    for order in orders:
        before: str | None = None
        for name in order:
            if name not in following:
                following[name], following[before] = following[before], name
            before = name
    return list(_chained(following))


def _chained(following: Mapping[str | None, str | None]) -> Iterator[str]:
    name = following[None]
    while name is not None:
        yield name
        name = following[name]


def _groups(ranks: Sequence[_Rank]) -> Mapping[str, str]:
    """Return call -> the groups that its argument ``group`` names on any rank."""
    found: dict[str, dict[str, None]] = {}
    for rank in ranks:
        for name, cells in rank.rows.items():
            call, dot, argument = name.rpartition(".")
            value = cells[MAXIMA[0]]
            if dot and argument == GROUP and isinstance(value, str) and value not in (_ABSENT, "None"):
                found.setdefault(_call(call), {})[value] = None
    return {call: "; ".join(values) for call, values in found.items()}


def _call(name: str) -> str:
    """Return the part of an item's name that names its call: four parts, ``Distributed.all_reduce.0.forward``."""
    return ".".join(name.split(".")[:4])


def _sheet(measure: str, names: Sequence[str], ranks: Sequence[_Rank], groups: Mapping[str, str]) -> Sheet:
    header = (NAME, *(f"rank{each.rank}" for each in ranks), *((GROUP,) if groups else ()))
    rows = []
    for name in names:
        cells = [_cell(each.rows.get(name), measure) for each in ranks]
        rows.append(tuple(chain([name], cells, [groups.get(_call(name))] if groups else [])))
    return Sheet(measure, header, tuple(rows))


def _cell(cells: Mapping[str, Cell | None] | None, measure: str) -> Cell | None:
    if cells is None:
        return None
    value = cells[measure]
    if value in _NO_NUMBER:
        target, golden = (cells[name] for name in MAXIMA)
        return f"NPU:{target}  Bench:{golden}"
    return value


def _unused(config: MergeConfig, ranks: Sequence[_Rank]) -> list[Diagnostic]:
    names = {name for each in ranks for name in each.rows}
    return [
        Diagnostic(
            "PF7126",
            f"`{api}` begins the name of no row",
            severity=Severity.WARNING,
            span=config.spans.get(api),
            help="names are those of the column `NPU Name`, such as `Distributed.all_reduce.0.forward`",
        )
        for api in config.apis
        if not any(name == api or name.startswith(f"{api}.") for name in names)
    ]


def too_few(count: int) -> Diagnostic:
    """Return what is to say about less than two tables."""
    tables = f"{count} result table" + ("" if count == 1 else "s")
    return Diagnostic(
        "PF7122",
        f"there is nothing to merge: {tables} of ranks, and merging takes at least two",
        help="compare folders that hold `rank0`, `rank1` ...; each rank gives one result table",
    )


def _nothing_named() -> Diagnostic:
    return Diagnostic(
        "PF7122",
        "there is nothing to merge: no row of any rank belongs to the APIs of the configuration",
        help="`api` names leading parts of the column `NPU Name`",
    )
