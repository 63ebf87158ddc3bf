"""Options of the commands that plan or run a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

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
