"""The HTML report of a comparison with a reference: three sides in the panel, and who is not to blame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import GOOD_METRICS, comparison, good_row, measurement, origin, stats, tensor

from probe_flow.records import Catalog, Comparison, FindingKind
from probe_flow.records.frameworks import TORCHAIR_FX

pytestmark = pytest.mark.browser


def three_sides() -> Comparison:
    exact = tensor("add_1", side="golden", dtype="float64", file="/dumps/exact/add_1.npy")
    figures = {**GOOD_METRICS, "reference.cosine": 0.5, "excess_error": 0.75}
    row = good_row(0, measured=measurement(figures, reference=stats(max=7.5)))
    found = comparison(
        replace(row, pair=row.pair.judged_by(exact)),
        good_row(1, "Mul_4"),
        findings=(origin(0, "Add_1", kind=FindingKind.GOLDEN_ERROR, fails=False, evidence="is not to blame"),),
    )
    reference = Catalog("exact", TORCHAIR_FX, "tensor", "/dumps/exact", {}, (exact,))
    return replace(found, pairs=replace(found.pairs, reference=reference))


def test_the_panel_shows_three_sides_and_what_they_give(open_report: Callable[..., Any]) -> None:
    page = open_report(three_sides())
    page.click(".finding button.link")
    heads = page.js("return [...document.querySelectorAll('#panel .sides thead th')].map((cell) => cell.innerText)")
    rows = page.js(
        "return [...document.querySelectorAll('#panel .sides tbody tr')].map((row) => row.innerText.split('\\t'))"
    )

    assert heads == ["", "target", "golden", "reference", "difference"]
    assert ["max", "2.5", "2", "7.5", "0.5"] in rows
    assert any(cells[:4] == ["dtype", "float16", "float32", "float64"] for cells in rows)
    assert "excess_error" in page.text("#panel")
    page.js("document.querySelector('#panel [data-metric=\"reference.cosine\"]').focus()")
    assert "Against the reference" in page.text("#tip")


def test_a_finding_about_the_golden_is_told_for_what_it_is(open_report: Callable[..., Any]) -> None:
    page = open_report(three_sides())
    assert "Not to blame" in page.text(".finding")
