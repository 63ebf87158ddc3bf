"""The HTML report in a browser: what a person sees, finds and reaches by keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from report_builders import catalog, comparison, good_row, key, measurement, missing_golden, origin, row, tensor

from probe_flow.records import (
    Comparison,
    Coverage,
    Edge,
    Expectation,
    Reason,
    Role,
    Row,
    SlotRole,
    Status,
    TensorDetail,
)
from tests.support.rules import kind_of

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

SELECTED = "document.querySelector('#table .tabulator-row.selected [tabulator-field=name]')?.innerText ?? ''"
SHOWN = "[...document.querySelectorAll('#table .tabulator-row')].map((row) => row.innerText)"
COLUMN = "[...document.querySelectorAll('#table .tabulator-row [tabulator-field={}]')].map((cell) => cell.innerText)"
HOSTILE = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>\u202edrow\x1b[0m\"'&"
ROWS = 100_000
READY_MS = 20_000
"""Generous: under a second on an idle machine."""
MINUS = "\N{MINUS SIGN}"


def failing_row(order: int, name: str, error: float, *, role: Role = Role.CLEAN, **more: Any) -> Row:
    given = {
        "target": tensor(name),
        "golden": tensor(f"{name.lower()}_fx", side="golden"),
        "measured": measurement({"relative_euclidean_distance": error, "cosine": 1 - error**2}, worst_index=3),
        "reasons": (f"relative error is {error}, required below 0.001",),
        **more,
    }
    return row(order, status=Status.FAIL, role=role, **given)


def sample() -> Comparison:
    """Six rows of three nodes: the second node is where the error begins, the third inherits it."""
    gelu_input = failing_row(
        2, "Gelu_1", 0.002, target=tensor("Gelu_1", role=SlotRole.INPUT), golden=tensor("g", side="golden")
    )
    rows = (
        good_row(0, "Add_1"),
        missing_golden(1, "Cast_7", expected=True),
        gelu_input,
        failing_row(3, "Gelu_1", 0.08, role=Role.ORIGIN),
        failing_row(4, "MatMul_2", 0.09, role=Role.INHERITED),
        good_row(5, "Mul_4", measured=measurement({"relative_euclidean_distance": 0.0, "cosine": 1.0})),
    )
    flow = (Edge(key("Add_1"), 0, key("Gelu_1"), 0), Edge(key("Gelu_1"), 0, key("MatMul_2"), 0))
    return comparison(
        *rows,
        target=catalog("target", [each.pair.target for each in rows], edges=flow),
        findings=(origin(3, "Gelu_1"),),
        gate_passed=False,
        coverage={"target": Coverage(6, 5, 1), "golden": Coverage(5, 5)},
        details={3: TensorDetail(1, (0.5, 1.25, 8.0), (0.5, 1.0, 4.0), (0.01, 0.1, 10.0), (40, 2), 22)},
    )


def test_the_report_opens_offline_and_asks_for_nothing(open_report: Open) -> None:
    page = open_report(sample())
    assert page.js("return performance.getEntriesByType('resource').length") == 0
    assert page.js("return document.querySelectorAll('noscript + #app:not([hidden])').length") == 1


def test_requests_are_refused_by_the_page_itself(open_report: Open) -> None:
    page = open_report(sample())
    script = """
      const done = arguments[0];
      document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
      fetch("https://example.invalid/").catch(() => {});
    """
    assert page.driver.execute_async_script(script) == "connect-src"
    assert any("Content Security Policy" in message for message in page.messages())


def test_the_first_screen_shows_verdict_origin_coverage_and_next_step(open_report: Open) -> None:
    page = open_report(sample())
    assert page.text("#verdict .word") == "FAIL"
    assert page.text("#headline") == "The target first goes wrong at Gelu_1 (AddV2)."
    assert "390 times what its inputs explain" in page.text("#verdict .first")
    assert "5 of 6 tensors" in page.text("#coverage")
    assert page.text("#next").startswith("Next step\n\nLook at the inputs and outputs of Gelu_1")
    bottom = page.js("return document.querySelector('.summary').getBoundingClientRect().bottom")
    assert 0 < bottom < page.js("return innerHeight")


def test_a_click_on_a_heading_sorts_with_empty_cells_last_either_way(open_report: Open) -> None:
    page = open_report(sample())
    heading = "[tabulator-field=relative_euclidean_distance] .tabulator-col-title"
    errors = COLUMN.format("relative_euclidean_distance")
    measured = [
        "0",
        *(f"{digits}{MINUS}{power}" for digits, power in (("1.00e", 3), ("2.00e", 3), ("8.00e", 2), ("9.00e", 2))),
    ]
    page.click(heading)
    assert page.js(f"return {errors}") == [*measured, ""]
    page.click(heading)
    assert page.js(f"return {errors}") == [*reversed(measured), ""]


def test_filters_of_role_and_row_rule_narrow_the_rows(open_report: Open) -> None:
    page = open_report(sample())
    page.click(".chip[data-role=fine]")
    assert page.text("#row-count") == "3 of 6 rows"
    assert page.js("return document.querySelector('.chip[data-role=fine]').ariaPressed") == "true"
    page.js(
        "const s = document.getElementById('filter-status'); s.value = 'fail'; s.dispatchEvent(new Event('change'))"
    )
    assert page.text("#row-count") == "1 of 6 rows"
    assert page.js(f"return {COLUMN.format('role')}") == ["\u25cf\nfine"]
    page.click("#reset")
    assert page.text("#row-count") == "6 rows"


def test_the_slash_key_leads_to_the_search_and_escape_gives_it_up(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("/")
    page.keys("matmul", "#search")
    page.wait("document.getElementById('row-count').textContent === '1 of 6 rows'")
    assert page.js("return document.activeElement.id") == "search"
    page.keys("\ue00c", "#search")
    assert page.text("#row-count") == "6 rows"


def test_the_search_finds_reasons_too(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("no golden operator", "#search")
    page.wait("document.getElementById('row-count').textContent === '1 of 6 rows'")
    assert "Cast_7" in page.js(f"return {SHOWN}")[0]


def test_a_search_without_a_hit_says_so(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("nothing like this", "#search")
    page.wait("document.getElementById('row-count').textContent === '0 of 6 rows'")
    assert page.text("#table .tabulator-placeholder") == "No row fits these filters."
    assert "None of these rows has an error" in page.text("#plot")


def test_keys_step_through_what_is_not_fine_in_both_directions(open_report: Open) -> None:
    page = open_report(sample())
    seen = []
    for keys in ("n", "n", "\ue014", "p", "\ue012"):
        page.keys(keys)
        seen.append(page.js(f"return {SELECTED}"))
    assert seen == [
        "Gelu_1 output 0",
        "MatMul_2 output 0",
        "MatMul_2 output 0",
        "Gelu_1 output 0",
        "Gelu_1 output 0",
    ]
    assert page.text("#said") == "Nothing more to look at above."


def test_steps_follow_the_order_shown(open_report: Open) -> None:
    page = open_report(sample())
    heading = "[tabulator-field=relative_euclidean_distance] .tabulator-col-title"
    page.click(heading)
    page.click(heading)
    page.keys("n")
    assert "MatMul_2" in page.js(f"return {SELECTED}")


def test_up_and_down_move_through_all_rows_and_enter_opens_the_panel(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("\ue015\ue015\ue013")
    assert "Add_1" in page.js(f"return {SELECTED}")
    page.keys("\ue007")
    assert page.text("#panel-title") == "Add_1 output 0"
    assert page.js("return document.activeElement.id") == "panel-title"
    page.keys("\ue00c", "#panel-title")
    assert page.js("return document.getElementById('panel').hidden") is True


def test_a_click_on_the_plot_leads_to_the_row(open_report: Open) -> None:
    from selenium.webdriver import ActionChains

    page = open_report(sample())
    over = page.driver.find_element("css selector", "#plot .u-over")
    page.js("document.getElementById('plot').scrollIntoView({block: 'center', behavior: 'instant'})")
    # The last row of six is exact: at the right edge, on the line for 0, half a decade above the lower edge.
    width, height = page.js("const o = arguments[0]; return [o.clientWidth, o.clientHeight]", over)
    ys = range(0, height, 8)
    for y in reversed(ys):
        ActionChains(page.driver).move_to_element_with_offset(over, width / 2 - width / 7, y - height / 2).perform()
        if page.js("return arguments[0].classList.contains('hit')", over):
            break
    assert "Mul_4 output 0" in page.text(".plot-tip")
    ActionChains(page.driver).click().perform()
    assert page.text("#panel-title") == "Mul_4 output 0"
    assert "Mul_4" in page.js(f"return {SELECTED}")


def test_the_panel_tells_everything_of_a_row(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    text = page.text("#panel")
    for part in (
        "wrong here \u00b7 the error begins here",
        "row rule torchair: fail",
        "relative error is 0.08, required below 0.001",
        "100 %",
        "float16",
        "float32",
        "AddV2.Gelu_1.1.2.1706596912161941",
        "Largest error at element 3, index [1, 1]",
        "[1, 1] largest error",
        "0.01 to 0.1",
    ):
        assert part in text, part
    statistics = page.js(
        "return [...document.querySelectorAll('#panel .sides tr')].map((row) => row.innerText.split('\\t'))"
    )
    assert ["max", "2.5", "2", "0.5"] in statistics


def test_metrics_are_explained_where_one_points(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    page.js("document.querySelector('#panel [data-metric=cosine]').focus()")
    assert "Both tensors zero: 1" in page.text("#tip")


def test_the_panel_links_to_the_other_tensors_and_nodes(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    links = page.js("return [...document.querySelectorAll('#panel .links button')].map((link) => link.innerText)")
    assert links == ["input 0", "output 0", "input 0 ← Add_1", "output 0 → MatMul_2"]
    page.js("[...document.querySelectorAll('#panel .links button')].pop().click()")
    assert page.text("#panel-title") == "MatMul_2 output 0"


def test_a_row_without_a_closer_look_says_how_to_get_one(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("nn\ue007")
    assert 'where: {node: "MatMul_2"}' in page.text("#panel")


def test_an_unmatched_row_shows_its_reason(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("\ue015\ue015\ue007")
    assert "no golden operator corresponds to Cast_7" in page.text("#panel")
    assert "An expected gap" in page.text("#panel")


def test_opening_a_row_that_filters_hide_gives_the_filters_up(open_report: Open) -> None:
    page = open_report(sample())
    page.click(".chip[data-role=fine]")
    page.click("#open-origin")
    assert page.text("#row-count") == "6 rows"
    assert "Gelu_1 output 0" in page.js(f"return {SELECTED}")


def test_executions_are_chosen_by_rank(open_report: Open) -> None:
    rows = []
    for rank in (0, 1):
        for place in range(3):
            node = key(f"Add_{place}", rank=rank)
            golden = tensor("g", side="golden", node=key(f"g_{place}", rank=rank))
            rows.append(good_row(len(rows), target=tensor(node=node), golden=golden))
    page = open_report(comparison(*rows))
    page.js("const s = document.getElementById('filter-rank'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    assert page.text("#row-count") == "3 of 6 rows"
    assert page.js(f"return {COLUMN.format('execution')}") == ["rank 1 graph 1 step 0"] * 3


def test_hostile_names_are_text_and_run_nothing(open_report: Open) -> None:
    reason = Reason(kind_of("odd"), HOSTILE, Expectation.MISSING)
    wrong = row(
        0,
        target=tensor(HOSTILE, node=key(HOSTILE), value=HOSTILE, file="a/<b>.npy"),
        golden=tensor(HOSTILE, side="golden", node=key(HOSTILE)),
        measured=measurement({"relative_euclidean_distance": 0.5}),
        status=Status.FAIL,
        role=Role.ORIGIN,
        reasons=(HOSTILE,),
        rule=HOSTILE,
        reason=reason,
    )
    found = comparison(wrong, findings=(origin(0, HOSTILE, evidence=HOSTILE),), gate_passed=False, policy=HOSTILE)
    page = open_report(found)
    page.click("#open-origin")
    page.keys("img", "#search")
    page.wait("document.getElementById('row-count').textContent === '1 row'")
    assert page.js("return window.hacked") is None
    assert page.js("return document.images.length + document.querySelectorAll('#app script').length") == 0
    assert page.text("#panel-title").startswith("<img src=x onerror=window.hacked=1></script>")
    assert "\\u202edrow\\x1b[0m" in page.text("#panel-title")


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_the_theme_follows_the_system_and_its_button(open_report: Open, scheme: str, is_dark: bool) -> None:
    page = open_report(sample(), scheme=scheme)
    dark = "document.documentElement.classList.contains('dark')"
    assert page.js(f"return {dark}") is is_dark
    before = page.js("return getComputedStyle(document.body).backgroundColor")
    page.click("#theme-button")
    assert page.js(f"return {dark}") is not is_dark
    assert page.js("return getComputedStyle(document.body).backgroundColor") != before
    page.js("localStorage.clear()")


def test_print_shows_the_panel_in_the_flow_of_the_page(open_report: Open) -> None:
    page = open_report(sample(), media="print")
    page.click("#open-origin")
    script = """
      const shown = [...document.querySelectorAll('#app *')].filter((each) => each.offsetWidth);
      return shown.filter((each) => getComputedStyle(each).position === 'fixed').length;
    """
    assert page.js(script) == 0
    assert page.js("return getComputedStyle(document.getElementById('panel')).position") == "static"
    assert page.js("return document.getElementById('filters').offsetHeight") == 0


def test_every_control_has_a_name(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    script = """
      const controls = [...document.querySelectorAll('#app button, #app select, #app input')];
      const isNamed = (each) => each.ariaLabel || each.innerText || each.labels?.length;
      return controls.filter((each) => !isNamed(each)).map((each) => each.outerHTML);
    """
    assert page.js(script) == []
    assert page.js("return [document.querySelectorAll('main').length, document.querySelectorAll('h1').length]") == [
        1,
        1,
    ]


def test_a_comparison_without_rows_opens(open_report: Open) -> None:
    page = open_report(comparison())
    assert page.text("#row-count") == "0 rows"
    assert page.text("#table .tabulator-placeholder") == "There is no row."


def test_a_hundred_thousand_rows_open_and_scroll(open_report: Open) -> None:
    wrong = failing_row(ROWS - 1, "Last_1", 0.5, role=Role.ORIGIN)
    shared = measurement({"relative_euclidean_distance": 1e-4, "cosine": 1.0})
    nodes = [key(f"Add_{place}") for place in range(ROWS // 100)]
    rows = [good_row(place, target=tensor(node=nodes[place // 100]), measured=shared) for place in range(ROWS - 1)]
    page = open_report(comparison(*rows, wrong, findings=(origin(ROWS - 1, "Last_1"),), gate_passed=False))
    assert page.text("#row-count") == "100,000 rows"
    assert page.js("return document.querySelectorAll('#table .tabulator-row').length") < 200
    page.js("const t = document.querySelector('.tabulator-tableholder'); t.scrollTop = t.scrollHeight / 2")
    page.wait(f"{COLUMN.format('order')}.some((order) => /^(49|50),/.test(order))")
    page.js("document.querySelectorAll('#table .tabulator-row')[25].click()")
    page.wait("!document.getElementById('panel').hidden")
    assert page.text("#panel-title") in ("Add_499 output 0", "Add_500 output 0")
    page.wait(f"({SELECTED}) === document.getElementById('panel-title').innerText")  # opening it keeps the place
    page.keys("n")
    page.wait(f"({SELECTED}) === 'Last_1 output 0'")
    assert int(page.js("return document.documentElement.dataset.ready")) < READY_MS
