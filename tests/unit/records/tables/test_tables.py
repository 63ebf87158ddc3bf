"""Tables of pairs and rows: the same records as tuples of them have, made again whenever they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from name_builders import catalog

from probe_flow.matching.shared import executions
from probe_flow.matching.shared.executions import ExecutionPairs
from probe_flow.records import Measurement, Mode, Pair, Rule, Status, TensorRef, Verdict
from probe_flow.records.measurement import Figures
from probe_flow.records.pairs import grouped, some_of
from probe_flow.records.row import Row, verdicts_of
from probe_flow.records.tables import blocks
from probe_flow.records.tables.blocks import Packing, PairTable, Stretch
from probe_flow.records.tables.row_table import MeasuredColumn, RowTable
from probe_flow.testing.builders import key, tensor

EXACT = Rule("exact")
COUNT = 21


@pytest.fixture(autouse=True)
def blocks_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of 4 records, of which 2 are held."""
    for name, value in {"_BITS": 2, "_WITHIN": 3, "BLOCK": 4, "HELD": 2}.items():
        monkeypatch.setattr(blocks, name, value)


@pytest.fixture
def pairs() -> list[Pair]:
    """Pairs of two sides and of one, of several groups."""
    found = []
    for number in range(COUNT):
        target, golden = tensor(f"t{number}"), tensor(f"g{number}")
        sides = (target, None) if number % 5 == 3 else (None, golden) if number % 7 == 6 else (target, golden)
        found.append(Pair(*sides, "first" if number < 8 else f"group {number}", EXACT))
    return found


def table_of(pairs: Sequence[Pair], target: Sequence[TensorRef] = (), golden: Sequence[TensorRef] = ()) -> PairTable:
    """Return a table of pairs; the tensors are those of the dumps."""
    return PairTable([*Packing(target, golden).packed(pairs)], len(pairs))


def test_tensors_that_follow_each_other_are_not_held_again(pairs):
    targets, goldens = ([tensor(f"{side}{number}") for number in range(COUNT)] for side in "tg")
    both = [Pair(one, other, "x", EXACT) for one, other in zip(targets, goldens, strict=True)]
    alone = Pair(None, goldens[10], "x", EXACT)
    for some in (both, [*both[:9], *both[11:]], [*both[:9], alone, *both[11:]], both[::-1], [*both, *both]):
        table = table_of(some, targets, goldens)
        assert all(one == other for one, other in zip(table, some, strict=True))
        assert all(
            one.target is other.target and one.golden is other.golden for one, other in zip(table, some, strict=True)
        )
    held = [isinstance(columns[0], Stretch) for columns in table_of([*both[:9], *both[11:]], targets, goldens)._columns]
    assert held == [True, True, False, True, True]


def measured_rows(pairs: list[Pair]) -> list[Row]:
    """Return rows of which some are measured, of what the dumps recorded or otherwise."""
    figures = Figures()
    table = figures.table(Mode.STATISTICS, "", ("a",), ())
    rows = []
    for number, pair in enumerate(pairs):
        found = None
        if pair.target is not None and pair.golden is not None:
            if number % 4:
                table.add([float(number)])
                table.count(number, 0, -1)
                found = Measurement.of_recorded(table, len(table) - 1, pair)
            else:
                found = Measurement.of(Mode.VALUE, {"b": number}, notes=("noted",), figures=figures)
        rows.append(Row(pair, found))
    return rows


def test_a_table_has_the_pairs_it_was_made_of(pairs):
    table = table_of(pairs)
    assert len(table) == COUNT
    assert [*table] == pairs
    assert [table[number] for number in range(COUNT)] == pairs
    assert [table[number] for number in range(-COUNT, 0)] == pairs
    assert [*reversed(table)] == pairs[::-1]
    for places in (slice(None), slice(2, 3), slice(3, 9), slice(0, 21, 5), slice(4, 2), slice(19, 40), slice(-5, -1)):
        assert table[places] == pairs[places]
    for place in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            table[place]


