"""The walks of docs/architecture.md are true, short, and go through no room twice."""

from __future__ import annotations

import sys

import pytest

from repo import walks
from repo.walks import WALKS, Trace, Walk

BY_TITLE = {walk.title: walk for walk in WALKS}


@pytest.mark.parametrize("title", BY_TITLE)
def test_a_walk_is_short(title: str) -> None:
    assert 1 < len(walks.files_of(walks.traced(BY_TITLE[title]))) <= BY_TITLE[title].limit


@pytest.mark.parametrize("title", BY_TITLE)
def test_a_walk_enters_no_step_again(title: str) -> None:
    assert walks.returned_to(walks.traced(BY_TITLE[title])) == []


def test_the_walk_of_a_row_goes_through_all_steps() -> None:
    for walk in WALKS:
        if walk.tensor:
            assert set(walks.traced(walk).steps) == walks.STEPS


def test_a_step_that_comes_again_is_found() -> None:
    walk = Walk("demo", 9, "reports", lambda _: [])
    assert walks.returned_to(Trace(walk, steps=["dumps", "matching", "dumps", "measure"])) == ["dumps"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions are no functions of their own any more")
def test_the_page_has_the_walks_as_they_are() -> None:
    assert walks.section() in walks.PAGE.read_text(encoding="utf-8"), "run `python -m tests.repo.walks --write`"
