"""Figures in a table: what comes back is what was given, whatever its type."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from probe_flow.files.filed_numbers import NumberFile
from probe_flow.records import (
    Execution,
    Figures,
    Measurement,
    Mode,
    NodeKey,
    Pair,
    Rule,
    SideSummary,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records import figures as figures_module
from probe_flow.records.figure_columns import FIGURES as FIGURES_OF_SIDES
from probe_flow.records.figure_columns import (
    FigureColumns,
    MeasuredColumns,
    MetricColumns,
    RecordedColumns,
    SideColumns,
)
from probe_flow.records.figure_views import FigureColumn, FigureRow
from probe_flow.records.figures import FigureTable, shared_numbers
from probe_flow.records.row import Row
from probe_flow.records.tensor_data import TensorTables

NAMES = ("a", "b", "c")
FIGURES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**53 - 2, max_value=2**53 + 2),
    st.floats(allow_nan=True, allow_infinity=True),
)


def same(left, right):
    """Whether two figures are one: of one type, NaN like NaN, -0.0 unlike 0.0."""
    return type(left) is type(right) and repr(left) == repr(right)


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), min_size=1, max_size=20))
def test_figures_that_were_put_away_are_as_they_were(rows):
    table, away = FigureTable(NAMES), FigureTable(NAMES)
    for row in rows:
        table.add(row)
        away.add(row)
    away.put_away(NumberFile().put)
    every = np.arange(len(rows))

    for number, row in enumerate(rows):
        assert all(map(same, away.row(number), row))
        assert all(map(same, away.part(number, 1, 3), row[1:]))
        assert all(same(away.value(number, place), row[place]) for place in range(len(NAMES)))
    for begin, end in ((0, 3), (1, 2)):
        found, expected = (FigureColumns(each, begin, end).of(every) for each in (away, table))
        assert all(
            mine.tobytes() == other.tobytes() for mine, other in zip(astuple(found), astuple(expected), strict=True)
        )
        assert not len(FigureColumns(away, begin, end).of(every[:0]).values)
    away.add(rows[0])
    assert all(map(same, away.row(len(rows)), rows[0]))
    assert all(map(same, away.row(0), rows[0]))


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), max_size=20))
def test_a_row_comes_back_as_the_dictionary_that_it_was(rows):
    table = FigureTable(NAMES)
    numbers = [table.add(row) for row in rows]

    assert numbers == list(range(len(rows)))
    assert len(table) == len(rows)
    for number, row in zip(numbers, rows, strict=True):
        found, expected = FigureRow(table, number, len(NAMES)), dict(zip(NAMES, row, strict=True))
        assert list(found) == list(expected)
        assert len(found) == len(expected)
        assert all(same(found[name], expected[name]) for name in expected)
        assert all(same(found.get(name), expected[name]) for name in expected)
        assert all(map(same, table.part(number, 1, 3), row[1:]))
        assert all(map(same, table.row(number), row))
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), 2**53 + 1, 2**63, -(2**80), 10**400, True, False, 0, 0.0, -0.0, math.inf, -math.inf, None],
)
def test_exact_integers_truth_values_and_none_are_told_apart(value):
    table = FigureTable(NAMES)
    number = table.add([1.5, value, 2])

    assert same(FigureRow(table, number, 3)["b"], value)
    assert table.part(number, 0, 3)[0] == 1.5
    assert same(table.part(number, 0, 3)[2], 2)


@pytest.mark.parametrize("value", [1 + 2j, "0x10", "nan", (1, 2)])
def test_what_is_no_number_is_stored_as_it_is(value):
    table = FigureTable(NAMES)
    number = table.add([value, 1.0, 2])

    assert FigureRow(table, number, 3)["a"] == value
    assert same(FigureRow(table, number, 3)["c"], 2)


def test_nan_is_a_value_and_not_none():
    table = FigureTable(NAMES)
    row = FigureRow(table, table.add([math.nan, None, 0.0]), 3)

    assert isinstance(row["a"], float)
    assert math.isnan(row["a"])
    assert row["b"] is None


def test_a_view_of_the_first_columns_has_no_others():
    table = FigureTable(NAMES)
    row = FigureRow(table, table.add([1.0, 2.0, 3.0]), 2)

    assert isinstance(row, Mapping)
    assert dict(row) == {"a": 1.0, "b": 2.0}
    assert row == {"a": 1.0, "b": 2.0}
    assert "c" not in row
    assert row.get("c", 7.0) == 7.0
    with pytest.raises(KeyError):
        row["c"]


def test_no_number_is_stored_of_what_is_exactly_0_or_1_or_none():
    table = FigureTable(("a", "b", "c", "d", "e"))
    for row in ((0.0, 1.0, None, 0, 2.5), (1.0, 0.0, 0, None, 3.5), (-0.0, 1, False, 0.0, 1.0)):
        table.add(row)
    assert list(table.stored().numbers) == [2.5, 3.5, -0.0, 1.0, 0.0]
    assert table.stored().patterns == ("zun0f", "uz0nf", "fibzu")
    assert [repr(table.part(number, 0, 5)) for number in range(3)] == [
        "[0.0, 1.0, None, 0, 2.5]",
        "[1.0, 0.0, 0, None, 3.5]",
        "[-0.0, 1, False, 0.0, 1.0]",
    ]


def test_rows_of_very_many_patterns_come_back_and_have_few_of_them():
    """Each of 11 columns is 0, 1 or another number: 177,147 patterns."""
    table = FigureTable(tuple("abcdefghijk"))
    rows = [tuple((0.0, 1.0, 2.5)[number // 3**place % 3] for place in range(11)) for number in range(0, 3**11, 37)]
    for row in rows:
        table.add(row)
    assert len(table.stored().patterns) <= 1025
    assert all(tuple(table.part(number, 0, 11)) == row for number, row in enumerate(rows))
    assert all(FigureRow(table, number, 11)["c"] == row[2] for number, row in enumerate(rows))


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), max_size=20), st.tuples(FIGURES, FIGURES, FIGURES))
def test_a_table_goes_on_where_its_file_ended(rows, further):
    table = FigureTable(NAMES)
    for row in rows:
        table.add(row)
    again = table.stored().restored()
    again.add(further)
    for number, row in enumerate((*rows, further)):
        assert all(map(same, again.part(number, 0, 3), row))
        assert all(same(again.value(number, place), row[place]) for place in range(3))


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"numbers": array("d", [2.5, 3.0])}, "as many numbers"),
        ({"patterns": ("zf?", "fiu")}, "other types"),
        ({"patterns": ("zf", "fiu")}, "other types"),
        ({"patterns": ("zfn",)}, "does not name"),
        ({"numbers": array("d", [2.5, 3.0, 4.5])}, "integer"),
        ({"numbers": array("f", [2.5, 3.0, 4.0])}, "another type"),
        ({"aside": {2: (1, 2, 3)}}, "one of its table"),
        ({"aside": {0: (1, 2)}}, "one of its table"),
    ],
)
def test_a_table_whose_parts_do_not_fit_together_is_refused(changed, word):
    table = FigureTable(NAMES)
    table.add((0.0, 2.5, None))
    table.add((3.0, 4, 1.0))
    stored = table.stored()
    assert (stored.patterns, list(stored.numbers)) == (("zfn", "fiu"), [2.5, 3.0, 4.0])
    with pytest.raises(ValueError, match=word):
        replace(stored, **changed).restored()


def test_another_number_of_values_is_refused_and_adds_nothing():
    table = FigureTable(NAMES)
    with pytest.raises(ValueError, match="2 values for 3 columns"):
        table.add([1.0, 2.0])

    assert len(table) == 0
    assert table.add([1.0, 2.0, 3.0]) == 0
    assert list(table.part(0, 0, 3)) == [1.0, 2.0, 3.0]


@given(st.dictionaries(st.integers(min_value=0, max_value=30), st.floats(), max_size=20))
@example({0: 0.0, 7: 0.0})
@example({0: 0.0, 7: -0.0, 8: 0.0})
@example({3: 0.0, 7: 1.5})
def test_a_column_is_the_dictionary_that_was_written_to_it(expected):
    column = FigureColumn(31)
    for number, value in expected.items():
        column[number] = value

    assert list(column) == sorted(expected)
    assert len(column) == len(expected)
    assert all(same(column[number], value) for number, value in expected.items())
    for number in set(range(31)) - expected.keys():
        assert column.get(number) is None
        assert column.get(number, 7.0) == 7.0
        with pytest.raises(KeyError):
            column[number]


def test_numbers_of_rows_are_the_same_objects_however_many_are_asked_for():
    few = shared_numbers(3)
    thousandth = few[1000]
    many = shared_numbers(100_000)

    assert list(many[:100_000]) == list(range(100_000))
    assert many[1000] is thousandth


@given(
    st.lists(st.tuples(FIGURES, FIGURES, FIGURES), min_size=1, max_size=20),
    st.lists(st.integers(min_value=0, max_value=19), max_size=30),
    st.sampled_from([(0, 3), (0, 2), (1, 3), (2, 2)]),
)
@example([(0.5, 1.5, 2.5), (0.0, 1.0, -0.0)], [1, 0, 1], (0, 3))
@example([(0.0, 1.0, None)], [0], (0, 3))
def test_columns_are_what_the_rows_say(rows, wanted, cut):
    table = FigureTable(NAMES)
    for each in rows:
        table.add(each)
    begin, end = cut
    wanted = [number % len(rows) for number in wanted]

    cells = FigureColumns(table, begin, end).of(np.array(wanted, dtype=np.intp))

    assert cells.values.shape == cells.are_floats.shape == cells.are_none.shape == (len(wanted), end - begin)
    kinds = cells.are_floats, cells.are_whole, cells.are_none
    for number, *found in zip(wanted, cells.values.tolist(), *kinds, strict=True):
        for expected, value, is_float, is_whole, is_none in zip(rows[number][begin:end], *found, strict=True):
            assert is_float + is_whole + is_none <= 1
            assert not is_none or expected is None
            if is_float or is_whole:
                assert type(expected) is (float if is_float else int)
                assert same(value, float(expected))
            elif number not in table.stored().aside:
                assert is_none == (expected is None)
                assert type(expected) not in (float, int)
    listed = [
        cells.column(place).listed(lambda row, place=place: rows[wanted[row]][begin + place])
        for place in range(end - begin)
    ]
    assert [repr([*each]) for each in zip(*listed, strict=True)] == [
        repr([*rows[number][begin:end]]) for number in wanted if begin < end
    ]


def test_recorded_columns_are_the_statistics_of_tensors():
    tables = TensorTables()
    node = NodeKey(Execution(), "a")
    given = [
        Statistics(-1.0, 2.0, 0.0, 4.5),
        Statistics(1, 2, None, None),
        Statistics(-1.0, 2.0, 0.5, 4.5, 0, 3),
        Statistics(math.inf, 1.0, math.nan, 2.0),
    ]
    tensors = [
        TensorRef.of(node, Slot(SlotRole.INPUT), TensorKind.STATISTICS, recorded=each, source="d/dump.json")
        for each in given
    ]
    stored = [each.stored_in(tables) for each in tensors]

    cells = RecordedColumns().of([*stored, None, tensors[0]])

    assert cells.are_floats.tolist() == [
        [True] * 4 + [False] * 2,
        [False] * 6,
        [True] * 4 + [False] * 2,
        [True] * 4 + [False] * 2,
        [False] * 6,
        [False] * 6,
    ]
    assert cells.are_none[:, 2:].tolist() == [
        [False, False, True, True],
        [True] * 4,
        [False] * 4,
        [False, False, True, True],
        [False] * 4,
        [False] * 4,
    ]
    assert cells.values[[0, 2], :4].tolist() == [[-1.0, 2.0, 0.0, 4.5], [-1.0, 2.0, 0.5, 4.5]]


def test_columns_of_metrics_are_what_each_measurement_says():
    figures = Figures()
    given = [{"a": 1.5, "b": 0.0}, {"a": 3, "b": None}, {"b": math.nan}, None, {"a": 2.5, "b": True}]
    measured = [None if each is None else Measurement.of(Mode.VALUE, each, figures=figures) for each in given]
    node = TensorRef.of(NodeKey(Execution(), "a"), Slot(SlotRole.INPUT), TensorKind.STATISTICS)
    columns = MetricColumns([Row(Pair(node, None, "g", Rule("exact")), each) for each in measured])

    for name in ("a", "b", "c"):
        cells = columns.of(name, 1, 5)
        found = [
            value if is_float else columns.metric(name, place)
            for place, (value, is_float) in enumerate(zip(cells.values.tolist(), cells.are_floats, strict=True), 1)
        ]
        expected = [None if each is None else each.metric(name) for each in measured[1:]]
        assert list(map(repr, found)) == list(map(repr, expected))
        assert [bool(each) for each in cells.are_none] == [each is None for each in expected]


def test_figures_of_a_side_are_measured_or_recorded():
    tables, slot = TensorTables(), Slot(SlotRole.INPUT)
    recorded = [Statistics(-1.0, 2.0, 0.0, 4.5), Statistics(1, 2, None, 0.5)]
    tensors = [
        TensorRef.of(
            NodeKey(Execution(), "a"), slot, TensorKind.STATISTICS, recorded=each, source="d/dump.json"
        ).stored_in(tables)
        for each in recorded
    ]
    measured = Measurement.of(Mode.TENSOR, {}, SideSummary(Statistics(7.0, 8.0, nan=1)), SideSummary(Statistics()))
    own = Measurement.of(Mode.STATISTICS, {}, tensors[1], tensors[0])
    rows = [
        Row(Pair(tensors[0], None, "g", Rule("exact"))),
        Row(Pair(tensors[1], tensors[0], "g", Rule("exact")), own),
        Row(Pair(tensors[0], tensors[1], "g", Rule("exact")), measured),
        Row(Pair(None, tensors[1], "g", Rule("exact"))),
    ]

    found = SideColumns("target").figures(rows)

    expected = [recorded[0], recorded[1], Statistics(7.0, 8.0, nan=1), Statistics()]
    columns = [found.values(column) for column in range(len(FIGURES_OF_SIDES))]
    assert [repr(cells) for cells in zip(*columns, strict=True)] == [repr(astuple(each)) for each in expected]
    assert not found.others


def test_the_metrics_of_many_measurements_come_in_columns_a_table_together():
    figures = Figures()
    given = [{"a": 1.5, "b": 0}, None, {"b": math.nan}, {"a": 2**70, "b": None}, {"a": True, "b": 0.0}]
    measured = [None if each is None else Measurement.of(Mode.VALUE, each, figures=figures) for each in given]

    groups = MeasuredColumns().metrics(measured)

    found = {
        place: dict(zip(group.names, cells, strict=True))
        for group in groups
        for place, *cells in zip(group.places, *group.columns, strict=True)
    }
    assert {place: repr(each) for place, each in found.items()} == {
        place: repr(each) for place, each in enumerate(given) if each is not None
    }


def test_a_checksum_of_a_side_is_measured_or_recorded():
    slot = Slot(SlotRole.INPUT)
    recorded, plain = (
        TensorRef.of(NodeKey(Execution(), "a"), slot, TensorKind.TENSOR, checksum=text) for text in ("dead", None)
    )
    measured = SideSummary(Statistics(), "beef")
    rows = [
        Row(Pair(tensor, None, "g", Rule("exact")), None if side is None else Measurement.of(Mode.TENSOR, {}, side))
        for tensor, side in [
            (recorded, None),
            (recorded, recorded),
            (recorded, measured),
            (recorded, SideSummary(Statistics(1.0))),
            (plain, measured),
            (plain, None),
        ]
    ]

    assert SideColumns("target").checksums(rows) == ["dead", "dead", "beef", "dead", "beef", None]
    assert SideColumns("golden").checksums(rows) == [None] * len(rows)


FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0]))


@given(
    st.lists(st.tuples(FIGURES, FIGURES, FIGURES), max_size=6),
    st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=1, max_size=20),
    st.lists(st.tuples(FIGURES, FIGURES, FIGURES), max_size=3),
    st.integers(min_value=0, max_value=5),
)
def test_many_rows_at_once_are_each_added(before, many, after, most_patterns):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures_module, "_MOST_PATTERNS", most_patterns)
        table, expected = FigureTable(NAMES), FigureTable(NAMES)
        for each in (*before, *many, *after):
            expected.add(each)
        for each in before:
            table.add(each)
        first = table.extend(np.array(many, dtype=np.float64))
        for each in after:
            table.add(each)

    assert first == len(before)
    assert [list(map(repr, table.row(n))) for n in range(len(table))] == [
        list(map(repr, expected.row(n))) for n in range(len(expected))
    ]
    stored, other = table.stored(), expected.stored()
    assert (stored.patterns, bytes(stored.numbers), stored.kinds) == (other.patterns, bytes(other.numbers), other.kinds)