def test_few_pairs_and_those_of_one_execution_are_a_tuple_many_of_several_a_table(pairs, monkeypatch):
    monkeypatch.setattr(executions, "MANY", COUNT)

    def made(*some: list[Pair]) -> object:
        dump = catalog([])
        return ExecutionPairs.gathered(dump, dump, some)

    assert made() == ()
    assert made(pairs) == tuple(pairs)
    assert made(pairs[:9], pairs[9:20]) == tuple(pairs[:20])
    for some in ((pairs[:9], pairs[9:]), (pairs, pairs), (pairs[:1], pairs[1:], [])):
        table = made(*some)
        assert isinstance(table, PairTable)
        assert [*table] == [pair for each in some for pair in each]


def test_records_are_made_again_once_others_were_asked_for(pairs):
    table = table_of(pairs)
    first = table[0]
    assert table[1] is table[1]
    assert table[0] is first
    assert [*table] == pairs
    assert table[0] is not first
    assert table[0] == first


def test_some_records_are_in_the_order_of_their_numbers(pairs):
    table = table_of(pairs)
    for numbers in ([5, 1, 20, 0, 7, 6], [4, 5, 6, 7, 8, 9], []):
        assert [*some_of(table, numbers)] == some_of(pairs, numbers) == [pairs[number] for number in numbers]
    assert some_of(table, range(COUNT)) is table


def test_things_of_one_key_are_together_in_order_of_first_appearance(pairs):
    for things in (pairs, table_of(pairs)):
        found = grouped(things, [number % 3 for number in range(COUNT)])
        assert [*found] == [0, 1, 2]
        assert [*found[1]] == pairs[1::3]


def test_rows_of_a_table_are_those_of_a_list(pairs):
    expected = measured_rows(pairs)
    measured = MeasuredColumn(table_of(pairs))
    for number, row in enumerate(expected):
        if row.measurement is not None:
            measured[number] = row.measurement
    rows = RowTable(measured)
    assert [*rows] == expected
    assert [measured[number] for number in range(COUNT)] == [row.measurement for row in expected]
    assert all(row.measurement.given is row.pair for row in rows if row.measurement and not row.measurement.notes)

    changed = expected[9].with_recomputed(reason="unknown")
    rows[9] = changed
    assert rows[9] is changed
    assert rows[8:11] == [expected[8], changed, expected[10]]

    verdicts = [Verdict(Status.FAIL if number % 2 else Status.PASS) for number in range(COUNT)]
    judged = rows.judged(verdicts)
    assert [*judged] == [
        Row(row.pair, row.measurement, verdict, order)
        for order, (row, verdict) in enumerate(zip(expected, verdicts, strict=True))
    ]
    assert verdicts_of(judged) is verdicts
    assert verdicts_of([*judged]) == verdicts
    assert {*verdicts_of(rows)} == {row.verdict for row in rows}


def test_rows_know_which_pairs_are_theirs(pairs):
    table = table_of(pairs)
    order = [3, 2, 1, 0, *range(4, COUNT)]
    rows = RowTable(MeasuredColumn(some_of(table, order)))
    assert [*rows.numbers_of_pairs(2, 6)] == [1, 0, 4, 5]
    assert [row.pair for row in rows[2:6]] == [pairs[number] for number in (1, 0, 4, 5)]
    assert [*RowTable(MeasuredColumn(table)).numbers_of_pairs(2, 6)] == [2, 3, 4, 5]


def test_pairs_of_several_executions_hold_their_own_nodes():
    one, other = (tensor(key("a", rank=rank)) for rank in (0, 1))
    table = table_of([Pair(one, None, "x", EXACT), Pair(other, None, "x", EXACT)])
    assert [pair.shown.node for pair in table] == [key("a", rank=rank) for rank in (0, 1)]
