"""`docs`: the pages that come with the package, listed, shown, searched, and opened as a site."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from probe_flow.cli.installation import docs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation in a folder, without a site at first."""
    root = tmp_path / "_packaged"
    (root / "docs" / "how-to").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Start\n\nHello.\n", encoding="utf-8")
    (root / "docs" / "how-to" / "ci.md").write_text(
        "# In CI\n\n```sh\n# Waive nothing\n```\n\n## Waivers\n\nA waiver expires.\n", encoding="utf-8"
    )
    monkeypatch.setattr("probe_flow.cli.installation.docs._folder", lambda: root / "docs")
    return root / "site"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(addresses.append(address)) or len(addresses) > 0)
    return addresses


def test_without_a_site_the_pages_are_listed_and_it_says_how_to_get_one(probe_flow, site: Path) -> None:
    done = probe_flow("docs")
    assert done.code == 0
    assert done.out.splitlines()[:2] == ["index      Start", "how-to/ci  In CI"]
    assert "`make wheel`" in done.last_line


def test_with_a_site_it_is_opened(probe_flow, site: Path, opened: list[str]) -> None:
    (site / "how-to").mkdir(parents=True)
    for name in ("index.html", "how-to/ci.html"):
        (site / name).write_text("", encoding="utf-8")
    done = probe_flow("docs")
    assert (done.code, done.out, opened) == (0, f"{site / 'index.html'}\n", [(site / "index.html").as_uri()])
    assert probe_flow("docs", "ci", "--open").code == 0
    assert opened[1:] == [(site / "how-to" / "ci.html").as_uri()]


def test_where_no_browser_starts_it_says_what_to_open(probe_flow, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.mkdir()
    (site / "index.html").write_text("", encoding="utf-8")
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert "open the file above" in probe_flow("docs").err


@pytest.mark.parametrize("word", ["ci", "how-to/ci", "how-to/ci.md"])
def test_a_page_is_shown(probe_flow, site: Path, word: str) -> None:
    assert probe_flow("docs", word).out.startswith("# In CI\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("how-to/c",), "there is no page `how-to/c`; did you mean `how-to/ci`?"),
        (("zzzz",), "`probe-flow docs --search WORDS` looks for one"),
        (("ci", "--open"), "is not part of this installation"),
        (("ci", "--search", "x"), "takes neither PAGE nor `--open`"),
    ],
)
def test_what_cannot_be_done_is_said(probe_flow, site: Path, arguments: tuple[str, ...], said: str) -> None:
    done = probe_flow("docs", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_search_finds_sections_with_all_words(probe_flow, site: Path) -> None:
    assert probe_flow("docs", "--search", "Expires waiver").out == "how-to/ci: Waivers\n    A waiver expires.\n"
    assert probe_flow("docs", "--search", "waive nothing").out == "how-to/ci: In CI\n    # Waive nothing\n"
    assert probe_flow("docs", "--search", "nowhere").out == "no page has all of `nowhere`\n"


def test_a_terminal_gets_tables_drawn(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.echo_via_pager", shown.append)
    page = site.parent / "docs" / "table.md"
    page.write_text("# T\n\n| a | b |\n|---|---|\n| one | two |\n", encoding="utf-8")
    docs._show(docs.Page("table", page))
    assert "one" in shown[0]
    assert "|---|" not in shown[0]


def test_the_pages_of_the_checkout_are_found(probe_flow) -> None:
    assert probe_flow("docs", "torchair").out == (ROOT / "docs" / "how-to" / "torchair.md").read_text(encoding="utf-8")
    assert "how-to/waivers-and-baselines: " in probe_flow("docs", "--search", "waiver expired").out
