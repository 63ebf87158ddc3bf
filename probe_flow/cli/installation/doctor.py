"""`probe-flow doctor`: whether this installation and machine can do their work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import format_option
from probe_flow.cli.terminal.console import wants_color

if TYPE_CHECKING:
    from probe_flow.engine.environment import Check

OK = 0
BROKEN = 3

_COLORS = {"ok": "green", "absent": "bright_black", "note": "yellow", "broken": "red"}


@click.command("doctor")
@format_option
@click.option("--quiet", is_flag=True, help="Only what is broken or may cost something.")
@click.option("--warm-up", is_flag=True, help="First compile what the extra `accel` is for; takes a minute, once.")
def command(*, output_format: str, quiet: bool, warm_up: bool) -> int:
    """Look at libraries, machine, folders, extras, frameworks and the NPU.

    Exit code: 0; 2 when there is nothing to compile with; 3 when a library that every command needs is missing or
    broken, or compiling failed.
    """
    from probe_flow.engine.environment import State, examine

    if warm_up:
        _compile(is_shown=not quiet and sys.stderr.isatty())
    checks = examine(os.environ, Path.cwd())
    is_broken = any(check.state is State.BROKEN for check in checks)
    if quiet:
        checks = [check for check in checks if check.state in (State.BROKEN, State.NOTE)]
    if output_format == "json":
        click.echo(json.dumps({"healthy": not is_broken, "checks": [_record(each) for each in checks]}, indent=2))
    else:
        color = wants_color(os.environ, is_terminal=sys.stdout.isatty())
        for line in _lines(checks):
            click.echo(line, color=color)
        click.echo("Something that every command needs is broken." if is_broken else "Everything needed is there.")
    return BROKEN if is_broken else OK


def _compile(*, is_shown: bool) -> None:
    """Compile every pass; in a terminal say how far it is, on one line."""
    from probe_flow.metrics.backends.warm_up import compile_now

    def tell(done: int, count: int) -> None:
        click.echo(f"\rcompiling: {done} of {count}", nl=False, err=True)

    compile_now(tell if is_shown else lambda _done, _count: None)
    if is_shown:
        click.echo(err=True)


def _record(check: Check) -> dict[str, str]:
    return {
        "section": check.section,
        "name": check.name,
        "state": check.state.value,
        "value": check.value,
        "note": check.note,
    }


def _lines(checks: Sequence[Check]) -> Iterator[str]:
    """Yield the facts by section, aligned, with an empty line after each section."""
    from probe_flow.record.places import printable

    width = max((len(check.name) for check in checks), default=0)
    for section in dict.fromkeys(check.section for check in checks):
        yield section
        for check in (check for check in checks if check.section == section):
            state = click.style(f"{check.state.value:<6}", fg=_COLORS[check.state.value])
            texts = (printable(text) for text in (check.value, check.note) if text)
            yield f"  {state}  {check.name:<{width}}  {': '.join(texts)}".rstrip()
        yield ""
