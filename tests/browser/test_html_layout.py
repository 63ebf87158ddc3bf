"""Where things stand on narrow pages, and how much room long names take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import comparison, good_row, measurement, origin, row, tensor
from report_pictures import COLOURS, WRITTEN, sample

from probe_flow.records import Role, SideSummary, Statistics, Status

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
AtWidth = Callable[[Any, int], None]

LINKS = """
return [...document.querySelectorAll('.jumps a:not([hidden])')].map((link) => {
  const box = link.getBoundingClientRect();
  const isSeen = box.width > 0 && box.left >= 0 && box.right <= innerWidth;
  return [link.innerText, isSeen && document.querySelector(link.hash).offsetParent !== null];
});
"""
FOLLOWED = """
// Sections whose heading a click on their link leaves below the page or under the bar that stays at its top.
document.documentElement.style.scrollBehavior = 'auto';
const bar = document.querySelector('.top');
return [...document.querySelectorAll('.jumps a:not([hidden])')].filter((link) => {
  link.click();
  const { top } = document.querySelector(link.hash).querySelector('h2').getBoundingClientRect();
  return top < bar.getBoundingClientRect().bottom || top > innerHeight;
}).map((link) => link.hash);
"""
BEYOND = """
// What reaches over the right edge, but for what its own scroll bar or clipping holds.
const held = (each) => each !== document.body
  && (['auto', 'scroll', 'hidden'].includes(getComputedStyle(each).overflowX) || held(each.parentElement));
return [...document.querySelectorAll('body *')].filter((each) => {
  const { width, right } = each.getBoundingClientRect();
  return width && right > document.documentElement.clientWidth + 1 && !held(each.parentElement);
}).map((each) => `${each.tagName} ${each.id} ${each.className}`);
"""
BROKEN = """
// Numbers in tables and sentences that stand in several lines.
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const { data, parentElement } = walker.currentNode;
  if (parentElement.closest('.path, .files, .name, #provenance')) continue;
  for (const { 0: text, index } of data.matchAll(/[-\\u2212]?\\d[\\d.]*(e[-\\u2212]?\\d+)?/g)) {
    const range = document.createRange();
    range.setStart(walker.currentNode, index);
    range.setEnd(walker.currentNode, index + text.length);
    const boxes = [...range.getClientRects()].filter((box) => box.width);
    if (new Set(boxes.map((box) => Math.round(box.top))).size > 1) found.push(text);
  }
}
return found;
"""
PANEL = "document.querySelector('.panel-body')"
LINES = """
const headline = document.getElementById('headline');
return headline.clientHeight / parseFloat(getComputedStyle(headline).lineHeight);
"""
ENDS = """
return [...document.querySelector('#headline .abridged').childNodes]
  .filter((each) => !each.matches?.('.middle'))
  .map((each) => each.textContent);
"""
SEARCH = """
const box = document.getElementById('search');
box.value = 'Add_3';
box.dispatchEvent(new Event('input'));
"""
PLACEHOLDER = "document.querySelector('#table .tabulator-placeholder span')"
CONTRAST = f"""
const surface = getComputedStyle(document.querySelector('.card')).backgroundColor;
return contrast(getComputedStyle({PLACEHOLDER}).color, surface);
"""
COPIED = """
const place = document.querySelector(arguments[0]);
getSelection().selectAllChildren(place);
return getSelection().toString();
"""


@pytest.fixture
def at_width(chromium: Any) -> Iterator[AtWidth]:
    """Give the page a width; the test's end gives the window its own again."""

    def narrowed(page: Any, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    yield narrowed
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [600, 1400, 2560])
def test_links_to_all_sections_stand_at_the_top(open_report: Open, at_width: AtWidth, width: int) -> None:
    page = open_report(sample(ranks=2, steps=2))
    at_width(page, width)
    links = page.js(LINKS)
    assert links == [[name, True] for name in ("Error", "Executions", "Rows", "Provenance")]
    assert page.js(FOLLOWED) == []


@pytest.mark.parametrize("width", [360, 420, 700, 1400])
def test_nothing_reaches_over_the_edge_of_the_page(open_report: Open, at_width: AtWidth, width: int) -> None:
    page = open_report(sample(ranks=2, steps=2))
    at_width(page, width)
    assert page.js(BEYOND) == []
    page.click("#open-origin")
    page.wait("!document.getElementById('panel').hidden")
    assert page.js(BEYOND) == []
    head = "document.querySelector('.panel-head')"
    assert page.js(f"return {head}.scrollWidth - {head}.clientWidth") == 0


