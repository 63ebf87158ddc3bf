"""A few inputs of every target, the same each time, and every input that ever crashed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import limits
from fuzz.limits import Crash, Reader, bounded
from fuzz.targets import TARGETS
from fuzz.tree import Odd, digest, packed, unpacked

REGRESSIONS = Path(__file__).parent / "regressions"
MAX_PLACES = 12
"""Files of a healthy folder in whose place something else is put."""
KEPT = sorted(REGRESSIONS.rglob("*.zip"))


@pytest.mark.parametrize("name", TARGETS)
def test_damage_is_harmless_or_refused_by_name(name: str) -> None:
    target = TARGETS[name]
    first = len(target.seeds)
    with bounded(), Reader(target) as reader:
        healthy = [reader.read(tree) for tree in target.seeds]
        damaged = [reader.read(target.input(number)) for number in range(first, first + target.quick)]
    crashes = [each.trace for each in (*healthy, *damaged) if isinstance(each, Crash)]
    assert not crashes, crashes[0]
    assert True in healthy
    assert False in damaged or name == "source_text"  # which leaves out what it cannot read


@pytest.mark.parametrize("name", TARGETS)
def test_nobody_waits_for_a_pipe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor fails at a folder, or a link to nothing or to itself, in place of any file."""
    monkeypatch.setattr(limits, "MAX_WAIT_S", 60.0)
    target = TARGETS[name]
    first = target.seeds[0]
    places = sorted(file for file in first if file.startswith(target.changes))[:MAX_PLACES]
    with bounded(), Reader(target) as reader:
        found = {(file, odd): reader.read({**first, file: odd}) for file in places for odd in Odd}
    crashes = {place: crash.trace for place, crash in found.items() if isinstance(crash, Crash)}
    assert not crashes, crashes


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_crashed_once_crashes_no_more(path: Path) -> None:
    with bounded(), Reader(TARGETS[path.parent.name]) as reader:
        found = reader.read(unpacked(path.read_bytes()))
    assert not isinstance(found, Crash), found.trace


def test_an_input_is_the_same_each_time() -> None:
    target = TARGETS["torchair_ge"]
    inputs = [digest(packed(target.input(number))) for number in (1000, 1000, 1001)]
    assert inputs[0] == inputs[1] != inputs[2]
