"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

if TYPE_CHECKING:
    from probe_flow.workflow.model import Workflow

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


def execution_options(command: Command) -> Command:
    """Add ``--scheduler`` and ``--workers``."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Batches that run at the same time."),
        click.option(
            "--scheduler",
            metavar="NAME",
            help="How work is spread: auto, sync (one after another), threads, processes or distributed (workers "
            "of a Dask cluster). Default: as the workflow says.",
        ),
    ):
        command = option(command)
    return command


def plan_options(command: Command) -> Command:
    """Add the options that change which stages run and how."""
    command = execution_options(command)
    for option in (
        click.option("--force", multiple=True, metavar="STAGE", help="Measure this stage again. May be repeated."),
        click.option("--until", metavar="STAGE", help="Run nothing that comes after this stage."),
        click.option(
            "--from", "start", metavar="STAGE", help="Run this stage, what comes after it, and what these need."
        ),
        click.option(
            "--only", multiple=True, metavar="STAGE", help="Run this stage and what it needs. May be repeated."
        ),
    ):
        command = option(command)
    return command


def verdict_options(command: Command) -> Command:
    """Add ``--min-coverage`` and ``--warn-as-error``, which say what makes a run incomplete."""
    for option in (
        click.option(
            "--warn-as-error",
            "strict",
            multiple=True,
            metavar="CODE",
            callback=_codes,
            help="Let a warning of this code make the run incomplete; `x` for any digit, e.g. PF42xx. May be repeated.",
        ),
        click.option(
            "--min-coverage",
            type=click.FloatRange(0.0, 1.0),
            metavar="SHARE",
            help="Only a part is meant: this share of outputs (0 to 1) has to be compared; executions on one side only "
            "and mapping entries without use are no gaps.",
        ),
    ):
        command = option(command)
    return command


def _codes(_context: click.Context, _parameter: click.Parameter, codes: tuple[str, ...]) -> tuple[str, ...]:
    for code in codes:
        if not re.fullmatch(r"PF\d[\dx]{3}", code):
            raise click.BadParameter(f"`{code}` is no code like PF2110 or PF42xx")
    return codes


def with_min_coverage(workflow: Workflow, share: float | None) -> Workflow:
    """Return the workflow whose comparisons ask for a part only, the same where no share is given."""
    if share is None:
        return workflow
    from probe_flow.stages.base import Kind
    from probe_flow.stages.compare import Require

    require = Require(coverage=share, executions=False, entries=False)
    stages = tuple(
        replace(stage, options=stage.options.model_copy(update={"require": require}))
        if stage.type.produces is Kind.COMPARISON and "require" in type(stage.options).model_fields
        else stage
        for stage in workflow.stages
    )
    return replace(workflow, stages=stages)


def format_option(command: Command) -> Command:
    """Add ``--format``."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="For people or for programs.",
    )(command)


def verbose_option(command: Command) -> Command:
    """Add ``-v``, which the command takes as ``verbose: bool``."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="All of the summary: coverage, gaps, the largest errors, files. Default: what fits 24 lines.",
    )(command)
