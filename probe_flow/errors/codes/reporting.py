"""Codes of reporting (PF7xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7001",
        "a result file cannot be written",
        "The disk is full, the folder is not yours to write, or the file system refused the name. What stood there "
        "before is unchanged; nothing half-written is left.",
        "`comparison.jsonl` cannot be written: No space left on device",
        "Free some disk or name another folder with `--output`, then run again with `--resume`: what is cached is not "
        "measured twice.",
    ),
    Code(
        "PF7002",
        "unknown report layout",
        "A CSV format names a layout that neither probe_flow nor an installed package has.",
        "unknown report layout `torchar`; did you mean `torchair`?",
        "Use one of the layouts that the message lists, or install the package that has it.",
    ),
    Code(
        "PF7003",
        "a report layout of an installed package does not load",
        "An installed package announces a layout (entry point `probe_flow.reports`), but importing it failed, or what "
        "it names is no function.",
        "report layout `sheet` of `acme_reports:write` does not load: No module named 'acme_reports'",
        "Update or remove that package, or use another layout.",
    ),
)
