"""Put the diagnostics of a workflow into the order in which people read its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from probe_flow.errors import Diagnostic, Span
from probe_flow.workflow.model.sources import COMMAND_LINE, Sources


def arrange(problems: Sequence[Diagnostic], sources: Sources, extended_at: Mapping[str, Span]) -> list[Diagnostic]:
    """Return each diagnostic once, sorted by place; those of a base file say who extends it.

    Args:
        problems: as found; variants of a stage repeat each other's.
        sources: in the order in which files were read, the workflow itself first.
        extended_at: of each base file, where it is named.
    """
    once: dict[object, Diagnostic] = {}
    for problem in problems:
        once.setdefault((problem.code, problem.span, problem.message), problem)
    ranks = {COMMAND_LINE: -1, **{name: i for i, name in enumerate(n for n in sources.texts if n != COMMAND_LINE)}}

    def order(problem: Diagnostic) -> tuple[int, int, int, str]:
        span = problem.span or Span("")
        return ranks.get(span.file, -1), span.line, span.column, problem.code

    return [_with_origin(problem, extended_at) for problem in sorted(once.values(), key=order)]


def _with_origin(problem: Diagnostic, extended_at: Mapping[str, Span]) -> Diagnostic:
    at = extended_at.get(problem.span.file) if problem.span else None
    if at is None:
        return problem
    return replace(problem, notes=(*problem.notes, f"`{at}` extends this file"))
