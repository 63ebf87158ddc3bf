"""Whether two stored runs read the same dumps, and what it means for their difference where they did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity
from probe_flow.record.places import printable
from probe_flow.record.run_folder import StoredRun

TARGET, GOLDEN = "target", "golden"
_DIGITS = 8
"""Digits of a fingerprint that are shown; JSON has all."""


class Input(Struct, frozen=True):
    """A dump that a run read.

    Args:
        path: its folder or file.
        fingerprint: digest of the names, sizes and times of its files.
        tensors: how many it holds.
    """

    path: str
    fingerprint: str
    tensors: int


class InputChange(Struct, frozen=True):
    """A dump that is another one in B: of one stage; None where a run has no such stage."""

    stage: str
    before: Input | None
    after: Input | None

    @property
    def is_rewritten(self) -> bool:
        """Whether both runs read the same place, whose files have changed since."""
        return self.before is not None and self.after is not None and self.before.path == self.after.path


def changed_inputs(before: Mapping[str, Input], after: Mapping[str, Input]) -> tuple[InputChange, ...]:
    """Return the dumps whose files are others in B, in the order of its stages.

    A dump that lies elsewhere with files of equal names, sizes and times is the same.

    Args:
        before, after: stage -> dump, of A and of B.
    """
    stages = dict.fromkeys([*after, *before])
    changes = (InputChange(stage, before.get(stage), after.get(stage)) for stage in stages)
    return tuple(
        change
        for change in changes
        if change.before is None or change.after is None or change.before.fingerprint != change.after.fingerprint
    )


def inputs_of(run: StoredRun) -> dict[str, Input]:
    """Return stage -> the dump that it read."""
    return {given.stage: Input(given.path, given.fingerprint, given.tensors) for given in run.record.inputs}


def names_text(changes: Sequence[InputChange]) -> str:
    """Return the stages of the changed dumps: ``target and golden``."""
    *most, last = [printable(change.stage) for change in changes]
    return f"{', '.join(most)} and {last}" if most else last


def meaning(changes: Sequence[InputChange]) -> str:
    """Return what it means for the difference of the runs that these dumps are others."""
    changed = {change.stage for change in changes}
    if changed == {TARGET}:
        return "the golden is the same: what is worse or better is so in the new target, or in the data it ran on"
    if changed == {GOLDEN}:
        return "the target is the same, judged by another golden: an error may have changed because the golden has"
    return "the runs compare other data: an error may have changed with them, and not with what is being tested"


def input_lines(changes: Sequence[InputChange]) -> list[str]:
    """Return the changed dumps in words, two lines each, and what they mean; nothing where none has changed."""
    lines = []
    width = max((len(printable(change.stage)) for change in changes), default=0)
    for change in changes:
        head = printable(change.stage).ljust(width)
        lines += [f"{head}  A  {_shown(change.before)}", f"{' ' * width}  B  {_shown(change.after)}"]
    return [*lines, meaning(changes)] if lines else []


def _shown(given: Input | None) -> str:
    if given is None:
        return "no such stage"
    counted = f"{given.tensors} tensor{'' if given.tensors == 1 else 's'}"
    return printable(f"{given.path}: {counted}, fingerprint {given.fingerprint[:_DIGITS]}")


def input_problem(changes: Sequence[InputChange], path: str) -> Diagnostic | None:
    """Return a warning (PF7333) that dumps are others, None where they are the same."""
    if not changes:
        return None
    is_one = len(changes) == 1
    how = "is another dump than in run A" if is_one else "are other dumps than in run A"
    if all(change.is_rewritten for change in changes):
        how = f"{'was' if is_one else 'were'} written again after run A"
    message = f"the {names_text(changes)} of run B {how}"
    return Diagnostic("PF7333", message, severity=Severity.WARNING, path=path, help=meaning(changes))


def input_facts(changes: Sequence[InputChange]) -> list[dict[str, Any]]:
    """Return the changed dumps for programs."""
    return [
        {"stage": change.stage, "before": _facts(change.before), "after": _facts(change.after)} for change in changes
    ]


def _facts(given: Input | None) -> Mapping[str, Any] | None:
    if given is None:
        return None
    return {"path": given.path, "fingerprint": given.fingerprint, "tensors": given.tensors}
