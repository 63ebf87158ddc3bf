"""`probe-flow run`: run a workflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import (
    format_option,
    load,
    plan_options,
    set_option,
    verbose_option,
    verdict_options,
    with_min_coverage,
)

if TYPE_CHECKING:
    from probe_flow.engine.run.plan import Plan


@click.command("run")
@click.argument("workflow")
@set_option
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the run. Default: a new one, probe_flow_runs/<workflow>-<time>.",
)
@plan_options
@verdict_options
@format_option
@click.option("--dry-run", is_flag=True, help="Show what would run, as `plan` does, and run nothing.")
@click.option("--no-cache", is_flag=True, help="Neither use nor keep what was measured before.")
@click.option("--resume", is_flag=True, help="Continue a run that did not end: --output, or the newest of WORKFLOW.")
@click.option("--keep-going", is_flag=True, help="After a failed stage, run those that do not depend on it.")
@click.option(
    "--annotations",
    type=click.Choice(["github"]),
    metavar="github",
    help="Also print annotations for GitHub, before the summary.",
)
@verbose_option
@click.option("--quiet", is_flag=True, help="Only the last line: verdict, place, report.")
def command(
    *,
    workflow: str,
    sets: dict[str, str],
    output: Path | None,
    only: tuple[str, ...],
    until: str | None,
    start: str | None,
    force: tuple[str, ...],
    scheduler: str | None,
    workers: int | None,
    min_coverage: float | None,
    strict: tuple[str, ...],
    output_format: str,
    dry_run: bool,
    no_cache: bool,
    resume: bool,
    keep_going: bool,
    annotations: str | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Run WORKFLOW and say which operator is the first to diverge.

    WORKFLOW is a YAML file, or `template:NAME`, one of those that `templates` lists.

    Exit code: 0 everything was compared and the gate passed; 1 the gate failed; 2 a mistake in the command, the
    workflow or what it names; 3 incomplete; 129, 130 or 143 interrupted (SIGHUP, Ctrl-C, SIGTERM).
    """
    if annotations and output_format == "json":
        raise click.UsageError("`--annotations` and `--format json` both write to stdout; use the format `annotations`")
    from probe_flow.api.running import How
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan

    plan = make_plan(
        with_min_coverage(load(workflow, sets), min_coverage),
        only=only,
        until=until,
        start=start,
        force=force,
        scheduler=scheduler,
        workers=workers,
    )
    if dry_run:
        return _show_plan(plan, as_json=output_format == "json")
    return show_run(
        plan,
        output=output,
        cwd=Path.cwd(),
        as_json=output_format == "json",
        quiet=quiet,
        is_verbose=verbose,
        is_annotated=annotations is not None,
        how=How(no_cache=no_cache, resume=resume, keep_going=keep_going, strict=strict),
    )


def _show_plan(plan: Plan, *, as_json: bool) -> int:
    """Print a plan in place of running it; its warnings too, which a run would print first."""
    import json

    from probe_flow.cli.terminal.console import show
    from probe_flow.cli.terminal.planned import plan_record, show_plan

    if as_json:
        click.echo(json.dumps(plan_record(plan), indent=2, ensure_ascii=False))
    else:
        show(plan.warnings, sources=plan.workflow.sources)
        show_plan(plan)
    return 0
