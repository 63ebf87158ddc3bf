"""Codes of the plan (PF2xxx): 20xx how stages are wired."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF2001",
        "No stages",
        "`stages` is empty: there is nothing to run.",
        "stages: {}",
        "Add stages; `probe-flow templates` lists ready workflows.",
    ),
    Code(
        "PF2002",
        "Unknown stage type",
        "`uses` names a stage type that neither probe_flow nor an installed package has.",
        "target: {uses: dump.torchair, path: dump}",
        "Use one of the types that the message lists.",
    ),
    Code(
        "PF2003",
        "Dangling reference",
        "An option names a stage that the workflow does not have.",
        "pairs: {uses: match.torchair, target: target, golden: gold}",
        "Use the name of a stage; the message lists those that fit.",
    ),
    Code(
        "PF2004",
        "Stage of the wrong kind",
        "An option names a stage whose result is of another kind: a comparison needs pairs, not a dump.",
        "result: {uses: compare, pairs: target}",
        "Name a stage that gives the kind in the message.",
    ),
    Code(
        "PF2005",
        "Cycle",
        "Stages wait for each other's results, so none can start.",
        "a: {uses: compare, pairs: p, only: {comparison: b, where: {}}}\n"
        "b: {uses: compare, pairs: p, only: {comparison: a, where: {}}}",
        "Remove one of the references that the message shows.",
    ),
    Code(
        "PF2006",
        "Matrix variants that go with nothing",
        "A stage consumes two stages whose matrix entries have the same name but different values; the values that "
        "only one of them has would be left out.",
        "target: {matrix: {run: [a, b]}, ...}\ngolden: {matrix: {run: [a, c]}, ...}",
        "Give both entries the same values, or different names to compare every combination.",
    ),
    Code(
        "PF2007",
        "Unusable matrix",
        "A matrix entry has no values, has a value twice, or the variants are too many.",
        "matrix: {run: []}",
        "List every value once.",
    ),
)
