"""Diagnostics with codes and source spans, and the exceptions that carry them.

The exception tree, with the exit code that each leads to when it ends a command::

    ProbeFlowError                 carries one or more Diagnostics
    |-- UsageError             2   the command line, the workflow or a mapping file is wrong: nothing ran
    |   `-- WorkflowError      2   one or more mistakes in a workflow file (all of them at once)
    |-- IncompleteError        3   something that was asked for could not be done: empty dump, failed stage
    |-- FormatError            -   one file or one tensor is malformed; its reader turns it into a Problem
    |-- NotComparableError     -   one pair cannot be measured; `compare` turns it into a verdict
    `-- InternalError          3   a defect of probe_flow itself (PF9xxx)

Codes never change meaning. Ranges: PF1xxx YAML and schema, PF2xxx plan, PF3xxx reading and formats,
PF4xxx matching, PF5xxx comparing, PF6xxx execution and cache, PF7xxx reporting, PF9xxx internal.
"""

from typing import TYPE_CHECKING

from probe_flow.errors.diagnostics import (
    Diagnostic,
    FormatError,
    IncompleteError,
    InternalError,
    NotComparableError,
    ProbeFlowError,
    Severity,
    Span,
    Stopped,
    UsageError,
    WorkflowError,
    did_you_mean,
    ran_out,
)

if TYPE_CHECKING:
    from probe_flow.errors.explanations import CODES, Code

__all__ = [
    "CODES",
    "Code",
    "Diagnostic",
    "FormatError",
    "IncompleteError",
    "InternalError",
    "NotComparableError",
    "ProbeFlowError",
    "Severity",
    "Span",
    "Stopped",
    "UsageError",
    "WorkflowError",
    "did_you_mean",
    "ran_out",
]


def __getattr__(name: str) -> object:
    """Return the explanations of all codes, which few commands ask for."""
    if name in ("CODES", "Code"):
        from probe_flow.errors import explanations

        return getattr(explanations, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
