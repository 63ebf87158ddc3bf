"""The plot of several ranks: a lane for each, its steps named, one operator at one place in all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import comparison, key, origin, row, tensor
from report_pictures import MARKS, WRITTEN, sample

from probe_flow.records import Comparison, ErrorShape, Flow, Role, Status

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

ESCAPE = "\ue00c"


@pytest.fixture
def lanes_of(open_report: Open) -> Callable[[Comparison], tuple[Any, list[str], dict[str, Any]]]:
    """Open a report; the page, what its plot writes, and the pixels of its marks."""

    def opened(found: Comparison, **how: str) -> tuple[Any, list[str], dict[str, Any]]:
        page = open_report(found, **how)
        texts = [text for text, _ in page.driver.execute_async_script(WRITTEN)]
        return page, texts, page.js(MARKS)

    return opened


def canvas(page: Any) -> tuple[int, int]:
    """The height of the canvas and of what is not lanes below them."""
    return page.js("return document.querySelector('#plot canvas').height"), 34


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_rank_has_a_lane_and_the_origin_stands_in_its_own(lanes_of: Any, scheme: str) -> None:
    page, texts, marks = lanes_of(sample(ranks=3, steps=1, operators=("MatMul_1", "Gelu_1")), scheme=scheme)
    assert [text for text in texts if text.startswith("rank ")] == ["rank 0", "rank 1", "rank 2"]
    # Step 1 of rank 1 is what goes wrong in these samples: with one step, nothing does.
    assert marks["origin"]["count"] == 0

    page, texts, marks = lanes_of(sample(ranks=3, steps=2), scheme=scheme)
    height, axis = canvas(page)
    lane = (height - axis) / 3
    middle = (marks["origin"]["top"] + marks["origin"]["bottom"]) / 2
    assert marks["origin"]["count"] > 100
    assert lane < middle < 2 * lane, "in the second lane, that of rank 1"
    assert lane - 5 < marks["inherited"]["top"] < marks["inherited"]["bottom"] < 2 * lane, "and what inherits it"


def test_steps_are_named_where_they_begin(lanes_of: Any) -> None:
    _, texts, _ = lanes_of(sample(ranks=2, steps=3))
    named = [text for text in texts if "step" in text]
    assert named == ["rank 0 \u00b7 step 0", "rank 1 \u00b7 step 0", "step 1", "step 2"], (
        "each once, as texts are unique"
    )


def test_one_rank_with_steps_is_one_lane_with_names(lanes_of: Any) -> None:
    _, texts, _ = lanes_of(sample(ranks=1, steps=2))
    assert [text for text in texts if "step" in text or "rank" in text] == ["step 0", "step 1"]


def test_one_execution_has_neither_names_nor_room_for_them(lanes_of: Any) -> None:
    page, texts, _ = lanes_of(sample(ranks=1, steps=1))
    assert not [text for text in texts if "step" in text or "rank" in text]
    assert canvas(page)[0] == 280


def test_a_rank_without_any_figure_has_no_lane(lanes_of: Any) -> None:
    """Golden tensors without counterpart are in executions of their own, of no rank."""
    alone = [
        row(
            100 + n, golden=tensor(f"g{n}", side="golden", node=key(f"g{n}", rank=None)), status=Status.UNMATCHED_GOLDEN
        )
        for n in range(9)
    ]
    given = sample(ranks=1, steps=1)
    page, texts, _ = lanes_of(comparison(*given.rows, *alone))
    assert [text for text in texts if "rank" in text] == []
    height, axis = canvas(page)
    assert height - axis == 246, "one lane of full height"
    assert page.js("return document.getElementById('plot').clientHeight") < 300


def test_one_operator_stands_at_one_place_in_all_lanes(open_report: Open) -> None:
    """Two steps of two ranks, step by step, two operators each: rows 0 to 7."""
    page = open_report(sample(ranks=1, steps=1))
    places = page.js(
        "const executions = [[0, 0], [1, 0], [0, 1], [1, 1]].map(([rank, step]) => ({rank, step, graph: 1}));"
        "const lanes = new probeFlow.Lanes({count: 8, executions, execution: (row) => Math.floor(row / 2)});"
        "lanes.choose([0, 1, 2, 3, 4, 5, 6, 7], () => false);"
        "return [0, 1, 2, 3, 4, 5, 6, 7].map((row) => [lanes.lane(row), lanes.x(row)])"
    )
    assert places == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3]]


def test_of_many_ranks_those_where_something_begins_have_a_lane(lanes_of: Any) -> None:
    page, texts, marks = lanes_of(sample(ranks=64, steps=2, operators=("MatMul_1", "Gelu_1", "Gelu_2")))
    named = [text.split(" \u00b7 ")[0] for text in texts if text.startswith("rank ")]
    assert named == ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4", "rank 63"]
    assert marks["origin"]["count"] > 200
    note = page.text("#plot .lanes-left")
    assert note.startswith("6 of 64 ranks: those where something begins come first.")


def test_filtering_to_one_rank_moves_nothing_below_the_plot(lanes_of: Any) -> None:
    page, _, _ = lanes_of(sample(ranks=4, steps=1))
    below = "return document.getElementById('rows').getBoundingClientRect().top + scrollY"
    before = page.js(below)
    page.js(
        "const s = document.getElementById('search'); s.value = 'nothing like that';"
        "s.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    page.wait("document.querySelector('#plot .empty')")
    assert abs(page.js(below) - before) <= 30, "the legend goes with the marks"


def test_a_click_on_a_mark_opens_the_row_of_its_lane(open_report: Open) -> None:
    """The ring around the origin says where its mark is; it is in the second lane, at the place of its rank."""
    page = open_report(sample(ranks=2, steps=2))
    page.keys("o", "body")
    page.wait("!document.querySelector('.ring').hidden")
    opened = page.text("#panel")
    page.keys(ESCAPE, "body")
    is_below = page.js(  # at once, so that nothing moves in between
        "const [ring, over] = ['.ring', '#plot .u-over'].map((each) => document.querySelector(each));"
        "const [mark, lanes] = [ring, over].map((each) => each.getBoundingClientRect());"
        "const at = {clientX: mark.left + mark.width / 2, clientY: mark.top + mark.height / 2, bubbles: true};"
        "for (const kind of ['mousedown', 'mouseup']) over.dispatchEvent(new MouseEvent(kind, at));"
        "return at.clientY > lanes.top + lanes.height / 2"
    )
    assert is_below
    page.wait("!document.getElementById('panel').hidden")
    assert page.text("#panel") == opened
    assert "rank 1" in opened


def test_the_panel_of_an_origin_says_what_to_do_by_the_shape_of_its_error(open_report: Open) -> None:
    given = sample(ranks=1, steps=2, operators=("MatMul_1", "Gelu_1"))
    rows = [replace(each, verdict=replace(each.verdict, role=Role.ORIGIN)) for each in given.rows[1:2]]
    wrong = replace(
        origin(1, "Gelu_1", node=rows[0].pair.shown.node), shape=ErrorShape.TAIL, shape_at="index 9 of axis 0"
    )
    page = open_report(comparison(given.rows[0], *rows, *given.rows[2:], findings=(wrong,), gate_passed=False))
    page.keys("o", "body")
    page.wait("!document.getElementById('panel').hidden")
    sections = page.js("return [...document.querySelectorAll('#panel h3')].map((each) => each.innerText)")
    assert sections[:2] == ["Verdict", "Next step"]
    assert "is wrong at index 9 of axis 0 only, the end of it" in page.text("#panel")
    page.keys("\ue013", "#table")
    page.wait("!document.getElementById('panel').innerText.includes('Next step')")


def test_arrays_have_no_order_of_execution(open_report: Open) -> None:
    given = sample(ranks=1, steps=1)
    loose = replace(given, pairs=replace(given.pairs, target=replace(given.pairs.target, flow=Flow.NONE)))
    assert open_report(loose).text("#error-title") == "Error of each tensor, by name"
    assert open_report(given).text("#error-title") == "Error along execution order"
