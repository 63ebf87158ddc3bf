"""docs/explanation/limits.md against the source: what it says of a constant is its value, and no limit is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "probe_flow"
PAGE = ROOT / "docs" / "explanation" / "limits.md"

_CONSTANT = re.compile(r"^`([a-z_.]+)\.([A-Z_]+)`$")
_TIME = re.compile(r"_(S|NS)$")

NO_LIMITS = {"api.progress.PLAIN_PERIOD_S", "api.progress.SHORT_S", "api.progress.UPDATES_PER_S"}
"""Constants in seconds that say how something is shown."""


def rows(section: str) -> Iterator[tuple[str, str]]:
    """Yield what a section says of each constant: its name, and the limit in words."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and _CONSTANT.match(cells[-1]):
            yield cells[-1].strip("`"), cells[1]


def in_words(name: str, value: object) -> str:
    """Return a limit as the page writes it; the end of the constant's name says its unit."""
    if isinstance(value, tuple):
        first, last = (in_words(name, each) for each in value)
        return f"{first.partition(' ')[0]} to {last}"
    assert isinstance(value, int | float)
    if name.endswith("_NS"):
        return f"{value / 1e9:g} s"
    if name.endswith("_S"):
        return f"{value:g} s"
    if name.endswith("BYTES"):
        unit, size = next((unit, size) for unit, size in UNITS if value % size == 0)
        return f"{value // size:,} {unit}"
    return f"{value:,}{' bits' if name.endswith('BITS') else ''}"


UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))


def time_constants() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Pass())]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            yield from (f"{module}.{name}" for name in names if _TIME.search(name) and not name.startswith("_"))


@pytest.mark.parametrize("section", ["Time", "Size and count"])
def test_the_page_says_the_value_of_every_constant(section: str) -> None:
    pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    for name, words in rows(section):
        module, _, constant = name.rpartition(".")
        assert words == in_words(constant, resolve_name(f"probe_flow.{module}:{constant}")), name


def test_no_limit_of_time_is_missing() -> None:
    named = {name for name, _ in rows("Time")}
    assert len(named) > 20
    assert set(time_constants()) - NO_LIMITS == named


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WAIT_S", 5.0, "5 s"),
        ("WAIT_S", 0.005, "0.005 s"),
        ("WAIT_NS", 2_000_000_000, "2 s"),
        ("RETRY_S", (1.0, 60.0), "1 to 60 s"),
        ("MAX_BYTES", 64 << 10, "64 KiB"),
        ("MAX_BYTES", 1000, "1,000 bytes"),
        ("MAX_ENTRIES", 65_536, "65,536"),
    ],
)
def test_limits_in_words(name: str, value: object, words: str) -> None:
    assert in_words(name, value) == words
