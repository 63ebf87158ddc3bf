"""Small hand-made runs, and what the search concludes of them."""

from __future__ import annotations

from comparison_rows import IN, edge, pairs_of, passes, row

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind

U = 2.0**-11


def chain(*errors, types=None, **more):
    """Nodes n0, n1 ... each reading its predecessor's output, with these relative errors of their outputs."""
    rows, edges = [row("n0", IN, relative=0.0, **more)], []
    for number, error in enumerate(errors):
        figures = error if isinstance(error, dict) else {"relative": error}
        if number:
            before = errors[number - 1]
            rows.append(row(f"n{number}", IN, **(before if isinstance(before, dict) else {"relative": before}), **more))
            edges.append(edge(f"n{number - 1}", f"n{number}"))
        rows.append(row(f"n{number}", **figures, **more))
    return rows, pairs_of(rows, types, edges or [edge("nowhere", "n0", 9)])


def findings_of(rows, pairs):
    return conclude(rows, pairs, passes(rows))[0]


def roles_of(rows, pairs):
    return [verdict.role for verdict in conclude(rows, pairs, passes(rows))[1]]


def names(findings, kind=FindingKind.ORIGIN):
    return [finding.node.name for finding in findings if finding.kind is kind]
