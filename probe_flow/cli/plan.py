"""`probe-flow plan`: what a run would do. Never writes."""

from __future__ import annotations

import json

import click

from probe_flow.cli.options import load, plan_options, set_option
from probe_flow.cli.terminal.console import show


@click.command("plan")
@click.argument("workflow")
@set_option
@plan_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "mermaid", "dot"]),
    default="text",
    show_default=True,
    help="For people or for programs; `mermaid` and `dot` (graphviz) draw the stages.",
)
def command(
    *,
    workflow: str,
    sets: dict[str, str],
    only: tuple[str, ...],
    until: str | None,
    start: str | None,
    force: tuple[str, ...],
    scheduler: str | None,
    workers: int | None,
    output_format: str,
) -> None:
    """Show the stages of WORKFLOW in order, why each runs and how much it reads. Checks paths; writes nothing."""
    from probe_flow.cli.terminal.planned import dot, mermaid, plan_record, show_plan
    from probe_flow.engine.run.plan import make_plan

    plan = make_plan(
        load(workflow, sets), only=only, until=until, start=start, force=force, scheduler=scheduler, workers=workers
    )
    if output_format == "json":
        click.echo(json.dumps(plan_record(plan), indent=2, ensure_ascii=False))
        return
    show(plan.warnings, sources=plan.workflow.sources)
    if output_format in ("mermaid", "dot"):
        click.echo(mermaid(plan) if output_format == "mermaid" else dot(plan), nl=False)
        return
    show_plan(plan)
