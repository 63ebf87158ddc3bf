"""The page of a dump that is shown and not judged: all its calls as a graph, and no word of a verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_dumps import CHAIN, write_dump

from probe_flow.cli.main import main

pytestmark = pytest.mark.browser

TEXT = "document.body.innerText"
SPOKEN = "[...document.querySelectorAll('#graph .call')].map((line) => line.ariaLabel)"


def test_all_calls_of_a_build_are_shown_as_not_examined(open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump")
    assert main(["graph_visualize", "-tp", str(dump), "-o", str(tmp_path / "out")]) == 0

    page = open_page(tmp_path / "out" / "probe_flow" / "report.html")
    assert "3 calls" in page.js(f"return {TEXT}")
    assert "The workflow ended; it compares nothing." in page.js(f"return {TEXT}")
    assert "Gate" not in page.js(f"return {TEXT}")
    page.click("#graph-unfold")
    page.wait(f"{SPOKEN}.length > {len(CHAIN)}")
    calls = [line for line in page.js(f"return {SPOKEN}") if "3 calls" not in line]
    assert len(calls) == len(CHAIN)
    assert all("not examined" in line for line in calls)


def test_scores_and_levels_of_graphs_are_in_the_page(open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    relu = "Functional.relu.0.forward"
    target = write_dump(tmp_path / "target", values={relu: float("inf")})
    golden = write_dump(tmp_path / "golden")
    sides = ["-tp", str(target), "-gp", str(golden)]
    assert main(["graph_visualize", *sides, "-o", str(tmp_path / "out"), "-oc"]) == 1

    page = open_page(tmp_path / "out" / "probe_flow" / "report.html")
    line = next(line for line in page.js(f"return {SPOKEN}") if "relu" in line)
    assert "score" in line
    assert "critical" in page.js("return document.getElementById('graph').innerText")


def test_a_call_of_a_build_says_who_lists_its_tensors(open_page: Callable[[Path], Any], tmp_path: Path) -> None:
    dump = write_dump(tmp_path / "dump")
    assert main(["graph_visualize", "-tp", str(dump), "-o", str(tmp_path / "out")]) == 0

    page = open_page(tmp_path / "out" / "probe_flow" / "report.html")
    page.js("[...document.querySelectorAll('#graph .call')].find((line) => /^net Net/.test(line.ariaLabel)).click()")
    panel = page.text("#panel")
    assert "Not examined" in panel
    assert "find_nonfinite" in panel
    assert "wrong" not in panel
    assert page.text("#graph-count") == "3 calls, not examined"
