"""The documentation site is built, has every page and every public name, and works offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from page_commands import ROOT

import probe_flow

pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra `docs`)")
pytest.importorskip("material", reason="mkdocs-material is not installed (extra `docs`)")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (extra `docs`)")

PAGES = sorted(path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md"))


def build(output: Path, *, root: Path = ROOT, commands: str = "skip") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", output], cwd=root,
        env={**os.environ, "PROBE_FLOW_SITE_COMMANDS": commands, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Its commands are run by test_pages."""
    output = tmp_path_factory.mktemp("docs") / "site"
    done = build(output)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def test_every_page_is_there(site: Path) -> None:
    missing = [page for page in [*PAGES, Path("changelog.md")] if not (site / page.with_suffix(".html")).is_file()]
    assert not missing


def test_every_public_name_has_its_place(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    names = {name for name in probe_flow.__all__ if name != "__version__"}
    assert {name for name in names if f'id="probe_flow.{name}"' not in text} == set()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", path.read_text(encoding="utf-8"))
        assert [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)] == [], path
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|@import", path.read_text(encoding="utf-8")), path


def test_links_out_of_the_pages_lead_to_pages_or_say_where_the_file_is(site: Path) -> None:
    text = (site / "how-to" / "team-templates.html").read_text(encoding="utf-8")
    assert "../../examples" not in text
    assert "examples/team_templates" in text
    assert 'href="architecture.html"' in (site / "contributing.html").read_text(encoding="utf-8")


def test_the_index_of_the_search_has_what_the_pages_say(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {each["location"].partition("#")[0] for each in index["docs"] if "waiver" in each["text"].lower()}
    assert "how-to/waivers-and-baselines.html" in found


@pytest.mark.browser
def test_the_search_answers_from_disk_without_a_server(site: Path) -> None:
    from headless import start_chromium
    from selenium.webdriver.common.by import By

    driver = start_chromium("--host-resolver-rules=MAP * ~NOTFOUND")
    try:
        driver.get((site / "index.html").as_uri() + "?q=waiver")
        deadline = time.monotonic() + 60
        links: list[str] = []
        while not links and time.monotonic() < deadline:
            found = driver.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
            links = [each.get_attribute("href") or "" for each in found]
            time.sleep(0.1)
        assert any("waivers-and-baselines.html" in link for link in links)
        assert [each["message"] for each in driver.get_log("browser") if each["level"] == "SEVERE"] == []
    finally:
        driver.quit()


def test_a_page_that_is_wrong_fails_the_build(tmp_path: Path) -> None:
    """A small site with our hooks: what a page shows is held against what its command prints."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "tools").mkdir()
    (root / "tools" / "site").symlink_to(ROOT / "tools" / "site")
    config = "site_name: small\nuse_directory_urls: false\nhooks: [small.py]\ntheme: mkdocs\n"
    (root / "mkdocs.yml").write_text(config, encoding="utf-8")
    hook = (
        "import sys\nfrom pathlib import Path\nhere = Path(__file__).parent\n"
        "sys.path.insert(0, str(here / 'tools' / 'site'))\nimport hooks\nhooks.ROOT = here\n"
        "hooks.pages_with_commands = lambda: sorted((here / 'docs').glob('*.md'))\n"
        "on_post_build = hooks.on_post_build\n"
    )
    (root / "small.py").write_text(hook, encoding="utf-8")
    page = root / "docs" / "index.md"
    page.write_text("# Small\n\n```console\n$ echo right\nright\n```\n", encoding="utf-8")
    done = build(tmp_path / "one", root=root, commands="run")
    assert done.returncode == 0, done.stdout + done.stderr
    page.write_text("# Small\n\n```console\n$ echo right\nwrong\n```\n", encoding="utf-8")
    done = build(tmp_path / "two", root=root, commands="run")
    assert done.returncode != 0
    assert "index.md:4: $ echo right" in done.stdout + done.stderr
