"""The generated files in the checkout are what the program generates."""

from __future__ import annotations

from pathlib import Path

import pytest

from repo.regenerate import generated


@pytest.mark.parametrize(
    ("path", "text"), generated().items(), ids=lambda value: value.name if isinstance(value, Path) else ""
)
def test_generated_file_is_fresh(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run `python tests/repo/regenerate.py`"
