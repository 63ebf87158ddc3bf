"""`plugins`: what installed packages add, from where, and what of it is broken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import asdict

from probe_flow.cli.options import format_option
from probe_flow.cli.terminal.console import show
from probe_flow.errors import Diagnostic, did_you_mean

if TYPE_CHECKING:
    from probe_flow.packages import Plugin, Registry

OK = 0
BROKEN = 3

_NOTHING = "No installed package adds anything to probe_flow."


class _Line(Struct, frozen=True):
    """One thing that a package adds: its kind, and what is wrong with it."""

    kind: str
    plugin: Plugin
    problem: Diagnostic | None


@click.command("plugins")
@format_option
def command(*, output_format: str) -> int:
    """List what installed packages add, from where, and what of it is broken.

    Everything listed is imported for that, as a workflow that uses it would do.

    Exit code: 0; 3 when something cannot be used.
    """
    lines = [*_of_registries(), *_of_templates(), *_of_unknown_groups()]
    if output_format == "json":
        click.echo(json.dumps([_record(line) for line in lines], indent=2, ensure_ascii=False))
    else:
        for text in _table(lines) or [_NOTHING]:
            click.echo(text)
        show(line.problem for line in lines if line.problem is not None)
    return BROKEN if any(line.problem is not None for line in lines) else OK


def _registries() -> tuple[Registry[Any], ...]:
    """Return every registry that packages can add to."""
    from probe_flow.analysis.policies.registry import POLICIES
    from probe_flow.dumps.registry import READERS
    from probe_flow.metrics.accumulators.registry import ACCUMULATORS
    from probe_flow.metrics.catalogue.registry import METRICS
    from probe_flow.reports.layout import LAYOUTS
    from probe_flow.stages.registry import STAGES
    from probe_flow.stages.report.report import FORMATS

    return STAGES, READERS, METRICS, ACCUMULATORS, POLICIES, LAYOUTS, FORMATS


def _of_registries() -> Iterator[_Line]:
    for registry in _registries():
        for plugin, problem in registry.plugins():
            yield _Line(registry.word, plugin, problem)


def _of_templates() -> Iterator[_Line]:
    """Yield the folders of workflows, of which nothing is imported."""
    from probe_flow.packages import entry_points, plugin_of
    from probe_flow.workflow.templates.team_templates import GROUP, announced

    for entry in entry_points(GROUP):
        problems = announced([entry])[1]
        yield _Line("templates", plugin_of(entry), problems[0] if problems else None)


def _of_unknown_groups() -> Iterator[_Line]:
    from probe_flow.packages import entry_points, groups, plugin_of
    from probe_flow.workflow.templates.team_templates import GROUP

    known = sorted([GROUP, *(registry.group for registry in _registries())])
    for group in groups():
        for entry in entry_points(group) if group not in known else ():
            plugin = plugin_of(entry)
            problem = Diagnostic(
                "PF1022",
                f"nothing reads the entry point `{entry.name}`: there is no group `{group}`",
                help=did_you_mean(group, known) or f"groups: {', '.join(known)}",
                notes=(str(plugin),),
            )
            yield _Line("unknown", plugin, problem)


def _table(lines: Sequence[_Line]) -> list[str]:
    from probe_flow.record.places import printable

    rows = [
        [
            printable(text)
            for text in (
                line.kind,
                line.plugin.name,
                f"{line.plugin.package} {line.plugin.version}".strip(),
                line.plugin.value,
                "ok" if line.problem is None else f"broken: {line.problem.code}",
            )
        ]
        for line in lines
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _record(line: _Line) -> dict[str, Any]:
    problem = None if line.problem is None else line.problem.to_dict()
    return {"kind": line.kind, **asdict(line.plugin), "problem": problem}
