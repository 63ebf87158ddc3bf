"""`run`: a workflow from Python, as the command line runs it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from probe_flow.api.arguments import expect, known_names, names, path_of, plain
from probe_flow.api.problems import told_whole
from probe_flow.errors import Diagnostic, Stopped, UsageError, WorkflowError, did_you_mean
from probe_flow.workflow.sources import PYTHON

if TYPE_CHECKING:
    from probe_flow.api.running import How, Watch
    from probe_flow.api.stored_run import Run
    from probe_flow.engine.run.plan import Plan
    from probe_flow.engine.run.tasks import Progress
    from probe_flow.workflow.model import Workflow

_STOPPED = 128
"""What exit codes of signals are above."""


@told_whole()
def run(
    workflow: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    cache: bool = True,
    keep_going: bool = False,
    only: str | Sequence[str] = (),
    until: str | None = None,
    start: str | None = None,
    force: str | Sequence[str] = (),
    strict: str | Sequence[str] = (),
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool | Progress = False,
    parameters: Mapping[str, object] | None = None,
    **more: object,
) -> Run:
    """Run a workflow file, as `probe-flow run` does, and return what came of it.

    The verdict is in the result, also where a stage failed; what is wrong before anything runs is an error. The process
    is left as it was: its signal handlers are its own again when the call ends.

    Args:
        workflow: the YAML file, or ``template:NAME``.
        output: folder of the run; default: a new one, ``probe_flow_runs/<workflow>-<time>``.
        resume: continue the run in `output`, or the newest one of this workflow, that did not end.
        cache: whether what was measured before is used, and what is measured is kept.
        keep_going: after a failed stage, run those that do not depend on it.
        only: run these stages and what they need.
        until: run nothing that comes after this stage.
        start: run this stage, what comes after it, and what these need.
        force: stages that measure again what was measured before.
        strict: codes of warnings that count as errors, ``x`` for any digit.
        scheduler: ``auto``, ``sync``, ``threads``, ``processes`` or ``distributed``; default: as the workflow says.
        workers: batches that run at the same time.
        progress: True: show progress on stderr, as bars on a terminal and as lines elsewhere; or what hears of it.
        parameters: values of the workflow's parameters; for names that this function has itself.
        more: the same by name; a path starts from the working directory, None leaves a parameter as it is.

    Raises:
        WorkflowError: all mistakes of the workflow and of the parameters, and paths that are missing.
        UsageError: arguments that are wrong; PF6010 to PF6013 when the output folder cannot be used.
        KeyboardInterrupt: Ctrl-C stopped the run, which `resume` continues.

    >>> import probe_flow as pf
    >>> run = pf.run("workflows/torchair_ge_vs_fx.yaml", target="examples/torchair/healthy/msprobe_ge_dump",
    ...              golden="examples/torchair/healthy/msprobe_fx_dump", output="out")
    >>> run.verdict, run.origin, [path.name for path in run.reports if path.suffix == ".html"]
    ('pass', None, ['report.html'])
    """
    from probe_flow.api.running import How
    from probe_flow.workflow.loading.loader import load_workflow

    given = {**(parameters or {}), **more}
    sets = {name: plain(value) if not hasattr(value, "__fspath__") else value for name, value in given.items()}
    sets = {name: value for name, value in sets.items() if value is not None}
    path = path_of("workflow", workflow)
    try:
        loaded = load_workflow(path, env=os.environ, cwd=Path.cwd(), sets=sets, given_at=PYTHON)
    except WorkflowError as error:
        raise WorkflowError([_with_hint(each, more) for each in error.diagnostics], error.sources) from None
    how = How(no_cache=not cache, resume=resume, keep_going=keep_going, strict=names("strict", strict))
    plan = planned(
        loaded,
        only=names("only", only),
        until=until,
        start=start,
        force=names("force", force),
        scheduler=scheduler,
        workers=workers,
    )
    return finished(plan, output=None if output is None else path_of("output", output), how=how, progress=progress)


def _with_hint(problem: Diagnostic, more: Mapping[str, object]) -> Diagnostic:
    """Return what is wrong with a parameter, with the argument of `run` that may have been meant."""
    for name in more if problem.code == "PF1303" else ():
        near = did_you_mean(name, known_names(run), limit=1)
        if near is not None and f"`{name}`" in problem.message:
            return replace(problem, help=f"{near.removesuffix('?')}, an argument of `run`? {problem.help or ''}")
    return problem


def planned(
    workflow: Workflow,
    *,
    only: Sequence[str] = (),
    until: str | None = None,
    start: str | None = None,
    force: Sequence[str] = (),
    scheduler: str | None,
    workers: int | None,
) -> Plan:
    """Return the plan of a workflow; errors as `make_plan`, and PF2130 for arguments of other types."""
    from probe_flow.engine.run.plan import make_plan

    for name, value in (("until", until), ("start", start), ("scheduler", scheduler)):
        if value is not None:
            expect(name, value, str, "a text")
    if workers is not None:
        expect("workers", workers, int, "a whole number")
        if workers < 1:
            raise UsageError(Diagnostic("PF2130", f"the argument `workers` must be 1 or more, not {workers}"))
    return make_plan(workflow, only=only, until=until, start=start, force=force, scheduler=scheduler, workers=workers)


def finished(
    plan: Plan, *, output: Path | None, how: How, progress: bool | Progress, is_temporary: bool = False
) -> Run:
    """Run a plan and return the run, or pass on the signal that stopped it."""
    from probe_flow.api.running import run_plan
    from probe_flow.api.stored_run import Run
    from probe_flow.record.run_folder import read_run

    outcome = run_plan(plan, output=output, cwd=Path.cwd(), watch=_watch(progress=progress), how=how)
    if outcome.exit_code > _STOPPED:
        _pass_on(outcome.exit_code - _STOPPED, None if is_temporary else outcome.folder)
    return Run(read_run(outcome.folder), moved={}, is_temporary=is_temporary)


def _pass_on(number: int, folder: Path | None) -> None:
    """Let the process have the signal that the run heard in its place; where it goes on, the call ends all the same."""
    if number != signal.SIGINT:
        signal.raise_signal(number)
        raise Stopped(number)
    cure = f"call again with `output={str(folder)!r}, resume=True`" if folder is not None else "call again"
    raise KeyboardInterrupt(f"the run was stopped; {cure}, and what was measured is not measured again")


def _watch(*, progress: bool | Progress) -> Watch:
    """Return what hears of the steps of a run: a display on stderr, nothing, or what the caller gave."""
    from probe_flow.api.progress import can_redraw, progress_on

    @contextmanager
    def watch(_plan: Plan) -> Iterator[Progress]:
        if not isinstance(progress, bool):
            yield progress
            return
        is_live = can_redraw(os.environ, is_terminal=sys.stderr.isatty())
        with progress_on(sys.stderr, quiet=not progress, is_live=is_live) as display:
            yield display

    return watch
