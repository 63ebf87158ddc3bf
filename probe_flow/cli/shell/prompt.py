"""What the verbs of the prompt are given: the run that is asked, and the command line, which runs a workflow again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import click

from probe_flow.runs.queries.asker import Asker

Options = ParamSpec("Options")
Result = TypeVar("Result")

CommandLine: TypeAlias = Callable[[Sequence[str]], int]
"""Runs a command, given its words without the program's name, and returns its exit code."""


class Prompt(NamedTuple):
    """The object of click's context of every verb.

    Args:
        run: what is asked; None before anything was compared.
        command_line: for verbs that compare again.
        data: folder of a training step (`precision_data`) that the prompt was opened on; None if on a run.
    """

    run: Asker | None
    command_line: CommandLine
    data: Path | None = None

    @property
    def asker(self) -> Asker:
        """The run that is asked.

        Raises:
            click.UsageError: nothing was compared yet.
        """
        if self.run is None:
            raise click.UsageError(
                f"nothing was compared yet: `ac -c` compares `{self.data}`, `open RUN` takes up an earlier run"
            )
        return self.run


def pass_asker(function: Callable[Concatenate[Asker, Options], Result]) -> Callable[Options, Result]:
    """Give a verb the run that is asked, which is all that most of them need."""

    def given(*args: Options.args, **options: Options.kwargs) -> Result:
        prompt = click.get_current_context().find_object(Prompt)
        assert prompt is not None
        return function(prompt.asker, *args, **options)

    return functools.update_wrapper(given, function)
