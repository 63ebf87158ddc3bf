"""Every way to be green for a wrong reason: the exit code, and the words that a user must see, everywhere the same."""

from __future__ import annotations

import html
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from e2e.wrong_greens import VARIANTS, Variant, prepare
from probe_flow.cli.main import main

VERDICTS = {0: ("pass", None), 1: ("fail",), 3: ("incomplete",)}


def test_the_table_is_as_large_as_told() -> None:
    assert len({variant.id for variant in VARIANTS}) == len(VARIANTS)
    assert len(VARIANTS) >= 60


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_no_run_is_green_for_a_wrong_reason(
    variant: Variant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = prepare(variant, tmp_path)
    monkeypatch.chdir(tmp_path)

    code = main(arguments)

    shown = capsys.readouterr()
    last = shown.out.splitlines()[-1] if shown.out else ""
    assert code == variant.code, shown.err + shown.out
    seen = shown.err if code == 2 else last
    assert [word for word in variant.words if word not in seen] == [], seen
    if code == 2:
        if (tmp_path / "out").exists():
            record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
            assert (record["exit_code"], record["verdict"]) == (2, "stopped")
            assert last.startswith("STOPPED ")
        return
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert record["exit_code"] == code
    assert record["verdict"] in VERDICTS[code]
    check_reports(tmp_path / "out", variant, last.rpartition(" | ")[0], str(record["verdict"]))


def check_reports(folder: Path, variant: Variant, line: str, verdict: str) -> None:
    """JUnit and HTML say what the terminal says; a stage that failed leaves none."""
    if (folder / "junit.xml").exists():
        root = ElementTree.parse(folder / "junit.xml").getroot()
        properties = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
        assert (properties["verdict"], properties["conclusion"]) == (verdict, line)
        is_green = root.attrib["failures"] == root.attrib["errors"] == "0"
        assert is_green is (variant.code == 0)
    if (folder / "report.html").exists():
        plain = (
            (folder / "report.html").read_text(encoding="utf-8").partition("<noscript>")[2].partition("</noscript>")[0]
        )
        assert line in html.unescape(plain)
