"""What became of each stage and of the run: statuses, and the one function that decides the exit code."""

from __future__ import annotations

import enum
import shlex
import signal
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.engine.run.output import EVENTS_NAME
from probe_flow.errors import Diagnostic, Severity
from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE, EXIT_PASSED, EXIT_STOPPED, EXIT_WRONG_INPUT


class StageStatus(enum.Enum):
    """``not_selected``: left out by the command line. ``skipped``: could not run because of another stage."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    NOT_SELECTED = "not_selected"


class StageOutcome(Struct, frozen=True):
    """One stage after the run.

    Args:
        name: its name in the workflow.
        uses: its type.
        status: what became of it.
        wall_s: seconds that it ran.
        reason: why it did not end well, or why it did not run; empty for ``done``.
        diagnostics: the problems that ended it.
        is_wrong_input: whether a mistake of the user ended it (mapping file, option) rather than the data.
    """

    name: str
    uses: str
    status: StageStatus
    wall_s: float = 0.0
    reason: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    is_wrong_input: bool = False


def ended_by(
    outcome: StageOutcome, diagnostics: tuple[Diagnostic, ...], *, is_wrong_input: bool = False
) -> StageOutcome:
    """Return the outcome of a stage that these problems ended."""
    own = tuple(d if d.stage else replace(d, stage=outcome.name) for d in diagnostics)
    more = f" (and {len(own) - 1} more)" if len(own) > 1 else ""
    return replace(
        outcome,
        status=StageStatus.FAILED,
        reason=f"[{own[0].code}] {own[0].message}{more}",
        diagnostics=own,
        is_wrong_input=is_wrong_input,
    )


def became(status: StageStatus) -> str:
    """Return what to say of a stage that another one needs and lacks."""
    return "failed" if status is StageStatus.FAILED else "did not run"


def exit_code(*, stopped_by: int, wrong_input: bool, stage_failed: bool, incomplete: bool, gate_failed: bool) -> int:
    """Return the exit code of a run; the first that applies wins.

    Args:
        stopped_by: the signal that stopped the run, 0 for none -> 128 and its number.
        wrong_input: a mistake in the command, the workflow or a mapping file -> 2.
        stage_failed: a stage did not come to its end -> 3.
        incomplete: something selected was not compared -> 3, which outranks the gate: what was not seen can be worse.
        gate_failed: a gate said no -> 1.
    """
    if stopped_by:
        return EXIT_STOPPED + stopped_by
    if wrong_input:
        return EXIT_WRONG_INPUT
    if stage_failed or incomplete:
        return EXIT_INCOMPLETE
    return EXIT_GATE_FAILED if gate_failed else EXIT_PASSED


def run_verdict(code: int, *, compared: bool) -> str | None:
    """Return ``pass``, ``fail``, ``incomplete`` or ``stopped`` (by a mistake of the user).

    None when the run was not asked to compare anything.
    """
    if code == EXIT_WRONG_INPUT:
        return "stopped"
    if code == EXIT_GATE_FAILED:
        return "fail"
    if code != EXIT_PASSED:
        return "incomplete"
    return "pass" if compared else None


def unforeseen(stage: str, error: Exception) -> Diagnostic:
    """Return what to say of a stage that ended by a defect, ours or that of a package."""
    return Diagnostic(
        "PF6003",
        f"stage `{stage}` stopped: {type(error).__name__}: {error}",
        stage=stage,
        help=f"the traceback is in `{EVENTS_NAME}` of the run's folder, event `stage.crashed`",
    )


def stopped(number: int, folder: Path, resume_help: str) -> Diagnostic:
    """Return what to say of a run that a signal ended."""
    return Diagnostic(
        "PF6014",
        f"the run was stopped by {signal.Signals(number).name}",
        Severity.WARNING,
        path=str(folder),
        help=resume_help
        or f"`run` with `--resume --output {shlex.quote(str(folder))}` continues it; "
        "`compare` again takes what was measured from the cache",
    )
