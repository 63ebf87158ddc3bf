"""A headless Chromium, offline, for the tests of the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from headless import start_chromium

from probe_flow.records import Comparison
from probe_flow.reports.html.nodes import CallFigures
from probe_flow.reports.html.page import write_html
from probe_flow.testing.run_records import run_record

READY_S = 60
"""Seconds until a report must be usable; the machine of the tests may be busy with others."""

RUN = run_record(
    run_id="ge-vs-fx-20260101",
    workflow={"name": "ge-vs-fx", "path": "workflows/ge.yaml", "description": "Compare a GE dump with an FX dump."},
    params={"target": "/dumps/npu"},
    versions={"probe_flow": "1.0"},
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A driver of the browser; everything in this folder is skipped where there is none."""
    driver = start_chromium()
    driver.set_script_timeout(READY_S)
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0},
    )
    yield driver
    driver.quit()


class Page:
    """A report in the browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def js(self, script: str, *arguments: object) -> Any:
        """Return what a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        found: str = self.js("return document.querySelector(arguments[0]).innerText", selector)
        return found

    def click(self, selector: str) -> None:
        self.js("document.querySelector(arguments[0]).click()", selector)

    def keys(self, keys: str, selector: str = "#table") -> None:
        """Type into an element, as a person would."""
        self.driver.find_element("css selector", selector).send_keys(keys)

    def wait(self, condition: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, READY_S, 0.05).until(lambda _: self.js(f"return {condition}"), condition)

    def messages(self) -> list[str]:
        """Everything that the browser logged: errors, warnings, refused requests."""
        return [f"{entry['level']} {entry['message']}" for entry in self.driver.get_log("browser")]


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[[Path], Page]]:
    """Open a report from disk and wait until it is ready; afterwards nothing may have been logged."""
    page = Page(chromium)

    def opened(path: Path, *, media: str = "", scheme: str = "light", address: str = "") -> Page:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        chromium.get("about:blank")  # else an address that differs in its end alone would not open the page anew
        chromium.get(path.as_uri() + address)
        page.wait("document.documentElement.dataset.ready || document.documentElement.dataset.failed")
        return page

    yield opened
    assert page.messages() == []


@pytest.fixture
def open_report(open_page: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """Write the report of a comparison and open it."""

    def opened(comparison: Comparison, *, figures: CallFigures | None = None, **how: str) -> Page:
        write_html(comparison, tmp_path / "report.html", run=RUN, figures=lambda: figures or CallFigures())
        return open_page(tmp_path / "report.html", **how)

    return opened
