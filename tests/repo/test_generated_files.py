"""The generated files in the checkout are what the program generates."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED: dict[Path, str] = runpy.run_path(str(ROOT / "docs" / "generate.py"))["generated_texts"]()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_generated_file_is_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == GENERATED[path], "run `make docs`"


def test_no_schema_is_written_by_hand() -> None:
    assert {path for path in (ROOT / "schemas").iterdir() if path.suffix == ".json"} <= set(GENERATED)


def test_picture_of_the_readme_fetches_nothing_and_names_the_fault() -> None:
    text = (ROOT / "docs" / "images" / "run.svg").read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(text).itertext()).replace("\u00a0", " ")

    assert "The target first goes wrong at Gelu_1 (Gelu)." in shown
    assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").count("://") == 0
    assert not any(word in text for word in ("@font-face", "@import", "url(", "href"))
