"""Options of the commands that plan or run a workflow."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click
from msgspec.structs import replace

if TYPE_CHECKING:
    from probe_flow.workflow.model.resolved import Workflow

Command = TypeVar("Command", bound=Callable[..., object])


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
