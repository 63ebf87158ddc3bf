"""Links in a terminal (OSC 8): the path of the report in the last line opens it, where the terminal knows them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_OPEN, _CLOSE = "\x1b]8;;{address}\x1b\\", "\x1b]8;;\x1b\\"

_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio"})
_SIGNS = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_LEAST_VTE = 5000


def knows_links(environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether to write links: to a terminal that says it is one of those that draw them, and no multiplexer."""
    if not is_terminal or environment.get("TMUX") or environment.get("STY") or environment.get("TERM") == "dumb":
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _PROGRAMS
        or any(environment.get(name) for name in _SIGNS)
        or (vte.isdecimal() and int(vte) >= _LEAST_VTE)
    )


def linked(text: str, shown: str, path: Path, *, is_terminal: bool) -> str:
    """Return a summary in which the last mention of a path is a link to it, where the terminal knows links.

    Args:
        text: the summary.
        shown: the path as it stands there.
        path: the file that it names.
        is_terminal: whether the summary goes to a terminal.
    """
    at = text.rfind(shown) if shown else -1
    if at < 0 or not knows_links(os.environ, is_terminal=is_terminal):
        return text
    address = path.absolute().as_uri()
    return f"{text[:at]}{_OPEN.format(address=address)}{shown}{_CLOSE}{text[at + len(shown) :]}"