@pytest.mark.parametrize("width", [360, 1400])
def test_no_number_is_broken(open_report: Open, at_width: AtWidth, width: int) -> None:
    name = f"Begin/{'inner/' * 9}Gelu_0"
    one, other = (
        SideSummary(Statistics(min=-value, max=value, mean=1e-5, l2norm=1.0)) for value in (0.0098765, 0.0012345)
    )
    known = measurement({"cosine": 0.98765, "max_abs_err": 1.2345e-5}, target=one, golden=other)
    evidence = " ".join(f"{'n' * number} 7.6e-05" for number in range(40))
    broken = replace(origin(0, name), evidence=evidence)
    sides = {"target": tensor(name), "golden": tensor(name, side="golden")}
    shown = row(0, **sides, measured=known, status=Status.FAIL, role=Role.ORIGIN)
    page = open_report(comparison(shown, findings=(broken,), gate_passed=False))
    at_width(page, width)
    page.click("#open-origin")
    page.wait("!document.getElementById('panel').hidden")
    assert page.js(BROKEN) == []
    assert page.js(f"return {PANEL}.scrollWidth - {PANEL}.clientWidth") == 0


def test_an_open_panel_hides_no_link(open_report: Open, at_width: AtWidth) -> None:
    page = open_report(sample(ranks=2, steps=2))
    at_width(page, 1400)
    page.click("#open-origin")
    page.wait("!document.getElementById('panel').hidden")
    edge = page.js("return document.getElementById('panel').getBoundingClientRect().left")
    rights = "[...document.querySelectorAll('.top a, .top button')].map((each) => each.getBoundingClientRect().right)"
    assert max(page.js(f"return {rights}")) <= edge


@pytest.mark.parametrize("length", [255, 5000])
def test_a_long_name_takes_two_lines_shows_both_ends_and_is_copied_whole(
    open_report: Open, at_width: AtWidth, length: int
) -> None:
    name = f"Begin/{'inner/' * (length // 6)}MatMul-op150"
    sides = {"target": tensor(name), "golden": tensor(f"g_{name}", side="golden")}
    page = open_report(
        comparison(
            row(0, **sides, status=Status.FAIL, role=Role.ORIGIN), findings=(origin(0, name),), gate_passed=False
        )
    )
    for width in (600, 1400):
        at_width(page, width)
        assert page.js(LINES) <= 4.1, "words and name together"
        assert page.js("return document.querySelector('.finding.first .place').clientHeight") < 160
    head, tail = page.js(ENDS)
    assert (head[:6], tail[-12:]) == ("Begin/", "MatMul-op150")
    assert len(head) + len(tail) < 64
    for place in ("#headline", ".finding.first .place", "#next .advice"):
        assert name in page.js(COPIED, place)
        assert page.js("return document.querySelector(`${arguments[0]} .abridged`).title", place).startswith(name)
    page.click("#open-origin")
    page.wait("!document.getElementById('panel').hidden")
    assert page.js("return document.getElementById('panel').querySelector('.panel-head').clientHeight") < 220
    assert name in page.js(COPIED, "#panel-title")


def test_the_name_of_an_origin_is_cut_where_the_plot_ends(open_report: Open, at_width: AtWidth) -> None:
    name = "Module.encoder." + "layers.0." * 20 + "Linear_7"
    rows = [good_row(order, f"Add_{order}") for order in range(9)]
    rows[4] = row(4, target=tensor(name), golden=tensor("g", side="golden"), status=Status.FAIL, role=Role.ORIGIN)
    page = open_report(comparison(*rows, findings=(origin(4, name),), gate_passed=False))
    lengths = []
    for width in (2560, 480):
        at_width(page, width)
        (text,) = [each for each, _ in page.driver.execute_async_script(WRITTEN) if each.startswith("wrong here")]
        assert text.endswith("r_7 (no figure)")
        lengths.append(len(text))
    assert lengths[1] < lengths[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_without_rows_says_so_where_it_is_read(open_report: Open, scheme: str) -> None:
    page = open_report(comparison(), scheme=scheme)
    assert page.text("#row-count") == "0 rows"
    assert page.text("#plot") == "There is nothing to plot."
    assert page.js("return document.getElementById('plot-metric').offsetParent") is None
    contrast = page.js(COLOURS + CONTRAST)
    assert contrast > 4.5
    middle = page.js(f"const box = {PLACEHOLDER}.getBoundingClientRect(); return (box.left + box.right) / 2")
    assert abs(middle - page.js("return document.getElementById('table').getBoundingClientRect().width") / 2) < 60
    assert open_report(comparison(good_row(0))).text("#row-count") == "1 row"


def test_few_rows_take_little_room_and_filters_move_nothing(open_report: Open) -> None:
    page = open_report(comparison(*(good_row(order, f"Add_{order}") for order in range(8))))
    height = page.js("return document.getElementById('table').clientHeight")
    assert 8 * 30 < height < 8 * 30 + 80
    page.js(SEARCH)
    page.wait("document.querySelectorAll('#table .tabulator-row').length === 1")
    assert page.js("return document.getElementById('table').clientHeight") == height
