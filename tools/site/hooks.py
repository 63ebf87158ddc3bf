"""What mkdocs does for our site beyond its theme: run the commands of pages, bring in files from outside docs/.

``PROBE_FLOW_SITE_COMMANDS=skip`` builds without running commands, for who has just run them (tests do).
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from page_commands import ROOT, WrongError, follow_all, pages_with_commands

HERE = Path(__file__).parent
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
"""File of the repository -> the page that it is on the site."""
ASSETS = ("site.css", "iframe-worker.js")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s:]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and assets that are not in docs/."""
    for source, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for name in ASSETS:
        files.append(File.generated(config, f"assets/{name}", content=(HERE / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links out of docs/ lead to the page that the file is on the site; else the text says where the file is."""
    uri = page.file.src_uri
    root = "" if uri in PAGES.values() and uri != "index.md" else "docs"
    folder = posixpath.dirname(posixpath.join(root, uri))

    def lead(found: re.Match[str]) -> str:
        text, link = found.groups()
        file, _, anchor = link.partition("#")
        if not file:
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, file))
        if path in PAGES:
            target = PAGES[path]
        elif path.startswith("docs/"):
            target = path.removeprefix("docs/")
        else:
            return text if path in text else f"{text} (`{path}` of the repository)"
        relative = posixpath.relpath(target, posixpath.dirname(uri) or ".")
        return f"[{text}]({relative}{'#' if anchor else ''}{anchor})"

    kept = _CODE.findall(markdown)
    parts = [_LINK.sub(lead, part) for part in _CODE.split(markdown)]
    return "".join(part + code for part, code in zip(parts, [*kept, ""], strict=True))


def on_post_build(**_: Any) -> None:
    """Run the commands of all pages.

    Raises:
        Abort: a page says something else than what happens.
    """
    if os.environ.get("PROBE_FLOW_SITE_COMMANDS") == "skip":
        return
    wrong = []
    for page, result in follow_all(pages_with_commands()):
        if isinstance(result, WrongError):
            wrong.append(str(result))
        else:
            print(f"{page.relative_to(ROOT)}: {result[0]} commands as shown" + _left(result[1]))
    if wrong:
        raise Abort("\n\n".join(wrong))


def _left(count: int) -> str:
    return f", {count} not run for want of what they need" if count else ""
