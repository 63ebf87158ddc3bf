"""What a report can be sent on as: an address, a command, Markdown, CSV; and how its table is narrowed and laid out."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_builders import comparison, good_row, key, measurement, origin, row, tensor

from probe_flow.cli.show import command as show_command
from probe_flow.records import Comparison, Role, Status

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

SELECTED = "document.querySelector('#table .tabulator-row.selected [tabulator-field=order]')?.innerText ?? ''"
ORDERS = "[...document.querySelectorAll('#table .tabulator-row [tabulator-field=order]')].map((cell) => cell.innerText)"
HEADS = (
    "[...document.querySelectorAll('#table .tabulator-col-title')].filter((each) => each.offsetParent)"
    ".map((each) => each.innerText.trim())"
)
LONG = "Default/network/transformer/encoder/layers/{}/attention/query_key_value/MatMul-op{}"
COUNT = 400
BAD = 150


def failing(order: int, name: str, error: float, role: Role, rank: int = 0) -> Any:
    node = key(name, rank=rank)
    return row(
        order,
        target=tensor(name, node=node),
        golden=tensor(f"g_{name}", side="golden", node=key(f"g_{name}", rank=rank)),
        status=Status.FAIL,
        role=role,
        measured=measurement({"relative_euclidean_distance": error, "cosine": 1 - error, "max_abs_err": error * 2}),
    )


def many() -> Comparison:
    """400 rows; row 150 is the origin, the ten after it carry it on."""
    rows = []
    for order in range(COUNT):
        if order == BAD:
            rows.append(failing(order, LONG.format(3, order), 0.5, Role.ORIGIN))
        elif BAD < order <= BAD + 10:
            rows.append(failing(order, LONG.format(4, order), 0.05, Role.INHERITED))
        else:
            error = measurement({"relative_euclidean_distance": 1e-5 * (1 + order), "cosine": 1.0, "max_abs_err": 1e-4})
            rows.append(good_row(order, f"=Add_{order}", measured=error))
    return comparison(*rows, findings=(origin(BAD, LONG.format(3, BAD)),), gate_passed=False)


def address(page: Any, part: str) -> str:
    """Return the end of the address once it has a part."""
    page.wait(f"location.hash.includes({part!r})")
    found: str = page.js("return location.hash")
    return found


def type_search(page: Any, text: str) -> None:
    script = (
        "const box = document.getElementById('search'); box.value = arguments[0]; box.dispatchEvent(new Event('input'))"
    )
    page.js(script, text)


def test_the_table_opens_at_the_origin_and_selects_nothing(open_report: Open) -> None:
    page = open_report(many())
    assert str(BAD) in page.js(f"return {ORDERS}")
    assert page.js(f"return {SELECTED}") == ""
    assert page.js("return scrollY") == 0
    assert page.js("return location.hash") == ""


def test_an_address_brings_back_what_one_looked_at(open_report: Open, open_page: Any, tmp_path: Path) -> None:
    page = open_report(many())
    type_search(page, "MatMul")
    page.wait("document.getElementById('row-count').innerText.startsWith('11 of')")
    page.click("#filters .chip[data-role=inherited]")
    page.js("document.querySelector('#columns').open = true")
    page.wait("document.querySelector('#columns .menu input')")
    page.js(
        "const wanted = ['order', 'name', 'max_abs_err'];"
        "for (const box of document.querySelectorAll('#columns .menu input'))"
        "  if (!box.disabled && wanted.includes(box.value) !== box.checked) box.click()"
    )
    page.click("#table .tabulator-col[tabulator-field=order] .tabulator-col-title")
    page.click("#table .tabulator-col[tabulator-field=order] .tabulator-col-title")
    page.js("document.querySelector('#table .tabulator-row').click()")
    kept = address(page, "panel=1")
    heads, orders = page.js(f"return {HEADS}"), page.js(f"return {ORDERS}")
    assert heads == ["#", "tensor", "max abs"]
    assert orders[0] == str(BAD + 10)
    again = open_page(tmp_path / "report.html", address=kept)
    assert again.js(f"return {HEADS}") == heads
    assert again.js(f"return {ORDERS}") == orders
    assert again.js(f"return {SELECTED}") == str(BAD + 10)
    assert again.js("return document.getElementById('search').value") == "MatMul"
    assert not again.js("return document.getElementById('panel').hidden")
    assert again.text("#row-count") == "10 of 400 rows"
    again.click("#reset")
    again.wait("document.getElementById('row-count').innerText === '400 rows'")


def test_an_address_of_a_row_that_a_filter_hides_shows_the_row(
    open_report: Open, open_page: Any, tmp_path: Path
) -> None:
    open_report(many())
    page = open_page(tmp_path / "report.html", address="#rows?row=3&q=MatMul")
    assert page.js(f"return {SELECTED}") == "3"
    odd = "row=99999&least=x&sort=nope-asc&columns=nope&is=nope&rule=nope&metric=nope"
    page = open_page(tmp_path / "report.html", address=f"#rows?{odd}")
    assert page.text("#row-count") == "400 rows"
    assert page.js(f"return {SELECTED}") == ""
    assert page.text("#said") == "This report has no row 99999."


def test_a_regular_expression_searches_and_a_broken_one_is_marked(open_report: Open) -> None:
    page = open_report(many())
    page.click("#regex")
    type_search(page, "=Add_[78]\\b")
    page.wait("document.getElementById('row-count').innerText === '2 of 400 rows'")
    type_search(page, "=Add_[78")
    page.wait("document.getElementById('search').getAttribute('aria-invalid') === 'true'")
    assert page.text("#row-count") == "2 of 400 rows"
    page.click("#reset")
    page.wait("document.getElementById('row-count').innerText === '400 rows'")
    assert page.js("return document.getElementById('regex').getAttribute('aria-pressed')") == "false"


def test_the_slider_narrows_by_the_size_of_the_error(open_report: Open) -> None:
    page = open_report(many())
    page.js("const bar = document.getElementById('threshold'); bar.value = 90; bar.dispatchEvent(new Event('input'))")
    page.wait("document.getElementById('row-count').innerText === '1 of 400 rows'")
    assert page.js(f"return {ORDERS}") == [str(BAD)]
    assert "least=" in address(page, "least=")
    page.js("const bar = document.getElementById('threshold'); bar.value = 0; bar.dispatchEvent(new Event('input'))")
    page.wait("document.getElementById('row-count').innerText === '400 rows'")


def test_csv_has_the_rows_and_columns_shown_and_no_formula(open_report: Open) -> None:
    page = open_report(many())
    page.js(
        "probeFlow.download = (name, text, type) => { window.saved = { name, text, type }; };"
        "for (const button of document.querySelectorAll('#csv')) button.click();"
    )
    saved = page.js("return window.saved")
    rows = list(csv.DictReader(io.StringIO(saved["text"], newline="")))
    assert (saved["name"], saved["type"], len(rows)) == ("rows.csv", "text/csv", COUNT)
    assert list(rows[0]) == page.js(f"return {HEADS}")
    assert rows[0]["tensor"].startswith("'=Add_0")
    assert rows[BAD]["role"] == "wrong here"
    assert float(rows[BAD]["error"]) == 0.5
    type_search(page, "MatMul")
    page.wait("document.getElementById('row-count').innerText.startsWith('11 of')")
    page.click("#csv")
    assert page.js("return window.saved.text.trim().split('\\r\\n').length") == 12


def test_a_row_is_copied_as_link_command_and_markdown(open_report: Open, tmp_path: Path) -> None:
    page = open_report(many())
    page.js("window.copied = {}; probeFlow.copy = (text, what) => { window.copied[what] = text; }")
    page.keys("o")
    page.wait("!document.getElementById('panel').hidden")
    for kind in ("link", "command", "markdown"):
        page.click(f"#copy-{kind}")
    copied = json.loads(page.js("return JSON.stringify(window.copied)"))
    assert copied["link"] == (tmp_path / "report.html").as_uri() + f"#rows?row={BAD}&panel=1"
    words = shlex.split(copied["command"])
    assert words[:4] == ["probe-flow", "show", "--node", LONG.format(3, BAD)]
    known = {name for option in show_command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known
    name = LONG.format(3, BAD).replace("_", r"\_")
    assert copied["Markdown"].startswith(f"**{name} output 0** (AddV2), ")
    assert "| relative_euclidean_distance | cosine |" in copied["Markdown"]


def test_a_text_that_cannot_reach_the_clipboard_is_copied_by_selection(open_report: Open) -> None:
    page = open_report(many())
    page.js(
        "const refused = { writeText: () => Promise.reject(new Error('no')) };"
        "Object.defineProperty(navigator, 'clipboard', { value: refused });"
        "document.execCommand = (what) => { window.selected = `${what} ${document.activeElement.value}`; };"
        "probeFlow.copy('some text', 'link')"
    )
    page.wait("window.selected === 'copy some text'")
    page.wait("document.getElementById('said').textContent === 'link copied'")


def test_long_names_lose_their_middle_and_keep_their_end(open_report: Open) -> None:
    page = open_report(many())
    is_it = f"row.querySelector('[tabulator-field=order]').innerText === '{BAD}'"
    rows = "[...document.querySelectorAll('#table .tabulator-row')]"
    cell = f"{rows}.find((row) => {is_it}).querySelector('[tabulator-field=name]')"
    assert page.js(f"return {cell}.innerText.replace(/\\s+/g, ' ')").endswith(f"MatMul-op{BAD} output 0")
    right = "getBoundingClientRect().right"
    ends = page.js(f"return [{cell}.querySelector('.slot').{right}, {cell}.{right}]")
    assert ends[0] <= ends[1] + 1
    assert page.js(f"return {cell}.querySelector('.of').scrollWidth > {cell}.querySelector('.of').clientWidth")


@pytest.mark.parametrize("width", [600, 1400, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_the_page(open_report: Open, width: int, scheme: str) -> None:
    page = open_report(many(), scheme=scheme)
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for panel in (False, True):
            if panel:
                page.keys("o")
                page.wait("!document.getElementById('panel').hidden")
            page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            assert page.js("return document.documentElement.scrollWidth") <= width
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
