"""What is made of one dump, or of two: graphs of modules, the search for NaN and infinity, scripts for suspects."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz import runs, seeds
from fuzz.runs import EAGER, FILE
from fuzz.target import Target
from fuzz.tree import Tree

_ONE = "version: 1\nname: fuzz\nstages:\n  dump: {uses: dump.auto, path: target}\n"
BUILD = _ONE + "  graphs: {uses: report.graph, catalog: dump, formats: [vis, vis_db, html], overflow: true}\n"
OVERFLOW = (
    _ONE
    + """  overflow: {uses: analysis.overflow, catalog: dump, gate: findings}
  report: {uses: report, comparison: overflow, formats: [jsonl, html, junit, anomaly_analyze]}
"""
)
COMPARE = (
    EAGER
    + """  graphs: {uses: report.graph, comparison: result, formats: [vis, vis_db, html]}
  scripts:
    uses: repro
    comparison: result
    only: {comparison: result, where: {verdict: [pass, fail]}, limit: 2}
    run_scripts: false
"""
)


def _dumps(workflow: str) -> Sequence[Tree]:
    return [
        {**{f"target/{name}": content for name, content in dump.items()}, FILE: workflow.encode()}
        for dump in seeds.eager_dumps()
    ]


def _pairs() -> Sequence[Tree]:
    dumps = seeds.eager_dumps()
    sides = [(dumps[number], dumps[number]) for number in (0, 4, 5)] + [(dumps[3], dumps[4])]
    return [runs.sides(target, golden, COMPARE) for target, golden in sides]


TARGETS: tuple[Target, ...] = (
    Target("build_graph", lambda: _dumps(BUILD), runs.compare, changes=("target/",), quick=60),
    Target("overflow", lambda: _dumps(OVERFLOW), runs.compare, changes=("target/",), quick=60),
    Target("compare_graph", _pairs, runs.compare, changes=("target/", "golden/"), quick=60),
)
