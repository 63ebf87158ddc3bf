"""Where the prompt's lines come from: prompt_toolkit with completion and history, or plain input without either."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.shell.session import HELP, LEAVING, Lines, Session
from probe_flow.cli.show import command as show_command
from probe_flow.errors import Diagnostic, ProbeFlowError, Severity

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completion
    from prompt_toolkit.document import Document

MAX_COMPLETIONS = 100

_OF_NODES = frozenset({"node", "ni"})
_OF_TENSORS = frozenset({"tensor", "pt", "cp"})
_OF_METRICS = frozenset({"below", "at-most", "above"})
_OF_VERDICTS = ("pass", "warning", "fail", "unmatched_target", "unmatched_golden", "not_comparable", "error", "skipped")
_OPTION_VALUES = {"--node": "node", "--tensor": "tensor", "--below": "below", "--at-most": "below", "--above": "below"}


class PlainLines:
    """Lines of stdin; the prompt is shown on a terminal only."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def read(self, prompt: str) -> str:
        """Return the next line; bytes that are no text are replaced."""
        if self._is_terminal:
            return input(prompt)
        with suppress(AttributeError, ValueError):  # a stream of a test or a program may have no such setting
            sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")


def open_lines(session: Session, *, history: Path | None, is_terminal: bool) -> tuple[Lines, Diagnostic | None]:
    """Return where lines come from, and a note when the prompt lacks completion because a package is missing."""
    if not is_terminal:
        return PlainLines(is_terminal=False), None
    if find_spec("prompt_toolkit") is None:
        note = Diagnostic(
            "PF7207",
            "the prompt has neither completion nor history: prompt_toolkit is not installed",
            Severity.NOTE,
            help="pip install 'probe-flow[shell]'",
        )
        return PlainLines(is_terminal=True), note
    return prompt_lines(session, history=history), None


def prompt_lines(session: Session, *, history: Path | None) -> Lines:
    """Return lines of prompt_toolkit, with completion of verbs, options and names."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys
    from prompt_toolkit.shortcuts import CompleteStyle

    class Names(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Completion]:  # noqa: ARG002
            typed = document.text_before_cursor
            word = typed.rpartition(" ")[2]
            for found in islice(completions(session, typed), MAX_COMPLETIONS):
                yield Completion(found, start_position=-len(word))

    # Pasted bytes may look like clicks of a mouse; those of prompt_toolkit 3.0.53 that do so by half stop the prompt.
    without_mouse = KeyBindings()
    without_mouse.add(Keys.Vt100MouseEvent)(lambda _event: None)

    kept: History = InMemoryHistory()
    if history is not None:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            history.open("a", encoding="utf-8").close()
            kept = FileHistory(str(history))
    prompt: PromptSession[str] = PromptSession(
        completer=Names(),
        history=kept,
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        key_bindings=without_mouse,
    )

    class Prompted:
        def read(self, prompt_text: str) -> str:
            return prompt.prompt(prompt_text)

    return Prompted()


def completions(session: Session, typed: str) -> Iterator[str]:
    """Yield what may stand at the end of a line, given what stands before the cursor."""
    *words, last = typed.split(" ") if typed.strip() else [""]
    words = [word for word in words if word]
    if not words:
        yield from (name for name in sorted([*session.verbs, "help", "exit"]) if name.startswith(last))
        return
    verb, before = words[0], words[-1]
    if verb in HELP:
        yield from (name for name in session.verbs if name.startswith(last))
        return
    if last.startswith("-"):
        yield from (option for option in _options(session, verb) if option.startswith(last))
        return
    kind = _OPTION_VALUES.get(before, verb if words[1:] in ([], ["-n"]) or verb in _OF_TENSORS else "")
    if kind == "rows":
        yield from (name for name in _OF_VERDICTS if name.startswith(last))
        return
    try:
        yield from _names(session, kind, last)
    except ProbeFlowError:  # a damaged run has nothing to complete; the question itself tells
        return


def _options(session: Session, verb: str) -> Iterator[str]:
    if verb in LEAVING or verb not in session.verbs:
        return
    command = session.verbs[verb]
    params = command.params if any(isinstance(each, click.Option) for each in command.params) else show_command.params
    yield from (option for each in params if isinstance(each, click.Option) for option in each.opts)


def _names(session: Session, kind: str, part: str) -> Iterator[str]:
    """Yield names that begin with a part, then those that hold it."""
    asker = session.asker
    if asker is None:
        return
    if kind in _OF_NODES:
        names = list(dict.fromkeys(node.title for node in asker.nodes))
    elif kind in _OF_TENSORS:
        names = asker.tensor_names()
    elif kind in _OF_METRICS:
        names = [f"{name}=" for name in asker.metric_names()]
    else:
        return
    fold = part.casefold()
    starting = [name for name in names if name.casefold().startswith(fold)]
    yield from starting
    known = set(starting)
    yield from (name for name in names if fold in name.casefold() and name not in known)


def history_file(environ: Mapping[str, str]) -> Path | None:
    """Return where the history of the prompt is kept, None when there is no home folder."""
    state = environ.get("XDG_STATE_HOME")
    home = environ.get("HOME")
    if state:
        return Path(state) / "probe_flow" / "shell_history"
    return Path(home) / ".local" / "state" / "probe_flow" / "shell_history" if home else None
