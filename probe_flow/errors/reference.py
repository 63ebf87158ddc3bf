"""The reference page of diagnostic codes (docs/reference/diagnostics.md), made from `CODES`."""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.errors.explanations import Code

_SECTIONS = (
    ("PF1", "YAML and schema"),
    ("PF2", "Plan"),
    ("PF3", "Reading and formats"),
    ("PF4", "Matching"),
    ("PF5", "Comparing"),
    ("PF6", "Execution and cache"),
    ("PF7", "Reporting"),
    ("PF9", "Defects of probe_flow"),
)

_HEAD = """# Diagnostic codes

Every problem that probe_flow reports has a code. Codes never change their meaning. `probe-flow explain PF1203` prints
one of these entries. This page is made from the program; do not edit it.
"""


def diagnostics_page(codes: Mapping[str, Code]) -> str:
    """Return the page as Markdown, codes in order."""
    parts = [_HEAD]
    for prefix, title in _SECTIONS:
        inside = [codes[code] for code in sorted(codes) if code.startswith(prefix)]
        if inside:
            parts.append(f"## {prefix}xxx: {title}\n")
            parts += [_entry(code) for code in inside]
    return "\n".join(parts)


def _entry(code: Code) -> str:
    return f"### {code.id}: {code.title}\n\n{code.cause}\n\n```text\n{code.example}\n```\n\n{code.cure}\n"
