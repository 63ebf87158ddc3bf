"""Maps of errors as text, against pictures made by hand; what a stored run may claim to be a map."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import asdict

from probe_flow.record.types.reading import MisfitError, Reader
from probe_flow.record.types.rows import DetailRecord
from probe_flow.records import ErrorMap
from probe_flow.reports.error_map_text import map_lines, stored_maps

GRID = ErrorMap(
    (3, 4), (0,), (1,), (1, 1), (1.0, 0.3, 0.05, 0.005, 0.0, None, None, None, 0.0, 0.0, math.inf, 0.0), (5, 8), (6,)
)


def stored(**changes: Any) -> DetailRecord:
    record = {key: list(value) for key, value in asdict(GRID).items()}
    errors = ["inf" if each == math.inf else each for each in GRID.errors]
    look = {"order": 0, "start": 0, "target": [], "golden": [], "edges": [], "counts": [], "equal": 0}
    return Reader(DetailRecord).convert({**look, "maps": [{**record, "errors": errors, **changes}]})


def test_every_kind_of_cell_has_a_sign() -> None:
    assert list(map_lines([GRID])) == [
        "  where the errors are: axis 0 (3) down, axis 1 (4) across",
        "    0  #+-.",
        "    1  _n!?",
        "    2  n_#_",
        "    # above a third of the largest error 1, + above a tenth, - above a hundredth, . less, _ no error, "
        "n NaN or infinities on both sides alike, ! NaN or infinities disagree, ? not compared",
    ]


def test_many_rows_share_lines_as_the_worst_of_them() -> None:
    errors = [0.0] * (2 * 20 * 2)
    errors[2 * 25 + 1] = 2.0
    lines = list(map_lines([ErrorMap((2, 20, 2), (0, 1), (2,), (1, 1), tuple(errors))]))
    assert lines[0] == "  where the errors are: axes 0, 1 (2 x 20) down, axis 2 (2) across"
    assert lines[1:-1] == [
        "     0,0  __", "     0,3  __", "     0,6  __", "     0,9  __", "    0,12  __", "    0,15  __", "    0,18  __",
        "     1,1  __", "     1,4  _#", "     1,7  __", "    1,10  __", "    1,13  __", "    1,16  __", "    1,19  __",
    ]  # fmt: skip


def test_one_axis_is_one_line() -> None:
    assert list(map_lines([ErrorMap((130,), (), (0,), (1, 3), (0.5, *[0.0] * 43))]))[:2] == [
        "  where the errors are: axis 0 (130) across",
        "    " + " " * 2 + "#" + "_" * 43,
    ]


@pytest.mark.parametrize(
    "found", [[], [ErrorMap((), (), (), (1, 1), (2.0,))], [ErrorMap((2,), (), (0,), (1, 1), (0.0, 0.0))]]
)
def test_what_shows_nothing_is_left_out(found: list[ErrorMap]) -> None:
    assert list(map_lines(found)) == []


def test_a_stored_map_is_the_map() -> None:
    assert stored_maps(stored()) == (GRID,)
    assert stored_maps(None) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [3]}, {"shape": [0, 4]}, {"shape": [10**9, 10**9]}, {"cell": [0, 1]}, {"errors": [0.0]},
        {"alike": [12]}, {"mismatch": [12]}, {"down": [7]}, {"across": [2]}, {"cell": [1, 10**400]},
    ],
)  # fmt: skip
def test_a_map_that_contradicts_itself_is_left_out(changes: dict[str, Any]) -> None:
    assert stored_maps(stored(**changes)) == ()


@pytest.mark.parametrize(
    "changes",
    [{"shape": "34"}, {"cell": [1]}, {"errors": None}, {"mismatch": [-1]}, {"mismatch": [True]}, {"across": [1.0]}],
)
def test_a_closer_look_with_values_of_wrong_types_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(MisfitError):
        stored(**changes)
