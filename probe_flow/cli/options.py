"""Options and steps that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from probe_flow.workflow.model.resolved import Workflow

Command = TypeVar("Command", bound=Callable[..., object])


class FrameworkCommand(click.Command):
    """A command that may take ``-f FRAMEWORK`` before its name, as msprobe's command line has it.

    The value is the parameter ``framework`` of the outermost context, and one of those that are declared here.

    Args:
        frameworks: the values that the command takes; without any it refuses the option as all other commands do.
    """

    def __init__(self, *args: Any, frameworks: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.frameworks = tuple(frameworks)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; say where ``-f FRAMEWORK`` stands, which has no place among them."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name != "-f" or not self.frameworks:
                raise
            raise click.UsageError(
                f"`-f FRAMEWORK` stands before `{self.name}`, as in `probe-flow -f {self.frameworks[0]} {self.name}`; "
                "it may be left out",
                ctx,
            ) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        if self.frameworks:
            with formatter.section(f"Before `{self.name}`"):
                formatter.write_dl([("-f FRAMEWORK", self.framework_help)])

    @property
    def framework_help(self) -> str:
        """What the help says of the option."""
        return f"Framework of the dumps, {' or '.join(f'`{name}`' for name in self.frameworks)}; may be left out."


class DrawingFile(click.Path):
    """A file for a drawing, whose name says which kind it is: SVG, or text for graphviz."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse one whose name says anything else."""
        path = Path(value)
        if path.suffix.lower() not in ("", ".svg", ".dot", ".gv"):
            named = path.with_suffix(".svg")
            self.fail(f"`{path}`: a drawing is SVG, as in `{named}`, or with `.dot` text for graphviz", param, ctx)
        return super().convert(value, param, ctx)


def read_sets(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Return ``--set NAME=VALUE`` options by name; each name may be set once."""
    sets: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"`{value}` is not NAME=VALUE")
        if name in sets:
            raise click.BadParameter(f"`{name}` is set twice")
        sets[name] = text
    return sets


def set_option(command: Command) -> Command:
    """Add ``--set NAME=VALUE``, which the command takes as ``sets: dict[str, str]``."""
    return click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME=VALUE",
        callback=read_sets,
        help="Set a parameter of the workflow; may be repeated. A path starts from the working directory.",
    )(command)


def run_argument(command: Command) -> Command:
    """Add ``RUN``, which may be left out; `run_or_newest` finds what is meant then."""
    return click.argument("run", type=click.Path(path_type=Path), required=False)(command)


def run_or_newest(run: Path | None) -> Path:
    """Return the folder of a run: the one named, else the newest one in the working directory.

    Raises:
        UsageError: PF7119 when there is none.
    """
    if run is not None:
        return run
    from probe_flow.runs.found_runs import newest_run

    return newest_run(Path())


def load(path: str, sets: dict[str, str]) -> Workflow:
    """Return the workflow of a file with this process's environment and working directory.

    Raises:
        WorkflowError: all mistakes of the file.
    """
    from probe_flow.workflow.loading.loader import load_workflow

    return load_workflow(Path(path), env=os.environ, cwd=Path.cwd(), sets=sets)
