"""`docs`: the pages of the documentation, which every installation has: in a browser, in the terminal, searched."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from probe_flow.errors import did_you_mean

_HEADING = re.compile(r"^#{1,4} (.+)$")
_FENCE = "```"
_MANUAL = ("reference/diagnostics", "reference/command-line")
"""Pages that `explain` and `--help` are the better way into; what else fits comes before them."""
_SHOWN = 20
_HOW = (
    "The site with these pages, which a browser opens without a network, is not part of this installation: "
    "`make wheel` in a checkout builds a package that has it, `make docs-site` the site alone."
)


class Page(NamedTuple):
    """A page: its name, such as ``how-to/torchair``, and its file."""

    name: str
    path: Path


class Found(NamedTuple):
    """A place that a search found."""

    page: Page
    heading: str
    line: str


@click.command("docs")
@click.argument("page", required=False)
@click.option("--search", "words", metavar="WORDS", help="List the places where all these words are.")
@click.option("--open", "opens", is_flag=True, help="Open PAGE in a browser.")
def command(*, page: str | None, words: str | None, opens: bool) -> None:
    """Open the documentation in a browser; show PAGE in the terminal, e.g. `torchair` or `ci`.

    Where no site is installed, the pages are listed.
    """
    pages = _pages(_folder())
    if words is not None:
        if page is not None or opens:
            raise click.UsageError("`--search` looks into all pages, and takes neither PAGE nor `--open`")
        _tell_found(words, list(_search(words, pages)))
    elif page is None and (_site() / "index.html").is_file():
        _open(_site() / "index.html")
    elif page is None:
        _list(pages)
        click.echo(f"\n`probe-flow docs PAGE` shows one of them. {_HOW}")
    elif opens:
        path = _site() / f"{_page(page, pages).name}.html"
        if not path.is_file():
            raise click.UsageError(_HOW)
        _open(path)
    else:
        _show(_page(page, pages))


def _folder() -> Path:
    from probe_flow.workflow.templates.packaged import packaged_root

    return packaged_root() / "docs"


def _site() -> Path:
    """Return the folder of the site: in the wheel, or where `make docs-site` builds it in a checkout."""
    root = _folder().parent
    return root / "site" if root.name == "_packaged" else root / "build" / "site"


def _pages(folder: Path) -> list[Page]:
    return [
        Page(path.relative_to(folder).with_suffix("").as_posix(), path)
        for path in sorted(folder.rglob("*.md"), key=lambda path: (path.parent != folder, path))
    ]


def _page(word: str, pages: list[Page]) -> Page:
    """Return the page that is meant: by its name, or the last part of it.

    Raises:
        click.UsageError: there is none.
    """
    wanted = word.removesuffix(".md").removesuffix(".html")
    names = {page.name: page for page in pages} | {page.name.rpartition("/")[2]: page for page in pages}
    if wanted not in names:
        near = did_you_mean(wanted, names)
        raise click.UsageError(f"there is no page `{word}`; {near or '`probe-flow docs --search WORDS` looks for one'}")
    return names[wanted]


def _text(page: Page) -> str:
    from probe_flow.files.opening import read_text

    return read_text(page.path)


def _list(pages: list[Page]) -> None:
    width = max(len(page.name) for page in pages)
    for page in pages:
        title = _text(page).partition("\n")[0].removeprefix("# ")
        click.echo(f"{page.name:<{width}}  {title}")


def _open(path: Path) -> None:
    """Open a page in a browser, and say where it is, for where there is none."""
    import webbrowser

    click.echo(path)
    if not webbrowser.open(path.resolve().as_uri()):
        click.echo("no browser could be started: open the file above in one", err=True)


def _show(page: Page) -> None:
    """Write a page: with its headings, tables and code drawn on a terminal, as it is elsewhere."""
    text = _text(page)
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(width=min(Console().width, 100))
    with console.capture() as capture:
        console.print(Markdown(text, hyperlinks=False))
    click.echo_via_pager(capture.get())


def _search(words: str, pages: list[Page]) -> Iterator[Found]:
    """Yield the places whose section has all words, in prose or code; one a section."""
    wanted = words.lower().split()
    for page in sorted(pages, key=lambda page: page.name in _MANUAL):
        for heading, lines in _sections(_text(page)):
            whole = " ".join([heading, *lines]).lower()
            if wanted and all(word in whole for word in wanted):
                best = max(lines, key=lambda line: sum(word in line.lower() for word in wanted), default=heading)
                yield Found(page, heading, best.strip())


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading with the lines below it. What looks like a heading in a block of code is a line."""
    heading, is_code = "", False
    lines: list[str] = []
    for line in text.splitlines():
        is_code ^= line.startswith(_FENCE)
        found = None if is_code else _HEADING.match(line)
        if found:
            yield heading, lines
            heading, lines = found[1], []
        else:
            lines.append(line)
    yield heading, lines


def _tell_found(words: str, found: list[Found]) -> None:
    for each in found[:_SHOWN]:
        click.echo(f"{each.page.name}: {each.heading}")
        click.echo(f"    {each.line[:110]}")
    left = len(found) - _SHOWN
    if left > 0:
        click.echo(f"{left} more places; more words narrow it")
    if not found:
        click.echo(f"no page has all of `{words}`")
