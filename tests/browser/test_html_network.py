"""The network of an offline model in the HTML report: fused operators over what they were made of."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import catalog, comparison, key, measurement, missing_golden, origin, row, tensor

from probe_flow.records import Comparison, Edge, Group, Node, Relation, Role, Row, SlotRole, Status

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

HOSTILE = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>\u202edrow"
TEXTS = (
    "[...document.querySelectorAll('#network-box .unit')]"
    ".map((unit) => [...unit.querySelectorAll('text:not(.sign)')].map((text) => text.textContent))"
)
SAID = "[...document.querySelectorAll('#network-box .unit')].map((unit) => unit.ariaLabel)"
COUNT = "document.getElementById('network-count').innerText"
CURRENT = "document.querySelector('#network-box .unit.current')?.ariaLabel ?? ''"
ENTER, UP, RIGHT, DOWN = "\ue007", "\ue013", "\ue014", "\ue015"
LUMINANCE = """
const part = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (color) => {
  const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map(part);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const units = [...document.querySelectorAll('#network-box .unit')];
const fill = (unit) => getComputedStyle(unit.querySelector('.body')).fill;
const name = (unit) => unit.querySelector('text').textContent;
"""
CONTRASTS = f"""{LUMINANCE}
return units.flatMap((unit) => [...unit.querySelectorAll('text:not(.sign)')].map((text) => {{
  const inner = text.classList.contains('original') ? getComputedStyle(unit.querySelector('.inner')).fill : 'none';
  return contrast(getComputedStyle(text).fill, inner === 'none' ? fill(unit) : inner);
}}));
"""
FILLS = f"{LUMINANCE} return Object.fromEntries(units.map((unit) => [name(unit), fill(unit)]));"
PROMINENCE = f"""{LUMINANCE}
const surface = getComputedStyle(document.querySelector('.card')).backgroundColor;
return Object.fromEntries(units.map((unit) => [name(unit), contrast(fill(unit), surface)]));
"""


def compared(order: int, name: str, group: str, error: float = 1e-4, **more: Any) -> Row:
    measured = measurement({"relative_euclidean_distance": error, "cosine": 1.0})
    sides = {"target": tensor(name), "golden": tensor(f"{name}_golden", side="golden")}
    return row(order, group=group, measured=measured, **{"status": Status.PASS, "role": Role.CLEAN, **sides, **more})


def fused() -> Comparison:
    """A fused convolution, which is wrong, then an average that the device does with two operators."""
    target = tensor("conv1relu1", role=SlotRole.INPUT)
    weight = replace(missing_golden(0, "conv1relu1", expected=True), order=0)
    rows = (
        replace(weight, pair=replace(weight.pair, target=target, grouping="1")),
        compared(1, "conv1relu1", "1", 0.25, status=Status.FAIL, role=Role.ORIGIN),
        compared(2, "gap_sum", "2", 0.3, status=Status.FAIL, role=Role.INHERITED),
        compared(3, "gap", "2", 0.3, status=Status.FAIL, role=Role.INHERITED),
        compared(4, "softmax", "3", 0.3, status=Status.FAIL, role=Role.INHERITED),
    )
    nodes = {
        key("conv1relu1"): Node(key("conv1relu1"), "Conv2D", originals=("conv1", "bn1", "relu1"), order=0),
        key("gap_sum"): Node(key("gap_sum"), "ReduceSumD", originals=("gap",), order=1),
        key("gap"): Node(key("gap"), "RealDiv", originals=("gap",), order=2),
        key("softmax"): Node(key("softmax"), "SoftmaxV2", originals=("softmax",), order=3),
    }
    names = ("conv1relu1", "gap_sum", "gap", "softmax")
    edges = tuple(Edge(key(one), 0, key(other), 0) for one, other in pairwise(names))
    groups = (
        Group("1", Relation.ONE_TO_MANY, (key("conv1relu1"),), ()),
        Group("2", Relation.MANY_TO_ONE, (key("gap_sum"), key("gap")), ()),
        Group("3", Relation.ONE_TO_ONE, (key("softmax"),), ()),
    )
    return comparison(
        *rows,
        target=catalog("target", [each.pair.target for each in rows], edges=edges, nodes=nodes),
        groups=groups,
        findings=(origin(1, "conv1relu1"),),
        gate_passed=False,
    )


def chain(names: Sequence[str], *, failing: str = "") -> Comparison:
    rows = tuple(
        compared(order, name, "g0", role=Role.INHERITED if name == failing else Role.CLEAN)
        for order, name in enumerate(names)
    )
    edges = tuple(Edge(key(one), 0, key(other), 0) for one, other in pairwise(names))
    return comparison(*rows, target=catalog("target", [each.pair.target for each in rows], edges=edges))


def test_a_fused_operator_stands_over_what_it_was_made_of(open_report: Open) -> None:
    page = open_report(fused())
    assert page.js(f"return {TEXTS}") == [
        ["conv1relu1", "wrong here, 390 times its limit", "Conv2D \u00b7 2.50e\u22121", "conv1", "bn1", "relu1"],
        ["gap_sum", "gap", "ReduceSumD, RealDiv \u00b7 3.00e\u22121", "gap"],
        ["softmax", "SoftmaxV2 \u00b7 3.00e\u22121"],
    ]
    assert page.js("return document.querySelectorAll('#network-box .way').length") == 2
    assert page.text("#network-count") == "3 operators"
    assert (
        page.js(f"return {SAID}")[0] == "conv1relu1, Conv2D, made of conv1, bn1, relu1: wrong here, 390 times its limit"
    )


def test_boxes_follow_the_flow_from_top_to_bottom_without_touching(open_report: Open) -> None:
    page = open_report(fused())
    boxes = page.js(
        "return [...document.querySelectorAll('#network-box .body')].map((body) => {"
        " const {top, bottom, left, right} = body.getBoundingClientRect(); return [top, bottom, left, right]; })"
    )
    for above, below in pairwise(boxes):
        assert above[1] + 20 < below[0]
    widths = page.js(
        "return [...document.querySelectorAll('#network-box .unit')].map((unit) => {"
        " const body = unit.querySelector('.body').getBoundingClientRect();"
        " return [...unit.querySelectorAll('text')].every((text) => { const box = text.getBoundingClientRect();"
        " return box.left >= body.left && box.right <= body.right && box.bottom <= body.bottom; }); })"
    )
    assert widths == [True, True, True]


def test_an_operator_opens_its_worst_row_by_click_and_by_key(open_report: Open) -> None:
    page = open_report(fused())
    page.js("document.querySelector('#network-box .unit').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert page.text("#panel-title") == "conv1relu1 output 0"
    assert page.js(f"return {CURRENT}").startswith("conv1relu1")
    page.keys(ENTER, "#network-box .unit:nth-of-type(5)")
    assert page.text("#panel-title").startswith("softmax")
    assert page.js(f"return {CURRENT}").startswith("softmax")


def test_tab_stops_at_one_operator_and_arrows_reach_all(open_report: Open) -> None:
    page = open_report(chain([f"op_{number}" for number in range(300)], failing="op_299"))
    stops = "document.querySelectorAll('#network [tabindex=\"0\"]').length"
    here = "document.activeElement.getAttribute('aria-label')"
    assert page.js(f"return {stops}") == 1
    page.keys(DOWN, "#network-box [tabindex='0']")
    assert page.js(f"return {here}").startswith("op_1, ")
    for number in range(2, 100):
        page.keys(RIGHT, "#network-box [tabindex='0']")
        assert page.js(f"return {here}").startswith(f"op_{number}, ")
    page.keys(UP, "#network-box [tabindex='0']")
    box, place = page.js(
        "return ['#network-box', '#network-box :focus'].map((s) => {"
        " const { top, bottom } = document.querySelector(s).getBoundingClientRect(); return [top, bottom]; })"
    )
    assert box[0] <= place[0] <= place[1] <= box[1], "the one with the focus is in sight"
    page.keys(ENTER, "#network-box [tabindex='0']")
    assert page.text("#panel-title").startswith("op_98")
    assert page.js(f"return {stops}") == 1


def test_of_a_large_network_what_is_near_the_selected_operator_is_drawn(open_report: Open) -> None:
    page = open_report(chain([f"op_{number}" for number in range(300)], failing="op_299"))
    assert page.js(f"return {COUNT}") == "80 of 300 operators, the nearest to op_0"
    page.keys("n")
    page.wait(f"{COUNT} === '80 of 300 operators, the nearest to op_299'")
    assert page.js(f"return {TEXTS}")[-1][0] == "op_299"


def test_paper_has_the_part_of_a_network_that_is_looked_at_and_all_columns_of_the_table(open_report: Open) -> None:
    page = open_report(chain([f"op_{number}" for number in range(60)], failing="op_40"))
    printed = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pages = base64.b64decode(printed["data"]).count(b"/Type /Page\n")
    assert pages <= 4, "verdict and plot, network, rows, provenance; the network alone took six"
    width, zoom = page.js(
        "const style = getComputedStyle(document.documentElement);"
        "return [document.getElementById('table').offsetWidth, Number(style.getPropertyValue('--print-zoom'))]"
    )
    assert width > 1000
    assert 600 < width * zoom <= 641, "the width of paper"


def test_names_from_dumps_are_text(open_report: Open) -> None:
    page = open_report(chain([HOSTILE, "b"]))
    assert page.js("return window.hacked") is None
    assert "\\u202e" in page.js(f"return {SAID}")[0]


def test_without_data_flow_there_is_no_network(open_report: Open) -> None:
    page = open_report(chain(["alone"]))
    assert page.js("return document.getElementById('network').hidden")
    assert page.js("return document.getElementById('network-jump').hidden")


def test_what_is_wrong_is_drawn_however_far_away_the_selected_operator_is(open_report: Open) -> None:
    found = chain([f"op_{number}" for number in range(300)])
    rows = list(found.rows)
    rows[7] = replace(rows[7], verdict=replace(rows[7].verdict, role=Role.ORIGIN))
    page = open_report(replace(found, rows=tuple(rows), findings=(origin(7, "op_7"),), gate_passed=False))
    page.js("document.querySelectorAll('#table .tabulator-row')[0].click()")
    page.keys("op_299", "#search")
    page.wait("document.getElementById('row-count').textContent === '1 of 300 rows'")
    page.js("document.querySelector('#table .tabulator-row').click()")
    page.wait(f"{COUNT} === '80 of 300 operators, the nearest to op_299 and to what is wrong'")
    names = [texts[0] for texts in page.js(f"return {TEXTS}")]
    assert {"op_7", "op_299"} <= set(names)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_on_their_boxes(open_report: Open, scheme: str) -> None:
    page = open_report(fused(), scheme=scheme)
    contrasts = page.js(CONTRASTS)
    assert len(contrasts) > 10
    assert min(contrasts) >= 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_wrong_operator_is_the_most_prominent_box_and_no_carrier_looks_fine(open_report: Open, scheme: str) -> None:
    found = chain(["healthy", "wrong", "carrier", "last"])
    looks = {
        "healthy": (Status.FAIL, Role.CLEAN, 0.4),
        "wrong": (Status.PASS, Role.ORIGIN, 5.0),
        "carrier": (Status.PASS, Role.INHERITED, 0.5),
        "last": (Status.PASS, Role.CLEAN, 0.1),
    }
    rows = []
    for each in found.rows:
        status, role, excess = looks[each.pair.shown.node.name]
        rows.append(replace(each, verdict=replace(each.verdict, status=status, role=role, excess=excess)))
    page = open_report(replace(found, rows=tuple(rows), findings=(origin(1, "wrong"),)), scheme=scheme)
    prominent = page.js(PROMINENCE)
    assert max(prominent, key=prominent.get) == "wrong"
    fills = page.js(FILLS)
    assert len({fills["carrier"], fills["healthy"], fills["wrong"]}) == 3
    classes = page.js("return [...document.querySelectorAll('#network-box .unit')].map((unit) => unit.classList[1])")
    assert classes == ["fine", "origin", "inherited", "fine"]
    borders = page.js(
        "return [...document.querySelectorAll('#network-box .body')]"
        ".map((body) => parseFloat(getComputedStyle(body).strokeWidth))"
    )
    assert borders.index(max(borders)) == 1
