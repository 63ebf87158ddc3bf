"""The real viewer, on loopback, and a browser that looks at its page; skipped where they are not installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from graph_viewer import COMMAND, Viewer, viewer_of
from headless import start_chromium

PAGE_S = 60
"""Seconds until the page must have drawn a graph."""

RECTANGLES = """
const found = {};
const look = (root) => {
  for (const one of root.querySelectorAll('*')) {
    if (one.matches('rect.inner-rect')) found[one.getAttribute('name')] = one.getAttribute('fill');
    if (one.shadowRoot) look(one.shadowRoot);
  }
};
look(document);
return found;
"""
"""The colour of every node that is drawn, by its name: `N___` before those of the target, `B___` of the golden."""

Serve = Callable[..., Viewer]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here; skip it where the viewer is not installed."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("viewer")
            if not COMMAND.exists():
                item.add_marker(pytest.mark.skip(reason="the viewer is not installed: make test-viewer"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that serves files, each in a folder of the name that it is given by."""
    with ExitStack() as servers:

        def started(**files: Path) -> Viewer:
            folder = tmp_path / "logs"
            folder.mkdir(mode=0o750)
            for run, file in files.items():
                (folder / run).mkdir(mode=0o750)
                shutil.copy2(file, folder / run, follow_symlinks=False)
            return servers.enter_context(viewer_of(folder, tmp_path / "viewer.log"))

        yield started


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser that reaches this machine alone: the page asks for fonts from elsewhere, and does without them."""
    driver = start_chromium("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--no-proxy-server")
    driver.set_page_load_timeout(PAGE_S)
    yield driver
    driver.quit()


@pytest.fixture
def colours(chromium: Any) -> Callable[[Viewer], dict[str, str]]:
    """Return a function that opens the page and returns the colours of the nodes that it draws."""

    def drawn(viewer: Viewer) -> dict[str, str]:
        from selenium.webdriver.support.ui import WebDriverWait

        seen: list[dict[str, str]] = [{}]

        def settled(driver: Any) -> bool:
            """Whether nothing was added since the last look: the two sides are drawn one after the other."""
            seen.append(driver.execute_script(RECTANGLES))
            return bool(seen[-1]) and seen[-1] == seen[-2]

        chromium.get(viewer.page)
        WebDriverWait(chromium, PAGE_S, 0.5).until(settled)
        return seen[-1]

    return drawn
