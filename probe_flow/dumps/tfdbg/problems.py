"""What is said of runs of TensorFlow's debugger that are not whole, or hold something else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from probe_flow.dumps.tfdbg.runs import DEVICE_PREFIX, Run
from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile
from probe_flow.records import Problem

_MAX_LISTED = 5


def below(run: Run, path: str | None) -> str:
    """Return a path below a run as people see it."""
    return f"{run.folder.name}/{path}" if path else run.folder.name


def not_of_the_debugger(run: Run, file: DumpFile) -> Problem:
    """Report a file that the debugger does not write."""
    return Diagnostic(
        "PF3205",
        f"`{below(run, file.relative)}` is passed over: the TensorFlow debugger writes no file of this name",
        severity=Severity.NOTE,
        path=below(run, file.relative),
    )


def half_written(run: Run, lost: Sequence[str], count: int) -> Problem:
    """Report a run that lacks many of the tensors that its graph says the debugger watched."""
    return Diagnostic(
        "PF3449",
        f"`{run.folder.name}` has {count} of the {count + len(lost)} tensors that its debugger watched: the run did "
        "not end, or another process still writes it",
        severity=Severity.WARNING,
        help="let the step end under the debugger and read again; or read another run with `run: NUMBER`",
        notes=(*(f"`{name}` has no file" for name in lost[:_MAX_LISTED]),),
        path=run.folder.name,
    )


def figures_only(run: Run, op: str, count: int) -> Problem:
    """Report files that hold what a debug operation says of tensors."""
    return Diagnostic(
        "PF3445",
        f"{count} files of `{run.folder.name}` hold what `{op}` says of tensors, not the tensors",
        severity=Severity.WARNING,
        help="dump with the debug operation `DebugIdentity`, which is the default",
        path=run.folder.name,
    )


def several_devices(run: Run, several: dict[str, str], devices: dict[str, set[str]]) -> Problem:
    """Report operators that ran on several devices."""
    name, device = next(iter(several.items()))
    others = ", ".join(f"`{each.removeprefix(DEVICE_PREFIX)}`" for each in sorted(devices[name] - {device}))
    return Diagnostic(
        "PF3446",
        f"{len(several)} operator{'s' if len(several) > 1 else ''} of `{run.folder.name}` ran on several devices; "
        f"that of `{device.removeprefix(DEVICE_PREFIX)}` is read, not that of {others}",
        severity=Severity.WARNING,
        help="dump a run on one device to compare all of it",
        notes=tuple(f"`{each}`" for each in list(several)[:_MAX_LISTED]),
        path=run.folder.name,
    )


def no_tensor(root: Path, names: Sequence[str], problems: Sequence[Problem]) -> Diagnostic:
    """Report runs without any tensor."""
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED])
    return Diagnostic(
        "PF3202",
        f"no tensor in {shown}: the run did not end, or nothing was watched",
        help="let the step end under the debugger, then read its folder; `run: NUMBER` reads another run",
        notes=tuple(problem.message for problem in problems[:_MAX_LISTED]),
        path=str(root),
    )


def one_of_sets(root: Path, sets: Sequence[str]) -> Problem:
    """Report that the folder of TensorFlow 2's debugger has several runs."""
    return Diagnostic(
        "PF3443",
        f"run {len(sets) - 1} (`{sets[-1]}`) of runs 0 to {len(sets) - 1} is read",
        severity=Severity.NOTE,
        help="give a folder that holds the files of one run to read another",
        notes=tuple(f"`{name}`" for name in sets[-_MAX_LISTED:]),
        path=str(root),
    )


def several_graphs(file: DumpFile, names: Sequence[str]) -> Problem:
    """Report operators of one name in several functions."""
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_LISTED]) + (" ..." if len(names) > _MAX_LISTED else "")
    return Diagnostic(
        "PF3446",
        f"{len(names)} names of operators are in several functions; those of the first that ran are read: {shown}",
        severity=Severity.WARNING,
        help="give the operators names of their own (`name=`), or dump one function",
        path=file.relative,
    )
