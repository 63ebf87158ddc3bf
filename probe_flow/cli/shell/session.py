"""What the prompt does with a line: find the verb, run it, and go on whatever comes of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import click

from probe_flow.cli.shell.aliases import ALIASES
from probe_flow.cli.shell.prompt import CommandLine, Prompt
from probe_flow.cli.shell.verbs import VERBS
from probe_flow.cli.terminal.console import show
from probe_flow.errors import ProbeFlowError, did_you_mean
from probe_flow.record.places import printable
from probe_flow.runs.queries.asker import Asker

USAGE = 2
LEAVING = frozenset({"exit", "quit", "q"})
HELP = frozenset({"help", "?", "h"})
MAX_LINE = 64 * 1024


class Lines(Protocol):
    """Where lines come from."""

    def read(self, prompt: str) -> str:
        """Return the next line without its end.

        Raises:
            EOFError: at the end of input.
            KeyboardInterrupt: when the user drops the line.
        """


class Session:
    """A prompt on one run.

    Args:
        asker: the run that is asked; `open` puts another in its place. None: nothing was compared yet.
        command_line: for verbs that compare again.
        data: folder of a training step, which `ac -c` then compares.
    """

    def __init__(self, asker: Asker | None, command_line: CommandLine, *, data: Path | None = None) -> None:
        self.asker = asker
        self._data = data
        self._command_line = command_line
        self.verbs: Mapping[str, click.Command] = {**VERBS, **ALIASES}

    def greeting(self) -> str:
        """Return the first line that the user sees."""
        from probe_flow.record.conclusion import last_line

        if self.asker is None:
            first = f"`ac -c` compares `{self._data}`, `open RUN` takes up an earlier run"
            return f"{first}\n`help` lists what can be asked"
        return f"{last_line(self.asker.run.record, folder=self.asker.shown)}\n`help` lists what can be asked"

    def to_end(self, lines: Lines) -> int:
        """Do what the lines say until one leaves or they end; return the highest exit code among them."""
        worst = 0
        while True:
            try:
                line = lines.read("probe-flow> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return worst
            try:
                words = split(line)
            except ValueError as error:
                click.echo(f"the line cannot be read: {error}", err=True)
                worst = max(worst, USAGE)
                continue
            if words and words[0] in LEAVING:
                return worst
            worst = max(worst, self.do(words))

    def do(self, words: list[str]) -> int:
        """Run one line, already split, and return its exit code; nothing that it raises ends the session."""
        if not words:
            return 0
        name, *arguments = words
        if name in HELP:
            return self._help(arguments)
        verb = self.verbs.get(name)
        if verb is None:
            near = did_you_mean(name, [*self.verbs, *LEAVING, *HELP])
            click.echo(f"there is no `{printable(name)}` here; {near or '`help` lists what can be asked'}", err=True)
            return USAGE
        try:
            prompt = Prompt(self.asker, self._command_line, self._data)
            result = verb.main(arguments, prog_name=name, standalone_mode=False, obj=prompt)
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except ProbeFlowError as error:
            show(error.diagnostics)
            return error.exit_code
        except (click.exceptions.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            return 0
        if isinstance(result, Asker):
            self.asker = result
            return 0
        return result if isinstance(result, int) else 0

    def _help(self, arguments: Iterable[str]) -> int:
        wanted = next(iter(arguments), None)
        if wanted in self.verbs:
            return self.do([str(wanted), "--help"])
        for title, verbs in (("questions", VERBS), ("as in precision_tool", ALIASES)):
            click.echo(f"{title}:")
            for name, verb in verbs.items():
                click.echo(f"  {name:<10}{verb.get_short_help_str(100)}")
        click.echo("`help VERB` tells the options of one; `exit` or the end of input leaves")
        return 0


def split(line: str) -> list[str]:
    """Return the words of a line, quoted as in a shell; nothing for blank lines and comments.

    Raises:
        ValueError: when a quotation does not end, or the line is longer than any that is meant or holds a NUL.
    """
    if len(line) > MAX_LINE:
        raise ValueError(f"it is longer than {MAX_LINE} characters")
    if "\0" in line:
        raise ValueError("it holds a NUL character")
    if line.lstrip().startswith("#"):
        return []
    return shlex.split(line)
