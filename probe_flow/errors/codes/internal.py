"""Codes of defects of probe_flow itself (PF9xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF9001",
        "Defect of probe_flow",
        "Something happened inside probe_flow that nobody foresaw. It is not your mistake.",
        "probe_flow failed in a way that it should not: KeyError: 'x'",
        "Report it with the command line, the workflow file and the traceback.",
    ),
    Code(
        "PF9002",
        "Defect while measuring one pair",
        "The code that measures a pair failed in a way that nobody foresaw. The other pairs are not affected.",
        "measuring `Add_1.output.0` failed: IndexError: ...",
        "Report it with the workflow file and, if possible, the two tensor files.",
    ),
)
