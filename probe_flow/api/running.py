"""Run a plan, for a command and for a call from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from probe_flow.engine.cache import cache_folder
from probe_flow.engine.run.execute import RunOutcome, execute
from probe_flow.engine.run.plan import Plan, with_scheduler
from probe_flow.engine.run.tasks import Progress

Watch = Callable[[Plan], AbstractContextManager[Progress]]
"""Returns what hears of the steps of a run, given its plan with the scheduler that there is."""


class How(Struct, frozen=True):
    """How a run is made beside its plan.

    Args:
        no_cache: whether nothing that was measured before is used or kept.
        resume: whether it continues an earlier run.
        keep_going: whether stages that do not depend on a failed one run.
        strict: codes of warnings that count as errors, ``x`` for any digit.
        resume_option: option of the command that goes on with such a run after an interruption.
        output_option: option of the command that names the folder of the run.
    """

    no_cache: bool = False
    resume: bool = False
    keep_going: bool = False
    strict: Sequence[str] = ()
    resume_option: str = "--resume"
    output_option: str = "--output"


AS_USUAL = How()


def run_plan(plan: Plan, *, output: Path | None, cwd: Path, watch: Watch, how: How = AS_USUAL) -> RunOutcome:
    """Run a plan and write its record.

    Args:
        plan: what to do.
        output: folder of the run; None = a new one below ``probe_flow_runs``.
        cwd: working directory.
        watch: hears of the steps.
        how: cache, resume and failed stages.

    Raises:
        UsageError: as `execute`, and what opening the scheduler raises.
    """
    scheduler = plan.executor.open()
    plan = with_scheduler(plan, scheduler)
    with watch(plan) as progress:
        return execute(
            plan,
            scheduler=scheduler,
            cwd=cwd,
            output=output,
            progress=progress,
            cache=None if how.no_cache else cache_folder(plan.workflow.cache.dir, os.environ),
            is_resumed=how.resume,
            keeps_going=how.keep_going,
            strict=how.strict,
            resume_help="" if how.resume_option == AS_USUAL.resume_option else f"`{how.resume_option}` continues it",
        )
