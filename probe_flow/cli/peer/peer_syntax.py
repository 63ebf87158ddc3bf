"""The syntax of the commands that users know from the tool probe_flow replaces: one parser class for all of them.

Options have one dash and several letters (``-tp``) beside a long form with underscores (``--target_path``); click reads
both as they are. This class adds what click does not know: options of msprobe that this version does not have
are named as such, and long forms may be written with dashes or shortened as far as they stay unique.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import click

from probe_flow.cli.elsewhere import Lack
from probe_flow.cli.options import FrameworkCommand
from probe_flow.errors import Diagnostic, UsageError

FRAMEWORKS = ("mindspore", "pytorch")
"""Values of ``-f`` that commands on dumps of programs take."""


class PeerCommand(FrameworkCommand):
    """A command in that syntax.

    Args:
        frameworks: values of ``-f`` before the command; none = it does not take it.
        later: options that msprobe has and this command does not, with what does their job here.
    """

    def __init__(self, *args: Any, later: Mapping[str, Lack] = MappingProxyType({}), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._later = later

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            UsageError: PF2120 for every option that this version does not have.
        """
        own = {name: each.name for each in self.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
        args = [_full_name(arg, {**own, **{name: name for name in self._later}}) for arg in args]
        self._refuse_later(args)
        _refuse_unknown(args, [*own], ctx)
        return super().parse_args(ctx, args)

    def _refuse_later(self, args: Sequence[str]) -> None:
        names = dict.fromkeys(arg.partition("=")[0] for arg in args)
        problems = [
            Diagnostic(
                "PF2120",
                f"`{name}` ({self._later[name].what}) is not part of probe_flow",
                help=self._later[name].instead or f"`probe-flow {self.name} --help` lists the options there are",
            )
            for name in names
            if name in self._later
        ]
        if problems:
            raise UsageError(problems)


def _refuse_unknown(args: Sequence[str], known: Sequence[str], ctx: click.Context) -> None:
    """Name an unknown option of several letters as it was written; click would see its first letter only."""
    for arg in args[: args.index("--")] if "--" in args else args:
        name = arg.partition("=")[0]
        is_word = len(name) > 2 and name[0] == "-" and name[1] != "-"
        if is_word and name not in known and name[:2] not in known:
            raise click.NoSuchOption(name, possibilities=get_close_matches(name, known), ctx=ctx)


def _full_name(arg: str, known: Mapping[str, str | None]) -> str:
    """Return an argument with a shortened or dashed long option written out; anything else as it is.

    Args:
        arg: as it was typed.
        known: every spelling of every option, with the option that it means.
    """
    if not arg.startswith("--") or arg == "--":
        return arg
    name, equals, value = arg.partition("=")
    wanted = name[2:].replace("-", "_")
    fits = [option for option in known if option.startswith("--") and option[2:].startswith(wanted)]
    exact = [option for option in fits if option[2:] == wanted]
    if len({known[option] for option in exact or fits}) == 1:
        return (exact or fits)[0] + equals + value
    return arg
