"""Run a plan for a command: warnings and progress on stderr, the result on stdout."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click
from msgspec import structs

from probe_flow.cli.terminal.console import show, wants_color
from probe_flow.engine.run.plan import Plan
from probe_flow.errors import Diagnostic, Severity, UsageError, WorkflowError

if TYPE_CHECKING:
    from probe_flow.api.running import How
    from probe_flow.engine.run.execute import RunOutcome
    from probe_flow.engine.run.tasks import Progress
    from probe_flow.record.types.run import RunRecord

DEFAULT_WIDTH = 80
"""Columns where there is no terminal: a log is read in one."""

MAX_OF_ONE_CODE = 3
"""Problems of one code that are shown in full; a damaged dump may have thousands."""


def show_run(
    plan: Plan,
    *,
    output: Path | None,
    cwd: Path,
    as_json: bool = False,
    quiet: bool = False,
    is_verbose: bool | None = None,
    is_annotated: bool = False,
    how: How,
) -> int:
    """Run a plan, show what came of it and return the exit code.

    Args:
        plan: what to do.
        output: folder of the run; None = a new one below ``probe_flow_runs``.
        cwd: working directory.
        as_json: print the run record instead of the summary.
        quiet: no progress and no warnings; of the summary only the last line.
        is_verbose: all that there is to say in place of 24 lines; None for a command that cannot be asked for it.
        is_annotated: also print annotations for GitHub.
        how: cache, resume and failed stages.
    """
    from probe_flow.record.conclusion import last_line
    from probe_flow.record.run_json import run_json_text

    outcome = _run(plan, output=output, cwd=cwd, quiet=quiet, keeps_done=bool(is_verbose), how=how)
    ended = [diagnostic for stage in outcome.stages for diagnostic in stage.diagnostics]
    folder = shown_path(outcome.folder, cwd)
    if not quiet:
        _show_reported(outcome.reported, folder)
    show(ended, sources=plan.workflow.sources)
    if is_annotated:
        from probe_flow.reports.ci.annotations import annotate, github_text

        click.echo(github_text(annotate(outcome.comparisons.values(), outcome.record, root=cwd)), nl=False)
    if as_json:
        click.echo(run_json_text(outcome.record), nl=False)
    elif quiet:
        click.echo(last_line(outcome.record, folder=folder))
    else:
        _show_summary(outcome, cwd, is_verbose=is_verbose, resume=how.resume_option)
    return outcome.exit_code


def _run(plan: Plan, *, output: Path | None, cwd: Path, quiet: bool, keeps_done: bool, how: How) -> RunOutcome:
    """Run a plan behind its warnings and with progress, unless it is to be quiet."""
    from probe_flow.api.progress import can_redraw, progress_on
    from probe_flow.api.running import run_plan

    @contextmanager
    def watch(planned: Plan) -> Iterator[Progress]:
        if not quiet:
            show(planned.warnings, sources=planned.workflow.sources)
        is_live = can_redraw(os.environ, is_terminal=sys.stderr.isatty())
        # What is left of the bars would push the summary's first lines out of a terminal of 24.
        with progress_on(sys.stderr, quiet=quiet, is_live=is_live, keeps_done=keeps_done) as progress:
            yield progress

    _import_structlog()
    try:
        return run_plan(plan, output=output, cwd=cwd, watch=watch, how=how)
    except UsageError as error:
        raise _by_options(error, how) from error


def _show_summary(outcome: RunOutcome, cwd: Path, *, is_verbose: bool | None, resume: str) -> None:
    """Print what came of a run, for people, with links and colours where a terminal has them."""
    folder, is_terminal = shown_path(outcome.folder, cwd), sys.stdout.isatty()
    color = wants_color(os.environ, is_terminal=is_terminal)
    record = _without_what_is_above(outcome) if _is_one_place() else outcome.record
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    if is_verbose:
        from probe_flow.reports.terminal.console import render_summary

        render: Callable[..., str] = partial(render_summary, comparisons=list(outcome.comparisons.values()))
    else:
        from probe_flow.reports.terminal.short import render_short

        by = f"`probe-flow show -v {shlex.quote(folder)}`" if is_verbose is None else "`-v`"
        render = partial(render_short, more=f"{by} shows coverage, gaps, the largest errors and the files")
    summary = render(record, color=color, width=width, folder=folder, resume=resume, to_terminal=is_terminal)
    if color:
        from probe_flow.cli.terminal.links import linked
        from probe_flow.record.conclusion import report_path

        report = report_path(record, folder)
        summary = linked(summary, report, cwd / report, is_terminal=True)
    click.echo(summary, nl=False, color=color)


def _by_options(error: UsageError, how: How) -> UsageError:
    """Return an error that advises the option by which this command names the folder of the run."""
    named = [
        structs.replace(each, help=each.help.replace("`--output`", f"`{how.output_option}`")) if each.help else each
        for each in error.diagnostics
    ]
    if named == list(error.diagnostics):
        return error
    return WorkflowError(named, error.sources) if isinstance(error, WorkflowError) else UsageError(named)


def _import_structlog() -> None:
    """Import structlog, and neither rich, colorama nor asyncio, which take most of the time of its import.

    It looks for the first two to draw tracebacks and colours, and uses asyncio in coroutines of its own; here it writes
    JSON lines. Only for a process that is ours: in one that belongs to somebody else, structlog is what they expect.
    """
    with _without("rich"), _without("colorama"), _put_off("asyncio"):
        import structlog  # noqa: F401


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let an optional package be missing, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # its import raises, as Python documents
    try:
        yield
    finally:
        del sys.modules[name]


@contextmanager
def _put_off(name: str) -> Iterator[None]:
    """Give whoever imports a package now one that imports it once it is used; later imports get the package itself."""
    if name in sys.modules:
        yield
        return
    stand_in = ModuleType(name)
    stand_in.__getattr__ = lambda attribute: getattr(import_module(name), attribute)  # type: ignore[method-assign]
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]


def _is_one_place() -> bool:
    """Say whether stderr and stdout are read together: one terminal, or one log."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):  # no files at all
        return False


def _without_what_is_above(outcome: RunOutcome) -> RunRecord:
    """Return the record with the messages of failed stages, which stand above the summary, replaced by their codes."""
    above = {
        f"stage `{stage.name}` {stage.status.value}: {stage.reason}": (
            f"stage `{stage.name}` failed: see {stage.diagnostics[0].code} above"
        )
        for stage in outcome.stages
        if stage.diagnostics
    }
    return structs.replace(
        outcome.record, incomplete=tuple(above.get(cause, cause) for cause in outcome.record.incomplete)
    )


def _show_reported(problems: Sequence[Diagnostic], folder: str) -> None:
    """Show what stages reported, the first of every code in full; notes stay in the record."""
    counts: Counter[str] = Counter()
    kept = []
    for problem in problems:
        if problem.severity is not Severity.NOTE:
            counts[problem.code] += 1
            if counts[problem.code] <= MAX_OF_ONE_CODE:
                kept.append(problem)
    show(kept)
    for code, count in counts.items():
        if count > MAX_OF_ONE_CODE:
            click.echo(f"{code}: and {count - MAX_OF_ONE_CODE} more, all in `{folder}/run.json`", err=True)


def shown_path(path: Path, cwd: Path) -> str:
    """Return a path as a user would type it: relative where it lies below the working directory."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
