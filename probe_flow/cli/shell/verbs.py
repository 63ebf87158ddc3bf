"""The verbs of the prompt: questions of `show` under names of their own, with the same options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from probe_flow.api.dumps import asker_of
from probe_flow.cli.shell.prompt import Prompt
from probe_flow.cli.show import command as show_command
from probe_flow.runs.queries.asker import Asker

_AS_IS = {"ignore_unknown_options": True, "help_option_names": []}


class ShowVerb(click.Command):
    """A question of `show`: its words go there, with what makes them that question in front.

    Args:
        name: the verb.
        before: arguments put in front of the user's.
        takes: name of the value that comes right after them, empty for none.
        help: one line.
    """

    def __init__(self, name: str, before: Sequence[str], *, takes: str, help: str) -> None:  # noqa: A002 (click's name)
        super().__init__(name, help=help, context_settings=dict(_AS_IS), add_help_option=False, callback=self._ask)
        self._before = list(before)
        self._takes = takes
        self.params = [click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)]

    def _ask(self, words: tuple[str, ...]) -> Any:
        context = click.get_current_context()
        if {"--help", "-h"} & set(words):
            click.echo(f"usage: {self.name} {self._takes} [options of show]".replace("  ", " ") + f"\n\n{self.help}")
            click.echo("\noptions of show:")
            with click.Context(show_command, info_name="show") as shown:
                formatter = shown.make_formatter()
                show_command.format_options(shown, formatter)
            click.echo(formatter.getvalue().rstrip())
            return 0
        if self._takes and (not words or words[0].startswith("--")):
            raise click.UsageError(f"`{self.name}` takes {self._takes}; `{self.name} --help` tells more", ctx=context)
        prompt = context.find_object(Prompt)
        assert prompt is not None
        arguments = [str(prompt.asker.run.folder), *self._before, *words]
        return show_command.main(arguments, prog_name=str(self.name), standalone_mode=False, obj=prompt.asker)


@click.command("open")
@click.argument("run", type=click.Path(path_type=Path))
@click.pass_obj
def _open(prompt: Prompt, run: Path) -> Asker:
    """Ask another RUN from now on."""
    found = asker_of(run)
    click.echo(f"asking {found.shown}" + (f"; before: {prompt.run.shown}" if prompt.run is not None else ""))
    return found


_ALL = (
    ShowVerb("summary", (), takes="", help="What the run concluded."),
    ShowVerb("origin", ("--origin",), takes="", help="Where the divergence begins, and what else was found."),
    ShowVerb("below", ("--below",), takes="METRIC=VALUE", help="Nodes with a tensor below, such as `cosine=0.98`."),
    ShowVerb("at-most", ("--at-most",), takes="METRIC=VALUE", help="The same, and those that are equal."),
    ShowVerb("above", ("--above",), takes="METRIC=VALUE", help="Nodes with a tensor above, for metrics of error."),
    ShowVerb("node", ("--node",), takes="NAME", help="All that is known of a node; `--depth 2` shows its neighbours."),
    ShowVerb("tensor", ("--tensor",), takes="NAME", help="Values, histogram and largest errors of a tensor."),
    ShowVerb("unmatched", ("--unmatched",), takes="", help="What has no counterpart, by reason."),
    ShowVerb("rows", ("--verdict",), takes="VERDICT", help="Rows with a verdict, such as `fail`."),
    ShowVerb("show", (), takes="", help="Any question of `probe-flow show`, with its options."),
    _open,
)

VERBS: Mapping[str, click.Command] = MappingProxyType({str(verb.name): verb for verb in _ALL})
