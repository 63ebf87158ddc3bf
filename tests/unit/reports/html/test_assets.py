"""The fixed parts of the HTML report: the libraries are the released files, and nothing in the page asks a network."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

import pytest
from html_data import page_of
from report_builders import comparison, good_row

from probe_flow.reports.html.assets import assets
from probe_flow.testing.run_records import run_record

RELEASED = {
    "tabulator/LICENSE": "191a2ee554684e1064c897b432f0e1bc6dfa714ca045d3f6ea2cf692cbd398b7",
    "tabulator/tabulator.min.js": "ffac518cb793c672a2f0522b7fc80bf862234d96bb1e581c8aaf7f48f130eafa",
    "tabulator/tabulator_simple.min.css": "edef8839235a4b6a8c3dc391ec93f2ce1bc633dd5270a5f990753b6f9183d32b",
    "uplot/LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uplot/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
PAGE = page_of(comparison(good_row()), run_record())


@pytest.mark.parametrize("name", RELEASED)
def test_libraries_are_the_released_files(name: str) -> None:
    content = files("probe_flow.reports").joinpath("assets", "vendor", *name.split("/")).read_bytes()
    assert hashlib.sha256(content).hexdigest() == RELEASED[name]


def test_the_policy_allows_the_scripts_of_the_page_and_nothing_else() -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', PAGE)[1].replace("&#x27;", "'")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        for text in re.findall(rf"<{kind}>(.*?)</{kind}>", PAGE, re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy


def test_the_page_names_nothing_to_load() -> None:
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", PAGE, flags=re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=\s*\"(?!#)", markup)
    assert "sourceMappingURL" not in PAGE
    styles = "".join(re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL))
    assert "@import" not in styles
    assert not re.search(r"url\((?!['\"]?data:)", styles)


def test_no_asset_ends_its_own_tag() -> None:
    parts = assets()
    for text in (*parts.scripts, *parts.early_scripts, *parts.styles):
        assert not re.search(r"</(script|style)|<!--", text, re.IGNORECASE)


def test_licences_of_the_libraries_are_inside_the_page() -> None:
    assert "Copyright (c) 2022 Leon Sorokin" in PAGE
    assert "Copyright (c) 2015-2026 Oli Folkerd" in PAGE


def test_our_scripts_put_no_text_into_the_page_as_markup() -> None:
    ours = [text for text in assets().scripts if "probeFlow" in text]
    assert len(ours) == 22
    for text in ours:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
