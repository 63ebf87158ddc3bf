"""Workflows: any text, alone or extending others, gives a workflow or mistakes with places inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpus_cases import CORPUS

from fuzz.seeds import DATA, ROOT
from fuzz.target import Target, check_diagnostics
from fuzz.tree import Tree
from probe_flow.engine.run.plan import make_plan
from probe_flow.errors import WorkflowError
from probe_flow.errors.diagnostics import split_lines
from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.reports.rank_merge.config import read_merge_config
from probe_flow.workflow.loading.loader import load_workflow

FILE = "w.yaml"

_TEAM = b"""version: 1
name: team
params:
  a: {type: float, default: 0.5, help: b}
  ranks: {type: list, default: [1, 2]}
  target: {type: path, default: x}
stages:
  t: {uses: dump.torch, path: "${params.target}", select: {ranks: "${params.ranks}"}}
  g: {uses: dump.torch, path: "${params.target}/${env.HOME}"}
  p: {uses: match.name, target: t, golden: g}
  r: null
"""
_MIDDLE = b"""extends: base.yaml
name: middle
stages:
  g: {path: other}
"""
_OWN = b"""extends: middle.yaml
name: own
params: {target: {default: "y"}}
stages:
  c:
    uses: compare
    pairs: p
    matrix: {bound: [0.9, "${params.a}"]}
    policy: [{where: {op_type: [A]}, pass: ["cosine >= ${matrix.bound}"]}]
  r: {uses: report, comparison: c, formats: [html, jsonl]}
"""

_ODD = (
    b"",
    b"a: &a\n  <<: *a\n",
    b"stages: {a: {uses: [compare]}}\n",
    b"stages: {a: {uses: dump.torch, matrix: {m: [[1]]}}}\n",
    b"params: {1: {}, a: {type: list, default: [[1]]}}\nstages: [1]\n",
    b"extends: [a]\nparams: 5\nstages: {a: 1, b: {uses: compare, pairs: {a: 1}, only: []}}\n",
    b"version: 1\nname: ''\nextends: .\n",
    b"version: !!int x\nstages: !!python/x {}\n",
)


def _seeds() -> Sequence[Tree]:
    alone = [{FILE: path.read_bytes()} for path in sorted((CORPUS / "valid").glob("*.yaml"))]
    packaged = [{FILE: path.read_bytes()} for path in sorted((ROOT / "workflows").glob("*.yaml"))[::4]]
    invalid = [{FILE: path.read_bytes()} for path in sorted((CORPUS / "invalid").glob("*.yaml"))[::6]]
    odd = [{FILE: text} for text in _ODD]
    return [*alone, *packaged, *invalid, *odd, {FILE: _OWN, "middle.yaml": _MIDDLE, "base.yaml": _TEAM}]


def _load(folder: Path) -> None:
    try:
        workflow = load_workflow(folder / FILE, env={"HOME": "/home"}, cwd=folder)
    except WorkflowError as error:
        _check_places(error)
        raise
    try:
        make_plan(workflow)
    except WorkflowError as error:  # its paths lead nowhere
        _check_places(error)
        check_diagnostics(error.diagnostics, error.sources)


def _check_places(error: WorkflowError) -> None:
    """Expect every mistake to name its file, and a line that this file has (0 is all of it)."""
    for each in error.diagnostics:
        assert each.span is not None or each.path is not None or each.stage is not None, each
        if each.span is not None and each.span.file in error.sources:
            lines = len(split_lines(error.sources[each.span.file]))
            assert 0 <= each.span.line <= max(lines, 1), each


def _yaml(folder: Path) -> None:
    if not (folder / FILE).is_file():
        return
    text = (folder / FILE).read_text(encoding="utf-8", errors="replace")
    document, problems = parse_yaml(text, FILE)
    assert document is not None or problems
    if problems:
        raise WorkflowError(problems, {FILE: text})


MERGE = b"""api:
  - Distributed.all_reduce.0.forward
  - Distributed.all_gather
compare_index:
  - Max diff
  - L2norm diff
"""


def _merge_seeds() -> Sequence[Tree]:
    tables = sorted((DATA / "dump_json" / "expected" / "dist_stat_bug_before_comm").glob("*.csv"))
    return [{"config.yaml": MERGE, **{f"in/{path.name}": path.read_bytes() for path in tables[:2]}}]


def _merge_config(folder: Path) -> None:
    read_merge_config(folder / "config.yaml")


TARGETS = (
    Target("workflow", _seeds, _load, renames=False),
    Target("yaml", lambda: [seed for seed in _seeds() if len(seed) == 1], _yaml, renames=False),
    Target("merge_config", _merge_seeds, _merge_config, renames=False, changes=("config.yaml",)),
)
