"""The heat map of the HTML report: operators by rank and by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import comparison, missing_golden, origin
from report_pictures import executed, sample

from probe_flow.records import Comparison, Execution, NodeKey, Role, Status

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

DOWN, UP, RIGHT, LEFT, ENTER, HOME, END = "\ue015", "\ue013", "\ue014", "\ue012", "\ue007", "\ue011", "\ue010"
MAP = "#heat-map"
WIDEST = 56
"""Pixels of a column where there is room."""
SAID = "document.getElementById('said').textContent"
SPOT = """
const heat = document.querySelector('#heat-map canvas');
const box = heat.getBoundingClientRect();
const at = {clientX: box.left + arguments[0], clientY: box.top + arguments[1], bubbles: true};
heat.dispatchEvent(new MouseEvent(arguments[2], at));
"""
INK = """
const canvas = document.querySelector('#heat-map canvas');
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
const seen = new Set();
for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) seen.add(pixels.slice(at, at + 3).join(' '));
return [...seen];
"""


def opened(open_report: Open, found: Comparison, **more: Any) -> Any:
    """The report, with the heat map in sight."""
    page = open_report(found, **more)
    page.js("document.getElementById('executions').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('#heat-map').ariaLabel")
    page.wait("document.querySelector('#heat-map canvas').width !== 300")
    return page


def choose(page: Any, select: str, value: str) -> None:
    script = (
        "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
    )
    page.js(script, select, value)


def focus(page: Any) -> None:
    page.js("document.querySelector('#heat-map').focus()")


def geometry(page: Any) -> tuple[int, int]:
    """The widths of the names and of a column."""
    width = page.js("return document.querySelector('#heat-map .heat-space').offsetWidth")
    return width - 3 * WIDEST, WIDEST


def test_one_execution_has_no_heat_map(open_report: Open) -> None:
    page = open_report(sample(ranks=1, steps=1))
    assert page.js("return document.getElementById('executions').hidden") is True
    assert page.js("return document.getElementById('executions-jump').hidden") is True


def test_the_map_is_made_when_it_comes_into_sight(open_report: Open) -> None:
    page = open_report(sample())
    page.driver.set_window_size(1400, 400)
    try:
        page.driver.refresh()
        page.wait("document.documentElement.dataset.ready")
        assert page.js("return document.querySelector('#heat-map').ariaLabel") is None
        page.js("document.getElementById('executions').scrollIntoView({behavior: 'instant'})")
        page.wait("document.querySelector('#heat-map').ariaLabel")
    finally:
        page.driver.set_window_size(1400, 900)


def test_operators_stand_by_rank_and_by_step(open_report: Open) -> None:
    page = opened(open_report, sample())
    assert page.text("#executions-title") == "Operators by rank"
    assert "4 operators by 3 ranks" in page.js("return document.querySelector('#heat-map').ariaLabel")
    choose(page, "heat-axis", "1")
    assert page.text("#executions-title") == "Operators by step"
    assert "4 operators by 2 steps" in page.js("return document.querySelector('#heat-map').ariaLabel")
    choose(page, "heat-axis", "2")
    assert "4 operators by 6 executions" in page.js("return document.querySelector('#heat-map').ariaLabel")


def test_an_execution_in_which_nothing_was_to_be_compared_has_no_column(open_report: Open) -> None:
    found = sample()
    alone = missing_golden(len(found.rows), "Iterations", expected=True)
    nowhere = replace(alone.pair.target, node=NodeKey(Execution(), "Iterations"))
    rows = (*found.rows, replace(alone, pair=replace(alone.pair, target=nowhere)))
    page = opened(open_report, comparison(*rows, findings=found.findings, gate_passed=False))
    for axis, columns in enumerate(("3 ranks", "2 steps", "6 executions")):
        choose(page, "heat-axis", str(axis))
        assert columns in page.js("return document.querySelector('#heat-map').ariaLabel")


def test_arrow_keys_start_at_the_origin_and_tell_the_cells(open_report: Open) -> None:
    page = opened(open_report, sample())
    choose(page, "heat-mode", "error")
    focus(page)
    said = []
    for keys in (DOWN, LEFT, UP, RIGHT, END, HOME):
        page.keys(keys, MAP)
        said.append(page.js(f"return {SAID}"))
    figures = [each.partition(": ")[2].split(",")[0] for each in said]
    assert [each.partition(":")[0] for each in said] == [
        "Add_1, rank 1",
        "Add_1, rank 0",
        "Gelu_1, rank 0",
        "Gelu_1, rank 1",
        "Mul_1, rank 1",
        "MatMul_1, rank 1",
    ]
    assert figures == ["carries it on", "fine", "fine", "wrong here", "carries it on", "fine"]
    assert "relative_euclidean_distance 0.25" in said[3]


def test_enter_opens_the_row_of_a_cell(open_report: Open) -> None:
    page = opened(open_report, sample())
    focus(page)
    page.keys(ENTER, MAP)
    assert page.text("#panel-title") == "Gelu_1 output 0"
    assert "step 1" in page.text("#panel")
    assert "rank 1" in page.text("#panel")


def test_a_click_on_a_cell_opens_the_origin_in_it(open_report: Open) -> None:
    page = opened(open_report, sample())
    label, column = geometry(page)
    page.js(SPOT, label + column * 1.5, 22 + 18 * 1.5, "mousemove")
    assert page.text(".heat-tip").startswith("Gelu_1, rank 1: wrong here")
    page.js(SPOT, label + column * 1.5, 22 + 18 * 1.5, "click")
    assert page.text("#panel-title") == "Gelu_1 output 0"


def test_a_click_on_a_heading_shows_that_rank_alone_and_a_second_one_all(open_report: Open) -> None:
    page = opened(open_report, sample())
    label, column = geometry(page)
    page.js(SPOT, label + column * 2.5, 8, "click")
    assert page.text("#row-count") == "8 of 24 rows"
    assert page.js("return document.getElementById('filter-rank').value") == "2"
    page.js(SPOT, label + column * 2.5, 8, "click")
    assert page.text("#row-count") == "24 rows"


def test_a_rank_that_is_chosen_narrows_the_map_by_step(open_report: Open) -> None:
    page = opened(open_report, sample())
    choose(page, "heat-axis", "1")
    choose(page, "filter-rank", "0")
    focus(page)
    page.keys(END, MAP)
    page.keys(RIGHT, MAP)
    assert page.js(f"return {SAID}").startswith("Mul_1, step 1: fine")


def test_only_operators_that_are_off_are_listed_on_demand(open_report: Open) -> None:
    rows = [*executed(0, 0, 0), missing_golden(4, "Cast_9", expected=True), *executed(1, 1, 5)]
    found = (origin(6, "Gelu_1", node=rows[6].pair.shown.node),)
    page = opened(open_report, comparison(*rows, findings=found, gate_passed=False))
    sizes = {}
    for which in ("compared", "wrong", "all"):
        choose(page, "heat-which", which)
        sizes[which] = page.js("return document.querySelector('#heat-map').ariaLabel").split()[3]
    assert sizes == {"compared": "4", "wrong": "3", "all": "5"}


def test_the_share_of_the_error_that_is_explained_comes_first(open_report: Open) -> None:
    found = sample()
    rows = tuple(
        replace(row, verdict=replace(row.verdict, excess=42.0 if row.verdict.role is Role.ORIGIN else 0.25))
        for row in found.rows
    )
    page = opened(open_report, replace(found, rows=rows))
    assert page.js("return document.getElementById('heat-mode').value") == "excess"
    focus(page)
    page.keys(DOWN, MAP)
    assert page.js(f"return {SAID}") == "Add_1, rank 1: carries it on, 0.25 times its limit"
    page.keys(UP, MAP)
    assert page.js(f"return {SAID}") == "Gelu_1, rank 1: wrong here, 42 times its limit"


def test_roles_are_told_by_sign_and_by_colour(open_report: Open) -> None:
    page = opened(open_report, sample())
    choose(page, "heat-mode", "role")
    legend = page.js("return [...document.querySelectorAll('.heat-key li')].map((each) => each.innerText.split('\\n'))")
    assert legend == [["\u25c6", "wrong here"], ["\u21b3", "carries it on"], ["fine"]]
    focus(page)
    page.keys(DOWN, MAP)
    assert page.js(f"return {SAID}") == "Add_1, rank 1: carries it on"


def test_a_row_that_only_misses_the_row_rule_is_fine_and_one_that_nothing_explains_is_not(open_report: Open) -> None:
    rows = list(sample().rows)
    rows[0] = replace(rows[0], verdict=replace(rows[0].verdict, status=Status.FAIL))
    rows[4] = replace(rows[4], verdict=replace(rows[4].verdict, status=Status.FAIL, role=Role.UNKNOWN))
    page = opened(open_report, comparison(*rows))
    choose(page, "heat-mode", "role")
    focus(page)
    for keys in (HOME, LEFT, LEFT):
        page.keys(keys, MAP)
    assert page.js(f"return {SAID}") == "MatMul_1, rank 0: fine"
    page.keys(RIGHT, MAP)
    assert page.js(f"return {SAID}") == "MatMul_1, rank 1: over its limit"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_cells_have_the_colours_of_the_theme(open_report: Open, scheme: str) -> None:
    page = opened(open_report, sample(), scheme=scheme)
    wanted = page.js(
        "const [r, g, b] = probeFlow.cssColor('origin-3').match(/[0-9a-f]{2}/g).map((part) => parseInt(part, 16));"
        "return `${r} ${g} ${b}`"
    )
    assert wanted in page.js(INK)


def test_print_shows_what_is_off_in_light_colours(open_report: Open) -> None:
    page = opened(open_report, sample(), scheme="dark")
    page.js("dispatchEvent(new Event('beforeprint'))")
    assert page.text(".heat-tip") == "3 of 4 operators shown here."
    assert "125 31 0" in page.js(INK)
    assert page.js("return document.documentElement.classList.contains('dark')") is True
    page.js("dispatchEvent(new Event('afterprint'))")
    assert page.text(".heat-tip").startswith("One cell")


def test_what_only_a_later_execution_has_stands_behind_its_neighbour(open_report: Open) -> None:
    rows = [*executed(0, 0, 0), *executed(1, 0, 4, ("MatMul_1", "Cast_5", "Gelu_1", "Add_1", "Mul_1"))]
    page = opened(open_report, comparison(*rows))
    focus(page)
    page.keys(HOME, MAP)
    page.keys(DOWN, MAP)
    assert page.js(f"return {SAID}") == "Cast_5, rank 0: not there"


def test_operators_of_one_name_in_two_graphs_are_two_unless_graphs_stand_across(open_report: Open) -> None:
    rows = []
    for rank in range(2):
        rows += executed(rank, 0, len(rows), ("Add_1", "Cast_5"), graph=7)
        rows += executed(rank, 0, len(rows), ("MatMul_1", "Add_1"), graph=10)
    page = opened(open_report, comparison(*rows))
    focus(page)
    said = []
    for keys in (HOME, DOWN, DOWN, DOWN):
        page.keys(keys, MAP)
        said.append(page.js(f"return {SAID}").partition(",")[0])
    names = ["graph 7 \u00b7 Add_1", "graph 7 \u00b7 Cast_5", "graph 10 \u00b7 MatMul_1", "graph 10 \u00b7 Add_1"]
    assert said == names
    choose(page, "heat-axis", "1")
    assert "3 operators by 2 graphs" in page.js("return document.querySelector('#heat-map').ariaLabel")
    page.keys(HOME, MAP)
    page.keys(RIGHT, MAP)
    assert page.js(f"return {SAID}").startswith("MatMul_1, graph 10: ")
    choose(page, "heat-axis", "2")
    assert "4 operators by 4 executions" in page.js("return document.querySelector('#heat-map').ariaLabel")


def test_hostile_names_are_drawn_as_text(open_report: Open) -> None:
    hostile = "<img src=x onerror=window.hacked=1>\u202ename"
    page = opened(open_report, sample(operators=(hostile, "Add_1")))
    focus(page)
    page.keys(HOME, MAP)
    assert page.js(f"return {SAID}").startswith("<img src=x onerror=window.hacked=1>\\u202ename, rank")
    assert page.js("return window.hacked") is None


def test_many_ranks_and_operators_open_at_the_origin(open_report: Open) -> None:
    names = [f"Add_{place}" for place in range(700)]
    names[500] = "Gelu_2"
    page = opened(open_report, sample(ranks=64, steps=1, operators=names))
    assert page.js("return document.querySelector('#heat-map').ariaLabel").startswith("Heat map of 700 operators by 64")
    assert page.js("return document.querySelector('#heat-map .heat-space').offsetHeight") > 12_000
    assert page.js("return document.querySelector('#heat-map canvas').height") < 2_000
    before = page.js("return document.querySelector('#heat-map').scrollTop")
    assert 480 * 18 < before < 500 * 18
    page.js(
        "const o = document.querySelector('.heat-overview'); const b = o.getBoundingClientRect();"
        "o.dispatchEvent(new MouseEvent('mousedown', {buttons: 1, clientX: b.left + 9, clientY: b.bottom - 2}))"
    )
    assert page.js("return document.querySelector('#heat-map').scrollTop") > before + 100
